import datetime as dt

import pytest

from audit_pipeline.scopes import cells_in, describe, merge_cells

D1, D2, D3 = (dt.date(2026, 1, day) for day in (1, 2, 3))
GRID = {(source, day) for source in ("a", "b", "c") for day in (D1, D2, D3)}


def test_no_defective_cell_gives_no_scope() -> None:
    assert merge_cells(set(), GRID) == []


def test_a_defect_in_every_cell_is_the_corpus_also_where_there_is_one_cell() -> None:
    assert merge_cells(GRID, GRID) == [{}]
    assert merge_cells({("a", D1)}, {("a", D1)}) == [{}]


def test_nine_of_ten_cells_merge_and_eight_do_not() -> None:
    row = {("a", dt.date(2026, 1, day)) for day in range(1, 11)}
    grid = row | {("b", dt.date(2026, 2, day)) for day in range(1, 21)}
    assert merge_cells(row - {("a", D1)}, grid) == [{"source": "a"}]
    eight = merge_cells(row - {("a", D1), ("a", D2)}, grid)
    assert [scope["ingestion_date"] for scope in eight] == [f"2026-01-{day:02d}" for day in range(3, 11)]


def test_a_whole_source_is_one_scope() -> None:
    assert merge_cells({("b", D1), ("b", D2), ("b", D3)}, GRID) == [{"source": "b"}]


def test_a_whole_date_is_one_scope() -> None:
    assert merge_cells({("a", D2), ("b", D2), ("c", D2)}, GRID) == [{"ingestion_date": "2026-01-02"}]


def test_three_single_cells_are_three_scopes_in_order() -> None:
    assert merge_cells({("c", D3), ("a", D1), ("b", D2)}, GRID) == [
        {"source": "a", "ingestion_date": "2026-01-01"},
        {"source": "b", "ingestion_date": "2026-01-02"},
        {"source": "c", "ingestion_date": "2026-01-03"},
    ]


def test_the_only_cell_of_a_source_keeps_its_date() -> None:
    grid = GRID | {("second path", D2)}
    assert merge_cells({("second path", D2)}, grid) == [{"source": "second path", "ingestion_date": "2026-01-02"}]


def test_a_cell_beside_a_whole_source_is_not_stretched_to_its_date() -> None:
    two_by_two = {("a", D1), ("a", D2), ("b", D1), ("b", D2)}
    assert merge_cells({("a", D1), ("a", D2), ("b", D1)}, two_by_two) == [
        {"source": "a"},
        {"source": "b", "ingestion_date": "2026-01-01"},
    ]


def test_a_source_without_a_name_is_named_none() -> None:
    grid = GRID | {(None, D1)}
    assert merge_cells({(None, D1)}, grid) == [{"source": "(none)", "ingestion_date": "2026-01-01"}]


def test_a_cell_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no cells"):
        merge_cells({("z", D1)}, GRID)


def test_cells_of_a_scope() -> None:
    assert cells_in({}, GRID) == GRID
    assert cells_in({"source": "a"}, GRID) == {("a", D1), ("a", D2), ("a", D3)}
    assert cells_in({"source": "a", "ingestion_date": "2026-01-02"}, GRID) == {("a", D2)}


def test_scopes_in_words() -> None:
    assert describe({}) == "the whole corpus"
    assert describe({"source": "a"}) == "source 'a'"
    assert describe({"ingestion_date": "2026-01-02"}) == "date 2026-01-02"
    assert describe({"source": "a", "ingestion_date": "2026-01-02"}) == "source 'a' on 2026-01-02"


def test_a_cell_without_a_date_is_named_by_its_source_alone() -> None:
    undated = {("a", None), ("b", None), ("c", None)}
    assert merge_cells({("b", None)}, undated) == [{"source": "b"}]
    assert merge_cells({("a", None), ("b", None)}, undated) == [{"source": "a"}, {"source": "b"}]
    assert merge_cells(undated, undated) == [{}]
    assert merge_cells({(None, None)}, {*undated, (None, None)}) == [{"source": "(none)"}]


def test_a_cell_without_a_date_beside_dated_ones_of_its_source_has_the_date_none() -> None:
    mixed = GRID | {("a", None), ("d", None)}
    single = {"source": "a", "ingestion_date": None}
    assert merge_cells({("a", None)}, mixed) == [single]
    assert cells_in(single, mixed) == {("a", None)}
    assert cells_in({"source": "a"}, mixed) == {("a", None), ("a", D1), ("a", D2), ("a", D3)}
    assert merge_cells({("a", None), ("b", D2)}, mixed) == [
        single,
        {"source": "b", "ingestion_date": "2026-01-02"},
    ]
    assert merge_cells({("a", None), ("a", D1), ("a", D2), ("a", D3)}, mixed) == [{"source": "a"}]
    # To have no date is nothing that these cells share.
    assert merge_cells({("a", None), ("d", None)}, mixed) == [{"source": "d"}, single]
    assert describe(single) == "source 'a' without a date"
