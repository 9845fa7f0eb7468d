"""How often the project's 95 % intervals hold the truth, and how often clean corpora are called out of line. Simulated.

python -m benchmarks.intervals [--draws N] [--corpora N]

Printed are the coverage of each interval over known truths against its nominal 95 %, and the share of clean corpora of
5, 50 and 500 strata in which ``stratum_anomalies`` names anything, each with its own Wilson interval.
"""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from audit_pipeline import schemas
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.proportions import (
    Proportion,
    bootstrap_mean,
    newcombe_difference,
    paired_difference,
    stratified,
    wilson,
)
from audit_pipeline.retrieval.anomalies import stratum_anomalies

Drawn = tuple[float, float, float]
"""Lower end, upper end, truth."""

FIRST_DAY = dt.date(2026, 1, 1)
A_SOURCE = 10  # strata


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.intervals", description=__doc__)
    parser.add_argument("--draws", type=int, default=2000, help="samples drawn for each interval and truth")
    parser.add_argument("--corpora", type=int, default=200, help="clean corpora for each number of strata")
    arguments = parser.parse_args()
    print(f"{'interval':34}{'truth':>8}{'n':>7}{'coverage':>10}  (95 % asked for; Wilson interval of the coverage)")
    for name, truth, n, draw in _cases():
        rng = np.random.default_rng(0)
        held = sum(
            low - 1e-12 <= value <= high + 1e-12 for low, high, value in (draw(rng) for _ in range(arguments.draws))
        )
        print(f"{name:34}{truth:>8}{n:>7}{_shown(wilson(held, arguments.draws))}", flush=True)
    print(f"\n{'clean corpora':34}{'strata':>8}{'probes':>7}{'alarms':>10}  (a false discovery rate of 5 % is allowed)")
    for hit_share in (0.99, 0.7):
        for strata in (5, 50, 500):
            corpora = max(20, arguments.corpora // (1 if strata < 500 else 4))
            alarms = sum(_alarm(strata, hit_share, seed) for seed in range(corpora))
            name = f"hits {hit_share:.0%}, 30 probes a stratum"
            print(f"{name:34}{strata:>8}{30 * strata:>7}{_shown(wilson(alarms, corpora))}", flush=True)


def _shown(share: Proportion) -> str:
    return f"{share.value:>9.1%}   {share.low:.1%} to {share.high:.1%} of {share.n:,}"


def _cases() -> Iterator[tuple[str, str, int, Callable[[np.random.Generator], Drawn]]]:
    for p in (0.5, 0.9, 0.98, 0.995):
        for n in (50, 400):
            yield "wilson", f"{p}", n, lambda rng, p=p, n=n: _wilson(rng, p, n)
    for p in (0.7, 0.98):
        for n in (60, 400):
            yield "stratified, of 2,000 in 20 strata", f"{p}", n, lambda rng, p=p, n=n: _stratified(rng, p, n)
    for a, b in ((0.9, 0.8), (0.98, 0.95)):
        for n in (60, 400):
            yield "newcombe, two samples", f"{a - b:.2f}", n, lambda rng, a=a, b=b, n=n: _newcombe(rng, a, b, n)
            yield "paired, same questions", f"{b - a:.2f}", n, lambda rng, a=a, b=b, n=n: _paired(rng, a, b, n)
    for n in (60, 400):
        yield "bootstrap mean of fractions", "0.85", n, lambda rng, n=n: _bootstrap(rng, n)


def _ends(share: Proportion) -> tuple[float, float]:
    if share.low is None or share.high is None:
        raise ValueError("nothing was drawn")
    return share.low, share.high


def _wilson(rng: np.random.Generator, p: float, n: int) -> Drawn:
    return *_ends(wilson(int(rng.binomial(n, p)), n)), p


def _stratified(rng: np.random.Generator, p: float, n: int) -> Drawn:
    """A finite corpus of 20 strata of uneven size and share, of which n chunks are drawn in proportion."""
    sizes = np.linspace(20, 180, 20).astype(int)
    shares = np.clip(p + np.linspace(-0.15, 0.15, 20) * (1 - p) * 2, 0, 1)
    hits, strata, chunks, truth = [], [], [], 0
    for stratum, (size, share) in enumerate(zip(sizes, shares, strict=True)):
        population = rng.random(size) < share
        truth += int(population.sum())
        drawn = max(2, round(n * size / sizes.sum()))
        hits.append(rng.choice(population, drawn, replace=False))
        strata += [stratum] * drawn
        chunks += [size] * drawn
    low, high = _ends(stratified(np.concatenate(hits), np.array(strata), np.array(chunks)))
    return low, high, truth / sizes.sum()


def _newcombe(rng: np.random.Generator, a: float, b: float, n: int) -> Drawn:
    one, other = wilson(int(rng.binomial(n, a)), n), wilson(int(rng.binomial(n, b)), n)
    _, low, high = newcombe_difference(one, other)
    return low, high, a - b


def _paired(rng: np.random.Generator, a: float, b: float, n: int) -> Drawn:
    """Whoever answers the harder question mostly answers the easier one: nine in ten of b's hits are a's as well."""
    both = min(0.9 * b + 0.1 * a * b, a, b)
    counts = rng.multinomial(n, [both, a - both, b - both, 1 - a - b + both])
    _, low, high = paired_difference(*(int(count) for count in counts))
    return low, high, b - a


def _bootstrap(rng: np.random.Generator, n: int) -> Drawn:
    """Fractions of ten, such as ann_recall@10 of a query."""
    values = rng.binomial(10, rng.beta(8.5, 1.5, size=n)) / 10
    low, high = _ends(bootstrap_mean(values, seed=int(rng.integers(2**31)), draws=500))
    return low, high, 0.85


def _alarm(strata: int, hit_share: float, seed: int, probes: int = 30) -> bool:
    """Whether anything is named in a corpus of which every probe hits with the same chance."""
    rng = np.random.default_rng(seed)
    n = strata * probes
    cell = np.repeat(np.arange(strata), probes)
    sources = np.array([f"s{one // A_SOURCE}" for one in range(strata)])[cell]
    days = np.array([FIRST_DAY + dt.timedelta(days=one % A_SOURCE) for one in range(strata)])[cell]
    hit = rng.random(n) < hit_share
    columns = {
        "probe_id": [f"self:p{one}" for one in range(n)],
        "chunk_id": [f"p{one}" for one in range(n)],
        "source": sources.tolist(),
        "ingestion_date": days.tolist(),
        "batch": [f"{day}|{source}" for day, source in zip(days, sources, strict=True)],
        "length_band": rng.choice(["0-39", "40-127", "128-255"], n).tolist(),
        "stratum": ["all"] * n,
        "stratum_chunks": [n] * n,
        "weight": [1.0] * n,
        "returned": [10] * n,
        "expected": [10] * n,
        "hit_1": hit.tolist(),
        "hit_10": hit.tolist(),
    }
    absent = {field.name: [None] * n for field in schemas.SELF_RETRIEVAL if field.name not in columns}
    table = pa.table(columns | absent, schema=schemas.SELF_RETRIEVAL)
    settings = IndexAuditSettings.model_validate(
        {"name": "clean", "encoder": {"kind": "none"}, "index": {"uri": "none", "table": "none", "managed": False}}
    )
    return bool(stratum_anomalies({"self": table}, settings))


if __name__ == "__main__":
    main()
