"""Choosing the state of each batch that the pinned table has, at the beginning of an audit. No row is judged here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from audit_pipeline.corpus.sampling import stratify
from audit_pipeline.stages.pins import Pin, pins_locked, write_pins
from audit_pipeline.stages.unsettled import Unsettled, begun, unsettled_keys
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.state import read_table, write_table

_FIELDS = ["chunk_id", "text_sha256"]


def pin_batches(workspace: Workspace, versions: Mapping[str, int]) -> None:
    """Write down which state of each batch the managed table has at this version: what the rest of the audit judges
    it by, whatever is brought in meanwhile.

    A batch whose commit was done but that is not finished yet, or never will be, is pinned as it was committed, and
    a row that another batch took over belongs to that one alone.
    """
    settings = workspace.settings.index
    with pins_locked(workspace.state):
        finished = {manifest.key: manifest.generation for manifest in workspace.manifests()}
        pins = {key: Pin(key, generation) for key, generation in finished.items()}
        opened = None
        for key in unsettled_keys(workspace):
            now = begun(workspace, key)
            if now is None:
                continue  # finished since
            opened = opened if opened is not None else _at_version(workspace, versions[settings.table])
            found = _as_in_table(workspace, key, now, finished.get(key), opened)
            if found is not None:
                pins[key] = found
        write_pins(workspace.state, [pins[key] for key in sorted(pins)])
        for key, pin in pins.items():
            if pin.generation != finished.get(key):
                _complete(workspace, pin)


def _as_in_table(workspace: Workspace, key: str, now: Unsettled, finished: str | None, opened: Any) -> Pin | None:
    """The one of a batch's generations whose rows the table has; the finished one where it has none of them so."""
    from audit_pipeline.index.batch_rows import rows_elsewhere, rows_of_batch

    there = rows_of_batch(opened, key, _FIELDS)
    ids = pa.array(now.taken, pa.string())
    gone = {*rows_elsewhere(opened, key, ids)["chunk_id"].to_pylist()} - {*there["chunk_id"].to_pylist()}
    pins = []
    for generation in (now.generation, finished) if now.written else (finished, now.generation):
        path = workspace.state.batch(key) / (generation or "") / "chunks.parquet"
        if generation is None or not path.exists():
            continue
        rows = read_table(path, _FIELDS)
        pins.append(Pin(key, generation, sorted(gone.intersection(rows["chunk_id"].to_pylist()))))
        if _equal(pins[-1].without_gone(rows), there):
            return pins[-1]
    return next((pin for pin in pins if pin.generation == finished), None)


def _equal(rows: pa.Table, others: pa.Table) -> bool:
    if len(rows) != len(others):
        return False
    order = [(name, "ascending") for name in _FIELDS]
    one, other = (table.cast(pa.schema([(name, pa.string()) for name in _FIELDS])) for table in (rows, others))
    return bool(one.sort_by(order).equals(other.sort_by(order)))


def _at_version(workspace: Workspace, version: int) -> Any:
    from audit_pipeline.index.connection import connect, open_table

    settings = workspace.settings.index
    opened = open_table(connect(workspace.index_uri, settings.storage_options), settings.table)
    opened.checkout(version)
    return opened


def _complete(workspace: Workspace, pin: Pin) -> None:
    """Make what the audit reads of a batch that is not finished, where its run has not come to that."""
    from audit_pipeline.duplicates.signatures import compute_signatures, write_signatures

    folder = workspace.state.batch(pin.key) / pin.generation
    chunks = read_table(folder / "chunks.parquet")
    if not (folder / "probes.parquet").exists():
        write_table(folder / "probes.parquet", stratify(chunks, workspace.settings.sample.seed))
    if not (folder / "signatures.parquet").exists():
        write_signatures(folder / "signatures.parquet", compute_signatures(chunks, workspace.settings.duplicates))
