"""Markdown files as RAW tables. Where a text is cut is decided in markdown_text.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.corpus.casts import Where
from audit_pipeline.corpus.columns import Part, Seen, to_raw
from audit_pipeline.corpus.files import SourceFile
from audit_pipeline.corpus.markdown_text import BrokenFrontMatterError, chunks_of, split_front_matter
from audit_pipeline.corpus.paths import spelt_path
from audit_pipeline.errors import AuditInputError
from audit_pipeline.format_settings import MarkdownSettings
from audit_pipeline.source_settings import SourceSettings

_DATE = "ingestion_date"


def read_markdown(entry: SourceSettings, file: SourceFile, where: Where, seen: Seen) -> Iterator[pa.Table]:
    """The chunks of one file, none for a file without text.

    ``doc_id`` is the file's path under the entry's uri, ``heading`` the path of titles ("A > B"), ``position`` counts
    within the file. ``chunk_id`` is ``<source>:<path>``, then ``#`` and the chunk's name (markdown_text.chunks_of)
    where there is a title above it. Of the front matter only the date is used, from the column named for
    ingestion_date; the rest stays out of the text. Raises AuditInputError where that date is wanted and the front
    matter cannot be read.
    """
    with file.open_stream() as stream:
        text = stream.read().removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    named = entry.columns.get(_DATE, _DATE)
    try:
        front, body = split_front_matter(text)
    except BrokenFrontMatterError as error:
        told, body = error.args
        front = None
        if entry.columns.get(_DATE) is not None:
            raise AuditInputError(
                f"{where}: its front matter cannot be read ({told}): mend it, or remove columns: {{{_DATE}: ...}}"
            ) from error
    settings = entry.markdown or MarkdownSettings()
    chunks = chunks_of(body, settings.words, settings.overlap)
    n = len(chunks)
    if not n:
        return
    base = f"{entry.name}:{file.origin}"
    fields = {
        "chunk_id": [_strings([f"{base}#{chunk.name}" if chunk.name else base for chunk in chunks])],
        "text": [_strings([chunk.text for chunk in chunks])],
        "doc_id": [_strings([file.origin] * n)],
        "heading": [_strings([chunk.heading for chunk in chunks])],
        "position": [Part(pa.array(np.arange(n, dtype=np.int32)))],
    }
    value = _value({**file.hive, **(front or {})}, named) if isinstance(named, str) else None
    if value is not None:
        fields[_DATE] = [Part(pa.array([str(value)] * n, pa.string()))]
    names = {field: field for field in fields} | {_DATE: str(named)}
    raw = to_raw(fields, names, np.arange(n, dtype=np.int64), entry, where, file.days)
    seen.note(fields, raw)
    yield raw


def _strings(values: list[str | None]) -> Part:
    """The values as the file's own bytes, so that a bad one is found and costs the row that it stands in."""
    return Part(pa.array([one and one.encode("utf-8", "surrogateescape") for one in values], pa.binary()))


def _value(front: dict[str, Any], name: str) -> Any:
    """What stands under a name, or under the parts of a dotted one; None where nothing does."""
    if name in front:
        return front[name]
    value: Any = front
    for part in spelt_path(name).parts:
        value = value.get(part) if isinstance(value, dict) else None
    return value
