"""Rows and labels that are left out and counted: what causes each reason, and how each is told."""

from __future__ import annotations

import ast
import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.corpus import labelled_queries
from audit_pipeline.corpus.labelled_queries import read_labelled_queries
from audit_pipeline.corpus.reasons import REASONS
from audit_pipeline.corpus.rejections import rejection_findings
from audit_pipeline.corpus.scans import StoreRows
from audit_pipeline.duplicates import findings, labelled_pairs
from audit_pipeline.duplicates.labelled_pairs import validate_labelled_pairs
from audit_pipeline.duplicates.rows import nodes_of
from audit_pipeline.retrieval.labelled import label_findings
from audit_pipeline_tests.corpus.builders import TODAY, store_of
from audit_pipeline_tests.duplicates.snapshots import at_degrees, snapshot_of
from audit_pipeline_tests.messages.case import World
from audit_pipeline_tests.messages.of_labels import CHUNKS


@dataclass(frozen=True)
class Rejection:
    """A file of the source store that loses one row; ``remedy`` is empty where another check tells of such rows."""

    reason: str
    content: bytes
    detail: str
    remedy: str


GOOD = b'{"chunk_id": "a", "text": "t", "ingestion_date": "2026-01-02"}\n'

REJECTIONS = [
    Rejection(
        "missing_id",
        GOOD + b'{"chunk_id": " ", "text": "t", "ingestion_date": "2026-01-02"}\n',
        "the id is null or empty",
        "Give every row an id of its own, or map the column that holds it (columns: {chunk_id: ...}).",
    ),
    Rejection(
        "missing_text",
        GOOD + b'{"chunk_id": "b", "text": null, "ingestion_date": "2026-01-02"}\n',
        "the text is null",
        "",
    ),
    Rejection(
        "empty_text",
        GOOD + b'{"chunk_id": "b", "text": " ", "ingestion_date": "2026-01-02"}\n',
        "the text is empty or white space only",
        "",
    ),
    Rejection("duplicate_row", GOOD + GOOD, "the same row stands in this batch already", ""),
    Rejection(
        "id_collision",
        GOOD + b'{"chunk_id": "a", "text": "other", "ingestion_date": "2026-01-03"}\n',
        "the id belongs to a row of batch 2026-01-02|s with another text",
        "",
    ),
    Rejection(
        "date_out_of_range",
        GOOD + b'{"chunk_id": "b", "text": "t", "ingestion_date": "2026-07-08"}\n',
        f"the date is after today, {TODAY.isoformat()}",
        "Correct the date, or map the column that holds the day of ingestion.",
    ),
    Rejection(
        "not_yet",
        GOOD + b'{"chunk_id": "b", "text": "t", "ingestion_date": "2026-07-07"}\n',
        f"dated 2026-07-07, after today, {TODAY.isoformat()}",
        "None is needed where the dates are right: an ingest on that day brings the rows in.",
    ),
    Rejection(
        "before_start_date",
        GOOD + b'{"chunk_id": "b", "text": "t", "ingestion_date": "2025-12-31"}\n',
        "the date is before start_date, 2026-01-01",
        "Set an earlier start_date to have them audited.",
    ),
    Rejection(
        "bad_date",
        GOOD + b'{"chunk_id": "b", "text": "t", "ingestion_date": "soon"}\n',
        "column 'ingestion_date' holds no date",
        "Write the date as a date, a timestamp or YYYY-MM-DD, or give the source an ingestion_date.",
    ),
    Rejection(
        "invalid_utf8",
        GOOD + b'{"chunk_id": "b", "text": "caf\xe9", "ingestion_date": "2026-01-02"}\n',
        "the line is not valid UTF-8",
        "Write the file as UTF-8.",
    ),
    Rejection(
        "unparsable_module",
        b"def (:",
        "not parsed: SyntaxError",
        "Correct the module, or leave it out of packages.",
    ),
]


def store_rows(world: World, rejection: Rejection) -> StoreRows:
    """The rows of a store that is one file, or for a module that does not parse one installed distribution."""
    start = TODAY.replace(month=1, day=1) if rejection.reason == "before_start_date" else None
    if rejection.reason != "unparsable_module":
        uri = str(world.write("rows.jsonl", rejection.content))
        entry = {"name": "s", "uri": uri, "format": "jsonl"}
    else:
        world.write("site/toolbox/__init__.py", rejection.content)
        world.write("site/toolbox-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: toolbox\nVersion: 1.0\n")
        world.write("site/toolbox-1.0.dist-info/RECORD", "toolbox/__init__.py,,\n")
        world.patch.syspath_prepend(str(world.folder / "site"))
        entry = {"name": "s", "uri": "toolbox", "format": "docstrings", "ingestion_date": "2026-01-02"}
    return store_of(entry, start_date=start).read_all()


@pytest.mark.parametrize("rejection", REJECTIONS, ids=lambda one: one.reason)
def test_a_row_is_rejected_with_its_reason_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rejection: Rejection
) -> None:
    rows = store_rows(World(tmp_path, monkeypatch), rejection)
    rejected = rows.rejected.select(["reason", "detail"]).to_pylist()
    assert rejected == [{"reason": rejection.reason, "detail": rejection.detail}]
    for managed in (True, False):
        told = rejection_findings(rows.rejected, rows.chunks, managed=managed)
        assert [finding.remedy for finding in told] == ([rejection.remedy] if rejection.remedy else [])
        assert all(finding.message.startswith("1 of ") for finding in told)


def test_every_reason_of_a_rejection_has_a_row() -> None:
    assert {one.reason for one in REJECTIONS} == REASONS


# (reason, how it is told, the file of queries, the judgements of BEIR files)
QUERY = {"_id": "q", "text": "bears"}
LABELS: list[tuple[str, str, list[dict], str | None]] = [
    ("bad_score", "the score is no number: 1", [QUERY], "q\t1\t1\nq\t1\thigh\n"),
    ("unknown_query", "the query of the judgement is not in labels.queries: 1", [QUERY], "q\t1\t1\np\t1\t1\n"),
    ("unknown_chunk", "the chunk is not in the corpus: 1", [QUERY], "q\t1\t1\nq\t99\t1\n"),
    ("empty_query", "the query is empty: 1", [QUERY, {"_id": "p", "text": " "}], "q\t1\t1\n"),
    ("repeated_query", "the query's id stands there already: 1", [QUERY, QUERY], "q\t1\t1\n"),
    ("no_relevant_chunk", "the query is left without a relevant chunk: 1", [QUERY], "q\t1\t0\n"),
    ("unknown_document", "the document is not in the corpus: 1", [{"query": "b", "doc_id": ["d", "e"]}], None),
    ("contained_nowhere", "no chunk contains the passage: 1", [{"query": "b", "contains": ["bears", "tigers"]}], None),
]


@pytest.mark.parametrize(("reason", "told", "queries", "qrels"), LABELS, ids=[row[0] for row in LABELS])
def test_a_label_that_cannot_be_used_is_counted_by_its_reason(
    tmp_path: Path, reason: str, told: str, queries: list[dict], qrels: str | None
) -> None:
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries), encoding="utf-8")
    if qrels is not None:
        (tmp_path / "qrels.tsv").write_text(qrels, encoding="utf-8")
    labels = read_labelled_queries(tmp_path / "q.jsonl", tmp_path / "qrels.tsv" if qrels is not None else None, CHUNKS)
    assert labels.invalid == {reason: 1}
    (finding,) = label_findings(labels, len(labels.queries))
    left = len(labels.queries)
    remain = f"{left} {'query remains' if left == 1 else 'queries remain'}"
    assert finding.message == f"1 label could not be used ({told}); {remain}."


def test_every_reason_of_a_label_has_a_file() -> None:
    assert {row[0] for row in LABELS} == labelled_queries.INVALID.keys() == counted_in(labelled_queries, "invalid")


PAIR = {"chunk_id_a": "a", "chunk_id_b": "b", "duplicate": "true", "origin": "corpus"}
PAIRS: list[tuple[str, str, list[dict[str, str]]]] = [
    (
        "bad_value",
        "'duplicate' is neither true nor false, or 'origin' neither corpus nor constructed: 1",
        [PAIR | {"duplicate": "maybe"}],
    ),
    ("unknown_id", "a chunk is not in the corpus: 1", [PAIR | {"chunk_id_b": "gone"}]),
    ("same_id", "both ids are the same: 1", [PAIR | {"chunk_id_b": "a"}]),
    ("text_changed", "a text has changed since it was labelled: 1", [PAIR | {"text_sha256_a": "0" * 64}]),
    (
        "no_cosine",
        "a vector cannot be used, or the two are of different roles: 1",
        [PAIR | {"chunk_id_b": "without a vector"}],
    ),
    ("contradictory", "the pair is labelled both ways: 2", [PAIR, PAIR | {"duplicate": "no"}]),
]


@pytest.mark.parametrize(("reason", "told", "rows"), PAIRS, ids=[row[0] for row in PAIRS])
def test_a_labelled_pair_that_cannot_be_used_is_counted_by_its_reason(
    reason: str, told: str, rows: list[dict[str, str]]
) -> None:
    vectors = np.vstack([at_degrees(0, 10), np.zeros((1, at_degrees(0).shape[1]), np.float32)])
    nodes = nodes_of(snapshot_of(["x", "y", "z"], vectors, ids=["a", "b", "without a vector"]))
    invalid = validate_labelled_pairs(pa.Table.from_pylist(rows), nodes).invalid
    assert invalid == {reason: len(rows)}
    (finding,) = findings.labels_invalid(invalid, len(rows))
    assert finding.message == f"{len(rows)} of {len(rows)} labelled pairs were not used ({told})."


def test_every_reason_of_a_labelled_pair_has_rows() -> None:
    # Windows are found by the sweep, whose tests plant them.
    (finding,) = findings.labels_invalid({"window": 3}, 4)
    assert finding.message == "3 of 4 labelled pairs were not used (the two overlap in one document: 3)."
    assert {row[0] for row in PAIRS} | {"window"} == labelled_pairs.INVALID.keys()


def counted_in(module: ModuleType, counter: str) -> set[str]:
    """The keys that the module's source writes between the brackets of a counter."""
    tree = ast.parse(inspect.getsource(module))
    return {
        node.slice.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == counter
        and isinstance(node.slice, ast.Constant)
    }
