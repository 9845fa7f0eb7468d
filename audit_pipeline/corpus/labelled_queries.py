"""Queries with relevance judgements, from the team's files or from docstrings. Running them is in retrieval."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.see_also import SeeAlso
from audit_pipeline.corpus.text import is_blank, normalise, refuse_lone_surrogates
from audit_pipeline.errors import AuditInputError

QUERIES = pa.schema([pa.field("query_id", pa.string(), nullable=False), pa.field("text", pa.string(), nullable=False)])
JUDGEMENTS = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("relevance", pa.int32(), nullable=False),
    ]
)

INVALID = {
    "bad_score": "the score is no number",
    "contained_nowhere": "no chunk contains the passage",
    "empty_query": "the query is empty",
    "no_relevant_chunk": "the query is left without a relevant chunk",
    "repeated_query": "the query's id stands there already",
    "unknown_chunk": "the chunk is not in the corpus",
    "unknown_document": "the document is not in the corpus",
    "unknown_query": "the query of the judgement is not in labels.queries",
}
"""Why a query or a judgement is left out and counted, and how that is told."""


@dataclass(frozen=True)
class LabelledQueries:
    """``queries`` (query_id, text) sorted by id, each with a relevant judgement; ``qrels`` (query_id, chunk_id,
    relevance; relevant where over 0) sorted; ``invalid`` counts what was left out, by reason.
    """

    queries: pa.Table
    qrels: pa.Table
    invalid: dict[str, int]


def read_labelled_queries(queries: Path, qrels: Path | None, chunks: pa.Table) -> LabelledQueries:
    """Queries and judgements from BEIR files (``qrels`` given), or from one jsonl of query with any of chunk_id,
    doc_id and contains.

    ``chunks`` are the corpus (chunk_id, doc_id, text). In the single file chunk_id and doc_id may be lists, and a
    query may have an ``_id``; without one it is named by a hash of its text, and lines of one text count together. A
    judgement that points at no chunk is counted in ``invalid`` by a reason of ``INVALID`` and not used; a query left
    without a relevant chunk is dropped. Raises AuditInputError for files that cannot be read.
    """
    return _from_beir(queries, qrels, chunks) if qrels is not None else _from_jsonl(queries, chunks)


def from_see_also(found: SeeAlso) -> LabelledQueries:
    """The See Also descriptions of docstrings sources as queries; see ``see_also_queries``. Each has one answer."""
    texts = dict(zip(found.queries["query_id"].to_pylist(), found.queries["query"].to_pylist(), strict=True))
    answers = zip(found.queries["query_id"].to_pylist(), found.queries["chunk_id"].to_pylist(), strict=True)
    return _assemble(texts, dict.fromkeys(answers, 1), Counter())


def _from_beir(queries: Path, qrels: Path, chunks: pa.Table) -> LabelledQueries:
    invalid: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for line, record in _records(queries):
        query_id, text = record.get("_id"), record.get("text")
        if query_id is None or not isinstance(text, str):
            raise AuditInputError(f"{queries}: line {line} lacks '_id' or 'text': write both into each BEIR query")
        _add_query(texts, str(query_id), text, invalid)
    known = set(chunks["chunk_id"].to_pylist())
    judged: dict[tuple[str, str], int] = {}
    for query_id, chunk_id, score in _judgements(qrels):
        try:
            relevance = math.ceil(float(score))  # half a point is relevant as well
        except (ValueError, OverflowError):
            invalid["bad_score"] += 1
            continue
        if query_id not in texts:
            invalid["unknown_query"] += 1
        elif chunk_id not in known:
            invalid["unknown_chunk"] += 1
        else:
            judged[(query_id, chunk_id)] = max(relevance, judged.get((query_id, chunk_id), relevance))
    return _assemble(texts, judged, invalid)


def _from_jsonl(queries: Path, chunks: pa.Table) -> LabelledQueries:
    invalid: Counter[str] = Counter()
    texts: dict[str, str] = {}
    judged: dict[tuple[str, str], int] = {}
    ids = chunks["chunk_id"].to_pylist()
    known = set(ids)
    of_document: dict[str, list[str]] = {}
    for chunk_id, doc_id in zip(ids, chunks["doc_id"].to_pylist(), strict=True):
        if doc_id is not None:
            of_document.setdefault(doc_id, []).append(chunk_id)
    for line, record in _records(queries):
        text = record.get("query")
        given = [key for key in ("chunk_id", "doc_id", "contains") if record.get(key) is not None]
        if not isinstance(text, str) or not given:
            raise AuditInputError(
                f"{queries}: line {line} lacks 'query', or all of 'chunk_id', 'doc_id' and 'contains': add them, "
                "or name the judgements of BEIR queries under labels.qrels"
            )
        # Named by its text, so that the same query has the same name in every file, wherever it stands.
        query_id = str(record.get("_id", _name_of(text)))
        judged_before = "_id" not in record and query_id in texts
        if not judged_before and not _add_query(texts, query_id, text, invalid):
            continue
        for value in _listed(record.get("chunk_id")):
            if value in known:
                judged[(query_id, value)] = 1
            else:
                invalid["unknown_chunk"] += 1
        for value in _listed(record.get("doc_id")):
            judged |= {(query_id, chunk_id): 1 for chunk_id in of_document.get(value, [])}
            invalid["unknown_document"] += value not in of_document
        for value in _listed(record.get("contains")):
            holders = _holders(value, chunks)
            judged |= {(query_id, chunk_id): 1 for chunk_id in holders}
            invalid["contained_nowhere"] += not holders
    return _assemble(texts, judged, invalid)


def _name_of(text: str) -> str:
    return f"query {hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _add_query(texts: dict[str, str], query_id: str, text: str, invalid: Counter[str]) -> bool:
    if is_blank(pa.array([text]))[0].as_py():
        invalid["empty_query"] += 1
        return False
    if query_id in texts:
        invalid["repeated_query"] += 1
        return False
    texts[query_id] = text
    return True


def _assemble(texts: dict[str, str], judged: dict[tuple[str, str], int], invalid: Counter[str]) -> LabelledQueries:
    answered = {query_id for (query_id, _), relevance in judged.items() if relevance > 0}
    invalid["no_relevant_chunk"] += len(texts.keys() - answered)
    queries = [{"query_id": query_id, "text": texts[query_id]} for query_id in sorted(answered)]
    qrels = [
        {"query_id": query_id, "chunk_id": chunk_id, "relevance": relevance}
        for (query_id, chunk_id), relevance in sorted(judged.items())
        if query_id in answered
    ]
    return LabelledQueries(
        pa.Table.from_pylist(queries, schema=QUERIES),
        pa.Table.from_pylist(qrels, schema=JUDGEMENTS),
        {reason: count for reason, count in sorted(invalid.items()) if count},
    )


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise AuditInputError(f"{path}: the queries cannot be read ({_why(error)}): check labels.queries") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise AuditInputError(f"{path}: line {number} is not JSON ({error}): write one object a line") from error
        if not isinstance(record, dict):
            raise AuditInputError(f"{path}: line {number} is not a JSON object: write one object a line")
        refuse_lone_surrogates(record, f"{path}: line {number}")
        yield number, record


def _judgements(path: Path) -> Iterator[tuple[str, str, str]]:
    """(query id, chunk id, score) of a BEIR tsv; its header is recognised by a score that is no number."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            rows = list(csv.reader(handle, delimiter="\t", quoting=csv.QUOTE_NONE))
    except (OSError, UnicodeDecodeError) as error:
        raise AuditInputError(f"{path}: the judgements cannot be read ({_why(error)}): check labels.qrels") from error
    for number, row in enumerate(rows, start=1):
        if not row:
            continue
        if len(row) != 3:
            raise AuditInputError(
                f"{path}: line {number} has {len(row)} columns: write query-id, corpus-id and score divided by tabs"
            )
        if number == 1 and row[2].strip().lower() in ("score", "relevance", "label"):
            continue
        yield row[0].strip(), row[1].strip(), row[2]


def _why(error: OSError | UnicodeDecodeError) -> str:
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror or type(error).__name__


def _holders(passage: str, chunks: pa.Table) -> list[str]:
    """Ids of the chunks whose text holds the passage, both in normal form."""
    wanted = normalise(passage)
    if not wanted:
        return []
    # The rarest-looking word narrows the corpus down in Arrow; only what is left is normalised one by one.
    longest = max(wanted.split(), key=len)
    maybe = (
        chunks.filter(pc.match_substring(chunks["text"], longest, ignore_case=True)) if longest.isascii() else chunks
    )
    pairs = zip(maybe["chunk_id"].to_pylist(), maybe["text"].to_pylist(), strict=True)
    return [chunk_id for chunk_id, text in pairs if wanted in normalise(text)]


def _listed(value: Any) -> list[str]:
    if value is None:
        return []
    return [_as_id(one) for one in value] if isinstance(value, list) else [_as_id(value)]


def _as_id(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
