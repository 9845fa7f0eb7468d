from __future__ import annotations

import numpy as np
import pyarrow as pa

from audit_pipeline.findings import Finding
from audit_pipeline.index.truncation import ReadLimit, truncation_findings

BATCHES = ("2026-01-02|a", "2026-01-03|a", "2026-01-02|b", "2026-01-03|b")
TOKENS = ReadLimit(256, "tokens", "the 256 tokens the encoder reads")


def lengths(long_rows: tuple[int, ...], per_cell: int = 20, length: int = 300) -> pa.Table:
    """Four cells of rows of 100 tokens, of which some are longer; a word is two tokens."""
    tokens = np.full((4, per_cell), 100, dtype=np.int32)
    for cell, count in enumerate(long_rows):
        tokens[cell, :count] = length
    batches = np.repeat(BATCHES, per_cell)
    return pa.table(
        {
            "chunk_id": [f"{batch}-{i % per_cell:02}" for i, batch in enumerate(batches)],
            "source": [batch[-1] for batch in batches],
            "batch": batches,
            "n_tokens": pa.array(tokens.ravel()),
            "n_words": pa.array(tokens.ravel() // 2),
        }
    )


def told(table: pa.Table, limit: ReadLimit = TOKENS) -> list[Finding]:
    return truncation_findings(table, limit, 0.25)


def test_cells_of_twenty_rows_with_more_than_a_quarter_cut_are_told() -> None:
    (finding,) = told(lengths((6, 5, 0, 0)))  # 5 of 20 are a quarter, not more
    assert finding.scope == {"source": "a", "ingestion_date": "2026-01-02"}
    assert (finding.share, finding.n_compared, finding.severity) == (0.3, 20, "warning")
    assert finding.examples == [f"2026-01-02|a-0{i}" for i in range(5)]
    assert "6 of 20 rows are longer than the 256 tokens the encoder reads" in finding.message
    assert told(lengths((6, 5, 0, 0), per_cell=19)) == []


def test_where_every_cell_is_small_the_corpus_is_counted_as_one() -> None:
    assert told(lengths((19, 0, 0, 0), per_cell=19)) == []  # 19 of 76 are a quarter, not more
    (finding,) = told(lengths((19, 1, 0, 0), per_cell=19))
    assert (finding.scope, finding.share, finding.n_compared) == ({}, 20 / 76, 76)
    assert told(lengths((4, 4, 4, 4), per_cell=4)) == []  # 16 rows are too few, all together


def test_cut_cells_are_merged_to_their_source() -> None:
    (finding,) = told(lengths((10, 10, 0, 0)))
    assert (finding.scope, finding.share, finding.n_compared) == ({"source": "a"}, 0.5, 40)


def test_where_only_words_are_known_words_are_counted() -> None:
    words = ReadLimit(150, "words", "about the first 150 words that the encoder reads")
    assert told(lengths((20, 20, 20, 20)), words) == []  # 300 tokens are 150 words, and those are read
    (finding,) = told(lengths((20, 20, 20, 20), length=302), words)
    assert (finding.scope, finding.evidence) == ({}, {"rows": 80, "limit": 150, "unit": "words"})


def test_lengths_that_are_not_known_are_not_measured() -> None:
    table = lengths((20, 20, 20, 20))
    unknown = table.set_column(3, "n_tokens", pa.nulls(len(table), pa.int32()))
    (finding,) = told(unknown)
    assert (finding.code, finding.n_compared, finding.evidence) == ("not_measured", 0, {"checks": ["truncation"]})


def test_cells_without_dates_are_named_by_their_source() -> None:
    table = lengths((20, 0, 0, 0)).filter(pa.array([True] * 20 + [False] * 20 + [True] * 20 + [False] * 20))
    undated = table.append_column("ingestion_date", pa.nulls(len(table), pa.date32()))
    (finding,) = told(undated)
    assert finding.scope == {"source": "a"}
    assert "2026" not in finding.message
