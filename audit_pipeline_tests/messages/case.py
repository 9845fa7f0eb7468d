"""One message and what a user does to meet it. The tables of them stand in the modules of_*.py beside this one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from audit_pipeline.settings_file import load_settings

VARIES = "…"


@dataclass(frozen=True)
class World:
    """An empty folder for a case to write into, and a patch that is undone after it."""

    folder: Path
    patch: pytest.MonkeyPatch

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    def write_jsonl(self, name: str, *rows: Any) -> Path:
        return self.write(name, "".join(json.dumps(row) + "\n" for row in rows))


@dataclass(frozen=True)
class Case:
    """What causes a message, and the whole of it: FOLDER stands for the world's folder, … for a part that varies."""

    id: str
    cause: Callable[[World], object]
    sentence: str

    def fits(self, message: str, folder: Path) -> bool:
        expected = re.escape(self.sentence.replace("FOLDER", str(folder)))
        return re.fullmatch(expected.replace(re.escape(VARIES), ".+"), message) is not None


def settings_file(text: str | bytes) -> Callable[[World], object]:
    """The cause that is a settings file of this content."""
    return lambda world: load_settings(world.write("defs.yaml", text))
