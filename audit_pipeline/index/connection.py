"""Opening LanceDB databases and tables without side effects. What is read or written there belongs to the others."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Any

from audit_pipeline.corpus.lance_tables import table_names
from audit_pipeline.errors import AuditInputError
from audit_pipeline.uris import without_credentials


def connect(
    uri: str, storage_options: dict[str, str] | None = None, *, create: bool = False, session: Any | None = None
) -> Any:
    """A LanceDB connection. Raises AuditInputError where a local folder does not exist (connecting would create it).

    ``session`` keeps what is known of the files of its tables from one connection to the next.
    """
    # Only silences a notice of each index_stats call; read by LanceDB, it changes no result.
    os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")
    import lancedb

    if not create and "://" not in uri and not Path(uri).is_dir():
        raise AuditInputError(f"index.uri: there is no folder {uri}: name the folder that holds the LanceDB tables")
    try:
        return lancedb.connect(uri, storage_options=storage_options or None, session=session)
    except (OSError, RuntimeError, ValueError) as error:
        raise AuditInputError(f"index.uri: {uri} cannot be opened ({store_reason(error)}): {_to_check(uri)}") from error


def holds_table(uri: str, name: str, storage_options: dict[str, str] | None = None) -> bool:
    """Whether the database exists and has the table. Raises AuditInputError as open_table does."""
    if "://" not in uri and not Path(uri).is_dir():
        return False
    return find_table(connect(uri, storage_options), name) is not None


def find_table(database: Any, name: str) -> Any | None:
    """A table by name, None where there is none; a process that died while it created the table leaves none either.

    Such a process leaves the table's folder without any version: it is listed, and cannot be opened.
    """
    if name not in listed(database):
        return None
    try:
        return database.open_table(name)
    except (OSError, RuntimeError, ValueError) as error:
        if str(error).strip() == f"Table '{name}' was not found":
            return None
        raise _not_opened(database, name, error) from error


def open_table(database: Any, name: str) -> Any:
    """A table by name. Raises AuditInputError that lists the tables there are."""
    names = listed(database)
    if name not in names:
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise AuditInputError(
            f"index.table: no table {name!r} in {database.uri}; {hint}"
            f"tables are {', '.join(names) or '(none)'}: correct index.table or index.uri"
        )
    try:
        return database.open_table(name)
    except (OSError, RuntimeError, ValueError) as error:
        raise _not_opened(database, name, error) from error


def listed(database: Any) -> list[str]:
    """All table names of a database, sorted. Raises AuditInputError where it cannot be read."""
    try:
        return table_names(database)
    except (OSError, RuntimeError, ValueError) as error:
        raise AuditInputError(
            f"index.uri: {database.uri} cannot be listed ({store_reason(error)}): {_to_check(database.uri)}"
        ) from error


def _not_opened(database: Any, name: str, error: Exception) -> AuditInputError:
    return AuditInputError(
        f"index.table: {name!r} in {database.uri} cannot be opened ({first_line(error)}): "
        "check that it is a whole LanceDB table"
    )


_REASONS = {  # what stands in the store's error, the first that does: what it means
    "no credentials were found": r"169\.254\.169\.254|metadata\.google|CredentialsNotLoaded|TokenRequest",
    "the credentials are refused": r"InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|status: 40[13]|Unauthorized",
    "there is no such bucket": r"NoSuchBucket|status: 404",
    "nothing answers at its endpoint": r"kind: Connect|ConnectError|dns error",
}


def store_reason(error: BaseException) -> str:
    """Why an object store could not be read, in words where they are known: its own error is a page of Rust."""
    text = str(error)
    return next((words for words, sign in _REASONS.items() if re.search(sign, text)), first_line(error))


def _to_check(uri: str) -> str:
    if "://" not in uri:
        return "check index.uri"
    return "check index.uri, the credentials in the environment or index.storage_options, and the network"


def sql_string(value: str) -> str:
    """A string literal for a SQL filter."""
    return "'" + value.replace("'", "''") + "'"


def first_line(error: BaseException) -> str:
    """The first line of an error's message, short enough for one sentence."""
    lines = str(error).strip().splitlines()
    return without_credentials(lines[0] if lines else type(error).__name__)[:200]
