"""Credentials in URIs are found, and no text shows them; what only looks like them is left."""

from __future__ import annotations

import pytest

from audit_pipeline.errors import AuditInputError, reason_of
from audit_pipeline.index.connection import first_line
from audit_pipeline.uris import holds_credentials, without_credentials

SHOWN = {
    "az://cont/p?sv=1&sig=MARKED": "az://cont/p?sv=***&sig=***",
    "s3://b/p?X-Amz-Signature=MARKED": "s3://b/p?X-Amz-Signature=***",
    "s3://user:pa/MARKED@host/b": "s3://***@host/b",
    "s3://user:MARKED@bucket/lance": "s3://***@bucket/lance",
    "https://host/v1?token=MARKED==&x": "https://host/v1?token=***&x",
}


@pytest.mark.parametrize(("uri", "shown"), SHOWN.items())
def test_a_uri_with_credentials_is_known_and_shown_without(uri: str, shown: str) -> None:
    assert holds_credentials(uri)
    assert without_credentials(uri) == shown


@pytest.mark.parametrize("uri", SHOWN)
def test_no_error_repeats_them_and_the_sentence_around_them_stays(uri: str) -> None:
    text = f"index.uri: {uri} cannot be opened ('{uri}', {uri}): check {uri}"
    for told in (str(AuditInputError(text)), reason_of(OSError(text)), first_line(OSError(text))):
        assert "MARKED" not in told
        assert told == f"index.uri: {SHOWN[uri]} cannot be opened ('{SHOWN[uri]}', {SHOWN[uri]}): check {SHOWN[uri]}"


@pytest.mark.parametrize(
    "uri",
    [
        "folder/user:word@x",
        "s3://bucket/tables",
        "s3://bucket/part-?.parquet",
        "s3://bucket/?/key=1/*.parquet",
        "http://127.0.0.1:9000/bucket/me@host",
        "abfss://container@account.dfs.core.windows.net/lance",
        "az://container/lance?versionId=3",
    ],
)
def test_an_address_without_credentials_is_none(uri: str) -> None:
    assert not holds_credentials(uri)


@pytest.mark.parametrize("text", ["a // b?c=d@e", "s3://bucket/part-?.parquet: no file", "10 rows, 3 columns"])
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert without_credentials(text) == text
