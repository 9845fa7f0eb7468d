"""Files of the sources that did not change since they were read, and what shows it."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

import pytest

from audit_pipeline.corpus import stamps
from audit_pipeline.corpus import store as corpus_store
from audit_pipeline.corpus.docstrings import find_modules
from audit_pipeline.corpus.stamps import store_stamp
from audit_pipeline_tests.stages.builders import TODAY, workspace
from audit_pipeline_tests.stages.test_discovery import DAYS, A, B, store, two_sources, write

__all__ = ["store"]


def test_files_that_did_not_change_are_not_read_again(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = two_sources(store).scan(again=True)
    with monkeypatch.context() as patch:
        patch.setattr(corpus_store, "read_entry", lambda *_: pytest.fail("the files were read"))
        assert two_sources(store).scan(again=True) == before
    write(store, "a", {DAYS[0]: "another text"})
    changed = two_sources(store).scan(again=True)
    assert changed.batches.keys() == {A[0], *B}
    assert changed.batches[A[0]].content_hash != before.batches[A[0]].content_hash


def test_a_stamp_holds_for_the_same_files_settings_and_day_only(store: Path) -> None:
    settings = two_sources(store).settings
    stamp = store_stamp(settings, TODAY)
    assert stamp == store_stamp(settings, TODAY)
    others = {
        store_stamp(settings, TODAY + dt.timedelta(days=1)),
        store_stamp(two_sources(store, ingestion_grain="month").settings, TODAY),
        store_stamp(two_sources(store, start_date="2026-01-03").settings, TODAY),
    }
    shutil.copy2(store / "a.jsonl", store / "c.jsonl")
    more = [{"name": name, "uri": f"{name}.jsonl", "format": "jsonl"} for name in "abc"]
    others.add(store_stamp(two_sources(store, sources=more).settings, TODAY))
    assert len({stamp, *others}) == 5


def test_a_file_that_was_just_written_is_no_proof_of_anything(store: Path) -> None:
    settings = two_sources(store).settings
    (store / "a.jsonl").touch()
    assert store_stamp(settings, TODAY) is None
    later = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=10)
    assert store_stamp(settings, TODAY, now=later) is not None


def test_installed_docstrings_have_a_stamp_too_which_another_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"name": "p", "uri": "packaging", "format": "docstrings", "ingestion_date": "2024-11-08"}
    settings = workspace(tmp_path, sources=[entry]).settings
    stamp = store_stamp(settings, TODAY)
    assert store_stamp(settings, TODAY) == stamp
    monkeypatch.setattr(stamps, "find_modules", lambda entry: find_modules(entry)[1:])
    assert len({stamp, store_stamp(settings, TODAY), None}) == 3
