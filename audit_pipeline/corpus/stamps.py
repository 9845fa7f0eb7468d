"""Whether the source store's files are still those of an earlier look, told from their listing alone. None is read."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from pathlib import Path

from pyarrow import fs

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.docstrings import find_modules
from audit_pipeline.corpus.files import find_files
from audit_pipeline.corpus.lance_tables import open_lance
from audit_pipeline.errors import AuditInputError
from audit_pipeline.source_settings import SourceSettings

# A file that is written twice within its time stamp's resolution keeps its stamp: what is younger is not trusted.
_SETTLED = dt.timedelta(seconds=3)


def store_stamp(settings: IndexAuditSettings, today: dt.date, now: dt.datetime | None = None) -> str | None:
    """A digest of the names, sizes and times of all files and of what decides their rows' batches.

    None where it would not tell: a file has no time, or was written within the last seconds. An entry that cannot be
    listed counts as just that: whoever relies on the stamp tries it again.
    """
    now = now or dt.datetime.now(dt.UTC)
    listed: list[list[str | int | None]] = []
    for entry in settings.sources:
        if entry.retired:
            continue
        try:
            files = _files(entry)
        except (AuditInputError, OSError):
            listed.append([entry.name, None])
            continue
        for name, size, modified, changed in files:
            if modified is None or modified > now - _SETTLED:
                return None
            listed.append([entry.name, name, size, modified.isoformat(), changed])
    deciding = {
        # Credentials are renewed, and no digest of them belongs on a disk.
        "sources": [source.model_dump(mode="json", exclude={"storage_options"}) for source in settings.sources],
        "start_date": str(settings.start_date),
        "timezone": settings.timezone,
        "grain": settings.ingestion_grain,
        "today": today.isoformat(),  # rows dated later are rejected until then
        "files": listed,
    }
    return hashlib.sha256(json.dumps(deciding).encode()).hexdigest()


def _files(entry: SourceSettings) -> list[tuple[str, int, dt.datetime | None, int | None]]:
    """(name, bytes, time of the last change, the same as the system tells it) of each file of an entry; of a Lance
    table its version for the bytes.

    A copy may bring the size and time of the file that it replaces, and only what the system itself notes of a file
    (ctime; in no object store) tells them apart.
    """
    if entry.format == "docstrings":
        stats = [(str(module.path), module.path.stat()) for module in find_modules(entry)]
        return [
            (name, stat.st_size, dt.datetime.fromtimestamp(stat.st_mtime, dt.UTC), stat.st_ctime_ns)
            for name, stat in stats
        ]
    if entry.format == "lance":
        opened = open_lance(entry)
        return [(opened.name, opened.version, opened.written, None)]
    unknown = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return [
        (
            file.path,
            file.size,
            None if file.modified == unknown else file.modified,
            Path(file.path).stat().st_ctime_ns if isinstance(file.filesystem, fs.LocalFileSystem) else None,
        )
        for file in find_files(entry)
    ]
