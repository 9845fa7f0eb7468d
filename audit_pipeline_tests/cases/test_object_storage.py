"""A table in an object store: proposed and audited where it lies, with credentials that are written down nowhere."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import lancedb
import numpy as np
import pyarrow as pa
import pytest
import yaml
from lancedb.index import IvfFlat
from moto.server import ThreadedMotoServer
from typer.testing import CliRunner

from audit_pipeline.cli import app
from audit_pipeline.encoder.models import Encoder
from audit_pipeline_tests.cases.command import findings, run_command
from audit_pipeline_tests.encoder.planted import docstrings
from audit_pipeline_tests.index.builders import lists

ROWS = 60
KEY, SECRET, SESSION = "AKIAXEMARKEDXKEY", "markedSecretQ7zzPassphrase", "markedSessionToken55"
BUCKET = "s3://vectors/db"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def environment(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a user of the AWS tools has in the environment; LanceDB reads it by itself."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": SESSION,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT": endpoint,
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="module")
def options(endpoint: str) -> dict[str, str]:
    return {
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_session_token": SESSION,
        "aws_region": "us-east-1",
        "aws_endpoint": endpoint,
        "allow_http": "true",
    }


@pytest.fixture(scope="module")
def bucket(endpoint: str, options: dict[str, str], fast_encoder: Encoder) -> Any:
    """The bucket with the table docs in it."""
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
    )
    client.create_bucket(Bucket="vectors")
    texts = docstrings("rich", ROWS)
    rows = {"chunk_id": [f"c{i}" for i in range(ROWS)], "text": texts, "vector": lists(fast_encoder.encode(texts))}
    # A request that a busy machine sends twice finds the table that the first one made.
    database = lancedb.connect(BUCKET, storage_options=options)
    table = database.create_table("docs", pa.table(rows), mode="overwrite")
    table.create_index("vector", config=IvfFlat(distance_type="l2", num_partitions=1))
    return client


def objects(client: Any) -> dict[str, str]:
    listed = client.list_objects_v2(Bucket="vectors")["Contents"]
    return {one["Key"]: one["ETag"] for one in listed}


def assert_nowhere(folder: Path, *secrets: str) -> None:
    """No file below the folder, whatever its kind, holds one of the secrets."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    assert len(paths) > 10
    held = [(path, secret) for path in paths for secret in secrets if secret.encode() in path.read_bytes()]
    assert held == []


@pytest.mark.page
@pytest.mark.usefixtures("environment")
def test_the_environment_is_enough_to_inspect_and_audit_a_bucket(
    tmp_path: Path, bucket: Any, fast_encoder: Encoder, caplog: pytest.LogCaptureFixture
) -> None:
    before = objects(bucket)
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, logger="botocore")  # the test's own client
    printed = CliRunner().invoke(app, ["inspect", BUCKET])
    assert printed.exit_code == 0
    settings = yaml.safe_load(printed.stdout)
    assert settings["attributes"]["index"]["uri"] == BUCKET
    model = f"encoder: {{model: {fast_encoder.files.folder}}}"
    config = tmp_path / "defs.yaml"
    config.write_text(printed.stdout.replace("encoder: {kind: none}", model), encoding="utf-8")
    code, audit = run_command(config, tmp_path / "state")
    assert (code, findings(audit, "error", "warning")) == (0, set())
    assert (audit["index"]["uri"], audit["index"]["rows"], audit["index"]["index_type"]) == (BUCKET, ROWS, "IVF_FLAT")
    assert audit["self_retrieval"]["self@1"]["value"] == 1
    assert objects(bucket) == before
    assert_nowhere(tmp_path, KEY, SECRET, SESSION)
    assert not any(secret in caplog.text + printed.output for secret in (KEY, SECRET, SESSION))


@pytest.mark.page
def test_storage_options_of_the_settings_stand_in_no_output(
    tmp_path: Path, bucket: Any, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, logger="botocore")
    index = {"uri": BUCKET, "table": "docs", "managed": False, "metric": "l2", "storage_options": options}
    rows = [{"chunk_id": f"c{i}", "text": text} for i, text in enumerate(docstrings("rich", ROWS))]
    store = lancedb.connect("s3://vectors/store", storage_options=options)
    store.create_table("docs", pa.Table.from_pylist(rows[1:]), mode="overwrite")
    bucket.put_object(Bucket="vectors", Key="first/row.jsonl", Body=json.dumps(rows[0]).encode())
    before = objects(bucket)
    sources = [
        {"name": "rest", "uri": "s3://vectors/store/docs.lance", "format": "lance", "storage_options": options},
        {"name": "first", "uri": "s3://vectors/first", "format": "jsonl", "storage_options": options},
    ]
    attributes = {"name": "bucket", "encoder": {"kind": "none"}, "index": index, "sources": sources}
    config = tmp_path / "settings" / "defs.yaml"
    config.parent.mkdir()
    config.write_text(yaml.safe_dump({"type": "audit_pipeline.IndexAudit", "attributes": attributes}), encoding="utf-8")
    code, audit = run_command(config, tmp_path / "state")
    assert (code, audit["index"]["rows"], findings(audit, "error", "warning")) == (0, ROWS, set())
    assert {name: audit["corpus"][name] for name in ("chunks", "sources")} == {"chunks": ROWS, "sources": 2}
    assert np.isfinite(audit["duplicates"]["floor"]["mean"])
    assert objects(bucket) == before
    assert_nowhere(tmp_path / "state", KEY, SECRET, SESSION)
    hidden = dict.fromkeys(options, "***")
    assert [one["storage_options"] for one in (audit["settings"]["index"], *audit["settings"]["sources"])] == [
        hidden
    ] * 3
    assert not any(secret in caplog.text for secret in (KEY, SECRET, SESSION))


def test_a_bucket_that_refuses_is_one_sentence_without_its_secrets(tmp_path: Path, options: dict[str, str]) -> None:
    from audit_pipeline.errors import AuditInputError
    from audit_pipeline.index.connection import connect, open_table

    for uri, given in (
        ("s3://no-such-bucket/db", options),
        (BUCKET, options | {"aws_endpoint": "http://127.0.0.1:9", "client_max_retries": "0", "timeout": "1s"}),
    ):
        with pytest.raises(AuditInputError) as told:
            open_table(connect(uri, given), "docs")
        assert "\n" not in str(told.value)
        assert not any(secret in str(told.value) for secret in (KEY, SECRET, SESSION))
