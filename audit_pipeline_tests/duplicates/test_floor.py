import numpy as np
import pytest

from audit_pipeline import schemas
from audit_pipeline.duplicates.floor import random_pairs, random_pairs_across, share_name
from audit_pipeline.duplicates.stages import similarity_floor, threshold_sweep
from audit_pipeline_tests.duplicates.snapshots import SETTINGS, at_degrees, shuffled, snapshot_of, words_of


def values(table, scope):
    return {row["statistic"]: row["value"] for row in table.to_pylist() if row["scope"] == scope}


def around(common, count, dimension, seed=0):
    """Vectors whose random pairs have the mean cosine ``common``."""
    rest = np.random.default_rng(seed).standard_normal((count, dimension))
    rest /= np.linalg.norm(rest, axis=1, keepdims=True)
    return np.concatenate((np.full((count, 1), np.sqrt(common)), np.sqrt(1 - common) * rest), axis=1)


def test_a_small_corpus_is_measured_in_full():
    snapshot = snapshot_of(["a", "b", "c"], at_degrees(0, 60, 90))
    result = similarity_floor(snapshot, SETTINGS)
    found = values(result.tables["similarity_floor"], "all")
    # The pairs are 60, 90 and 30 degrees apart.
    assert found["mean"] == pytest.approx((0.5 + 0 + np.sqrt(3) / 2) / 3, abs=1e-7)
    assert found["p50"] == pytest.approx(0.5, abs=1e-7)
    assert found["max"] == pytest.approx(np.sqrt(3) / 2, abs=1e-7)
    assert found[share_name(0.9)] == 0
    assert result.summary["floor"]["n"] == 3
    assert result.summary["floor"]["mean"] == found["mean"]


def test_a_threshold_of_point_eight_two_over_a_floor_of_point_seven_six_flags_a_tenth_of_all_random_pairs():
    settings = SETTINGS.model_copy(update={"thresholds": [0.82, 0.95]})
    snapshot = snapshot_of([f"t{row}" for row in range(3000)], around(0.765, 3000, 30))
    found = values(similarity_floor(snapshot, settings).tables["similarity_floor"], "all")
    assert found["mean"] == pytest.approx(0.765, abs=0.001)
    assert found[share_name(0.82)] == pytest.approx(0.1, abs=0.01)
    assert found[share_name(0.95)] < 0.001


def test_pairs_across_sources_are_measured_apart():
    snapshot = snapshot_of(["a", "b", "c", "d"], at_degrees(0, 0, 90, 90), sources=["p", "p", "q", "q"])
    table = similarity_floor(snapshot, SETTINGS).tables["similarity_floor"]
    assert values(table, "all")["mean"] == pytest.approx(2 / 6, abs=1e-7)
    assert values(table, "across_sources")["max"] == pytest.approx(0, abs=1e-7)


def test_each_pair_of_sources_has_a_floor_of_its_own():
    # p: 40 rows at 0 degrees; q: 20 at 60 and 20 at 10; r: one row, so that no cell of it has 1,000 pairs.
    angles, sources = [0] * 40 + [60] * 20 + [10] * 20 + [90], ["p"] * 40 + ["q"] * 40 + ["r"]
    settings = SETTINGS.model_copy(update={"thresholds": [0.6, 0.9]})
    result = similarity_floor(snapshot_of([f"t{n}" for n in angles], at_degrees(*angles), sources=sources), settings)
    (cell,) = result.summary["floor"]["by_source_pair"]
    assert (cell["sources"], cell["n"]) == (["p", "q"], 1600)
    near, far = np.cos(np.radians(10)), 0.5
    assert cell["mean"] == pytest.approx((near + far) / 2, abs=1e-7)
    assert cell["p99.9"] == pytest.approx(near, abs=1e-7)
    assert [(share["threshold"], share["value"], share["n"]) for share in cell["shares"]] == [
        (0.6, 0.5, 1600),
        (0.9, 0.5, 1600),
    ]
    assert cell["shares"][0]["low"] < 0.5 < cell["shares"][0]["high"]
    # p x p and q x q have 780 pairs, r x r none, p x r and q x r 40.
    assert result.summary["floor"]["source_pairs_left_out"] == 5
    found = values(result.tables["similarity_floor"], "p x q")
    assert found["p50"] == pytest.approx((near + far) / 2, abs=1e-7)
    assert (found["max"], found[share_name(0.9)]) == (pytest.approx(near, abs=1e-7), 0.5)
    assert set(result.tables["similarity_floor"]["scope"].to_pylist()) == {
        "all",
        "all_unlike",
        "across_sources",
        "across_sources_unlike",
        "p x q",
    }


def test_within_a_source_and_large_cells_are_drawn():
    # p x p: rows at 0 and 40 degrees, half of the pairs (2 x 100 x 99 / 2 of 19,900) at cosine 1.
    angles = [0, 40] * 100 + [90] * 200
    snapshot = snapshot_of([f"t{n}" for n in range(400)], at_degrees(*angles), sources=["p"] * 200 + ["q"] * 200)
    cells = {
        tuple(cell["sources"]): cell for cell in similarity_floor(snapshot, SETTINGS).summary["floor"]["by_source_pair"]
    }
    # 200 x 200 pairs are more than 200 x 199 / 2, and ties stand by name.
    assert list(cells) == [("p", "q"), ("p", "p"), ("q", "q")]
    assert {cell["n"] for cell in cells.values()} == {10_000}
    shares = {pair: cell["shares"][0]["value"] for pair, cell in cells.items()}
    assert shares[("p", "q")] == 0
    assert shares[("q", "q")] == 1
    # Five standard deviations of 10,000 draws are .025.
    assert shares[("p", "p")] == pytest.approx(9900 / 19900, abs=0.025)


def test_of_very_many_sources_the_largest_fifty_pairs_are_measured():
    # 120 sources of 40 to 159 rows would have 7,260 cells; the largest is that of the two largest sources.
    sources = [f"s{n:03}" for n in range(120) for _ in range(40 + n)]
    vectors = np.random.default_rng(2).standard_normal((len(sources), 2))
    snapshot = snapshot_of([f"t{row}" for row in range(len(sources))], vectors, sources=sources)
    floor = similarity_floor(snapshot, SETTINGS).summary["floor"]
    size = {f"s{n:03}": 40 + n for n in range(120)}
    cells = [(a, b) for a in size for b in size if a <= b]
    pairs = {(a, b): size[a] * (size[a] - 1) // 2 if a == b else size[a] * size[b] for a, b in cells}
    expected = sorted(cells, key=lambda cell: (-pairs[cell], cell))[:50]
    assert [tuple(cell["sources"]) for cell in floor["by_source_pair"]] == expected
    assert floor["source_pairs_left_out"] == 7260 - 50


def test_pairs_of_sources_in_different_roles_are_not_measured():
    snapshot = snapshot_of(
        [f"t{n}" for n in range(80)],
        at_degrees(*range(80)),
        sources=["p"] * 40 + ["q"] * 40,
        batches=["x"] * 40 + ["y"] * 40,
    )
    result = similarity_floor(snapshot, SETTINGS, {"x": "passage", "y": "query"})
    (cell,) = result.summary["floor"]["by_source_pair"]
    assert (cell["n"], cell["mean"], cell["p99.9"], cell["shares"][0]["value"]) == (0, None, None, None)
    assert "p x q" not in result.tables["similarity_floor"]["scope"].to_pylist()


def test_random_pairs_are_uniform_and_never_of_one_row_with_itself():
    a, b = random_pairs(np.arange(5), 4, np.random.default_rng(0))
    assert len(a) == 4
    a, b = random_pairs(np.arange(400), 60_000, np.random.default_rng(0))
    assert np.all(a != b)
    assert abs(np.mean(a) - 199.5) < 2
    assert abs(np.mean(b) - 199.5) < 2


def test_every_pair_across_groups_is_drawn_equally_often():
    group = np.array([0, 0, 0, 1, 2, 2])
    a, b = random_pairs_across(np.arange(6), group, 110_000, np.random.default_rng(0))
    assert np.all(group[a] != group[b])
    counts = np.bincount(np.minimum(a, b) * 6 + np.maximum(a, b))
    counts = counts[counts > 0]
    # 3 x 1 + 3 x 2 + 1 x 2 = 11 pairs, 10,000 each: five standard deviations are 480.
    assert len(counts) == 11
    assert np.all(np.abs(counts - 10_000) < 480)


def test_one_source_has_no_pairs_across_sources_and_no_vectors_no_floor():
    snapshot = snapshot_of(["a", "b"], at_degrees(0, 10))
    assert values(similarity_floor(snapshot, SETTINGS).tables["similarity_floor"], "across_sources") == {}
    empty = similarity_floor(snapshot_of(["a", "b"]), SETTINGS)
    assert len(empty.tables["similarity_floor"]) == 0
    assert empty.summary["floor"] == {
        "mean": None,
        "p50": None,
        "p90": None,
        "p99": None,
        "p99.9": None,
        "max": None,
        "n": 0,
        "unlike": {"p99.9": None, "n": 0, "left_out": 0},
        "by_source_pair": [],
        "source_pairs_left_out": 0,
    }


def test_another_row_order_gives_the_same_floor():
    snapshot = snapshot_of([f"t{row}" for row in range(300)], around(0.5, 300, 8), sources=["p", "q", "q"] * 100)
    settings = SETTINGS.model_copy(update={"floor_pairs": 1000})
    tables = [
        similarity_floor(table, settings).tables["similarity_floor"] for table in (snapshot, shuffled(snapshot, 3))
    ]
    assert tables[0].equals(tables[1])


def recommended_of(snapshot, settings=SETTINGS):
    floor = similarity_floor(snapshot, settings)
    nothing = schemas.CANDIDATE_PAIRS.empty_table(), schemas.NEIGHBOUR_REACH.empty_table()
    swept = threshold_sweep(snapshot, nothing[0], floor.tables["similarity_floor"], nothing[1], settings)
    return floor.summary["floor"], swept.summary["recommended"]


def test_copies_among_random_pairs_do_not_raise_the_limit_of_a_provisional_threshold():
    generator = np.random.default_rng(8)
    texts, vectors = [words_of(generator, 30) for _ in range(200)], around(0.5, 200, 30)
    settings = SETTINGS.model_copy(update={"thresholds": [0.8, 0.9, 0.99, 0.9999]})
    clean, told = recommended_of(snapshot_of(texts, vectors), settings)
    # All 200 x 199 / 2 pairs, none of them a copy: the limit is the floor's own.
    assert clean["unlike"] == {"p99.9": clean["p99.9"], "n": 19_900, "left_out": 0}
    assert clean["p99.9"] < 0.8
    assert (told["threshold"], told["provisional"]) == (0.8, True)
    # Forty texts thrice: in capitals, and with a word at the end. 40 x 3 pairs of 280 x 279 / 2 are copies.
    texts += [text.upper() for text in texts[:40]] + [f"{text} end" for text in texts[:40]]
    planted, told = recommended_of(snapshot_of(texts, np.concatenate((vectors, vectors[:40], vectors[:40]))), settings)
    assert planted["p99.9"] == pytest.approx(1.0, abs=1e-6)
    assert (planted["n"], planted["unlike"]["n"], planted["unlike"]["left_out"]) == (39_060, 38_940, 120)
    assert planted["unlike"]["p99.9"] == pytest.approx(clean["p99.9"], abs=0.02)
    assert (told["threshold"], told["provisional"]) == (0.8, True)


def test_texts_are_read_on_where_the_most_similar_pairs_are_all_copies():
    # 120 times one text, and 20 others at right angles to it: 7,140 pairs of copies before the first that is none.
    texts = ["one and the same text"] * 120 + [f"other {n}" for n in range(20)]
    floor, told = recommended_of(snapshot_of(texts, at_degrees(*[0] * 120, *range(60, 80))))
    assert floor["unlike"]["left_out"] == 7140
    assert floor["unlike"]["n"] == 140 * 139 // 2 - 7140 == 2590
    assert (told["threshold"], told["provisional"]) == (None, False)
    assert "too few pairs for a floor: 2,590 random pairs without the copies, and it takes 3,000" in told["reason"]


def test_the_p999_of_pairs_that_are_no_copies_needs_three_over_it():
    # 77 x 78 / 2 is 3,003 pairs and 76 x 77 / 2 is 2,926.
    for rows, enough in ((78, True), (77, False)):
        texts = [words_of(np.random.default_rng(n), 20) for n in range(rows)]
        told = recommended_of(snapshot_of(texts, around(0.5, rows, 30)))[1]
        assert (told["threshold"] is not None) == told["provisional"] == enough
