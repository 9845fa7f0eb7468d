import csv
import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from audit_pipeline import schemas
from audit_pipeline.duplicates.lanes import exact_and_minhash, merge_lanes, neighbour_lane
from audit_pipeline.duplicates.recommend import best_row
from audit_pipeline.duplicates.signatures import compute_signatures
from audit_pipeline.duplicates.stages import similarity_floor, threshold_sweep
from audit_pipeline_tests.duplicates.snapshots import SETTINGS, at_degrees, pair_ids, shuffled, snapshot_of


def swept(snapshot, settings, labels=None, path=None):
    """All stages up to the sweep; ``labels`` are (id, id, duplicate, origin, band) rows."""
    signatures = compute_signatures(snapshot.rows, settings)
    lexical = exact_and_minhash(snapshot, signatures, settings).tables["lexical_pairs"]
    neighbours = neighbour_lane(snapshot, signatures, settings).tables
    candidates = merge_lanes(snapshot, lexical, neighbours["neighbour_pairs"], settings).tables["candidate_pairs"]
    if labels is not None:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["chunk_id_a", "chunk_id_b", "duplicate", "origin", "band"])
            writer.writerows(labels)
    floor = similarity_floor(snapshot, settings).tables["similarity_floor"]
    result = threshold_sweep(snapshot, candidates, floor, neighbours["neighbour_reach"], settings, path)
    return result, candidates


def settings_with(thresholds, **more):
    return SETTINGS.model_copy(update={"thresholds": thresholds, **more})


def pairs_at(cosines):
    """Rows 2i and 2i + 1 form a pair with cosine i, each pair in a plane of its own: nothing else is similar."""
    vectors = np.zeros((2 * len(cosines), 2 * len(cosines)))
    for number, cosine in enumerate(cosines):
        vectors[2 * number, 2 * number] = 1
        vectors[2 * number + 1, 2 * number : 2 * number + 2] = cosine, np.sqrt(1 - cosine**2)
    return snapshot_of([f"text{row}" for row in range(len(vectors))], vectors)


def labels_of(duplicate, origin="corpus"):
    return [
        [f"c{2 * number:05d}", f"c{2 * number + 1:05d}", str(bool(one)).lower(), origin, ""]
        for number, one in enumerate(duplicate)
    ]


def example():
    """Labels whose sweep is the worked example: at .90 .94 .96 .97 .98 pass 98 95 87 70 41 of 100 duplicates, and as
    many others as give a precision near .30 .66 .88 .95 .98."""
    cut = [0.85, 0.905, 0.945, 0.965, 0.975, 0.985]
    duplicates, others = [2, 3, 8, 17, 29, 41], [6, 180, 37, 8, 3, 1]
    return np.repeat(cut * 2, duplicates + others), np.repeat([True, False], [sum(duplicates), sum(others)])


EXAMPLE = [0.90, 0.94, 0.96, 0.97, 0.98]


def test_the_worked_example_as_labels_recommends_point_nine_six(tmp_path):
    cosine, duplicate = example()
    result, _ = swept(pairs_at(cosine), settings_with(EXAMPLE), labels_of(duplicate), tmp_path / "pairs.csv")
    rows = result.tables["threshold_sweep"].to_pylist()
    assert [row["tp"] for row in rows] == [98, 95, 87, 70, 41]
    assert [row["fp"] for row in rows] == [229, 49, 12, 4, 1]
    assert [row["fn"] for row in rows] == [2, 5, 13, 30, 59]
    assert [row["inverted"] for row in rows] == [None, False, False, True, True]
    assert np.allclose([row["exchange"] for row in rows[1:]], [12, 2.75, 0.41, 0.10], atol=0.1)
    assert [row["threshold"] for row in rows if row["recommended"]] == [0.96]
    recommended = result.summary["recommended"]
    assert (recommended["threshold"], recommended["provisional"], recommended["edge"]) == (0.96, False, False)
    assert recommended["low"] <= 0.96 <= recommended["high"]
    assert [finding.code for finding in result.findings] == ["labels_few"]


def test_no_single_flipped_label_moves_the_recommendation():
    cosine, duplicate = example()
    for number in range(len(cosine)):
        flipped = duplicate.copy()
        flipped[number] = not flipped[number]
        precision, recall = [], []
        for threshold in EXAMPLE:
            passes = cosine >= threshold
            precision.append(float((passes & flipped).sum() / passes.sum()))
            recall.append(float((passes & flipped).sum() / flipped.sum()))
        assert EXAMPLE[best_row(precision, recall)] == 0.96


def test_every_row_equals_a_recount_of_the_published_pairs(tmp_path):
    generator = np.random.default_rng(5)
    vectors = generator.standard_normal((300, 3)) + np.array([2.0, 0, 0])
    snapshot = snapshot_of([f"t{row}" for row in range(300)], vectors)
    settings = settings_with([0.9, 0.95, 0.99, 0.999], neighbours=5)
    drawn = generator.integers(0, 300, (400, 2))
    labels = {(min(one), max(one)): one.sum() % 2 for one in drawn if one[0] != one[1]}
    rows = [[f"c{a:05d}", f"c{b:05d}", str(flag), "corpus", ""] for (a, b), flag in labels.items()]
    result, candidates = swept(snapshot, settings, rows, tmp_path / "pairs.csv")
    unit = vectors.astype(np.float32).astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    known = set(pair_ids(candidates))
    scored = [(float(unit[a] @ unit[b]), flag, (f"c{a:05d}", f"c{b:05d}") in known) for (a, b), flag in labels.items()]
    positives = sum(flag for _, flag, _ in scored)
    nearest = np.sort(unit @ unit.T - 3 * np.eye(300), axis=1)[:, -5]
    sweep = result.tables["threshold_sweep"].to_pylist()
    assert [row["threshold"] for row in sweep] == [0.9, 0.95, 0.99, 0.999]
    for row in sweep:
        t = row["threshold"] - 1e-6
        tp = sum(flag for cosine, flag, _ in scored if cosine >= t)
        fp = sum(1 - flag for cosine, flag, _ in scored if cosine >= t)
        found = sum(flag for cosine, flag, candidate in scored if cosine >= t and candidate)
        flagged = int(pc.sum(pc.greater_equal(candidates["cosine"], t)).as_py())
        assert (row["tp"], row["fp"], row["fn"]) == (tp, fp, positives - tp)
        assert row["precision"] == pytest.approx(tp / (tp + fp))
        assert row["recall_scored"] == pytest.approx(tp / positives)
        assert row["recall_pipeline"] == pytest.approx(found / positives)
        assert row["flagged"] == flagged
        assert row["flagged_per_10k_candidates"] == pytest.approx(flagged / len(candidates) * 10_000)
        assert row["flagged_per_10k_chunks"] == pytest.approx(flagged / 300 * 10_000)
        assert row["expected_all_pairs"] == pytest.approx(row["random_share"] * 300 * 299 / 2)
        # 300 rows have 44,850 pairs: the floor is measured on all of them.
        upper = (unit @ unit.T)[np.triu_indices(300, 1)]
        assert row["random_share"] == pytest.approx(np.mean(upper >= t))
        assert row["saturated_rows"] == int(np.sum(nearest >= t))
        assert row["precision_low"] <= row["precision"] <= row["precision_high"]


def test_flagged_counts_only_fall_as_the_threshold_rises():
    generator = np.random.default_rng(6)
    snapshot = snapshot_of([f"t{row}" for row in range(200)], generator.standard_normal((200, 3)))
    thresholds = [round(0.55 + 0.05 * step, 2) for step in range(9)]
    result, candidates = swept(snapshot, settings_with(thresholds))
    flagged = result.tables["threshold_sweep"]["flagged"].to_pylist()
    assert flagged == sorted(flagged, reverse=True)
    assert flagged[0] > flagged[-1]
    assert all(a < b for a, b in pair_ids(candidates))
    assert pair_ids(candidates) == sorted(set(pair_ids(candidates)))


def test_a_labelled_duplicate_that_no_lane_proposes_is_scored_but_not_in_the_pipelines_recall(tmp_path):
    # a is nearest to x, b to y; with one neighbour each, nobody proposes a-b.
    snapshot = snapshot_of(["x", "a", "b", "y"], at_degrees(0, 5, 15, 20), ids=["x", "a", "b", "y"])
    labels = [["a", "b", "true", "corpus", ""], ["a", "x", "true", "corpus", ""]]
    result, candidates = swept(snapshot, settings_with([0.9, 0.999], neighbours=1), labels, tmp_path / "pairs.csv")
    assert ("a", "b") not in pair_ids(candidates)
    row = result.tables["threshold_sweep"].to_pylist()[0]
    assert (row["recall_scored"], row["recall_pipeline"]) == (1.0, 0.5)
    [missed] = [finding for finding in result.findings if finding.code == "candidates_missed"]
    assert (missed.share, missed.examples) == (0.5, ["a"])


def test_copies_of_one_text_count_as_candidates_through_their_representatives(tmp_path):
    snapshot = snapshot_of(["copy", "copy", "near", "copy"], at_degrees(0, 0, 5, 0), ids=["a", "b", "c", "d"])
    labels = [["b", "c", "true", "corpus", ""], ["b", "d", "true", "corpus", ""]]
    result, candidates = swept(snapshot, settings_with([0.9, 0.99]), labels, tmp_path / "pairs.csv")
    assert pair_ids(candidates) == [("a", "b"), ("a", "c"), ("a", "d")]
    assert result.tables["threshold_sweep"]["recall_pipeline"].to_pylist() == [1.0, 1.0]


def test_a_copy_that_is_not_the_representative_is_covered_by_it(tmp_path):
    dates = [dt.date(2026, 1, 2), dt.date(2026, 1, 1), dt.date(2026, 1, 1)]
    snapshot = snapshot_of(["copy", "copy", "near"], at_degrees(0, 0, 5), ids=["a", "b", "c"], dates=dates)
    labels = [["a", "c", "true", "corpus", ""]]
    result, candidates = swept(snapshot, settings_with([0.9, 0.99]), labels, tmp_path / "pairs.csv")
    assert pair_ids(candidates) == [("a", "b"), ("b", "c")]
    assert result.tables["threshold_sweep"]["recall_pipeline"].to_pylist() == [1.0, 1.0]


def test_classes_that_the_cosine_does_not_separate_have_no_usable_threshold(tmp_path):
    generator = np.random.default_rng(8)
    duplicate = np.arange(400) % 2 == 0
    cosine = generator.normal(np.where(duplicate, 0.770, 0.765), 0.03)
    settings = settings_with([0.70, 0.75, 0.80])
    result, _ = swept(pairs_at(cosine), settings, labels_of(duplicate), tmp_path / "pairs.csv")
    assert result.summary["recommended"]["threshold"] is None
    assert "no_usable_threshold" in [finding.code for finding in result.findings]
    table = result.tables["threshold_sweep"]
    assert not any(table["recommended"].to_pylist())
    both = [p + r for p, r in zip(table["precision"].to_pylist(), table["recall_pipeline"].to_pylist(), strict=True)]
    withheld = result.summary["recommended"]["withheld"]
    assert withheld["threshold"] == settings.thresholds[both.index(max(both))]
    assert withheld["low"] <= withheld["threshold"] <= withheld["high"]
    apart = generator.normal(np.where(duplicate, 0.78, 0.70), 0.02)
    clean, _ = swept(pairs_at(apart), settings, labels_of(duplicate), tmp_path / "pairs.csv")
    assert (clean.summary["recommended"]["threshold"], clean.summary["recommended"].get("withheld")) == (0.75, None)
    assert "no_usable_threshold" not in [finding.code for finding in clean.findings]


def test_fewer_than_thirty_labels_of_a_class_recommend_nothing(tmp_path):
    duplicate = np.arange(100) < 29
    cosine = np.where(duplicate, 0.97, 0.80)
    result, _ = swept(pairs_at(cosine), SETTINGS, labels_of(duplicate), tmp_path / "pairs.csv")
    assert result.summary["recommended"]["threshold"] is None
    assert {finding.code for finding in result.findings} == {"labels_few", "no_usable_threshold"}


def test_constructed_pairs_never_set_the_recommendation(tmp_path):
    duplicate = np.arange(100) < 50
    cosine = np.where(duplicate, 0.97, 0.80)
    labels = labels_of(duplicate, origin="constructed")
    result, _ = swept(pairs_at(cosine), SETTINGS, labels, tmp_path / "pairs.csv")
    assert result.summary["labels"]["constructed_duplicates"] == 50
    assert result.summary["recommended"]["provisional"]
    assert result.tables["threshold_sweep"]["tp"].to_pylist() == [0] * 7


def test_the_best_row_at_the_edge_of_the_sweep_says_so(tmp_path):
    duplicate = np.arange(100) < 50
    labels, path = labels_of(duplicate), tmp_path / "pairs.csv"
    result, _ = swept(pairs_at(np.where(duplicate, 0.91, 0.80)), settings_with([0.90, 0.95]), labels, path)
    recommended = result.summary["recommended"]
    assert (recommended["threshold"], recommended["edge"]) == (0.90, True)
    assert "extend duplicates.thresholds downwards" in recommended["caution"]
    assert recommended["caution"] in recommended["reason"]
    result, _ = swept(pairs_at(np.where(duplicate, 0.96, 0.90)), settings_with([0.90, 0.95]), labels, path)
    assert "extend duplicates.thresholds upwards" in result.summary["recommended"]["caution"]
    result, _ = swept(pairs_at(np.where(duplicate, 0.93, 0.90)), settings_with([0.90, 0.92, 0.95]), labels, path)
    assert (result.summary["recommended"]["threshold"], result.summary["recommended"]["caution"]) == (0.92, None)


@pytest.mark.parametrize(("band", "queue"), [("0.90-0.95", 0.5), ("0.95-1.00", None), ("0,90..0,95", 0.5)])
def test_bands_of_other_vectors_give_no_precision_of_the_queue_and_the_advice_says_so(tmp_path, band, queue):
    # Every label lies at .91 now. Drawn at .95 and over, they say nothing of the candidates there are today.
    duplicate = np.arange(100) < 50
    labels = [[*row[:4], band] for row in labels_of(duplicate)]
    result, _ = swept(pairs_at([0.91] * 100), settings_with([0.90, 0.95]), labels, tmp_path / "pairs.csv")
    assert result.summary["sweep"][0]["precision_queue"] == queue
    bands, reason = result.summary["labels"]["bands"], result.summary["recommended"]["reason"]
    assert (bands["used"], bands["outside"]) == (queue is not None, 0 if queue else 100)
    told = "100 of 100 labels lie outside their score band now"
    assert (told in reason) is (told in str(bands["words"])) is (queue is None)
    assert (result.summary["separation"]["candidates"] is None) is (queue is None)


def test_without_labels_the_row_over_the_floor_is_provisional_and_precision_is_null():
    generator = np.random.default_rng(2)
    vectors = generator.standard_normal((500, 3)) * 0.35 + np.array([1.0, 0, 0])
    settings = settings_with([0.3, 0.9, 0.999999])
    result, _ = swept(snapshot_of([f"t{row}" for row in range(500)], vectors), settings)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    limit = np.quantile((unit @ unit.T)[np.triu_indices(500, 1)], 0.999)
    assert 0.9 < limit < 0.999999
    recommended = result.summary["recommended"]
    assert (recommended["threshold"], recommended["provisional"]) == (0.999999, True)
    assert result.tables["threshold_sweep"]["precision"].to_pylist() == [None] * 3
    assert result.findings == []


@pytest.mark.parametrize(
    ("of_all", "across", "pairs_across"),
    [(0.95, 0.91, 3000), (0.91, 0.95, 3000), (0.95, None, 0), (0.95, 0.985, 2999)],
)
def test_the_provisional_row_is_over_the_floor_of_all_and_of_different_sources(of_all, across, pairs_across):
    snapshot = snapshot_of(["one", "two"], at_degrees(0, 90))
    rows = [("all_unlike", "p99.9", of_all, 3000), ("all_unlike", "left_out", 0, 3000)]
    rows += [("across_sources_unlike", "p99.9", across, pairs_across)] if across is not None else []
    floor = pa.Table.from_pylist(
        [dict(zip(schemas.SIMILARITY_FLOOR.names, row, strict=True)) for row in rows],
        schema=schemas.SIMILARITY_FLOOR,
    )
    nothing = schemas.CANDIDATE_PAIRS.empty_table(), floor, schemas.NEIGHBOUR_REACH.empty_table()
    recommended = threshold_sweep(snapshot, *nothing, SETTINGS).summary["recommended"]
    assert (recommended["threshold"], recommended["provisional"]) == (0.96, True)
    assert "over 0.950" in recommended["reason"]


def test_precision_of_the_queue_in_the_sweep(tmp_path):
    cosine = np.array([0.91] * 4 + [0.97] * 4)
    duplicate = [1, 0, 1, 1]
    labels = [
        [f"c{2 * pair:05d}", f"c{2 * pair + 1:05d}", flag, "corpus", band]
        for pair, flag, band in zip((0, 1, 4, 5), duplicate, ["0.90-0.95"] * 2 + ["0.95-1.00"] * 2, strict=True)
    ]
    # One more candidate in the low band, unlabelled, makes it 5 to 4: weights 2.5 and 2.
    snapshot = pairs_at(np.append(cosine, 0.92))
    result, _ = swept(snapshot, settings_with([0.9, 0.96]), labels, tmp_path / "pairs.csv")
    rows = result.tables["threshold_sweep"].to_pylist()
    assert rows[0]["precision"] == 0.75
    assert rows[0]["precision_queue"] == pytest.approx((2.5 + 4) / 9)
    assert rows[1]["precision_queue"] == 1.0


@pytest.mark.parametrize(("metric", "expected"), [("cosine", 0.1), ("dot", 0.1), ("l2", 0.2)])
def test_the_threshold_in_the_stores_own_score(metric, expected):
    result, _ = swept(snapshot_of(["a", "b"], at_degrees(0, 5), metric=metric), settings_with([0.9, 0.95]))
    assert result.tables["threshold_sweep"]["threshold_store_score"].to_pylist()[0] == pytest.approx(expected)
    long = swept(snapshot_of(["a", "b"], 3 * at_degrees(0, 5), metric=metric), settings_with([0.9, 0.95]))[0]
    assert (long.tables["threshold_sweep"]["threshold_store_score"].to_pylist()[0] is None) == (metric != "cosine")


def test_invalid_labels_are_counted_and_reported(tmp_path):
    labels = [["c00000", "c00001", "true", "corpus", ""], ["c00000", "gone", "true", "corpus", ""]]
    result, _ = swept(pairs_at([0.95]), SETTINGS, labels, tmp_path / "pairs.csv")
    [finding] = [finding for finding in result.findings if finding.code == "labels_invalid"]
    assert (finding.share, finding.n_compared, finding.evidence["unknown_id"]) == (0.5, 2, 1)


def test_a_corpus_without_duplicates_and_an_empty_one_run_through():
    result, candidates = swept(snapshot_of(["one", "two"], at_degrees(0, 90)), SETTINGS)
    assert result.tables["threshold_sweep"]["flagged"].to_pylist() == [0] * 7
    assert result.tables["threshold_sweep"]["precision"].to_pylist() == [None] * 7
    assert len(candidates) == 1
    empty, none = swept(snapshot_of([], np.empty((0, 2))), SETTINGS)
    assert len(none) == 0
    assert empty.tables["threshold_sweep"]["flagged_per_10k_chunks"].to_pylist() == [None] * 7
    assert empty.summary["recommended"]["threshold"] is None


def test_tables_have_the_published_schemas_and_do_not_depend_on_row_order():
    generator = np.random.default_rng(12)
    texts = [f"topic {row % 40} of the handbook tells how to do thing number {row % 60}" for row in range(120)]
    snapshot = snapshot_of(
        texts, generator.standard_normal((120, 6)), documents=["d"] * 120, positions=list(range(120))
    )
    one, one_pairs = swept(snapshot, SETTINGS)
    other, other_pairs = swept(shuffled(snapshot, 5), SETTINGS)
    assert one_pairs.equals(other_pairs)
    assert one.tables["threshold_sweep"].equals(other.tables["threshold_sweep"])
    assert one_pairs.schema.equals(schemas.CANDIDATE_PAIRS)
    assert one.tables["threshold_sweep"].schema.equals(schemas.THRESHOLD_SWEEP)
    assert isinstance(one_pairs, pa.Table)
