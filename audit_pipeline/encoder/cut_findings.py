"""The findings about vectors that encode a part of long texts. How much they encode is found in cut_rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.encoder.cells import Cells
from audit_pipeline.encoder.compared_rows import ComparedRows
from audit_pipeline.encoder.cut_rows import CutFound
from audit_pipeline.encoder.fidelity import CUT, UNCUT, RowStates, Sample
from audit_pipeline.findings import Finding


def cut_findings(
    cells: Cells, sample: Sample, states: RowStates, found: CutFound | None, rows: pa.Table
) -> list[Finding]:
    """What follows from vectors that encode a part of long texts: the writer's way, or the fault of a few cells."""
    if found is None:
        return []
    ids = rows["chunk_id"].take(pa.array(sample.rows)).to_pylist()
    context = ComparedRows(cells, sample, states, ids, cells.measured(sample))
    which = {"cut": found.cut.kept, "tokens": found.cut.tokens, "words": found.cut.words}
    findings = []
    if found.adopted:
        setting = f"Set encoder.max_tokens to {found.cut.tokens} to audit" if found.cut.tokens else "Audit"
        findings.append(
            Finding(
                code="embedded_text_found",
                severity="info",
                message=(
                    f"The vectors encode only {found.cut} of longer texts ({found.cut_rows} of {found.long_rows} long "
                    "rows compared): the writer's runtime cut them."
                ),
                remedy=f"{setting} the vectors as they are; or split the texts, or encode them with a longer limit.",
                share=found.cut_rows / found.long_rows,
                n_compared=found.long_rows,
                evidence=which,
            )
        )

    def make(scope: dict[str, Any], of_scope: np.ndarray, n: int) -> Finding:
        whole = "the whole of their text, where the rest of the corpus encodes only"
        part = f"only {found.cut} of their text, where the rest of the corpus encodes all of it"
        return Finding(
            code="vector_drift",
            severity="error",
            message=(
                f"{len(of_scope)} of {n} rows compared hold the encoding of "
                f"{f'{whole} {found.cut}' if found.adopted else part}."
            ),
            remedy="Encode these rows again with the limit of the rest; look for a change of runtime or its settings.",
            share=len(of_scope) / n,
            n_compared=n,
            scope=scope,
            evidence=which | {"stored_cos": 1 - float(np.median(context.states.loss[of_scope]))},
            examples=context.examples(of_scope),
        )

    return findings + context.scoped(context.in_state(UNCUT if found.adopted else CUT), make)
