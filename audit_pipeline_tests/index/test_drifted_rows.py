"""Texts that are not the store's: what changed them, how much of them is gone, and where."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from audit_pipeline.index.text_drift import WORDS
from audit_pipeline_tests.index.audited import (
    D2,
    audited,
    edited,
    four_cells,
    stored_as,
    told,
)
from audit_pipeline_tests.index.builders import (
    chunks,
    write,
)


def test_a_lost_section_is_an_error_and_another_unicode_form_is_a_warning(tmp_path: Path) -> None:
    store = chunks(["x", "y", "z"], texts=["Intro.\n\nSee the caf\u00e9 manual.", "caf\u00e9", "unchanged"])
    write(tmp_path / "db", edited(stored_as(store), {"x": "Intro.", "y": "cafe\u0301"}))
    drift = {finding.severity: finding for finding in told(audited(tmp_path, store), "text_drift")}
    assert drift["error"].examples == ["x"]
    lost = {"least": 21, "median": 21, "most": 21}  # a space and "See the cafe manual."
    assert drift["error"].evidence == {"rows": 1, "kinds": {"truncated": 1}, "characters_lost": lost}
    assert drift["warning"].examples == ["y"]
    assert drift["warning"].evidence == {"rows": 1, "undone_by": {"unicode_form": 1}}
    assert drift["error"].share == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("kind", "severity", "stored"),
    [
        (
            "unicode_form",
            "warning",
            "<p>The Cafe\u0301 \u2013 tea &amp; \ufb01ne cakes</p>\n\nOpen *daily*, also on Sundays.",
        ),
        (
            "white_space",
            "warning",
            "<p>The Caf\u00e9 \u2013 tea &amp; \ufb01ne cakes</p> Open *daily*,\nalso on Sundays.",
        ),
        ("entities", "warning", "<p>The Caf&eacute; \u2013 tea & \ufb01ne cakes</p>\n\nOpen *daily*, also on Sundays."),
        ("quotes", "error", "<p>The Caf\u00e9 - tea &amp; \ufb01ne cakes</p>\n\nOpen *daily*, also on Sundays."),
        (
            "compatibility",
            "error",
            "<p>The Caf\u00e9 \u2013 tea &amp; fine cakes</p>\n\nOpen *daily*, also on Sundays.",
        ),
        ("case", "error", "<p>the caf\u00e9 \u2013 tea &amp; \ufb01ne cakes</p>\n\nopen *daily*, also on sundays."),
        ("html_tags", "error", "The Caf\u00e9 \u2013 tea & \ufb01ne cakes\nOpen *daily*, also on Sundays."),
        ("markdown", "error", "The Caf\u00e9 \u2013 tea & \ufb01ne cakes\nOpen daily, also on Sundays."),
        ("truncated", "error", "<p>The Caf\u00e9 \u2013 tea &amp; \ufb01ne cakes</p>\n\nOpen *daily*,"),
        ("section_lost", "error", "Open *daily*, also on Sundays."),
        ("differs", "error", "<p>The Caf\u00e9 \u2013 tea &amp; \ufb01ne cakes</p>\n\nOpen *daily*, also on Mondays."),
        (None, None, None),
    ],
)
def test_what_one_batch_changed_is_named_and_placed(
    tmp_path: Path, kind: str | None, severity: str | None, stored: str | None
) -> None:
    own = "<p>The Caf\u00e9 \u2013 tea &amp; \ufb01ne cakes</p>\n\nOpen *daily*, also on Sundays."
    store = four_cells()
    texts = [f"{own} {name}." for name in store["chunk_id"].to_pylist()]
    store = pa.concat_tables(
        [
            chunks([row["chunk_id"]], row["source"], row["ingestion_date"], [text])
            for row, text in zip(store.to_pylist(), texts, strict=True)
        ]
    )
    tail = "" if kind == "truncated" else " {}."
    changed = {name: stored + tail.format(name) for name in ("b2-0", "b2-1")} if stored else {}
    write(tmp_path / "db", edited(stored_as(store), changed))
    drift = told(audited(tmp_path, store), "text_drift")
    if kind is None:
        assert drift == []
        return
    (found,) = drift
    assert (found.severity, found.scope) == (severity, {"source": "b", "ingestion_date": D2.isoformat()})
    assert found.evidence["kinds" if severity == "error" else "undone_by"] == {kind: 2}
    assert found.message.endswith(f": 2 {WORDS[kind]}.")
    assert (found.n_compared, found.share, found.examples) == (2, 1.0, ["b2-0", "b2-1"])
    lost = len(" also on Sundays. b2-0.")
    assert found.evidence.get("characters_lost", {}).get("median") == (lost if kind == "truncated" else None)


def test_rows_beyond_those_whose_markup_was_parsed_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit_pipeline.index.text_drift.MOST_PARSED", 0)
    store = chunks(["x", "y"], texts=["<b>some</b> words", "other words"])
    write(tmp_path / "db", edited(stored_as(store), {"x": "some words", "y": "Other words"}))
    (drift,) = told(audited(tmp_path, store), "text_drift")
    assert (drift.severity, drift.examples) == ("error", ["x", "y"])
    assert drift.evidence == {"rows": 2, "kinds": {"case": 1, "undetermined": 1}}


def test_drift_in_every_cell_is_told_once_for_the_corpus(tmp_path: Path) -> None:
    store = four_cells()
    changed = dict.fromkeys(("a1-0", "a2-0", "b1-0", "b2-0"), "other words")
    write(tmp_path / "db", edited(stored_as(store), changed))
    (drift,) = told(audited(tmp_path, store), "text_drift")
    assert (drift.scope, drift.share, drift.n_compared) == ({}, 0.5, 8)
