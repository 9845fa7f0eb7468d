"""Audits vector indexes: what a data engineer imports, loaded on first use. The rooms below hold the work."""

from typing import Any

__all__ = ["IndexAudit", "load"]


def __getattr__(name: str) -> Any:
    # Lazy, so that the pure rooms can be imported without Dagster.
    if name == "IndexAudit":
        from audit_pipeline.orchestration.component import IndexAudit

        return IndexAudit
    if name == "load":
        from audit_pipeline.report.loading import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
