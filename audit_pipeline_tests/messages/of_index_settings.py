"""Mistakes in the attributes that name the index and its table. What the table holds wrongly stands in of_index.py."""

# ruff: noqa: E501

from __future__ import annotations

from audit_pipeline_tests.messages.attributes import GOOD, NAME, SOURCES, STANDS, Mistake, cases

MISTAKES: list[Mistake] = [
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
        "a credential that is no string is not repeated",
        GOOD + "  index: {storage_options: {aws_secret_access_key: 12345}}\n",
        "index.storage_options.aws_secret_access_key: Input should be a valid string",
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
        "an unknown column of the index",
        STANDS + "  index: {managed: false, uri: l, table: t, columns: {txt: body}}\n",
        "index.columns: 'txt' is no chunk field (did you mean 'text'?); use one of chunk_id, text, source, ingestion_date, doc_id, heading, position, vector",
    ),
]

CASES = cases(MISTAKES)
