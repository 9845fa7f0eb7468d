import datetime as dt

import pytest

from audit_pipeline.corpus.validation import validate
from audit_pipeline_tests.corpus.builders import TODAY, raw_rows


def reasons(*rows: dict, start_date: dt.date | None = None) -> dict[int, str]:
    rejected = validate(raw_rows(*rows), grain="day", today=TODAY, start_date=start_date).rejected
    return dict(zip(rejected["row"].to_pylist(), rejected["reason"].to_pylist(), strict=True))


def test_empty_texts_among_good_rows_are_rejected_with_a_reason_and_the_good_rows_stay() -> None:
    rows = [{"chunk_id": str(i), "text": text} for i, text in enumerate(["good", "", "   ", "\u3000\ufeff", None, "x"])]
    result = validate(raw_rows(*rows), grain="day", today=TODAY)
    assert result.chunks["chunk_id"].to_pylist() == ["0", "5"]
    assert result.rejected["reason"].to_pylist() == ["empty_text", "empty_text", "empty_text", "missing_text"]
    assert set(result.rejected["batch"].to_pylist()) == {"2026-01-02|s"}


def test_each_fault_has_its_code() -> None:
    good = {"chunk_id": "a", "text": "t"}
    found = reasons(
        good,
        {"text": "t"},
        {"chunk_id": " ", "text": "t"},
        {"chunk_id": "b", "text": "t", "ingestion_date": dt.date(2026, 7, 8)},
        {"chunk_id": "c", "text": "t", "ingestion_date": dt.date(2025, 12, 31)},
        {"chunk_id": "d", "text": "t", "ingestion_date": None, "problem": "bad_date", "detail": "x"},
        {"chunk_id": "e", "text": "t", "problem": "invalid_utf8", "detail": "x"},
        good,
        {"chunk_id": "f", "text": "t", "ingestion_date": dt.date(2026, 7, 1)},
        {"text": "t", "ingestion_date": dt.date(2026, 7, 7)},
        start_date=dt.date(2026, 1, 1),
    )
    assert found == {
        1: "missing_id", 2: "missing_id", 3: "date_out_of_range", 4: "before_start_date", 5: "bad_date",
        6: "invalid_utf8", 7: "duplicate_row", 8: "not_yet", 9: "not_yet",
    }  # fmt: skip


def test_the_first_and_the_last_day_are_in_range() -> None:
    assert not reasons(
        {"chunk_id": "a", "text": "t", "ingestion_date": TODAY},
        {"chunk_id": "b", "text": "t", "ingestion_date": dt.date(2026, 1, 1)},
        start_date=dt.date(2026, 1, 1),
    )


def test_a_row_without_a_usable_date_is_in_no_batch() -> None:
    rows = raw_rows({"chunk_id": "a", "text": "t", "ingestion_date": dt.date(2026, 7, 1)})
    assert validate(rows, grain="day", today=TODAY).rejected["batch"].to_pylist() == [None]


def test_of_two_documents_with_one_id_the_earlier_keeps_it_and_the_later_is_named_with_the_owner() -> None:
    result = validate(
        raw_rows(
            {"chunk_id": "1", "text": "later", "ingestion_date": dt.date(2026, 1, 3), "source": "a"},
            {"chunk_id": "1", "text": "earlier", "source": "b"},
            {"chunk_id": "2", "text": "same day, other source", "source": "b"},
            {"chunk_id": "2", "text": "same day", "source": "a"},
        ),
        grain="day",
        today=TODAY,
    )
    assert dict(zip(result.chunks["chunk_id"].to_pylist(), result.chunks["text"].to_pylist(), strict=True)) == {
        "1": "earlier",
        "2": "same day",
    }
    assert result.rejected["reason"].to_pylist() == ["id_collision", "id_collision"]
    assert result.rejected["batch"].to_pylist() == ["2026-01-02|b", "2026-01-03|a"]
    assert result.rejected["detail"].to_pylist()[1] == (
        "the id belongs to a row of batch 2026-01-02|b with another text"
    )


def test_the_same_row_in_another_batch_is_a_collision_and_in_its_own_a_duplicate() -> None:
    row = {"chunk_id": "1", "text": "t"}
    found = reasons(row, row, row | {"ingestion_date": dt.date(2026, 1, 9)}, row | {"heading": "other"})
    # Three rows of one batch, and nulls sort last: the one with a heading keeps the id.
    assert found == {0: "id_collision", 1: "id_collision", 2: "id_collision"}


def test_a_rejected_row_claims_no_id() -> None:
    result = validate(
        raw_rows(
            {"chunk_id": "1", "text": "", "ingestion_date": dt.date(2026, 1, 1)},
            {"chunk_id": "1", "text": "good"},
        ),
        grain="day",
        today=TODAY,
    )
    assert result.chunks["text"].to_pylist() == ["good"]


@pytest.mark.parametrize("turn", [0, 1, 2, 3])
def test_the_order_of_rows_decides_nothing(turn: int) -> None:
    rows = [{"chunk_id": "1", "text": text} for text in ("b", "a", "c", "a")]
    turned = rows[turn:] + rows[:turn]
    result = validate(raw_rows(*turned), grain="day", today=TODAY)
    straight = validate(raw_rows(*rows), grain="day", today=TODAY)
    assert result.chunks.equals(straight.chunks)
    assert sorted(zip(result.rejected["text"].to_pylist(), result.rejected["reason"].to_pylist(), strict=True)) == [
        *sorted(zip(straight.rejected["text"].to_pylist(), straight.rejected["reason"].to_pylist(), strict=True))
    ]


def test_no_rows_give_empty_tables() -> None:
    result = validate(raw_rows(), grain="day", today=TODAY)
    assert (len(result.chunks), len(result.rejected)) == (0, 0)
