"""Searches and indexes that do not reach the rows of a right table. Each sound twin asks or indexes as it should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from lancedb.index import FTS, IvfFlat, IvfPq

from audit_pipeline_tests.faults.index import QUERY, Batch, Index
from audit_pipeline_tests.faults.vectors import uneven_lengths

PARTITIONS = 16
RARE = 40  # one row in so many passes the filter that comes too late


def in_languages(index: Index, batch: Batch, of_batch: str | None, sql: str) -> Index:
    languages = [of_batch if bad else "en" for bad in batch.rows]
    return index.with_column("lang", pa.array(languages, pa.string())).with_settings("index", filter=sql)


def hidden_by_a_filter(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return in_languages(index, batch, "de", "lang = 'en'")


def let_through_by_a_filter(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return in_languages(index, batch, "en", "lang = 'en'")


def hidden_by_null(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The filter only means to leave German out, and SQL drops what has no language at all."""
    return in_languages(index, batch, None, "lang != 'de'")


def not_hidden_by_null(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return in_languages(index, batch, None, "lang != 'de' OR lang IS NULL")


def filtered_before_search(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    kinds = ["kept" if place % RARE == 0 else "other" for place in range(len(index.texts))]
    return index.with_column("kind", kinds).with_settings("index", filter="kind = 'kept'")


def filtered_after_search(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return filtered_before_search(index, batch, rng).with_settings("index", search={"prefilter": False})


def own_distances(index: Index) -> np.ndarray:
    """(n,) cosine distance of each text in the query's role to its row."""
    queries = index.encoders.encode(QUERY, index.texts).astype(float)
    lengths = np.linalg.norm(queries, axis=1) * np.linalg.norm(index.vectors, axis=1)
    return 1 - (queries * index.vectors).sum(axis=1) / lengths


def cut_off_too_high(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The least similarity asked for is more than a fifth of the rows have to their own texts."""
    return index.with_settings("index", search={"min_score": 1 - float(np.quantile(own_distances(index), 0.8))})


def cut_off_that_lets_through(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return index.with_settings("index", search={"min_score": 0.9 - float(own_distances(index).max())})


def flat(table: Any) -> None:
    table.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=1))


def without_index(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return index


def with_index(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return replace(index, build=flat)


def index_too_small_to_train(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The index was created over the first hundred rows, which are too few to train its codes; the rest came later."""
    codes = IvfPq(distance_type="cosine", num_partitions=1, num_sub_vectors=8)
    return later(index, np.arange(len(index.texts)) >= 100, lambda table: table.create_index("vector", config=codes))


def later(index: Index, rows: np.ndarray, build: Callable[[Any], None]) -> Index:
    """The index with these rows (n,) bool added to the table only after ``build``, in the order they had."""
    added = index.table().filter(pa.array(rows))

    def build_then_add(table: Any) -> None:
        table.delete(f"chunk_id IN ({', '.join(repr(one) for one in added['chunk_id'].to_pylist())})")
        build(table)
        table.add(added)

    return replace(index, build=build_then_add)


def added_after_index(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return later(index, batch.rows, flat)


def skipped_after_index(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return added_after_index(index, batch, rng).with_settings("index", search={"fast_search": True})


def fast_over_all(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return with_index(index, batch, rng).with_settings("index", search={"fast_search": True})


def added_after_words(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return later(index, batch.rows, words)


def with_words(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return replace(index, build=words)


def words(table: Any) -> None:
    table.create_index("text", config=FTS())


def wrong_metric(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """An l2 search over vectors of uneven length beside a cosine index."""
    everywhere = replace(batch, rows=np.ones(len(index.texts), bool))
    return l2_over_unit_vectors(uneven_lengths(index, everywhere, rng), batch, rng)


def l2_over_unit_vectors(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return with_index(index, batch, rng).with_settings("index", metric="l2")


def starved_probes(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return in_partitions(index, nprobes=1)


def probes_of_all(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return in_partitions(index, nprobes=PARTITIONS)


def in_partitions(index: Index, nprobes: int) -> Index:
    def build(table: Any) -> None:
        table.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=PARTITIONS))

    return replace(index, build=build).with_settings("index", search={"nprobes": nprobes})


def coarse_codes(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Two codes of a byte for each vector."""

    def build(table: Any) -> None:
        table.create_index("vector", config=IvfPq(distance_type="cosine", num_partitions=1, num_sub_vectors=2))

    return replace(index, build=build)


def coarse_codes_refined(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    everything = -(-len(index.texts) // 10)
    return coarse_codes(index, batch, rng).with_settings("index", search={"refine_factor": everything})
