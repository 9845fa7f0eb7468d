"""Pairs that the team has judged: reading the file and leaving out what cannot be used, with counts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.text import sha256_hex
from audit_pipeline.duplicates.agreement import agreement, is_adjudicated
from audit_pipeline.duplicates.answers import answer_of
from audit_pipeline.duplicates.label_files import OVERFULL, read_csv
from audit_pipeline.duplicates.rows import Nodes
from audit_pipeline.errors import AuditInputError, reason_of

REQUIRED = ("chunk_id_a", "chunk_id_b", "duplicate", "origin")
OPTIONAL = ("text_sha256_a", "text_sha256_b", "labeller", "band")
CORPUS, CONSTRUCTED = "corpus", "constructed"

INVALID = {
    "bad_value": "'duplicate' is neither true nor false, or 'origin' neither corpus nor constructed",
    "contradictory": "the pair is labelled both ways",
    "no_cosine": "a vector cannot be used, or the two are of different roles",
    "same_id": "both ids are the same",
    "text_changed": "a text has changed since it was labelled",
    "unknown_id": "a chunk is not in the corpus",
    "window": "the two overlap in one document",
}
"""Why a labelled pair is left out and counted, and how that is told."""


@dataclass(frozen=True)
class LabelledPairs:
    """Usable labelled pairs as nodes a < b, each pair once, sorted; ``invalid`` counts the others by reason.

    ``conflicts`` are pairs labelled both ways that nobody has settled (left out), ``adjudicated`` pairs that somebody
    has; ``agreement`` is that of double labels (duplicates.agreement), None where there are none.
    """

    a: np.ndarray
    b: np.ndarray
    duplicate: np.ndarray  # (n,) bool
    corpus: np.ndarray  # (n,) bool: the origin is the corpus, not a construction
    band: list[str | None]
    invalid: dict[str, int]
    conflicts: int = 0
    adjudicated: int = 0
    agreement: dict[str, Any] | None = None

    def __len__(self) -> int:
        return len(self.a)

    def where(self, kept: np.ndarray) -> LabelledPairs:
        """The pairs for which ``kept`` (n,) bool holds; what is counted of the whole file stays."""
        band = [band for band, keep in zip(self.band, kept.tolist(), strict=True) if keep]
        return replace(
            self, a=self.a[kept], b=self.b[kept], duplicate=self.duplicate[kept], corpus=self.corpus[kept], band=band
        )


def no_labels() -> LabelledPairs:
    """The labels of a team that has none."""
    nodes, flags = np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
    return LabelledPairs(nodes, nodes, flags, flags, [], {})


def read_labelled_pairs(path: Path) -> pa.Table:
    """The labels file as strings: columns of REQUIRED and those of OPTIONAL that it has. Raises AuditInputError."""
    readers = {".parquet": _read_parquet, ".csv": _read_csv, ".jsonl": _read_jsonl}
    if path.suffix not in readers:
        raise AuditInputError(f"labels.pairs: {path} is neither .parquet, .csv nor .jsonl: convert it to one of them")
    try:
        table = readers[path.suffix](path)
    except AuditInputError as error:
        raise AuditInputError(f"labels.pairs: {error}") from error
    except (OSError, ValueError) as error:  # Arrow's and those of decoding are ValueErrors
        raise AuditInputError(
            f"labels.pairs: {path} cannot be read ({reason_of(error)}): check the path and the file"
        ) from error
    lacking = [name for name in REQUIRED if name not in table.column_names]
    if lacking:
        raise AuditInputError(
            f"labels.pairs: {path} has no column {lacking[0]!r}; its columns are {', '.join(table.column_names)}, "
            f"needed are {', '.join(REQUIRED)}: add or rename it"
        )
    names = [name for name in (*REQUIRED, *OPTIONAL) if name in table.column_names]
    return pa.table({name: _strings(table[name], name, path) for name in names})


def validate_labelled_pairs(labels: pa.Table, nodes: Nodes) -> LabelledPairs:
    """Usable pairs of a labels table (read_labelled_pairs).

    The others are left out and counted by the first reason of ``INVALID`` that holds: text_changed where a recorded
    hash is no longer that of the text, contradictory for all rows of one pair in both classes that no row of the
    labeller "adjudicated" settles. Windows are found by the sweep. The same judgement twice counts once.
    """
    duplicate = _booleans(labels["duplicate"])
    origin = np.array([(value or "").strip().lower() for value in labels["origin"].to_pylist()], dtype=object)
    ids = [pc.fill_null(labels[name], "") for name in ("chunk_id_a", "chunk_id_b")]
    left, right = (nodes.node_of(column) for column in ids)
    same = pc.equal(ids[0], ids[1]).to_numpy()
    a, b = np.minimum(left, right), np.maximum(left, right)
    reason = np.full(len(labels), "", dtype=object)

    def reject(name: str, rows: np.ndarray) -> None:
        reason[rows & (reason == "")] = name

    reject("bad_value", (duplicate < 0) | ~np.isin(origin, (CORPUS, CONSTRUCTED)))
    reject("unknown_id", (left < 0) | (right < 0))
    reject("same_id", same)
    reject(
        "text_changed", _changed(labels, "text_sha256_a", left, nodes) | _changed(labels, "text_sha256_b", right, nodes)
    )
    open_rows = np.flatnonzero(reason == "")
    no_cosine = np.zeros(len(labels), dtype=bool)
    no_cosine[open_rows] = np.isnan(nodes.cosines(a[open_rows], b[open_rows]))
    reject("no_cosine", no_cosine)
    open_rows = np.flatnonzero(reason == "")
    code = a[open_rows] * max(len(nodes), 1) + b[open_rows]
    _, first, place = np.unique(code, return_index=True, return_inverse=True)
    answered, labellers = duplicate[open_rows], _column(labels, "labeller")
    deciding = is_adjudicated([labellers[row] or "" for row in open_rows.tolist()])
    given = np.bincount(place, minlength=len(first))
    settles = np.bincount(place, weights=deciding, minlength=len(first)) > 0
    positive = np.bincount(place, weights=answered, minlength=len(first))
    disputed = (positive > 0) & (positive < given)
    counted = np.where(settles, np.bincount(place, weights=deciding, minlength=len(first)), given)
    positive = np.where(settles, np.bincount(place, weights=answered * deciding, minlength=len(first)), positive)
    contradictory = (positive > 0) & (positive < counted)
    reason[open_rows[contradictory[place]]] = "contradictory"
    band = _band_of_pairs(_column(labels, "band"), open_rows, place, len(first))
    kept = open_rows[first[~contradictory]]
    names, counts = np.unique([name for name in reason if name], return_counts=True)
    return LabelledPairs(
        a=a[kept],
        b=b[kept],
        duplicate=positive[~contradictory] > 0,
        corpus=_all_of_corpus(origin[open_rows] == CORPUS, place, len(first))[~contradictory],
        band=[one for one, out in zip(band, contradictory.tolist(), strict=True) if not out],
        invalid={str(name): int(count) for name, count in zip(names, counts, strict=True)},
        conflicts=int(contradictory.sum()),
        adjudicated=int((settles & disputed & ~contradictory).sum()),
        agreement=agreement(place, [labellers[row] or "" for row in open_rows.tolist()], answered > 0),
    )


def in_table_ids(labels: pa.Table, store_ids: pa.Table) -> pa.Table:
    """The labels with ids of the source store written as those of the table's rows; ids of the table stay.

    ``store_ids`` has chunk_id, store_id and text_sha256 (of the store's text) of chunks that were paired by text, whose
    two sides share no id. A recorded hash that is the store's is left out: the row's text is that one but for white
    space and Unicode form.
    """
    own = store_ids["chunk_id"].combine_chunks()
    theirs, hashes = (store_ids[name].combine_chunks() for name in ("store_id", "text_sha256"))
    for side in "ab":
        name, hashed = f"chunk_id_{side}", f"text_sha256_{side}"
        ids = labels[name].combine_chunks()
        found = pc.if_else(pc.is_in(ids, value_set=own), None, pc.index_in(ids, value_set=theirs))
        labels = labels.set_column(labels.schema.get_field_index(name), name, pc.coalesce(own.take(found), ids))
        if hashed in labels.column_names:
            recorded = labels[hashed].combine_chunks()
            same = pc.fill_null(pc.equal(recorded, hashes.take(found)), False)
            kept = pc.if_else(same, pa.scalar(None, pa.string()), recorded)
            labels = labels.set_column(labels.schema.get_field_index(hashed), hashed, kept)
    return labels


def _strings(column: pa.ChunkedArray, name: str, path: Path) -> pa.ChunkedArray:
    try:
        return pc.cast(column, pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise AuditInputError(
            f"labels.pairs: column {name!r} of {path} is of type {column.type}: write it as text"
        ) from error


def _booleans(column: pa.ChunkedArray) -> np.ndarray:
    """1 true, 0 false, -1 neither."""
    answers = [answer_of(value) for value in column.to_pylist()]
    return np.array([-1 if answer is None else int(answer) for answer in answers], dtype=np.int64)


def _column(labels: pa.Table, name: str) -> list[str | None]:
    return labels[name].to_pylist() if name in labels.column_names else [None] * len(labels)


def _band_of_pairs(band: list[str | None], rows: np.ndarray, place: np.ndarray, pairs: int) -> list[str | None]:
    """The band of each pair: the least that any of its judgements carries, so that their order does not matter."""
    found: list[str | None] = [None] * pairs
    for row, pair in zip(rows.tolist(), place.tolist(), strict=True):
        one, other = band[row], found[pair]
        if one and (other is None or one < other):
            found[pair] = one
    return found


def _all_of_corpus(corpus: np.ndarray, place: np.ndarray, pairs: int) -> np.ndarray:
    """(pairs,) bool: no judgement of the pair says that it was constructed."""
    return np.bincount(place, weights=~corpus, minlength=pairs) == 0


def _changed(labels: pa.Table, column: str, node: np.ndarray, nodes: Nodes) -> np.ndarray:
    changed = np.zeros(len(labels), dtype=bool)
    if column not in labels.column_names:
        return changed
    recorded = np.array(labels[column].fill_null("").to_pylist(), dtype=object)
    rows = np.flatnonzero((node >= 0) & (recorded != ""))
    now = sha256_hex(pa.array(nodes.texts(node[rows]), type=pa.string())).to_pylist()
    changed[rows] = [one != other for one, other in zip(now, recorded[rows], strict=True)]
    return changed


def _read_parquet(path: Path) -> pa.Table:
    import pyarrow.parquet as pq

    return pq.read_table(path)


def _read_csv(path: Path) -> pa.Table:
    names, rows = read_csv(path)
    overfull = next((number for number, row in enumerate(rows, start=1) if OVERFULL in row), None)
    if overfull is not None:
        raise AuditInputError(
            f"{path}: row {overfull} has more fields than columns: write values that hold a delimiter in double quotes"
        )
    return pa.table({name: pa.array([row.get(name) or None for row in rows], pa.string()) for name in names})


def _read_jsonl(path: Path) -> pa.Table:
    import pyarrow.json as pajson

    return pajson.read_json(path)
