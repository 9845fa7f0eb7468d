"""Reads a published report back for notebooks: audit.json, tables as DataFrames, chunk text joined. Writes nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.errors import AuditInputError
from audit_pipeline.report.publish import recover
from audit_pipeline.schemas import TABLES
from audit_pipeline.state import StateFolder, read_json, read_table

# The columns that hold a chunk id, and where its text goes.
_TEXT_COLUMNS = {
    "chunk_id": "text",
    "answer_id": "answer_text",
    "best_other_id": "best_other_text",
    "chunk_id_a": "text_a",
    "chunk_id_b": "text_b",
}


@dataclass(frozen=True)
class LoadedReport:
    """A published report. Each table is an attribute of its name, such as ``report.self_retrieval``."""

    state: StateFolder
    audit: dict[str, Any]

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name not in TABLES:
            raise AttributeError(f"no table {name!r}: there are {', '.join(TABLES)}")
        return self.table(name)

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *TABLES])

    def table(self, name: str, text: bool = True) -> pd.DataFrame:
        """A table by name; with ``text`` the text of every chunk it names stands beside its id.

        Texts come from the working files of the state folder, never from the report; where those are gone or do not
        hold a chunk the text is null. Raises AuditInputError for a name there is no table of.
        """
        if name not in TABLES:
            raise AuditInputError(f"{self.state.report}: no table {name!r} in it: use one of {', '.join(TABLES)}")
        frame = read_table(self.state.report / "tables" / f"{name}.parquet").to_pandas()
        if not text:
            return frame
        for column in [column for column in frame.columns if column in _TEXT_COLUMNS]:
            place = int(frame.columns.get_indexer([column])[0]) + 1
            frame.insert(place, _TEXT_COLUMNS[column], frame[column].map(self.texts))
        return frame

    @cached_property
    def texts(self) -> pd.Series:
        """Chunk text by chunk id, as the audit saw it; empty where the working files are gone."""
        chunks = pa.concat_tables([_EMPTY, *(_chunk_texts(path) for path in chunk_files(self.state))])
        frame = chunks.to_pandas().drop_duplicates("chunk_id")
        return frame.set_index("chunk_id")["text"]


def load(state_dir: str | Path, name: str) -> LoadedReport:
    """The last published report of an audited index. Raises AuditInputError where there is none."""
    state = StateFolder(Path(state_dir).expanduser(), name)
    recover(state.report)
    path = state.report / "audit.json"
    if not path.exists():
        reports = state.report.parent
        there = sorted(entry.name for entry in reports.iterdir() if entry.is_dir()) if reports.is_dir() else []
        hint = f"name one of {', '.join(there)}" if there else "run audit-pipeline first"
        raise AuditInputError(f"{reports}: no report of {name!r}: {hint}")
    return LoadedReport(state, json.loads(path.read_text(encoding="utf-8")))


_EMPTY = pa.table({"chunk_id": pa.array([], pa.string()), "text": pa.array([], pa.string())})


def chunk_files(state: StateFolder) -> list[Path]:
    """The chunks of every current batch; for an index as it stands the population that the audit read."""
    files = []
    for manifest in sorted(state.batches.glob("*/batch.json")):
        files.append(manifest.parent / read_json(manifest)["generation"] / "chunks.parquet")
    files.append(state.corpus / "vector_index" / "population.parquet")
    return [path for path in files if path.exists()]


def _chunk_texts(path: Path) -> pa.Table:
    table = read_table(path)
    if not {"chunk_id", "text"} <= set(table.column_names):
        return _EMPTY
    table = table.select(["chunk_id", "text"])
    return table.filter(pc.is_valid(table["text"])).cast(_EMPTY.schema)
