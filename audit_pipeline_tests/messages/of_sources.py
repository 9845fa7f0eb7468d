"""Source data that cannot be used as the settings say."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline.corpus import json_lines
from audit_pipeline_tests.corpus.builders import store_of
from audit_pipeline_tests.messages.case import Case, World

GOOD = {"chunk_id": "a", "text": "t"}


def parquet(*rows: dict[str, Any], **entry: Any) -> Callable[[World], object]:
    """The cause that is a Parquet file of these rows, read as an entry of the source store."""

    def cause(world: World) -> None:
        pq.write_table(pa.Table.from_pylist(list(rows)), world.folder / "rows.parquet")
        scan(world, "rows.parquet", "parquet", **entry)

    return cause


def jsonl(*rows: Any, **entry: Any) -> Callable[[World], object]:
    """The same with a file of one JSON value a line."""

    def cause(world: World) -> None:
        world.write_jsonl("rows.jsonl", *rows)
        scan(world, "rows.jsonl", "jsonl", **entry)

    return cause


def file(name: str, content: str | bytes, file_format: str, **entry: Any) -> Callable[[World], object]:
    """The same with a file of this content."""

    def cause(world: World) -> None:
        world.write(name, content)
        scan(world, name, file_format, **entry)

    return cause


def scan(world: World, uri: str, file_format: str, **entry: Any) -> None:
    uri = uri if "://" in uri else str(world.folder / uri)
    store_of({"name": "s", "uri": uri, "format": file_format, **entry}).scan()


def docstrings(uri: str, packages: list[str]) -> Callable[[World], object]:
    """The cause that is this source over an installed distribution named toolbox."""

    def cause(world: World) -> None:
        world.write("site/toolbox/__init__.py", '"""Tools."""')
        world.write("site/toolbox-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: toolbox\nVersion: 1.0\n")
        world.write("site/toolbox-1.0.dist-info/RECORD", "toolbox/__init__.py,,\n")
        world.patch.syspath_prepend(str(world.folder / "site"))
        store_of({"name": "s", "uri": uri, "format": "docstrings", "packages": packages}).scan()

    return cause


def lance(
    spoil: Callable[[World], object] = lambda world: None, uri: str = "db", audited: str = "", **settings: Any
) -> Callable[[World], object]:
    """The cause that is a database with the tables docs and faq, spoilt, read as this uri with these settings.

    ``audited`` is the table of it that is under audit itself.
    """

    def cause(world: World) -> None:
        for name in ("docs", "faq"):
            lancedb.connect(str(world.folder / "db")).create_table(name, pa.Table.from_pylist([GOOD]))
        spoil(world)
        entry = {"name": "s", "uri": str(world.folder / uri), "format": "lance"} | (
            {"lance": settings} if settings else {}
        )
        store_of(entry, index_uri=str(world.folder / "db"), table=audited or "t").scan()

    return cause


def endless(world: World) -> None:
    """A line of more than the most bytes, which are lowered to 64."""
    world.patch.setattr(json_lines, "_LONGEST_LINE", 64)
    file("a.jsonl", f'{{"chunk_id": "a", "text": "t"}}\n{{"chunk_id": "b", "text": "{"t" * 64}"}}\n', "jsonl")(world)


def without(pattern: str) -> Callable[[World], object]:
    """Deletes the files of the table docs that fit."""
    return lambda world: [path.unlink() for path in (world.folder / "db" / "docs.lance").glob(pattern)]


CASES = [
    Case(
        "a Lance table that is not there",
        lance(uri="nowhere/docs.lance"),
        "source 's': there is no folder FOLDER/nowhere/docs.lance: name a table (x.lance) or its database as uri",
    ),
    Case(
        "a Lance table that is the one under audit",
        lance(table="docs", audited="docs"),
        "source 's': FOLDER/db is the audited table 'docs' itself, which lacks nothing of itself: "
        "name the table that it is filled from, or a version of it to compare with under lance: {version: ...}",
    ),
    Case(
        "a storage option that no reader of files heeds",
        lambda world: scan(world, "gs://bucket/rows", "csv", storage_options={"google_service_account": "marked"}),
        "source 's': storage_options: 'google_service_account' is not heeded where files are read, only "
        "google_skip_signature: remove it, or set it in the environment",
    ),
    Case(
        "half of the keys of an object store, whose values are not repeated",
        lambda world: scan(
            world, "s3://b/rows", "csv", storage_options={"aws_secret_access_key": "marked", "region": "r"}
        ),
        "source 's': s3://b/rows cannot be listed (…both access_key and secret_key…): "
        "check its uri and storage_options",
    ),
    Case(
        "a Lance database of two tables",
        lance(),
        "source 's': FOLDER/db is no single table; it holds docs, faq: name one under lance: {table: ...}",
    ),
    Case(
        "a table that the Lance database does not have",
        lance(table="doc"),
        "source 's': FOLDER/db has no table 'doc' (did you mean 'docs'?); it holds docs, faq: "
        "name one under lance: {table: ...}",
    ),
    Case(
        "a version that the Lance table does not have",
        lance(table="docs", version=7),
        "source 's': table 'docs' at FOLDER/db has no version 7, its newest is 1: correct lance.version, or remove it",
    ),
    Case(
        "a Lance table whose version is damaged",
        lance(lambda world: world.write("db/docs.lance/_versions/18446744073709551614.manifest", "none"), table="docs"),
        "source 's': FOLDER/db cannot be opened as lance (…): check that it is a whole LanceDB table",
    ),
    Case(
        "a Lance table whose rows are gone",
        lance(without("data/*"), table="docs"),
        "source 's', docs.lance: version 1 cannot be read (…): mend the table or remove the entry",
    ),
    Case(
        "no column of ids in a Lance table",
        lance(
            lambda world: lancedb.connect(str(world.folder / "db")).create_table(
                "docs", pa.table({"id": ["a"], "text": ["t"]}), mode="overwrite"
            ),
            table="docs",
        ),
        "source 's', docs.lance: no column 'chunk_id' for chunk_id; columns are id, text: "
        "name it under columns: {chunk_id: ...}",
    ),
    Case(
        "a folder without a file of the format",
        lambda world: scan(world, "", "csv"),
        "source 's': no csv file at FOLDER: check the path, or the format (.csv, .tsv)",
    ),
    Case(
        "a store that cannot be listed",
        lambda world: scan(world, "nosuch://bucket/rows", "csv"),
        "source 's': nosuch://bucket/rows cannot be listed (Unrecognized filesystem type in URI: …): check its uri",
    ),
    Case(
        "no Parquet",
        file("a.parquet", "no parquet at all, but text", "parquet"),
        "source 's', a.parquet: cannot be read as parquet (Parquet magic bytes not found in footer. …): "
        "mend or remove it",
    ),
    Case(
        "a csv row too long, whose text is not repeated",
        file("a.csv", "chunk_id,text\na,one\nb,two,secret\n", "csv"),
        "source 's', a.csv: cannot be read as csv (CSV parse error:…Expected 2 columns, got 3): mend or remove it",
    ),
    Case(
        "a line that is not JSON",
        file("a.jsonl", '{"chunk_id": 1, "text": "t"}\n{oops\n', "jsonl"),
        "source 's', a.jsonl: line 2 is not JSON (Expecting property name enclosed in double quotes: …): "
        "mend or remove it",
    ),
    Case(
        "a quote of a csv file that nothing closes",
        file("a.csv", 'chunk_id,text\na,"one\nb,two\n', "csv"),
        "source 's', a.csv: a quote is opened and never closed: mend the row that it stands in",
    ),
    Case(
        "a csv file in UTF-16",
        file("a.csv", "chunk_id,text\na,one\n".encode("utf-16"), "csv"),
        "source 's', a.csv: the file is UTF-16: write it as UTF-8",
    ),
    Case(
        "JSON lines in UTF-16",
        file("a.jsonl", '{"chunk_id": "a", "text": "t"}\n'.encode("utf-16"), "jsonl"),
        "source 's', a.jsonl: the file is UTF-16: write it as UTF-8",
    ),
    Case(
        "an array of objects instead of lines",
        file("a.json", '[{"chunk_id": "a", "text": "t"},\n {"chunk_id": "b", "text": "t"}]', "jsonl"),
        "source 's', a.json: the file is one JSON array, not lines of objects: write one object a line (jq -c)",
    ),
    Case(
        "an object over several lines",
        file("a.json", '{\n "chunk_id": "a",\n "text": "t"\n}', "jsonl"),
        "source 's', a.json: the file is one JSON object, not lines of objects: write one object a line (jq -c)",
    ),
    Case(
        "a line without an end",
        endless,
        "source 's', a.jsonl: line 2 is longer than 0 MiB: write one object a line",
    ),
    Case(
        "an object of more levels than can be read",
        file("a.jsonl", '{"chunk_id": "a", "text": "t", "m": ' + "[" * 100_000 + "]" * 100_000 + "}", "jsonl"),
        "source 's', a.jsonl: line 1 is not JSON (maximum recursion depth exceeded…): mend or remove it",
    ),
    Case(
        "a link to nothing",
        lambda world: ((world.folder / "a.md").symlink_to("gone.md"), scan(world, "", "markdown")),
        "source 's': FOLDER cannot be listed (FOLDER/a.md is not there, or a link to nothing): check its uri",
    ),
    Case(
        "a link to nothing that a pattern matches",
        lambda world: ((world.folder / "a.md").symlink_to("gone.md"), scan(world, "*.md", "markdown")),
        "source 's': FOLDER/*.md cannot be listed (FOLDER/a.md is not there, or a link to nothing): check its uri",
    ),
    Case(
        "a file whose name is not UTF-8",
        lambda world: (
            Path(os.fsdecode(bytes(world.folder) + b"/caf\xe9.md")).write_text("t"),
            scan(world, "", "markdown"),
        ),
        "source 's': FOLDER cannot be listed (the name of FOLDER/caf\ufffd.md is not UTF-8): check its uri",
    ),
    Case(
        "a line that is no object",
        jsonl(GOOD, ["b", "t"]),
        "source 's', rows.jsonl: line 2 is not a JSON object: write one object a line",
    ),
    Case(
        "no column of ids",
        parquet({"id": "a", "text": "t"}),
        "source 's', rows.parquet: no column 'chunk_id' for chunk_id; columns are id, text: "
        "name it under columns: {chunk_id: ...}",
    ),
    Case(
        "no column of texts, but one alike",
        parquet({"chunk_id": "a", "txt": "t"}),
        "source 's', rows.parquet: no column 'text' for text; did you mean 'txt'? columns are chunk_id, txt: "
        "name it under columns: {text: ...}",
    ),
    Case(
        "two columns of one name",
        file("a.csv", "chunk_id,text,text\na,one,two\n", "csv"),
        "source 's', a.csv: 2 columns are called 'text', so text is not decided: rename one, "
        "or name another column under columns: {text: ...}",
    ),
    Case(
        "names of columns in Latin-1",
        file("a.csv", "chunk_id,text,größe\na,one,2\n".encode("latin-1"), "csv"),
        "source 's', a.csv: the names of its columns are not UTF-8: write the file as UTF-8",
    ),
    Case(
        "front matter that cannot be read",
        file("a.md", "---\nsecret: a: b\n---\ntext\n", "markdown", columns={"ingestion_date": "date"}),
        "source 's', a.md: its front matter cannot be read (YAML, mapping values are not allowed here): "
        "mend it, or remove columns: {ingestion_date: ...}",
    ),
    Case(
        "a mapped column that is not there",
        parquet(GOOD, columns={"heading": "title"}),
        "source 's', rows.parquet: no column 'title' for heading; columns are chunk_id, text: "
        "name it under columns: {heading: ...}",
    ),
    Case(
        "a mapped field that no line has",
        jsonl(GOOD, columns={"heading": "title"}),
        "source 's': no row of FOLDER/rows.jsonl has the column 'title': correct columns: {heading: ...}",
    ),
    Case(
        "a path into a struct that lacks the field",
        parquet(GOOD | {"meta": {"page": 1}}, columns={"heading": "meta.title"}),
        "source 's', rows.parquet: no column 'meta.title' for heading; 'meta' holds page: "
        "correct columns: {heading: ...}",
    ),
    Case(
        "a path into a column of strings",
        parquet(GOOD | {"meta": "{}"}, columns={"heading": "meta.title"}),
        "source 's', rows.parquet: no column 'meta.title' for heading; 'meta' is of type string, not a struct: "
        "correct columns: {heading: ...}",
    ),
    Case(
        "a key that no row's JSON has",
        parquet(GOOD | {"meta": '{"page": 1}'}, columns={"heading": "meta$.title"}),
        "source 's': no row of FOLDER/rows.parquet has the column 'meta$.title'; its JSON holds page: "
        "correct columns: {heading: ...}",
    ),
    Case(
        "a text that is a struct",
        parquet({"chunk_id": "a", "text": {"x": 1}}),
        "source 's', rows.parquet: column 'text' for text is of type struct<x: int64>, expected strings: "
        "convert it, or name another column under columns: {text: ...}",
    ),
    Case(
        "a text that is a list in jsonl",
        jsonl({"chunk_id": "a", "text": ["t"]}),
        "source 's', rows.jsonl: column 'text' for text holds a JSON array, expected a string: "
        "convert it, or name another column under columns: {text: ...}",
    ),
    Case(
        "an id that is true or false",
        parquet({"chunk_id": True, "text": "t"}),
        "source 's', rows.parquet: column 'chunk_id' for chunk_id is of type bool, expected strings or integers: "
        "convert it, or name another column under columns: {chunk_id: ...}",
    ),
    Case(
        "a date that is true or false",
        parquet(GOOD | {"ingestion_date": True}),
        "source 's', rows.parquet: column 'ingestion_date' for ingestion_date is of type bool, expected dates, "
        "timestamps, strings or epoch numbers: convert it, or name another column under columns: {ingestion_date: ...}",
    ),
    Case(
        "a position that is a word",
        parquet(GOOD | {"position": "first"}),
        "source 's', rows.parquet: column 'position' for position is of type string, expected whole numbers "
        "under 2^31: convert it, or name another column under columns: {position: ...}",
    ),
    Case(
        "a position that is a list",
        parquet(GOOD | {"position": [1]}),
        "source 's', rows.parquet: column 'position' for position is of type list<…: int64>, expected whole numbers "
        "under 2^31: convert it, or name another column under columns: {position: ...}",
    ),
    Case(
        "every source of a file that has none",
        parquet(GOOD, name="*"),
        "source '*', rows.parquet: name '*' takes every value of the source column, but there is none: "
        "give the source a name, or name the column under columns: {source: ...}",
    ),
    Case(
        "a name that no row carries",
        parquet(GOOD | {"source": "x"}, GOOD | {"source": "y|z"}, GOOD | {"source": None}, name="X"),
        "source 'X': no row of FOLDER/rows.parquet has this source but '(none)', 'x', 'y|z': "
        "correct the name, or use '*' for all of them",
    ),
    Case(
        "two sources with one partition key",
        parquet(GOOD | {"source": "A b"}, {"chunk_id": "b", "text": "t", "source": "a-b"}, name="*"),
        "sources: 'A b' and 'a-b' both give the partition key 'a-b': rename one of them in the data",
    ),
    Case(
        "rows without a source beside a source named none",
        parquet(GOOD | {"source": None}, {"chunk_id": "b", "text": "t", "source": "none"}, name="*"),
        "sources: '(none)' and 'none' both give the partition key 'none': rename one of them in the data",
    ),
    Case(
        "a distribution that is not installed",
        docstrings("tolbox", []),
        "source 's': no distribution 'tolbox' is installed (did you mean 'toolbox'?): install it, or correct the uri",
    ),
    Case(
        "a package that the distribution does not have",
        docstrings("toolbox", ["toolbox.x"]),
        "source 's': distribution 'toolbox' has no package toolbox.x; it holds toolbox: correct 'packages' or the uri",
    ),
]
