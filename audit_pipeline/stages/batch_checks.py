"""The checks on one batch: what each of them says of the batch, in words and figures. Nothing is counted here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from audit_pipeline.corpus.batches import parse_batch_key
from audit_pipeline.corpus.reasons import ID_COLLISION, OWNED_BY
from audit_pipeline.plural import counted, some
from audit_pipeline.stages.batches import OF_SAMPLED_VECTORS, ObservedBatch, rows_that_would_vanish, unusable_vectors
from audit_pipeline.stages.ingest import integrity_faults, pending_folder, pending_manifest, rejection_reasons
from audit_pipeline.stages.limits import CheckOutcome
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import read_table

_OWNER = re.compile(re.escape(OWNED_BY) + r"([^\s,]+)")


def _no_rows_rejected(workspace: Workspace, key: str) -> CheckOutcome:
    reasons = rejection_reasons(workspace, key)
    rows, rejected = pending_manifest(workspace, key).rows, sum(reasons.values())
    if not rejected:
        return CheckOutcome(True, error=False, text=f"{counted(rows, 'row')}, none rejected")
    text = (
        f"batch {key}: {rejected:,} of {counted(rows + rejected, 'row')} cannot be used, so the index is without "
        f"({_listed(reasons)}{_owners(workspace, key)}): correct or delete such rows in the source store"
    )
    return CheckOutcome(False, error=False, text=text, figures=dict(reasons))


def _owners(workspace: Workspace, key: str) -> str:
    """Which batches hold the ids that rows of this one were rejected for, as their rejection says."""
    details = read_table(pending_folder(workspace, key) / "rejected.parquet", ["detail"])["detail"].unique().to_pylist()
    found = {match[1] for detail in details if (match := _OWNER.match(detail or ""))}
    return f"; the ids stand in {some(sorted(found))}" if found else ""


def _batch_keeps_rows(workspace: Workspace, key: str) -> CheckOutcome:
    figures = rows_that_would_vanish(workspace, key)
    if not figures:
        return CheckOutcome(True, error=True, text="no row that the source store still has would be deleted")
    kept = f"the {counted(figures['rows_in_table'], 'row')} that the table has of it stay as they were"
    if "rejected" in figures:
        why = (
            f"none of its {counted(figures['rejected'], 'row')} can be used any more "
            f"({_listed(rejection_reasons(workspace, key))}), so {kept}: correct the rows in the source store (was a "
            "column renamed?), or delete them there"
        )
    else:
        why = (
            f"{counted(figures['rows_without_a_day'], 'row')} of it can be placed nowhere, for the date cannot be "
            f"used, so {kept}: correct the dates in the source store, or delete the rows there"
        )
    return CheckOutcome(False, error=True, text=f"batch {key}: {why}", figures=dict(figures))


def _vectors_can_be_written(workspace: Workspace, key: str) -> CheckOutcome:
    figures = unusable_vectors(workspace, key)
    rows = counted(pending_manifest(workspace, key).rows, "vector")
    if not figures:
        return CheckOutcome(True, error=True, text=f"{rows}, each finite and not zero")
    text = (
        f"batch {key}: {sum(figures.values()):,} of {rows} hold NaN or infinite values or only zeros "
        f"({_listed(figures)}), which no search finds, so nothing of it was written: check encoder.model and "
        "encoder.dtype, or the server at encoder.base_url"
    )
    return CheckOutcome(False, error=True, text=text, figures=dict(figures))


def _table_holds_batch(workspace: Workspace, key: str) -> CheckOutcome:
    faults = integrity_faults(workspace, key)
    if not faults:
        rows = counted(pending_manifest(workspace, key).rows, "row")
        return CheckOutcome(True, error=True, text=f"{rows} of the source store in the table, each once")
    collided = rejection_reasons(workspace, key).get(ID_COLLISION, 0)
    own = f"give the {counted(collided, 'row')} rejected as id_collision an id of their own" if collided else ""
    day, source = parse_batch_key(key)
    again = f"write the batch once more: audit-pipeline backfill --source {source} --since {day} --again"
    to_do = own if collided and faults.keys() == {"missing_rows"} else "; ".join(filter(None, (own, again)))
    text = f"batch {key}: the table does not have it as the source store does ({_listed(faults)}): {to_do}"
    return CheckOutcome(False, error=True, text=text, figures=dict(faults))


def outcome_of(batch: ObservedBatch) -> CheckOutcome:
    """What the last audit found of a batch of an index as it stands."""
    rows = counted(batch.rows, "row")
    if not batch.faults:
        return CheckOutcome(True, error=batch.error, text=f"{rows} in the table, and no finding")
    of_rows = {code: count for code, count in batch.faults.items() if code not in OF_SAMPLED_VECTORS}
    of_vectors = {code: count for code, count in batch.faults.items() if code in OF_SAMPLED_VECTORS}
    found = [_listed(of_rows)] if of_rows else []
    if of_vectors:  # four of four are no four of all its rows
        found.append(f"{_listed(of_vectors)} among the few vectors that it encoded anew")
    text = (
        f"batch {batch.key}: of its {rows} in the table the last audit found {' and '.join(found)}: the findings of "
        "the report say what is wrong and what mends it"
    )
    return CheckOutcome(False, error=batch.error, text=text, figures=dict(batch.faults))


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


@dataclass(frozen=True)
class BatchCheck:
    """One check: the asset it stands on, whether its failure stops the batch, what passes it, and how it is made."""

    name: str
    asset: str
    blocking: bool
    what: str
    outcome: Callable[[Workspace, str], CheckOutcome]


CHECKS_OF_BATCH = (
    BatchCheck("no_rows_rejected", "chunks", False, "Every row of the batch could be used.", _no_rows_rejected),
    BatchCheck(
        "batch_keeps_rows",
        "chunks",
        True,  # going on would delete the batch from the table
        "What the batch held and the source store still holds can be used: none of it would be deleted.",
        _batch_keeps_rows,
    ),
    BatchCheck(
        "vectors_can_be_written",
        "passage_vectors",
        True,  # going on would write rows that no search finds
        "Every vector of the batch is finite and not zero.",
        _vectors_can_be_written,
    ),
    BatchCheck(
        "table_holds_batch",
        "batch_integrity",
        False,
        "The table holds each row of the batch once, with its text and a usable vector.",
        _table_holds_batch,
    ),
)
