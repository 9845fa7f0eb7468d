import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline import schemas
from audit_pipeline.corpus.sentences import HELD_OUT
from audit_pipeline.results import StageResult
from audit_pipeline.retrieval.held_out import held_out_hits, run_held_out
from audit_pipeline.retrieval.miss import Fidelity
from audit_pipeline_tests.retrieval.worlds import axes, chunk_table, column, on_circle, plan, settings, snapshot

IDS = ["a", "b", "c"]
TEXTS = ["Valves open slowly in winter.", "Ships leave the harbour at dawn.", "Choirs sing on the old stairs."]


def held_table(entries: list[tuple[str, str | None, str | None]]) -> pa.Table:
    """(chunk_id, held sentence or None, body or reason)."""
    rows = [
        {
            "chunk_id": chunk_id,
            "eligible": held is not None,
            "reason": None if held is not None else rest,
            "held": held,
            "body": rest if held is not None else None,
            "sentences": 3,
        }
        for chunk_id, held, rest in entries
    ]
    return pa.Table.from_pylist(rows, schema=HELD_OUT)


ALL = held_table([(chunk_id, f"Sentence of {chunk_id} alone.", f"Body of {chunk_id}.") for chunk_id in IDS])


def run(
    vectors: np.ndarray,
    held: pa.Table,
    sentences: np.ndarray,
    bodies: np.ndarray,
    texts: list[str] = TEXTS,
    **more: Any,
) -> StageResult:
    rows = chunk_table(IDS, texts)
    made = snapshot(more.get("rows", rows), vectors)
    return run_held_out(made, more.get("plan", plan(rows)), held, sentences, bodies, settings())


def test_a_sentence_is_scored_against_bodies_in_the_place_of_their_rows():
    # The whole chunk of a lies at its sentence; its body at 50 degrees, while c's body stays at 40: rank 2.
    result = run(on_circle(0, 120, 40), ALL, on_circle(0, 120, 40), on_circle(50, 120, 40))
    table = result.tables["held_out_retrieval"]
    assert column(table, "rank_min") == {"a": 2, "b": 1, "c": 1}
    assert column(table, "hit_1") == {"a": False, "b": True, "c": True}
    assert column(table, "score")["a"] == pytest.approx(np.cos(np.deg2rad(50)), abs=1e-7)
    assert column(table, "best_other_id")["a"] == "c"
    assert result.summary["heldout@1"] == pytest.approx({"value": 2 / 3, "low": 2 / 3, "high": 2 / 3, "n": 3})
    assert result.summary["heldout@10"]["value"] == 1.0
    assert (result.summary["n"], result.summary["eligible"], result.summary["haystack"]) == (3, 3, 3)


def test_a_missed_body_that_the_writers_cut_shortened_is_truncated_where_all_of_it_would_hit():
    def run_with(whole: np.ndarray) -> tuple[str | None, list[list[str]]]:
        asked: list[list[str]] = []

        def uncut(chunk_ids: list[str]) -> Fidelity:
            asked.append(chunk_ids)
            return Fidelity({"b": ("faithful", "the first 64 tokens")}, {"b": whole})

        ids = ["b", *(f"c{i:02}" for i in range(12))]
        words = [f"{chr(97 + i) * 5} stands alone {i}" for i in range(13)]
        made = snapshot(chunk_table(ids, words), on_circle(90, *range(12)))
        held = held_table([("b", "Sentence of b alone.", "Body of b.")])
        probes = plan(chunk_table(["b"], words[:1]))
        result = run_held_out(made, probes, held, on_circle(0), on_circle(45), settings(), uncut=uncut)
        return column(result.tables["held_out_retrieval"], "cause")["b"], asked

    assert run_with(on_circle(0.5)[0]) == ("truncated", [["b"]])
    assert run_with(on_circle(44)[0])[0] == "encoder"


def test_only_sampled_rows_are_replaced_and_the_rest_of_the_index_competes():
    held = held_table([("a", "Sentence of a alone.", "Body of a.")])
    result = run(on_circle(0, 20, 40), held, on_circle(30), on_circle(90), plan=plan(chunk_table(["a"], TEXTS[:1])))
    table = result.tables["held_out_retrieval"]
    assert column(table, "rank_min") == {"a": 3}
    assert result.summary["haystack"] == 3


def test_a_sentence_that_stands_in_another_row_is_shown_apart_hit_or_miss():
    # a hits, b hits; the sentence of a stands in the text of c as well.
    texts = [TEXTS[0], TEXTS[1], "Before. Sentence of  A alone. After."]
    held = held_table(
        [
            ("a", "Sentence of a alone.", "Body."),
            ("b", "Sentence of b alone.", "Body."),
            ("c", None, "too_few_sentences"),
        ]
    )
    result = run(on_circle(0, 120, 40), held, on_circle(0, 120), on_circle(0, 120), texts)
    table = result.tables["held_out_retrieval"]
    assert column(table, "overlap") == {"a": True, "b": False, "c": None}
    assert result.summary["overlap"] == 1
    assert result.summary["n"] == 1
    assert result.summary["heldout@1"]["n"] == 1
    assert result.summary["overlapping_heldout@1"]["value"] == 1.0
    assert set(result.tables["qrels"]["query_id"].to_pylist()) == {"heldout:b"}


def test_the_body_of_a_sampled_row_is_what_it_shows_to_other_sentences():
    # The whole text of c holds a's sentence, but c is sampled too and its body does not.
    texts = [TEXTS[0], TEXTS[1], "Before. Sentence of a alone."]
    held = held_table(
        [("a", "Sentence of a alone.", "Body."), ("b", None, "x"), ("c", "Before it all.", "Nothing of the kind.")]
    )
    result = run(on_circle(0, 120, 40), held, on_circle(0, 40), on_circle(0, 40), texts)
    assert column(result.tables["held_out_retrieval"], "overlap") == {"a": False, "b": None, "c": False}


def test_chunks_that_cannot_be_held_out_are_counted_with_their_reason_and_not_scored():
    held = held_table([("a", None, "too_few_sentences"), ("b", "Sentence of b alone.", "Body.")])
    result = run(axes(3), held, axes(3)[1:2], axes(3)[1:2])
    table = result.tables["held_out_retrieval"]
    assert column(table, "eligible") == {"a": False, "b": True, "c": False}
    assert column(table, "ineligible_reason") == {"a": "too_few_sentences", "b": None, "c": "not_looked_at"}
    assert column(table, "hit_10") == {"a": None, "b": True, "c": None}
    assert result.summary["ineligible"] == {"not_looked_at": 1, "too_few_sentences": 1}
    assert result.summary["eligible_share"]["value"] == pytest.approx(1 / 3)


def test_a_chunk_that_the_table_lacks_is_not_eligible():
    rows = chunk_table(["a", "b"], TEXTS[:2])
    result = run(axes(3)[:2], ALL, axes(3), axes(3), rows=rows)
    table = result.tables["held_out_retrieval"]
    assert column(table, "ineligible_reason")["c"] == "missing_row"
    assert result.summary["n"] == 2


def test_nothing_eligible_is_not_measured():
    held = held_table([(chunk_id, None, "too_few_sentences") for chunk_id in IDS])
    result = run(axes(3), held, np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32))
    assert result.summary["n"] == 0
    assert result.summary["heldout@10"] == {"value": None, "low": None, "high": None, "n": 0}
    assert result.tables["held_out_retrieval"].num_rows == 3


def test_an_empty_plan_is_not_measured():
    result = run(
        axes(3),
        ALL.slice(0, 0),
        np.zeros((0, 3), np.float32),
        np.zeros((0, 3), np.float32),
        plan=plan(chunk_table([], [])),
    )
    assert (result.summary["n"], result.summary["eligible"]) == (0, 0)


def crowd(n: int) -> tuple[list[str], list[str], np.ndarray]:
    """n chunks, the first of which is crowded out: eleven or more others lie between its sentence and its body."""
    ids = [f"c{i:02}" for i in range(n)]
    words = "amber birch cedar delta ember fjord grove heath inlet jetty knoll lagoon marsh north ocean".split()
    texts = [f"{words[i]} {words[(i * 4 + 1) % 15]} {words[(i * 7 + 2) % 15]} chapter {i}." for i in range(n)]
    return ids, texts, on_circle(*range(0, 3 * n, 3))


def test_a_miss_outside_ten_is_the_encoders_and_a_crowd_of_twins_is_twins():
    ids, texts, vectors = crowd(14)
    held = held_table([("c00", "Something entirely else asks here.", "Rest.")])
    probe_plan = plan(chunk_table(ids[:1], texts[:1]))

    def cause(texts: list[str]) -> tuple[str, dict[str, Any]]:
        made = snapshot(chunk_table(ids, texts), vectors)
        table = run_held_out(made, probe_plan, held, on_circle(0), on_circle(60), settings()).tables[
            "held_out_retrieval"
        ]
        assert table["rank_min"].to_pylist() == [14]
        return table["cause"][0].as_py(), json.loads(table["evidence"][0].as_py())

    assert cause(texts)[0] == "encoder"
    assert cause(texts)[1]["winner"] == "c01"
    name, evidence = cause([f"notice number {i} of the same office" for i in range(14)])
    assert (name, evidence["group"], evidence["numeric"]) == ("twin", 14, True)


def test_a_word_search_is_asked_for_the_body_as_the_vectors_are():
    """The rows' own texts hold their sentences: there a word search would find every answer, and say nothing."""
    ids, texts, vectors = crowd(14)
    sentence = "Something entirely else asks here."
    made = snapshot(chunk_table(ids, [f"{texts[0]} {sentence}", *texts[1:]]), vectors)

    def evidence(body: str) -> dict[str, Any]:
        held = held_table([("c00", sentence, body)])
        probes = plan(chunk_table(ids[:1], texts[:1]))
        table = run_held_out(made, probes, held, on_circle(0), on_circle(60), settings()).tables["held_out_retrieval"]
        return json.loads(table["evidence"][0].as_py())

    assert evidence(texts[0]).items() >= {"lexical_rank": None, "lexical_finds_it": False}.items()
    assert evidence("Here is the rest.").items() >= {"lexical_rank": 1, "lexical_finds_it": True}.items()


def test_rankings_recompute_to_the_figures():
    ids, texts, vectors = crowd(14)
    held = held_table([(chunk_id, f"A question to {chunk_id} alone.", "Rest.") for chunk_id in ids])
    rows = chunk_table(ids, texts)
    generator = np.random.default_rng(3)
    queries = on_circle(*(np.arange(0, 42, 3) + generator.normal(0, 4, 14)))
    result = run_held_out(snapshot(rows, vectors), plan(rows), held, queries, vectors, settings())
    retrieved, qrels = result.tables["retrieved"], result.tables["qrels"]
    ranks = {
        (query, chunk): rank
        for query, chunk, rank in zip(
            *(retrieved[n].to_pylist() for n in ("query_id", "chunk_id", "rank")), strict=True
        )
    }
    found = [
        ranks.get(pair, 99) for pair in zip(qrels["query_id"].to_pylist(), qrels["chunk_id"].to_pylist(), strict=True)
    ]
    assert np.mean(np.array(found) <= 1) == pytest.approx(result.summary["heldout@1"]["value"])
    assert np.mean(np.array(found) <= 10) == pytest.approx(result.summary["heldout@10"]["value"])
    assert 0 < result.summary["heldout@1"]["value"] < 1


def test_the_order_of_the_held_table_does_not_matter():
    forward = run(on_circle(0, 120, 40), ALL, on_circle(0, 120, 40), on_circle(50, 120, 40))
    order = [2, 0, 1]
    turned = run(on_circle(0, 120, 40), ALL.take(order), on_circle(40, 0, 120), on_circle(40, 50, 120))
    for name, schema in (("held_out_retrieval", schemas.HELD_OUT_RETRIEVAL), ("retrieved", schemas.RETRIEVED)):
        assert forward.tables[name].schema == schema
        assert forward.tables[name].equals(turned.tables[name])


def test_vectors_that_do_not_belong_to_the_eligible_chunks_are_refused():
    with pytest.raises(ValueError, match="2 sentences, 3 bodies, 3 eligible"):
        run(axes(3), ALL, axes(3)[:2], axes(3))


@pytest.mark.parametrize("metric", ["dot", "l2"])
def test_bodies_are_as_long_as_the_rows_they_stand_for(metric: str):
    """Rows of length 2.5 in the plane, bodies and sentences of length 1: ranks are those of the angles."""
    degrees = np.arange(0, 42, 3)
    ids = [f"c{i:02}" for i in range(14)]
    rows = chunk_table(ids, [f"text {name}" for name in ids])
    made = snapshot(rows, 2.5 * on_circle(*degrees), metric=metric)
    held = held_table([(name, f"Sentence of {name} alone.", f"Body of {name}.") for name in ids[:2]])
    sentences, bodies = on_circle(0, 3), on_circle(1, 40)
    result = run_held_out(made, plan(rows), held, sentences, bodies, settings())
    table = column(result.tables["held_out_retrieval"], "rank_min")
    # The body of c00 is nearest; that of c01, 37 degrees away, stands behind all but the last row (36 degrees).
    assert (table["c00"], table["c01"]) == (1, 14)
    assert result.summary["scaled_bodies"] == 2
    hits = held_out_hits(made, held["chunk_id"], {"query": sentences}, bodies)
    assert hits["query"].tolist() == [True, False]
