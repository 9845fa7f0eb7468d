"""Queries that authors wrote themselves: the "See Also" entries of numpydoc docstrings. Running them is elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.text import normalise, words

SEE_ALSO = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("query", pa.string(), nullable=False),
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("equal_to_first_line", pa.bool_(), nullable=False),
    ]
)

_RULE = re.compile(r"^\s*[-=]{3,}\s*$")
_NAME = r":?(?:\w+:)*`?~?[A-Za-z_][\w.]*`?(?:\(\))?"
_ENTRY = re.compile(rf"^(?P<names>{_NAME}(?:\s*,\s*{_NAME})*)\s*(?::(?:\s+(?P<text>.*))?)?$")
_LEAST_WORDS = 2  # "Alias." describes nothing


@dataclass(frozen=True)
class SeeAlso:
    """``queries`` as SEE_ALSO sorted by query_id, and what became of the names with a description.

    ``found`` counts them; ``unresolved`` name nothing in the corpus, ``ambiguous`` several things, ``repeated`` give a
    query and target that another entry gave. ``equal_to_first_line`` of the queries kept are the target's own first
    line word for word: easy ones.
    """

    queries: pa.Table
    found: int
    unresolved: int
    ambiguous: int
    repeated: int
    equal_to_first_line: int


def see_also_queries(chunks: pa.Table) -> SeeAlso:
    """Query = description, target = the chunk of the name described, from chunks of docstrings sources.

    Rows whose chunk_id is not ``<source>:<doc_id>.<heading>`` are left aside. A name is sought in its own source, from
    the nearest scope outwards: beside the describing item in its class, in its module, as a fully qualified name,
    then by qualified name anywhere in the source (``DataFrame.merge``, ``pandas.DataFrame.merge``).
    """
    ids = pc.binary_join_element_wise(chunks["source"], ":", chunks["doc_id"], ".", chunks["heading"], "")
    own = pc.binary_join_element_wise(chunks["source"], ":", chunks["doc_id"], "")
    is_docstring = pc.or_kleene(pc.equal(ids, chunks["chunk_id"]), pc.equal(own, chunks["chunk_id"]))
    rows = chunks.filter(pc.fill_null(is_docstring, False)).sort_by("chunk_id")
    names = _Names(rows)
    text_of = dict(zip(rows["chunk_id"].to_pylist(), rows["text"].to_pylist(), strict=True))
    describing = rows.filter(pc.match_substring(rows["text"], "See Also"))
    found = unresolved = ambiguous = repeated = 0
    kept: dict[str, set[str]] = {}
    for row in describing.select(["source", "doc_id", "heading", "text"]).to_pylist():
        for name, description in entries(row["text"]):
            found += 1
            targets = names.resolve(name, row["source"], row["doc_id"], row["heading"])
            if not targets:
                unresolved += 1
            elif len(targets) > 1:
                ambiguous += 1
            elif description in kept.setdefault(targets[0], set()):
                repeated += 1
            else:
                kept[targets[0]].add(description)
    records = [
        {
            "query_id": f"see_also:{target}#{number}",
            "query": description,
            "chunk_id": target,
            "equal_to_first_line": _bare(description) == _bare(text_of[target].partition("\n")[0]),
        }
        for target in sorted(kept)
        for number, description in enumerate(sorted(kept[target]), start=1)
    ]
    queries = pa.Table.from_pylist(records, schema=SEE_ALSO).sort_by("query_id")
    easy = sum(bool(record["equal_to_first_line"]) for record in records)
    return SeeAlso(queries, found, unresolved, ambiguous, repeated, easy)


def entries(docstring: str) -> Iterator[tuple[str, str]]:
    """(name, description) of each described name of the See Also section; continuation lines are joined."""
    names: list[str] = []
    parts: list[str] = []
    for line in [*_section(docstring.splitlines()), ""]:
        if line[:1].isspace() and names:
            parts.append(line.strip())
            continue
        description = " ".join(part for part in parts if part)
        if len(words(description)) >= _LEAST_WORDS:
            yield from ((name, description) for name in names)
        match = _ENTRY.match(line.strip()) if line.strip() else None
        names = [_clean(name) for name in match["names"].split(",")] if match else []
        parts = [(match["text"] or "").strip()] if match else []


def _section(lines: list[str]) -> list[str]:
    for number in range(len(lines) - 1):
        if lines[number].strip() == "See Also" and _RULE.match(lines[number + 1]):
            body = lines[number + 2 :]
            ends = [i for i in range(len(body) - 1) if body[i].strip() and _RULE.match(body[i + 1])]
            body = body[: ends[0]] if ends else body
            depth = min((len(line) - len(line.lstrip()) for line in body if line.strip()), default=0)
            return [line[depth:] for line in body if line.strip()]
    return []


def _clean(name: str) -> str:
    bare = name.strip().removesuffix("()").strip("`")
    return bare.rpartition("`")[2].lstrip("~") if "`" in bare else bare.lstrip(":~")


def _bare(line: str) -> str:
    return normalise(line).rstrip(".")


class _Names:
    """What the qualified names of a corpus of docstrings stand for."""

    def __init__(self, rows: pa.Table) -> None:
        self._full: dict[tuple[str, str], str] = {}
        self._qualified: dict[tuple[str, str], list[str]] = {}
        self._tops: dict[str, set[str]] = {}
        for row in rows.select(["chunk_id", "source", "doc_id", "heading"]).to_pylist():
            source, module, heading = row["source"], row["doc_id"], row["heading"]
            self._tops.setdefault(source, set()).update(module.split(".")[:2])
            full = module if heading == module else f"{module}.{heading}"
            self._full[(source, full)] = row["chunk_id"]
            if heading != module:
                self._qualified.setdefault((source, heading), []).append(row["chunk_id"])

    def resolve(self, name: str, source: str, module: str, heading: str) -> list[str]:
        """Chunk ids the name may mean, one where it is clear, none where the corpus has no such name."""
        scopes = [] if heading == module else heading.split(".")[:-1]
        for depth in range(len(scopes), -1, -1):
            full = ".".join([module, *scopes[:depth], name])
            if (source, full) in self._full:
                return [self._full[(source, full)]]
        if (source, name) in self._full:
            return [self._full[(source, name)]]
        parts = name.split(".")
        # A prefix may be left off only where it is the package's own or one inside it: numpy.mean is nothing in pandas.
        last = len(parts) if parts[0] in self._tops.get(source, ()) else 1
        for start in range(last):
            found = self._qualified.get((source, ".".join(parts[start:])))
            if found:
                return found
        return []
