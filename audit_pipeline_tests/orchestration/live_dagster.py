"""Dagster's own webserver, daemon and code server on loopback for one index, in a session of their own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from audit_pipeline_tests.small_audit import cli_environment

LOCATION = "live"
DEFINITIONS = """\
from pathlib import Path
import dagster as dg
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.settings_file import load_settings
indexes = [build_defs(load_settings(Path(one))) for one in {configs!r}]
defs = dg.Definitions.merge(*indexes, dg.Definitions(executor=dg.in_process_executor))
"""
# Found by every process of the session as it starts. The daemon's loops sleep 5 s, that of backfills 30 s: most of what
# a test would wait for. They do the same after 1 s.
LOOPS_OF_A_SECOND = """\
import sys
if "dagster._daemon" in sys.orig_argv:
    from dagster._core.run_coordinator import QueuedRunCoordinator
    from dagster._daemon import asset_daemon, controller, sensor
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 1
    asset_daemon.MIN_INTERVAL_LOOP_SECONDS = sensor.MIN_INTERVAL_LOOP_TIME = 1
    QueuedRunCoordinator.dequeue_interval_seconds = 1
"""
T = TypeVar("T")


@dataclass(frozen=True)
class LiveDagster:
    """The running servers; ``log`` is what they print."""

    url: str
    log: Path

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """One GraphQL request. Raises AssertionError where it is refused."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answered:
            answer = json.load(answered)
        assert "errors" not in answer, answer["errors"]
        return answer["data"]

    def wait_for(self, what: str, test: Callable[[], T | None], seconds: float = 240) -> T:
        """What ``test`` gives once it is true; after so many seconds an error with the servers' last lines."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = test()
            if found:
                return found
            time.sleep(0.5)
        raise AssertionError(f"{what}: not within {seconds} s\n" + self.log.read_text(encoding="utf-8")[-6000:])


@contextmanager
def live_dagster(configs: Sequence[Path], home: Path, folder: Path, more: str = "") -> Iterator[LiveDagster]:
    """The servers for indexes by their settings files on the Dagster home ``home``; all their processes end with it.

    ``more`` is Python that stands below the definitions: each run executes it.
    """
    definitions = folder / "live_definitions.py"
    definitions.write_text(DEFINITIONS.format(configs=[str(config) for config in configs]) + more, encoding="utf-8")
    (folder / "startup").mkdir(exist_ok=True)
    (folder / "startup" / "sitecustomize.py").write_text(LOOPS_OF_A_SECOND, encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "dagster.log"
    environment = cli_environment(
        DAGSTER_HOME=str(home), PYTHONPATH=os.pathsep.join([str(folder / "startup"), *filter(None, sys.path)])
    )
    command = [str(Path(sys.executable).with_name("dagster")), "dev", "-h", "127.0.0.1", "-p", str(port)]
    command += ["-f", str(definitions)]
    with log.open("wb") as output:
        # A session of their own: whatever they start is in it, and nothing else is.
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    live = LiveDagster(f"http://127.0.0.1:{port}", log)
    try:
        live.wait_for("the webserver", lambda: _answers(live))
        yield live
    finally:
        end_session(process)


def _answers(live: LiveDagster) -> bool:
    with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
        found = live.ask("{ repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }")
        return bool(found["repositoriesOrError"].get("nodes"))
    return False


def of_session(session: int) -> list[int]:
    """Processes of a session, those that a server has put into another process group too."""
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == session:
                found.append(pid)
    return found


def end_session(process: subprocess.Popen[bytes], patience: float = 2) -> None:
    """Ask the leader of a session to stop, then end whatever is left of the session."""
    session = process.pid
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=patience)
    for pid in of_session(session):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(timeout=patience)
