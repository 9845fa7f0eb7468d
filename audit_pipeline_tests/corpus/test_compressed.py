"""Compressed files of rows give what the plain ones give, and damaged ones are told."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from audit_pipeline.errors import AuditInputError
from audit_pipeline_tests.corpus.builders import store_of

ROWS = {
    "jsonl": (b'{"chunk_id": 1, "text": "one"}\n', b'{"chunk_id": 2, "text": "two"}\n'),
    "csv": (b"chunk_id,text\n1,one\n", b"2,two\n"),
}


def zstd(raw: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(raw)
    return sink.getvalue().to_pybytes()


COMPRESS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "zst": zstd}


def texts(folder: Path, file_format: str) -> list[str]:
    entry = {"name": "s", "uri": str(folder), "format": file_format, "ingestion_date": "2026-01-02"}
    return store_of(entry).read_all().chunks["text"].to_pylist()


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("file_format", ROWS)
def test_a_compressed_file_gives_the_rows_of_the_plain_one(tmp_path: Path, file_format: str, suffix: str) -> None:
    first, second = ROWS[file_format]
    compress = COMPRESS[suffix]
    # Parts that were compressed by themselves and put together are one file to the tools that write them.
    (tmp_path / f"rows.{file_format}.{suffix}").write_bytes(compress(first) + compress(second))
    (tmp_path / f"empty.{file_format}.{suffix}").write_bytes(compress(b""))
    assert texts(tmp_path, file_format) == ["one", "two"]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_the_suffix_may_be_in_upper_case(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"ROWS.CSV.{suffix.upper()}").write_bytes(COMPRESS[suffix](b"".join(ROWS["csv"])))
    assert texts(tmp_path, "csv") == ["one", "two"]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_file_that_breaks_off_is_refused_and_not_read_in_part(tmp_path: Path, suffix: str) -> None:
    whole = COMPRESS[suffix](b"".join(b'{"chunk_id": %d, "text": "t%d"}\n' % (i, i * i) for i in range(20_000)))
    (tmp_path / f"rows.jsonl.{suffix}").write_bytes(whole[:-4])
    with pytest.raises(AuditInputError, match=r"cannot be read as jsonl \(Truncated compressed stream\)"):
        texts(tmp_path, "jsonl")
