"""Whether second vectors judge labelled pairs better: values by hand, and where it must not be claimed."""

from __future__ import annotations

import numpy as np
import pytest

from audit_pipeline.duplicates.second_vectors import Scored, compare_vectors, verdict_words

COST = {"bytes_per_row": 1536, "bytes": 3_072_000, "texts": 1900, "encoded": 0, "seconds": None}
THRESHOLDS = [0.5, 0.7, 0.9]
DUPLICATE = np.repeat([True, False], 50)


def scored(cosine, thresholds=THRESHOLDS, candidates=(0.6, 0.8, 0.95)):
    return Scored(np.array(cosine, dtype=float), np.array(candidates), thresholds)


def compared(first, second, duplicate=DUPLICATE, candidate=None, a=None, b=None):
    n = len(duplicate)
    candidate = np.ones(n, dtype=bool) if candidate is None else candidate
    a, b = (np.arange(n) * 2, np.arange(n) * 2 + 1) if a is None else (a, b)
    return compare_vectors(a, b, duplicate, candidate, first, second)


# At .7 the good ones pass 50 duplicates and no other, the poor ones 40 duplicates and 20 others.
GOOD = [0.8] * 50 + [0.6] * 50
POOR = [0.8] * 40 + [0.6] * 10 + [0.8] * 20 + [0.6] * 30


def test_better_vectors_are_told_with_values_by_hand():
    found = compared(scored(POOR), scored(GOOD))
    assert [row["tp"] for row in found["first"]["sweep"]] == [50, 40, 0]
    assert [row["fp"] for row in found["first"]["sweep"]] == [50, 20, 0]
    assert [row["flagged"] for row in found["first"]["sweep"]] == [3, 2, 1]
    # .5: 50/100 + 50/50 = 1.5; .7: 40/60 + 40/50 = 1.4667; .9: no precision. The edge is the first row.
    assert (found["first"]["threshold"], found["first"]["edge"]) == (0.5, True)
    assert (found["second"]["threshold"], found["second"]["edge"]) == (0.7, False)
    assert found["difference"]["value"] == pytest.approx(2 - 1.5)
    # Of 2,500 pairs of a duplicate and another the poor ones order 40 x 30 right and tie in 40 x 20 + 10 x 30.
    assert found["first"]["auc"] == pytest.approx((1200 + 0.5 * 1100) / 2500)
    assert found["auc_difference"]["value"] == pytest.approx(1 - 0.7)
    # A better row of the first may lie under .5, so the second is not called better until the sweep is extended.
    assert found["verdict"] == "not_shown"
    assert "The first sweep's best row is at its edge: extend duplicates.thresholds." in verdict_words(
        found, COST, "query"
    )
    wider = compared(scored(POOR, [0.3, 0.5, 0.7, 0.9]), scored(GOOD))
    assert wider["verdict"] == "better"
    assert wider["difference"]["low"] > 0
    words = verdict_words(wider, COST, "query")
    assert "judge duplicates better: precision + recall +0.500 (95 %: +0." in words
    assert "against the first vectors in regime query" in words
    assert words.endswith("They cost 1,536 bytes a row (3.1 MB) and the encoding of 1,900 texts.")


def test_the_other_way_round_they_are_worse():
    found = compared(scored(GOOD), scored(POOR, [0.3, 0.5, 0.7, 0.9]))
    assert found["verdict"] == "worse"
    assert found["difference"]["value"] == pytest.approx(-0.5)
    assert found["difference"]["high"] < 0
    assert "A second index is not worth its cost." in verdict_words(found, COST, "stored")


def test_equal_vectors_are_not_shown_to_be_better():
    found = compared(scored(GOOD), scored(GOOD))
    assert found["difference"] == found["auc_difference"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert found["verdict"] == "not_shown"
    assert "are not shown to be better" in verdict_words(found, COST, "stored")


def test_a_difference_that_the_labels_cannot_carry_is_not_shown():
    # The second kind passes one more duplicate of 50: another draw of labels may have none of it.
    other = [0.8] * 49 + [0.6] * 51
    found = compared(scored(other), scored(GOOD))
    assert found["difference"]["value"] == pytest.approx(2 - 1.98)
    assert found["difference"]["low"] == 0
    assert found["verdict"] == "not_shown"


def test_pairs_that_share_a_chunk_are_drawn_together():
    # All pairs hang on one chunk: a draw of components would be the whole and the interval one point.
    found = compared(scored(POOR), scored(GOOD), a=np.zeros(100, dtype=int), b=np.arange(1, 101))
    assert found["drawn_by"] == "chunks"
    assert found["difference"]["value"] == pytest.approx(0.5)
    assert found["difference"]["low"] < 0.45 < 0.55 < found["difference"]["high"]
    assert "For the intervals chunks were drawn" in verdict_words(found, COST, "stored")
    # Ten families of ten pairs, of which one decides: far wider than with a hundred independent pairs.
    families = np.tile(np.arange(10), 10)
    first = np.where((families == 0) & DUPLICATE, 0.6, GOOD)
    family = compared(scored(first), scored(GOOD), a=families, b=10 + np.arange(100))
    single = compared(scored(first), scored(GOOD))
    assert (family["drawn_by"], single["drawn_by"]) == ("components", "components")
    assert family["difference"]["value"] == pytest.approx(single["difference"]["value"]) == pytest.approx(0.1)
    assert family["difference"]["low"] == 0 < single["difference"]["low"]


def test_recall_counts_candidates_only_and_draws_are_paired():
    candidate = np.ones(100, dtype=bool)
    candidate[:25] = False
    found = compared(scored(GOOD), scored(GOOD), candidate=candidate)
    assert (found["first"]["precision"], found["first"]["recall_pipeline"]) == (1, 0.5)
    # Unpaired draws of equal vectors would differ.
    assert found["difference"]["low"] == found["difference"]["high"] == 0


def test_few_labels_and_pairs_without_a_vector_are_not_measured():
    none = np.empty(0, dtype=int)
    assert (
        compared(scored([]), scored([]), none.astype(bool), none.astype(bool), none, none)["verdict"] == "not_measured"
    )
    second = np.array(GOOD)
    second[:21] = np.nan
    found = compared(scored(POOR), scored(second))
    assert found["labels"] == {"duplicates": 29, "others": 50, "left_out": 21}
    assert (found["verdict"], found["difference"]) == ("not_measured", None)
    assert "was not measured: 29 duplicates and 50 non-duplicates are labelled, 30 of each are needed. They cost" in (
        verdict_words(found, COST, "stored")
    )
    nothing = compared(scored(POOR), scored(GOOD, [0.97, 0.98]))
    assert nothing["verdict"] == "not_measured"
    assert "no labelled pair passes a threshold of one of the sweeps" in verdict_words(nothing, COST, "stored")
