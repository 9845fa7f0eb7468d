"""Messages of the near-duplicate search about where it runs."""

from __future__ import annotations

import importlib.util

import numpy as np

from audit_pipeline.duplicates.minhash_pairs import join_bands
from audit_pipeline_tests.messages.case import Case, World

SIGNATURES = np.zeros((2, 4), dtype=np.uint32)


def ray_that_is_not_installed(world: World) -> None:
    world.patch.setattr(importlib.util, "find_spec", lambda name: None)
    join_bands(SIGNATURES, 2, 5, "ray")


def two_runners_in_one_process(world: World) -> None:
    join_bands(SIGNATURES, 2, 5, "native")
    world.patch.setattr(importlib.util, "find_spec", lambda name: name)
    join_bands(SIGNATURES, 2, 5, "ray")


CASES = [
    Case(
        "Ray that is not installed",
        ray_that_is_not_installed,
        "duplicates.runner is ray, but Ray is not installed: install audit-pipeline[ray], or set it to native",
    ),
    Case(
        "two runners in one process",
        two_runners_in_one_process,
        "duplicates.runner is ray, but this process runs Daft on native already: "
        "give the audits of one project the same runner",
    ),
]
