"""A table as it stands and nothing that says what should be in it: its own traces of losses and leftovers are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.report.loading import load
from audit_pipeline.report.summary import terminal_summary
from audit_pipeline.report.view import page_view
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.index.builders import lists, unit_vectors
from audit_pipeline_tests.index.document_tables import Row, corpus, page

TRACES = {"generations", "position_gaps", "rows_fell"}


def as_written(rows: list[Row], first_id: int = 0, **columns: Any) -> pa.Table:
    fields = {
        "id": [f"uuid-{first_id + number}" for number in range(len(rows))],
        "text": [row.text for row in rows],
        "doc_id": [row.doc for row in rows],
        "position": [row.position for row in rows],
        "vector": lists(unit_vectors(len(rows), seed=first_id)),
    }
    return pa.table(fields | columns)


def integrity(folder: Path, stages: int = 2, **settings: Any) -> Workspace:
    """The first stages of the audit without an encoder, which none of this needs."""
    attributes = {
        "name": "standing",
        "encoder": {"kind": "none"},
        "index": {"uri": "db", "table": "docs", "managed": False, "columns": {"chunk_id": "id"}},
    }
    workspace = Workspace(parse_settings(attributes | settings, "test", folder), folder / "state")
    for asset in CORPUS_ASSETS[:stages]:
        asset.stage(workspace)
    return workspace


def audit(folder: Path) -> dict[str, Any]:
    integrity(folder, len(CORPUS_ASSETS))
    return load(folder / "state", "standing").audit


def codes(folder: Path, **settings: Any) -> set[str]:
    return {finding.code for finding in integrity(folder, **settings).findings("corpus_integrity")}


def created(folder: Path, rows: pa.Table) -> Any:
    return lancedb.connect(str(folder / "db")).create_table("docs", rows)


def told(audit: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {finding["code"]: finding for finding in audit["findings"] if finding["code"] in TRACES}


def test_a_page_written_again_with_new_ids_a_lost_chunk_and_a_fall_are_each_told_once(tmp_path: Path) -> None:
    table = created(tmp_path, as_written(corpus()))
    table.delete("id = 'uuid-12'")
    table.add(as_written(page("doc-07", 3, version="edited"), first_id=100))
    found = audit(tmp_path)
    traces = told(found)
    assert set(traces) == TRACES
    assert {finding["severity"] for finding in traces.values()} == {"info"}
    assert traces["generations"]["evidence"]["earlier_rows"] == 5
    assert traces["generations"]["examples"] == [f"uuid-{number}" for number in range(35, 40)]
    assert traces["position_gaps"]["evidence"] == {"documents": 1, "missing_positions": 1}
    assert traces["position_gaps"]["examples"] == ["uuid-13"]
    (fall,) = traces["rows_fell"]["evidence"]["falls"]
    assert (fall["rows_before"], fall["rows_after"]) == (100, 99)


def test_a_clean_table_gives_no_trace_and_says_once_what_needs_a_store(tmp_path: Path) -> None:
    created(tmp_path, as_written(corpus()))
    found = audit(tmp_path)
    assert told(found) == {}
    needing = [f for f in found["findings"] if "missing_rows" in f["evidence"].get("checks", ())]
    assert [(f["code"], f["severity"], f["n_compared"]) for f in needing] == [("not_measured", "info", 0)]
    assert set(needing[0]["evidence"]["checks"]) >= {"missing_rows", "orphan_rows", "text_drift"}
    view = page_view(found, {}, [])
    assert sum("missing_rows" in line for line in view["unmeasured"]) == 1
    (line,) = [line for line in terminal_summary(found, tmp_path).splitlines() if line.startswith("  store ")]
    assert "not measured" in line


@pytest.mark.parametrize("layout", ["no documents", "no positions", "positions in words"])
def test_without_documents_or_positions_nothing_is_told(tmp_path: Path, layout: str) -> None:
    rows = as_written(corpus())
    if layout == "no documents":
        rows = as_written([*corpus(), *corpus()]).drop_columns(["doc_id"])
    elif layout == "no positions":
        rows = rows.drop_columns(["position"])
    else:
        place = rows.schema.get_field_index("position")
        rows = rows.set_column(place, "position", pa.array([f"part {n % 5}" for n in range(len(rows))]))
    created(tmp_path, rows)
    assert not codes(tmp_path) & TRACES


def test_with_a_store_the_store_says_what_is_missing(tmp_path: Path) -> None:
    rows = as_written(corpus())
    pq.write_table(rows.drop_columns(["vector"]), tmp_path / "store.parquet")
    created(tmp_path, rows).delete("id = 'uuid-12'")
    source = {"name": "docs", "uri": "store.parquet", "format": "parquet", "columns": {"chunk_id": "id"}}
    assert codes(tmp_path) & TRACES == {"position_gaps", "rows_fell"}
    found = codes(tmp_path, sources=[source])
    assert "missing_rows" in found
    assert not found & TRACES
