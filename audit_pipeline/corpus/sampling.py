"""Which chunks are probed: strata, their allocation, a draw that stays the same. Measuring the probes is elsewhere."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.bands import LENGTH_BANDS, length_band
from audit_pipeline.corpus.batches import parse_batch_key, period_start
from audit_pipeline.schemas import PROBE_PLAN

STRATIFIED = pa.schema(
    [
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("source", pa.string()),
        pa.field("ingestion_date", pa.date32()),
        pa.field("batch", pa.string(), nullable=False),
        pa.field("length_band", pa.string(), nullable=False),
        pa.field("n_tokens", pa.int32()),
        pa.field("order", pa.uint64(), nullable=False),  # hash(seed, chunk_id): the draw goes from the smallest up
    ]
)

_ROUNDS = 10
LEAST_PER_STRATUM = 2  # one probe has no variance
# Coarser and coarser: (dates, bands, sources) as the strata keep them.
_LEVELS = (
    ("batch", True, True),
    ("week", True, True),
    ("month", True, True),
    ("all", True, True),
    ("all", False, True),
    ("all", False, False),
)
_LEVELS_INSIDE_A_BATCH = (("batch", True, True), ("batch", False, True))


def stratify(chunks: pa.Table, seed: int) -> pa.Table:
    """One batch's rows (schemas.CHUNKS) by stratum: STRATIFIED, sorted by length band, then by the draw's order."""
    band = length_band(chunks["n_tokens"], chunks["n_words"])
    order = pa.array([hash_order(seed, chunk_id) for chunk_id in chunks["chunk_id"].to_pylist()], pa.uint64())
    table = chunks.select(["chunk_id", "source", "ingestion_date", "batch", "n_tokens"])
    table = table.append_column("length_band", band).append_column("order", order)
    keys = np.lexsort((order.to_numpy(), _band_codes(band)))
    return table.take(pa.array(keys)).select(STRATIFIED.names).cast(STRATIFIED)


def plan_probes(stratified: pa.Table, total: int, per_batch: int | None) -> pa.Table:
    """The probes of the corpus as schemas.PROBE_PLAN, sorted by chunk_id; text_sha256 and n_words are left null.

    ``stratified`` holds the STRATIFIED rows of all batches. Strata are batch x length band; where ``total`` cannot
    give each at least 2 probes (or all its rows) they are merged over dates (week, month, all), then over bands, then
    over sources. Allocation is proportional to N_h within these bounds, and the rows with the smallest ``order`` are
    drawn, so that a stratum that grows or shrinks keeps the order of its rows. ``total`` at or over the number of
    rows is a census. ``per_batch`` caps the probes of one batch; a batch that would exceed it forms strata of its own,
    so that weights N_h / n_h hold. An id that stands on several rows counts once.
    """
    rows = _once_each(stratified)
    if len(rows) == 0 or total < 1:
        return PROBE_PLAN.empty_table()
    batches = rows["batch"].combine_chunks().dictionary_encode()
    batch = batches.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    keys: list[str] = batches.dictionary.to_pylist()
    band = _band_codes(rows["length_band"].combine_chunks())
    order = rows["order"].combine_chunks().to_numpy()
    sizes = np.bincount(batch, minlength=len(keys))
    cap = len(rows) if per_batch is None else per_batch
    capped = _certainly_capped(sizes, total, cap)
    for _ in range(_ROUNDS):
        stratum, names, n_h = _allocate(batch, band, keys, capped, total, cap)
        drawn = _draw(stratum, n_h, order)
        over = np.bincount(batch[drawn], minlength=len(keys)) > cap
        if not over.any():
            break
        # Only the probes over the cap of the batches added now are given up: the budget of the others never runs out.
        capped |= over
    else:
        # A cap so tight that chance breaks it again and again: the last draws of a batch are left out.
        drawn = drawn[_rank_in_group(batch[drawn], order[drawn]) < cap]
        n_h = np.bincount(stratum[drawn], minlength=len(names))
    big_n_h = np.bincount(stratum, minlength=len(names))
    of_probe = stratum[drawn]
    table = rows.take(pa.array(drawn)).drop_columns(["order"])
    table = table.append_column("stratum", pa.array(names, pa.string()).take(pa.array(of_probe)))
    table = table.append_column("stratum_chunks", pa.array(big_n_h[of_probe], pa.int64()))
    table = table.append_column("stratum_probes", pa.array(n_h[of_probe], pa.int64()))
    table = table.append_column("weight", pa.array(big_n_h[of_probe] / n_h[of_probe], pa.float64()))
    table = table.append_column("text_sha256", pa.nulls(len(table), pa.string()))
    table = table.append_column("n_words", pa.nulls(len(table), pa.int32()))
    return table.select(PROBE_PLAN.names).cast(PROBE_PLAN).sort_by("chunk_id")


def plan_of(stratified: pa.Table, chunk_ids: pa.ChunkedArray) -> pa.Table:
    """These chunks as schemas.PROBE_PLAN, sorted by chunk_id; text_sha256 and n_words are left null.

    They were drawn elsewhere and stand for the whole as one stratum, as a draw without strata would.
    """
    every = _once_each(stratified)
    rows = every.filter(pc.is_in(every["chunk_id"], value_set=chunk_ids.combine_chunks())).drop_columns(["order"])
    n = len(rows)
    for name, value in (
        ("stratum", "asked again"),
        ("stratum_chunks", len(every)),
        ("stratum_probes", n),
        ("weight", len(every) / max(n, 1)),
        ("text_sha256", None),
        ("n_words", None),
    ):
        rows = rows.append_column(name, pa.array([value] * n, PROBE_PLAN.field(name).type))
    return rows.select(PROBE_PLAN.names).cast(PROBE_PLAN).sort_by("chunk_id")


def _certainly_capped(sizes: np.ndarray, total: int, cap: int) -> np.ndarray:
    """(batches,) bool: those whose share of the total exceeds the cap, however the rest is divided."""
    capped = np.zeros(len(sizes), dtype=bool)
    while not capped.all():
        rate = (total - cap * int(capped.sum())) / sizes[~capped].sum()
        more = ~capped & (np.minimum(rate, 1.0) * sizes > cap)
        if not more.any():
            break
        capped |= more
    return capped


def _allocate(
    batch: np.ndarray, band: np.ndarray, keys: list[str], capped: np.ndarray, total: int, cap: int
) -> tuple[np.ndarray, list[str], np.ndarray]:
    """(stratum of each row, names of the strata, probes of each stratum)."""
    stratum = np.full(len(batch), -1, dtype=np.int64)
    names: list[str] = []
    counts: list[np.ndarray] = []
    by_batch = np.argsort(batch, kind="stable")
    bounds = np.searchsorted(batch[by_batch], np.arange(len(keys) + 1))
    for code in np.flatnonzero(capped):
        inside = by_batch[bounds[code] : bounds[code + 1]]
        budget = min(cap, total)
        total -= _add_strata(inside, np.zeros(len(inside), int), band, [keys[code]], budget, stratum, names, counts)
    rest = np.flatnonzero(~capped[batch])
    if len(rest):
        _add_strata(rest, batch[rest], band, keys, total, stratum, names, counts)
    return stratum, names, np.concatenate(counts)


def _add_strata(
    rows: np.ndarray,
    batch_of_row: np.ndarray,
    band: np.ndarray,
    keys: list[str],
    budget: int,
    stratum: np.ndarray,
    names: list[str],
    counts: list[np.ndarray],
) -> int:
    """Strata of these rows at the finest level the budget allows; returns the number of probes given."""
    for dates, bands, sources in _LEVELS if len(keys) > 1 else _LEVELS_INSIDE_A_BATCH:
        groups = [_group_name(key, dates, sources) for key in keys]
        group_names, group_of_key = np.unique(groups, return_inverse=True)
        code = group_of_key[batch_of_row] * (len(LENGTH_BANDS) + 1) + (band[rows] if bands else len(LENGTH_BANDS))
        codes, inverse, sizes = np.unique(code, return_inverse=True, return_counts=True)
        if np.minimum(sizes, LEAST_PER_STRATUM).sum() <= budget:
            break
    stratum[rows] = inverse + len(names)
    for one in codes:
        group, band_code = divmod(int(one), len(LENGTH_BANDS) + 1)
        names.append(f"{group_names[group]}|{(*LENGTH_BANDS, 'all lengths')[band_code]}")
    n_h = proportional_allocation(sizes, budget)
    counts.append(n_h)
    return int(n_h.sum())


def proportional_allocation(sizes: np.ndarray, total: int) -> np.ndarray:
    """n_h proportional to the sizes N_h with min(2, N_h) <= n_h <= N_h and sum n_h = min(total, sum N_h).

    Where the lower bounds alone exceed the total (a single stratum, total 1) they give way. Rounding is by largest
    remainder, ties to the stratum that comes first.
    """
    total = int(min(total, sizes.sum()))
    least = np.minimum(sizes, LEAST_PER_STRATUM)
    if least.sum() > total:
        least = np.zeros_like(sizes)
    low, high = 0.0, 1.0
    for _ in range(100):  # the sum grows with the rate: bisection ends at the last bit of a double
        rate = (low + high) / 2
        if np.clip(rate * sizes, least, sizes).sum() < total:
            low = rate
        else:
            high = rate
    exact = np.clip(high * sizes, least, sizes)
    n_h = np.maximum(np.floor(exact + 1e-9).astype(np.int64), least)
    missing = total - int(n_h.sum())
    room = np.flatnonzero(n_h < sizes)
    by_remainder = room[np.argsort(-(exact - n_h)[room], kind="stable")]
    n_h[by_remainder[:missing]] += 1
    return n_h


def _draw(stratum: np.ndarray, n_h: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Row ordinals of the n_h smallest orders of each stratum."""
    return np.flatnonzero(_rank_in_group(stratum, order) < n_h[stratum])


def _rank_in_group(group: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Place of each row, from 0, among the rows of its group by ascending order."""
    by_group = np.lexsort((order, group))
    sizes = np.bincount(group)
    rank = np.empty(len(group), dtype=np.int64)
    rank[by_group] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rank


def _group_name(key: str, dates: str, sources: bool) -> str:
    period, source_slug = parse_batch_key(key)
    if dates == "batch":
        when = period.isoformat()
    elif dates == "all":
        when = "all dates"
    else:
        when = f"{dates} of {period_start(period, 'week' if dates == 'week' else 'month').isoformat()}"
    return f"{when}|{source_slug}" if sources else f"{when}|all sources"


def _once_each(stratified: pa.Table) -> pa.Table:
    if len(stratified) == pc.count_distinct(stratified["chunk_id"]).as_py():
        return stratified
    ordered = stratified.sort_by([("chunk_id", "ascending"), ("batch", "ascending")])
    codes = ordered["chunk_id"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return ordered.take(pa.array(np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))))


def hash_order(seed: int, chunk_id: str) -> int:
    """Place of an id in a draw: the same in every run, whatever else there is. Another seed, another order."""
    return int.from_bytes(hashlib.blake2b(f"{seed}:{chunk_id}".encode(), digest_size=8).digest(), "big")


def _band_codes(bands: pa.Array) -> np.ndarray:
    return pc.index_in(bands, value_set=pa.array(LENGTH_BANDS)).to_numpy(zero_copy_only=False).astype(np.int64)
