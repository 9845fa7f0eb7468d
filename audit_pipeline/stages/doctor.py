"""Whether what an audit needs is in order, and what to do where it is not. Of Dagster nothing is known here."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from audit_pipeline import schemas
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.errors import AuditInputError, reason_of
from audit_pipeline.plural import counted
from audit_pipeline.report.wording import visible
from audit_pipeline.settings_file import check_label_files
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline.uris import HIDDEN, without_credentials

State = Literal["ok", "warn", "fail", "not_measured"]
Check = Callable[[], "list[Line]"]

SECONDS = {"object store": 20.0, "table": 60.0, "model": 180.0, "labels": 120.0}
"""Longest wait for a check, others ``LONGEST_WAIT``."""
LONGEST_WAIT = 30.0
LEAST_FREE, LITTLE_FREE = 1 << 30, 5 << 30
"""Bytes of disk under which a run will fail, and under which it may."""

_COLUMNS_SHOWN = 12
_SECRET_NAME = re.compile(r"SECRET|TOKEN|PASSWORD|_KEY|CREDENTIAL", re.IGNORECASE)
_SHORTEST_SECRET = 6


@dataclass(frozen=True)
class Line:
    """What was looked at, how it stands, what was seen, and what to do where it is not in order."""

    what: str
    state: State
    seen: str
    to_do: str = ""


_WORD = {"ok": "OK", "warn": "WARN", "fail": "FAIL", "not_measured": "not measured"}


def line_text(line: Line) -> str:
    """A line as it is printed."""
    to_do = f"; to do: {line.to_do}" if line.to_do else ""
    return visible(f"{_WORD[line.state]:<12}  {line.what}: {line.seen}{to_do}")


def within(what: str, check: Check, hide: Callable[[str], str], seconds: float | None = None) -> list[Line]:
    """The lines of a check; one line that says so where it raises, or does not answer in time.

    It runs in a thread of its own that nobody waits for after that, so that a dead mount or store holds up nothing.
    """
    longest = SECONDS.get(what.split(" of ")[0], LONGEST_WAIT) if seconds is None else seconds
    found: list[list[Line]] = []

    def run() -> None:
        try:
            found.append(check())
        except AuditInputError as error:
            seen, _, to_do = str(error).rpartition(": ")
            found.append([Line(what, "fail", seen or str(error), to_do if seen else "")])
        except Exception as error:  # whatever a half broken installation raises is what is to be told
            told = f"{type(error).__name__}: {reason_of(error)}"
            found.append([Line(what, "fail", told, "mend what this names, or leave it out of the settings")])

    thread = threading.Thread(target=run, daemon=True, name=f"doctor: {what}")
    thread.start()
    thread.join(longest)
    lines = (
        found[0]
        if found
        else [
            Line(what, "fail", f"no answer within {longest:g} s", "look whether it is reachable, and run doctor again")
        ]
    )
    return [Line(line.what, line.state, hide(line.seen), hide(line.to_do)) for line in lines]


def hiding(indexes: list[IndexAuditSettings]) -> Callable[[str], str]:
    """A function that takes every secret known here out of a text: of URIs, of the settings and of the environment."""
    options = [settings.index.storage_options for settings in indexes]
    options += [source.storage_options for settings in indexes for source in settings.sources]
    secrets = {value for one in options for value in one.values()}
    secrets |= {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    secrets |= {os.environ.get(settings.encoder.api_key_env, "") for settings in indexes}
    secrets |= {os.environ.get(one.alerts.secret_env, "").strip() for one in indexes if one.alerts is not None}
    longest_first = sorted((one for one in secrets if len(one) >= _SHORTEST_SECRET), key=len, reverse=True)

    def hide(text: str) -> str:
        for secret in longest_first:
            text = text.replace(secret, HIDDEN)
        return without_credentials(text)

    return hide


def versions(constraints: Path) -> list[Line]:
    """The installed versions of what the project needs, against its requirements and its constraints."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    try:
        required = [Requirement(text) for text in importlib.metadata.requires("audit-pipeline") or []]
    except importlib.metadata.PackageNotFoundError:
        return [Line("versions", "not_measured", "audit-pipeline is not installed as a package", "pip install -e .")]
    required = [one for one in required if one.marker is None or one.marker.evaluate({"extra": ""})]
    installed: dict[str, str | None] = {}
    for one in required:
        try:
            installed[one.name] = importlib.metadata.version(one.name)
        except importlib.metadata.PackageNotFoundError:
            installed[one.name] = None
    unfit = [
        f"{one.name} {installed[one.name] or 'missing'} ({one.specifier or 'any version'})"
        for one in required
        if installed[one.name] is None or not one.specifier.contains(installed[one.name] or "", prereleases=True)
    ]
    if unfit:
        to_do = "install again: make install, or pip install --constraint constraints.txt ."
        return [Line("versions", "fail", f"not as required: {', '.join(unfit)}", to_do)]
    if not constraints.is_file():
        return [Line("versions", "ok", f"{len(required)} packages as required; no constraints.txt to compare with")]
    lines = (text.split("#")[0].strip() for text in constraints.read_text(encoding="utf-8").splitlines())
    tested = {canonicalize_name(one.name): one.specifier for one in map(Requirement, filter(None, lines))}
    others = [
        f"{one.name} {installed[one.name]} (tested with {str(tested[canonicalize_name(one.name)]).lstrip('=')})"
        for one in required
        if canonicalize_name(one.name) in tested
        and not tested[canonicalize_name(one.name)].contains(installed[one.name] or "", prereleases=True)
    ]
    if others:
        to_do = "pip install --constraint constraints.txt . brings the tested ones back"
        return [Line("versions", "warn", f"other than constraints.txt: {', '.join(others)}", to_do)]
    return [Line("versions", "ok", f"{len(required)} packages as in constraints.txt")]


def model(settings: IndexAuditSettings) -> list[Line]:
    """Whether the encoder works without a network: its files are here, they load, and they encode a word."""
    encoder = settings.encoder
    what = f"model of {settings.name}"
    if encoder.kind == "none":
        return [Line(what, "not_measured", "encoder.kind is none: nothing is encoded")]
    if encoder.kind == "openai_compatible":
        return [_server(what, settings)]
    from audit_pipeline.encoder.model_files import find_model
    from audit_pipeline.encoder.models import SentenceTransformerEncoder

    assert encoder.model is not None  # the settings refuse this kind without a model
    try:
        files = find_model(encoder.model, encoder.revision, offline=True)
    except AuditInputError as error:
        seen = f"{encoder.model} is not on this machine ({type(error.__cause__ or error).__name__})"
        at = f" --revision {encoder.revision}" if encoder.revision else ""
        to_do = f"hf download {encoder.model}{at} where there is a network, or name a folder that holds it"
        if encoder.model.startswith(("/", ".", "~")):  # a folder, of which no hub knows
            to_do = "correct encoder.model: name a folder that holds a model, or a model by its name"
        return [Line(what, "fail", seen, to_do)]
    loaded = SentenceTransformerEncoder(files, encoder)
    vector = loaded.encode(["word"])
    return [Line(what, "ok", f"{files.name} loads from {files.folder}, {vector.shape[1]} dimensions")]


def _server(what: str, settings: IndexAuditSettings) -> Line:
    """Whether a server listens at the address. Nothing is asked of it: a request may cost."""
    import socket
    from urllib.parse import urlsplit

    encoder = settings.encoder
    address = urlsplit(encoder.base_url or "")
    port = address.port or (443 if address.scheme == "https" else 80)
    try:
        socket.create_connection((address.hostname or "", port), timeout=5).close()
    except OSError as error:
        to_do = "start the server, or correct encoder.base_url"
        return Line(what, "fail", f"nothing answers at {address.hostname}:{port} ({reason_of(error)})", to_do)
    key = "set" if os.environ.get(encoder.api_key_env) else "not set"
    seen = f"{address.hostname}:{port} answers; nothing was sent; {encoder.api_key_env} is {key}"
    return Line(what, "ok", seen)


def table(settings: IndexAuditSettings, root: Path) -> list[Line]:
    """Whether the table under audit can be opened and a row of it read."""
    from audit_pipeline.index.connection import connect, holds_table, open_table
    from audit_pipeline.index.database import ALL_TABLES, tables_of_one_shape

    workspace = Workspace(settings, root)
    what, index = f"table of {settings.name}", settings.index
    uri = workspace.index_uri
    if index.managed and not holds_table(uri, index.table, index.storage_options):
        rows = sum(manifest.rows for manifest in workspace.manifests())
        if rows:
            seen = f"no table {index.table!r} in {uri}, though {rows:,} rows of batches were written to it"
            return [Line(what, "fail", seen, "audit-pipeline run writes them again from the sources")]
        return [Line(what, "warn", f"no table {index.table!r} in {uri} yet", "audit-pipeline run makes it")]
    connection = connect(uri, index.storage_options)
    names = tables_of_one_shape(connection)[0] if index.table == ALL_TABLES else [index.table]
    return [_opened(what, uri, open_table(connection, name), name, index.columns) for name in names]


def _opened(what: str, uri: str, opened: Any, name: str, named: dict[str, Any]) -> Line:
    rows, columns = opened.count_rows(), list(opened.schema.names)
    if rows:
        opened.head(1)  # the data files are there, and not only the manifest that counts their rows
    shown = ", ".join(columns[:_COLUMNS_SHOWN]) + (", ..." if len(columns) > _COLUMNS_SHOWN else "")
    seen = f"{name} in {uri}, version {opened.version}, {rows:,} rows, columns {shown}"
    paths = [path for path in named.values() if isinstance(path, str) and "[" not in path]
    lacking = sorted({re.split(r"[.$]", path)[0] for path in paths if path not in columns} - set(columns))
    if lacking:
        return Line(what, "fail", f"{seen}; no column {', '.join(lacking)}", "correct index.columns")
    if not rows:
        return Line(what, "warn", seen, "an audit of no rows measures nothing: fill the table")
    return Line(what, "ok", seen)


def object_store(settings: IndexAuditSettings) -> list[Line]:
    """Whether the store of the table answers, where it is one."""
    what, uri = f"object store of {settings.name}", settings.index.uri or ""
    if "://" not in uri:
        return [Line(what, "not_measured", "the table lies on a disk of this machine")]
    from audit_pipeline.index.connection import connect, listed

    names = listed(connect(uri, settings.index.storage_options))
    return [Line(what, "ok", f"{uri} answers, {len(names)} tables")]


def disk(root: Path) -> list[Line]:
    """Whether there is room where the state folder lies, or will."""
    there = next(path for path in (root, *root.parents) if path.exists())
    free = shutil.disk_usage(there).free
    seen = f"{free / (1 << 30):,.1f} GiB free at {there}"
    to_do = "make room, or choose another folder with --state: vectors, tables and Dagster's log grow there"
    if free < LEAST_FREE:
        return [Line("disk", "fail", seen, to_do)]
    return [Line("disk", "warn", seen, to_do)] if free < LITTLE_FREE else [Line("disk", "ok", seen)]


def labels(settings: IndexAuditSettings) -> list[Line]:
    """Whether every file of labels can be read. Which of them point at the corpus the audit counts."""
    from audit_pipeline.corpus.labelled_queries import read_labelled_queries
    from audit_pipeline.corpus.observed_queries import read_observed_queries
    from audit_pipeline.duplicates.labelled_pairs import read_labelled_pairs

    what, named = f"labels of {settings.name}", settings.labels
    check_label_files(settings)
    seen = []
    if named.queries:
        qrels = Path(named.qrels) if named.qrels else None
        read_labelled_queries(Path(named.queries), qrels, schemas.CHUNKS.empty_table())
        seen.append("queries")
    if named.pairs:
        seen.append(counted(read_labelled_pairs(Path(named.pairs)).num_rows, "pair"))
    if named.observed:
        read_observed_queries(Path(named.observed), 1, 0)
        seen.append("observed queries")
    if not seen:
        return [Line(what, "not_measured", "no file of labels is configured")]
    return [Line(what, "ok", f"read: {', '.join(seen)}; what of it is in the index, the audit tells (labels_invalid)")]
