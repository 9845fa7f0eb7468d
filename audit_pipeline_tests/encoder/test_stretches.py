import datetime as dt

import numpy as np
import pyarrow as pa

from audit_pipeline.encoder.stretches import parts_of, stretch_of

ROWS = np.arange(2000)
SAMPLED = np.arange(7, 2000, 16)


def found(bad: range, rows: np.ndarray = ROWS, compared: np.ndarray = SAMPLED) -> tuple[list[int] | None, int]:
    """The stretch that is found, and how many rows were looked at for it."""
    asked: list[int] = []

    def is_defective(row: int) -> bool:
        asked.append(row)
        return row in bad

    return stretch_of(rows, compared, np.isin(compared, list(bad)), is_defective), len(asked)


def test_a_stretch_is_bounded_to_the_row_by_few_looks():
    for bad in (range(1200, 2000), range(0, 333), range(801, 1190)):
        stretch, looks = found(bad)
        assert stretch == [bad.start, bad.stop - 1]
        assert looks <= 8


def test_the_rows_of_another_source_between_do_not_disturb_it():
    odd = ROWS[1::2]
    assert found(range(1200, 2000), odd, odd[4::16])[0] == [1201, 1999]


def test_no_stretch_where_the_defect_is_everywhere_strewn_or_in_a_row_or_two():
    assert found(range(0, 2000))[0] is None
    assert found(range(0, 1990))[0] is None
    assert found(range(10, 40))[0] is None
    strewn = np.random.default_rng(0).random(len(SAMPLED)) < 0.3
    assert stretch_of(ROWS, SAMPLED, strewn, lambda row: True) is None
    strewn[60:] = False
    assert stretch_of(ROWS, SAMPLED, strewn, lambda row: True) is None


def test_undated_cells_are_sampled_in_parts_and_dated_ones_are_not():
    cells = np.repeat([0, 1], [400, 100])
    dates = pa.array([None] * 400 + [dt.date(2026, 1, 5)] * 100, pa.date32())
    parts = parts_of(pa.table({"ingestion_date": dates}), cells, per_part=4, total=2000)
    assert np.bincount(parts).tolist() == [40] * 10 + [100]
    assert (np.diff(parts) >= 0).all()


def test_many_cells_small_cells_and_rows_without_a_column_of_dates_are_not_cut():
    undated = pa.table({"ingestion_date": pa.nulls(4000, pa.date32())})
    many = np.arange(4000) // 40
    assert parts_of(undated, many, 4, 2000).tolist() == many.tolist()
    small = np.zeros(79, np.int64)
    assert len(set(parts_of(undated.slice(0, 79), small, 4, 2000))) == 1
    assert len(set(parts_of(pa.table({"x": ROWS}), np.zeros(2000, np.int64), 4, 2000))) == 1
