"""Which state of each batch an audit judges the table by, kept in the state folder. Choosing it is in pinning.py.

An audit takes minutes, and batches are brought in meanwhile: judged by what has come in since, the version of the table
that it has pinned would lack rows and hold others too many.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from filelock import FileLock

from audit_pipeline.state import StateFolder, read_json, read_table, write_json


@dataclass(frozen=True)
class Pin:
    """One batch: the ``generation`` whose rows the table has, but for ``gone``, ids that other batches took over."""

    key: str
    generation: str
    gone: list[str] = field(default_factory=list)

    def read(self, folder: Path, name: str, columns: list[str] | None = None) -> pa.Table:
        """One of the generation's tables in ``folder``, without the rows of the ids that are gone."""
        path = folder / f"{name}.parquet"
        if not self.gone:
            return read_table(path, columns)
        wanted = columns if columns is None or "chunk_id" in columns else [*columns, "chunk_id"]
        rows = self.without_gone(read_table(path, wanted))
        return rows if columns is None else rows.select(columns)

    def without_gone(self, rows: pa.Table) -> pa.Table:
        """These rows of the batch but for those of the ids that are gone."""
        if not self.gone:
            return rows
        return rows.filter(pc.invert(pc.is_in(rows["chunk_id"], value_set=pa.array(self.gone, pa.string()))))


def pins_locked(state: StateFolder) -> AbstractContextManager[object]:
    """Held where batches are pinned, and where the files of a generation that none has pinned are removed."""
    state.audit.mkdir(parents=True, exist_ok=True)
    return FileLock(state.audit / ".pins.lock")


def write_pins(state: StateFolder, pins: list[Pin]) -> None:
    """Keep what an audit that begins goes by."""
    write_json(_file(state), [[pin.key, pin.generation, *filter(None, [pin.gone])] for pin in pins])


def read_pins(state: StateFolder) -> list[Pin] | None:
    """The batches as the last audit pinned them, by key; None where no audit has."""
    path = _file(state)
    return [Pin(*given) for given in read_json(path)] if path.exists() else None


def pinned_generation(state: StateFolder, key: str) -> str | None:
    """The generation of a batch that the last audit goes by; None where it knows no such batch."""
    return next((pin.generation for pin in read_pins(state) or () if pin.key == key), None)


def _file(state: StateFolder) -> Path:
    return state.corpus / "pins.json"
