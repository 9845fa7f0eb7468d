"""What Dagster loads: every component below defs/. No definition is written here."""

from pathlib import Path

import dagster as dg

from audit_pipeline.orchestration.project import configured_indexes


@dg.definitions
def defs() -> dg.Definitions:
    """All definitions of the project, after a check that no two indexes share a name."""
    configured_indexes()
    return dg.load_from_defs_folder(project_root=Path(__file__).parents[1])
