"""Real text at scale that every installation has: passages of its packages' docstrings, which are only parsed."""

from __future__ import annotations

import ast
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

LEAST, MOST = 80, 900  # characters of a passage


def installed_passages(count: int) -> pa.Table:
    """(text, source, doc_id, position) of the first ``count`` distinct passages, in the order of their files.

    ``source`` is the top package, ``doc_id`` the file, ``position`` the place of the passage in it. Raises
    RuntimeError where the installation holds fewer.
    """
    root = Path(sysconfig.get_paths()["purelib"])
    seen: set[str] = set()
    rows: dict[str, list] = {"text": [], "source": [], "doc_id": [], "position": []}
    for path in sorted(root.rglob("*.py")):
        position = 0
        for text in _passages(path):
            if text in seen:
                continue
            seen.add(text)
            relative = path.relative_to(root)
            rows["text"].append(text)
            rows["source"].append(relative.parts[0])
            rows["doc_id"].append(relative.as_posix())
            rows["position"].append(position)
            position += 1
            if len(seen) == count:
                return pa.table(rows)
    raise RuntimeError(f"this installation holds {len(seen)} passages, not {count}: ask for fewer rows")


def _passages(path: Path) -> Iterator[str]:
    """Paragraphs of a file's docstrings, short ones joined to the next until they are long enough."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            held = ""
            for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                held = f"{held}\n\n{paragraph}".strip()
                if len(held) >= LEAST:
                    yield held[:MOST]
                    held = ""
