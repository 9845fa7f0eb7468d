"""What the error of an object store means, in words."""

from __future__ import annotations

import pytest

from audit_pipeline.index.connection import store_reason


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("IO { source: Http(HttpError { kind: Connect, source: reqwest }) }", "nothing answers at its endpoint"),
        ("uri: Some(http://169.254.169.254/latest/api/token), kind: Connect", "no credentials were found"),
        ("<Code>InvalidAccessKeyId</Code>", "the credentials are refused"),
        ("Status { status: 403, body: None }", "the credentials are refused"),
        ("<Code>NoSuchBucket</Code>", "there is no such bucket"),
        ("Something else\nwith a page of it", "Something else"),
    ],
)
def test_what_an_object_stores_error_means(error: str, reason: str) -> None:
    assert store_reason(ValueError(error)) == reason
