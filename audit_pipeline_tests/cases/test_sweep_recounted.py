"""Every figure of the sweep of a whole audit, by other code: pandas, scikit-learn, plain loops, a second bootstrap."""

from __future__ import annotations

import copy
import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from audit_pipeline.encoder.models import load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.duplicates import threshold_sweep
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.cases.conftest import AuditTable, Corpus, auditing, table_of
from benchmarks.recount import Recount, disagreements

THRESHOLDS = [0.80, 0.85, 0.90, 0.95, 0.97]
EDITED, COPIED = 120, 10


@pytest.fixture(scope="module")
def recounted(
    corpus: Corpus, encoded: Path, fast_texts: tuple[list[str], np.ndarray], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Recount, dict, int]:
    """An audit of real texts with edited ones and copies, some of whose candidates are labelled, by band."""
    folder = tmp_path_factory.mktemp("recounted")
    audit_table: AuditTable = auditing(folder, corpus, encoded)
    texts, vectors = fast_texts
    table = table_of(texts, vectors)
    duplicates = {"thresholds": THRESHOLDS, "neighbours": 8}
    audit = audit_table(table, duplicates=duplicates, sample={"total": 20})
    pairs, labels = audit.tables().table("candidate_pairs", text=False), folder / "pairs.csv"
    write_labels(pairs, labels)
    index = {"uri": "db", "table": "docs", "managed": False}
    parts = {"encoder": {"model": corpus.model}, "index": index, "duplicates": duplicates}
    settings = parse_settings({"name": "case", **parts, "labels": {"pairs": str(labels)}}, "test", audit.folder)
    swept = threshold_sweep(Workspace(settings, audit.folder / "state"))
    rows = pd.DataFrame({"chunk_id": table["chunk_id"].to_pylist(), "text": texts, "vector": list(vectors)})
    recount = Recount(rows, pairs, swept.tables["threshold_sweep"].to_pandas(), pd.read_csv(labels))
    return recount, audit.report["duplicates"] | swept.summary, 8


@pytest.fixture(scope="module")
def fast_texts(corpus: Corpus) -> tuple[list[str], np.ndarray]:
    """Real texts, some again with three words in four kept and some word for word, and their vectors."""
    whole = corpus.texts[:300]
    edited = [" ".join(word for n, word in enumerate(text.split()) if (n + at) % 4) for at, text in enumerate(whole)]
    texts = [*whole, *edited[:EDITED], *whole[:COPIED]]
    loaded = load_encoder(EncoderSettings(model=corpus.model))
    assert loaded is not None
    return texts, loaded.encode(texts)


def write_labels(pairs: pd.DataFrame, path: Path) -> None:
    """Labels by band at different rates, and some pairs without a band that no lane need have found."""
    generator = np.random.default_rng(4)
    readable = pairs[~pairs["window"] & pairs["lanes"].map(lambda lanes: "exact" not in lanes)]
    rows = []
    for low, high, most in ((0.0, 0.8, 60), (0.8, 0.9, 60), (0.9, 0.95, 60), (0.95, 1.0, 80)):
        band = readable[(readable["cosine"] >= low) & (readable["cosine"] < (high if high < 1 else 2))]
        for pair in band.sample(min(most, len(band)), random_state=1).itertuples():
            same = generator.random() < (pair.cosine - 0.7) * 2.5
            rows.append([pair.chunk_id_a, pair.chunk_id_b, same, "corpus", f"{low:.2f}-{high:.2f}"])
    for a, b in generator.choice(300, (60, 2)):
        if a != b:
            rows.append([f"c{min(a, b):04}", f"c{max(a, b):04}", generator.random() < 0.5, "corpus", ""])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["chunk_id_a", "chunk_id_b", "duplicate", "origin", "band"])
        writer.writerows(rows)


def test_every_figure_of_the_sweep_is_confirmed_by_other_code(recounted: tuple[Recount, dict, int]) -> None:
    recount, duplicates, neighbours = recounted
    assert not recount.labels["candidate"].all()  # recall of the pipeline is not recall of the score
    assert recount.pairs["copies"].sum() == COPIED
    assert {"labels", "candidates"} <= duplicates["separation"].keys()
    assert disagreements(recount, duplicates, neighbours, 400, 0.035) == []


@pytest.mark.parametrize("name", ["tp", "precision_queue", "recall_pipeline", "to_read", "saturated_rows", "exchange"])
def test_a_figure_that_is_off_is_told(recounted: tuple[Recount, dict, int], name: str) -> None:
    recount, duplicates, neighbours = recounted
    wrong = copy.copy(recount)
    wrong.sweep = recount.sweep.copy()
    wrong.sweep[name] = wrong.sweep[name] * 1.01 + 1e-3
    told = disagreements(wrong, duplicates, neighbours, 20, 1.0)
    assert any(line.startswith(f"{name} at") for line in told)
