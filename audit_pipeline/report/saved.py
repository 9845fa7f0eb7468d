"""A report folder read from wherever it was copied to: its audit.json and its tables. Comparing is elsewhere."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.errors import AuditInputError
from audit_pipeline.report.pairing import MEASURES, RUNS
from audit_pipeline.report.trec import original_id
from audit_pipeline.state import read_table


@dataclass(frozen=True)
class SavedReport:
    """The audit.json and the probe tables of a report folder, wherever it was copied to."""

    folder: Path
    audit: dict[str, Any]

    def table(self, run: str) -> pd.DataFrame:
        """The probe table of a run. Raises AuditInputError where it cannot be compared."""
        path = self._path(RUNS[run])
        if not path.exists():
            raise AuditInputError(f"{path}: this table of the report is missing: use the whole folder of a report")
        table = self._read(path)
        lacking = [name for name in sorted(_needed(run)) if name not in table.column_names]
        if lacking:
            raise AuditInputError(f"{path}: no column {lacking[0]!r}: run the audit again with this version")
        counts = pc.value_counts(table[_question(run)])
        if len(counts) < len(table):
            twice = pc.struct_field(counts, "values").filter(pc.greater(pc.struct_field(counts, "counts"), 1))[0]
            raise AuditInputError(
                f"{path}: {twice.as_py()!r} stands on two rows: run the audit again, or use a whole copy"
            )
        return table.to_pandas()

    def documents(self) -> pd.DataFrame | None:
        """The first documents of each labelled query (schemas.LABELLED_DOCUMENTS); None in a report from before them.

        Raises AuditInputError where the table cannot be read.
        """
        path = self._path("labelled_documents")
        return self._read(path).to_pandas() if path.exists() else None

    def candidate_pairs(self) -> pa.Table | None:
        """What the lanes of the duplicate search proposed (schemas.CANDIDATE_PAIRS); None where it was not copied.

        Raises AuditInputError where the table cannot be read.
        """
        path = self._path("candidate_pairs")
        return self._read(path) if path.exists() else None

    def chunk_ids(self) -> pa.Array | None:
        """The ids of all chunks, from the BEIR files; None in a copy without them, or where nothing was searched.

        Raises AuditInputError where they cannot be read.
        """
        path = next(iter(sorted((self.folder / "beir").glob("*/corpus.jsonl"))), None)
        if path is None:
            return None
        try:
            with path.open(encoding="utf-8") as file:
                ids = [json.loads(line)["_id"] for line in file]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise AuditInputError(
                f"{path}: this file cannot be read: run the audit again, or use a whole copy"
            ) from error
        return pa.array([original_id(name) for name in ids], pa.string())

    def _path(self, table: str) -> Path:
        return self.folder / "tables" / f"{table}.parquet"

    @staticmethod
    def _read(path: Path) -> pa.Table:
        try:
            return read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise AuditInputError(
                f"{path}: this table cannot be read: run the audit again, or use a whole copy"
            ) from error


_SECTIONS = {"encoder": dict, "index": dict, "findings": list}
"""What of an audit.json is compared beside the tables."""
_FINDING = {"code", "severity", "scope", "message", "remedy"}
_FILES = ("audit.json", "audit.html")


def _question(run: str) -> str:
    return "query_id" if run == "labelled" else "probe_id"


def _needed(run: str) -> set[str]:
    only = {"held_out": {"eligible", "overlap", "held"}}.get(run, set())
    return {_question(run), *only, "source", "ingestion_date", "length_band", "cause", *MEASURES[run].values()}


def open_report(path: Path) -> SavedReport:
    """A report by its folder, or by the audit.json or audit.html in it. Raises AuditInputError."""
    folder = path.expanduser()
    if folder.suffix in (".json", ".html"):
        if folder.name not in _FILES:  # the audit.json beside it would be another report than the one that was named
            raise AuditInputError(
                f"{path}: a report is its whole folder, whose tables are read: name the folder, or the audit.json in it"
            )
        folder = folder.parent
    document = folder / "audit.json"
    try:
        audit = json.loads(document.read_text(encoding="utf-8"))
    except OSError as error:
        raise AuditInputError(
            f"{path}: there is no audit.json: name the folder of a report, such as .audit/reports/NAME"
        ) from error
    except ValueError as error:
        raise AuditInputError(f"{document}: not valid JSON ({error}): run the audit again") from error
    known = isinstance(audit, dict) and all(isinstance(audit.get(key), kind) for key, kind in _SECTIONS.items())
    if not known or not all(isinstance(one, dict) and one.keys() >= _FINDING for one in audit["findings"]):
        raise AuditInputError(f"{document}: this is no audit of audit_pipeline: name the folder of a report")
    return SavedReport(folder, audit)


def last_report(root: Path, like: Path) -> Path:
    """The report below a state folder of the index that the report ``like`` is of. Raises AuditInputError."""
    name = open_report(like).audit.get("name")
    folder = root / "reports" / str(name)
    if not (folder / "audit.json").exists():
        there = sorted(path.parent.name for path in (root / "reports").glob("*/audit.json"))
        found = f"; reports are of {', '.join(there)}" if there else ""
        raise AuditInputError(
            f"{root}: no report of {name!r}, which {like} is of{found}: run the audit first, or name a report with "
            "--candidate"
        )
    return folder
