"""The defs folder of this project: every audited index it configures. Nothing is built or run here."""

from __future__ import annotations

from pathlib import Path

import yaml

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.orchestration.naming import refuse_collisions
from audit_pipeline.settings_file import COMPONENT_TYPE, load_settings

DEFS_FOLDER = Path(__file__).parents[1] / "defs"


def configured_indexes(folder: Path = DEFS_FOLDER) -> list[tuple[str, IndexAuditSettings]]:
    """(file, settings) of every index audit below the folder. Raises AuditInputError where two names collide."""
    found = [(str(path), load_settings(path)) for path in sorted(folder.rglob("defs.yaml")) if _is_index_audit(path)]
    refuse_collisions(found)
    return found


def _is_index_audit(path: Path) -> bool:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError):
        return True  # load_settings tells what is wrong with the file
    return isinstance(document, dict) and document.get("type") == COMPONENT_TYPE
