import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline import schemas
from audit_pipeline.retrieval.labelled import run_labelled
from audit_pipeline.retrieval.miss import Fidelity
from audit_pipeline_tests.retrieval.worlds import axes, chunk_table, column, on_circle, settings, snapshot


@dataclass(frozen=True)
class Labels:
    queries: pa.Table
    qrels: pa.Table
    invalid: dict[str, int] = field(default_factory=dict)


def labels(queries: dict[str, str], judged: list[tuple[str, str, int]], **invalid: int) -> Labels:
    return Labels(
        pa.table({"query_id": pa.array(queries, pa.string()), "text": pa.array(queries.values(), pa.string())}),
        pa.table(
            {
                "query_id": pa.array([q for q, _, _ in judged], pa.string()),
                "chunk_id": pa.array([c for _, c, _ in judged], pa.string()),
                "relevance": pa.array([r for _, _, r in judged], pa.int32()),
            }
        ),
        invalid,
    )


IDS = [f"c{i:02}" for i in range(14)]
WORDS = "amber birch cedar delta ember fjord grove heath inlet jetty knoll lagoon marsh north".split()
TEXTS = [
    f"{word} {WORDS[(i * 5 + 3) % 14]} stands in chapter {WORDS[(i * 3 + 1) % 14]}" for i, word in enumerate(WORDS)
]
CIRCLE = on_circle(*range(0, 42, 3))  # chunk i lies at 3 i degrees


def run(made: Labels, queries: np.ndarray, **options: Any) -> Any:
    rows = chunk_table(IDS, TEXTS)
    return run_labelled(
        snapshot(rows, CIRCLE, lose=options.pop("lose", None)),
        made,
        queries,
        options.pop("with_settings", settings()),
        **options,
    )


def test_success_and_recall_worked_out_by_hand():
    # From 0 degrees the ten nearest are c00 .. c09. q1: 2 of its 4 relevant; q2: none of 1; q3: its only one.
    made = labels(
        {"q1": "one", "q2": "two", "q3": "three"},
        [
            ("q1", "c01", 1),
            ("q1", "c09", 2),
            ("q1", "c10", 1),
            ("q1", "c12", 1),
            ("q2", "c13", 1),
            ("q3", "c04", 1),
            ("q3", "c05", 0),
        ],
    )
    result = run(made, on_circle(0, 0, 0))
    table = result.tables["labelled_retrieval"]
    assert column(table, "recall_10", "query_id") == {"q1": 0.5, "q2": 0.0, "q3": 1.0}
    assert column(table, "success_10", "query_id") == {"q1": True, "q2": False, "q3": True}
    assert column(table, "relevant", "query_id") == {"q1": 4, "q2": 1, "q3": 1}  # relevance 0 is not relevant
    assert column(table, "answer_id", "query_id") == {"q1": "c01", "q2": "c13", "q3": "c04"}
    assert column(table, "rank_returned", "query_id") == {"q1": 2, "q2": None, "q3": 5}
    assert column(table, "rank_min", "query_id") == {"q1": 2, "q2": 14, "q3": 5}
    assert result.summary["labelled_success@10"]["value"] == pytest.approx(2 / 3)
    assert result.summary["labelled_recall@10"]["value"] == pytest.approx(0.5)
    assert result.summary["exact_recall@10"]["value"] == pytest.approx(0.5)
    assert result.summary["n"] == 3
    assert result.summary["causes"] == {"encoder": 1}


def test_what_the_search_loses_parts_the_returned_figure_from_the_exact_one():
    made = labels({"q1": "one"}, [("q1", "c00", 1), ("q1", "c01", 1)])
    result = run(made, on_circle(0), lose=lambda query, row: row in (0, 1))
    assert result.summary["labelled_success@10"]["value"] == 0.0
    assert result.summary["exact_success@10"]["value"] == 1.0
    assert result.summary["labelled_recall@10"]["value"] == 0.0
    assert result.summary["exact_recall@10"]["value"] == 1.0
    assert result.summary["causes"] == {"ann_miss": 1}


def test_other_relevant_chunks_are_not_what_stands_in_the_way():
    # Thirteen chunks lie ahead of c13, all but the last of them relevant too: the query succeeds, and none is a winner.
    made = labels({"q1": "one"}, [("q1", chunk_id, 1) for chunk_id in IDS[1:]])
    result = run(made, on_circle(0))
    table = result.tables["labelled_retrieval"]
    assert column(table, "best_other_id", "query_id") == {"q1": "c00"}
    assert column(table, "recall_10", "query_id") == {"q1": pytest.approx(9 / 13)}


def test_a_word_search_finds_the_answer_where_it_finds_any_of_them():
    """c11 is the closest answer by its vector; c13, another answer, is the text that the query quotes."""

    def evidence(*relevant: str) -> dict[str, Any]:
        made = labels({"q1": TEXTS[13]}, [("q1", chunk_id, 1) for chunk_id in relevant])
        table = run(made, on_circle(0)).tables["labelled_retrieval"]
        assert table["answer_id"].to_pylist() == ["c11"]
        return json.loads(table["evidence"][0].as_py())

    assert evidence("c11")["lexical_rank"] > 1
    assert evidence("c11", "c13").items() >= {"lexical_rank": 1, "lexical_finds_it": True}.items()


def test_a_word_search_leaves_out_the_rows_that_the_filter_hides():
    ids = [*IDS, "c14"]
    rows = chunk_table(ids, [*TEXTS[:13], "the south is warm and wide", "south south"])
    made = labels({"q1": "south"}, [("q1", "c13", 1)])

    def rank(passes: np.ndarray | None) -> int:
        table = snapshot(rows, on_circle(*range(0, 45, 3)), passes_filter=passes)
        result = run_labelled(table, made, on_circle(0), settings()).tables["labelled_retrieval"]
        return json.loads(result["evidence"][0].as_py())["lexical_rank"]

    every = rank(None)
    hiding = np.ones(15, bool)
    hiding[14] = False
    assert (every, rank(hiding)) == (2, 1)


def test_queries_that_stand_word_for_word_in_the_answer_are_shown_apart():
    made = labels(
        {"easy": TEXTS[0].upper() + "!", "hard": "something else", "part": "mber birch"},
        [("easy", "c00", 1), ("hard", "c13", 1), ("part", "c00", 1)],
    )
    result = run(made, on_circle(0, 0, 0))
    assert column(result.tables["labelled_retrieval"], "verbatim", "query_id") == {
        "easy": True,
        "hard": False,
        "part": False,
    }
    assert result.summary["verbatim"] == 1
    assert result.summary["labelled_success@10"]["value"] == pytest.approx(2 / 3)
    assert result.summary["without_verbatim"]["labelled_success@10"]["value"] == 0.5
    assert result.summary["without_verbatim"]["n"] == 2


def test_with_fewer_than_ten_rows_asked_for_only_the_exact_figures_are_given():
    made = labels({"q1": "one"}, [("q1", "c04", 1)])
    result = run(made, on_circle(0), with_settings=settings(index={"search": {"limit": 5}}))
    assert result.summary["labelled_success@10"] is None
    assert result.summary["labelled_recall@10"] is None
    assert result.summary["exact_success@10"]["value"] == 1.0
    assert result.tables["labelled_retrieval"]["success_10"].null_count == 1


def test_an_answer_that_the_table_lacks_is_a_missing_row():
    made = labels({"q1": "one"}, [("q1", "gone", 1)])
    result = run(made, on_circle(0))
    assert result.summary["causes"] == {"missing_row": 1}
    assert column(result.tables["labelled_retrieval"], "rank_min", "query_id") == {"q1": None}


def test_labels_that_point_nowhere_are_counted_and_found():
    made = labels({"q1": "one"}, [("q1", "c00", 1)], unknown_chunk=3)
    result = run(made, on_circle(0))
    (finding,) = result.findings
    assert (finding.code, finding.severity, finding.n_compared, finding.share) == ("labels_invalid", "warning", 4, 0.75)
    assert result.summary["invalid"] == {"unknown_chunk": 3}
    assert run(labels({"q1": "one"}, [("q1", "c00", 1)]), on_circle(0)).findings == []


def test_strata_of_the_answer_come_from_the_population_where_it_is_given():
    population = chunk_table(["c00"], ["x"], sources=["handbook"]).append_column("length_band", pa.array(["128-255"]))
    made = labels({"q1": "one"}, [("q1", "c00", 1)])
    table = run(made, on_circle(0), population=population).tables["labelled_retrieval"]
    assert (table["source"][0].as_py(), table["length_band"][0].as_py()) == ("handbook", "128-255")
    own = run(made, on_circle(0)).tables["labelled_retrieval"]
    assert (own["source"][0].as_py(), own["length_band"][0].as_py()) == ("a", "0-39")


def test_no_query_is_not_measured():
    result = run(labels({}, []), np.zeros((0, 2), np.float32))
    assert result.summary["n"] == 0
    assert result.summary["labelled_success@10"] == {"value": None, "low": None, "high": None, "n": 0}


def test_tables_conform_to_their_schemas_and_keep_the_users_query_ids():
    made = labels({"q2": "two", "q1": "one"}, [("q2", "c00", 1), ("q1", "c01", 2)])
    result = run(made, on_circle(0, 3))
    assert result.tables["labelled_retrieval"].schema == schemas.LABELLED_RETRIEVAL
    assert result.tables["labelled_retrieval"]["query_id"].to_pylist() == ["q1", "q2"]
    assert result.tables["qrels"].to_pylist() == [
        {"run": "labelled", "query_id": "q1", "chunk_id": "c01", "relevance": 2},
        {"run": "labelled", "query_id": "q2", "chunk_id": "c00", "relevance": 1},
    ]
    assert result.tables["retrieved"].num_rows == 20


def test_ties_do_not_take_more_than_ten_places():
    rows = chunk_table(IDS, TEXTS)
    made = labels({"q1": "one"}, [("q1", chunk_id, 1) for chunk_id in IDS])
    result = run_labelled(snapshot(rows, np.tile(axes(2)[0], (14, 1))), made, axes(2)[:1], settings())
    assert result.summary["exact_recall@10"]["value"] == pytest.approx(10 / 14)
    assert result.summary["labelled_recall@10"]["value"] == pytest.approx(10 / 14)


def test_a_query_without_relevant_judgement_is_refused():
    with pytest.raises(ValueError, match="'q1' has no relevant judgement"):
        run(labels({"q1": "one"}, [("q1", "c00", 0)]), on_circle(0))


def test_with_judge_answers_a_missed_answer_that_the_writers_cut_shortened_is_truncated():
    # c13 lies at 39 degrees, behind ten others of a query at 0; its whole text would lie at 1.
    made = labels({"q": "one"}, [("q", "c13", 1)])
    judged = Fidelity({"c13": ("faithful", "the first 64 tokens")}, {"c13": on_circle(1)[0]})
    for judge_answers, cause in ((True, "truncated"), (False, "encoder")):
        result = run(made, on_circle(0), fidelity=lambda ids: judged, judge_answers=judge_answers)
        assert column(result.tables["labelled_retrieval"], "cause", "query_id") == {"q": cause}
