"""The state folder: where everything of an audit lies, and atomic writes into it. No table is read or judged here."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True)
class StateFolder:
    """Paths of one audited index below DIR, the Dagster home."""

    root: Path
    name: str

    @property
    def audit(self) -> Path:
        return self.root / "audits" / self.name

    @property
    def batches(self) -> Path:
        return self.audit / "batches"

    @property
    def corpus(self) -> Path:
        """Working files of the corpus-wide stages."""
        return self.audit / "corpus"

    @property
    def vectors(self) -> Path:
        """The vector store, shared by all audits of the folder."""
        return self.root / "vectors"

    @property
    def report(self) -> Path:
        return self.root / "reports" / self.name

    @property
    def default_index_uri(self) -> str:
        return str(self.root / "index" / f"{self.name}.lance")

    def batch(self, key: str) -> Path:
        """Folder of one batch. Keys hold '|', which some file systems refuse."""
        return self.batches / quote(key, safe="-_")

    def key_of(self, batch: Path) -> str:
        """The key whose folder ``batch`` is."""
        return unquote(batch.name)

    def read_memory(self) -> dict[str, Any]:
        """What later runs must know of earlier ones: start_date and first_audit, as ISO dates; empty at first."""
        path = self.audit / "memory.json"
        return read_json(path) if path.exists() else {}

    def remember(self, **facts: str) -> dict[str, Any]:
        """Add facts to the memory; what is known already stays as it is."""
        memory = {**facts, **self.read_memory()}
        write_json(self.audit / "memory.json", memory)
        return memory

    def extend_back_to(self, earliest: dt.date) -> None:
        """Let the remembered start date be no later than this: a source may bring older history than all before it."""
        known = self.start_date(None)
        if known is None or earliest < known:
            write_json(self.audit / "memory.json", {**self.read_memory(), "start_date": earliest.isoformat()})

    def start_date(self, configured: dt.date | None) -> dt.date | None:
        """The settings' start date, else the earliest that any run has found, else None."""
        if configured is not None:
            return configured
        known = self.read_memory().get("start_date")
        return dt.date.fromisoformat(known) if known else None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well and vanishes when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically, keys in the order given; NaN is refused because JSON has none."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """The value a JSON file holds."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_table(path: Path, table: pa.Table) -> None:
    """Write Parquet atomically."""
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read_table(path: Path, columns: list[str] | None = None, *, repeated: Sequence[str] = ()) -> pa.Table:
    """The table a Parquet file holds, without reading a partition scheme into its path.

    ``repeated`` names columns of strings that come as dictionaries, each distinct value in memory once.
    """
    return pq.ParquetFile(path, read_dictionary=list(repeated)).read(columns=columns)


def remove_folder(path: Path) -> None:
    """Delete a folder of working files; one that does not exist is fine."""
    shutil.rmtree(path, ignore_errors=True)
