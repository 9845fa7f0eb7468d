"""Ingests in processes that die at a chosen write. A server has imported everything; each is forked off it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MID_COMMIT = "mid-commit"
STAGES = (
    "ingest_chunks",
    "ingest_probes",
    "ingest_passage_vectors",
    "ingest_signatures",
    "ingest_index_rows",
    "check_batch_integrity",
    "finish_batch",
)


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code (negative a signal), and the writes that it came to, in order."""

    code: int
    writes: list[str]


class Server:
    """Starts processes at once, and waits for all of them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, *jobs: dict[str, Any]) -> list[Ended]:
        """One process a job: ``config``, ``state``, and ``key`` (the stages of a batch) or ``command`` (of the CLI).

        ``die`` is the write it dies before, by number or name, MID_COMMIT once a commit has written its data;
        ``meet`` a folder where as many processes as there are jobs wait for each other before their first commit.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(jobs) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the server of processes ended"
        return [Ended(**one) for one in json.loads(line)]


@contextmanager
def server(model: Path) -> Iterator[Server]:
    """A server whose processes have the encoder of the folder ``model``."""
    environment = os.environ | {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "audit_pipeline_tests.stages.forked", str(model)]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Server(process)
    finally:
        process.stdin.close()  # type: ignore[union-attr]
        process.wait(timeout=20)


class Writes:
    """Sees every write of an ingest before it is done: files put in place, folders removed, commits to the table."""

    def __init__(self, job: dict[str, Any], processes: int, log: int) -> None:
        self._job, self._processes, self._log, self._seen, self._met = job, processes, log, 0, False

    def note(self, name: str) -> None:
        os.write(self._log, f"{name}\n".encode())
        if self._job.get("die") in (self._seen, name):
            os.kill(os.getpid(), signal.SIGKILL)
        self._seen += 1

    def meet(self) -> None:
        """Wait until every process has come to its first commit: none of them has seen another's."""
        if not self._job.get("meet") or self._met:
            return
        self._met = True
        place = Path(self._job["meet"])
        (place / str(os.getpid())).touch()
        end = time.monotonic() + 20
        while len(list(place.iterdir())) < self._processes and time.monotonic() < end:
            time.sleep(0.002)

    def die_with_data(self, table: Path) -> None:
        """End the process once the commit has written its data, which no version of the table has yet."""
        before = set(table.glob("data/*"))
        if self._job.get("die") != MID_COMMIT:
            return

        def watch() -> None:
            while set(table.glob("data/*")) == before:
                time.sleep(0.0002)
            os.kill(os.getpid(), signal.SIGKILL)

        threading.Thread(target=watch, daemon=True).start()

    def around(
        self, owner: Any, attribute: str, name: Callable[..., str | None], *, commit: bool = False, alone: bool = False
    ) -> None:
        usual = getattr(owner, attribute)

        def seen(*arguments: Any, **options: Any) -> Any:
            shown = name(*arguments)
            if shown is not None:
                self.note(shown)
            if commit and not alone:  # a table is created under a lock, so the other cannot come
                self.meet()
            if commit:
                self.die_with_data(Path(self._job["state"]) / "index" / "managed.lance" / "chunks.lance")
            return usual(*arguments, **options)

        setattr(owner, attribute, seen)

    def install(self) -> None:
        from audit_pipeline.index import managed

        state = Path(self._job["state"])
        creating = managed._creating

        def meeting(*arguments: Any) -> Any:
            self.meet()
            return creating(*arguments)

        managed._creating = meeting

        def of_state(path: Path | str) -> str | None:
            inside = any(folder in Path(path).parents for folder in (state / "audits", state / "vectors"))
            return Path(path).name if inside else None

        self.around(Path, "replace", lambda _, target: of_state(target))
        self.around(Path, "rename", lambda _, target: of_state(target))
        self.around(shutil, "rmtree", lambda path, *_: f"remove {of_state(path)}" if of_state(path) else None)
        connect = managed.connect

        def hooked(*arguments: Any, **options: Any) -> Any:
            managed.connect = connect
            self._install_commits()
            return connect(*arguments, **options)

        managed.connect = hooked  # LanceDB is loaded at need: a process that dies before it does not pay for it

    def _install_commits(self) -> None:
        from lancedb.db import LanceDBConnection
        from lancedb.merge import LanceMergeInsertBuilder
        from lancedb.table import LanceTable

        self.around(LanceDBConnection, "create_table", lambda *_: "create table", commit=True, alone=True)
        self.around(LanceTable, "delete", lambda *_: "delete", commit=True)
        self.around(LanceMergeInsertBuilder, "execute", lambda *_: "merge", commit=True)


def _work(job: dict[str, Any]) -> None:
    if "command" in job:
        from audit_pipeline.cli import main

        sys.argv = ["audit-pipeline", *job["command"], "--config", job["config"], "--state", job["state"]]
        main()
        return
    from audit_pipeline.settings_file import load_settings
    from audit_pipeline.stages import ingest
    from audit_pipeline.stages.workspace import Workspace

    workspace = Workspace(load_settings(Path(job["config"])), Path(job["state"]))
    for stage in STAGES:
        getattr(ingest, stage)(workspace, job["key"])


def _start(job: dict[str, Any], processes: int, log: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.dup2(2, 1)  # what a command prints is no answer of the server
        writes = Writes(job, processes, os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
        writes.install()
        try:
            _work(job)
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _serve(model: str) -> None:
    import tempfile

    import audit_pipeline.cli
    import audit_pipeline.duplicates.signatures
    import audit_pipeline.index.batch_rows
    import audit_pipeline.index.managed
    import audit_pipeline.orchestration.home
    import audit_pipeline.orchestration.running
    import audit_pipeline.stages.ingest  # noqa: F401
    from audit_pipeline.encoder import models
    from audit_pipeline.encoder_settings import EncoderSettings

    loaded = models.load_encoder(EncoderSettings(model=model))
    assert loaded is not None
    loaded.encode(["once, so that all of it is loaded"])
    models.load_encoder = lambda *_: loaded  # type: ignore[assignment]
    assert "lancedb" not in sys.modules  # its threads would be lost in a fork
    for line in sys.stdin:
        jobs = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            logs = [Path(folder) / str(number) for number in range(len(jobs))]
            pids = [_start(job, len(jobs), log) for job, log in zip(jobs, logs, strict=True)]
            codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
            ended = [
                {"code": code, "writes": log.read_text().splitlines() if log.exists() else []}
                for code, log in zip(codes, logs, strict=True)
            ]
        print(json.dumps(ended), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
