"""What a kind of defect is, and what is expected of an audit of it. The kinds themselves are in the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from audit_pipeline_tests.faults.index import Batch, Index

Plant = Callable[[Index, Batch, np.random.Generator], Index]

CHECKS = ("self", "held_out", "labelled", "observed", "ann", "vectors", "rows", "index", "none")
"""What sees a defect: a run of queries, the checks of vectors, of rows and texts, or of the index; or nothing."""


def untouched(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return index


@dataclass(frozen=True)
class Kind:
    """One kind of defect.

    ``code`` and ``severity`` are those of the finding that must name it, None where no finding should; ``scope`` is
    where that finding must stand: "batch" or "corpus". ``causes`` are the causes that misses of self-retrieval may
    have which the twin does not miss; empty: it may produce none. ``labelled`` and ``held_out`` are the same of these
    runs, None where they are not judged. ``seen_by`` says which checks see it; ``beside`` are codes of further
    findings that follow from the defect and are right to appear, in the batch or the corpus; those of ``anywhere`` may
    name other parts as well, where the defect is the whole corpus's. ``why`` tells why a kind that nothing sees cannot
    be seen. ``reads`` limits the encoder to so many tokens in small tests.
    """

    plant: Plant
    code: str | None
    severity: str | None = None
    scope: str = "batch"
    causes: frozenset[str] = frozenset()
    held_out: frozenset[str] | None = None
    labelled: frozenset[str] | None = None
    seen_by: tuple[str, ...] = ()
    twin: Plant = untouched
    beside: frozenset[str] = frozenset()
    anywhere: frozenset[str] = frozenset()
    evidence: tuple[str, str] | None = None  # key of the finding's evidence, and what it must name
    why: str = ""
    reads: int | None = None

    @property
    def name(self) -> str:
        return self.plant.__name__


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LOW = names("self_low stratum_anomaly undecided")
"""What a batch that cannot be found brings with it."""


def in_another_role(plant: Plant, **more: object) -> Kind:
    more = {"seen_by": ("vectors",), "beside": LOW, "causes": names("role_mismatch")} | more
    return Kind(plant, "role_mismatch", "error", **more)  # type: ignore[arg-type]


def drifted(plant: Plant, **more: object) -> Kind:
    more = {"seen_by": ("vectors", "self"), "beside": LOW, "causes": names("vector_drift")} | more
    return Kind(plant, "vector_drift", "error", **more)  # type: ignore[arg-type]


def misaligned(plant: Plant) -> Kind:
    # Of the rows of a batch a few may have got their own vector back, or that of a twin.
    return Kind(
        plant,
        "misaligned_vectors",
        "error",
        causes=names("misaligned"),
        seen_by=("vectors", "self"),
        beside=LOW,
    )


def invalid(plant: Plant, state: str, twin: Plant = untouched) -> Kind:
    return Kind(
        plant,
        "invalid_vectors",
        "error",
        causes=names("invalid_vector"),
        seen_by=("vectors", "self"),
        beside=LOW,
        evidence=("states", state),
        twin=twin,
    )


def in_another_form(plant: Plant, twin: Plant, kind: str, severity: str) -> Kind:
    return Kind(
        plant,
        "text_drift",
        severity,
        seen_by=("rows",),
        twin=twin,
        evidence=("undone_by" if severity == "warning" else "kinds", kind),
    )
