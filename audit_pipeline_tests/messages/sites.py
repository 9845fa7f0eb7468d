"""Where the package makes the messages of bad settings and input, and which of these places were reached."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest

import audit_pipeline
from audit_pipeline.errors import AuditInputError

PACKAGE = Path(audit_pipeline.__file__).parent


@dataclass(frozen=True, order=True)
class Site:
    """One call that makes an error: its file, relative to the package's folder, and its first and last line."""

    file: str
    line: int
    last: int

    def __str__(self) -> str:
        return f"audit_pipeline/{self.file}:{self.line}"


@lru_cache(maxsize=1)
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}


@lru_cache(maxsize=1)
def every_site() -> frozenset[Site]:
    """Each call of AuditInputError and of its subclasses; of ValueError too in the modules of settings."""
    trees = _trees()
    names = {"AuditInputError"}
    before = 0
    while len(names) > before:
        before = len(names)
        names |= {
            node.name
            for tree in trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and any(isinstance(b, ast.Name) and b.id in names for b in node.bases)
        }
    sites = set()
    for path, tree in trees.items():
        makers = names | {"ValueError"} if _is_of_settings(path) else names
        file = path.relative_to(PACKAGE).as_posix()
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in makers:
                sites.add(Site(file, node.lineno, node.end_lineno or node.lineno))
    return frozenset(sites)


def _is_of_settings(path: Path) -> bool:
    of_settings = path.stem in ("config", "settings_base") or path.stem.endswith("_settings")
    return of_settings and path.parent == PACKAGE


def modules_of_settings() -> list[str]:
    """The modules of the package that define settings, and so hold their validators."""
    paths = [path.relative_to(PACKAGE) for path in _trees() if _is_of_settings(path)]
    return [".".join(("audit_pipeline", *path.with_suffix("").parts)) for path in paths]


@contextmanager
def recording() -> Iterator[set[tuple[str, int]]]:
    """The (file, line) of every call that makes such an error within the block, as it is made."""
    reached: set[tuple[str, int]] = set()

    def note() -> None:
        frame = sys._getframe(2)
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            reached.add((path.relative_to(PACKAGE).as_posix(), frame.f_lineno))

    def made(self: AuditInputError, *args: object) -> None:
        note()
        Exception.__init__(self, *args)

    class NotedValueError(ValueError):
        def __init__(self, *args: object) -> None:
            note()
            super().__init__(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AuditInputError, "__init__", made)
        for name in modules_of_settings():
            patch.setattr(importlib.import_module(name), "ValueError", NotedValueError, raising=False)
        yield reached


def unreached(reached: set[tuple[str, int]]) -> list[Site]:
    """The sites that none of the (file, line) lies in, sorted."""
    return sorted(
        site
        for site in every_site()
        if not any(file == site.file and site.line <= line <= site.last for file, line in reached)
    )
