"""Ways to spoil the stored vectors of a batch while ids and texts stay right. Each takes (index, batch, rng)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from audit_pipeline_tests.faults.index import PASSAGE, QUERY, Batch, Index

SHIFT = 5
CUT_AT = 32  # words that a cutting runtime still reads


def encoded_again(index: Index, batch: Batch, prompt: str, texts: list[str] | None = None) -> Index:
    """The batch's texts, or others in their place, under another prompt."""
    own = [index.texts[place] for place in batch.places] if texts is None else texts
    return index.with_vectors(batch.rows, index.encoders.encode(prompt, own))


def role_swapped(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return encoded_again(index, batch, QUERY)


def prompt_dropped(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return encoded_again(index, batch, "")


def prompt_of_another_model(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return encoded_again(index, batch, "Represent this sentence for searching relevant passages: ")


def template_in_front(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    rows = index.rows.filter(pa.array(batch.rows)).to_pylist()
    return encoded_again(index, batch, PASSAGE, [f"title: {row['heading']} | text: {row['text']}" for row in rows])


def other_model(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    texts = [index.texts[place] for place in batch.places]
    return index.with_vectors(batch.rows, index.encoders.encode_by_other(PASSAGE, texts))


def dimensions_cut(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The second half of each vector is zeros, as a writer leaves it that pads to the column's size."""
    cut = index.vectors[batch.rows].copy()
    cut[:, cut.shape[1] // 2 :] = 0
    return index.with_vectors(batch.rows, cut / np.linalg.norm(cut, axis=1, keepdims=True))


def components_filled(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Every other component was no number and was filled with 0."""
    filled = index.vectors[batch.rows].copy()
    filled[:, ::2] = 0
    return index.with_vectors(batch.rows, filled)


def coarse_quantisation(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Only the sign of each component was kept."""
    return index.with_vectors(batch.rows, np.sign(index.vectors[batch.rows]) / np.sqrt(index.vectors.shape[1]))


def byte_order_swapped(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Components in the reverse order, as another reader of the same bytes has them."""
    return index.with_vectors(batch.rows, index.vectors[batch.rows][:, ::-1])


def text_cut_by_the_runtime(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The runtime read the first words of each text only."""
    texts = [" ".join(index.texts[place].split()[:CUT_AT]) for place in batch.places]
    return encoded_again(index, batch, PASSAGE, texts)


def stale_vectors(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The texts were written anew in store and table, the vectors were not: each still encodes what stood there."""
    texts = index.texts
    for place, other in zip(batch.places, np.roll(batch.places, SHIFT), strict=True):
        old, new = index.texts[place].split(" "), index.texts[other].split(" ")
        texts[place] = " ".join(new[len(new) // 3 :] + old[: len(old) // 3])
    return index.with_column("text", texts, of_store=True)


def text_written_anew(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The sound twin of ``stale_vectors``: the vector followed the text."""
    changed = stale_vectors(index, batch, rng)
    return encoded_again(changed, batch, PASSAGE)


def shifted(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Each row of the batch holds the vector of the row five further on."""
    return index.with_vectors(batch.rows, np.roll(index.vectors[batch.rows], -SHIFT, axis=0))


def shuffled(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The batch's vectors came back in another order."""
    return index.with_vectors(batch.rows, rng.permutation(index.vectors[batch.rows]))


def one_vector_for_all(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """A writer that repeats the first answer of its batch."""
    return index.with_vectors(batch.rows, np.repeat(index.vectors[batch.places[:1]], batch.rows.sum(), axis=0))


def with_a_component(index: Index, batch: Batch, value: float) -> Index:
    """One component of each row of the batch has this value."""
    spoilt = index.vectors[batch.rows].copy()
    spoilt[np.arange(len(spoilt)), np.arange(len(spoilt)) % spoilt.shape[1]] = value
    return index.with_vectors(batch.rows, spoilt)


def infinite(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return with_a_component(index, batch, np.inf)


def zero(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return index.with_vectors(batch.rows, np.zeros((batch.rows.sum(), index.vectors.shape[1])))


def nan_made_null(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return replace(with_a_component(index, batch, np.nan), bad_vectors="null")


def nan_dropped(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return replace(with_a_component(index, batch, np.nan), bad_vectors="drop")


def in_plain_lists(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The vectors in a column of lists of any length, which LanceDB does not look into when it is written."""
    lists = pa.array(list(index.vectors), pa.list_(pa.float32()))
    return replace(index, vectors=lists).with_settings("index", columns={"vector": "emb"})


def not_a_number(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return in_plain_lists(with_a_component(index, batch, np.nan), batch, rng)


def another_dimension(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Of each vector of the batch the first 256 numbers."""
    lists = [row[:256] if bad else row for row, bad in zip(index.vectors, batch.rows, strict=True)]
    return replace(in_plain_lists(index, batch, rng), vectors=pa.array(lists, pa.list_(pa.float32())))


def uneven_lengths(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Not normalised, under cosine: it does no harm to the ranking, yet shows a second way of writing rows."""
    lengths = rng.uniform(0.2, 5, size=(batch.rows.sum(), 1))
    return index.with_vectors(batch.rows, index.vectors[batch.rows] * lengths)


def uneven_lengths_under_dot(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return under_dot(uneven_lengths(index, batch, rng), batch, rng)


def under_dot(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return index.with_settings("index", metric="dot")


def half_precision(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """No defect: what is lost by storing half the bits is far below what any search can see."""
    return index.with_vectors(batch.rows, index.vectors[batch.rows].astype(np.float16).astype(np.float32))
