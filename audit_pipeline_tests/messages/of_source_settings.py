"""Mistakes in the attributes that name the sources. What the files of a source hold wrongly stands in of_sources.py."""

# ruff: noqa: E501

from __future__ import annotations

from audit_pipeline_tests.messages.attributes import ENCODER, NAME, STANDS, Mistake, cases

MISTAKES: list[Mistake] = [
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
        "managed without sources",
        NAME + ENCODER,
        "sources: a managed index needs at least one: add it, or set index.managed to false",
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
        "options of an object store for a folder",
        NAME
        + ENCODER
        + "  sources: [{name: s, uri: docs, format: markdown, storage_options: {aws_secret_access_key: marked}}]\n",
        "sources.0: 'storage_options' belongs to an object store (s3://, gs://, az://): remove it or correct the uri",
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
]

CASES = cases(MISTAKES)
