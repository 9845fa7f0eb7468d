"""A table with two vectors a chunk, one of them spoilt: which judges duplicates better, by column or by encoding."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.encoder.models import load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages import duplicates
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.conftest import Audit, AuditTable, Corpus, table_of

PAIRS = 40
THRESHOLDS = [round(0.02 * step, 2) for step in range(50)]
PROMPT = "same text: "


def edited(text: str) -> str:
    words = text.split(" ")
    return " ".join(word for place, word in enumerate(words) if place % 3 != 1)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def best_sum(cosine: list[float], flags: list[bool]) -> float:
    """The largest precision + recall over the thresholds, every labelled duplicate being a candidate."""
    sums = []
    for threshold in THRESHOLDS:
        passing = [flag for score, flag in zip(cosine, flags, strict=True) if score >= threshold - 1e-6]
        if passing:
            sums.append(sum(passing) / len(passing) + sum(passing) / sum(flags))
    return max(sums)


def test_a_second_column_is_judged_by_the_same_labels(audit_table: AuditTable, corpus: Corpus, tmp_path: Path) -> None:
    originals = corpus.texts[:PAIRS]
    texts = originals + [edited(text) for text in originals] + corpus.texts[PAIRS : 2 * PAIRS]
    pairs = [(n, n + PAIRS, True) for n in range(PAIRS)] + [(n, n + 2 * PAIRS, False) for n in range(PAIRS)]
    flags = [flag for *_, flag in pairs]
    file = tmp_path / "pairs.csv"
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(["chunk_id_a", "chunk_id_b", "duplicate", "origin"])
        writer.writerows([f"c{a:04}", f"c{b:04}", str(flag).lower(), "corpus"] for a, b, flag in pairs)
    model = load_encoder(EncoderSettings(model=corpus.model))
    assert model is not None
    good = unit(model.encode(texts, prompt=PROMPT).astype(np.float64))
    noise = unit(np.random.default_rng(0).standard_normal(good.shape))
    spoilt = unit(good + 1.5 * noise)
    halves = pa.FixedSizeListArray.from_arrays(pa.array(good.astype(np.float16).ravel()), good.shape[1])
    table = table_of(texts, spoilt, symmetric=halves)
    # Enough neighbours that every pair is a candidate.
    settings = {
        "thresholds": THRESHOLDS,
        "neighbours": 119,
        "second": {"vector": "symmetric", "passage_prompt": PROMPT},
    }
    audit = audit_table(table, labels={"pairs": str(file)}, duplicates=settings, sample={"total": 20})
    found = audit.report["duplicates"]["second"]
    by_hand = [best_sum([float(kind[a] @ kind[b]) for a, b, _ in pairs], flags) for kind in (spoilt, good)]
    assert found["labels"] == {"duplicates": PAIRS, "others": PAIRS, "left_out": 0}
    assert found["difference"]["value"] == pytest.approx(by_hand[1] - by_hand[0], abs=1e-9)
    assert found["difference"]["value"] > 0.05
    assert (found["verdict"], found["first"]["edge"]) == ("better", False)
    assert found["cost"]["bytes_per_row"] == 2 * good.shape[1]
    assert (found["cost"]["bytes"], found["cost"]["seconds"]) == (2 * good.shape[1] * len(texts), None)
    # Of 120 texts all 7,140 pairs are candidates.
    assert found["second"]["sweep"][0]["flagged"] == int(np.sum((good @ good.T)[np.triu_indices(120, 1)] >= -1e-6))
    assert "against the first vectors in regime stored" in found["words"]

    # The same vectors, encoded by the audit instead of read: the same figures, and a time.
    by_encoding, workspace = swept(audit, corpus, file, {"passage_prompt": PROMPT})
    assert by_encoding["difference"]["value"] == pytest.approx(found["difference"]["value"], abs=1e-6)
    assert by_encoding["verdict"] == "better"
    assert by_encoding["cost"]["encoded"] == workspace.totals["texts"] == len(texts)
    assert by_encoding["cost"]["seconds"] > 0
    assert by_encoding["cost"]["bytes_per_row"] == 4 * good.shape[1]
    assert not (audit.folder / "state" / "corpus" / "second").exists()

    # What the second vectors' own neighbours find is a candidate too, however little the first ones find.
    by_neighbour, workspace = swept(audit, corpus, file, {"vector": "symmetric"}, neighbours=1)
    table = workspace.table("neighbour_pairs", "candidate_pairs", ["chunk_id_a", "chunk_id_b"])
    of_first = {(int(row["chunk_id_a"][1:]), int(row["chunk_id_b"][1:])) for row in table.to_pylist()}
    nearest = np.argmax(good @ good.T - 3 * np.eye(len(good)), axis=1).tolist()
    union = of_first | {(min(row, other), max(row, other)) for row, other in enumerate(nearest)}
    assert len(union) > len(of_first)
    assert by_neighbour["second"]["sweep"][0]["flagged"] == sum(float(good[a] @ good[b]) >= 0 for a, b in union)
    recall = np.mean([(a, b) in union for a, b, flag in pairs if flag])
    assert by_neighbour["second"]["sweep"][0]["recall_pipeline"] == pytest.approx(recall)

    # Without enough labels nothing is encoded, and nothing is said to be measured.
    file.write_text("".join(file.read_text(encoding="utf-8").splitlines(keepends=True)[:20]), encoding="utf-8")
    few, workspace = swept(audit, corpus, file, {"passage_prompt": "another: "})
    assert (few["verdict"], few["first"], few["second"]) == ("not_measured", None, None)
    assert workspace.totals["texts"] + workspace.totals["from_cache"] == 0


def swept(audit: Audit, corpus: Corpus, labels: Path, second: dict[str, str], **more: int) -> tuple[dict, Workspace]:
    settings = parse_settings(
        {
            "name": "case",
            "encoder": {"model": corpus.model},
            "index": {"uri": "db", "table": "docs", "managed": False},
            "labels": {"pairs": str(labels)},
            "duplicates": {"thresholds": THRESHOLDS, "second": second, **more},
        },
        "test",
        audit.folder,
    )
    workspace = Workspace(settings, audit.folder / "state")
    if more:
        duplicates.neighbour_pairs(workspace)
    return duplicates.threshold_sweep(workspace).summary["second"], workspace
