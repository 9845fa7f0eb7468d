"""TREC run and qrels files of each retrieval run, for evaluators of other projects. No figure is computed here."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TAG = "audit-pipeline"
# Evaluators written in Python split at any Unicode white space; RE2's \s knows only ASCII, so the rest is listed.
_UNSAFE = r"[%\"\s\x00-\x1f\x7f\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"


def write_trec(folder: Path, retrieved: pa.Table, qrels: pa.Table) -> list[Path]:
    """Writes <run>.run and <run>.qrels for every run in ``qrels`` and returns their paths.

    Evaluators sort by score and ignore the rank column, and some hold scores in single precision, so the score here
    is the number of rows from this one to the last of its query: it orders exactly as ``rank`` does. The exact scores
    stand in tables/retrieved.parquet. Ids are those of ``safe_ids``: the format splits at spaces.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for run in sorted(pc.unique(qrels["run"]).to_pylist()):
        judged = qrels.filter(pc.equal(qrels["run"], run)).sort_by(
            [("query_id", "ascending"), ("chunk_id", "ascending")]
        )
        rows = retrieved.filter(pc.equal(retrieved["run"], run)).sort_by(
            [("query_id", "ascending"), ("rank", "ascending")]
        )
        written += [folder / f"{run}.qrels", folder / f"{run}.run"]
        _write_lines(
            written[-2], [safe_ids(judged["query_id"]), "0", safe_ids(judged["chunk_id"]), judged["relevance"]]
        )
        columns = [
            safe_ids(rows["query_id"]),
            "Q0",
            safe_ids(rows["chunk_id"]),
            rows["rank"],
            pa.array(_scores(rows)),
            TAG,
        ]
        _write_lines(written[-1], columns)
    return written


def _scores(rows: pa.Table) -> np.ndarray:
    """(n,) int64: rows left in the query including this one, for rows sorted by query and rank."""
    if rows.num_rows == 0:
        return np.zeros(0, dtype=np.int64)
    codes = rows["query_id"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    lengths = np.diff(np.r_[starts, len(codes)])
    return np.repeat(starts + lengths, lengths) - np.arange(len(codes))


def safe_ids(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """The ids with '%', '"', white space and control characters percent-encoded, so that no two become one.

    An empty id, which would take a column from its line, becomes a '%' alone, as no other id can.
    """
    if not pc.any(pc.or_(pc.match_substring_regex(ids, _UNSAFE), pc.equal(ids, ""))).as_py():
        return ids
    unsafe = re.compile(r"[%\"\s\x00-\x1f\x7f]")
    return pa.chunked_array([[unsafe.sub(_percent, text) or "%" for text in ids.to_pylist()]], type=pa.string())


def original_id(safe: str) -> str:
    """The id that safe_ids wrote so."""
    return "" if safe == "%" else unquote(safe) if "%" in safe else safe


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode())


def _write_lines(path: Path, columns: list[pa.ChunkedArray | pa.Array | str]) -> None:
    texts = [column if isinstance(column, str) else pc.cast(column, pa.string()) for column in columns]
    lines = pc.binary_join_element_wise(*texts, " ")
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines.to_pylist())
