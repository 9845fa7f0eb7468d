"""Where misses lie, counted by hand."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa

from audit_pipeline.retrieval.concentration import where_misses_lie

ONE, TWO = dt.date(2026, 1, 2), dt.date(2026, 1, 3)


def said(*groups: tuple[str | None, dt.date | None, int, int]) -> str:
    """(source, date, probes, misses) of each batch."""
    rows = [(source, date, n < misses) for source, date, probes, misses in groups for n in range(probes)]
    sources, dates, missed = zip(*rows, strict=True)
    table = pa.table({"source": pa.array(sources, pa.string()), "ingestion_date": pa.array(dates, pa.date32())})
    return where_misses_lie(table, pa.array(missed))


def test_the_batch_is_named_where_one_holds_most_misses_and_else_the_source() -> None:
    assert said(("a", ONE, 30, 1), ("b", ONE, 10, 8), ("b", TWO, 10, 1)) == (
        " 8 of the 10 misses lie in source 'b' on 2026-01-02, which has 10 of the 50 probes."
    )
    assert said(("a", ONE, 30, 1), ("b", ONE, 10, 5), ("b", TWO, 10, 4)) == (
        " 9 of the 10 misses lie in source 'b', which has 20 of the 50 probes."
    )
    assert said((None, None, 10, 6), ("b", None, 30, 0)) == (
        " 6 of the 6 misses lie in source '(none)', which has 10 of the 40 probes."
    )


def test_nothing_is_said_of_spread_misses_of_few_and_of_a_part_that_is_most_of_the_sample() -> None:
    assert said(("a", ONE, 20, 5), ("b", ONE, 20, 5)) == ""
    assert said(("a", ONE, 20, 0), ("b", ONE, 20, 4)) == ""
    assert said(("a", ONE, 10, 0), ("b", ONE, 20, 9)) == ""
    assert said(("a", ONE, 10, 0)) == ""
