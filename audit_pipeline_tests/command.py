"""The command line run in this process, for tests; the fixture ``command`` stands in conftest.py."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from audit_pipeline import cli
from audit_pipeline.orchestration import workspaces


@dataclass(frozen=True)
class Printed:
    """What a command left behind."""

    code: int
    out: str
    err: str


Command = Callable[..., Printed]


def runner(patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the entry point in this process, as a process of its own would find the world."""
    logger = logging.getLogger("audit_pipeline")
    before = (list(logger.handlers), logger.level, logger.propagate)
    patch.setenv("DAGSTER_HOME", "")  # the command sets it; this puts it back afterwards

    def run(*arguments: str) -> Printed:
        workspaces._WORKSPACES.clear()
        patch.setattr(sys, "argv", ["audit-pipeline", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            cli.main()
        printed = capsys.readouterr()
        logger.handlers[:], logger.level, logger.propagate = list(before[0]), before[1], before[2]
        return Printed(int(left.value.code or 0), printed.out, printed.err)

    return run
