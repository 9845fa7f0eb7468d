"""What people send back: files as spreadsheets leave them, unusable rows, how files join."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit_pipeline.duplicates.label_files import read_rows, write_rows
from audit_pipeline.duplicates.label_import import REASONS, agreement_of, check_answers, conflicts, join
from audit_pipeline.duplicates.label_store import read_labels, write_labels
from audit_pipeline.duplicates.labelled_pairs import read_labelled_pairs

HASHES = {"a": "1" * 64, "b": "2" * 64, "c": "3" * 64}
ROW = {"chunk_id_a": "a", "chunk_id_b": "b", "duplicate": "yes", "origin": "corpus", "band": "0.90-0.95"}


def checked(*rows: dict[str, str], labeller: str = "ann", hash_of=HASHES.get):
    return check_answers([ROW | row for row in rows], labeller, hash_of)


UNUSABLE = {
    "no_answer": {"duplicate": "", "reason": "hard to say"},
    "bad_value": {"duplicate": "maybe"},
    "bad_origin": {"origin": "elsewhere"},
    "missing_id": {"chunk_id_b": ""},
    "same_id": {"chunk_id_b": "a"},
    "unknown_id": {"chunk_id_b": "gone"},
    "text_changed": {"text_sha256_b": "0" * 64},
    "too_many_fields": {"(more fields than columns)": "yes"},
}


@pytest.mark.parametrize("reason", UNUSABLE)
def test_a_row_that_cannot_be_used_is_kept_with_its_number_and_reason(reason):
    found = checked({}, UNUSABLE[reason])
    assert [row["chunk_id_b"] for row in found.labels] == ["b"]
    assert [(row["row"], row["rejected"]) for row in found.rejected] == [(2, reason)]
    assert found.rejected[0].items() >= (ROW | UNUSABLE[reason]).items()
    assert found.reasons == {reason: 1}


def test_one_labeller_who_answers_a_pair_both_ways_is_used_in_neither():
    found = checked({}, {"chunk_id_a": "b", "chunk_id_b": "a", "duplicate": "no"}, {"chunk_id_b": "c"})
    assert found.reasons == {"contradictory": 2}
    assert len(found.labels) == 1
    two = checked({"labeller": "ann"}, {"labeller": "ben", "duplicate": "no"})
    assert (len(two.labels), two.rejected) == (2, [])
    assert UNUSABLE.keys() | {"contradictory"} == REASONS.keys()


def test_a_row_without_an_answer_is_no_label_even_where_a_name_stands_in_it():
    found = checked({"duplicate": ""}, {"duplicate": "", "labeller": "ann"})
    assert (found.unanswered, found.labels, found.rejected) == (2, [], [])


def test_a_label_has_its_ids_in_order_its_hashes_and_its_name():
    (label,) = checked(
        {
            "chunk_id_a": "b",
            "chunk_id_b": "a",
            "text_sha256_a": "2" * 64,
            "duplicate": "WAHR",
            "fraction": "0,5",
            "band": "0,90-0,92",
        }
    ).labels
    assert (label["chunk_id_a"], label["chunk_id_b"]) == ("a", "b")
    assert (label["text_sha256_a"], label["text_sha256_b"]) == ("1" * 64, "2" * 64)  # the missing one filled in
    assert (label["duplicate"], label["labeller"], label["fraction"], label["band"]) == (
        *("true", "ann", "0.5"),
        "0.90-0.92",
    )


def test_without_a_corpus_ids_and_texts_are_taken_as_they_are():
    (label,) = checked({"chunk_id_a": "z", "text_sha256_a": "x"}, hash_of=None).labels
    assert (label["chunk_id_b"], label["text_sha256_b"], label["text_sha256_a"]) == ("z", "x", "")


JUDGEMENT = st.fixed_dictionaries(
    {
        "chunk_id_a": st.sampled_from("abc"),
        "chunk_id_b": st.sampled_from("abc"),
        "duplicate": st.sampled_from(["yes", "no", "", "maybe", "TRUE", "0"]),
        "labeller": st.sampled_from(["", "ben", "cat", "adjudicated"]),
        "reason": st.sampled_from(["", "same rule"]),
    }
)
FILE = st.lists(JUDGEMENT, max_size=8)


@given(FILE, FILE)
def test_importing_is_idempotent_and_the_order_of_files_and_rows_makes_no_difference(one, other):
    first, second = (check_answers(rows, "ann", HASHES.get).labels for rows in (one, other))
    joined = join(join([], first), second)
    assert join(joined, first) == joined == join(joined, second)
    assert join(join([], second), first) == joined
    again = check_answers(one[::-1], "ann", HASHES.get).labels
    assert join(join([], again), second) == joined
    assert len(conflicts(joined)) == len(conflicts(joined[::-1]))
    assert agreement_of(joined) == agreement_of(joined[::-1])


def test_a_pair_is_in_conflict_until_somebody_settles_it():
    rows = [*checked({"labeller": "ann"}).labels, *checked({"labeller": "ben", "duplicate": "no"}).labels]
    assert [len(pair) for pair in conflicts(rows)] == [2]
    assert conflicts([*rows, *checked({"labeller": "adjudicated"}).labels]) == []
    assert agreement_of(rows)["agreed"]["value"] == 0


# Files

COLUMNS = ["text_a", "chunk_id_a", "chunk_id_b", "duplicate", "reason"]
FILLED = [
    {"text_a": 'one\r\ntwo; "three"', "chunk_id_a": "007", "chunk_id_b": "b", "duplicate": "yes", "reason": "é, ü"},
    {"text_a": "=1+1", "chunk_id_a": "c", "chunk_id_b": "d", "duplicate": "no", "reason": ""},
]


def as_csv(delimiter: str, line_end: str) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, delimiter=delimiter, lineterminator=line_end)
    writer.writeheader()
    writer.writerows(FILLED)
    return buffer.getvalue()


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"], ids=["comma", "semicolon", "tab"])
def test_a_csv_reads_alike_however_a_spreadsheet_saved_it(tmp_path: Path, start, line_end, delimiter):
    path = tmp_path / "filled.csv"
    path.write_bytes(start + as_csv(delimiter, line_end).encode())
    assert read_rows(path) == FILLED


def test_excels_own_hint_at_the_separator_and_empty_lines_are_passed_over(tmp_path: Path):
    path = tmp_path / "filled.csv"
    path.write_text("sep=;\n" + as_csv(";", "\n") + ";;;;\n", encoding="utf-8", newline="")
    assert [row["duplicate"] for row in read_rows(path)] == ["yes", "no", ""]


def test_a_row_of_more_fields_than_columns_is_marked(tmp_path: Path):
    path = tmp_path / "filled.csv"
    path.write_text("chunk_id_a,chunk_id_b,duplicate\na,b,yes,\nc,d,yes,more\n", encoding="utf-8")
    assert check_answers(read_rows(path), "", None).reasons == {"too_many_fields": 1}


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_what_is_written_reads_back(tmp_path: Path, kind):
    path = tmp_path / f"queue.{kind}"
    write_rows(FILLED, COLUMNS, kind, path)
    read = read_rows(path)
    assert [row["reason"] for row in read] == ["é, ü", ""]
    assert [row["chunk_id_a"] for row in read] == ["007", "c"]
    # A spreadsheet would compute it; behind an apostrophe it is text.
    assert read[1]["text_a"] == ("'=1+1" if kind == "csv" else "=1+1")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf") == (kind == "csv")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_labels_are_kept_as_the_audit_reads_them_and_written_once(tmp_path: Path, suffix):
    path = tmp_path / f"pairs{suffix}"
    labels = join([], checked({"chunk_id_a": "a"}, {"chunk_id_a": "c", "duplicate": "no", "reason": 'a "b", c'}).labels)
    write_labels(path, labels)
    before = path.stat().st_mtime_ns
    write_labels(path, read_labels(path))
    assert path.stat().st_mtime_ns == before
    assert read_labels(path) == labels
    audited = read_labelled_pairs(path)
    assert audited["duplicate"].to_pylist() == ["true", "false"]
    assert audited["text_sha256_b"].to_pylist() == ["2" * 64, "3" * 64]
