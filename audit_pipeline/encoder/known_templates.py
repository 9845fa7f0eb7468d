"""Templates that writers are known to embed, for the fields that a table has. Nothing is encoded here."""

from __future__ import annotations

import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.encoder.template import template_fields

TEXT = "{text}"
BEFORE_TEXT, METADATA_LINES = "before_text", "metadata_lines"
"""Fields that the index room makes: what LlamaIndex put before a text; ``key: value`` lines of a row's metadata."""

_WHOLE = ("{before_text}{text}", "{metadata_lines}\n\n{text}", "{metadata_lines}\n{text}")
_OF_A_TITLE = (
    "{%s}\n\n{text}",
    "{%s}: {text}",
    "%s: {%s}\n\n{text}",
    "# {%s}\n\n{text}",
    "title: {%s} | text: {text}",  # EmbeddingGemma
    "<document_metadata>\nsourceDocument: {%s}\n</document_metadata>\n\n{text}",  # AnythingLLM
    "{%s}\n{text}",
    "{%s} {text}",
)
_MOST_TITLES = 3


def known_templates(fields: pa.Table) -> list[str]:
    """The templates that these rows can tell from the bare text, which comes first.

    A title is the heading, or any further column of strings that was read beside the chunk fields; the document's id
    stands in where there is none.
    """
    titles = [name for name in title_fields(fields) if _filled(fields, name)]
    if not titles and _filled(fields, "doc_id"):
        titles = ["doc_id"]
    whole = [template for template in _WHOLE if _can_fill(template, fields)]
    of_titles = [template.replace("%s", title) for title in titles[:_MOST_TITLES] for template in _OF_A_TITLE]
    return [TEXT, *whole, *of_titles]


def title_fields(fields: pa.Table) -> list[str]:
    """The heading and the further columns that may be one, in the order of the table."""
    made = {BEFORE_TEXT, METADATA_LINES}
    further = [name for name in fields.column_names if name not in schemas.CHUNKS.names and name not in made]
    texts = [name for name in further if pa.types.is_string(fields.schema.field(name).type)]
    return ["heading", *texts] if "heading" in fields.column_names else texts


def template_columns(rows: pa.Table) -> list[str]:
    """The columns of table rows that a known template may name."""
    named = ["text", *title_fields(rows), "doc_id", BEFORE_TEXT, METADATA_LINES]
    return [name for name in named if name in rows.column_names]


def _can_fill(template: str, fields: pa.Table) -> bool:
    return all(_filled(fields, name) for _, name in template_fields(template) if name not in (None, "text"))


def _filled(fields: pa.Table, name: str | None) -> bool:
    return name in fields.column_names and any(fields[name].to_pylist())
