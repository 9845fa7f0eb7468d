"""The pool of the managed table: what is in it, and what is said to a run that waits for it."""

from __future__ import annotations

import logging
from pathlib import Path

import dagster as dg
import pytest

from audit_pipeline.orchestration import pools, running
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.home import INSTANCE_FILE, PROCESS_TAG, process_tag
from audit_pipeline.orchestration.pools import look_at_pools
from audit_pipeline_tests.orchestration.test_automation import settings_of, store

__all__ = ["store"]
POOL = "managed__table"


def test_whatever_commits_to_the_managed_table_is_in_one_pool_of_one_slot(store: Path) -> None:
    assets = [asset for asset in build_defs(settings_of(store, "manual")).assets or [] if hasattr(asset, "op")]
    pool_of = {asset.key.path[-1]: asset.op.pool for asset in assets}
    assert {name: pool for name, pool in pool_of.items() if pool} == {
        "index_rows": "small__table",
        "vector_index": "small__table",
    }
    (store / "state").mkdir(exist_ok=True)
    (store / "state" / "dagster.yaml").write_bytes(INSTANCE_FILE.read_bytes())
    with dg.DagsterInstance.get() as instance:
        pool = instance.get_concurrency_config().pool_config
        assert (pool.default_pool_limit, pool.pool_granularity.value) == (1, "op")


@pytest.mark.parametrize(
    ("tag", "slots"),
    [(process_tag()[PROCESS_TAG], 1), ("1:1000000000.00:another-host", 2), (None, 1)],
    ids=["a run of this process", "a free slot beside one of another host", "a run without a process"],
)
def test_a_pool_that_others_hold_is_waited_for_with_a_line_and_a_free_one_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tag: str | None, slots: int
) -> None:
    monkeypatch.setattr(logging.getLogger("audit_pipeline"), "propagate", True)
    caplog.set_level(logging.INFO, "audit_pipeline")
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        storage = instance.event_log_storage
        storage.set_concurrency_slots(POOL, slots)
        look_at_pools(instance, [POOL])
        assert caplog.messages == []
        run = instance.add_run(
            dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.STARTED, tags={PROCESS_TAG: tag} if tag else {})
        )
        assert storage.claim_concurrency_slot(POOL, run.run_id, "index_rows").is_claimed
        look_at_pools(instance, [POOL])
    # A pool with a slot left is nobody's to wait for, whoever holds the other.
    lines = [f"waiting for run {run.run_id}, which holds the pool {POOL}"] if slots == 1 else []
    assert [message.split(";")[0] for message in caplog.messages] == lines


def test_a_pool_that_is_taken_after_it_was_looked_at_is_waited_for_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dg.asset(pool=POOL)
    def one() -> None:
        return None

    defs = dg.Definitions([one], jobs=[dg.define_asset_job("job", [one])])
    lines = []

    class Freeing(logging.Handler):
        """Gives the slot back once somebody has said that it is waited for."""

        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage().split(";")[0])
            storage.free_concurrency_slots_for_run(other.run_id)

    handler = Freeing(logging.INFO)
    monkeypatch.setattr(pools, "_SECONDS_BETWEEN_LOOKS", 0.05)
    monkeypatch.setattr(logging.getLogger("audit_pipeline"), "handlers", [handler])
    monkeypatch.setattr(logging.getLogger("audit_pipeline"), "level", logging.INFO)
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        storage = instance.event_log_storage
        storage.set_concurrency_slots(POOL, 1)
        tags = process_tag()
        other = instance.add_run(dg.DagsterRun(job_name="other", status=dg.DagsterRunStatus.STARTED, tags=tags))

        def take(*_: object) -> None:
            assert storage.claim_concurrency_slot(POOL, other.run_id, "index_rows").is_claimed

        monkeypatch.setattr(running, "look_at_pools", take)
        assert running.execute(defs, "job", instance).success
    assert lines == [f"waiting for run {other.run_id}, which holds the pool {POOL}"]
