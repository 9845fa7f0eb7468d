"""Where a chunk's fields stand in someone's data: the fields there are, and what may be written for each."""

from __future__ import annotations

from audit_pipeline.spelling import did_you_mean

ColumnPath = str | list[str]
CHUNK_COLUMNS = ("chunk_id", "text", "source", "ingestion_date", "doc_id", "heading", "position")
COMPOSITE_COLUMNS = ("chunk_id", "source", "doc_id", "heading")


def check_columns(columns: dict[str, ColumnPath | None], known: tuple[str, ...]) -> dict[str, ColumnPath | None]:
    """The columns as given. Raises ValueError for a field that is not known, and for a list where one column stands."""
    for field, path in columns.items():
        if isinstance(path, list) and (field not in COMPOSITE_COLUMNS or not path):
            raise ValueError(
                f"{field!r} cannot be this list: name one column, or several for {', '.join(COMPOSITE_COLUMNS)}"
            )
    for field in columns:
        if field not in known:
            raise ValueError(f"{field!r} is no chunk field{did_you_mean(field, known)}; use one of {', '.join(known)}")
    return columns
