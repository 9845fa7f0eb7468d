"""Which files an entry of the source store names, and what their paths say. Reading them is in readers.py."""

from __future__ import annotations

import datetime as dt
import fnmatch
import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyarrow import fs

from audit_pipeline.corpus.dates import UTC, Days
from audit_pipeline.corpus.file_systems import OBJECT_STORES, UnknownOptionError, filesystem_of, hidden
from audit_pipeline.errors import AuditInputError, reason_of
from audit_pipeline.source_settings import SourceSettings

_SUFFIXES = {
    "parquet": (".parquet", ".parq", ".pq"),
    "jsonl": (".jsonl", ".ndjson", ".json"),
    "csv": (".csv", ".tsv"),
    "markdown": (".md", ".markdown"),
}
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
# Packages that a build put beside the documents: their readmes are not its own.
_OF_OTHERS = frozenset({"node_modules"})
_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class SourceFile:
    """One file of an entry. ``origin`` is its path under the entry's uri, ``hive`` its key=value folders."""

    path: str
    origin: str
    filesystem: fs.FileSystem
    modified: dt.datetime
    size: int
    zone: ZoneInfo = UTC
    hive: dict[str, str | None] = field(default_factory=dict)

    @property
    def days(self) -> Days:
        """The zone of its rows' days, and the day there of the file's last change."""
        return Days(self.zone, self.modified.astimezone(self.zone).date())

    def open_stream(self) -> Any:
        """The file's bytes as a stream, decompressed by its suffix in lower or upper case."""
        compression = _COMPRESSED.get(PurePosixPath(self.path).suffix.lower())
        return self.filesystem.open_input_stream(self.path, compression=compression)


def find_files(entry: SourceSettings, zone: ZoneInfo = UTC) -> list[SourceFile]:
    """The entry's files sorted by path. A file named outright is taken whatever its suffix; in folders and globs
    those of the format's suffixes count, hidden ones and those that begin with "_" do not.

    Raises AuditInputError where nothing matches.
    """
    where = f"source {entry.name!r}"
    try:
        filesystem, root = filesystem_of(entry.uri, entry.storage_options)
        infos, base = _matching(filesystem, root, entry.format)
    except UnknownOptionError as error:
        raise AuditInputError(f"{where}: storage_options: {error}: remove it, or set it in the environment") from error
    except (OSError, ValueError, pa.ArrowException) as error:
        told = hidden(reason_of(error), entry.storage_options)
        check = "uri and storage_options" if entry.uri.startswith(OBJECT_STORES) else "uri"
        raise AuditInputError(f"{where}: {entry.uri} cannot be listed ({told}): check its {check}") from error
    if not infos:
        raise AuditInputError(
            f"{where}: no {entry.format} file at {entry.uri}: check the path, or the format "
            f"({', '.join(_SUFFIXES[entry.format])})"
        )
    files = [
        SourceFile(
            path=info.path,
            origin=info.path[len(base) :].lstrip("/") if base and info.path.startswith(base) else info.base_name,
            filesystem=filesystem,
            modified=info.mtime or dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
            size=info.size or 0,
            zone=zone,
            hive=_hive_values(info.path),
        )
        for info in infos
    ]
    return sorted(files, key=lambda file: file.path)


def _matching(filesystem: fs.FileSystem, root: str, file_format: str) -> tuple[list[fs.FileInfo], str]:
    """(file infos, the folder that origins are relative to)."""
    info = filesystem.get_file_info(root)
    if info.type == fs.FileType.File:
        return [info], ""
    if info.type == fs.FileType.Directory:
        return [one for one in _below(filesystem, root, file_format) if _counts(one, root, file_format)], root
    if not _MAGIC.search(root):
        return [], root
    base = root[: _MAGIC.search(root).start()].rpartition("/")[0]  # type: ignore[union-attr]
    if isinstance(filesystem, fs.LocalFileSystem):
        matched = [str(path) for path in Path(base or "/").glob(root[len(base) :].lstrip("/"))]
        found = _refuse_gone(filesystem.get_file_info([one for one in matched if _has_suffix(one, file_format)]))
        found += filesystem.get_file_info([one for one in matched if not _has_suffix(one, file_format)])
        folders = [one.path for one in found if one.type == fs.FileType.Directory]
    else:
        listed = _below(filesystem, base, file_format)
        found = [one for one in listed if fnmatch.fnmatchcase(one.path, root)]
        folders = []
    for folder in folders:  # a glob may name folders: data/*/
        found += _below(filesystem, folder, file_format)
    unique = {one.path: one for one in found if _counts(one, base, file_format)}
    return list(unique.values()), base


def _counts(info: fs.FileInfo, base: str, file_format: str) -> bool:
    if info.type != fs.FileType.File:
        return False
    parts = PurePosixPath(info.path[len(base) :]).parts
    return not any(_is_left_out(part) for part in parts) and _has_suffix(info.base_name, file_format)


def _is_left_out(part: str) -> bool:
    return part.startswith((".", "_")) or part in _OF_OTHERS


def _has_suffix(name: str, file_format: str) -> bool:
    name = name.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return name.endswith(_SUFFIXES[file_format])


def _below(filesystem: fs.FileSystem, folder: str, file_format: str) -> list[fs.FileInfo]:
    """What lies below a folder; on a disk without what a link leads back to, which Arrow would list over and over.

    Raises OSError for a file of the format that cannot be named or found: passed over, its rows would be deleted.
    """
    if not isinstance(filesystem, fs.LocalFileSystem):
        return filesystem.get_file_info(fs.FileSelector(folder, recursive=True))
    paths: list[str] = []
    above = {folder: {os.path.realpath(folder)}}
    for path, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        places = above.pop(path)
        kept = [name for name in folders if not _is_left_out(name)]
        real = {name: os.path.realpath(_joined(path, name)) for name in kept}
        folders[:] = [name for name in kept if real[name] not in places]
        above |= {_joined(path, name): places | {real[name]} for name in folders}
        wanted = [name for name in names if not _is_left_out(name) and _has_suffix(name, file_format)]
        paths += [_joined(path, name) for name in wanted]
    for path in paths:
        if not _is_utf8(path):
            raise OSError(f"the name of {os.fsencode(path).decode('utf-8', 'replace')} is not UTF-8")
    return _refuse_gone(filesystem.get_file_info(paths))


def _refuse_gone(infos: list[fs.FileInfo]) -> list[fs.FileInfo]:
    gone = next((info.path for info in infos if info.type == fs.FileType.NotFound), None)
    if gone is not None:
        raise OSError(f"{gone} is not there, or a link to nothing")
    return infos


def _joined(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"  # as os.walk does


def _raise(error: OSError) -> None:
    raise error


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _hive_values(path: str) -> dict[str, str | None]:
    values: dict[str, str | None] = {}
    for part in PurePosixPath(path).parent.parts:
        key, separator, value = part.partition("=")
        if separator and key:
            values[unquote(key)] = None if value == _HIVE_NULL else unquote(value)
    return values
