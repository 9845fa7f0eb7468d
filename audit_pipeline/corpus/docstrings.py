"""Docstrings of an installed distribution as RAW rows, by parsing alone: nothing of it is imported."""

from __future__ import annotations

import ast
import datetime as dt
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa

from audit_pipeline.corpus.columns import RAW
from audit_pipeline.corpus.dates import UTC
from audit_pipeline.corpus.reasons import INVALID_UTF8, UNPARSABLE_MODULE
from audit_pipeline.errors import AuditInputError
from audit_pipeline.source_settings import SourceSettings
from audit_pipeline.spelling import did_you_mean

_TEST_FOLDERS = frozenset(("test", "tests"))


@dataclass(frozen=True)
class Module:
    """One Python file of a distribution: dotted name and where it is."""

    name: str
    path: Path
    origin: str


def find_modules(entry: SourceSettings) -> list[Module]:
    """Modules of the distribution ``entry.uri`` under ``entry.packages``, sorted by name.

    Without ``packages`` these are all but its tests. Raises AuditInputError for a distribution that is not installed
    or has no such package.
    """
    where = f"source {entry.name!r}"
    try:
        distribution = metadata.distribution(entry.uri)
    except (metadata.PackageNotFoundError, ValueError) as error:
        names = sorted({str(one.metadata["Name"]) for one in metadata.distributions() if one.metadata["Name"]})
        hint = did_you_mean(entry.uri, names)
        raise AuditInputError(
            f"{where}: no distribution {entry.uri!r} is installed{hint}: install it, or correct the uri"
        ) from error
    modules = []
    for file in distribution.files or []:
        parts = file.parts
        if file.suffix != ".py" or parts[0].startswith(("..", "/")) or not all(_is_name(part) for part in parts[:-1]):
            continue
        names = [*parts[:-1], file.stem] if file.stem != "__init__" else list(parts[:-1])
        name = ".".join(names)
        path = Path(str(distribution.locate_file(file)))
        if name and path.is_file() and _wanted(name, entry.packages):
            modules.append(Module(name, path, file.as_posix()))
    if not modules:
        what = f"package {', '.join(entry.packages)}" if entry.packages else "Python module"
        tops = sorted(
            {file.parts[0] for file in distribution.files or [] if file.suffix == ".py" and len(file.parts) > 1}
        )
        raise AuditInputError(
            f"{where}: distribution {entry.uri!r} has no {what}; it holds {', '.join(tops) or 'nothing to parse'}: "
            "correct 'packages' or the uri"
        )
    return sorted(modules, key=lambda module: module.name)


def read_docstrings(entry: SourceSettings, zone: ZoneInfo = UTC) -> Iterator[pa.Table]:
    """RAW tables of the distribution's docstrings, one a module, in the order of module names and lines.

    ``chunk_id`` is ``<source>:<module>.<qualname>``, ``<source>:<module>`` for a module's own docstring; where a name
    repeats (overloads, branches), the second gets ``#2`` and so on. ``doc_id`` is the module, ``heading`` the qualified
    name (the module's name for its own), ``position`` counts within the module. A module that does not parse is one
    row with the problem ``unparsable_module``.
    """
    occurrences: dict[str, int] = {}
    for module in find_modules(entry):
        date = entry.ingestion_date or dt.datetime.fromtimestamp(module.path.stat().st_mtime, zone).date()
        records: list[dict[str, object]] = []
        problem = detail = None
        found: list[tuple[str | None, str]] = []
        try:
            found = list(docstrings_of(module.path.read_bytes()))
        except (SyntaxError, ValueError, RecursionError) as error:
            problem, detail = UNPARSABLE_MODULE, f"not parsed: {type(error).__name__}"
            found = [(None, "")]
        for position, (qualname, text) in enumerate(found):
            base = f"{entry.name}:{module.name}" + (f".{qualname}" if qualname else "")
            occurrences[base] = occurrences.get(base, 0) + 1
            count = occurrences[base]
            encoded = text.encode("utf-8", "surrogatepass")
            valid = encoded.decode("utf-8", "replace")
            records.append(
                {
                    "row": position,
                    "origin": module.origin,
                    "chunk_id": base if count == 1 else f"{base}#{count}",
                    "text": valid,
                    "source": entry.name,
                    "ingestion_date": date,
                    "doc_id": module.name,
                    "heading": qualname or module.name,
                    "position": position,
                    "problem": problem or (None if valid == text else INVALID_UTF8),
                    "detail": detail or (None if valid == text else "the docstring holds a lone surrogate"),
                }
            )
        yield pa.Table.from_pylist(records, schema=RAW)


def docstrings_of(source: bytes) -> Iterator[tuple[str | None, str]]:
    """(qualified name, cleaned docstring) of a module's source in order of lines; None names the module itself.

    Raises SyntaxError or ValueError for what does not parse.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in other people's code
        tree = ast.parse(source)
    text = ast.get_docstring(tree)
    if text is not None:
        yield None, text
    yield from _walk(tree, "")


def _walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = prefix + child.name
            text = ast.get_docstring(child)
            if text is not None:
                yield name, text
            yield from _walk(child, f"{name}." if isinstance(child, ast.ClassDef) else f"{name}.<locals>.")
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _walk(child, prefix)


def _is_name(part: str) -> bool:
    return part.isidentifier()


def _wanted(module: str, packages: list[str]) -> bool:
    if packages:
        return any(module == package or module.startswith(f"{package}.") for package in packages)
    parts = module.split(".")
    return not (
        _TEST_FOLDERS.intersection(parts) or any(part == "conftest" or part.startswith("test_") for part in parts)
    )
