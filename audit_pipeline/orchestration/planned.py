"""The batches that a command of this program is yet to bring in, kept in the state folder. No run is started here."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from audit_pipeline.orchestration.home import PROCESS_TAG, other_host, process_lives, process_tag
from audit_pipeline.state import StateFolder, read_json, write_json


@contextmanager
def planned(state: StateFolder, keys: Collection[str]) -> Iterator[Callable[[str, bool], None]]:
    """While the block lasts these batches are known to come, for Dagster has a run of the one in hand alone.

    Yields what is called with each batch that is done, and whether it came in: one left out is no longer to come.
    """
    path, left = _file(state), dict.fromkeys(keys)

    def write() -> None:
        write_json(path, {"process": process_tag()[PROCESS_TAG], "batches": list(left)})

    def done(key: str, came_in: bool) -> None:
        # One that came in may stay: the table has it. With many thousands, to write all anew each time takes long.
        if came_in:
            with suppress(FileNotFoundError):
                os.utime(path)
        else:
            del left[key]
            write()

    if not left:
        yield lambda key, came_in: None
        return
    write()
    try:
        yield done
    finally:
        path.unlink(missing_ok=True)


def planned_batches(state: StateFolder, unseen_for: dt.timedelta | None = None) -> frozenset[str]:
    """Keys of the batches that a command at work is to bring in; of one whose process is gone none.

    ``unseen_for`` is how long a command of another host counts that finishes no batch: whether it lives cannot be seen.
    """
    path = _file(state)
    try:
        seen, kept = path.stat().st_mtime, read_json(path)
    except FileNotFoundError:
        return frozenset()
    old = unseen_for is not None and dt.datetime.now(dt.UTC).timestamp() - seen > unseen_for.total_seconds()
    lives = process_lives(kept["process"]) and not (old and other_host(kept["process"]))
    return frozenset(kept["batches"]) if lives else frozenset()


def _file(state: StateFolder) -> Path:
    return state.audit / "planned.json"
