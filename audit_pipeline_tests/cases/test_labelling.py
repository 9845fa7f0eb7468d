"""From an audit to a labelling queue, to labels, to an audit that uses them; and labels that name the store's ids."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.report.loading import load
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.duplicates import _other_texts, threshold_sweep
from audit_pipeline.stages.index import pinned_snapshot
from audit_pipeline.stages.labelled_corpus import corpus_of
from audit_pipeline.stages.labelling import shown_texts
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import write_table
from audit_pipeline_tests.cases.conftest import Audit, AuditTable, Corpus
from audit_pipeline_tests.command import Command

ROWS = 80


@pytest.fixture
def audited_table(audit_table: AuditTable, corpus: Corpus, tmp_path: Path) -> Audit:
    """A table that numbers its rows anew beside a store with ids of its own: the two are paired by text."""
    lines = [json.dumps({"chunk_id": f"s{n:04}", "text": text}) for n, text in enumerate(corpus.texts[:ROWS])]
    (tmp_path / "store.jsonl").write_text("\n".join(lines), encoding="utf-8")
    store = {"name": "store", "uri": str(tmp_path / "store.jsonl"), "format": "jsonl", "ingestion_date": "2026-01-02"}
    return audit_table(corpus.rows(slice(ROWS)), sources=[store], sample={"total": 20})


def settings_of(audit: Audit, corpus: Corpus, **labels: str) -> IndexAuditSettings:
    """The settings of the audit, with labels."""
    return parse_settings(
        {
            "name": "case",
            "encoder": {"model": corpus.model},
            "index": {"uri": "db", "table": "docs", "managed": False},
            "sources": audit.report["settings"]["sources"],
            "labels": labels,
        },
        "test",
        audit.folder,
    )


def swept_with(audit: Audit, corpus: Corpus, pairs: Path) -> dict:
    """The sweep's summary on the same candidates with these labels."""
    settings = settings_of(audit, corpus, pairs=str(pairs))
    result = threshold_sweep(Workspace(settings, audit.folder / "state"))
    return result.summary | {"codes": {finding.code for finding in result.findings}}


def test_queue_fill_in_import_and_audit(audited_table: Audit, corpus: Corpus, command: Command, tmp_path: Path) -> None:
    audit, queue, pairs = audited_table, tmp_path / "queue.csv", tmp_path / "pairs.csv"
    before = {row["threshold"]: row for row in audit.report["duplicates"]["sweep"]}
    assert all(row["tp"] == row["fp"] == 0 for row in before.values())
    state = ("--state", str(audit.folder / "state"))
    printed = command("label", "queue", "--name", "case", *state, "--pairs", "150", "-o", str(queue))
    assert (printed.code, printed.out) == (0, f"150 pairs to label, written to {queue}\n")

    with queue.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    texts = dict(zip([f"c{n:04}" for n in range(ROWS)], corpus.texts, strict=False))
    candidates = load(audit.folder / "state", "case").table("candidate_pairs", text=False)
    for row in rows:
        number = [int(row[f"chunk_id_{side}"][1:]) for side in "ab"]
        assert (row["text_a"].lstrip("'"), row["text_b"].lstrip("'")) == tuple(texts[f"c{n:04}"] for n in number)
        assert float(row["cosine"]) == pytest.approx(float(np.dot(*corpus.vectors[number])), abs=1e-5)
    drawn = [row for row in rows if row["draw"] == "score band"]
    of_band = {row["band"]: int(row["drawn_from"]) for row in drawn}
    assert sum(of_band.values()) == int((~candidates["window"] & (candidates["lanes"].map(len) > 0)).sum())

    # Two people read the first hundred: a duplicate from the median cosine on, but Ben slips three times.
    cut = float(np.median([float(row["cosine"]) for row in rows[:100]]))
    for name, slips in (("ann", 0), ("ben", 3)):
        for place, row in enumerate(rows[:100]):
            row["duplicate"] = "yes" if (float(row["cosine"]) >= cut) != (place < slips) else "no"
        with (tmp_path / f"{name}.csv").open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter=";")
            writer.writeheader()
            writer.writerows(rows)
    for name in ("ann", "ben"):
        told = command(
            "label", "import", str(tmp_path / f"{name}.csv"), "--into", str(pairs), "--labeller", name, *state
        )
        assert told.code == 0
        assert "100 labels (100 new), 50 rows without an answer, 0 rejected" in told.out
    assert "2 people agree on 97.0 %" in told.out
    assert told.out.count("in conflict: ") == 3
    written = pairs.read_bytes()
    again = command("label", "import", str(tmp_path / "ann.csv"), "--into", str(pairs), "--labeller", "ann", *state)
    assert "(0 new)" in again.out
    assert pairs.read_bytes() == written

    swept = swept_with(audit, corpus, pairs)
    assert (swept["labels"]["conflicts"], swept["labels"]["duplicates"] + swept["labels"]["others"]) == (3, 97)
    assert swept["labels"]["agreement"]["agreed"]["n"] == 100
    assert swept["labels"]["agreement"]["agreed"]["value"] == pytest.approx(0.97)
    assert {"labels_few", "labels_invalid"} <= swept["codes"]
    assert swept["recommended"] != audit.report["duplicates"]["recommended"]
    for row in swept["sweep"]:
        used = [r for place, r in enumerate(rows[:100]) if place >= 3]
        passing = [r for r in used if float(r["cosine"]) >= row["threshold"] - 1e-6]
        assert row["tp"] == sum(float(r["cosine"]) >= cut for r in passing)
        assert row["tp"] + row["fp"] == len(passing)

    # Settled, and queued again without what has been read.
    settle = tmp_path / "conflicts.csv"
    command("label", "export", str(pairs), "--conflicts", *state, "-o", str(settle))
    with settle.open(encoding="utf-8-sig", newline="") as file:
        disputed = list(csv.DictReader(file))
    assert len(disputed) == 3
    assert all(row["text_a"] and row["labeller"] == "adjudicated" for row in disputed)
    assert {row["judgements"] for row in disputed} <= {"ann: yes; ben: no", "ann: no; ben: yes"}
    for row in disputed:
        row["duplicate"] = "no"
    with settle.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(disputed[0]))
        writer.writeheader()
        writer.writerows(disputed)
    assert "in conflict" not in command("label", "import", str(settle), "--into", str(pairs), *state).out
    more = ("--labelled", str(pairs), "--pairs", "5000", "--text", "none", "--format", "jsonl")
    second = [json.loads(line) for line in command("label", "queue", "--name", "case", *state, *more).out.splitlines()]
    read = {(row["chunk_id_a"], row["chunk_id_b"]) for row in rows[:100]}
    assert second
    assert not read & {(row["chunk_id_a"], row["chunk_id_b"]) for row in second}
    assert "text_a" not in second[0]

    # Labels that name the store's ids and texts are those of its rows.
    with pairs.open(encoding="utf-8", newline="") as file:
        labels = list(csv.DictReader(file))
    for label in labels:
        label |= {f"chunk_id_{side}": label[f"chunk_id_{side}"].replace("c", "s") for side in "ab"}
    by_store = tmp_path / "store.csv"
    with by_store.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(labels[0]))
        writer.writeheader()
        writer.writerows(labels)
    by_table = swept_with(audit, corpus, pairs)
    assert by_table["labels"]["adjudicated"] == 3
    assert swept_with(audit, corpus, by_store) == by_table
    shows_the_text_of_the_table(audit, corpus)


def shows_the_text_of_the_table(audit: Audit, corpus: Corpus) -> None:
    """Of a row whose text the store has otherwise, or not at all, the table's is shown and hashed."""
    workspace = Workspace(settings_of(audit, corpus), audit.folder / "state")
    assert len(_other_texts(workspace, pinned_snapshot(workspace))) == 0
    chunks = workspace.population().sort_by("chunk_id")
    hashes = chunks["text_sha256"].to_pylist()
    place = chunks.schema.get_field_index("text_sha256")
    changed = chunks.set_column(place, "text_sha256", [["0" * 64, *hashes[1:]]]).slice(0, ROWS - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workspace, "population", lambda columns: changed.select(columns))
        other = _other_texts(workspace, pinned_snapshot(workspace))
    assert other["chunk_id"].to_pylist() == ["c0000", f"c{ROWS - 1:04}"]
    marked = other.set_column(1, "text", [["of the table", "an orphan's"]])
    write_table(audit.folder / "state" / "audits/case/corpus/neighbour_pairs/other_texts.parquet", marked)
    known = corpus_of(audit.folder / "state", None)
    assert known is not None
    assert known.texts(["c0000", "c0001", "nowhere"]) == ["of the table", corpus.texts[1], ""]
    assert known.hashes["c0000"] == hashlib.sha256(b"of the table").hexdigest()
    assert known.hashes["c0001"] == known.hashes["s0001"] == hashes[1]


def test_an_excerpt_shows_where_two_texts_differ() -> None:
    same = "word " * 200
    shown = shown_texts(same + "ends here", same + "stops there", "excerpt")
    assert shown["text_a"].endswith("ends here")
    assert shown["text_b"].endswith("stops there")
    assert shown["text_a"].startswith("… ")
    assert shown_texts("short", "brief", "excerpt") == {"text_a": "short", "text_b": "brief"}
    assert shown_texts("x" * 300, "y" * 300, "excerpt")["text_a"] == "x" * 240 + " …"
