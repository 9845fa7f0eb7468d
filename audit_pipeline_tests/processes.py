"""The suite in several processes at once (pytest -n): which tests share one, and what is made once for all of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock
from xdist.scheduler import LoadFileScheduling

OF_SMALL_AUDIT = (
    "orchestration/",
    "report/test_compare.py",
    "report/test_gate_example.py",
    "test_cli.py",
    "test_readme.py",
)
"""Tests of the small audit, which is made once a process: paths are part of what its batches are."""


class Scheduling(LoadFileScheduling):
    """A file's tests stay in one process, for the sake of its fixtures; those of the small audit are one group."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "small audit" if is_of_small_audit(nodeid) else file


def is_of_small_audit(nodeid: str) -> bool:
    return nodeid.removeprefix("audit_pipeline_tests/").startswith(OF_SMALL_AUDIT)


def longest_first(items: list[pytest.Item]) -> None:
    """The largest group to the front, so that no process is left with it when the others are done."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: not is_of_small_audit(item.nodeid))


def one_thread_each() -> None:
    """Processes started from now on compute on one thread each: more of them than cores would wait for each other."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def common_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder of this run that all of its processes see."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder ``name``, by ``make(folder)`` in the first process that asks for it; to be read only."""
    folder = common_folder(factory) / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            part = folder.with_name(f"{folder.name}.part")
            make(part)
            part.rename(folder)
    return folder
