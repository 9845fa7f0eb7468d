"""Mistakes in the attributes of a settings file. Those in what sources, encoder and index name stand in files of theirs.

What is no settings file at all stands in of_project.py.
"""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

from audit_pipeline.settings_file import check_label_files, load_settings
from audit_pipeline_tests.messages.attributes import ENCODER, GOOD, NAME, SOURCES, STANDS, Mistake, cases
from audit_pipeline_tests.messages.case import Case, World

MISTAKES: list[Mistake] = [
    (
        "unknown field at the top, with a suggestion",
        GOOD + "  limts: {self_at_1: 0.9}\n",
        "limts: unknown field (did you mean 'limits'?); remove it or use one of name, start_date, …",
    ),
    (
        "unknown field in a section, with a suggestion",
        GOOD + "  sample: {totl: 5}\n",
        "sample.totl: unknown field (did you mean 'total'?); remove it or use one of per_batch, total, …",
    ),
    (
        "unknown field two sections down, with a suggestion",
        GOOD + "  index: {search: {nprobe: 5}}\n",
        "index.search.nprobe: unknown field (did you mean 'nprobes'?); remove it or use one of limit, nprobes, …",
    ),
    (
        "unknown field of a source, with a suggestion",
        NAME + ENCODER + "  sources: [{name: api, url: api.jsonl, uri: api.jsonl, format: jsonl}]\n",
        "sources.0.url: unknown field (did you mean 'uri'?); remove it or use one of name, uri, …",
    ),
    (
        "a field of another section, named with it",
        NAME + ENCODER + "  sources: [{name: api, uri: api.jsonl, format: jsonl, history: wait}]\n",
        "sources.0.history: unknown field (it belongs to another section: write it as automation.history); "
        "remove it or use one of name, uri, …",
    ),
    (
        "a field of two other sections, named with both",
        GOOD + "  uri: /db\n",
        "uri: unknown field (it belongs to another section: write it as sources[].uri or index.uri); "
        "remove it or use one of name, start_date, …",
    ),
    (
        "unknown field unlike any other",
        GOOD + "  zzz: 1\n",
        "zzz: unknown field; remove it or use one of name, start_date, …",
    ),
    (
        "a required field misspelt is told as such, and not as missing",
        NAME + SOURCES + "  encodr: {model: some-model}\n",
        "encodr: unknown field (did you mean 'encoder'?); remove it or use one of name, start_date, … (1 more)",
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
        "sample: this should be a section with fields of its own, got 100",
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
    (
        "fewer queries than none for other search settings",
        GOOD + "  sample: {ann_sweep: -1}\n",
        "sample.ann_sweep: Input should be greater than or equal to 0, got -1",
    ),
    (
        "a name that is none: Handbook",
        "  name: 'Handbook'\n" + SOURCES + ENCODER,
        "name: 'Handbook' is no index name: use lower-case letters, digits and '-', at most 63",
    ),
    (
        "a name that is none: hand_book",
        "  name: 'hand_book'\n" + SOURCES + ENCODER,
        "name: 'hand_book' is no index name: use lower-case letters, digits and '-', at most 63",
    ),
    (
        "a name that is none: -handbook",
        "  name: '-handbook'\n" + SOURCES + ENCODER,
        "name: '-handbook' is no index name: use lower-case letters, digits and '-', at most 63",
    ),
    (
        "a name that is empty",
        "  name: ''\n" + SOURCES + ENCODER,
        "name: '' is no index name: use lower-case letters, digits and '-', at most 63",
    ),
    (
        "a name that is none: a b",
        "  name: 'a b'\n" + SOURCES + ENCODER,
        "name: 'a b' is no index name: use lower-case letters, digits and '-', at most 63",
    ),
    (
        "a name that is none: a/b",
        "  name: 'a/b'\n" + SOURCES + ENCODER,
        "name: 'a/b' is no index name: use lower-case letters, digits and '-', at most 63",
    ),
    (
        "a name that is none: 64 letters",
        "  name: '" + "x" * 64 + "'\n" + SOURCES + ENCODER,
        "name: '" + "x" * 64 + "' is no index name: use lower-case letters, digits and '-', at most 63",
    ),
    (
        "an owner that Dagster does not take",
        GOOD + "  owners: [search@example.org, search-team]\n",
        "owners: 'search-team' is no owner that Dagster takes: write an e-mail address or 'team:NAME'",
    ),
    (
        "see_also without docstrings",
        GOOD + "  labels: {see_also: true}\n",
        "labels.see_also: no source has the format docstrings: add one, or set it to false",
    ),
    (
        "judgements without queries",
        GOOD + "  labels: {qrels: q.tsv}\n",
        "labels: 'qrels' without 'queries': name the file with the query texts as well",
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
        "a sweep of one threshold twice",
        GOOD + "  duplicates: {thresholds: [0.9, 0.9]}\n",
        "duplicates.thresholds: a sweep takes at least two different thresholds, not 0.9 alone: add another",
    ),
    (
        "a query role without an encoder",
        STANDS + "  index: {managed: false, uri: l, table: t}\n  duplicates: {regime: query}\n",
        "duplicates.regime: 'query' needs an encoder for the query role: name its kind, or set it to stored",
    ),
    (
        "second vectors of nothing",
        GOOD + "  duplicates: {second: {}}\n",
        "duplicates.second: neither 'vector' nor 'passage_prompt': name the column, or the prompt to encode under",
    ),
    (
        "a second column of a managed table",
        GOOD + "  duplicates: {second: {vector: symmetric}}\n",
        "duplicates.second: a managed index has no second column: remove 'vector', the audit encodes the texts under 'passage_prompt'",
    ),
    (
        "a second column that is the first",
        STANDS + "  index: {managed: false, uri: l, table: t}\n  duplicates: {second: {vector: vector}}\n",
        "duplicates.second: 'vector' is the first vector's column: name another one",
    ),
    (
        "second vectors to encode without an encoder",
        STANDS + "  index: {managed: false, uri: l, table: t}\n  duplicates: {second: {passage_prompt: 'q: '}}\n",
        "duplicates.second: without 'vector' an encoder is needed: name its kind, or the column",
    ),
    (
        "second vectors under the prompt of the first",
        GOOD + "  duplicates: {second: {passage_prompt: ''}}\n",
        "duplicates.second: 'passage_prompt' is that of the encoder, so both vectors are one: name another",
    ),
    (
        "a time zone that there is not",
        GOOD + "  timezone: America\n",
        "timezone: 'America' is no time zone: write one such as Europe/Berlin",
    ),
    (
        "a cron schedule in words",
        GOOD + "  automation: {audit_cron: every day}\n",
        "automation.audit_cron: 'every day' is no cron schedule: write five fields such as '0 5 * * *'",
    ),
    (
        "a cron schedule of four fields",
        GOOD + "  automation: {audit_cron: 5 * * *}\n",
        "automation.audit_cron: '5 * * *' is no cron schedule: write five fields such as '0 5 * * *'",
    ),
    (
        "a time zone of the schedule that there is not",
        GOOD + "  automation: {timezone: Mars/Olympus}\n",
        "automation.timezone: 'Mars/Olympus' is no time zone: write one such as Europe/Berlin",
    ),
    (
        "a long value is shortened",
        GOOD + "  sample: {total: '" + "word " * 200 + "'}\n",
        "sample.total: Input should be a valid integer, unable to parse string as an integer, got 'word word word word word word word word word word word word word word [...]",
    ),
]


def absent_labels(world: World) -> None:
    text = f"type: audit_pipeline.IndexAudit\nattributes:\n{GOOD}  labels: {{pairs: pairs.csv}}\n"
    check_label_files(load_settings(Path(world.write("defs.yaml", text))))


CASES = [
    *cases(MISTAKES),
    Case(
        "a file of labels that is not there",
        absent_labels,
        "labels.pairs: there is no file FOLDER/pairs.csv: correct the path or remove the field",
    ),
]
