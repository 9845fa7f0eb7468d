"""Chunk numbers that are missing inside documents, in tables that number their chunks one after the other only."""

import random
from dataclasses import replace

import pytest

from audit_pipeline.findings import Finding
from audit_pipeline.index.documents import Documents
from audit_pipeline.index.positions import position_gaps
from audit_pipeline_tests.index.document_tables import Row, corpus, page, snapshot


def found(rows: list[Row], path: str | None = None) -> list[Finding]:
    table = snapshot(rows)
    return position_gaps(table, Documents.of(table.rows), path)


def without(rows: list[Row], *lost: tuple[str, int]) -> list[Row]:
    return [row for row in rows if (row.doc, row.position) not in lost]


def shifted(rows: list[Row], by: int) -> list[Row]:
    return [replace(row, position=(row.position or 0) + by) for row in rows]


def test_missing_numbers_are_counted_and_the_rows_after_them_named() -> None:
    rows = without(corpus(), ("doc-04", 2), ("doc-07", 1), ("doc-07", 2))
    (finding,) = found(rows)
    assert (finding.code, finding.severity, finding.scope) == ("position_gaps", "info", {})
    assert finding.evidence == {"documents": 2, "missing_positions": 3}
    assert (finding.n_compared, finding.share) == (20, 0.1)
    assert "2 between 1 and 3" in finding.message
    after = [rows.index(page("doc-04")[3]), rows.index(page("doc-07")[3])]
    assert finding.examples == [f"row-{number:04}" for number in after]


@pytest.mark.parametrize("first", [1, 7])
def test_numbering_may_begin_anywhere(first: int) -> None:
    assert found(shifted(corpus(), first)) == []
    (finding,) = found(shifted(without(corpus(), ("doc-04", 2)), first))
    assert finding.evidence["missing_positions"] == 1


def test_a_row_in_any_place_of_the_table_fills_its_number() -> None:
    rows = corpus()
    random.Random(3).shuffle(rows)
    assert found(rows) == []


def test_numbers_that_mostly_have_gaps_are_not_measured_and_said_so() -> None:
    offsets = [replace(row, position=(row.position or 0) * 812 + len(row.text)) for row in corpus()]
    (finding,) = found(offsets)
    assert (finding.code, finding.n_compared) == ("not_measured", 0)
    assert finding.evidence == {"check": "position_gaps", "documents_with_gaps": 20, "documents": 20}
    lost = [(f"doc-{n:02}", 2) for n in range(5)]
    assert [f.code for f in found(without(corpus(), *lost))] == ["not_measured"]
    assert [f.code for f in found(without(corpus(), *lost[1:]))] == ["position_gaps"]


def test_pages_with_several_chunks_are_not_measured() -> None:
    pages = [replace(row, position=(row.position or 0) // 2) for row in corpus(chunks=8)]
    assert [f.code for f in found(without(pages, ("doc-04", 2)))] == ["not_measured"]


CLEAN = {
    "a plain corpus": corpus(),
    "numbers over the whole table": [replace(row, position=number) for number, row in enumerate(corpus())],
    "no documents": [replace(row, doc=None) for row in corpus()],
    "no positions": [replace(row, position=None) for row in corpus()],
    "negative positions": [replace(row, position=-1) for row in corpus()],
    "two chunks each": without(corpus(chunks=3), *[(f"doc-{n:02}", 1) for n in range(20)]),
    "four documents": without(corpus(4), ("doc-01", 2)),
    "written twice": [*corpus(), *page("doc-03"), *page("doc-04", 3)],
    "the end missing": without(corpus(), ("doc-04", 4)),
}


@pytest.mark.parametrize("name", CLEAN)
def test_nothing_is_said_where_nothing_is_missing_or_nothing_can_be_told(name: str) -> None:
    assert found(CLEAN[name]) == []


def test_a_column_of_page_numbers_is_not_looked_at() -> None:
    assert found(without(corpus(), ("doc-04", 2)), "metadata.page") == []
    assert found(without(corpus(), ("doc-04", 2)), "metadata.chunk") != []
