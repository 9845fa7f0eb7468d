"""What Dagster loads: every component below defs/. No definition is written here."""

from pathlib import Path

import dagster as dg

from audit_pipeline.orchestration.project import configured_indexes


@dg.definitions
def defs() -> dg.Definitions:
    """All definitions of the project, after a check that no two indexes share a name."""
    configured_indexes()
    loaded = dg.load_from_defs_folder(project_root=Path(__file__).parents[1])
    # Runs that the UI makes of assets rather than of a job: one process a run here too, or each step loads the model.
    return dg.Definitions.merge(loaded, dg.Definitions(executor=dg.in_process_executor))
