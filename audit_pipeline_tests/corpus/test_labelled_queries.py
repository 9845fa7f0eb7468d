import json
from pathlib import Path

import pyarrow as pa

from audit_pipeline.corpus.labelled_queries import from_see_also, read_labelled_queries
from audit_pipeline.corpus.see_also import see_also_queries

CHUNKS = pa.table(
    {
        "chunk_id": ["1", "2", "3"],
        "doc_id": ["a", "a", None],
        "text": ["Bears sleep\nin CAVES.", "Wolves hunt.", "Naïve foxes dig."],
    }
)


def jsonl(path: Path, *rows: dict) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_beir_judgements_that_point_nowhere_are_counted_and_not_used(tmp_path: Path) -> None:
    queries = jsonl(
        tmp_path / "q.jsonl",
        {"_id": "q1", "text": "bears"},
        {"_id": 2, "text": "wolves"},
        {"_id": "q3", "text": "only judged irrelevant"},
        {"_id": "q4", "text": " "},
    )
    qrels = tmp_path / "qrels.tsv"
    qrels.write_text(
        "query-id\tcorpus-id\tscore\nq1\t1\t2\nq1\t3\t0\nq1\t99\t1\n2\t2\t1\nq3\t1\t-1\nq9\t1\t1\nq1\t2\thigh\n"
    )
    labels = read_labelled_queries(queries, qrels, CHUNKS)
    assert labels.queries.to_pylist() == [{"query_id": "2", "text": "wolves"}, {"query_id": "q1", "text": "bears"}]
    assert labels.qrels.to_pylist() == [
        {"query_id": "2", "chunk_id": "2", "relevance": 1},
        {"query_id": "q1", "chunk_id": "1", "relevance": 2},
        {"query_id": "q1", "chunk_id": "3", "relevance": 0},
    ]
    assert labels.invalid == {
        "bad_score": 1, "empty_query": 1, "no_relevant_chunk": 1, "unknown_chunk": 1, "unknown_query": 1,
    }  # fmt: skip


def test_one_file_points_by_chunk_document_or_passage(tmp_path: Path) -> None:
    queries = jsonl(
        tmp_path / "q.jsonl",
        {"query": "by chunk", "chunk_id": ["1", 3]},
        {"query": "by document", "doc_id": "a"},
        {"query": "by passage", "contains": "sleep in caves", "_id": "p"},
        {"query": "by passage with accents", "contains": "NAÏVE  foxes"},
        {"query": "nowhere", "contains": "tigers", "doc_id": "z"},
    )
    labels = read_labelled_queries(queries, None, CHUNKS)
    text_of = dict(zip(labels.queries["query_id"].to_pylist(), labels.queries["text"].to_pylist(), strict=True))
    found = sorted((text_of[row["query_id"]], row["chunk_id"]) for row in labels.qrels.to_pylist())
    assert found == [
        ("by chunk", "1"), ("by chunk", "3"), ("by document", "1"), ("by document", "2"), ("by passage", "1"),
        ("by passage with accents", "3"),
    ]  # fmt: skip
    assert {name for name, text in text_of.items() if text == "by passage"} == {"p"}
    assert labels.invalid == {"contained_nowhere": 1, "no_relevant_chunk": 1, "unknown_document": 1}


def test_a_query_without_an_id_has_the_name_of_its_text_wherever_it_stands(tmp_path: Path) -> None:
    first = {"query": "where do bears sleep", "chunk_id": 1.0}
    alone = read_labelled_queries(jsonl(tmp_path / "a.jsonl", first), None, CHUNKS)
    (name,) = alone.queries["query_id"].to_pylist()
    again = {"query": "where do bears sleep", "chunk_id": "2"}
    after = jsonl(tmp_path / "b.jsonl", {"query": "another", "chunk_id": "3"}, first, again)
    labels = read_labelled_queries(after, None, CHUNKS)
    judged = [row["chunk_id"] for row in labels.qrels.to_pylist() if row["query_id"] == name]
    assert judged == ["1", "2"]  # lines of one text count together
    assert labels.invalid == {}


def test_half_a_point_is_relevant(tmp_path: Path) -> None:
    queries = jsonl(tmp_path / "q.jsonl", {"_id": "q", "text": "bears"})
    qrels = tmp_path / "q.tsv"
    qrels.write_text("q\t1\t0.5\nq\t2\t0\n", encoding="utf-8")
    judged = read_labelled_queries(queries, qrels, CHUNKS).qrels.to_pylist()
    assert [(row["chunk_id"], row["relevance"]) for row in judged] == [("1", 1), ("2", 0)]


def test_see_also_descriptions_become_queries_with_one_answer() -> None:
    rows = pa.table(
        {
            "chunk_id": ["s:m.f", "s:m.g"],
            "source": ["s", "s"],
            "doc_id": ["m", "m"],
            "heading": ["f", "g"],
            "text": ["F.\n\nSee Also\n--------\ng : Do the other thing.\nh : Not in here.\n", "G."],
        }
    )
    found = see_also_queries(rows)
    labels = from_see_also(found)
    assert labels.qrels.to_pylist() == [{"query_id": "see_also:s:m.g#1", "chunk_id": "s:m.g", "relevance": 1}]
    assert labels.queries["text"].to_pylist() == ["Do the other thing."]
    assert labels.invalid == {}
    assert found.unresolved == 1
