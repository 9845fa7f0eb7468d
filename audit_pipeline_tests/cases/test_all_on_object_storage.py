"""Sources and managed table in an object store, from the environment's credentials alone; the report stays local."""

from __future__ import annotations

import datetime as dt
import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import lancedb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from moto.server import ThreadedMotoServer

from audit_pipeline.corpus.files import find_files
from audit_pipeline.corpus.stamps import store_stamp
from audit_pipeline.corpus.store import read_entry
from audit_pipeline.encoder.models import Encoder
from audit_pipeline.errors import AuditInputError
from audit_pipeline.source_settings import SourceSettings
from audit_pipeline_tests.cases.command import findings, run_command
from audit_pipeline_tests.cases.test_object_storage import KEY, SECRET, SESSION, assert_nowhere
from audit_pipeline_tests.corpus.builders import settings_of
from audit_pipeline_tests.encoder.planted import docstrings

PER_SOURCE = 20
DAYS = ("2026-01-02", "2026-01-03")
INDEX = "s3://corpus/index"
ROW = {"chunk_id": "a", "text": "Salt is mined below the hill."}


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An empty bucket, and what AWS tools, Arrow and LanceDB alike read from the environment."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": SESSION,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="corpus")
    yield client
    server.stop()


def rows_of(source: str, number: int) -> list[dict[str, str]]:
    texts = docstrings("rich", 3 * PER_SOURCE)[number * PER_SOURCE : (number + 1) * PER_SOURCE]
    return [
        {"chunk_id": f"{source}{place:02}", "text": text, "ingestion_date": DAYS[place % 2]}
        for place, text in enumerate(texts)
    ]


def as_bytes(file_format: str, rows: list[dict[str, str]]) -> bytes:
    if file_format == "jsonl":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    into = io.BytesIO()
    if file_format == "csv":
        from pyarrow import csv

        csv.write_csv(pa.Table.from_pylist(rows), into)
    else:
        pq.write_table(pa.Table.from_pylist(rows), into)
    return into.getvalue()


@pytest.mark.timeout(240)
def test_sources_of_three_formats_and_the_managed_table_lie_in_a_bucket(
    tmp_path: Path, bucket: Any, fast_encoder: Encoder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.INFO, logger="botocore")  # the test's own client
    formats = ("parquet", "jsonl", "csv")
    rows = {name: rows_of(name, number) for number, name in enumerate(formats)}
    for name in formats:
        bucket.put_object(Bucket="corpus", Key=f"store/{name}/part.{name}", Body=as_bytes(name, rows[name]))
    uris = {"parquet": "s3://corpus/store/parquet", "jsonl": "s3://corpus/store/jsonl/part.jsonl"}
    uris["csv"] = "s3://corpus/store/csv/*.csv"
    attributes = {
        "name": "bucket",
        "sources": [{"name": name, "uri": uris[name], "format": name} for name in formats],
        "encoder": {"model": str(fast_encoder.files.folder)},
        "index": {"uri": INDEX, "managed": True},
        "sample": {"arms": 0, "ann_sweep": 0},
    }
    config = tmp_path / "defs.yaml"
    config.write_text(yaml.safe_dump({"type": "audit_pipeline.IndexAudit", "attributes": attributes}), encoding="utf-8")
    code, audit = run_command(config, tmp_path / "state")
    assert (code, findings(audit, "error", "warning")) == (0, set())
    assert (audit["index"]["uri"], audit["index"]["rows"]) == (INDEX, 3 * PER_SOURCE)
    assert audit["self_retrieval"]["self@1"]["value"] == 1
    assert not (tmp_path / "state" / "index").exists()

    rows["csv"][0]["text"] = "Salt is mined below the hill."
    bucket.put_object(Bucket="corpus", Key="store/csv/part.csv", Body=as_bytes("csv", rows["csv"]))
    manifests = {path: path.read_bytes() for path in (tmp_path / "state").rglob("batch.json")}
    assert len(manifests) == 2 * len(formats)
    code, audit = run_command(config, tmp_path / "state")
    assert (code, audit["encoded"]["texts"] > 0) == (0, True)
    changed = [json.loads(path.read_bytes())["key"] for path, old in manifests.items() if path.read_bytes() != old]
    assert changed == [f"{DAYS[0]}|csv"]
    table = lancedb.connect(INDEX).open_table("chunks").to_arrow()
    stored = dict(zip(table["chunk_id"].to_pylist(), table["text"].to_pylist(), strict=True))
    assert table.num_rows == len(stored)
    assert stored == {row["chunk_id"]: row["text"] for name in formats for row in rows[name]}
    assert_nowhere(tmp_path, KEY, SECRET, SESSION)
    assert not any(secret in caplog.text for secret in (KEY, SECRET, SESSION))


def test_storage_options_of_sources_reach_every_format(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        "aws_access_key_id": KEY,
        "aws_secret_access_key": SECRET,
        "aws_session_token": SESSION,
        "aws_region": "us-east-1",
        "aws_endpoint": os.environ["AWS_ENDPOINT_URL"],
        "allow_http": "true",
    }
    for name in ("parquet", "jsonl", "csv"):
        bucket.put_object(Bucket="corpus", Key=f"{name}/part.{name}", Body=as_bytes(name, [ROW]))
    bucket.put_object(Bucket="corpus", Key="markdown/a.md", Body=b"# Salt\n\nSalt is mined below the hill.\n")
    lancedb.connect("s3://corpus/", storage_options=options).create_table("lance", pa.Table.from_pylist([ROW]))
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    formats = ("lance", "parquet", "jsonl", "csv", "markdown")
    sources = [
        SourceSettings(
            name=name,
            uri=f"s3://corpus/{name}" + ".lance" * (name == "lance"),
            format=name,
            ingestion_date=dt.date(2026, 1, 2),
            storage_options=options,
        )
        for name in formats
    ]
    for source in sources:
        assert [block["text"].to_pylist() for block in read_entry(source)] == [[ROW["text"]]]
        assert not any(secret in repr(source) for secret in (KEY, SECRET, SESSION))

    # Words without their prefix in any case; region and endpoint of the environment beside keys of the settings.
    short = {"ACCESS_KEY_ID": KEY, "secret_access_key": SECRET, "session_token": SESSION}
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT", options["aws_endpoint"])  # LanceDB reads this name too, Arrow does not
    assert len(read_entry(sources[1].model_copy(update={"storage_options": short}))) == 1
    monkeypatch.delenv("AWS_ENDPOINT")

    # A renewed key is no other store, and no digest of one is kept.
    stamps = [
        store_stamp(
            settings_of(source.model_dump(mode="json")), dt.date(2100, 1, 1), dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
        )
        for source in (sources[0], sources[0].model_copy(update={"storage_options": options | {"timeout": "60s"}}))
    ]
    assert stamps[0] == stamps[1] is not None


def test_a_bucket_or_an_account_that_is_not_there_is_one_sentence(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    for uri, told in (
        ("s3://no-such-bucket/docs", "no jsonl file at s3://no-such-bucket/docs: check the path"),
        ("az://container/docs", "az://container/docs cannot be listed (AZURE_STORAGE_ACCOUNT_NAME is not set)"),
    ):
        with pytest.raises(AuditInputError) as refused:
            find_files(SourceSettings(name="docs", uri=uri, format="jsonl"))
        assert told in str(refused.value)
        assert not any(secret in str(refused.value) for secret in (KEY, SECRET, SESSION))
