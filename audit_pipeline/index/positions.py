"""Chunk numbers that a document lacks: 0, 1, 3 says that a chunk is missing. Repeated numbers are in generations.py."""

from __future__ import annotations

import numpy as np

from audit_pipeline.findings import MAX_EXAMPLES, Finding
from audit_pipeline.index.documents import Documents
from audit_pipeline.index.snapshot import TableSnapshot

MIN_CHUNKS = 3
"""Different positions a document needs to show a gap: of two numbers nobody can tell."""

MIN_DOCUMENTS = 5
"""Documents of that many chunks a table needs to show how it numbers them."""

HABIT = 0.8
"""Share of documents without a gap from which a table numbers its chunks one after the other."""

_MOST_REPEATED = 0.2
_PAGES = ("page", "pages", "page_number", "page_no", "page_label")


def position_gaps(snapshot: TableSnapshot, documents: Documents, position_path: str | None = None) -> list[Finding]:
    """position_gaps (info) where some documents lack a number between their first and their last one.

    Only a table that numbers its chunks one after the other can show a gap. Where over a fifth of the documents have
    gaps (offsets, pages, numbers over the whole table) or more than a fifth of the rows share their number with
    another row of their document (numbers within a page), it is not measured and said so. Nothing is said where
    documents or positions are unknown, where too few documents have three chunks, and where ``position_path``, the
    place that the settings name, holds page numbers. Numbering may begin anywhere.
    """
    if position_path is not None and position_path.replace("$", "").rsplit(".", 1)[-1].lower() in _PAGES:
        return []
    known = np.flatnonzero((documents.code >= 0) & (documents.position >= 0))
    if not len(known):
        return []
    order = known[np.lexsort((known, documents.position[known], documents.code[known]))]
    code, position = documents.code[order], documents.position[order]
    repeated = np.r_[False, (code[1:] == code[:-1]) & (position[1:] == position[:-1])]
    order, code, position = order[~repeated], code[~repeated], position[~repeated]
    starts = np.flatnonzero(np.r_[True, code[1:] != code[:-1]])
    chunks = np.diff(np.r_[starts, len(code)])
    span = position[starts + chunks - 1] - position[starts] + 1
    large = chunks >= MIN_CHUNKS
    n = int(large.sum())
    if n < MIN_DOCUMENTS:
        return []
    gaps = large & (span > chunks)
    k = int(gaps.sum())
    if not k:
        return []
    if n - k < HABIT * n or repeated.mean() > _MOST_REPEATED:
        return [_not_measured(k, n, float(repeated.mean()))]
    missing = int((span - chunks)[gaps].sum())
    # The row after each hole, which is where somebody has to look.
    inside = np.repeat(gaps, chunks)
    after = np.flatnonzero(np.r_[False, (code[1:] == code[:-1]) & (position[1:] - position[:-1] > 1)] & inside)
    examples = snapshot.chunk_ids.take(order[after[:MAX_EXAMPLES]]).to_pylist()
    first = after[0]
    return [
        Finding(
            "position_gaps",
            "info",
            f"{k:,} of {n:,} documents of {MIN_CHUNKS} chunks or more lack {missing:,} of their chunk numbers, such as "
            f"{position[first - 1] + 1} between {position[first - 1]} and {position[first]}: without the sources "
            "nobody can say whether those chunks were left out on purpose.",
            "Look at the examples, the rows after a hole; name the sources to have missing rows measured.",
            n_compared=n,
            share=k / n,
            evidence={"documents": k, "missing_positions": missing},
            examples=examples,
        )
    ]


def _not_measured(k: int, n: int, repeated: float) -> Finding:
    shared = f" and {repeated:.0%} of the rows share their number within a document" if repeated else ""
    return Finding(
        "not_measured",
        "info",
        f"Not measured: chunks missing between others. {k:,} of {n:,} documents have gaps in their positions{shared}: "
        "they are no numbers that follow one another.",
        "Name the sources to have missing rows measured.",
        n_compared=0,
        evidence={"check": "position_gaps", "documents_with_gaps": k, "documents": n},
    )
