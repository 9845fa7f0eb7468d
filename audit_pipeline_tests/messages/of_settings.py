"""Mistakes in the attributes of a settings file. What is no settings file at all stands in of_project.py."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from audit_pipeline.settings_file import check_label_files, load_settings
from audit_pipeline_tests.messages.case import Case, World, settings_file

NAME = "  name: handbook\n"
SOURCES = "  sources: [{name: api, uri: api.jsonl, format: jsonl}]\n"
ENCODER = "  encoder: {model: some-model}\n"
GOOD = NAME + SOURCES + ENCODER
STANDS = NAME + "  encoder: {kind: none}\n"

# (what is wrong, the attributes, what the sentence says after the file's name)
MISTAKES = [
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
        "two sources of one name",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: jsonl}, {name: a, uri: y, format: csv}]\n",
        "sources: 'a' is named twice: give each source one entry",
    ),
    (
        "a column that is no chunk field",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: jsonl, columns: {chunkid: id}}]\n",
        "sources.0.columns: 'chunkid' is no chunk field (did you mean 'chunk_id'?); use one of chunk_id, text, source, ingestion_date, doc_id, heading, position",
    ),
    (
        "a vector column in a source",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: jsonl, columns: {vector: v}}]\n",
        "sources.0.columns: 'vector' is no chunk field; use one of chunk_id, text, source, ingestion_date, doc_id, heading, position",
    ),
    (
        "no column of ids in a source",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: jsonl, columns: {chunk_id: null}}]\n",
        "sources.0.columns: 'chunk_id' cannot be null: name its column, a source store needs it",
    ),
    (
        "an empty list of columns in a source",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: jsonl, columns: {chunk_id: []}}]\n",
        "sources.0.columns: 'chunk_id' cannot be this list: name one column, or several for chunk_id, source, doc_id, heading",
    ),
    (
        "packages of a source that has none",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: jsonl, packages: [p]}]\n",
        "sources.0: 'packages' belongs to format docstrings: remove it or change the format",
    ),
    (
        "lengths of Markdown chunks for rows of jsonl",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: jsonl, markdown: {words: 100}}]\n",
        "sources.0: 'markdown' belongs to format markdown: remove it or change the format",
    ),
    (
        "a column of Markdown files",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: markdown, columns: {heading: title}}]\n",
        "sources.0: 'columns' of format markdown names the date in the front matter alone: remove 'heading', "
        "which comes from the file",
    ),
    (
        "an overlap as long as the chunks",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: markdown, markdown: {words: 50, overlap: 50}}]\n",
        "sources.0.markdown: an overlap of 50 in chunks of 50 words: lower it",
    ),
    (
        "a format that cannot be read",
        NAME + ENCODER + "  sources: [{name: a, uri: x, format: xml}]\n",
        "sources.0.format: Input should be 'parquet', 'jsonl', 'csv', 'lance', 'markdown' or 'docstrings', got 'xml'",
    ),
    (
        "an encoder without a model",
        NAME + SOURCES + "  encoder: {kind: sentence_transformers}\n",
        "encoder: kind sentence_transformers needs 'model': name a model, or set kind to none",
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
        "managed without sources",
        NAME + ENCODER,
        "sources: a managed index needs at least one: add it, or set index.managed to false",
    ),
    (
        "managed without an encoder",
        NAME + SOURCES + "  encoder: {kind: none}\n",
        "encoder: a managed index needs one: name its kind, or set index.managed to false",
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
        "as it stands without uri",
        STANDS + "  index: {managed: false, table: docs}\n",
        "index: an index as it stands (managed: false) needs 'uri' and 'table': name both",
    ),
    (
        "as it stands without table",
        STANDS + "  index: {managed: false, uri: lance}\n",
        "index: an index as it stands (managed: false) needs 'uri' and 'table': name both",
    ),
    (
        "a list for a column that is one",
        STANDS + "  index: {managed: false, uri: l, table: t, columns: {text: [a, b]}}\n",
        "index.columns: 'text' cannot be this list: name one column, or several for chunk_id, source, doc_id, heading",
    ),
    (
        "no column of vectors",
        STANDS + "  index: {managed: false, uri: l, table: t, columns: {vector: null}}\n",
        "index.columns: 'vector' cannot be null: name the column of the vectors",
    ),
    (
        "a server without its address",
        NAME + SOURCES + "  encoder: {kind: openai_compatible, model: m}\n",
        "encoder: kind openai_compatible needs 'base_url', an http(s) address without user, query or fragment and with a number as its port: write it as https://api.openai.com/v1",
    ),
    (
        "a server's address that holds a password",
        NAME + SOURCES + "  encoder: {kind: openai_compatible, model: m, base_url: 'https://me:secret@host/v1'}\n",
        "encoder: kind openai_compatible needs 'base_url', an http(s) address without user, query or fragment and with a number as its port: write it as https://api.openai.com/v1",
    ),
    (
        "a server's address with a query",
        NAME + SOURCES + "  encoder: {kind: openai_compatible, model: m, base_url: 'https://host/v1?key=1'}\n",
        "encoder: kind openai_compatible needs 'base_url', an http(s) address without user, query or fragment and with a number as its port: write it as https://api.openai.com/v1",
    ),
    (
        "a server's address whose port is no number",
        NAME + SOURCES + "  encoder: {kind: openai_compatible, model: m, base_url: 'http://host:marked/v1'}\n",
        "encoder: kind openai_compatible needs 'base_url', an http(s) address without user, query or fragment and with a number as its port: write it as https://api.openai.com/v1",
    ),
    (
        "a server without a model",
        NAME + SOURCES + "  encoder: {kind: openai_compatible, base_url: 'https://host/v1'}\n",
        "encoder: kind openai_compatible needs 'model': name a model, or set kind to none",
    ),
    (
        "a server's address for a model that runs here",
        NAME + SOURCES + "  encoder: {model: m, base_url: 'https://host/v1'}\n",
        "encoder: 'base_url' belongs to kind openai_compatible: remove it or change the kind",
    ),
    (
        "a server's setting for a model that runs here",
        NAME + SOURCES + "  encoder: {model: m, retries: 3}\n",
        "encoder: 'retries' belongs to kind openai_compatible: remove it or change the kind",
    ),
    (
        "a request's own field in the further ones",
        NAME
        + SOURCES
        + "  encoder: {kind: openai_compatible, model: m, base_url: 'https://h/v1', query_extra: {model: x}}\n",
        "encoder: 'query_extra' may not hold 'model': remove it, the request has it from elsewhere",
    ),
    (
        "a key in the settings",
        NAME
        + SOURCES
        + "  encoder: {kind: openai_compatible, model: m, base_url: 'https://h/v1', passage_extra: {api_key: sk-1}}\n",
        "encoder: 'passage_extra' may not hold 'api_key': set the key in the environment (encoder.api_key_env)",
    ),
    (
        "all tables as one managed index",
        GOOD + "  index: {table: '*'}\n",
        "index.table: a managed index is one table: give it a name instead of '*'",
    ),
    (
        "all tables against sources",
        NAME + SOURCES + "  encoder: {kind: none}\n  index: {managed: false, uri: l, table: '*'}\n",
        "index.table: '*' cannot be compared with sources: audit each table with its own sources",
    ),
    (
        "a filter over all tables",
        STANDS + "  index: {managed: false, uri: l, table: '*', filter: a = 1}\n",
        "index.table: over several tables ('*') every search is exact, without 'filter': remove it, or audit each table by itself",
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
        "nothing but retired sources",
        NAME + ENCODER + "  sources: [{name: api, uri: api.jsonl, format: jsonl, retired: true}]\n",
        "sources: all of them are retired: add one that is not, or set index.managed to false",
    ),
    (
        "a retired source of a table of others",
        STANDS
        + "  index: {managed: false, uri: l, table: t}\n"
        + "  sources: [{name: api, uri: api.jsonl, format: jsonl, retired: true}]\n",
        "sources: 'retired' belongs to a managed index: remove the entry, or set it to false",
    ),
    (
        "a credential that is no string is not repeated",
        GOOD + "  index: {storage_options: {aws_secret_access_key: 12345}}\n",
        "index.storage_options.aws_secret_access_key: Input should be a valid string",
    ),
    (
        "options of an object store for a folder",
        NAME
        + ENCODER
        + "  sources: [{name: s, uri: docs, format: markdown, storage_options: {aws_secret_access_key: marked}}]\n",
        "sources.0: 'storage_options' belongs to an object store (s3://, gs://, az://): remove it or correct the uri",
    ),
    (
        "a signature in the address of the table",
        STANDS + "  index: {managed: false, table: t, uri: 'az://cont/p?sv=1&sig=marked'}\n",
        "index.uri: it holds credentials, which messages would repeat: set them under 'storage_options' or in the environment",
    ),
    (
        "a signed address of the table",
        STANDS + "  index: {managed: false, table: t, uri: 's3://b/p?X-Amz-Signature=marked'}\n",
        "index.uri: it holds credentials, which messages would repeat: set them under 'storage_options' or in the environment",
    ),
    (
        "a password with a slash in the address of the table",
        STANDS + "  index: {managed: false, table: t, uri: 's3://user:pa/marked@host/b'}\n",
        "index.uri: it holds credentials, which messages would repeat: set them under 'storage_options' or in the environment",
    ),
    (
        "a signature in the address of a source",
        NAME + ENCODER + "  sources: [{name: s, uri: 'az://cont/p?sv=1&sig=marked', format: csv}]\n",
        "sources.0: 'uri' holds credentials, which messages would repeat: set them under 'storage_options' or in the environment",
    ),
    (
        "credentials in the address of a source",
        NAME + ENCODER + "  sources: [{name: s, uri: 's3://me:marked@bucket/docs', format: csv}]\n",
        "sources.0: 'uri' holds credentials, which messages would repeat: set them under 'storage_options' or in the environment",
    ),
    (
        "a long value is shortened",
        GOOD + "  sample: {total: '" + "word " * 200 + "'}\n",
        "sample.total: Input should be a valid integer, unable to parse string as an integer, got 'word word word word word word word word word word word word word word [...]",
    ),
    (
        "an unknown column of the index",
        STANDS + "  index: {managed: false, uri: l, table: t, columns: {txt: body}}\n",
        "index.columns: 'txt' is no chunk field (did you mean 'text'?); use one of chunk_id, text, source, ingestion_date, doc_id, heading, position, vector",
    ),
]


def attributes(text: str) -> Callable[[World], object]:
    """The cause that is a settings file with these attributes."""
    return settings_file(f"type: audit_pipeline.IndexAudit\nattributes:\n{text}")


def absent_labels(world: World) -> None:
    text = f"type: audit_pipeline.IndexAudit\nattributes:\n{GOOD}  labels: {{pairs: pairs.csv}}\n"
    check_label_files(load_settings(Path(world.write("defs.yaml", text))))


CASES = [
    *(Case(wrong, attributes(text), f"FOLDER/defs.yaml: {told}") for wrong, text, told in MISTAKES),
    Case(
        "a file of labels that is not there",
        absent_labels,
        "labels.pairs: there is no file FOLDER/pairs.csv: correct the path or remove the field",
    ),
]
