import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from audit_pipeline import schemas
from audit_pipeline.proportions import wilson
from audit_pipeline.retrieval.strata import median_batch_probes, strata_tables
from audit_pipeline_tests.retrieval.worlds import chunk_table

D1, D2 = dt.date(2026, 1, 2), dt.date(2026, 1, 9)


def self_table(entries: list[tuple[str | None, dt.date | None, str, bool, bool | None]]) -> pa.Table:
    """(source, date, length band, hit_1, hit_10) of each probe."""
    rows = [
        {
            "probe_id": f"self:p{i}",
            "chunk_id": f"p{i}",
            "source": source,
            "ingestion_date": date,
            "batch": f"{date or D1}|{source or 'none'}",
            "length_band": band,
            "stratum": "all",
            "stratum_chunks": 100,
            "weight": 1.0,
            "returned": 10,
            "expected": 10,
            "hit_1": hit_1,
            "hit_10": hit_10,
        }
        for i, (source, date, band, hit_1, hit_10) in enumerate(entries)
    ]
    return pa.Table.from_pylist(rows, schema=schemas.SELF_RETRIEVAL)


def population(cells: list[tuple[str, dt.date, int]], band: str = "0-39") -> pa.Table:
    sources = [source for source, _, n in cells for _ in range(n)]
    dates = [date for _, date, n in cells for _ in range(n)]
    table = chunk_table([f"x{i}" for i in range(len(sources))], ["t"] * len(sources), sources, dates)
    return table.append_column("length_band", pa.array([band] * len(sources), pa.string()))


ENTRIES = [
    ("a", D1, "0-39", True, True),
    ("a", D1, "0-39", False, True),
    ("a", D2, "40-127", True, True),
    ("b", D2, "0-39", False, False),
]
POPULATION = population([("a", D1, 5), ("a", D2, 3), ("b", D2, 7), ("c", D1, 2)])


def sections(table: pa.Table = None, chunks: pa.Table = POPULATION) -> dict[str, list[dict[str, Any]]]:
    return strata_tables({"self": self_table(ENTRIES) if table is None else table}, chunks)[1]["self_retrieval"]


def test_sources_with_their_chunks_probes_and_wilson_intervals():
    a, b, c = sections()["by_source"]
    assert a == {
        "source": "a",
        "chunks": 8,
        "n": 3,
        "self@1": wilson(2, 3).as_dict(),
        "self@10": wilson(3, 3).as_dict(),
    }
    assert (b["source"], b["chunks"], b["n"], b["self@1"]["value"]) == ("b", 7, 1, 0.0)
    assert (c["source"], c["chunks"], c["n"]) == ("c", 2, 0)


def test_a_stratum_without_probes_is_shown_and_not_measured():
    c = sections()["by_source"][2]
    assert c["self@1"] == c["self@10"] == {"value": None, "low": None, "high": None, "n": 0}


def test_dates_batches_and_bands_have_their_own_keys():
    found = sections()
    assert [(e["ingestion_date"], e["chunks"], e["n"]) for e in found["by_ingestion_date"]] == [
        ("2026-01-02", 7, 2),
        ("2026-01-09", 10, 2),
    ]
    assert [(e["source"], e["ingestion_date"], e["chunks"], e["n"]) for e in found["by_batch"]] == [
        ("a", "2026-01-02", 5, 2),
        ("a", "2026-01-09", 3, 1),
        ("b", "2026-01-09", 7, 1),
        ("c", "2026-01-02", 2, 0),
    ]
    assert [(e["length_band"], e["chunks"], e["n"]) for e in found["by_length_band"]] == [
        ("0-39", 17, 3),
        ("40-127", 0, 1),
    ]


def test_length_bands_come_in_order_of_length_and_not_of_spelling():
    bands = ["1024-2047", "128-255", "2048+", "40-127", "0-39", "512-1023", "256-511"]
    found = sections(self_table([("a", D1, band, True, True) for band in bands]), population([("a", D1, 1)]))
    assert [e["length_band"] for e in found["by_length_band"]] == [
        "0-39", "40-127", "128-255", "256-511", "512-1023", "1024-2047", "2048+",
    ]  # fmt: skip


def test_the_date_is_the_first_day_of_the_batch_and_null_where_rows_have_none():
    weekly = chunk_table(["x"], ["t"], ["a"], [dt.date(2026, 1, 7)]).append_column("length_band", pa.array(["0-39"]))
    weekly = weekly.set_column(3, "batch", pa.array(["2026-01-05|a"]))
    assert sections(self_table([]), weekly)["by_ingestion_date"][0]["ingestion_date"] == "2026-01-05"
    undated = sections(self_table([("a", None, "0-39", True, True)]), population([]))
    assert undated["by_ingestion_date"][0]["ingestion_date"] is None


def test_a_row_without_source_is_none_in_parentheses():
    assert sections(self_table([(None, D1, "0-39", True, True)]), population([]))["by_source"][0]["source"] == "(none)"


def test_a_figure_that_was_not_asked_for_is_null_in_every_stratum():
    found = sections(self_table([("a", D1, "0-39", True, None)]))
    assert found["by_source"][0]["self@10"] is None
    assert found["by_source"][0]["self@1"]["value"] == 1.0


def test_the_strata_of_each_dimension_sum_to_the_probes():
    found = sections()
    for dimension in ("source", "ingestion_date", "batch", "length_band"):
        elements = found[f"by_{dimension}"]
        assert sum(element["n"] for element in elements) == 4
        assert sum(element["chunks"] for element in elements) == 17
    assert found["by_position"] == found["by_document"] == []  # no chunk has a document


def test_the_table_repeats_the_lists_and_keeps_its_schema():
    table, lists = strata_tables({"self": self_table(ENTRIES), "held_out": None}, POPULATION)
    assert table.schema == schemas.STRATA
    elements = [e for some in lists["self_retrieval"].values() for e in some]
    assert table.num_rows == 2 * len(elements)
    assert set(lists) == {"self_retrieval"}
    row = next(
        r for r in table.to_pylist() if r["dimension"] == "batch" and r["source"] == "b" and r["measure"] == "self@10"
    )
    assert (row["ingestion_date"], row["chunks"], row["n"], row["value"]) == (D2, 7, 1, 0.0)


def test_held_out_counts_neither_ineligible_probes_nor_overlap_but_says_how_many_were_eligible():
    flags = [(True, False, True), (True, True, True), (False, None, None), (True, False, False)]
    rows = [
        {
            **{k: v for k, v in row.items() if k in schemas.HELD_OUT_RETRIEVAL.names},
            "eligible": eligible,
            "overlap": overlap,
            "hit_1": hit,
            "hit_10": hit,
        }
        for row, (eligible, overlap, hit) in zip(
            self_table([("a", D1, "0-39", True, True)] * 4).to_pylist(), flags, strict=True
        )
    ]
    table = pa.Table.from_pylist(rows, schema=schemas.HELD_OUT_RETRIEVAL)
    (a,) = strata_tables({"held_out": table}, population([("a", D1, 4)]))[1]["held_out"]["by_source"]
    assert (a["n"], a["heldout@1"], a["eligible"]) == (2, wilson(1, 2).as_dict(), wilson(3, 4).as_dict())


def test_bands_follow_from_tokens_or_words_where_the_population_has_none():
    chunks = chunk_table(["x", "y"], ["two words", " ".join(["word"] * 200)])
    found = sections(self_table([]), chunks)
    assert [(e["length_band"], e["chunks"]) for e in found["by_length_band"]] == [("0-39", 1), ("128-255", 1)]


@pytest.mark.parametrize(("entries", "median"), [(ENTRIES, 1), ([], 0), (ENTRIES[:2], 2)])
def test_the_median_batch(entries: list[Any], median: int):
    assert median_batch_probes(self_table(entries)) == median


def documents_of(entries: list[tuple[str, str, bool]]) -> tuple[pa.Table, pa.Table]:
    """(table, population) of probes with (document, position, hit), each of them a chunk."""
    table = self_table([("a", D1, "0-39", hit, hit) for *_, hit in entries])
    document, position = (pa.array([entry[i] for entry in entries], pa.string()) for i in (0, 1))
    chunks = population([("a", D1, len(entries))])
    chunks = chunks.drop_columns([name for name in ("document", "position") if name in chunks.column_names])
    return tuple(t.append_column("document", document).append_column("position", position) for t in (table, chunks))


def test_positions_stand_in_their_order_and_only_documents_with_enough_probes_are_shown():
    entries = [("large", "first", False)] + [("large", "middle", True)] * 28 + [("large", "last", True)]
    entries += [("small", "middle", True)] * 19
    found = sections(*documents_of(entries))
    shown = [(e["position"], e["chunks"], e["n"], e["self@1"]["value"]) for e in found["by_position"]]
    assert shown == [("first", 1, 1, 0.0), ("middle", 47, 47, 1.0), ("last", 1, 1, 1.0)]
    (large,) = found["by_document"]
    assert (large["source"], large["document"], large["chunks"], large["n"]) == ("a", "large", 30, 30)
    assert large["self@1"] == wilson(29, 30).as_dict()
