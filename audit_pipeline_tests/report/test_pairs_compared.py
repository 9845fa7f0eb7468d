"""Which flagged pairs of two audits stay, go and come, with tables of a few pairs counted by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.report.pairs_compared import compare_pairs, copied_text, over


def table(*rows: tuple[str, str, str, float], **more: Any) -> pa.Table:
    """Candidate pairs (a, b, lanes joined by "+", cosine), all of MinHash verified."""
    return pa.Table.from_pylist(
        [
            {
                "chunk_id_a": a,
                "chunk_id_b": b,
                "lanes": lanes.split("+"),
                "cosine": cosine,
                "verified": "minhash" in lanes,
                "window": False,
                **more,
            }
            for a, b, lanes, cosine in rows
        ],
        schema=schemas.CANDIDATE_PAIRS,
    )


def ids(names: str) -> pa.Array:
    return pa.array(list(names))


def counts(part: dict[str, Any]) -> dict[str, int]:
    return {name: part[name]["count"] for name in ("gone", "new", "lost_chunk", "new_chunk") if part[name]["count"]} | {
        "stay": part["stay"]
    }


BY_COSINE = (over(0.9), over(0.9))
BY_TEXT = (copied_text, copied_text)


def test_pairs_stay_go_and_come_between_chunks_of_both_and_with_chunks_of_one() -> None:
    before = table(("a", "b", "neighbour", 0.95), ("a", "c", "neighbour", 0.95), ("a", "x", "neighbour", 0.95))
    after = table(
        ("a", "b", "neighbour", 0.9),
        ("a", "c", "neighbour", 0.8999),
        ("b", "c", "neighbour", 0.91),
        ("a", "y", "neighbour", 0.99),
    )
    found = compare_pairs((before, after), (ids("abcx"), ids("abcy")), BY_COSINE)
    assert found["chunks_in_both"] == 3
    pairs = found["pairs"]
    assert pairs["flagged"] == {"a": 3, "b": 3}
    assert counts(pairs) == {"stay": 1, "gone": 1, "new": 1, "lost_chunk": 1, "new_chunk": 1}
    examples = {name: pairs[name]["examples"] for name in ("gone", "new", "lost_chunk", "new_chunk")}
    assert examples == {
        "gone": [["a", "c"]],
        "new": [["b", "c"]],
        "lost_chunk": [["a", "x"]],
        "new_chunk": [["a", "y"]],
    }


def test_the_same_audit_twice_keeps_every_pair() -> None:
    one = table(("a", "b", "exact", 1.0), ("a", "c", "minhash", 0.95), ("a", "d", "neighbour", 0.5))
    found = compare_pairs((one, one), (ids("abcd"), ids("abcd")), BY_COSINE)
    assert (counts(found["copies"]), counts(found["pairs"])) == ({"stay": 1}, {"stay": 1})


def test_a_cleaning_that_takes_the_earliest_copy_leaves_the_pairs_of_its_text() -> None:
    # Three copies a, b, c and an edited d: the tables name the earliest copy, a and then b.
    before = table(("a", "b", "exact", 1.0), ("a", "c", "exact", 1.0), ("a", "d", "minhash", 0.95))
    after = table(("b", "c", "exact", 1.0), ("b", "d", "minhash", 0.95))
    found = compare_pairs((before, after), (ids("abcd"), ids("bcd")), BY_TEXT)
    assert (found["copies"]["flagged"], counts(found["copies"])) == ({"a": 2, "b": 1}, {"stay": 1, "lost_chunk": 1})
    assert (found["pairs"]["flagged"], counts(found["pairs"])) == ({"a": 1, "b": 1}, {"stay": 1})


def test_rows_that_were_planted_come_with_their_chunks() -> None:
    before = table(("a", "b", "minhash", 0.95))
    after = table(("a", "b", "minhash", 0.95), ("a", "p", "exact", 1.0), ("c", "q", "exact", 1.0))
    found = compare_pairs((before, after), (ids("abc"), ids("abcpq")), BY_TEXT)
    assert (found["copies"]["flagged"], counts(found["copies"])) == ({"a": 0, "b": 2}, {"stay": 0, "new_chunk": 2})
    assert found["copies"]["new_chunk"]["examples"] == [["a", "p"], ["c", "q"]]
    assert counts(found["pairs"]) == {"stay": 1}


def test_texts_that_a_cleaning_made_equal_stay_flagged_and_are_new_copies() -> None:
    before, after = table(("a", "b", "minhash", 0.95)), table(("a", "b", "exact", 1.0))
    found = compare_pairs((before, after), (ids("ab"), ids("ab")), BY_TEXT)
    assert (counts(found["copies"]), counts(found["pairs"])) == ({"stay": 0, "new": 1}, {"stay": 1})
    back = compare_pairs((after, before), (ids("ab"), ids("ab")), BY_TEXT)
    assert (counts(back["copies"]), counts(back["pairs"])) == ({"stay": 0, "gone": 1}, {"stay": 0})


def test_copies_that_split_lose_one_for_each_text_that_left() -> None:
    before = table(("a", "b", "exact", 1.0), ("a", "c", "exact", 1.0), ("a", "d", "exact", 1.0))
    after = table(("b", "c", "exact", 1.0), ("b", "d", "exact", 1.0))  # the text of a is another now
    found = compare_pairs((before, after), (ids("abcd"), ids("abcd")), BY_TEXT)
    assert counts(found["copies"]) == {"stay": 2, "gone": 1}


def test_copied_text_is_flagged_by_the_texts_alone_and_windows_never_are() -> None:
    one = table(("a", "b", "minhash+neighbour", 0.1), ("a", "c", "neighbour", 0.99))
    names = ids("abc")
    assert compare_pairs((one, one), (names, names), BY_TEXT)["pairs"]["flagged"] == {"a": 1, "b": 1}
    assert compare_pairs((one, one), (names, names), BY_COSINE)["pairs"]["flagged"] == {"a": 1, "b": 1}
    windows = table(("a", "b", "minhash+neighbour", 0.99), window=True)
    assert compare_pairs((windows, windows), (names, names), BY_COSINE)["pairs"]["flagged"] == {"a": 0, "b": 0}


def test_audits_without_any_pair_or_chunk_in_common() -> None:
    nothing, one = table(), table(("a", "b", "exact", 1.0))
    assert compare_pairs((nothing, nothing), (ids(""), ids("")), BY_TEXT)["copies"]["flagged"] == {"a": 0, "b": 0}
    found = compare_pairs((one, table(("c", "d", "exact", 1.0))), (ids("ab"), ids("cd")), BY_TEXT)
    assert counts(found["copies"]) == {"stay": 0, "lost_chunk": 1, "new_chunk": 1}
