"""Findings about vectors that fresh encodings could not be compared with. Their defects stand elsewhere."""

from __future__ import annotations

from typing import Any

from audit_pipeline.encoder.calibration import NOISE_LOSS
from audit_pipeline.encoder.compared_rows import ComparedRows
from audit_pipeline.encoder.protocol import Encoder
from audit_pipeline.findings import Finding
from audit_pipeline.plural import counted
from audit_pipeline.scopes import merge_cells


def not_measured(reason: str) -> Finding:
    """The vectors were not compared with fresh encodings: never a pass."""
    return _not_compared(
        f"Stored vectors were not compared with fresh encodings: {reason}.",
        "Give the audit the encoder that wrote the vectors, and rows that hold both a text and a vector.",
    )


def without_vector(encoder: Encoder, rows: int, n: int) -> Finding:
    """Rows whose text the encoder gives no vector that can be compared: they are left out, and counted."""
    return _not_compared(
        f"{counted(rows, 'row')} of {n:,} drawn could not be compared: {encoder.name} gives their text no vector "
        "with a direction (no token of it is known, or values are no numbers).",
        "Look at these texts: they hold nothing that the model reads.",
        rows=rows,
    )


def encoder_unstable(encoder: Encoder, loss: float, n: int) -> Finding:
    """The encoder gives a text another vector in another batch."""
    return Finding(
        code="encoder_unstable",
        severity="warning",
        message=(
            f"Encoder {encoder.name} gives the same text another vector in another batch: 1 - cos up to "
            f"{loss:.2g} over {n} texts, where {NOISE_LOSS:g} is allowed."
        ),
        remedy=(
            "Ask whoever runs the server whether its vectors depend on the batch or on the replica that answers."
            if encoder.is_remote
            else "Look for padding or pooling faults in the runtime (attention mask, padding side, quantisation)."
        ),
        n_compared=n,
        evidence={"loss_max": loss, "allowed": NOISE_LOSS},
    )


def wrong_dimension(encoder: Encoder, shape: tuple[int, ...]) -> Finding:
    """The encoder's vectors cannot be compared with the table's at all."""
    return Finding(
        code="dimension_mismatch",
        severity="error",
        message=(
            f"The table's vectors have {shape[1]} dimensions, encoder {encoder.name} gives {encoder.dimension}: "
            "they come from another model, or were cut."
        ),
        remedy="Name in encoder.model the model that wrote the vectors, or re-encode the table.",
        share=1.0,
        n_compared=shape[0],
        evidence={"table_dimension": shape[1], "encoder_dimension": encoder.dimension},
    )


def cells_without_rows(context: ComparedRows) -> list[Finding]:
    """Cells of which no row was compared, merged as defects are."""
    every = set(context.cells.cells)
    missing = every - context.all_cells
    return [
        _not_compared(
            "No row was compared with a fresh encoding here: none is usable, or sample.total is too small.",
            "Raise sample.total, and mend rows without text or vector.",
            scope,
        )
        for scope in merge_cells(missing, every)
    ]


def _not_compared(message: str, remedy: str, scope: dict[str, Any] | None = None, **counts: int) -> Finding:
    evidence = {"check": "role_fingerprint", **counts}
    return Finding("not_measured", "info", message, remedy, n_compared=0, scope=scope or {}, evidence=evidence)
