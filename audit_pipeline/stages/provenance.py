"""What an ingest records of the encoder beside a batch, and what is recorded. Judging is index/provenance's."""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict
from typing import Any

import pyarrow.parquet as pq

from audit_pipeline.index.provenance import Written
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import read_json

PROVENANCE = "provenance.json"


def provenance_as_configured(workspace: Workspace) -> dict[str, Any]:
    """What an ingest records of the encoder, JSON-ready."""
    settings = workspace.settings.encoder
    assert workspace.encoder is not None  # the settings refuse kind none for a managed index
    return {
        **asdict(workspace.encoder.identity),
        "passage_prompt": settings.passage_prompt,
        "passage_extra": settings.passage_extra,
        "embed_text": workspace.settings.index.embed_text,
    }


def written_batches(workspace: Workspace) -> list[Written]:
    """The batches that the audit goes by with what each recorded; one whose record is gone is left out."""
    found = []
    for pin in workspace.pins():
        path = workspace.pinned_folder(pin) / PROVENANCE
        if path.exists():
            known = workspace.manifest(pin.key)
            begun = asdict(known) if known else read_json(workspace.state.batch(pin.key) / "pending.json")
            cell = (begun["source"], dt.date.fromisoformat(begun["ingestion_date"]))
            rows = pq.read_metadata(path.with_name("chunks.parquet")).num_rows - len(pin.gone)
            found.append(Written(pin.key, cell, rows, read_json(path)))
    return found
