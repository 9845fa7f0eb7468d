"""Files of labels that cannot be read. Single labels that cannot be used are counted: see test_counted.py."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline.corpus.labelled_queries import read_labelled_queries
from audit_pipeline.corpus.observed_queries import read_observed_queries
from audit_pipeline.duplicates.labelled_pairs import read_labelled_pairs
from audit_pipeline_tests.messages.case import Case, World

CHUNKS = pa.table({"chunk_id": ["1"], "doc_id": ["d"], "text": ["Bears sleep in caves."]})
BEIR = '{"_id": "q", "text": "bears"}\n'


def queries(content: str | bytes, qrels: str | bytes | None = None) -> Callable[[World], object]:
    """The cause that is a file of queries, with one of judgements where there is one."""

    def cause(world: World) -> None:
        judged = None if qrels is None else world.write("qrels.tsv", qrels)
        read_labelled_queries(world.write("q.jsonl", content), judged, CHUNKS)

    return cause


def pairs(name: str, content: str | bytes) -> Callable[[World], object]:
    """The cause that is a file of labelled pairs."""
    return lambda world: read_labelled_pairs(world.write(name, content))


def pairs_whose_ids_are_lists(world: World) -> None:
    row = {"chunk_id_a": ["a"], "chunk_id_b": "b", "duplicate": True, "origin": "corpus"}
    pq.write_table(pa.Table.from_pylist([row]), world.folder / "pairs.parquet")
    read_labelled_pairs(world.folder / "pairs.parquet")


def log(content: str | bytes, name: str = "log.jsonl") -> Callable[[World], object]:
    """The cause that is a log of the application's queries."""
    return lambda world: read_observed_queries(world.write(name, content), 9, 0)


def log_of_columns(**columns: object) -> Callable[[World], object]:
    """The cause that is a Parquet log of these columns, a row each."""

    def cause(world: World) -> None:
        pq.write_table(pa.Table.from_pylist([columns]), world.folder / "log.parquet")
        read_observed_queries(world.folder / "log.parquet", 9, 0)

    return cause


CASES = [
    Case(
        "a BEIR query without an id",
        queries('{"text": "bears"}\n', ""),
        "FOLDER/q.jsonl: line 1 lacks '_id' or 'text': write both into each BEIR query",
    ),
    Case(
        "BEIR queries without judgements",
        queries(BEIR),
        "FOLDER/q.jsonl: line 1 lacks 'query', or all of 'chunk_id', 'doc_id' and 'contains': add them, "
        "or name the judgements of BEIR queries under labels.qrels",
    ),
    Case(
        "a query without an answer",
        queries('{"query": "bears"}\n'),
        "FOLDER/q.jsonl: line 1 lacks 'query', or all of 'chunk_id', 'doc_id' and 'contains': add them, "
        "or name the judgements of BEIR queries under labels.qrels",
    ),
    Case(
        "no file of queries",
        lambda world: read_labelled_queries(world.folder / "absent.jsonl", None, CHUNKS),
        "FOLDER/absent.jsonl: the queries cannot be read (No such file or directory): check labels.queries",
    ),
    Case(
        "queries in another encoding",
        queries(BEIR.replace("bears", "b\xe4ren").encode("latin-1")),
        "FOLDER/q.jsonl: the queries cannot be read (it is not UTF-8): check labels.queries",
    ),
    Case(
        "a query that is not JSON",
        queries("\nbears\n"),
        "FOLDER/q.jsonl: line 2 is not JSON (Expecting value: line 1 column 1 (char 0)): write one object a line",
    ),
    Case(
        "a query that is no object",
        queries('"bears"\n'),
        "FOLDER/q.jsonl: line 1 is not a JSON object: write one object a line",
    ),
    Case(
        "a query with half a surrogate pair",
        queries('{"_id": "1", "text": "bears \\ud800"}\n'),
        "FOLDER/q.jsonl: line 1 holds half a surrogate pair, which is no character: write the text as valid Unicode",
    ),
    Case(
        "no file of judgements",
        lambda world: read_labelled_queries(world.write("q.jsonl", BEIR), world.folder / "absent.tsv", CHUNKS),
        "FOLDER/absent.tsv: the judgements cannot be read (No such file or directory): check labels.qrels",
    ),
    Case(
        "judgements divided by spaces",
        queries(BEIR, "q 1 1\n"),
        "FOLDER/qrels.tsv: line 1 has 1 columns: write query-id, corpus-id and score divided by tabs",
    ),
    Case(
        "judgements as TREC has them",
        queries(BEIR, "q\t1\t1\nq\t0\t1\t1\n"),
        "FOLDER/qrels.tsv: line 2 has 4 columns: write query-id, corpus-id and score divided by tabs",
    ),
    Case(
        "pairs in a spreadsheet",
        lambda world: read_labelled_pairs(world.folder / "pairs.xlsx"),
        "labels.pairs: FOLDER/pairs.xlsx is neither .parquet, .csv nor .jsonl: convert it to one of them",
    ),
    Case(
        "no file of pairs",
        lambda world: read_labelled_pairs(world.folder / "absent.csv"),
        "labels.pairs: FOLDER/absent.csv: cannot be read (No such file or directory): check the path",
    ),
    Case(
        "pairs in another encoding",
        pairs("pairs.csv", "chunk_id_a,chunk_id_b,duplicate,origin,gr\xfcnde\n".encode("latin-1")),
        "labels.pairs: FOLDER/pairs.csv: is not UTF-8: save it as UTF-8 (in Excel: 'CSV UTF-8')",
    ),
    Case(
        "pairs of which a line has one comma too many",
        pairs("pairs.csv", "chunk_id_a,chunk_id_b,duplicate,origin\na,b,yes,corpus,\nc,d,e,yes,corpus\n"),
        "labels.pairs: FOLDER/pairs.csv: row 2 has more fields than columns: write values that hold a delimiter in "
        "double quotes",
    ),
    Case(
        "no file of pairs as Parquet",
        lambda world: read_labelled_pairs(world.folder / "absent.parquet"),
        "labels.pairs: FOLDER/absent.parquet cannot be read (…): check the path and the file",
    ),
    Case(
        "pairs that are no Parquet",
        pairs("pairs.parquet", "a,b,true,corpus\n"),
        "labels.pairs: FOLDER/pairs.parquet cannot be read (…Parquet magic bytes not found…): "
        "check the path and the file",
    ),
    Case(
        "a column of pairs with another name",
        pairs("pairs.csv", "chunk_id_a,chunk_id_b,label,origin\na,b,1,corpus\n"),
        "labels.pairs: FOLDER/pairs.csv has no column 'duplicate'; its columns are chunk_id_a, chunk_id_b, label, "
        "origin, needed are chunk_id_a, chunk_id_b, duplicate, origin: add or rename it",
    ),
    Case(
        "pairs whose ids are lists",
        pairs_whose_ids_are_lists,
        "labels.pairs: column 'chunk_id_a' of FOLDER/pairs.parquet is of type list<element: string>: write it as text",
    ),
    Case(
        "a log in a spreadsheet",
        lambda world: read_observed_queries(world.folder / "log.xlsx", 9, 0),
        "labels.observed: FOLDER/log.xlsx is neither .parquet nor .jsonl: convert it to one of them",
    ),
    Case(
        "a log that is no Parquet",
        log("bears in caves", "log.parquet"),
        "labels.observed: FOLDER/log.parquet cannot be read (Parquet magic bytes not found…): "
        "check the path and the file",
    ),
    Case(
        "a log in another encoding",
        log('{"query": "b\xe4ren", "vector": [1]}\n'.encode("latin-1")),
        "labels.observed: FOLDER/log.jsonl cannot be read ('utf-8' codec can't decode byte 0xe4 in position …): "
        "check the path and the file",
    ),
    Case(
        "a log without vectors and ids",
        log_of_columns(query="bears", user="me"),
        "labels.observed: FOLDER/log.parquet needs the columns 'query' and 'vector' or 'returned_ids'; its columns are "
        "query, user: rename or add them",
    ),
    Case(
        "a log whose vectors are text",
        log_of_columns(query="bears", vector="[1, 0]"),
        "labels.observed: FOLDER/log.parquet: column 'vector' holds string, expected lists of numbers: convert it",
    ),
    Case(
        "a logged query that is not JSON",
        log("\nbears\n"),
        "labels.observed: FOLDER/log.jsonl: line 2 is not JSON (Expecting value: line 1 column 1 (char 0)): "
        "write one object a line",
    ),
    Case(
        "a logged query alone",
        log('{"query": "bears"}\n'),
        "labels.observed: FOLDER/log.jsonl: line 1 is no object with 'query' and 'vector' or 'returned_ids': "
        "write them",
    ),
    Case(
        "a logged query that is a number",
        log('{"query": 1, "vector": [1, 0]}\n'),
        "labels.observed: FOLDER/log.jsonl: line 1: 'query' is no text: write the text or null",
    ),
    Case(
        "a logged vector that is text",
        log('{"query": "bears", "vector": "[1, 0]"}\n'),
        "labels.observed: FOLDER/log.jsonl: line 1: 'vector' is no list of numbers: write the vector as sent, or null",
    ),
    Case(
        "logged ids that are one id",
        log('{"query": "bears", "returned_ids": "c1"}\n'),
        "labels.observed: FOLDER/log.jsonl: line 1: 'returned_ids' is no list of text or whole numbers: "
        "write the ids, or null",
    ),
]
