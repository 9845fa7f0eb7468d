"""What `doctor` says of the sources, of batches and of the last audit. Sources are listed, no row of them is read."""

from __future__ import annotations

from pathlib import Path

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.plural import counted
from audit_pipeline.source_settings import SourceSettings
from audit_pipeline.stages.doctor import Line
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import read_json

_NAMED = 5


def source(what: str, entry: SourceSettings, settings: IndexAuditSettings) -> list[Line]:
    """Whether a source can be listed, and what it has. Raises AuditInputError, as an audit would, where it cannot."""
    from audit_pipeline.corpus.docstrings import find_modules
    from audit_pipeline.corpus.files import find_files
    from audit_pipeline.corpus.lance_tables import open_lance

    if entry.retired:
        return [Line(what, "not_measured", "it is retired, so nothing of it is read")]
    if entry.format == "docstrings":
        return [Line(what, "ok", f"{counted(len(find_modules(entry)), 'module')} of {entry.uri}")]
    if entry.format == "lance":
        opened = open_lance(entry)
        return [Line(what, "ok", f"table {opened.name} at {entry.uri}, version {opened.version}")]
    files = find_files(entry, settings.zone)
    size = sum(file.size for file in files) / (1 << 20)
    return [Line(what, "ok", f"{counted(len(files), 'file')} at {entry.uri}, {size:,.1f} MiB; none was read")]


def batches(settings: IndexAuditSettings, root: Path) -> list[Line]:
    """Whether an ingest was left half done, found faults, or was made under other settings, by what ingests kept."""
    from audit_pipeline.stages.batches import no_failed_batches

    what, workspace = f"batches of {settings.name}", Workspace(settings, root)
    if not settings.index.managed:
        return [Line(what, "not_measured", "what writes this table brings them in")]
    manifests = workspace.manifests()
    failed = no_failed_batches(workspace)
    if not manifests and failed.passed:
        return [Line(what, "not_measured", "none was ingested yet", "audit-pipeline run ingests them")]
    lines = []
    if not failed.passed:
        to_do = (
            "where no run of them is going, mend what their last run says in the UI, then audit-pipeline backfill "
            "--source NAME --again"
        )
        lines.append(Line(what, "warn", failed.text, to_do))
    behind = [one.key for one in manifests if one.rows and one.settings_hash != workspace.settings_hash]
    if behind:
        seen = f"{counted(len(behind), 'batch', 'batches')} ingested under other settings: {_some(behind)}"
        lines.append(Line(what, "warn", seen, "audit-pipeline run brings them up to date"))
    rows = sum(one.rows for one in manifests)
    seen = f"{counted(len(manifests), 'batch', 'batches')}, {counted(rows, 'row')}; sources were not read for changes"
    return lines or [Line(what, "ok", seen)]


def last_audit(settings: IndexAuditSettings, root: Path) -> list[Line]:
    """Whether the last published audit has error findings."""
    what, folder = f"last audit of {settings.name}", Workspace(settings, root).state.report
    if not (folder / "audit.json").exists():
        return [Line(what, "not_measured", "there is none yet", "audit-pipeline run makes it")]
    audit = read_json(folder / "audit.json")
    errors = sorted(finding["code"] for finding in audit["findings"] if finding["severity"] == "error")
    day = audit["created_at"][:10]
    if not errors:
        return [Line(what, "ok", f"the last audit of {day} has no error finding")]
    seen = f"the last audit of {day} has {counted(len(errors), 'error finding')}: {_some(sorted(set(errors)))}"
    return [Line(what, "warn", seen, f"look at {folder / 'audit.html'}")]


def _some(names: list[str]) -> str:
    left = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {left} more" if left > 0 else "")
