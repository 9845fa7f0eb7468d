"""The last stage: gathers what the others kept, and publishes it. No figure is computed here."""

from __future__ import annotations

import datetime as dt
import platform
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.duplicates.reference_floors import elsewhere
from audit_pipeline.report.audit_json import build_audit
from audit_pipeline.report.excerpts import wanted_chunk_ids
from audit_pipeline.report.publish import publish
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.diagnosis import merge_misses
from audit_pipeline.stages.exports import export_texts
from audit_pipeline.stages.remedies import with_commands
from audit_pipeline.stages.workspace import Workspace, corpus_stage

STAGES = (
    "vector_index",
    "corpus_integrity",
    "probe_plan",
    "probe_vectors",
    "role_fingerprint",
    "self_retrieval",
    "held_out_retrieval",
    "labelled_retrieval",
    "ann_recall",
    "ann_sweep",
    "observed_retrieval",
    "formatting_arms",
    "retrieval_verdict",
    "minhash_pairs",
    "neighbour_pairs",
    "similarity_floor",
    "threshold_sweep",
    "duplicate_clusters",
)
LIBRARIES = ("audit-pipeline", "dagster", "lancedb", "sentence-transformers", "torch", "datasketch", "pyarrow", "numpy")
RUNS = (
    ("self", "self_retrieval", "self_retrieval"),
    ("held_out", "held_out_retrieval", "held_out"),
    ("labelled", "labelled_retrieval", "labelled"),
)
# The rankings and judgements of all runs are one table each, although every run makes its own part.
CONCATENATED = ("retrieved", "qrels")


@corpus_stage
def audit_report(workspace: Workspace) -> StageResult:
    """Publishes audit.json, the page, tables, TREC and BEIR files; the last good report stays until they are whole."""
    findings = with_commands(workspace, [finding for stage in STAGES for finding in workspace.findings(stage)])
    timings = {stage: workspace.seconds(stage) for stage in STAGES}
    parts = audit_parts(workspace)
    audit = build_audit(
        parts,
        findings,
        name=workspace.settings.name,
        created_at=dt.datetime.now(dt.UTC),
        timings=timings,
        versions=library_versions(),
        settings=workspace.settings,
    )
    workspace.release_table()  # what follows holds the tables of all pairs, and needs no vector
    tables = published_tables(workspace)
    wanted = pa.array(wanted_chunk_ids(audit, tables["duplicate_clusters"]), pa.string())
    excerpts = workspace.population(["chunk_id", "text"])
    excerpts = excerpts.filter(pc.is_in(excerpts["chunk_id"], value_set=wanted))
    texts = export_texts(workspace)
    publish(workspace.state.report, audit, tables, excerpts, workspace.settings.report, texts)
    return StageResult(summary=headline(audit), findings=findings)


def audit_parts(workspace: Workspace) -> dict[str, Any]:
    """The sections of audit.json from what the stages kept."""
    summaries = {stage: dict(workspace.summary(stage)) for stage in STAGES}
    verdict = summaries["retrieval_verdict"]
    causes: dict[str, dict[str, int]] = {}
    misses: list[list[dict[str, Any]]] = []
    sections: dict[str, dict[str, Any]] = {}
    for run, stage, section in RUNS:
        summary = summaries[stage]
        causes[run] = summary.pop("causes", {})
        misses.append(summary.pop("misses", []))
        sections[section] = summary | verdict.get(section, {}) if summary else {}
    see_also = summaries["probe_plan"].get("see_also")
    if see_also and sections["labelled"]:
        sections["labelled"]["see_also"] = see_also
    duplicates: dict[str, Any] = {}
    for stage in ("minhash_pairs", "neighbour_pairs", "similarity_floor", "threshold_sweep", "duplicate_clusters"):
        duplicates |= summaries[stage]
    population = workspace.population(["batch", "source"])
    encoder = encoder_part(workspace, summaries["role_fingerprint"])
    # Where none is recommended, the lowest row shows what a threshold taken from here would do.
    recommended = duplicates["recommended"]["threshold"]
    shown = workspace.settings.duplicates.thresholds[0] if recommended is None else recommended
    duplicates["elsewhere"] = elsewhere(shown, len(population), encoder.get("fingerprint"), encoder.get("model"))
    return {
        "encoder": encoder,
        "index": summaries["vector_index"]["index"],
        "corpus": {
            "chunks": len(population),
            "batches": len(pc.unique(population["batch"])),
            "sources": len(pc.unique(population["source"])),
        },
        "self_retrieval": sections["self_retrieval"],
        "held_out": sections["held_out"],
        "labelled": sections["labelled"] or None,
        "observed": summaries["observed_retrieval"] or None,
        "ann_recall": summaries["ann_recall"],
        "ann_sweep": summaries["ann_sweep"],
        "formatting_arms": summaries["formatting_arms"]["arms"],
        "both_sides": summaries["formatting_arms"]["both_sides"],
        "causes": causes,
        "misses": merge_misses(*misses),
        "roles": summaries["role_fingerprint"]["roles"],
        "duplicates": duplicates,
        "verdict": verdict["verdict"],
        "self_checks": [*summaries["corpus_integrity"]["self_checks"], *duplicates.pop("self_checks")],
        "encoded": workspace.totals,
    }


def encoder_part(workspace: Workspace, fingerprint: dict[str, Any]) -> dict[str, Any]:
    """What audit.json says of the encoder: the settings, what was loaded, what a wrong arm costs, how much is read."""
    settings = workspace.settings.encoder
    part: dict[str, Any] = settings.model_dump(mode="json")
    if workspace.encoder is not None:
        part |= asdict(workspace.encoder.identity)
        part["token_counts"] = "estimated" if workspace.encoder.counts_are_estimates else "exact"
    return part | {name: fingerprint[name] for name in ("calibration", "reach", "cut")}


def published_tables(workspace: Workspace) -> dict[str, pa.Table]:
    """The tables of schemas.TABLES from the stages that made them."""
    tables: dict[str, pa.Table] = {}
    for name, schema in schemas.TABLES.items():
        parts = [workspace.table(stage, name) for stage in STAGES if workspace.has_table(stage, name)]
        # A later stage completes the table of an earlier one, except where every run adds its own part.
        tables[name] = (
            pa.concat_tables(parts) if name in CONCATENATED and parts else (parts or [schema.empty_table()])[-1]
        )
    return tables


def headline(audit: dict[str, Any]) -> dict[str, Any]:
    """The figures that the Dagster UI plots over time."""
    return {
        "chunks": audit["corpus"]["chunks"],
        "batches": audit["corpus"]["batches"],
        "self_retrieval": audit["self_retrieval"],
        "held_out": audit["held_out"],
        "labelled": audit["labelled"] or {},
        "ann_recall": audit["ann_recall"],
        "observed": audit["observed"] or {},
        "reading": audit["verdict"]["reading"],
    }


def library_versions() -> dict[str, str]:
    """Versions that figures can depend on."""
    versions = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            versions[library] = "not installed"
    return versions
