"""What a grid of many batches costs in Dagster, and how it grows: definitions, ticks, runs, the UI's page, the audit.

python -m benchmarks.grid [SOURCES] [DAYS] [BATCHES]

BATCHES (default 120) batches of uneven size (1 to 24 rows, 8 on average) lie anywhere in the grid of SOURCES (12) x
DAYS (60), and a quarter of them in a grid with a quarter of the days. Both grids are filled and audited as a managed
index would be, with passages that every installation has and a fast static model. Printed are seconds for either grid,
the growth from one to the other (4.0 = linear in cells and batches) and the larger grid's seconds as a multiple of one
run of empty assets with as many assets and checks as a batch has, timed in the same run.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.home import prepare_home
from audit_pipeline.orchestration.naming import ingest_job_name
from audit_pipeline.settings_file import load_settings
from audit_pipeline_tests.orchestration.live_dagster import LiveDagster, live_dagster
from benchmarks.as_it_stands import fast_model
from benchmarks.texts import installed_passages

SIZES = (1, 2, 5, 24)  # rows of a batch, in turn: real loads are this uneven
ONE_BATCH = """\
import sys
from pathlib import Path
import dagster as dg
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.naming import ingest_job_name
from audit_pipeline.orchestration.running import execute
from audit_pipeline.settings_file import load_settings
settings = load_settings(Path(sys.argv[1]))
with dg.DagsterInstance.get() as instance:
    execute(build_defs(settings), ingest_job_name(settings), instance, partition_key=sys.argv[2])
"""
PAGE = """\
query ($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode {
  partitionKeysByDimension { name partitionKeys }
  assetPartitionStatuses { ... on MultiPartitionStatuses { primaryDimensionName ranges {
    primaryDimStartKey primaryDimEndKey secondaryDim {
      ... on DefaultPartitionStatuses { materializedPartitions failedPartitions unmaterializedPartitions }
      ... on TimePartitionStatuses { ranges { startKey endKey status } } } } } } } } }
"""


def main(sources: int = 12, days: int = 60, batches: int = 120) -> None:
    """Print what a quarter of the grid and the whole of it cost."""
    passages = installed_passages(sum(SIZES[number % len(SIZES)] for number in range(batches)))
    shapes = [(sources, max(1, days // 4), batches // 4), (sources, days, batches)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model = fast_model(folder / "model")
        unit = _empty_run(folder / "empty")
        grids = [_Grid(folder / str(number), model, *shape) for number, shape in enumerate(shapes)]
        measured = [grid.measure(passages) for grid in grids]
    _print(shapes, measured, unit)


class _Grid:
    """One grid below ``folder``: a source store of its own, a state folder, and the settings of its audit."""

    def __init__(self, folder: Path, model: str, sources: int, days: int, batches: int) -> None:
        self.folder, self.state, self.config = folder, folder / "state", folder / "grid.yaml"
        (folder / "store").mkdir(parents=True)
        self.shape = (sources, days, batches)
        settings = {
            "name": "grid",
            "sources": [{"name": "*", "uri": str(folder / "store"), "format": "parquet"}],
            "encoder": {"model": model},
            "start_date": (dt.datetime.now(dt.UTC).date() - dt.timedelta(days=days - 1)).isoformat(),
        }
        document = {"type": "audit_pipeline.IndexAudit", "attributes": settings}
        self.config.write_text(json.dumps(document), encoding="utf-8")
        self.settings = load_settings(self.config)

    def measure(self, passages: pa.Table) -> dict[str, float]:
        """Seconds by what took them, and the peak of memory of ingest and audit in GiB."""
        keys = self._write_store(passages)
        prepare_home(self.state)
        seconds = {"definitions": _median(self._definitions)}
        with dg.DagsterInstance.get() as instance:
            seconds["first tick"], cursor = self._tick(instance, None)
            seconds["a tick before anything is ingested"], _ = self._tick(instance, cursor)
            seconds["first batch, a process of its own"] = self._one_batch(keys[0])
            run = self._run()
            seconds["all batches and the audit"] = run["wall"]
            seconds["corpus audit"] = sum(run["timings"].values())
            seconds |= _batches_in_the_run(self.settings, instance)
            seconds["a batch again, a process of its own"] = self._one_batch(keys[-1])
            seconds["a tick when all is ingested"], _ = self._tick(instance, cursor)
            seconds["nothing changed: the audit again"] = self._run()["wall"]
        seconds["partitions page"] = self._page()
        seconds["peak memory, GiB"] = run["peak_gib"]
        return seconds

    def _write_store(self, passages: pa.Table) -> list[str]:
        """One Parquet file a source; the keys of the batches, sorted."""
        sources, days, batches = self.shape
        cells = np.random.default_rng(0).choice(sources * days, batches, replace=False)
        first = self.settings.start_date
        assert first is not None  # __init__ sets it
        sizes = np.array([SIZES[number % len(SIZES)] for number in range(batches)])
        cell = np.repeat(cells, sizes)
        rows = passages.slice(0, len(cell)).select(["text", "doc_id", "position"])
        rows = rows.append_column("chunk_id", pa.array([f"p{number}" for number in range(len(rows))]))
        dates = [first + dt.timedelta(days=int(place)) for place in cell // sources]
        rows = rows.append_column("ingestion_date", pa.array(dates, pa.date32()))
        for number in range(sources):
            mine = rows.filter(pa.array(cell % sources == number))
            name = pa.array([_source(number)] * len(mine))
            pq.write_table(mine.append_column("source", name), self.folder / "store" / f"{_source(number)}.parquet")
        return sorted(
            f"{first + dt.timedelta(days=int(place // sources))}|{_source(place % sources)}" for place in cells
        )

    def _definitions(self) -> None:
        build_defs(self.settings).get_repository_def().get_all_jobs()

    def _tick(self, instance: dg.DagsterInstance, cursor: str | None) -> tuple[float, str | None]:
        """Seconds of one tick of the discovery sensor, and its cursor; the sources it found are registered."""
        sensor = next(iter(build_defs(self.settings).sensors or []))
        context = dg.build_sensor_context(instance=instance, cursor=cursor)
        started = time.perf_counter()
        result: Any = sensor(context)
        seconds = time.perf_counter() - started
        for request in result.dynamic_partitions_requests or ():
            instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        return seconds, result.cursor

    def _one_batch(self, key: str) -> float:
        started = time.perf_counter()
        command = [sys.executable, "-c", ONE_BATCH, str(self.config), key]
        subprocess.run(command, check=True, env=self._environment(), stderr=subprocess.DEVNULL)
        return time.perf_counter() - started

    def _run(self) -> dict[str, Any]:
        """audit.json of `audit-pipeline run`, with the wall clock and the peak of memory beside it."""
        command = [sys.executable, "-m", "audit_pipeline.cli", "run", "--json"]
        command += ["--config", str(self.config), "--state", str(self.state)]
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self._environment())
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) > 1:
            raise RuntimeError(f"the run failed: {' '.join(command)}")
        return json.loads(printed) | {"wall": time.perf_counter() - started, "peak_gib": used.ru_maxrss / 1024**2}

    def _page(self) -> float:
        """Seconds of the query behind the partitions page of an asset, asked of the real webserver; the second time."""
        with live_dagster([self.config], self.state, self.folder) as live:
            return [_ask(live) for _ in range(3)][-1]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "DAGSTER_HOME": str(self.state), "HF_HUB_OFFLINE": "1"}


def _ask(live: LiveDagster) -> float:
    started = time.perf_counter()
    node = live.ask(PAGE, key={"path": ["grid", "batch_integrity"]})["assetNodeOrError"]
    if not node["assetPartitionStatuses"].get("ranges"):
        raise RuntimeError("the webserver shows no materialised batch")
    return time.perf_counter() - started


def _source(number: int) -> str:
    return f"source-{number:03}"


def _batches_in_the_run(settings: IndexAuditSettings, instance: dg.DagsterInstance) -> dict[str, float]:
    """Median seconds of the first and of the last tenth of the batches that were ingested one after another."""
    records = instance.get_run_records(dg.RunsFilter(job_name=ingest_job_name(settings)), ascending=True)[1:]
    took = [record.end_time - record.start_time for record in records if record.end_time and record.start_time]
    tenth = max(1, len(took) // 10)
    return {
        "a batch in the run, first tenth": statistics.median(took[:tenth]),
        "a batch in the run, last tenth": statistics.median(took[-tenth:]),
    }


def _empty_run(folder: Path) -> float:
    """Seconds of a run of six assets and four checks that do nothing, as many as a batch has: the machine's unit."""

    def nothing(number: int) -> dg.AssetsDefinition:
        @dg.asset(name=f"asset_{number}", deps=[f"asset_{number - 1}"] if number else None)
        def empty() -> None: ...

        return empty

    def passed(number: int) -> dg.AssetChecksDefinition:
        @dg.asset_check(asset=f"asset_{number}", name="check")
        def check() -> dg.AssetCheckResult:
            return dg.AssetCheckResult(passed=True)

        return check

    defs = dg.Definitions(
        [nothing(number) for number in range(6)],
        asset_checks=[passed(number) for number in range(4)],
        jobs=[dg.define_asset_job("empty", executor_def=dg.in_process_executor)],
    )
    prepare_home(folder)
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    with dg.DagsterInstance.get() as instance:
        return _median(lambda: defs.resolve_job_def("empty").execute_in_process(instance=instance, run_config=quiet))


def _median(work: Callable[[], object], times: int = 5) -> float:
    took = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        took.append(time.perf_counter() - started)
    return statistics.median(took)


def _print(shapes: list[tuple[int, int, int]], measured: list[dict[str, float]], unit: float) -> None:
    heads = [f"{sources}x{days}, {batches:,}" for sources, days, batches in shapes]
    print(
        f"{'seconds of sources x days, batches':38}"
        + "".join(f"{head:>16}" for head in heads)
        + "  growth  x empty run"
    )
    for name, last in measured[-1].items():
        first = measured[0][name]
        in_units = "" if name.startswith("peak") else f"{last / unit:13.1f}"
        print(f"{name:38}{first:16.2f}{last:16.2f}{last / first if first else 0:8.1f}{in_units}")
    print(f"one empty run: {unit:.2f} s")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
