"""The three runs on random vectors, held against a few lines of plain numpy that share no code with them."""

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline.corpus.sentences import HELD_OUT
from audit_pipeline.index.exact import TIE_TOLERANCE
from audit_pipeline.retrieval.held_out import run_held_out
from audit_pipeline.retrieval.labelled import run_labelled
from audit_pipeline.retrieval.self_retrieval import run_self_retrieval
from audit_pipeline_tests.retrieval.test_labelled import labels
from audit_pipeline_tests.retrieval.worlds import chunk_table, column, plan, settings, snapshot

N, D = 150, 6
IDS = [f"c{i:03}" for i in range(N)]
ROWS = chunk_table(IDS, [f"note {i * 7919 % 1000} about subject {i * 104729 % 5000} {i}" for i in range(N)])


@pytest.fixture(params=["cosine", "dot", "l2"])
def metric(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def scores_of(queries: np.ndarray, vectors: np.ndarray, metric: str) -> np.ndarray:
    queries, vectors = queries.astype(np.float64), vectors.astype(np.float64)
    if metric == "dot":
        return np.array([[query @ vector for vector in vectors] for query in queries])
    if metric == "l2":
        return np.array([[-np.sum((query - vector) ** 2) for vector in vectors] for query in queries])
    return np.array([[query @ v / np.linalg.norm(query) / np.linalg.norm(v) for v in vectors] for query in queries])


def world(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of which a tenth are copies of others, and queries near them."""
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(N, D))
    vectors[: N // 10] = vectors[N // 2 : N // 2 + N // 10]
    return vectors.astype(np.float32), (vectors + generator.normal(scale=0.6, size=(N, D))).astype(np.float32)


def test_self_retrieval(metric: str):
    vectors, queries = world(1)
    result = run_self_retrieval(snapshot(ROWS, vectors, metric=metric), plan(ROWS), queries, ROWS, settings())
    scores = scores_of(queries, vectors, metric)
    own = scores.diagonal()[:, None]
    rank_min = 1 + (scores > own + TIE_TOLERANCE).sum(axis=1)
    rank_max = (scores >= own - TIE_TOLERANCE).sum(axis=1)
    order = np.argsort(-np.round(scores, 9), axis=1, kind="stable")
    returned = np.array([list(order[i]).index(i) + 1 for i in range(N)])
    table = result.tables["self_retrieval"]
    assert table["rank_min"].to_pylist() == rank_min.tolist()
    assert table["rank_max"].to_pylist() == rank_max.tolist()
    assert result.summary["self@1"]["value"] == pytest.approx(np.mean(returned == 1))
    assert result.summary["self@10"]["value"] == pytest.approx(np.mean(returned <= 10))
    assert result.summary["self@1_lenient"]["value"] == pytest.approx(np.mean(rank_min == 1))
    assert result.summary["self@1_unique"]["value"] == pytest.approx(np.mean(rank_max == 1))
    assert np.allclose(table["score"].to_numpy(), own[:, 0], atol=1e-9)
    assert sum(result.summary["causes"].values()) == np.sum(returned != 1)


def test_held_out(metric: str):
    vectors, queries = world(2)
    bodies = np.roll(vectors, 1, axis=1) * 0.2 + vectors
    sampled = np.arange(0, N, 3)
    rows = [
        {"chunk_id": IDS[i], "eligible": True, "reason": None, "held": f"query {i}", "body": f"b {i}", "sentences": 3}
        for i in sampled
    ]
    result = run_held_out(
        snapshot(ROWS, vectors, metric=metric),
        plan(ROWS.take(pa.array(sampled))),
        pa.Table.from_pylist(rows, schema=HELD_OUT),
        queries[sampled],
        bodies[sampled],
        settings(),
    )
    haystack = vectors.copy()
    haystack[sampled] = bodies[sampled]
    scores = scores_of(queries[sampled], haystack, metric)
    own = scores[np.arange(len(sampled)), sampled][:, None]
    rank_min = 1 + (scores > own + TIE_TOLERANCE).sum(axis=1)
    assert result.tables["held_out_retrieval"]["rank_min"].to_pylist() == rank_min.tolist()
    assert result.summary["heldout@1"]["value"] == pytest.approx(np.mean(rank_min == 1))
    assert result.summary["heldout@10"]["value"] == pytest.approx(np.mean(rank_min <= 10))


def test_labelled(metric: str):
    vectors, queries = world(3)
    generator = np.random.default_rng(4)
    wanted = {f"q{i:02}": sorted(generator.choice(N, generator.integers(1, 5), replace=False)) for i in range(40)}
    made = labels(
        {query: f"words of {query}" for query in wanted},
        [(query, IDS[chunk], 1) for query, chunks in wanted.items() for chunk in chunks],
    )
    result = run_labelled(snapshot(ROWS, vectors, metric=metric), made, queries[:40], settings())
    scores = scores_of(queries[:40], vectors, metric)
    best = np.argsort(-np.round(scores, 9), axis=1, kind="stable")[:, :10]
    recall = [len(set(best[i]) & set(chunks)) / len(chunks) for i, chunks in enumerate(wanted.values())]
    table = result.tables["labelled_retrieval"]
    assert list(column(table, "recall_10", "query_id").values()) == pytest.approx(recall)
    assert result.summary["labelled_recall@10"]["value"] == pytest.approx(np.mean(recall))
    assert result.summary["labelled_success@10"]["value"] == pytest.approx(np.mean(np.array(recall) > 0))
    assert sum(result.summary["causes"].values()) == np.sum(np.array(recall) == 0)
