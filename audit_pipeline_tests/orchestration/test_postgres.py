"""The Postgres variant of dagster.yaml on a real server of this machine; skipped, and said so, where there is none."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from audit_pipeline.encoder.models import Encoder
from audit_pipeline_tests.cases.command import run_command
from audit_pipeline_tests.encoder.planted import docstrings
from audit_pipeline_tests.orchestration.live_dagster import live_dagster

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "dagster.postgres.yaml"
SETTINGS = """\
type: audit_pipeline.IndexAudit
attributes:
  name: on-postgres
  sources: [{{name: docs, uri: docs.jsonl, format: jsonl, ingestion_date: "2026-01-02"}}]
  encoder: {{model: {model}}}
  sample: {{arms: 0, ann_sweep: 0}}
"""
POOL = "on_postgres__table"
ROWS = 40


def server_programs() -> Path | None:
    """The folder of Postgres's programs: on the path, or where Debian's package has it."""
    named = shutil.which("initdb")
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *([Path(named).parent] if named else [])]
    whole = [folder for folder in folders if all((folder / one).exists() for one in ("initdb", "pg_ctl", "createdb"))]
    return whole[-1] if whole else None


pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(server_programs() is None, reason="no Postgres server here: apt-get install postgresql"),
    pytest.mark.skipif(
        importlib.util.find_spec("dagster_postgres") is None,
        reason="no dagster-postgres here: pip install 'audit-pipeline[postgres]'",
    ),
]


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty database of a server on loopback, which Postgres refuses to run as root."""
    programs = server_programs()
    assert programs is not None
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    user: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    if user:
        shutil.chown(folder, "postgres", "postgres")

    def run(program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(programs / program), *arguments], cwd=folder, text=True, stdout=subprocess.PIPE, stderr=2, **user
        )
        assert done.returncode == 0, done.stdout

    data, log = str(folder / "data"), str(folder / "log")
    run("initdb", "-D", data, "-U", "audit", "-A", "trust", "--no-sync")
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder} -c fsync=off"
    run("pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start")
    try:
        run("createdb", "-h", "127.0.0.1", "-p", port, "-U", "audit", "dagster")
        url = f"postgresql+psycopg2://audit@127.0.0.1:{port}/dagster"
        monkeypatch.setenv("DAGSTER_POSTGRES_URL", url)
        yield url
    finally:
        run("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.usefixtures("database")
def test_an_audit_its_pool_and_the_webserver_work_on_postgres(
    tmp_path: Path, fast_encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, config = tmp_path / "state", tmp_path / "defs.yaml"
    state.mkdir()
    shutil.copyfile(EXAMPLE, state / "dagster.yaml")
    rows = [{"chunk_id": f"c{number}", "text": text} for number, text in enumerate(docstrings("rich", ROWS))]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config.write_text(SETTINGS.format(model=fast_encoder.files.folder), encoding="utf-8")
    code, audit = run_command(config, state)
    assert (code, audit["index"]["rows"], audit["self_retrieval"]["self@1"]["value"]) == (0, ROWS, 1)
    assert list(state.rglob("*.db")) == []
    monkeypatch.setenv("DAGSTER_HOME", str(state))
    with dg.DagsterInstance.get() as instance:
        storage = instance.event_log_storage
        assert type(storage).__module__.startswith("dagster_postgres")
        assert [run.status.value for run in instance.get_runs()] == ["SUCCESS", "SUCCESS"]
        pool = storage.get_concurrency_info(POOL)
        assert (pool.slot_count, pool.active_slot_count) == (1, 0)
        claims = [storage.claim_concurrency_slot(POOL, f"run-{number}", "index_rows") for number in (1, 2)]
        assert [claim.is_claimed for claim in claims] == [True, False]
        storage.free_concurrency_slots_for_run("run-1")
        assert storage.claim_concurrency_slot(POOL, "run-2", "index_rows").is_claimed
        storage.free_concurrency_slots_for_run("run-2")
    with live_dagster([config], state, tmp_path) as live:
        found = live.ask("{ runsOrError { ... on Runs { results { jobName status } } } }")["runsOrError"]["results"]
        assert found == [
            {"jobName": f"on_postgres__{job}", "status": "SUCCESS"} for job in ("corpus_audit", "ingest_batch")
        ]
