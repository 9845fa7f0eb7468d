"""The labelled pairs of the demo: every one names texts that the pinned distributions have, word for word."""

from __future__ import annotations

import csv
import datetime as dt
import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import audit_pipeline
from audit_pipeline.corpus.store import SourceStore
from audit_pipeline.corpus.text import normalise, sha256_hex
from audit_pipeline.duplicates.labelled_pairs import OPTIONAL, REQUIRED, read_labelled_pairs
from audit_pipeline.settings_file import load_settings

DEMO = Path(audit_pipeline.__file__).parent / "defs" / "demo"
DOCS = Path(__file__).parents[1] / "docs" / "demo-labels.md"


@pytest.fixture(scope="module")
def pairs() -> list[dict[str, str]]:
    return read_labelled_pairs(DEMO / "pairs.csv").to_pylist()


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    store = SourceStore(load_settings(DEMO / "defs.yaml"), today=dt.date(2027, 1, 1), start_date=None)
    store.scan()
    chunks = store.read_all().chunks
    return dict(zip(chunks["chunk_id"].to_pylist(), chunks["text"].to_pylist(), strict=True))


def test_the_demo_audits_with_these_labels() -> None:
    pairs = load_settings(DEMO / "defs.yaml").labels.pairs
    assert Path(str(pairs)).name == "pairs.csv"


def test_every_column_is_filled_and_only_the_draw_by_band_has_a_band(pairs: list[dict[str, str]]) -> None:
    always = [name for name in (*REQUIRED, *OPTIONAL) if name != "band"]
    assert all(pair[name] for pair in pairs for name in always)
    with (DEMO / "pairs.csv").open(encoding="utf-8", newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert all(bool(row["band"]) == row["reason"].startswith("score band") for row in rows)
    assert {pair["origin"] for pair in pairs} == {"corpus"}


@pytest.mark.parametrize("side", ["a", "b"])
def test_every_id_stands_in_the_demo_corpus_with_the_text_that_was_judged(
    pairs: list[dict[str, str]], texts: dict[str, str], side: str
) -> None:
    ids = [pair[f"chunk_id_{side}"] for pair in pairs]
    assert [chunk_id for chunk_id in ids if chunk_id not in texts] == []
    now = sha256_hex(pa.array([texts[chunk_id] for chunk_id in ids])).to_pylist()
    recorded = [pair[f"text_sha256_{side}"] for pair in pairs]
    changed = [chunk_id for chunk_id, one, other in zip(ids, now, recorded, strict=True) if one != other]
    assert changed == []


def test_no_pair_is_an_exact_copy_and_no_two_are_the_same_texts(
    pairs: list[dict[str, str]], texts: dict[str, str]
) -> None:
    judged = [frozenset(normalise(texts[pair[f"chunk_id_{side}"]]) for side in "ab") for pair in pairs]
    assert {len(both) for both in judged} == {2}
    assert [count for count in Counter(judged).values() if count > 1] == []


def test_the_classes_have_the_counts_that_the_guideline_states(pairs: list[dict[str, str]]) -> None:
    stated = re.search(r"(\d+) duplicates and (\d+)\s+others", DOCS.read_text(encoding="utf-8"))
    assert stated is not None
    counts = Counter(pair["duplicate"] for pair in pairs)
    assert counts == {"true": int(stated[1]), "false": int(stated[2])}


def test_the_bands_have_the_counts_that_the_guideline_states(pairs: list[dict[str, str]]) -> None:
    row = r"^\| (under 0\.80|0\.\d\d-\d\.\d\d) \| [\d,]+ \| (\d+) \| [\d.]+ % \| (\d+) \|$"
    rows = re.findall(row, DOCS.read_text("utf-8"), re.M)
    stated = {band.replace("under 0.80", "0.00-0.80"): (int(every), int(same)) for band, every, same in rows}
    every = Counter(pair["band"] for pair in pairs if pair["band"])
    same = Counter(pair["band"] for pair in pairs if pair["band"] and pair["duplicate"] == "true")
    assert {band: (every[band], same[band]) for band in every} == stated
