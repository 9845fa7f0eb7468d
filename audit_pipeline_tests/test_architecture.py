"""The direction of imports, the weight of the definitions, and the names that must agree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "audit_pipeline"

# A room may import from the rooms named here, from itself, and from the top-level modules that belong to no room.
MAY_IMPORT = {
    "corpus": set(),
    "encoder": {"corpus"},
    "index": {"corpus"},
    "retrieval": {"corpus", "encoder", "index"},
    "duplicates": {"corpus", "encoder", "index"},
    "report": {"corpus", "encoder", "index", "retrieval", "duplicates"},
    "stages": {"corpus", "encoder", "index", "retrieval", "duplicates", "report"},
    "orchestration": {"corpus", "encoder", "index", "retrieval", "duplicates", "report", "stages"},
    "cli": {"duplicates", "report", "stages", "orchestration"},
}
HEAVY = (
    "torch",
    "daft",
    "lancedb",
    "lance",
    "sentence_transformers",
    "transformers",
    "datasketch",
    "altair",
    "vl_convert",
)


def imported_modules(path: Path) -> set[str]:
    """Every module that a file imports, at its top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def room_files() -> list[tuple[str, Path]]:
    return [(room, path) for room in MAY_IMPORT for path in sorted((PACKAGE / room).rglob("*.py"))]


@pytest.mark.parametrize(("room", "path"), room_files(), ids=lambda value: getattr(value, "stem", value))
def test_imports_between_rooms_point_one_way(room: str, path: Path) -> None:
    rooms = {
        name.split(".")[1] for name in imported_modules(path) if name.startswith("audit_pipeline.") and "." in name
    }
    rooms &= MAY_IMPORT.keys()
    assert rooms - {room} <= MAY_IMPORT[room]


@pytest.mark.parametrize(("room", "path"), room_files(), ids=lambda value: getattr(value, "stem", value))
def test_only_orchestration_knows_dagster(room: str, path: Path) -> None:
    knows_dagster = any(name.split(".")[0].startswith("dagster") for name in imported_modules(path))
    assert not knows_dagster or room == "orchestration"


def test_top_level_modules_import_no_room() -> None:
    entrances = {"definitions.py", "__init__.py"}
    for path in PACKAGE.glob("*.py"):
        rooms = {name.split(".")[1] for name in imported_modules(path) if name.startswith("audit_pipeline.")}
        assert path.name in entrances or not rooms & MAY_IMPORT.keys(), path.name


@pytest.mark.parametrize("module", ["audit_pipeline", "audit_pipeline.definitions"])
def test_loading_the_definitions_loads_no_heavy_library(module: str) -> None:
    code = (
        f"import sys, {module}\n"
        f"d = getattr({module}, 'defs', None)\n"
        "d and (d() if callable(d) else d)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert finished.stdout.strip().splitlines()[-1] == "[]"


def test_the_three_location_names_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    workspace = yaml.safe_load((ROOT / "workspace.yaml").read_text(encoding="utf-8"))
    dg_project = project["tool"]["dg"]["project"]
    entry = workspace["load_from"][0]["python_module"]
    names = {dg_project["code_location_name"], project["tool"]["dagster"]["code_location_name"], entry["location_name"]}
    assert names == {"audit_pipeline"}
    assert (
        entry["module_name"] == project["tool"]["dagster"]["module_name"] == f"{dg_project['root_module']}.definitions"
    )


def test_every_module_opens_with_one_line_that_says_what_belongs_there_and_what_does_not() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert docstring, path
        first = docstring.splitlines()[0].rstrip()
        assert first.endswith("."), path
        assert path.stem.startswith("__") or re.search(r"[.:;?] \S", first), path
