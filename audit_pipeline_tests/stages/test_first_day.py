"""The first day of the grid, as it is found before anything is asked for."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from audit_pipeline.corpus import store as corpus_store
from audit_pipeline.stages.discovery import discover
from audit_pipeline.stages.sources import find_first_day
from audit_pipeline_tests.stages.test_discovery import A, B, asked, store, two_sources, write

__all__ = ["store"]


def test_the_first_day_is_found_once_and_before_any_batch_is_asked_for(store: Path) -> None:
    work = two_sources(store)
    assert find_first_day(work) == {}
    assert work.state.start_date(None) == dt.date(2026, 1, 2)
    found = discover(two_sources(store), None, grid_start=work.state.start_date(None))
    assert [change for change, _ in asked(found)] == sorted([*A, *B])
    assert found.notes == []
    write(store, "a", {"2025-12-31": "older"})
    assert find_first_day(two_sources(store)) == {}
    assert work.state.start_date(None) == dt.date(2026, 1, 2), "known: the next look extends it, this one costs nothing"


def test_the_first_day_is_that_of_the_sources_that_can_be_read(store: Path) -> None:
    (store / "a.jsonl").write_text("no json\n", encoding="utf-8")
    write(store, "b", {"2026-01-03": "one"})
    work = two_sources(store)
    assert list(find_first_day(work)) == ["a"]
    assert work.state.start_date(None) == dt.date(2026, 1, 3)


def test_no_source_is_read_for_the_first_day_where_the_settings_name_it_or_the_index_is_not_ours(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_store.SourceStore, "scan", lambda *_, **__: pytest.fail("the sources were read"))
    assert find_first_day(two_sources(store, start_date="2025-01-01")) == {}
    other = {"uri": "db", "table": "docs", "managed": False}
    assert find_first_day(two_sources(store, index=other)) == {}
