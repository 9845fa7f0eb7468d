"""Earlier and later ingestions of one document side by side in a table. Gaps in the numbering are in positions.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.text import normalise, words
from audit_pipeline.findings import MAX_EXAMPLES, Finding
from audit_pipeline.index.documents import Documents
from audit_pipeline.index.snapshot import TableSnapshot

LEAST_SHARED = {"position": 0.5, "text": 0.7}
"""Share of a later ingestion's rows that must stand in an earlier one: by their position, or word for word."""

LEAST_ALIKE = 0.6
"""Word-sequence similarity (Indel, 2 * common / all words) from which two texts are versions of one text."""

MOST_UNLIKE = 0.2
"""Share of documents with repeated positions and unlike texts from which positions number something else."""

MOST_CONTAINED = 0.05
"""The same for documents where one of two such texts stands in the other: parents and children are numbered apart."""

MOST_OWNERS = 3
"""Documents from which on a text that stands in all of them is boilerplate, and no sign of any."""

_MOST_COMPARED = 20_000
_UNDATED = np.iinfo(np.int32).min


@dataclass(frozen=True)
class Repeats:
    """Documents that stand in the table more than once.

    ``documents`` (k,) their codes, ``earlier`` ordinals of the superseded rows; ``equal`` and ``changed`` count the
    texts of later rows against the earlier ones; ``not_compared`` suspected documents beyond what is compared.
    """

    documents: np.ndarray
    earlier: np.ndarray
    equal: int
    changed: int
    not_compared: int


def generations(snapshot: TableSnapshot, documents: Documents) -> list[Finding]:
    """generations (info) where a document was ingested again and its older rows still stand beside the new ones.

    The rows of a document fall into runs: a new one begins with a later date, or behind rows of other documents;
    with positions only where these begin again. A run repeats the document when half of its positions stood before
    with texts that are alike, or, without positions, seven in ten of its texts word for word; two rows at least, or
    a document of one chunk whose text is equal. Rows with an id that stands twice are ``duplicate_ids`` and left out.
    Nothing is said where documents are unknown, and where positions turn out to number pages, or parents and
    children apart.
    """
    rows = snapshot.rows
    order = _in_order(snapshot, documents)
    if not len(order):
        return []
    numbered = documents.position[order] >= 0
    found = [_repeats(snapshot, documents, order[numbered], "position")]
    found.append(_repeats(snapshot, documents, order[~numbered], "text"))
    k = sum(len(repeats.documents) for repeats in found)
    if not k:
        return []
    n = len(np.unique(documents.code[order]))
    earlier = np.sort(np.concatenate([repeats.earlier for repeats in found]))
    equal, changed = sum(repeats.equal for repeats in found), sum(repeats.changed for repeats in found)
    not_compared = sum(repeats.not_compared for repeats in found)
    _, first = np.unique(documents.code[earlier], return_index=True)
    named = rows["doc_id"].take(pa.array(earlier[np.sort(first)[:MAX_EXAMPLES]]))
    more = f" {not_compared:,} more documents look like it and were not compared." if not_compared else ""
    return [
        Finding(
            "generations",
            "info",
            f"{k:,} of {n:,} documents were ingested again while their older rows stayed in the table: "
            f"{len(earlier):,} older rows can still be returned. Of the newer texts {equal:,} are equal to the older "
            f"ones and {changed:,} changed.{more}",
            "Delete a document's rows before it is written again, or write it with ids that stay the same; the "
            "examples are older rows.",
            n_compared=n,
            share=k / n,
            evidence={
                "documents": k,
                "earlier_rows": len(earlier),
                "texts_equal": equal,
                "texts_changed": changed,
                "not_compared": not_compared,
                "doc_ids": named.to_pylist(),
            },
            examples=snapshot.chunk_ids.take(pa.array(earlier[:MAX_EXAMPLES])).to_pylist(),
        )
    ]


def _in_order(snapshot: TableSnapshot, documents: Documents) -> np.ndarray:
    """Ordinals of the rows of known documents, by document, date and place in the table."""
    known = (documents.code >= 0) & (snapshot.rows["n_words"].to_numpy() > 0)
    if len(snapshot.repeated_ids):
        known &= ~pc.is_in(snapshot.chunk_ids, value_set=snapshot.repeated_ids).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(known)
    return rows[np.lexsort((rows, _dates(snapshot.rows)[rows], documents.code[rows]))]


def _dates(rows: pa.Table) -> np.ndarray:
    days = rows["ingestion_date"].combine_chunks().cast(pa.int32())
    return days.fill_null(_UNDATED).to_numpy(zero_copy_only=False)


def _repeats(snapshot: TableSnapshot, documents: Documents, order: np.ndarray, by: str) -> Repeats:
    """The repeated documents among the rows of ``order`` (by document, date, place); ``by`` position or text."""
    nothing = Repeats(order[:0], order[:0], 0, 0, 0)
    if not len(order):
        return nothing
    code, position = documents.code[order], documents.position[order]
    hashes = snapshot.rows["text_sha256"].combine_chunks().dictionary_encode().indices
    text = hashes.to_numpy(zero_copy_only=False).astype(np.int64)[order]
    key = position if by == "position" else text
    date = _dates(snapshot.rows)[order].astype(np.int64)
    dated = np.diff(date) != 0
    parted = np.diff(order) != 1
    if by == "position":
        parted &= np.diff(position) <= 0
    else:
        # Where a document's rows have several dates, these tell its ingestions, however the rows lie.
        parted &= (_keys_of(code, date) == 1)[1:]
    starts = np.flatnonzero(np.r_[True, (np.diff(code) != 0) | parted | dated])  # of the runs
    size = np.diff(np.r_[starts, len(order)])
    run = np.repeat(np.arange(len(starts)), size)

    place = np.lexsort((np.arange(len(order)), key, code))
    same = (np.diff(code[place]) == 0) & (np.diff(key[place]) == 0) & (np.diff(run[place]) != 0)
    before, later = place[:-1][same], place[1:][same]
    if by == "text":
        telling = ~_boilerplate(code, text)[later]
        before, later = before[telling], later[telling]
    repeated = np.bincount(run[later], minlength=len(starts))
    if not len(later):
        return nothing
    single = (repeated == 1) & (_keys_of(code, key) == 1)[starts] & (_longest_run(code[starts], size) == 1)
    many = (repeated >= 2) & (repeated >= LEAST_SHARED[by] * size)

    equal = text[before] == text[later]
    alike, contained, compared = _alike(snapshot.rows["text"], order[before], order[later], equal)
    own = equal & ~_boilerplate(code, text)[later]
    count = [np.bincount(run[later[which]], minlength=len(starts)) for which in (alike, own, contained, compared)]
    n_alike, n_own, n_contained, n_compared = count
    judged = (repeated > 0) & (n_compared == repeated)
    again = judged & ((single & (n_own == 1)) | (many & (n_alike >= LEAST_ALIKE * repeated)))
    several = judged & ~single
    unlike = _documents_in(code, starts, several & (n_alike < LEAST_ALIKE * repeated))
    nested = _documents_in(code, starts, judged & (n_contained > 0))
    if unlike > MOST_UNLIKE * _documents_in(code, starts, several):
        return nothing
    if nested > MOST_CONTAINED * _documents_in(code, starts, judged):
        return nothing
    chosen = again[run[later]]
    older = np.zeros(len(order), bool)
    older[before[chosen]] = True
    # A page that shrank: where most of a run is superseded, the rest of it is as old.
    older |= (np.bincount(run[older], minlength=len(starts)) >= 0.5 * size)[run]
    equal_rows = int((equal & chosen).sum())
    return Repeats(
        np.unique(code[starts[again]]),
        order[older],
        equal=equal_rows,
        changed=int(chosen.sum()) - equal_rows,
        not_compared=_documents_in(code, starts, (many | single) & ~judged),
    )


def _alike(
    texts: pa.ChunkedArray, before: np.ndarray, later: np.ndarray, equal: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(alike, one stands in the other without being alike, compared), each (m,) bool, of pairs of rows.

    Texts that are not equal are read one pair after the other, so at most ``_MOST_COMPARED`` of them are.
    """
    from rapidfuzz.distance import Indel

    alike, contained, compared = equal.copy(), np.zeros(len(equal), bool), equal.copy()
    read = np.flatnonzero(~equal)[:_MOST_COMPARED]
    compared[read] = True
    pairs = zip(
        texts.take(pa.array(before[read])).to_pylist(), texts.take(pa.array(later[read])).to_pylist(), strict=True
    )
    for place, (one, other) in zip(read.tolist(), pairs, strict=True):
        one, other = normalise(one), normalise(other)
        alike[place] = Indel.normalized_similarity(words(one), words(other)) >= LEAST_ALIKE
        contained[place] = not alike[place] and bool(one and other) and (one in other or other in one)
    return alike, contained, compared


def _keys_of(code: np.ndarray, key: np.ndarray) -> np.ndarray:
    """(n,) how many different keys each row's document has."""
    pairs = np.unique(np.stack([code, key]), axis=1)
    values, counts = np.unique(pairs[0], return_counts=True)
    return counts[np.searchsorted(values, code)]


def _longest_run(code: np.ndarray, size: np.ndarray) -> np.ndarray:
    """(r,) rows of the longest run of each run's document; ``code`` and ``size`` (r,) are the runs'."""
    values, of = np.unique(code, return_inverse=True)
    longest = np.zeros(len(values), np.int64)
    np.maximum.at(longest, of, size)
    return longest[of]


def _boilerplate(code: np.ndarray, text: np.ndarray) -> np.ndarray:
    """(n,) bool: rows whose text stands in ``MOST_OWNERS`` documents or more."""
    return _keys_of(text, code) >= MOST_OWNERS


def _documents_in(code: np.ndarray, starts: np.ndarray, runs: np.ndarray) -> int:
    return len(np.unique(code[starts[runs]]))
