"""What several commands share: options, exit codes, and the folders and indexes that options mean."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.errors import AuditInputError

EXIT_CLEAN, EXIT_ERROR_FINDING, EXIT_INPUT, EXIT_FAILED = range(4)

ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="YAML of one index; default: every index below defs/.")
]
StateOption = Annotated[
    Path | None, typer.Option("--state", help="State folder; default: $DAGSTER_HOME, else .audit here.")
]


def tell(errors: Iterable[AuditInputError]) -> None:
    """A sentence for each error on standard error, as the one that ends a command is told."""
    for error in errors:
        print(f"audit-pipeline: {error}", file=sys.stderr)


def root_of(state: Path | None) -> Path:
    """The state folder that is meant, absolute; it need not exist."""
    return (state or Path(os.environ.get("DAGSTER_HOME") or ".audit")).expanduser().absolute()


def indexes_of(config: Path | None) -> list[IndexAuditSettings]:
    """The index of a settings file, else all below defs/. Raises AuditInputError where there is none."""
    from audit_pipeline.orchestration.project import configured_indexes
    from audit_pipeline.settings_file import load_settings

    indexes = [load_settings(config)] if config else [settings for _, settings in configured_indexes()]
    if not indexes:
        raise AuditInputError("no index is configured below defs/: name one with --config")
    return indexes
