"""Rows of the store that could not be used are findings: lost to a managed index, not comparable in one of others."""

from __future__ import annotations

import pyarrow as pa

from audit_pipeline.corpus.rejections import rejection_findings
from audit_pipeline.schemas import REJECTED_CHUNKS


def rejected(*rows: tuple[str, str, str]) -> pa.Table:
    """Rows of (source, reason, detail), numbered from 0."""
    return pa.Table.from_pylist(
        [
            {"row": number, "origin": "f.csv", "source": source, "reason": reason, "detail": detail}
            for number, (source, reason, detail) in enumerate(rows)
        ],
        schema=REJECTED_CHUNKS,
    )


def usable(rows: int, *sources: str) -> pa.Table:
    """Usable rows, the sources in turn."""
    return pa.table({"source": [sources[number % len(sources)] for number in range(rows)]})


ROWS = (("a", "missing_id", "the id is null or empty"), ("a", "missing_id", "the id is null or empty"))


def test_rows_without_an_id_are_lost_to_a_managed_index() -> None:
    (finding,) = rejection_findings(rejected(*ROWS), usable(18, "a", "b"), managed=True)
    assert (finding.code, finding.severity, finding.scope) == ("missing_rows", "error", {"source": "a"})
    assert (finding.n_compared, finding.share) == (11, 2 / 11)  # 9 and 2 rows of a
    assert finding.examples == ["f.csv:0", "f.csv:1"]
    assert "2 of 11 rows of source a in the source store" in finding.message
    assert "columns: {chunk_id: ...}" in finding.remedy


def test_in_a_table_of_others_such_rows_cannot_be_looked_up() -> None:
    (finding,) = rejection_findings(rejected(*ROWS), usable(18, "a"), managed=False)
    assert (finding.code, finding.n_compared, finding.share) == ("not_measured", 0, None)


def test_rows_before_the_start_date_are_left_out_on_purpose() -> None:
    (finding,) = rejection_findings(rejected(("a", "before_start_date", "before")), usable(9, "a"), managed=True)
    assert (finding.code, finding.severity) == ("not_measured", "info")
    assert "1 of 10 rows" in finding.message


def test_rows_dated_tomorrow_wait_and_are_not_lost() -> None:
    rows = rejected(("a", "not_yet", "dated 2026-07-01, after today, 2026-06-30"))
    for managed in (True, False):
        (finding,) = rejection_findings(rows, usable(9, "a"), managed=managed)
        assert (finding.code, finding.severity) == ("not_measured", "info")
        assert finding.message == (
            "1 of 10 rows of the source store wait for their day: dated 2026-07-01, after today, 2026-06-30."
        )


def test_rows_left_out_that_stand_in_the_table_all_the_same_are_counted() -> None:
    rows = rejected(*[("a", "before_start_date", "before")] * 3, ("a", "bad_date", "no date"))
    rows = rows.set_column(2, "chunk_id", pa.array(["early", "earlier", None, "undated"]))
    for in_table, told in ((["early", "earlier", "other", "undated"], [1, 2]), (["other"], [None, None])):
        findings = rejection_findings(rows, usable(9, "a"), managed=False, in_table=pa.array(in_table))
        assert [finding.evidence["reason"] for finding in findings] == ["bad_date", "before_start_date"]
        assert [finding.evidence.get("in_table") for finding in findings] == told
        assert ["stand in the table" in finding.message for finding in findings] == [n is not None for n in told]
        assert all(finding.severity == "info" for finding in findings)


def test_rows_that_a_managed_table_keeps_as_they_came_in_before_are_not_missing_and_counted_once() -> None:
    rows = rejected(*[("a", "bad_date", "no date")] * 3)
    rows = rows.set_column(2, "chunk_id", pa.array(["kept", "new", "newer"]))
    (lost,) = rejection_findings(rows, usable(9, "a"), managed=True, in_table=pa.array(["kept", "other"]))
    assert (lost.code, lost.n_compared, lost.share) == ("missing_rows", 11, 2 / 11)
    assert lost.message == (
        "3 of 11 rows of the source store could not be used and 2 of them are not in the table (bad_date: no date). "
        "1 of them stand in the table and can be returned; they were judged as they came in before."
    )
    (kept,) = rejection_findings(rows.slice(0, 1), usable(9, "a"), managed=True, in_table=pa.array(["kept"]))
    assert (kept.code, kept.severity) == ("not_measured", "info")
    assert kept.message.startswith("1 of 9 rows of the source store could not be compared with the table")


def test_a_reason_met_in_every_source_is_told_once_and_in_some_of_them_by_source() -> None:
    both = rejected(("a", "bad_date", "x"), ("b", "bad_date", "x"))
    assert [finding.scope for finding in rejection_findings(both, usable(8, "a", "b"), managed=True)] == [{}]
    mixed = rejected(("a", "bad_date", "x"), ("b", "empty_text", "y"), ("c", "bad_date", "x"))
    assert [finding.scope for finding in rejection_findings(mixed, usable(8, "a", "b", "c"), managed=True)] == [
        {"source": "a"},
        {"source": "c"},
    ]


def test_what_other_checks_tell_is_not_told_twice() -> None:
    told_elsewhere = rejected(("a", "empty_text", "e"), ("a", "id_collision", "c"), ("a", "duplicate_row", "d"))
    assert rejection_findings(told_elsewhere, usable(8, "a"), managed=True) == []
    assert rejection_findings(rejected(), usable(8, "a"), managed=True) == []
