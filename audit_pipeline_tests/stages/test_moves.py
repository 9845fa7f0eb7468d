"""Which batches give rows to others, and in which order a run takes them."""

from __future__ import annotations

import pytest

from audit_pipeline.stages.ingest import BatchChange
from audit_pipeline.stages.moves import in_order


@pytest.mark.parametrize(
    ("moves", "order"),
    [
        ({}, "abcd"),
        ({"a": {"b"}}, "bcda"),
        ({"a": {"b"}, "b": {"c"}}, "cdba"),
        ({"c": {"a"}}, "abdc"),
        ({"a": {"b"}, "b": {"a"}}, "cdab"),
        ({"a": {"of another source"}}, "abcd"),
    ],
    ids=["none", "one", "a chain", "already so", "a circle", "not of this run"],
)
def test_a_batch_that_takes_rows_over_comes_before_the_one_that_gives_them_up(
    moves: dict[str, set[str]], order: str
) -> None:
    changes = [BatchChange(key, "changed", 1) for key in "abcd"]
    assert "".join(change.key for change in in_order(changes, moves)) == order
