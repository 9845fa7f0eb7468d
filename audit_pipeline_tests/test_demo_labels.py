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
from audit_pipeline.duplicates.label_import import agreement_of, conflicts
from audit_pipeline.duplicates.labelled_pairs import OPTIONAL, REQUIRED, read_labelled_pairs
from audit_pipeline.settings_file import load_settings

DEMO = Path(audit_pipeline.__file__).parent / "defs" / "demo"
DOCS = Path(__file__).parents[1] / "docs" / "demo-labels.md"


@pytest.fixture(scope="module")
def pairs() -> list[dict[str, str]]:
    return read_labelled_pairs(DEMO / "pairs.csv").to_pylist()


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    """Every judgement, with the columns that the audit does not read."""
    with (DEMO / "pairs.csv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


@pytest.fixture(scope="module")
def settled(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Each pair once, as the first reader judged it or as it was settled."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for labeller in ("reader-1", "adjudicated"):
        found |= {(row["chunk_id_a"], row["chunk_id_b"]): row for row in rows if row["labeller"] == labeller}
    return list(found.values())


def duplicates(pairs: list[dict[str, str]]) -> list[dict[str, str]]:
    return [pair for pair in pairs if pair["duplicate"] == "true"]


def stated_bands() -> list[tuple[str, str, str, str]]:
    """Band, labelled pairs, percent of the band and duplicates of each row of the guideline's table."""
    row = r"^\| (under 0\.80|0\.\d\d-\d\.\d\d) \| [\d,]+ \| (\d+) \| ([\d.]+) % \| (\d+) \|$"
    found = re.findall(row, DOCS.read_text("utf-8"), re.M)
    return [(band.replace("under 0.80", "0.00-0.80"), *others) for band, *others in found]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    store = SourceStore(load_settings(DEMO / "defs.yaml"), today=dt.date(2027, 1, 1), start_date=None)
    store.scan()
    chunks = store.read_all().chunks
    return dict(zip(chunks["chunk_id"].to_pylist(), chunks["text"].to_pylist(), strict=True))


def test_the_demo_audits_with_these_labels() -> None:
    pairs = load_settings(DEMO / "defs.yaml").labels.pairs
    assert Path(str(pairs)).name == "pairs.csv"


def test_every_column_is_filled_and_a_band_stands_where_it_says_something(rows: list[dict[str, str]]) -> None:
    always = [*REQUIRED, *(name for name in OPTIONAL if name != "band"), "draw", "reason"]
    assert all(row[name] for row in rows for name in always)
    assert {row["origin"] for row in rows} == {"corpus"}
    # A band weighs a pair as a random draw from it: pairs that were sought out have one only where all of it was read.
    whole = {band for band, _, fraction, _ in stated_bands() if fraction == "100"}
    assert all(row["band"] for row in rows if row["draw"] == "score band")
    assert {row["band"] for row in rows if row["draw"] != "score band"} <= {"", *whole}


def test_the_reasons_are_notes_on_their_pairs_not_a_handful_of_categories(rows: list[dict[str, str]]) -> None:
    reasons = Counter(row["reason"] for row in rows)
    assert len(reasons) > len(rows) / 3
    assert max(reasons.values()) < len(rows) / 50


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
    settled: list[dict[str, str]], texts: dict[str, str]
) -> None:
    judged = [frozenset(normalise(texts[pair[f"chunk_id_{side}"]]) for side in "ab") for pair in settled]
    assert {len(both) for both in judged} == {2}
    assert [count for count in Counter(judged).values() if count > 1] == []


def test_the_classes_have_the_counts_that_the_guideline_states(settled: list[dict[str, str]]) -> None:
    stated = re.search(r"(\d+)\s+duplicates\s+and\s+([\d,]+)\s+others", DOCS.read_text(encoding="utf-8"))
    assert stated is not None
    counts = Counter(pair["duplicate"] for pair in settled)
    assert counts == {"true": int(stated[1]), "false": int(stated[2].replace(",", ""))}


def test_the_draws_have_the_counts_that_the_guideline_states(settled: list[dict[str, str]]) -> None:
    stated = re.findall(r"^\| ([a-z ]+) \| ([\d,]+) \| (\d+) \| ", DOCS.read_text("utf-8"), re.M)
    every, same = (Counter(pair["draw"] for pair in chosen) for chosen in (settled, duplicates(settled)))
    assert {draw: (every[draw], same[draw]) for draw in every} == {
        draw: (int(drawn.replace(",", "")), int(found)) for draw, drawn, found in stated
    }


def test_the_bands_have_the_counts_that_the_guideline_states(settled: list[dict[str, str]]) -> None:
    every, same = (
        Counter(pair["band"] for pair in chosen if pair["band"]) for chosen in (settled, duplicates(settled))
    )
    assert {band: (every[band], same[band]) for band in every} == {
        band: (int(labelled), int(found)) for band, labelled, _, found in stated_bands()
    }


def test_the_agreement_of_the_two_readers_is_what_the_guideline_states(rows: list[dict[str, str]]) -> None:
    found = agreement_of(rows)
    assert found is not None
    assert [row["labellers"] for row in found["by_labellers"]] == [["reader-1", "reader-2"]]
    stated = re.search(
        r"(\d+) of 100 agree.*?\(([\d.]+) to ([\d.]+) %\).*?kappa (\d\.\d+)", DOCS.read_text("utf-8"), re.S
    )
    assert stated is not None
    agreed = found["agreed"]
    assert (agreed["n"], round(agreed["value"] * 100)) == (100, int(stated[1]))
    assert [f"{100 * agreed[end]:.1f}" for end in ("low", "high")] == [stated[2], stated[3]]
    assert f"{found['kappa']:.2f}" == stated[4]
    assert conflicts(rows) == []  # what they disagree on is settled
