"""The verdict where the application's filter or search hides rows: the vectors are not blamed for it."""

from __future__ import annotations

import json
import textwrap

import pyarrow as pa
import pytest

from audit_pipeline.findings import Finding
from audit_pipeline.proportions import wilson
from audit_pipeline.report.summary import COLUMNS
from audit_pipeline.report.wording import without_figures
from audit_pipeline.retrieval.let_through import let_through
from audit_pipeline.retrieval.verdict_text import MEANING
from audit_pipeline_tests.retrieval.judged import (
    LOST,
    PERFECT,
    TWINS,
    codes,
    self_result,
    verdict,
)
from audit_pipeline_tests.retrieval.test_strata import self_table

HIDDEN = [("filter_excluded", False, {"filter": "published = true", "row_passes": False})] * 100


def test_rows_that_the_filter_hides_are_no_broken_vectors():
    found = verdict(self_result(1000, HIDDEN))
    text, low = found.summary["verdict"]["text"], codes(found)["self_low"]
    assert found.summary["verdict"]["reading"] == "vectors_or_index"  # the table of readings stays as it is
    assert "No work on prompts" not in text
    assert "the filter explains it" in text
    assert (
        "100 of the 100 self misses are rows that the filter hides; among the 900 probes that it lets through" in text
    )
    assert "self@10 is 100.0% (all 900)" in low.message
    assert "meant to hide" in low.remedy
    assert found.summary["self_retrieval"]["let_through"]["self@1"] == wilson(900, 900).as_dict() | {"low": 1.0}
    assert (found.summary["self_retrieval"]["let_through"]["hidden"], low.share) == (100, pytest.approx(0.1))


def test_twins_among_the_rows_let_through_are_no_broken_vectors_either():
    text = verdict(self_result(1000, HIDDEN + TWINS)).summary["verdict"]["text"]
    assert "the filter explains it" in text
    assert "among the 900 probes that it lets through self@1 is 95.6% (all 900)" in text


def test_the_vectors_are_blamed_where_rows_let_through_are_missed_too():
    found = verdict(self_result(1000, HIDDEN + LOST))
    text = found.summary["verdict"]["text"]
    assert "No work on prompts" in text
    assert "100 of the 140 self misses are rows that the filter hides" in text
    assert "Follow the causes" in codes(found)["self_low"].remedy
    # A filter that is applied after the search loses rows that pass it: the search is at fault.
    late = [("filter_excluded", False, {"filter": "x", "found_by": "prefilter"})] * 100
    assert "No work on prompts" in verdict(self_result(1000, late)).summary["verdict"]["text"]


def test_one_screen_shows_what_the_filter_hides():
    """A long text loses its last sentences in the summary: the one that qualifies the reading is among the first."""
    for missed in (HIDDEN, HIDDEN + LOST, HIDDEN + TWINS):
        text = without_figures(verdict(self_result(1000, missed, 50_000), chunks=50_000).summary["verdict"]["text"])
        shown = " ".join(textwrap.wrap(text, COLUMNS, max_lines=4, placeholder=" ..."))
        assert (
            "self misses are rows that the filter hides; among the 900 probes that it lets through self@1 is" in shown
        )


def test_what_the_index_loses_is_told_beside_what_the_reading_means():
    lost = Finding(
        "ann_recall_low", "warning", "The search returns 33.0% of the ten closest chunks.", "Raise nprobes.", 400
    )
    text = without_figures(verdict(PERFECT, findings=[lost]).summary["verdict"]["text"])
    assert text.startswith(f"{MEANING['not_measured']} {lost.message} ")


def test_a_filter_that_lets_nothing_through_says_so():
    found = verdict(self_result(100, HIDDEN))
    assert "lets no probed row through" in found.summary["verdict"]["text"]
    assert "it lets none through" in codes(found)["self_low"].message
    assert "index.filter" in codes(found)["self_low"].remedy


def test_where_nothing_is_hidden_nothing_is_said_of_a_filter():
    for run in (PERFECT, self_result(1000, LOST)):
        found = verdict(run)
        assert "filter" not in found.summary["verdict"]["text"]
        assert "let_through" not in found.summary["self_retrieval"]
        assert all("filter" not in finding.message for finding in found.findings)


def test_probes_drawn_by_stratum_weigh_as_many_chunks_as_pass():
    # Of 900 chunks of one stratum 10 of 20 probes pass and 5 of these hit; of 100 of the other all 20, and all hit.
    table = self_result(40, []).tables["self_retrieval"].to_pylist()
    for place, row in enumerate(table):
        row |= {"stratum": "long" if place < 20 else "short", "stratum_chunks": 900 if place < 20 else 100}
        if place < 10:
            row |= {"hit_1": False, "hit_10": False, "cause": HIDDEN[0][0], "evidence": json.dumps(HIDDEN[0][2])}
        elif place < 15:
            row |= {"hit_1": False, "cause": "encoder", "evidence": "{}"}
    passed = let_through(pa.Table.from_pylist(table, schema=self_table([]).schema))
    assert passed is not None
    assert (passed.hidden, passed.n, passed.self_1.n) == (10, 30, 30)
    assert passed.self_1.value == pytest.approx((450 * 0.5 + 100) / 550)
    assert passed.self_10.value == 1
