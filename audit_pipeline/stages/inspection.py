"""The settings that a table seems to need, with a guess at its role. Columns and metric are guessed elsewhere."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from audit_pipeline.encoder.calibration import cosine_loss
from audit_pipeline.encoder.known_templates import TEXT, known_templates
from audit_pipeline.encoder.models import load_encoder
from audit_pipeline.encoder.protocol import Encoder
from audit_pipeline.encoder.roles import KNOWN_PROMPTS
from audit_pipeline.encoder.template import embedded_texts
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.errors import AuditInputError
from audit_pipeline.index.inspection import Inspection, RoleGuess, inspect_table
from audit_pipeline.index.inspection_text import render
from audit_pipeline.index.placeholders import placeholder_rows
from audit_pipeline.index.snapshot import USABLE
from audit_pipeline.uris import holds_credentials, without_credentials

ROWS = 6
"""Rows encoded under each prompt and template: enough to tell prompts apart, few enough to wait for."""
FITS = 1e-3
"""Loss under which a prompt explains the stored vectors: 16-bit storage loses far less, a wrong prompt far more."""

_OF_PASSAGES = ("passage: ", "search_document: ")
_QUERY_OF = {"passage: ": "query: ", "search_document: ": "search_query: "}


def proposal(uri: str, table: str | None, model: str | None) -> str:
    """YAML of settings for the table, which runs unedited. Raises AuditInputError where the table cannot be read."""
    if holds_credentials(uri):
        raise AuditInputError(
            f"{without_credentials(uri)}: this address holds credentials, which settings and messages would repeat: "
            "set them in the environment, such as AWS_SECRET_ACCESS_KEY or AZURE_STORAGE_SAS_TOKEN"
        )
    with tempfile.TemporaryDirectory() as folder:
        inspection = inspect_table(uri, table, Path(folder))
        role = None
        if model is not None:
            encoder = load_encoder(EncoderSettings(model=model))
            role = guess_role(inspection, encoder) if encoder is not None else None
        return render(inspection, model, role)


def guess_role(inspection: Inspection, encoder: Encoder) -> RoleGuess:
    """The known prompt and template whose encodings are the stored vectors of a few rows, if there are such."""
    snapshot = inspection.snapshot
    if snapshot.info.dimension != encoder.dimension:
        return RoleGuess(
            f"not measured: the model has {encoder.dimension} dimensions, the table {snapshot.info.dimension}"
        )
    usable = snapshot.vector_state == USABLE
    usable &= ~placeholder_rows(snapshot.rows, snapshot.vector_state, snapshot.zeros_meant)
    usable &= np.asarray(snapshot.rows["n_words"]) > 0
    places = np.flatnonzero(usable)
    if not len(places):
        return RoleGuess("not measured: no row has both text and vector")
    chosen = np.unique(places[np.linspace(0, len(places) - 1, ROWS).astype(int)])
    rows, stored = snapshot.rows.take(pa.array(chosen)), np.asarray(snapshot.vectors[chosen])
    found: list[tuple[float, int, str, str]] = []
    for template in known_templates(rows):
        texts = embedded_texts(rows, template)
        known = KNOWN_PROMPTS if template == TEXT else _OF_PASSAGES
        for prompt in dict.fromkeys(["", *encoder.own_prompts.values(), *known]):
            vectors = encoder.encode(texts.to_pylist(), prompt=prompt)
            found.append((float(np.median(cosine_loss(stored, vectors))), len(found), prompt, template))
            if found[-1][0] < FITS / 100:
                break
        if found[-1][0] < FITS / 100:
            break
    loss, _, prompt, template = min(found)
    if loss > FITS:
        return RoleGuess(
            f"unknown: no known prompt or template gives the vectors of {len(chosen)} rows (nearest 1-cos {loss:.2g})"
        )
    query = encoder.own_prompts.get("query") or _QUERY_OF.get(prompt, prompt if prompt in KNOWN_PROMPTS[:1] else "")
    return RoleGuess(
        f"{len(chosen)} stored vectors are such encodings (1-cos {loss:.1g})",
        prompt,
        query,
        None if template == TEXT else template,
        known=True,
    )
