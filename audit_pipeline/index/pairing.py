"""Which row of a table is which row of the source store: by id, else by text. What differs is compared elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.arrays import among, one_array
from audit_pipeline.corpus.batches import parse_batch_key
from audit_pipeline.corpus.reasons import DUPLICATE_ROW, ID_COLLISION, MISSING_ID
from audit_pipeline.corpus.text import count_words, sha256_hex
from audit_pipeline.index.placeholders import blank_texts, placeholder_rows
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.schemas import CHUNKS

PairedBy = Literal["chunk_id", "text", "nothing"]

STORE_ID = "store_id"
"""Further field of chunks paired by text: the id that the store has for them."""

LEAST_SHARED = 0.5
"""Share of the distinct texts of the smaller side that must stand on the other, where no id does: under it the texts
are stored in another form than in the store, and every row would seem lost."""

_REPEATED_IDS = pa.array([ID_COLLISION, DUPLICATE_ROW])
_WHITE_SPACE = r"[\s\p{Z}]+"


@dataclass(frozen=True)
class Paired:
    """What rows were paired by. Where ids did not do, ``shared`` of the ``distinct`` texts of the smaller side stand
    on both sides.
    """

    by: PairedBy = "chunk_id"
    shared: int = 0
    distinct: int = 0


@dataclass(frozen=True)
class Pairing:
    """The store's rows under the ids of the table's.

    ``chunks`` (schemas.CHUNKS, by text also ``store_id``) have the id of the table's row where they are paired by
    text, their own where there is none; ``rejected`` is what is left of the rejected rows, by the same rule.
    """

    paired: Paired
    chunks: pa.Table
    rejected: pa.Table


def pair_with_store(snapshot: TableSnapshot, chunks: pa.Table, rejected: pa.Table) -> Pairing:
    """Pair by id where any id of the store, rejected or not, stands in the table; by text where only most texts do.

    Many writers give every row a new id at each ingest, or none. Texts are equal byte for byte, or but for white space
    and Unicode form; the k-th row of a text is the k-th of it on the other side, those of one source, date and document
    first. Rows that the store rejected for a repeated id count by text like all others; those rejected for another
    reason, and by id those without one, only get the id of their table row, so that it is not taken for an orphan.
    Where neither ids nor texts are shared, the two sides are paired by nothing: they cannot be compared. Growth:
    O(n log n) in the rows.
    """
    ids, has_ids = snapshot.chunk_ids, "chunk_id" not in snapshot.absent
    known = pa.concat_arrays([one_array(chunks["chunk_id"]), one_array(rejected["chunk_id"])])
    stand_in = placeholder_rows(snapshot.rows, snapshot.vector_state, snapshot.zeros_meant)
    real = ~stand_in & ~blank_texts(snapshot.rows).to_numpy(zero_copy_only=False)
    if has_ids and _share_an_id(ids, known):
        free = pc.and_(pa.array(real), pc.invert(among(ids, known)))
        return Pairing(Paired(), chunks, _nameless_by_text(rejected, snapshot.rows, free, snapshot.absent))
    rows = snapshot.rows.filter(pa.array(real))
    numbered = rejected.append_column("ordinal", _ordinals(rejected))
    usable = pc.and_(pc.is_in(rejected["reason"], value_set=_REPEATED_IDS), pc.is_valid(rejected["batch"]))
    revived, others = _with_text(numbered.filter(usable)), _with_text(numbered.filter(pc.invert(usable)))
    candidates = pa.concat_tables(
        [chunks.select(CHUNKS.names), *(part.select(CHUNKS.names) for part in (revived, others))]
    )
    folded_rows, folded_store = _folded(rows["text"]), _folded(candidates["text"])
    sides = pc.unique(folded_rows), pc.unique(folded_store)
    smaller, larger = sorted(sides, key=len)
    shared = int(pc.sum(among(smaller, larger)).as_py() or 0)
    if len(smaller) and shared < LEAST_SHARED * len(smaller):
        return Pairing(Paired("nothing", shared, len(smaller)), chunks, rejected)
    place = _places(candidates, rows, folded_store, folded_rows, snapshot.absent)
    of_revived, of_others = np.split(place[len(chunks) :], [len(revived)])
    kept = np.concatenate([np.ones(len(chunks), dtype=bool), of_revived >= 0, np.zeros(len(others), dtype=bool)])
    own = one_array(candidates["chunk_id"])
    paired = one_array(rows["chunk_id"]).take(pa.array(place, mask=place < 0))
    column = candidates.schema.get_field_index("chunk_id")
    found = candidates.set_column(column, CHUNKS.field("chunk_id"), pc.coalesce(paired, own))
    found = found.append_column(STORE_ID, own).filter(pa.array(kept))
    taken = np.zeros(len(rejected), dtype=bool)
    taken[one_array(revived["ordinal"]).to_numpy()[of_revived >= 0]] = True
    left = _with_table_ids(rejected, others, of_others, rows).filter(pa.array(~taken))
    return Pairing(Paired("text", shared, len(smaller)), found.sort_by("chunk_id"), left)


def _share_an_id(table: pa.Array, store: pa.Array) -> bool:
    """True as well where one side is empty: then ids say all there is to say."""
    return not len(table) or not len(store) or bool(pc.any(among(table, store)).as_py())


def _nameless_by_text(rejected: pa.Table, rows: pa.Table, free: pa.Array, absent: tuple[str, ...]) -> pa.Table:
    """The rejected rows, those without an id under that of the ``free`` (rows,) table row with their text, if any."""
    numbered = rejected.append_column("ordinal", _ordinals(rejected))
    nameless = _with_text(numbered.filter(pc.equal(rejected["reason"], MISSING_ID)))
    if not len(nameless):
        return rejected
    rows = rows.filter(free)
    place = _places(nameless, rows, _folded(nameless["text"]), _folded(rows["text"]), absent)
    return _with_table_ids(rejected, nameless, place, rows)


def _with_text(rejected: pa.Table) -> pa.Table:
    """Rejected rows that have a text, as chunks with their ``ordinal``."""
    rows = rejected.filter(rejected["text"].is_valid())
    texts = one_array(rows["text"])
    batches = one_array(rows["batch"]).dictionary_encode()
    days = pa.array([parse_batch_key(batch)[0] for batch in batches.dictionary.to_pylist()], pa.date32())
    known = {
        "chunk_id": rows["chunk_id"].fill_null(""),
        "source": rows["source"],
        "ingestion_date": days.take(batches.indices),
        "batch": rows["batch"].fill_null(""),
        "text": texts,
        "text_sha256": sha256_hex(texts),
        "n_words": count_words(texts),
    }
    columns = [known.get(field.name, pa.nulls(len(rows), field.type)) for field in CHUNKS]
    return pa.table(columns, schema=CHUNKS).append_column("ordinal", rows["ordinal"])


def _with_table_ids(rejected: pa.Table, some: pa.Table, place: np.ndarray, rows: pa.Table) -> pa.Table:
    """The rejected rows, ``some`` of them (see ``_with_text``) under the id of the table's row at ``place``, if any."""
    found = np.full(len(rejected), -1, dtype=np.int64)
    found[one_array(some["ordinal"]).to_numpy()] = place
    paired = one_array(rows["chunk_id"]).take(pa.array(found, mask=found < 0))
    column = rejected.schema.get_field_index("chunk_id")
    ids = pc.coalesce(paired, one_array(rejected["chunk_id"]))
    return rejected.set_column(column, rejected.schema.field("chunk_id"), ids)


def _ordinals(rows: pa.Table) -> pa.Array:
    return pa.array(np.arange(len(rows)), pa.int64())


def _places(
    store: pa.Table, rows: pa.Table, folded_store: pa.Array, folded_rows: pa.Array, absent: tuple[str, ...]
) -> np.ndarray:
    """(len(store),) int64: the table's row of each row of the store, -1 where there is none; each is taken once."""
    fields = [name for name in ("source", "ingestion_date", "doc_id") if name not in absent]
    keys = [
        (_keys(store, ["text_sha256", *fields]), _keys(rows, ["text_sha256", *fields])),
        (one_array(store["text_sha256"]), one_array(rows["text_sha256"])),
        (folded_store, folded_rows),
    ]
    place = np.full(len(store), -1, dtype=np.int64)
    for of_store, of_rows in keys:
        open_store = np.flatnonzero(place < 0)
        free = np.setdiff1d(np.arange(len(rows)), place, assume_unique=False)
        found = _matched(of_store.take(pa.array(open_store)), of_rows.take(pa.array(free)))
        place[open_store[found >= 0]] = free[found[found >= 0]]
    return place


def _matched(left: pa.Array, right: pa.Array) -> np.ndarray:
    """(len(left),) int64: where the k-th row of a value on the left finds the k-th of it on the right, else -1."""
    codes = pa.concat_arrays([left, right]).dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    ordinals = [_occurrences(codes[: len(left)]), _occurrences(codes[len(left) :])]
    width = max((int(part.max(initial=0)) for part in ordinals), default=0) + 1
    keys = [codes[: len(left)] * width + ordinals[0], codes[len(left) :] * width + ordinals[1]]
    found = pc.index_in(pa.array(keys[0]), value_set=pa.array(keys[1]))
    return found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def _occurrences(codes: np.ndarray) -> np.ndarray:
    """(n,) int64: how many rows of the same code stand before each row."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    counts = np.empty(len(codes), dtype=np.int64)
    counts[order] = np.arange(len(codes)) - np.searchsorted(ordered, ordered, side="left")
    return counts


def _keys(rows: pa.Table, names: list[str]) -> pa.Array:
    parts = [one_array(rows[name]).cast(pa.string()).fill_null("\0") for name in names]
    return pc.binary_join_element_wise(*parts, "\x1f")


def _folded(texts: pa.ChunkedArray) -> pa.Array:
    """Texts in NFC with single spaces: what splitters and loaders change without a loss."""
    spaced = pc.replace_substring_regex(pc.utf8_normalize(one_array(texts), form="NFC"), _WHITE_SPACE, " ")
    return pc.utf8_trim_whitespace(spaced)
