"""The same labels under both regimes: two recommendations, each of its own regime. One prompt in both roles is one."""

from __future__ import annotations

import csv
import datetime as dt
from pathlib import Path

import numpy as np
import pytest

from audit_pipeline.encoder.models import load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.report.loading import load
from audit_pipeline.report.summary import terminal_summary
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages import duplicates
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.conftest import Audit, AuditTable, Corpus, table_of

ASKING = "search for every passage that repeats or restates the one given here, however worded, and say which: "
PROMPTS = {"query_prompt": ASKING, "passage_prompt": "passage: "}
THRESHOLDS = [round(0.5 + 0.02 * step, 2) for step in range(25)]
PAIRS = 40


def edited(text: str) -> str:
    """The text without its middle: every third word from the second on is left out."""
    words = text.split(" ")
    return " ".join(word for place, word in enumerate(words) if place % 3 != 1)


@pytest.fixture
def labelled(corpus: Corpus, tmp_path: Path) -> tuple[list[str], list[tuple[int, int, bool]], Path]:
    """40 texts, their edits (rows 40 to 79) and 40 others; each edit is a duplicate, each next text is none."""
    originals = corpus.texts[:PAIRS]
    texts = originals + [edited(text) for text in originals] + corpus.texts[PAIRS : 2 * PAIRS]
    pairs = [(n, n + PAIRS, True) for n in range(PAIRS)] + [(n, n + 2 * PAIRS, False) for n in range(PAIRS)]
    with (tmp_path / "pairs.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["chunk_id_a", "chunk_id_b", "duplicate", "origin"])
        writer.writerows([f"c{a:04}", f"c{b:04}", str(flag).lower(), "corpus"] for a, b, flag in pairs)
    return texts, pairs, tmp_path / "pairs.csv"


def best_by_hand(scores: list[float], flags: list[bool]) -> tuple[float, dict[float, tuple[int, int]]]:
    """The threshold of the largest precision + recall, ties to the higher, and (tp, fp) at each."""
    counts, best = {}, (-1.0, 0.0)
    for threshold in THRESHOLDS:
        passing = [flag for score, flag in zip(scores, flags, strict=True) if score >= threshold - 1e-6]
        tp, fp = sum(passing), len(passing) - sum(passing)
        counts[threshold] = (tp, fp)
        if passing:
            best = max(best, (round(tp / len(passing) + tp / sum(flags), 9), threshold))
    return best[1], counts


def test_each_regime_has_a_recommendation_of_its_own(
    audit_table: AuditTable, corpus: Corpus, labelled: tuple[list[str], list[tuple[int, int, bool]], Path]
) -> None:
    texts, pairs, file = labelled
    model = load_encoder(EncoderSettings(model=corpus.model))
    assert model is not None
    roles = {name: model.encode(texts, prompt=prompt).astype(np.float64) for name, prompt in PROMPTS.items()}
    roles = {name: part / np.linalg.norm(part, axis=1, keepdims=True) for name, part in roles.items()}
    asking, stored = roles["query_prompt"], roles["passage_prompt"]
    # Every other edit is older than its original, so that neither the id nor the side says which text asks.
    days = [dt.date(2026, 1, 5)] * PAIRS + [dt.date(2026, 1, 1 + 8 * (n % 2)) for n in range(2 * PAIRS)]
    table = table_of(texts, stored, ingestion_date=days)
    settings = {"thresholds": THRESHOLDS, "regime": "query"}
    audit = audit_table(table, encoder=PROMPTS, labels={"pairs": str(file)}, duplicates=settings, sample={"total": 20})
    newer = [max(pair[:2], key=lambda row: (days[row], row)) for pair in pairs]
    older = [sum(pair[:2]) - new for pair, new in zip(pairs, newer, strict=True)]
    flags = [flag for *_, flag in pairs]
    best, counts = best_by_hand([float(asking[n] @ stored[o]) for n, o in zip(newer, older, strict=True)], flags)
    found = audit.report["duplicates"]
    assert found["regime"]["name"] == found["recommended"]["regime"] == "query"
    assert found["recommended"]["threshold"] == best
    assert {row["threshold"]: (row["tp"], row["fp"]) for row in found["sweep"]} == counts
    assert "Regime query: the newer text of a pair in the query role" in found["recommended"]["reason"]
    assert f"duplicates from cosine {best:g} (regime query)" in terminal_summary(audit.report, audit.folder)
    # The floor is that of the regime: all 7,140 pairs of 120 texts, the newer one asking.
    order = sorted(range(len(texts)), key=lambda row: (days[row], row))
    every = asking[order] @ stored[order].T
    assert found["floor"]["mean"] == pytest.approx(every[np.tril_indices(len(texts), -1)].mean(), abs=1e-6)
    # All texts were encoded once in the query role, those of the 20 self probes among them.
    assert audit.report["encoded"]["texts"] + audit.report["encoded"]["from_cache"] > len(texts)

    again = swept(audit, corpus, file, PROMPTS, "stored")
    best_stored, counts = best_by_hand([float(stored[a] @ stored[b]) for a, b, _ in pairs], flags)
    assert again["recommended"]["threshold"] == best_stored != best
    assert again["recommended"]["regime"] == again["regime"]["name"] == "stored"
    assert "Regime stored: stored vectors on both sides." in again["recommended"]["reason"]
    assert {row["threshold"]: (row["tp"], row["fp"]) for row in again["sweep"]} == counts

    # One prompt in both roles: nothing is encoded, and the sentence says that the regimes are one.
    same = swept(audit, corpus, file, dict.fromkeys(PROMPTS, "passage: "), "query")
    assert same["encoded"] == 0
    assert "the same as stored vectors on both sides" in same["recommended"]["reason"]
    assert same["sweep"] == again["sweep"]


def swept(audit: Audit, corpus: Corpus, labels: Path, prompts: dict[str, str], regime: str) -> dict:
    """The sweep's summary of the same table in another regime, and how many texts it encoded."""
    settings = parse_settings(
        {
            "name": "case",
            "encoder": {"model": corpus.model, **prompts},
            "index": {"uri": "db", "table": "docs", "managed": False},
            "labels": {"pairs": str(labels)},
            "duplicates": {"thresholds": THRESHOLDS, "regime": regime},
        },
        "test",
        audit.folder,
    )
    workspace = Workspace(settings, audit.folder / "state")
    for stage in (duplicates.neighbour_pairs, duplicates.similarity_floor, duplicates.threshold_sweep):
        result = stage(workspace)
    return result.summary | {"encoded": workspace.totals["texts"] + workspace.totals["from_cache"]}


def test_an_encoder_of_other_dimensions_measures_nothing_and_says_why(audit_table: AuditTable, corpus: Corpus) -> None:
    short = corpus.vectors[:40, :64] / np.linalg.norm(corpus.vectors[:40, :64], axis=1, keepdims=True)
    table = table_of(corpus.texts[:40], short)
    audit = audit_table(table, encoder=PROMPTS, duplicates={"regime": "query"}, sample={"total": 20})
    found = audit.report["duplicates"]
    assert found["floor"]["n"] == 0
    assert found["recommended"]["threshold"] is None
    told = [one["message"] for one in audit.report["findings"] if one["evidence"].get("what") == "regime"]
    assert told == [
        "Near-duplicates in the query role were not measured: the encoder's vectors do not have the 64 dimensions of "
        "the table's."
    ]
    assert load(audit.folder / "state", "case").table("candidate_pairs", text=False)["cosine"].isna().all()
