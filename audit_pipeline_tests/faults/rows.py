"""Ways to lose, repeat or leave rows of a batch. Texts and vectors that are there stay right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from audit_pipeline_tests.faults.index import PASSAGE, Batch, Index, with_values


def kept(index: Index, rows: np.ndarray) -> Index:
    """The table with only these rows, (n,) bool or places; the store as it was."""
    places = np.flatnonzero(rows) if rows.dtype == bool else rows
    return replace(index, rows=index.rows.take(pa.array(places)), vectors=index.vectors[places])


def lost(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return kept(index, ~batch.rows)


def lost_without_a_store(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Nothing says any more what should be there."""
    return replace(lost(index, batch, rng), store=None)


def without_a_store(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return replace(index, store=None)


def doubled(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Two writers added the batch, each for itself."""
    return kept(index, np.concatenate([np.arange(len(index.texts)), batch.places]))


def ids_reused(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The batch's ids were given a second time, to texts that are no rows of the store: one id, two contents."""
    texts = [text[::-1] for text in index.texts]
    other = replace(index.with_column("text", texts), vectors=index.encoders.encode(PASSAGE, texts))
    second = kept(other, batch.rows)
    return replace(
        index,
        rows=pa.concat_tables([second.rows, index.rows]),
        vectors=np.concatenate([second.vectors, index.vectors]),
    )


def ids_collided(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """In the store each id of the batch stands for two texts, of which the table keeps the later one."""
    assert index.store is not None
    own = index.store.filter(pa.array(batch.rows))
    earlier = with_values(own, "text", [f"Of an earlier page. {text[::-1]}" for text in own["text"].to_pylist()])
    return replace(index, store=pa.concat_tables([earlier, index.store]))


def orphaned(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The store no longer has the batch, the table still does; the rest of its source remains."""
    assert index.store is not None
    return replace(index, store=index.store.filter(pa.array(~batch.rows)))


def ids_changed(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The batch was written under ids of its own: its rows are lost under the old ids and orphans under the new."""
    ids = index.rows["chunk_id"].to_pylist()
    for place in batch.places:
        ids[place] = f"new-{ids[place]}"
    return index.with_column("chunk_id", ids)


def text_blanked(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    texts = index.texts
    for place in batch.places:
        texts[place] = "   "
    return index.with_column("text", texts)


def filed_elsewhere(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The table files the batch under another source; the store says where it belongs."""
    sources = index.rows["source"].to_pylist()
    for place in batch.places:
        sources[place] = "source-1"
    return index.with_column("source", sources)
