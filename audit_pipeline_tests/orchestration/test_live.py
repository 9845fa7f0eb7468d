"""A second ingestion path, on the real webserver and daemon: seen, backfilled, checked, blamed, and told once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.orchestration import workspaces
from audit_pipeline.orchestration.home import prepare_home
from audit_pipeline.orchestration.running import Backfilled, backfill_plan, run_backfill
from audit_pipeline.settings_file import load_settings
from audit_pipeline_tests.encoder import planted
from audit_pipeline_tests.encoder.embedding_server import EmbeddingServer, Reply, serving
from audit_pipeline_tests.orchestration.live_dagster import LiveDagster, live_dagster
from audit_pipeline_tests.orchestration.test_both_jobs import BATCH_ASSETS

NAME = "second-path"
PREFIX = "second_path"
FIRST_DAYS, SECOND_DAYS = ("2026-01-02", "2026-01-05"), ("2026-01-03", "2026-01-06")
CELLS = [f"{day}|late" for day in SECOND_DAYS]
PER_CELL = 20
SECRET = "T0SECRET0PATH"
TAKEN = 3  # ids in each batch of the second source that rows of the first one hold

SETTINGS = """\
type: audit_pipeline.IndexAudit
attributes:
  name: second-path
  sources:
    - {{name: handbook, uri: handbook.jsonl, format: jsonl}}
    - {{name: "*", uri: arrived, format: jsonl}}
  encoder: {{model: {model}}}
  sample: {{total: 200, arms: 0, ann_sweep: 0}}
  automation: {{mode: sensors, history: wait, every_seconds: 1, audit_cron: "0 0 1 1 *"}}
  alerts: {{webhook_env: LIVE_WEBHOOK, every_seconds: 1}}
"""
BACKFILL = """
mutation ($params: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $params) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}"""
LAUNCH = """
mutation ($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message }
  }
}"""
STATUS = "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
BACKFILL_STATUS = """
query ($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }"""


def write_rows(path: Path, texts: list[str], ids: list[str], days: tuple[str, ...], **more: str) -> None:
    path.parent.mkdir(exist_ok=True)
    rows = [
        {"chunk_id": chunk_id, "text": text, "ingestion_date": days[number // PER_CELL], **more}
        for number, (chunk_id, text) in enumerate(zip(ids, texts, strict=True))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def table_ids(state: Path) -> dict[str, set[str]]:
    """Batch -> ids of its rows in the table."""
    import lancedb

    rows = lancedb.connect(str(state / "index" / f"{NAME}.lance")).open_table("chunks").to_pandas()
    return {str(batch): set(part["chunk_id"]) for batch, part in rows.groupby("batch")}


@pytest.fixture
def index(tmp_path: Path, fast_encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An index of one source whose batches are in the table, and a folder where others may arrive."""
    (tmp_path / "defs.yaml").write_text(SETTINGS.format(model=fast_encoder.files.folder), encoding="utf-8")
    texts = planted.docstrings("rich", 4 * PER_CELL)
    write_rows(
        tmp_path / "handbook.jsonl", texts[: 2 * PER_CELL], [f"h{n:02}" for n in range(2 * PER_CELL)], FIRST_DAYS
    )
    (tmp_path / "arrived").mkdir()
    (tmp_path / "arrived" / "none.jsonl").touch()
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "state"))
    prepare_home(tmp_path / "state")
    workspaces._WORKSPACES.clear()
    settings = load_settings(tmp_path / "defs.yaml")
    with dg.DagsterInstance.get() as instance:
        assert run_backfill(settings, backfill_plan(settings, "handbook", None), instance) == Backfilled()
    yield tmp_path
    workspaces._WORKSPACES.clear()


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    """A webhook that refuses every other post, beginning with the first."""
    with serving() as server:
        server.rule = lambda body: Reply(500 if len(server.bodies) % 2 else 200, make=lambda _: b"")
        monkeypatch.setenv("LIVE_WEBHOOK", f"{server.base_url}/{SECRET}")
        yield server


def second_source(folder: Path) -> None:
    """The second path: some of its rows have ids that the first one's rows hold, so they cannot be taken in."""
    texts = planted.docstrings("rich", 4 * PER_CELL)[2 * PER_CELL :]
    ids = [f"l{n:02}" for n in range(2 * PER_CELL)]
    for batch in range(len(SECOND_DAYS)):
        for place in range(TAKEN):
            ids[batch * PER_CELL + place] = f"h{batch * PER_CELL + place:02}"
    write_rows(folder / "arrived" / "late.jsonl", texts, ids, SECOND_DAYS, source="late")


def finished(live: LiveDagster, run_id: str) -> bool:
    status = live.ask(STATUS, id=run_id)["runOrError"]["status"]
    assert status not in ("FAILURE", "CANCELED"), live.log.read_text(encoding="utf-8")[-6000:]
    return status == "SUCCESS"


@pytest.mark.timeout(400)
def test_a_second_source_is_registered_backfilled_checked_and_blamed_for_what_it_brought(
    index: Path, webhook: EmbeddingServer
) -> None:
    state = index / "state"
    with live_dagster([index / "defs.yaml"], state, index) as live, dg.DagsterInstance.get() as instance:
        assert instance.get_dynamic_partitions(f"{PREFIX}__source") == ["handbook"]
        second_source(index)
        live.wait_for(
            "the sensor registers the source",
            lambda: "late" in instance.get_dynamic_partitions(f"{PREFIX}__source"),
        )
        started = live.ask(
            BACKFILL,
            params={
                "assetSelection": [{"path": [PREFIX, asset]} for asset in BATCH_ASSETS],
                "partitionNames": CELLS,
                "fromFailure": False,
            },
        )["launchPartitionBackfill"]
        assert started["__typename"] == "LaunchBackfillSuccess", started

        def backfilled() -> bool:
            status = live.ask(BACKFILL_STATUS, id=started["backfillId"])["partitionBackfillOrError"]["status"]
            assert not status.startswith(("FAIL", "CANCEL")), live.log.read_text(encoding="utf-8")[-6000:]
            return status == "COMPLETED_SUCCESS"

        live.wait_for("the backfill", backfilled)
        for asset in BATCH_ASSETS:
            assert instance.get_materialized_partitions(dg.AssetKey([PREFIX, asset])) >= set(CELLS), asset
        # Three rows a batch are missing: the first source has their ids, and keeps them.
        assert checks_of(instance, "batch_integrity", "table_holds_batch") == dict.fromkeys(CELLS, False)
        assert checks_of(instance, "passage_vectors", "vectors_can_be_written") == dict.fromkeys(CELLS, True)
        assert checks_of(instance, "chunks", "no_rows_rejected") == dict.fromkeys(CELLS, False)
        ids = table_ids(state)
        assert {batch: len(rows) for batch, rows in ids.items()} == {
            **{f"{day}|handbook": PER_CELL for day in FIRST_DAYS},
            **dict.fromkeys(CELLS, PER_CELL - TAKEN),
        }
        assert not ids[CELLS[0]] & ids[f"{FIRST_DAYS[0]}|handbook"]
        launched = live.ask(
            LAUNCH,
            params={
                "selector": {
                    "repositoryLocationName": "live_definitions.py",
                    "repositoryName": "__repository__",
                    "jobName": f"{PREFIX}__corpus_audit",
                },
                "mode": "default",
            },
        )["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        live.wait_for("the audit", lambda: finished(live, launched["run"]["runId"]))
        assert checks_of(instance, "corpus_integrity", "covers_all_batches") == {None: True}
        assert checks_of(instance, "audit_report", "no_error_findings") == {None: False}
        live.wait_for("the alert", lambda: "missing_rows" in told(webhook))
        quiet = len(quiet_ticks(instance))
        live.wait_for("ticks without news", lambda: len(quiet_ticks(instance)) >= quiet + 3)
    # Of every two posts one was refused and made again; of those taken, each thing stands in one.
    lines = told(webhook).splitlines()
    assert sum("`missing_rows`" in line for line in lines) == 1
    assert sum(line.startswith("• `source late`: ") for line in lines) == 1
    for day in SECOND_DAYS:  # rows that were rejected, and so are missing
        assert lines.count(f"• `source late, ingested {day}`") == 2
    assert not [path for path in index.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    audit: dict[str, Any] = json.loads((state / "reports" / NAME / "audit.json").read_text(encoding="utf-8"))
    errors = [(finding["code"], finding["scope"]) for finding in audit["findings"] if finding["severity"] == "error"]
    assert errors == [("missing_rows", {"source": "late"})]
    by_source = {part["source"]: part["chunks"] for part in audit["self_retrieval"]["by_source"]}
    assert by_source == {"handbook": 2 * PER_CELL, "late": 2 * (PER_CELL - TAKEN)}


def told(webhook: EmbeddingServer) -> str:
    """The sections of all posts that were taken."""
    taken = webhook.bodies[1::2]
    return "\n".join(block["text"]["text"] for body in taken for block in body["blocks"] if block["type"] == "section")


def quiet_ticks(instance: dg.DagsterInstance) -> list[str]:
    """What the last ticks of the alert sensor say that had nothing new to tell."""
    (state,) = [one for one in instance.all_instigator_state() if one.instigator_name == f"{PREFIX}__alerts"]
    ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=200)
    return [tick.skip_reason for tick in ticks if tick.skip_reason and tick.skip_reason.startswith("nothing is new")]


def checks_of(instance: dg.DagsterInstance, asset: str, check: str) -> dict[str | None, bool]:
    """Partition -> whether the check passed in its last execution; batches of the first source left out."""
    key = dg.AssetCheckKey(dg.AssetKey([PREFIX, asset]), check)
    history = instance.event_log_storage.get_asset_check_execution_history(key, limit=100)
    found = {record.partition: record.status.value == "SUCCEEDED" for record in reversed(history)}
    return {partition: passed for partition, passed in found.items() if not str(partition).endswith("|handbook")}
