"""LanceDB folders, tables and columns that cannot be audited as the settings say."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa

from audit_pipeline.index import reading
from audit_pipeline.index.blocks import check_out
from audit_pipeline.index.connection import connect, open_table
from audit_pipeline.index.reading import open_snapshot
from audit_pipeline.index.search import LanceSearch
from audit_pipeline.index.second_column import read_second_column
from audit_pipeline.index_settings import IndexSettings
from audit_pipeline.stages.inspection import proposal
from audit_pipeline_tests.index.builders import (
    DAY,
    as_it_stands,
    foreign,
    lists,
    snapshot_of,
    unit_vectors,
    write,
)
from audit_pipeline_tests.messages.case import Case, World


def table(version: int | None = None, **settings: Any) -> Callable[[World], object]:
    """The cause that is the settings of an index as it stands over one table, docs, of two rows."""

    def cause(world: World) -> None:
        more = {"extra": ["x", "y"], "meta": ['{"t": 1}'] * 2, "when": [True, False], "nested": [{"a": 1}] * 2}
        write(world.folder / "db", foreign(["a", "b"], unit_vectors(2), **more))
        snapshot_of(world.folder / "db", world.folder / "work", version, **settings)

    return cause


def columns(**given: Any) -> Callable[[World], object]:
    """The cause that is a table with these columns and a vector."""

    def cause(world: World) -> None:
        write(world.folder / "db", pa.table({**given, "vector": lists(unit_vectors(1))}))
        snapshot_of(world.folder / "db", world.folder / "work")

    return cause


def embed_fields(world: World) -> None:
    write(world.folder / "db", foreign(["a"], unit_vectors(1), context=["of x"]))
    uri = world.folder / "db"
    open_snapshot(as_it_stands(uri), str(uri), world.folder / "work", undated=DAY, embed_fields=("contexts",))


def second(name: str) -> Callable[[World], object]:
    """The cause that is a second vector column of this name in a table with id, text, vector and symmetric."""

    def cause(world: World) -> None:
        write(world.folder / "db", foreign(["a"], unit_vectors(1), symmetric=lists(unit_vectors(1))))
        snapshot = snapshot_of(world.folder / "db", world.folder / "work")
        settings = as_it_stands(world.folder / "db")
        read_second_column(snapshot, settings, str(world.folder / "db"), name, world.folder / "second")

    return cause


def two_shapes(world: World) -> None:
    write(world.folder / "db", pa.table({"text": ["a"], "vector": lists(unit_vectors(1))}), "one")
    write(world.folder / "db", pa.table({"body": ["a"], "vector": lists(unit_vectors(1))}), "two")
    snapshot_of(world.folder / "db", world.folder / "work", table="*")


def no_vectors(cause: Callable[[str, World], object]) -> Callable[[World], object]:
    """A cause over a folder whose only table, words, has no vectors."""

    def whole(world: World) -> object:
        write(world.folder / "db", pa.table({"text": ["a"]}), "words")
        return cause(str(world.folder / "db"), world)

    return whole


def damaged_table(world: World) -> None:
    (world.folder / "db" / "docs.lance").mkdir(parents=True)
    snapshot_of(world.folder / "db", world.folder / "work")


def lost_store(world: World) -> None:
    """A store that can be reached and then no more: the connection stands, and its list is refused."""
    database = connect(str(world.folder))

    def refused(*_: object, **__: object) -> None:
        raise OSError("access denied\nand more lines")

    world.patch.setattr(type(database), "list_tables", refused, raising=True)
    open_table(database, "docs")


def graph_index(**search: Any) -> Callable[[World], object]:
    """The cause that is a search over an HNSW index."""

    def cause(world: World) -> None:
        table = write(world.folder / "db", foreign([f"c{n}" for n in range(256)], unit_vectors(256)))
        table.create_index("vector", config=lancedb.index.HnswSq(distance_type="cosine"))
        snapshot_of(world.folder / "db", world.folder / "work", search=search)

    return cause


ALL = "chunk_id, text, extra, meta, when, nested, vector"


def version_removed_while_it_is_searched(world: World) -> None:
    """The writer replaces the table's rows and cleans up at once, between the audit's reading and its searches."""
    writer = lancedb.connect(str(world.folder)).create_table("docs", [{"vector": [1.0, 0.0]}, {"vector": [0.0, 1.0]}])
    audited = lancedb.connect(str(world.folder)).open_table("docs")
    audited.checkout(1)
    search = LanceSearch(audited, "vector", None, IndexSettings(), np.arange(2, dtype=np.uint64), np.arange(2))
    writer.add([{"vector": [1.0, 1.0]}], mode="overwrite")
    writer.optimize(cleanup_older_than=dt.timedelta(0))
    search.search(np.ones((1, 2), np.float32), 1)


def version_removed_while_it_is_read(world: World) -> None:
    """The writer replaces the table's rows and cleans up as soon as the audit has pinned a version."""
    rows = [{"chunk_id": f"c{n}", "text": "t", "vector": [1.0, 0.0]} for n in range(2)]
    writer = lancedb.connect(str(world.folder)).create_table("docs", rows)

    def overtaken(table: Any, version: int, name: str) -> None:
        check_out(table, version, name)
        writer.add(rows[:1], mode="overwrite")
        writer.optimize(cleanup_older_than=dt.timedelta(0))

    world.patch.setattr(reading, "check_out", overtaken)
    settings = IndexSettings(uri=str(world.folder), table="docs", managed=False)
    open_snapshot(settings, str(world.folder), world.folder / "work", undated=DAY)


CASES = [
    Case(
        "a version that the writer removes while it is read",
        version_removed_while_it_is_read,
        "index.table: the writer removed version 1 of table 'docs' while it was audited: run again, and keep versions "
        "for as long as an audit takes",
    ),
    Case(
        "a version that the writer removes while it is audited",
        version_removed_while_it_is_searched,
        "index.table: the writer removed version 1 of table 'docs' while it was audited: run again, and keep versions "
        "for as long as an audit takes",
    ),
    Case(
        "a second vector column that is not there",
        second("symetric"),
        "duplicates.second.vector: the table has no column 'symetric' (did you mean 'symmetric'?): "
        "name one of chunk_id, text, symmetric, vector",
    ),
    Case(
        "a second vector column that holds no vectors",
        second("text"),
        "duplicates.second.vector: column 'text' is a string, no vector: name another",
    ),
    Case(
        "a folder that does not exist",
        lambda world: snapshot_of(world.folder / "nowhere", world.folder / "work"),
        "index.uri: there is no folder FOLDER/nowhere: name the folder that holds the LanceDB tables",
    ),
    Case(
        "a store of a kind that there is not",
        lambda world: connect("nosuch://bucket/db"),
        "index.uri: nosuch://bucket/db cannot be opened (Invalid input, No object store provider found for scheme: "
        "'nosuch'): check index.uri, the credentials in the environment or "
        "index.storage_options, and the network",
    ),
    Case(
        "a store that refuses its list",
        lost_store,
        "index.uri: FOLDER cannot be listed (access denied): check index.uri",
    ),
    Case(
        "a table that is not there",
        table(table="doc"),
        "index.table: no table 'doc' in FOLDER/db; did you mean 'docs'? tables are docs: "
        "correct index.table or index.uri",
    ),
    Case(
        "a table that is damaged",
        damaged_table,
        "index.table: 'docs' in FOLDER/db cannot be opened (Table 'docs' was not found): "
        "check that it is a whole LanceDB table",
    ),
    Case(
        "a version that is gone",
        table(version=99),
        "index.table: version 99 of table 'docs' cannot be read (…): audit the newest version",
    ),
    Case(
        "all tables, of which none has vectors",
        no_vectors(lambda uri, world: snapshot_of(world.folder / "db", world.folder / "work", table="*")),
        "index.table: no table in FOLDER/db has a vector column; tables are words: correct index.uri",
    ),
    Case(
        "all tables, of two shapes",
        two_shapes,
        "index.table: '*' takes tables of one shape, but 'one' and 'two' in FOLDER/db differ and no shape is the "
        "commonest: name one table",
    ),
    Case(
        "inspecting an address that holds credentials",
        lambda world: proposal("az://container/lance?sig=marked", None, None),
        "az://container/lance?sig=***: this address holds credentials, which settings and messages would repeat: set "
        "them in the environment, such as AWS_SECRET_ACCESS_KEY or AZURE_STORAGE_SAS_TOKEN",
    ),
    Case(
        "inspecting a folder without vectors",
        no_vectors(lambda uri, world: proposal(uri, None, None)),
        "index.uri: no table in FOLDER/db has a vector column; tables are words: name the folder that holds the index",
    ),
    Case(
        "inspecting a table without vectors",
        no_vectors(lambda uri, world: proposal(uri, "words", None)),
        "index.table: table 'words' in FOLDER/db has no vector column; columns are text: name another with --table",
    ),
    Case(
        "no column of texts",
        columns(content=["x"]),
        "index.columns: table 'docs' has no column 'text' for text; candidates are content; columns are content, "
        "vector: name it under index.columns: {text: ...}",
    ),
    Case(
        "no column of vectors",
        table(columns={"vector": "emb"}),
        "index.columns: table 'docs' has no column 'emb' for vector; candidates are vector; "
        f"columns are {ALL}: name it under index.columns: {{vector: ...}}",
    ),
    Case(
        "a named column that is not there",
        table(columns={"source": "extr"}),
        f"index.columns: table 'docs' has no column 'extr' for source; candidates are extra; columns are {ALL}: "
        "name it under index.columns: {source: ...}",
    ),
    Case(
        "a path into another table that is not there",
        table(columns={"source": "other[id=text].uri"}),
        f"index.columns: table 'docs' has no column 'other[id=text].uri' for source; columns are {ALL}: "
        "name it under index.columns: {source: ...}",
    ),
    Case(
        "a key that no row has",
        table(columns={"source": "meta$.nothing"}),
        "index.columns: 'meta$.nothing' for source finds nothing in any row; keys of 'meta' are t: name one of them",
    ),
    Case(
        "a vector column that holds text",
        table(columns={"vector": "text"}),
        "index.columns: column 'text' of table 'docs' is string, expected a list of floats (candidates: vector): "
        "name the vector column",
    ),
    Case(
        "a text column that holds vectors",
        table(columns={"text": "vector"}),
        "index.columns: column 'vector' for text is of type fixed_size_list<…>[16], expected strings, numbers or "
        "dates: name another column under index.columns: {text: ...}",
    ),
    Case(
        "a text column that holds true and false",
        table(columns={"text": "when"}),
        "index.columns: column 'when' for text is of type bool, expected strings: "
        "name another column under index.columns: {text: ...}",
    ),
    Case(
        "an id column that holds structs",
        table(columns={"chunk_id": "nested"}),
        "index.columns: column 'nested' for chunk_id is of type struct<a: int64>, expected strings or numbers: "
        "name another column under index.columns: {chunk_id: ...}",
    ),
    Case(
        "a date column that holds true and false",
        table(columns={"ingestion_date": "when"}),
        "index.columns: column 'when' for ingestion_date is of type bool, expected dates, timestamps, strings or epoch "
        "numbers: name another column under index.columns: {ingestion_date: ...}",
    ),
    Case(
        "a position column that holds words",
        table(columns={"position": "extra"}),
        "index.columns: column 'extra' for position is of type string, expected whole numbers under 2^31: "
        "name another column under index.columns: {position: ...}",
    ),
    Case(
        "a position column that holds true and false",
        table(columns={"position": "when"}),
        "index.columns: column 'when' for position is of type bool, expected whole numbers under 2^31: "
        "name another column under index.columns: {position: ...}",
    ),
    Case(
        "a template's column that is not there",
        embed_fields,
        "index.embed_text: table 'docs' has no column 'contexts' (did you mean 'context'?): use one of chunk_id, …",
    ),
    Case(
        "a layout that the table does not have",
        table(layout="cognee"),
        f"index.layout: table 'docs' has no 'id', which layout cognee needs; columns are {ALL}: "
        "use auto, or plain with index.columns",
    ),
    Case(
        "a registry that the table does not have",
        table(layout="lancedb_registry"),
        "index.layout: table 'docs' has no 'embedding_functions' in its schema's metadata: "
        "use auto, or plain with index.columns",
    ),
    Case(
        "a filter over an unknown column",
        table(filter="tenant = 'x'"),
        "index.filter: LanceDB refuses the search (…): correct it in the settings",
    ),
    Case(
        "a filter that is no SQL",
        table(filter="tenant = "),
        "index.filter: LanceDB refuses the search (…): correct it in the settings",
    ),
    Case(
        "an ef under the limit",
        graph_index(ef=5),
        "index.search: ef 5 is under limit 10, and LanceDB refuses such a search: correct one of them",
    ),
    Case(
        "an ef under what is re-ranked",
        graph_index(ef=15, refine_factor=2),
        "index.search: ef 15 is under limit 10 x refine_factor 2, and LanceDB refuses such a search: "
        "correct one of them",
    ),
]
