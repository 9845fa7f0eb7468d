from __future__ import annotations

import numpy as np
import pyarrow as pa

from audit_pipeline.encoder.sampling import fields_of, sample_rows

IDS = pa.array([f"id-{i}" for i in range(60)])
CELLS = np.repeat(np.arange(6), 10)
ALL = np.ones(60, dtype=bool)


def sampled(per_cell: int = 4, total: int = 1000, seed: int = 0, eligible: np.ndarray = ALL) -> list[int]:
    return sample_rows(IDS, CELLS, eligible, per_cell, total, seed).tolist()


def test_every_cell_gives_its_share_and_rows_stand_in_table_order():
    rows = sampled()
    assert np.bincount(CELLS[rows]).tolist() == [4] * 6
    assert rows == sorted(rows)


def test_the_total_first_takes_rows_from_each_cell_and_then_cells():
    assert np.bincount(CELLS[sampled(total=13)]).tolist() == [2] * 6
    assert len(sampled(total=4)) == len({CELLS[row] for row in sampled(total=4)}) == 4


def test_rows_that_cannot_be_compared_are_passed_over():
    eligible = ALL.copy()
    eligible[:8] = False
    eligible[10:20] = False
    rows = sampled(eligible=eligible)
    assert np.bincount(CELLS[rows], minlength=6).tolist() == [2, 0, 4, 4, 4, 4]
    assert sampled(eligible=~ALL) == []


def test_the_sample_depends_on_ids_and_seed_not_on_the_order_of_rows():
    order = np.random.default_rng(3).permutation(60)
    again = sample_rows(IDS.take(pa.array(order)), CELLS[order], ALL, 4, 1000, 0)
    assert sorted(order[again].tolist()) == sampled()
    assert sampled(seed=1) != sampled()


def test_the_fields_of_the_embedded_text():
    assert fields_of(None) == ["text"]
    assert fields_of("body") == ["body"]
    assert fields_of("{heading}\n\n{text}") == ["heading", "text"]
