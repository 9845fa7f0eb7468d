"""Writers that embed more than the text they store: the template is named where the row allows to rebuild it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.encoder.models import SentenceTransformerEncoder
from audit_pipeline.report.summary import exit_code
from audit_pipeline_tests.cases.planted_table import (
    ROWS,
    audited,
    errors,
    finding,
    findings,
    in_cell,
    rows_of_cells,
    vector_column,
)
from audit_pipeline_tests.encoder.planted import docstrings

PROMPT = "passage: "
TITLES = [f"Chapter {1 + i // 3}: of {'colours tables panels styles'.split()[i % 4]}" for i in range(ROWS)]
PAGES = [i // 2 for i in range(ROWS)]
Audit = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return docstrings("rich", ROWS)


@pytest.fixture
def audit(fast_encoder: SentenceTransformerEncoder, texts: list[str], tmp_path: Path) -> Audit:
    def run(embedded: list[str], *, index: dict[str, Any] | None = None, whole: bool = False, **fields: Any) -> Any:
        vectors = fast_encoder.encode(embedded, prompt=PROMPT)
        table = rows_of_cells(texts, **fields, vector=vector_column(vectors))
        settings = {"model": str(fast_encoder.files.folder), "query_prompt": "query: ", "passage_prompt": PROMPT}
        return audited(tmp_path, table, None, settings, index=index or {}, whole=whole)

    return run


def template_found(audit: dict[str, Any]) -> str:
    assert errors(audit) == []
    assert {row["role"] for row in audit["roles"]} == {"passage"}
    return finding(audit, "embedded_text_found")["evidence"]["embed_text"]


@pytest.mark.parametrize(
    ("column", "template"),
    [
        ("heading", "{heading}\n\n{text}"),
        ("heading", "{heading}: {text}"),
        ("heading", "# {heading}\n\n{text}"),
        ("heading", "title: {heading} | text: {text}"),
        ("title", "{title}\n\n{text}"),  # a column that the settings do not name
        ("section", "section: {section}\n\n{text}"),
        ("doc_title", "<document_metadata>\nsourceDocument: {doc_title}\n</document_metadata>\n\n{text}"),
        ("doc_id", "{doc_id}: {text}"),
    ],
)
def test_the_template_over_a_title_is_named(audit: Audit, texts: list[str], column: str, template: str) -> None:
    embedded = [template.format(**{column: title, "text": text}) for title, text in zip(TITLES, texts, strict=True)]
    assert template_found(audit(embedded, **{column: TITLES})) == template


METADATA = [{"source": f"docs/{t.split()[-1]}.md", "page": p, "_id": "x"} for t, p in zip(TITLES, PAGES, strict=True)]
LINES = [f"source: {m['source']}\npage: {m['page']}" for m in METADATA]


@pytest.mark.parametrize("as_json", [False, True])
def test_lines_of_metadata_before_the_text_are_named(audit: Audit, texts: list[str], as_json: bool) -> None:
    metadata = [json.dumps(row) for row in METADATA] if as_json else METADATA
    embedded = [f"{lines}\n\n{text}" for lines, text in zip(LINES, texts, strict=True)]
    assert template_found(audit(embedded, metadata=metadata)) == "{metadata_lines}\n\n{text}"


def test_rows_without_metadata_embed_their_text_alone_and_are_no_other_template(audit: Audit, texts: list[str]) -> None:
    metadata = [{"source": None, "page": None} if row % 4 == 3 else m for row, m in enumerate(METADATA)]
    embedded = [text if row % 4 == 3 else f"{LINES[row]}\n\n{text}" for row, text in enumerate(texts)]
    assert template_found(audit(embedded, metadata=metadata)) == "{metadata_lines}\n\n{text}"


@pytest.mark.parametrize("configured", [None, "title: {title} | text: {text}"])
def test_what_a_template_puts_around_a_title_is_left_out_where_there_is_no_title(
    audit: Audit, texts: list[str], configured: str | None
) -> None:
    titles = ["" if row % 16 == 5 else None if row % 4 == 3 else title for row, title in enumerate(TITLES)]
    embedded = [f"title: {title} | text: {text}" if title else text for title, text in zip(titles, texts, strict=True)]
    found = audit(embedded, title=titles, index={"embed_text": configured})
    assert errors(found) == []
    adopted = [
        finding["evidence"]["embed_text"] for finding in found["findings"] if finding["code"] == "embedded_text_found"
    ]
    assert adopted == ([] if configured else ["title: {title} | text: {text}"])


def test_a_title_left_out_where_there_is_one_deviates_from_the_template(audit: Audit, texts: list[str]) -> None:
    titles = [None if row % 4 == 3 else title for row, title in enumerate(TITLES)]
    left_out = in_cell("alpha", "2026-01-02")
    embedded = [
        text if title is None or out else f"{title}: {text}"
        for title, text, out in zip(titles, texts, left_out, strict=True)
    ]
    found = audit(embedded, title=titles, index={"embed_text": "{title}: {text}"})
    assert errors(found) == [("role_mismatch", {"source": "alpha", "ingestion_date": "2026-01-02"})]


def test_a_title_inside_the_metadata_is_named(audit: Audit, texts: list[str]) -> None:
    embedded = [f"{title}\n{text}" for title, text in zip(TITLES, texts, strict=True)]
    meta = [{"title": title, "page": page} for title, page in zip(TITLES, PAGES, strict=True)]
    # One line break or two are one and the same to this tokenizer.
    assert template_found(audit(embedded, meta=meta)) == "{meta.title}\n\n{text}"


def test_an_adopted_template_leaves_a_whole_audit_without_errors(audit: Audit, texts: list[str]) -> None:
    embedded = [f"{title}\n\n{text}" for title, text in zip(TITLES, texts, strict=True)]
    found = audit(embedded, title=TITLES, whole=True)
    assert template_found(found) == "{title}\n\n{text}"
    assert exit_code(found) == 0
    assert found["held_out"]["n"] > 0 or found["held_out"]["eligible"] == 0


def test_what_no_field_allows_to_rebuild_is_unknown_and_no_error(audit: Audit, texts: list[str]) -> None:
    embedded = [f"author: writer {7 * i}\nteam: docs\n\n{text}" for i, text in enumerate(texts)]
    found = audit(embedded, whole=True)
    assert findings(found, "embedded_text_unknown", "vector_drift", "role_mismatch") == [
        ("embedded_text_unknown", "info", {})
    ]
    assert errors(found) == []
    assert exit_code(found) == 0


def test_long_texts_that_a_few_words_more_hardly_move_do_not_make_unknown_text_a_drift(
    audit: Audit, texts: list[str]
) -> None:
    stored = [" ".join([text, *np.roll(texts, row)[:24]]) if row % 4 == 1 else text for row, text in enumerate(texts)]
    found = audit([f"see:\n{text}" for text in stored], text=stored)
    codes = ("embedded_text_unknown", "vector_drift", "role_mismatch", "undecided")
    assert findings(found, *codes) == [("embedded_text_unknown", "info", {})]
    unknown = finding(found, "embedded_text_unknown")
    assert 0.6 < unknown["share"] < 0.9


def test_titles_that_were_not_embedded_are_no_finding(audit: Audit, texts: list[str]) -> None:
    found = audit(texts, heading=TITLES, title=TITLES, section=TITLES, metadata=METADATA)
    codes = ("embedded_text_found", "embedded_text_unknown", "vector_drift", "role_mismatch")
    assert findings(found, *codes) == []


def test_a_batch_that_embeds_another_template_than_the_settings_name_is_a_role_mismatch(
    audit: Audit, texts: list[str]
) -> None:
    batch = ("beta", "2026-01-04")
    headed = [f"{title}\n\n{text}" for title, text in zip(TITLES, texts, strict=True)]
    deviating = [f"# {title}\n\n{text}" for title, text in zip(TITLES, texts, strict=True)]
    embedded = np.where(in_cell(*batch), deviating, headed).tolist()
    found = audit(embedded, heading=TITLES, index={"embed_text": "{heading}\n\n{text}"})
    assert errors(found) == [("role_mismatch", {"source": batch[0], "ingestion_date": batch[1]})]
    assert finding(found, "role_mismatch")["evidence"]["found_template"] == "# {heading}\n\n{text}"
    assert findings(found, "embedded_text_found") == []


def test_a_row_that_deviates_from_an_adopted_template_is_a_role_mismatch_with_its_name(
    fast_encoder: SentenceTransformerEncoder, tmp_path: Path
) -> None:
    # Twelve days of four rows: eleven of twelve cells are 90 %.
    texts, titles = docstrings("rich", 48), TITLES[:48]
    embedded = [t if i // 4 == 7 else f"{h}\n\n{t}" for i, (h, t) in enumerate(zip(titles, texts, strict=True))]
    days = [f"2026-01-{1 + i // 4:02}" for i in range(48)]
    vectors = vector_column(fast_encoder.encode(embedded, prompt=PROMPT))
    ids = [f"c{i:02}" for i in range(48)]
    table = pa.table({"chunk_id": ids, "text": texts, "ingestion_date": days, "title": titles, "vector": vectors})
    settings = {"model": str(fast_encoder.files.folder), "query_prompt": "query: ", "passage_prompt": PROMPT}
    found = audited(tmp_path, table, None, settings, whole=False)
    assert finding(found, "embedded_text_found")["evidence"]["embed_text"] == "{title}\n\n{text}"
    assert errors(found) == [("role_mismatch", {"source": "docs", "ingestion_date": "2026-01-08"})]
    assert finding(found, "role_mismatch")["evidence"]["found_template"] == "{text}"
