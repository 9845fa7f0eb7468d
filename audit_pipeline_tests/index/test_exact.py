import numpy as np
import pytest

from audit_pipeline.index import exact, haystack
from audit_pipeline.index.exact import ExactSearch
from audit_pipeline_tests.index.builders import unit_vectors

METRICS = ("cosine", "dot", "l2")


def by_hand(query: np.ndarray, vectors: np.ndarray, metric: str) -> np.ndarray:
    """float64 scores of one query, row by row."""
    q, rows = query.astype(float), vectors.astype(float)
    if metric == "dot":
        return np.array([float(np.dot(row, q)) for row in rows])
    if metric == "l2":
        return np.array([-float(np.sum((row - q) ** 2)) for row in rows])
    return np.array([float(np.dot(row, q) / (np.linalg.norm(row) * np.linalg.norm(q) or 1.0)) for row in rows])


def corpus_with_ties(scale: bool) -> np.ndarray:
    vectors = unit_vectors(600, 24)
    vectors[100:180] = vectors[7]  # exact copies
    noise = np.random.default_rng(1).normal(size=(30, 24)).astype(np.float32)
    vectors[200:230] = vectors[3] + 1e-5 * noise  # ties within the tolerance
    vectors[230:260] = vectors[3] + 1e-3 * noise  # near, but no ties
    if scale:
        vectors[300:] *= np.random.default_rng(2).uniform(0.2, 5, size=(300, 1)).astype(np.float32)
    return vectors


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("block", [(4096, 512), (64, 7)])
def test_ranks_agree_with_brute_force_in_float64(
    metric: str, scale: bool, block: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(haystack, "_ROWS_PER_BLOCK", block[0])
    monkeypatch.setattr(exact, "_QUERIES_PER_BLOCK", block[1])
    vectors = corpus_with_ties(scale)
    searchable = np.ones(600, dtype=bool)
    searchable[[5, 130, 205, 599]] = False
    answers = np.array([7, 150, 3, 210, 240, 5, 400, 599, -1, 20, 301, 302])
    queries = vectors[answers] + np.where(np.arange(12) < 6, 0, 0.3)[:, None] * unit_vectors(12, 24, seed=9)
    queries = queries.astype(np.float32)

    found = ExactSearch(vectors, searchable, metric).ranks(queries, answers, k=5)

    for i, answer in enumerate(answers):
        scores = by_hand(queries[i], vectors, metric)
        scores[~searchable] = -np.inf
        best = np.sort(scores)[::-1][:5]
        np.testing.assert_allclose(found.top_scores[i], best, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(scores[found.top_rows[i]], best, rtol=1e-9, atol=1e-11)
        if answer < 0 or not searchable[answer]:
            assert (found.rank_min[i], found.rank_max[i]) == (-1, -1)
            assert np.isnan(found.score[i])
            continue
        others = np.delete(scores, answer)
        assert found.rank_min[i] == 1 + np.sum(others > scores[answer] + 1e-6)
        assert found.rank_max[i] == 1 + np.sum(others >= scores[answer] - 1e-6)
        assert found.score[i] == pytest.approx(scores[answer], abs=1e-12)
    assert found.scored_rows == searchable.sum() == 596


def test_three_equal_rows_share_the_ranks_one_to_three_and_stand_in_row_order() -> None:
    vectors = unit_vectors(50)
    vectors[[10, 20, 30]] = vectors[10]
    found = ExactSearch(vectors, np.ones(50, dtype=bool), "cosine").ranks(vectors[[20]], np.array([20]), k=3)
    assert (found.rank_min[0], found.rank_max[0]) == (1, 3)
    assert found.top_rows[0].tolist() == [10, 20, 30]


@pytest.mark.parametrize("metric", METRICS)
def test_a_corpus_of_one_text_gives_the_first_rows_and_the_widest_interval(metric: str) -> None:
    vectors = np.repeat(unit_vectors(1, 32), 9000, axis=0)
    found = ExactSearch(vectors, np.ones(9000, dtype=bool), metric).ranks(vectors[:3], np.array([0, 4000, 8999]))
    assert found.rank_min.tolist() == [1, 1, 1]
    assert found.rank_max.tolist() == [9000, 9000, 9000]
    assert found.top_rows.tolist() == [list(range(10))] * 3


def test_a_body_stands_in_for_its_row_and_the_row_itself_is_not_scored() -> None:
    vectors = np.eye(4, dtype=np.float32)
    search = ExactSearch(vectors, np.ones(4, dtype=bool), "cosine")
    sentence = np.array([[1, 0, 0, 0]], dtype=np.float32)
    body = np.array([[1, 1, 0, 0]], dtype=np.float32)
    found = search.ranks(sentence, np.array([0]), k=4, override=(np.array([0]), body))
    assert found.score[0] == pytest.approx(np.sqrt(0.5))
    assert found.top_scores[0, 0] == pytest.approx(np.sqrt(0.5))
    assert found.scored_rows == 4
    assert vectors[0].tolist() == [1, 0, 0, 0]


def test_an_override_makes_a_broken_row_searchable_and_a_zero_body_takes_a_row_out() -> None:
    vectors = np.eye(4, dtype=np.float32)
    searchable = np.array([True, False, True, True])
    search = ExactSearch(vectors, searchable, "cosine")
    bodies = np.array([[0, 1, 0, 0], [0, 0, 0, 0]], dtype=np.float32)
    found = search.ranks(vectors[[1, 2]], np.array([1, 2]), override=(np.array([1, 2]), bodies))
    assert found.rank_min.tolist() == [1, -1]
    assert found.scored_rows == 3
    assert searchable.tolist() == [True, False, True, True]


def test_dropped_rows_are_not_scored() -> None:
    vectors = np.eye(4, dtype=np.float32)
    search = ExactSearch(vectors, np.ones(4, dtype=bool), "dot")
    found = search.ranks(vectors[[0]], np.array([0]), k=2, drop=np.array([0, 3]))
    assert found.rank_min[0] == -1
    assert found.top_rows[0].tolist() == [1, 2]
    assert found.scored_rows == 2


def test_fewer_rows_than_k_are_padded() -> None:
    vectors = np.eye(3, dtype=np.float32)
    found = ExactSearch(vectors, np.ones(3, dtype=bool), "cosine").ranks(vectors[[1]], np.array([1]), k=5)
    assert found.top_rows[0].tolist() == [1, 0, 2, -1, -1]
    assert found.top_scores[0].tolist() == [1, 0, 0, -np.inf, -np.inf]


def test_queries_without_direction_or_with_broken_values_find_nothing() -> None:
    vectors = np.eye(3, dtype=np.float32)
    queries = np.array([[0, 0, 0], [np.nan, 0, 1], [np.inf, 0, 0], [0, 0, 2]], dtype=np.float32)
    found = ExactSearch(vectors, np.ones(3, dtype=bool), "cosine").ranks(queries, np.array([0, 0, 0, 2]), k=1)
    assert found.rank_min.tolist() == [-1, -1, -1, 1]
    assert found.top_rows.ravel().tolist() == [-1, -1, -1, 2]


def test_long_vectors_do_not_overflow() -> None:
    vectors = (unit_vectors(50) * 1e20).astype(np.float32)
    for metric in ("dot", "l2"):
        found = ExactSearch(vectors, np.ones(50, dtype=bool), metric).ranks(vectors[[9]], np.array([9]), k=1)
        assert found.rank_min[0] == 1


def test_scores_of_given_rows() -> None:
    vectors = np.array([[3, 4], [0, 2], [5, 0]], dtype=np.float32)
    searchable = np.array([True, True, False])
    query = np.array([[0, 1]], dtype=np.float32)
    rows = np.array([[1, 0, 2, -1]])
    expected = {"cosine": [1, 0.8], "dot": [2, 4], "l2": [-1, -18]}
    for metric, scores in expected.items():
        found = ExactSearch(vectors, searchable, metric).scores(query, rows)[0]
        np.testing.assert_allclose(found[:2], scores)
        assert np.isnan(found[2:]).all()


def test_shapes_that_do_not_fit_are_refused() -> None:
    search = ExactSearch(np.eye(3, dtype=np.float32), np.ones(3, dtype=bool), "cosine")
    with pytest.raises(ValueError, match="do not fit"):
        search.ranks(np.ones((1, 4), dtype=np.float32))
    with pytest.raises(ValueError, match="unknown metric"):
        ExactSearch(np.eye(3, dtype=np.float32), np.ones(3, dtype=bool), "hamming")
    with pytest.raises(ValueError, match="overridden twice"):
        search.ranks(np.eye(3, dtype=np.float32), override=(np.array([1, 1]), np.ones((2, 3), dtype=np.float32)))
