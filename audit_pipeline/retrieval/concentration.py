"""The batch or source with nearly all misses of a run, in words. Whether it is out of line is strata's to say."""

from __future__ import annotations

from collections.abc import Hashable

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.batches import display_source

LEAST_MISSES = 5
MOST_OF_THEM, AT_MOST_OF_PROBES = 0.8, 0.5


def where_misses_lie(table: pa.Table, missed: pa.ChunkedArray | pa.Array) -> str:
    """A sentence that names the one batch, else the one source, with 80 % of the misses and at most half the probes;
    empty where there is none, or under 5 misses. ``table`` has ``source`` and ``ingestion_date``, a row a probe;
    ``missed`` is a boolean of as many values.

    It counts probes, unweighted, and tests nothing: it says where to look, not that the part is worse.
    """
    missed = pc.fill_null(missed, False)
    total = pc.sum(missed).as_py() or 0
    if total < LEAST_MISSES:
        return ""
    for keys in (["source", "ingestion_date"], ["source"]):
        groups = (
            table.select(keys)
            .append_column("missed", pc.cast(missed, pa.int64()))
            .group_by(keys)
            .aggregate([("missed", "sum"), ("missed", "count")])
            .sort_by([("missed_sum", "descending"), *((key, "ascending") for key in keys)])
        )
        top = groups.slice(0, 1).to_pylist()[0]
        here, probes = top["missed_sum"], top["missed_count"]
        if here >= MOST_OF_THEM * total and probes <= AT_MOST_OF_PROBES * len(table):
            return (
                f" {here:,} of the {total:,} misses lie in {_named([top[key] for key in keys])}, which has {probes:,} "
                f"of the {len(table):,} probes."
            )
    return ""


def _named(values: list[Hashable]) -> str:
    source, *date = values
    assert source is None or isinstance(source, str)
    return f"source {display_source(source)!r}" + (f" on {date[0]}" if date and date[0] is not None else "")
