"""Files of labels and queues that cannot be used, and what `label` cannot do. Single rows: see test_label_import.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline import schemas
from audit_pipeline.duplicates.label_files import read_rows, write_rows
from audit_pipeline.duplicates.label_store import read_labels, write_labels
from audit_pipeline.report.loading import LoadedReport
from audit_pipeline.stages import labelling
from audit_pipeline.stages.labelled_corpus import LabelledCorpus
from audit_pipeline.state import StateFolder, write_json, write_table
from audit_pipeline_tests.messages.case import Case, World


def filled(name: str, content: str | bytes) -> Callable[[World], object]:
    """The cause that is a filled-in file of this content."""
    return lambda world: read_rows(world.write(name, content))


def labels_only(world: World) -> None:
    path = world.write("pairs.csv", "chunk_id_a,chunk_id_b,duplicate,origin\na,b,true,corpus\n")
    labelling.export_labels(path, False, None, "full")


def corpus(folder: Path) -> LabelledCorpus:
    settings = {"labels": {"pairs": None}, "duplicates": {"thresholds": [0.9], "shingle_words": 5}}
    return LabelledCorpus(LoadedReport(StateFolder(folder, "docs"), {"settings": settings}))


def older_audit(world: World) -> None:
    summary = {"neighbours": {"near_misses": 0}, "pairs": {"possible": 1}}
    write_json(world.folder / "audits/docs/corpus/neighbour_pairs/stage.json", {"summary": summary})
    labelling.label_queue(corpus(world.folder), 10, 0, [], "full")


def audit_without_candidates(world: World) -> None:
    folder = StateFolder(world.folder, "docs").corpus
    for stage, name, table in (
        ("neighbour_pairs", "candidate_pairs", schemas.CANDIDATE_PAIRS.empty_table()),
        ("neighbour_pairs", "near_misses", schemas.LABEL_POOL.empty_table()),
        ("neighbour_pairs", "other_texts", pa.table({"chunk_id": pa.array([], pa.string()), "text": []})),
        ("similarity_floor", "random_pairs", schemas.LABEL_POOL.empty_table()),
    ):
        write_table(folder / stage / f"{name}.parquet", table)
    older_audit(world)


def no_parquet(world: World) -> None:
    world.write("pairs.parquet", "text")
    read_labels(world.folder / "pairs.parquet")


def parquet_of_others(world: World) -> None:
    pq.write_table(pa.table({"id": ["a"]}), world.folder / "pairs.parquet")
    read_labels(world.folder / "pairs.parquet")


def into_itself(world: World) -> None:
    queue = world.write("q.csv", "chunk_id_a,chunk_id_b,duplicate,text_a\na,b,yes,one\nc,d,,two\n")
    before = queue.read_text()
    try:
        labelling.import_labels(queue, world.folder / "." / "q.csv", "", None)
    finally:
        assert queue.read_text() == before  # the texts and the row that nobody has answered yet


def into_another_queue(rows: str) -> Callable[[World], object]:
    """The cause that is answers imported into a file that is a queue itself; it stays as it is."""

    def cause(world: World) -> None:
        answers = world.write("q.csv", "chunk_id_a,chunk_id_b,duplicate,text_a\na,b,yes,one\n")
        queue = world.write("next.csv", rows)
        try:
            labelling.import_labels(answers, queue, "", None)
        finally:
            assert queue.read_text() == rows

    return cause


LACKS = "FOLDER/{0}: no column {1!r} in it: keep the columns of the queue, chunk_id_a, chunk_id_b, duplicate at least"

CASES = [
    Case(
        "a filled-in workbook",
        filled("queue.xlsx", b"PK"),
        "FOLDER/queue.xlsx: labels are read from .csv, .jsonl, .json (Label Studio) or .parquet: rename it",
    ),
    Case("a column was deleted", filled("q.csv", "chunk_id_a,duplicate\na,yes\n"), LACKS.format("q.csv", "chunk_id_b")),
    Case("a Parquet file of something else", parquet_of_others, LACKS.format("pairs.parquet", "chunk_id_a")),
    Case(
        "a folder that cannot be written",
        lambda world: write_rows([], ["nr"], "csv", world.write("file", "") / "queue.csv"),
        "FOLDER/file/queue.csv: cannot be written (…): choose another file",
    ),
    Case(
        "no filled-in file",
        lambda world: read_rows(world.folder / "absent.csv"),
        "FOLDER/absent.csv: cannot be read (No such file or directory): check the path",
    ),
    Case(
        "a CSV in the encoding of Windows",
        filled("q.csv", "chunk_id_a,chunk_id_b,duplicate\n\xe4,b,yes\n".encode("cp1252")),
        "FOLDER/q.csv: is not UTF-8: save it as UTF-8 (in Excel: 'CSV UTF-8')",
    ),
    Case(
        "a CSV in UTF-16 without a mark",
        filled("q.csv", "chunk_id_a,chunk_id_b,duplicate\n".encode("utf-16-le")),
        "FOLDER/q.csv: holds NUL characters, as UTF-16 does: save it as UTF-8 (in Excel: 'CSV UTF-8')",
    ),
    Case(
        "a CSV whose quotes do not close",
        filled("q.csv", 'chunk_id_a,chunk_id_b,duplicate\na,b,"yes\n'),
        "FOLDER/q.csv: is no CSV (unexpected end of data): save it as 'CSV UTF-8' again",
    ),
    Case(
        "a CSV that was saved empty",
        filled("q.csv", ""),
        "FOLDER/q.csv: is empty, without even a header: save it as 'CSV UTF-8' again",
    ),
    Case(
        "answers imported into their own file",
        into_itself,
        "FOLDER/q.csv: answers are not imported into their own file: name another with --into",
    ),
    Case(
        "answers imported into a queue that nobody has filled in",
        into_another_queue("chunk_id_a,chunk_id_b,duplicate,text_a\na,b,,one\n"),
        "FOLDER/next.csv: is a queue to fill in and no labels file: name another file with --into",
    ),
    Case(
        "answers imported into a queue that is filled in",
        into_another_queue("nr,chunk_id_a,chunk_id_b,duplicate,text_a\n1,a,b,yes,one\n"),
        "FOLDER/next.csv: is a queue to fill in and no labels file: name another file with --into",
    ),
    Case(
        "a line of answers that is not JSON",
        filled("q.jsonl", "\nyes\n"),
        "FOLDER/q.jsonl: line 2 is not JSON: write one object a line",
    ),
    Case(
        "a line of answers that is no object",
        filled("q.jsonl", "[1]\n"),
        "FOLDER/q.jsonl: line 1 is no object: write one object a line",
    ),
    Case(
        "labels that are no Parquet",
        no_parquet,
        "FOLDER/pairs.parquet: cannot be read (…): check the path and the file",
    ),
    Case(
        "an export that is not JSON",
        filled("q.json", "tasks"),
        "FOLDER/q.json: is not JSON: save Label Studio's JSON export again",
    ),
    Case(
        "an export that is no list",
        filled("q.json", "{}"),
        "FOLDER/q.json: is no list of tasks: save Label Studio's JSON export again",
    ),
    Case(
        "an export as JSON-MIN",
        filled("q.json", json.dumps([{"id": 1, "chunk_id_a": "a", "duplicate": "duplicate"}])),
        "FOLDER/q.json: task 1 lacks data or a list of annotations: save Label Studio's export as JSON, not JSON-MIN",
    ),
    Case(
        "labels in a file of another kind",
        lambda world: read_labels(world.folder / "pairs.json"),
        "FOLDER/pairs.json: labels are kept as .parquet, .csv or .jsonl: name such a file",
    ),
    Case(
        "labels into a file of another kind",
        lambda world: write_labels(world.folder / "pairs.txt", []),
        "FOLDER/pairs.txt: labels are kept as .parquet, .csv or .jsonl: name such a file",
    ),
    Case(
        "an audit of an older version",
        older_audit,
        "FOLDER/audits/docs/corpus/neighbour_pairs/candidate_pairs.parquet: the last audit left no such table: "
        "run the audit again with this version",
    ),
    Case(
        "nothing left to label",
        audit_without_candidates,
        "FOLDER/reports/docs: no pair is left to label: every candidate has a label, or there are none; "
        "check duplicates.neighbours",
    ),
    Case(
        "texts of nobody knows which audit",
        labels_only,
        "FOLDER/pairs.csv: texts are wanted, but not known of which audit: name it with --name, or use --text none",
    ),
    Case(
        "an unknown format",
        lambda world: labelling.format_of("xlsx", None),
        "--format xlsx: there is no such format: use one of csv, jsonl, label-studio",
    ),
    Case(
        "an unknown amount of text",
        lambda world: labelling.text_of("half"),
        "--text half: there is no such amount: use one of full, excerpt, none",
    ),
]
