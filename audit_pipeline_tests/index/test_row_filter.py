"""Filters filled from rows: the literals are judged by LanceDB itself, which has to find the row by its own values."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.index.exact import ExactSearch
from audit_pipeline.index.reach import Reach, ranks_within, reach_of
from audit_pipeline.index.row_filter import RowFilter, parse_filter
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline_tests.index.builders import foreign, snapshot_of, unit_vectors, write

MOMENT = dt.datetime(2026, 1, 3, 4, 5, 6, 789000)
VALUES: dict[str, pa.Array] = {
    "text": pa.array(["o'hara", "a\\b", 'say "x"', "per%cent_", "new\nline", "", "{brace}", None]),
    "large": pa.array(["x", "y", "z", "x", "y", "z", "w", None], pa.large_string()),
    "tags": pa.array(["x", "y", "z", "x", "y", "z", "w", None]).dictionary_encode(),
    "whole": pa.array([0, -3, 7, 2**40, 5, 6, 7, None]),
    "unsigned": pa.array([0, 2**63 + 1, 1, 2, 3, 4, 5, None], pa.uint64()),
    "real": pa.array([0.1, -1e-7, 3.5, 1e300, float("inf"), 2.0, 7.25, None]),
    "single": pa.array([0.1, 3.1, -2.7, 4.0, 5.5, 6.0, 7.0, None], pa.float32()),
    "flag": pa.array([True, False, True, False, True, True, True, None]),
    "day": pa.array([dt.date(2026, 1, n) for n in range(1, 8)] + [None]),
    "moment": pa.array([MOMENT + dt.timedelta(days=n) for n in range(7)] + [None], pa.timestamp("us")),
    "seconds": pa.array([MOMENT.replace(microsecond=0)] * 7 + [None], pa.timestamp("s")),
    "zoned": pa.array([MOMENT + dt.timedelta(hours=n) for n in range(7)] + [None], pa.timestamp("ms", tz="UTC")),
    "money": pa.array([decimal.Decimal(f"{n}.50") * (-1) ** n for n in range(7)] + [None], pa.decimal128(10, 2)),
    "nothing": pa.nulls(8, pa.string()),
}


def filled(tmp_path: Path, template: str, n: int = 8, **columns: Any) -> TableSnapshot:
    write(tmp_path / "db", foreign([f"c{row}" for row in range(n)], unit_vectors(n), **columns))
    return snapshot_of(tmp_path / "db", tmp_path / "work", filter=template)


def reached(snapshot: TableSnapshot) -> list[list[int]]:
    """The rows that each row's own filter lets through."""
    reach = reach_of(snapshot, np.arange(len(snapshot.vectors)))
    return [[] if (rows := reach.rows[group]) is None else rows.tolist() for group in reach.group]


@pytest.mark.parametrize("quotes", ["", "'"])
@pytest.mark.parametrize("name", list(VALUES))
def test_every_row_is_reached_by_its_own_value_and_a_null_by_nobody(tmp_path: Path, name: str, quotes: str) -> None:
    snapshot = filled(tmp_path, f"own = {quotes}{{own}}{quotes}", own=VALUES[name])
    values = VALUES[name].to_pylist()
    expected = [[row for row in range(8) if values[row] == value] if value is not None else [] for value in values]
    assert reached(snapshot) == expected
    assert snapshot.passes_filter is not None
    assert snapshot.filter_undecided is not None
    assert snapshot.passes_filter.tolist() == [value is not None for value in values]
    assert snapshot.filter_undecided.tolist() == [value is None for value in values]
    hits = snapshot.search(snapshot.vectors, 8, reach_of(snapshot, np.arange(8)).filters)
    assert [sorted(row for row in rows if row >= 0) for rows in hits.rows.tolist()] == expected


def test_struct_fields_several_columns_and_fixed_parts(tmp_path: Path) -> None:
    who = pa.StructArray.from_arrays([pa.array(["a", "a", "b", "b"])], names=["team"])
    snapshot = filled(
        tmp_path,
        "who.team = {who.team} AND `Lang Code` = '{Lang Code}' AND note <> '{{}}'",
        n=4,
        who=who,
        **{"Lang Code": ["en", "de", "en", "en"]},
        note=["n", "n", "n", "{}"],
    )
    assert reached(snapshot) == [[0], [1], [2], [2]]
    assert snapshot.passes_filter is not None
    assert snapshot.passes_filter.tolist() == [True, True, True, False]
    assert snapshot.row_filter is not None
    assert snapshot.row_filter.distinct == 3
    assert snapshot.row_filter.shown[3].as_py() == '{"who.team": "b", "Lang Code": "en"}'


def test_a_value_within_a_longer_string(tmp_path: Path) -> None:
    snapshot = filled(
        tmp_path,
        "tags LIKE '%<{user}>%'",
        n=4,
        user=["a", "it's", None, "a"],
        tags=["<a><b>", "<it's>", "<c>", "<b>"],
    )
    assert reached(snapshot) == [[0], [1], [], [0]]
    assert snapshot.passes_filter is not None
    assert snapshot.passes_filter.tolist() == [True, True, False, False]


def test_a_filter_without_columns_is_the_same_for_all(tmp_path: Path) -> None:
    snapshot = filled(tmp_path, "note <> '{{x}}'", n=3, note=["a", "{x}", None])
    assert snapshot.row_filter is None
    assert snapshot.passes_filter is not None
    assert snapshot.passes_filter.tolist() == [True, False, False]
    reach = reach_of(snapshot, np.array([-1, 2]))
    assert reach.filters is None
    assert [rows.tolist() for rows in reach.rows if rows is not None] == [[0]]


def test_a_table_without_rows_fills_no_filter(tmp_path: Path) -> None:
    snapshot = filled(tmp_path, "own = '{own}'", n=0, own=pa.array([], pa.string()))
    assert snapshot.passes_filter is not None
    assert len(snapshot.passes_filter) == 0


def test_quotes_and_identifiers_stay_as_they_are() -> None:
    schema = pa.schema({"a": pa.string(), "odd 'name'": pa.string()})
    columns = pa.table({"a": ["it's"], "odd 'name'": ["x"]})
    for template, expected in (
        ("`odd 'name'` = {a}", "`odd 'name'` = 'it''s'"),
        ("a = 'don''t' AND a = '{a}'", "a = 'don''t' AND a = 'it''s'"),
        ("a = '' OR a = 'x{{y}}' OR a = 'pre ''{a}'' post'", "a = '' OR a = 'x{y}' OR a = 'pre ''it''s'' post'"),
    ):
        assert RowFilter(parse_filter(template, schema), columns).filled(0) == expected


def test_ranks_within_a_reach_are_those_of_a_table_of_these_rows_alone() -> None:
    vectors, queries = unit_vectors(60, 8), unit_vectors(9, 8, seed=3)
    searchable = np.arange(60) % 11 != 0
    few, most = np.array([1, 4, 11, 30, 59]), np.arange(5, 60)
    reach = Reach(np.array([0, 0, 1, 1, 1, 2, 2, -1, 3]), (few, most, None, np.zeros(0, np.int64)))
    answers = np.array([4, 5, 30, 2, -1, 7, 11, 3, 3])
    override = (np.array([4, 7]), unit_vectors(2, 8, seed=5))
    drop = np.array([59, 12])
    found = ranks_within(
        ExactSearch(vectors, searchable, "cosine"), reach, queries, answers, 6, override=override, drop=drop
    )
    changed = vectors.copy()
    changed[override[0]] = override[1]
    for query in range(9):
        rows = {0: few, 1: most, 2: np.arange(60)}.get(int(reach.group[query]), np.zeros(0, np.int64))
        rows = np.setdiff1d(rows[searchable[rows]], drop)
        scores = changed[rows].astype(float) @ queries[query].astype(float)
        best = rows[np.argsort(-scores)][:6]
        assert found.top_rows[query, : len(best)].tolist() == best.tolist()
        assert (found.top_rows[query, len(best) :] == -1).all()
        own = int(np.flatnonzero(rows == answers[query])[0]) if answers[query] in rows else None
        assert found.rank_min[query] == (-1 if own is None else 1 + (scores > scores[own]).sum())
    assert found.scored_rows == 48  # of 0, 0, 3, 3, 48, 48, 48, 52, 52
