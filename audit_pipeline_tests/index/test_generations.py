"""Documents that were ingested again beside their old rows are told; everything that only looks like it is not."""

import datetime as dt
from dataclasses import replace

import pytest

from audit_pipeline.findings import Finding
from audit_pipeline.index.documents import Documents
from audit_pipeline.index.generations import generations
from audit_pipeline_tests.index.document_tables import Row, corpus, page, prose, snapshot, without_positions

DAYS = [dt.date(2026, 1, day) for day in (5, 6, 7)]


def found(rows: list[Row], ids: list[str] | None = None) -> list[Finding]:
    table = snapshot(rows, ids)
    return generations(table, Documents.of(table.rows))


def evidence(rows: list[Row]) -> dict:
    (finding,) = found(rows)
    assert (finding.severity, finding.scope) == ("info", {})
    return finding.evidence | {"n": finding.n_compared, "examples": finding.examples}


def test_pages_written_again_unchanged_are_told_with_their_older_rows() -> None:
    told = evidence([*corpus(), *page("doc-03"), *page("doc-07")])
    assert (told["documents"], told["n"]) == (2, 20)
    assert (told["earlier_rows"], told["texts_equal"], told["texts_changed"]) == (10, 10, 0)
    assert told["doc_ids"] == ["doc-03", "doc-07"]
    assert told["examples"] == [f"row-{number:04}" for number in range(15, 20)]


def test_changed_texts_at_the_same_positions_are_told_apart_from_equal_ones() -> None:
    again = page("doc-03", version="and this was added later")
    told = evidence([*corpus(), *again[:2], *page("doc-03")[2:]])
    assert (told["documents"], told["earlier_rows"], told["texts_equal"], told["texts_changed"]) == (1, 5, 3, 2)


def test_a_page_that_shrank_leaves_all_its_older_rows_behind() -> None:
    told = evidence([*corpus(), *page("doc-03", chunks=3)])
    assert (told["earlier_rows"], told["texts_equal"]) == (5, 3)


def test_a_later_date_tells_a_generation_wherever_the_rows_lie() -> None:
    older, newer = page("only", date=DAYS[0]), page("only", date=DAYS[1])
    assert evidence([*older, *newer])["earlier_rows"] == 5
    strewn = [row for pair in zip(newer, older, strict=True) for row in pair]
    assert evidence(strewn)["examples"] == [f"row-{number:04}" for number in (1, 3, 5, 7, 9)]
    assert evidence(without_positions(strewn))["earlier_rows"] == 5


def test_three_generations_leave_the_rows_of_two() -> None:
    told = evidence([*corpus(), *page("doc-03"), *page("doc-09"), *page("doc-03", version="third")])
    assert (told["documents"], told["earlier_rows"]) == (2, 15)


def test_a_whole_table_written_twice_is_told_with_and_without_positions() -> None:
    for rows in (corpus(), without_positions(corpus())):
        told = evidence([*rows, *rows])
        assert (told["documents"], told["n"], told["earlier_rows"]) == (20, 20, 100)


def test_documents_of_one_chunk_count_where_the_text_is_equal() -> None:
    rows = corpus(chunks=1)
    assert evidence([*rows, *rows[:4]])["documents"] == 4
    assert found([*rows, *page("doc-01", 1, version="and more")]) == []
    assert evidence([*without_positions(rows), *without_positions(rows[:4])])["earlier_rows"] == 4


def test_without_positions_most_texts_must_be_equal() -> None:
    rows = without_positions(corpus(chunks=10))
    changed = [replace(row, text=f"{row.text} changed") for row in without_positions(page("doc-03", 10))]
    assert evidence([*rows, *without_positions(page("doc-03", 10))[:7], *changed[7:]])["earlier_rows"] == 10
    assert found([*rows, *without_positions(page("doc-03", 10))[:6], *changed[6:]]) == []


def appended(positions: bool) -> list[Row]:
    first, then = corpus(chunks=8), []
    rows = [row for row in first if row.position is not None and row.position < 5]
    rows += [row for row in first if row.position is not None and row.position >= 5]
    return rows + then if positions else without_positions(rows)


def pages_of_a_document(chunks: int = 3) -> list[Row]:
    """Positions begin again on each page, and each page begins with one header."""
    return [
        Row(
            f"doc-{doc}",
            position,
            "Confidential. All rights reserved." if position == 0 else prose(f"{doc}{p}{position}"),
        )
        for p in range(6)
        for doc in range(12)
        for position in range(chunks)
    ]


def parents_and_children() -> list[Row]:
    """Parents first, children later, each numbered from 0; short documents share one text."""
    parents = [
        Row(f"doc-{n}", i, prose(f"{n}/{i}", 60 if n % 3 else 10)) for n in range(30) for i in range(2 if n % 3 else 1)
    ]
    children = []
    for parent in parents:
        words = parent.text.split()
        pieces = [words] if len(words) == 10 else [words[:20], words[20:40], words[40:]]
        children += [replace(parent, text=" ".join(piece)) for piece in pieces]
    numbered, next_of = [], {}
    for child in children:
        next_of[child.doc] = next_of.get(child.doc, -1) + 1
        numbered.append(replace(child, position=next_of[child.doc]))
    return parents + numbered


def pages_some_alike() -> list[Row]:
    """Positions begin again on each page, and in two of the documents every page says the same."""
    return [
        Row(row.doc, row.position, prose(f"{row.doc}{row.position}") if row.doc in ("doc-0", "doc-1") else row.text)
        for row in pages_of_a_document()
    ]


def mostly_short_parents() -> list[Row]:
    """Parents first, children later; in seven of eight documents each parent is its own only child."""
    rows = [Row(f"doc-{n}", i, prose(f"{n}/{i}", 10 if n % 8 else 60)) for n in range(40) for i in range(2)]
    children = [row for row in rows if len(row.text.split()) == 10]
    for row in rows:
        words = row.text.split()
        if len(words) == 60:
            children.append(replace(row, text=" ".join(words[:20])))
    return rows + children


def windows() -> list[Row]:
    rows = []
    for n in range(20):
        words = prose(f"long {n}", 300).split()
        rows += [Row(f"doc-{n}", i, " ".join(words[start : start + 80])) for i, start in enumerate(range(0, 220, 20))]
    return rows


def templated() -> list[Row]:
    """One document of generated entries that differ in numbers, strewn among others."""
    rows = corpus(10)
    for number in range(0, 30, 3):
        rows += page(f"between-{number}", 2)
        rows += [Row("errors", number + i, f"{prose('template')} code {number + i}") for i in range(3)]
    return rows


def footers() -> list[Row]:
    """Each addition to a document ends with the footer that all of them carry."""
    return [
        Row(f"doc-{doc}", None, text)
        for part in range(4)
        for doc in range(10)
        for text in (prose(f"{doc}.{part}.0"), prose(f"{doc}.{part}.1"), "Was this page helpful? Yes. No.")
    ]


CLEAN = {
    "a plain corpus": corpus(),
    "no positions": without_positions(corpus()),
    "appended to over time": appended(True),
    "appended to without positions": appended(False),
    "appended to on later dates": [replace(row, date=DAYS[(row.position or 0) // 2]) for row in corpus()],
    "positions within pages": pages_of_a_document(),
    "one chunk a page": pages_of_a_document(1),
    "pages together": sorted(pages_of_a_document(), key=lambda row: row.doc or ""),
    "parents and children": parents_and_children(),
    "parents and children together": sorted(parents_and_children(), key=lambda row: row.doc or ""),
    "windows": windows(),
    "windows without positions": without_positions(windows()),
    "one document": [replace(row, doc="all") for row in corpus()],
    "one document, numbered by page": [replace(row, doc="all", position=0) for row in corpus()],
    "no documents": [replace(row, doc=None) for row in [*corpus(), *corpus()]],
    "documents named None": [replace(row, doc="None") for row in [*corpus(), *corpus()]],
    "templated entries": templated(),
    "templated entries without positions": without_positions(templated()),
    "footers": footers(),
    "position always 0": [replace(row, position=0) for row in corpus()],
    "one document in two sources": [*corpus(), *corpus(source="b")],
    "rows in any order": sorted(corpus(), key=lambda row: prose(row.text)),
    "positions within pages, some alike": pages_some_alike(),
    "mostly short parents": mostly_short_parents(),
    "two rows without text": [*corpus(), Row("doc-01", None, ""), Row("doc-02", None, "one"), Row("doc-01", None, "")],
    "rows without text": [*corpus(), *[Row(f"doc-{n % 20:02}", None, "") for n in range(60)]],
}


@pytest.mark.parametrize("name", CLEAN)
def test_what_only_looks_like_a_generation_is_not_told(name: str) -> None:
    assert found(CLEAN[name]) == []


@pytest.mark.parametrize("name", [None, "", " ", "None", "null", "NaN"])
def test_rows_without_a_document_have_no_code(name: str | None) -> None:
    rows = snapshot([Row(name, 0, "text"), Row("page", 1, "text"), Row("page", None, "text", source="b")]).rows
    documents = Documents.of(rows)
    assert documents.code[0] == -1
    assert len(set(documents.code.tolist())) == 3
    assert documents.position.tolist() == [0, 1, -1]


def test_repeated_ids_are_another_finding() -> None:
    rows = [*corpus(), *page("doc-03")]
    ids = [f"{row.doc}/{row.position}" for row in rows]
    assert found(rows, ids) == []


def test_texts_beyond_what_is_compared_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit_pipeline.index.generations._MOST_COMPARED", 7)
    told = evidence([*corpus(), *page("doc-03", version="x"), *page("doc-07", version="x")])
    assert (told["documents"], told["not_compared"]) == (1, 1)
