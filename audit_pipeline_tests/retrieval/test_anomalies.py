import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import false_discovery_control, fisher_exact

from audit_pipeline import schemas
from audit_pipeline.retrieval.anomalies import benjamini_hochberg, contrasts, stratum_anomalies
from audit_pipeline_tests.retrieval.test_strata import self_table
from audit_pipeline_tests.retrieval.worlds import settings

DAYS = [dt.date(2026, 1, 1) + dt.timedelta(days=i) for i in range(6)]


def probes(cells: list[tuple[str, str, str, int, int]]) -> pd.DataFrame:
    """(source, date, band, hits, n) of each group of probes."""
    rows = [
        {"source": s, "ingestion_date": d, "length_band": b, "comparable": 0, "hit": i < hits}
        for s, d, b, hits, n in cells
        for i in range(n)
    ]
    return pd.DataFrame(rows)


def test_without_bands_the_test_is_fishers():
    found = contrasts(probes([("a", "d", "x", 14, 30), ("b", "d", "x", 55, 60)]), "source")
    other = fisher_exact([[14, 16], [55, 5]], alternative="less").pvalue
    assert found[0].p == pytest.approx(other)
    assert found[0].effect == pytest.approx(55 / 60 - 14 / 30)
    assert (found[0].n, found[0].hits, found[0].rest_n) == (30, 14, 60)


def test_with_bands_the_sum_is_that_of_independent_draws():
    table = probes([("a", "d", "x", 6, 12), ("b", "d", "x", 18, 20), ("a", "d", "y", 9, 10), ("b", "d", "y", 14, 15)])
    found = contrasts(table, "source")[0]
    generator = np.random.default_rng(1)
    draws = generator.hypergeometric(24, 8, 12, 400_000) + generator.hypergeometric(23, 2, 10, 400_000)
    assert found.p == pytest.approx(np.mean(draws <= 15), rel=0.05)


def test_a_source_of_long_chunks_is_compared_with_other_long_chunks():
    # a holds long chunks only, and long chunks are hard for every source: no effect within the band.
    table = probes([("a", "d", "long", 20, 40), ("b", "d", "long", 20, 40), ("b", "d", "short", 200, 200)])
    found = {contrast.keys[0]: contrast for contrast in contrasts(table, "source")}
    assert found["a"].effect == pytest.approx(0.0)
    assert found["a"].p > 0.5


def test_strata_under_twenty_comparable_probes_are_left_out():
    table = probes([("a", "d", "x", 0, 19), ("b", "d", "x", 60, 60)])
    assert [contrast.keys for contrast in contrasts(table, "source")] == [("b",)]
    alone = probes([("a", "d", "x", 0, 40)])
    assert contrasts(alone, "source") == []


def test_benjamini_hochberg_agrees_with_scipy():
    p = np.array([0.001, 0.2, 0.012, 0.04, 0.049, 0.6, 0.021])
    assert benjamini_hochberg(p).tolist() == (false_discovery_control(p) <= 0.05).tolist()
    assert benjamini_hochberg(np.zeros(0)).tolist() == []


def clean() -> list[tuple[str, dt.date, str, bool, bool]]:
    return [(source, day, "0-39", True, True) for source in "abc" for day in DAYS for _ in range(25)]


def scopes(entries: list[tuple[str, dt.date, str, bool, bool]]) -> list[dict[str, str]]:
    return [f.scope for f in stratum_anomalies({"self": self_table(entries)}, settings())]


def spoil(wanted: object, share: int = 2) -> list[tuple[str, dt.date, str, bool, bool]]:
    """Of the probes for which wanted(source, day) holds, every ``share``-th misses."""
    return [
        (s, d, b, not (wanted(s, d) and i % share == 0), t)  # type: ignore[operator]
        for i, (s, d, b, _, t) in enumerate(clean())
    ]


def test_a_clean_corpus_has_no_anomaly():
    assert scopes(clean()) == []


def test_one_cell_is_named_alone_and_neither_its_source_nor_its_date():
    assert scopes(spoil(lambda s, d: s == "b" and d == DAYS[3])) == [{"source": "b", "ingestion_date": "2026-01-04"}]


def test_a_source_is_named_once_and_not_cell_by_cell():
    assert scopes(spoil(lambda s, d: s == "b")) == [{"source": "b"}]


def test_a_date_is_named_once():
    assert scopes(spoil(lambda s, d: d == DAYS[5])) == [{"ingestion_date": "2026-01-06"}]


def test_a_source_whose_cells_are_all_too_small_is_found_as_a_source():
    entries = [
        (s, d, b, s != "b" or i % 2 == 0, t) for i, (s, d, b, _, t) in enumerate(clean()) if i % 5 == 0 or i % 5 == 1
    ]
    assert scopes(entries) == [{"source": "b"}]


def test_a_source_is_compared_with_the_others_and_not_with_its_own_low_batches():
    days = [DAYS[0] + dt.timedelta(days=i) for i in range(10)]
    entries = [
        # Nine of ten batches of b find every second probe, the tenth finds all; a and c find all.
        (source, day, "0-39", source != "b" or day == days[9] or i % 2 == 0, True)
        for source in "abc"
        for day in days
        for i in range(30)
    ]
    (found,) = stratum_anomalies({"self": self_table(entries)}, settings())
    assert (found.scope, found.n_compared) == ({"source": "b"}, 300)
    assert "self@1 is 165 of 300, 45 points under the rest" in found.message
    assert (found.evidence["effect"], found.evidence["rest_n"]) == (0.45, 600)


def test_probes_of_the_scope_that_its_figure_leaves_out_are_told():
    low = spoil(lambda s, d: s == "b")
    alone = [("b", DAYS[0], "512-1023", True, True)] * 30
    (found,) = stratum_anomalies({"self": self_table([*low, *alone])}, settings())
    assert (found.scope, found.n_compared) == ({"source": "b"}, 150)
    assert "75 of 150 (another 30 have nothing to be compared with), 50 points under" in found.message
    (found,) = stratum_anomalies({"self": self_table(low)}, settings())
    assert "75 of 150, 50 points under" in found.message


def test_a_length_band_out_of_line_is_named():
    entries = [*clean(), *[("a", DAYS[i % 6], "512-1023", i // 6 % 2 == 0, True) for i in range(60)]]
    (found,) = stratum_anomalies({"self": self_table(entries)}, settings())
    assert found.scope == {"length_band": "512-1023"}
    assert "equal length" not in found.message
    assert "re-ingest" not in found.remedy


def held_table(*, of_band: bool = False) -> pa.Table:
    """Held-out probes of 400 long and 200 short chunks, one in twenty of source b. Every second short one finds
    nothing, or all of source b."""
    cells = [("a" if i % 20 else "b", band, i) for band, n in (("128-255", 400), ("0-39", 200)) for i in range(n)]
    rows = [
        {
            "probe_id": f"heldout:p{n}",
            "chunk_id": f"p{n}",
            "source": source,
            "batch": f"2026-01-01|{source}",
            "length_band": band,
            "stratum": "all",
            "stratum_chunks": 600,
            "weight": 1.0,
            "eligible": True,
            "overlap": False,
            "hit_1": False,
            "hit_10": not ((i + i // 20) % 2 and band == "0-39" if of_band else source == "b"),
            "cause": None,
        }
        for n, (source, band, i) in enumerate(cells)
    ]
    return pa.Table.from_pylist(rows, schema=schemas.HELD_OUT_RETRIEVAL)


def test_short_texts_whose_sentences_say_little_are_no_anomaly():
    assert stratum_anomalies({"held_out": held_table(of_band=True)}, settings()) == []
    (source,) = stratum_anomalies({"held_out": held_table()}, settings())
    assert source.scope == {"source": "b"}


def with_cause(table: pa.Table, cause: str) -> pa.Table:
    """The table with this cause at every miss."""
    causes = [None if hit else cause for hit in table["hit_1"].to_pylist()]
    return table.set_column(table.column_names.index("cause"), "cause", pa.array(causes, pa.string()))


def test_the_second_of_two_sources_that_hold_the_same_texts_is_not_to_blame():
    table = self_table(spoil(lambda s, d: s == "b", share=1))
    assert stratum_anomalies({"self": with_cause(table, "twin")}, settings()) == []
    (found,) = stratum_anomalies({"self": with_cause(table, "misaligned")}, settings())
    assert (found.scope, found.share) == ({"source": "b"}, 1.0)
    assert found.message.endswith("misses to twins and to rows in another role count as hits.")


def test_a_batch_that_loses_to_rows_in_another_role_is_not_to_blame():
    table = with_cause(self_table(spoil(lambda s, d: s == "b", share=1)), "role_mismatch")

    def with_evidence(evidence: str) -> pa.Table:
        shown = pa.repeat(evidence, len(table))
        return table.set_column(table.column_names.index("evidence"), "evidence", shown)

    ahead = with_evidence('{"arm": "query", "rows_ahead": ["c1"]}')
    assert stratum_anomalies({"self": ahead}, settings()) == []
    for own in ('{"arm": "query"}', '{"arm": "\\"rows_ahead\\": "}'):
        (found,) = stratum_anomalies({"self": with_evidence(own)}, settings())
        assert found.scope == {"source": "b"}


def test_the_only_cell_that_is_large_enough_to_be_tested_does_not_stand_for_the_corpus():
    few = [entry for n, entry in enumerate(clean()) if n % 5 == 0]  # 5 probes a cell
    entries = [*few, *[("b", DAYS[3], "0-39", n % 2 == 0, True) for n in range(30)]]
    assert scopes(entries) == [{"source": "b", "ingestion_date": "2026-01-04"}]


def test_texts_that_differ_beyond_what_is_read_are_missed_and_re_ingesting_them_is_no_remedy():
    table = self_table(spoil(lambda s, d: s == "b"))
    (found,) = stratum_anomalies({"self": with_cause(table, "truncated")}, settings())
    assert "shorter" in found.remedy
    (other,) = stratum_anomalies({"self": with_cause(table, "encoder")}, settings())
    assert "re-ingest" in other.remedy


def test_an_effect_under_the_setting_is_no_anomaly_however_certain():
    assert scopes(spoil(lambda s, d: s == "b", share=10)) == []


def test_random_misses_rarely_make_an_anomaly():
    generator = np.random.default_rng(11)
    found = 0
    for _ in range(10):
        entries = [(s, d, b, bool(generator.random() < 0.9), t) for s, d, b, _, t in clean()]
        found += bool(scopes(entries))
    assert found == 0


def test_the_finding_says_what_was_compared():
    (finding,) = stratum_anomalies({"self": self_table(spoil(lambda s, d: s == "b"))}, settings())
    assert (finding.code, finding.severity, finding.n_compared) == ("stratum_anomaly", "warning", 150)
    assert finding.share == pytest.approx(0.5)
    assert finding.evidence["measure"] == "self@1"
    assert f"{100 * finding.evidence['effect']:.0f} points under the rest of its kind" in finding.message
    assert len(finding.examples) == 5


def in_documents(wanted: object) -> dict[str, pa.Table | None]:
    """Ten documents of 30 probes each on one day; every second probe misses where wanted(document, position) holds."""
    places = ["first"] * 5 + ["middle"] * 20 + ["last"] * 5
    cells = [(f"doc-{d}", place, i) for d in range(10) for i, place in enumerate(places)]
    table = self_table([("a", None, "0-39", not (wanted(d, p) and i % 2), True) for d, p, i in cells])  # type: ignore[operator]
    for name, values in (("document", [d for d, *_ in cells]), ("position", [p for _, p, _ in cells])):
        table = table.append_column(name, pa.array(values, pa.string()))
    return {"self": table}


def test_a_place_in_the_documents_out_of_line_is_named_in_the_evidence():
    (finding,) = stratum_anomalies(in_documents(lambda d, p: p == "last"), settings())
    assert (finding.scope, finding.evidence["position"], finding.n_compared) == ({}, "last", 50)
    assert "last chunks of their documents" in finding.message


def test_a_document_out_of_line_is_named_in_the_evidence():
    (finding,) = stratum_anomalies(in_documents(lambda d, p: d == "doc-3"), settings())
    assert (finding.scope, finding.evidence["document"], finding.n_compared) == ({"source": "a"}, "doc-3", 30)


def test_documents_that_are_alike_have_no_anomaly():
    assert stratum_anomalies(in_documents(lambda d, p: False), settings()) == []
    assert stratum_anomalies(in_documents(lambda d, p: True), settings()) == []
