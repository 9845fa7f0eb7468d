from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline.report import publish as publishing
from audit_pipeline.report.audit_json import AuditShapeError
from audit_pipeline.report.publish import publish, recover
from audit_pipeline.report_settings import ReportSettings
from audit_pipeline.schemas import TABLES
from audit_pipeline_tests.report.sample_tables import SECRET_TEXT, sample_exports, sample_tables


@pytest.fixture(autouse=True)
def _plain_page(monkeypatch: pytest.MonkeyPatch) -> None:
    # Drawing takes seconds and is tested with the page; here only what lies where counts.
    monkeypatch.setattr(publishing, "render_page", lambda audit, texts, clusters: f"{audit['name']} {dict(texts)}")


@pytest.fixture
def tables(probes: dict[str, Any]) -> dict[str, pa.Table]:
    return sample_tables(probes)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_report_holds_json_page_every_table_and_trec_files(
    tmp_path: Path, audit: dict[str, Any], tables: dict[str, pa.Table]
) -> None:
    report = tmp_path / "reports" / "handbook"
    publish(report, audit, tables, None, ReportSettings(), sample_exports(tables))
    assert json.loads((report / "audit.json").read_text()) == audit
    names = {f"tables/{name}.parquet" for name in TABLES} | {"trec/self.run", "trec/self.qrels"}
    names |= {f"beir/self/{name}" for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv")}
    assert set(files(report)) == names | {"audit.json", "audit.html"}
    assert [path.name for path in report.parent.iterdir()] == ["handbook"]


def test_tables_have_their_schemas_and_an_order_of_their_own(
    tmp_path: Path, audit: dict[str, Any], tables: dict[str, pa.Table]
) -> None:
    shuffled = {name: table.take(list(range(table.num_rows))[::-1]) for name, table in tables.items()}
    one, two = tmp_path / "one", tmp_path / "two"
    publish(one, audit, tables, None, ReportSettings(), sample_exports(tables))
    publish(two, audit, shuffled, None, ReportSettings(), sample_exports(tables))
    for part in ("tables", "trec", "beir"):
        assert files(one / part) == files(two / part) != {}
    for name, schema in TABLES.items():
        assert pq.read_schema(one / "tables" / f"{name}.parquet").equals(schema)


@pytest.mark.parametrize(("text", "shown"), [("full", True), ("excerpt", False), ("none", False)])
def test_exports_hold_texts_only_where_the_settings_show_them_whole(
    tmp_path: Path, audit: dict[str, Any], tables: dict[str, pa.Table], text: Any, shown: bool
) -> None:
    report = tmp_path / "one"
    publish(report, audit, tables, None, ReportSettings(text=text), sample_exports(tables))
    holding = {name for name, content in files(report).items() if f"{SECRET_TEXT} of".encode() in content}
    assert holding == ({"beir/self/corpus.jsonl", "beir/self/queries.jsonl"} if shown else set())
    lines = (report / "beir" / "self" / "corpus.jsonl").read_text().splitlines()
    assert [set(json.loads(line)) for line in lines] == [{"_id", "title", "text"}] * tables["qrels"].num_rows


@pytest.mark.parametrize("step", ["render_page", "write_trec", "write_beir", "_swap", "dump_audit"])
def test_a_failure_anywhere_leaves_the_last_good_report(
    tmp_path: Path,
    audit: dict[str, Any],
    tables: dict[str, pa.Table],
    step: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = tmp_path / "handbook"
    publish(target, audit, tables, None, ReportSettings(), sample_exports(tables))
    before = files(target)

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(publishing, step, fail)
    newer = copy.deepcopy(audit) | {"created_at": "2027-01-01T00:00:00+00:00"}
    with pytest.raises(OSError, match="disk full"):
        publish(target, newer, tables, None, ReportSettings(), sample_exports(tables))
    assert files(target) == before
    assert [path.name for path in tmp_path.iterdir()] == ["handbook"]


def test_a_swap_whose_second_rename_fails_puts_the_old_report_back(
    tmp_path: Path, audit: dict[str, Any], tables: dict[str, pa.Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "handbook"
    publish(target, audit, tables, None, ReportSettings(), sample_exports(tables))
    before = files(target)
    rename = Path.rename

    def flaky(self: Path, to: Path) -> Path:
        if ".new-" in self.name:
            raise OSError("cannot rename")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", flaky)
    with pytest.raises(OSError, match="cannot rename"):
        publish(target, audit, tables, None, ReportSettings(), sample_exports(tables))
    assert files(target) == before


def test_a_report_whose_swap_was_killed_half_way_comes_back(
    tmp_path: Path, audit: dict[str, Any], tables: dict[str, pa.Table]
) -> None:
    target = tmp_path / "handbook"
    publish(target, audit, tables, None, ReportSettings(), sample_exports(tables))
    before = files(target)
    target.rename(tmp_path / ".handbook.previous")
    (tmp_path / ".handbook.new-abc").mkdir()
    recover(target)
    assert files(target) == before
    assert [path.name for path in tmp_path.iterdir()] == ["handbook"]


def test_a_wrong_audit_or_table_replaces_nothing(
    tmp_path: Path, audit: dict[str, Any], tables: dict[str, pa.Table]
) -> None:
    target = tmp_path / "handbook"
    with pytest.raises(AuditShapeError):
        publish(target, {**audit, "findings": [{}]}, tables, None, ReportSettings(), sample_exports(tables))
    wrong = tables | {"self_retrieval": tables["self_retrieval"].drop_columns(["score"])}
    with pytest.raises(ValueError, match="table self_retrieval: columns missing \\['score'\\]"):
        publish(target, audit, wrong, None, ReportSettings(), sample_exports(tables))
    with pytest.raises(ValueError, match="without a schema: \\['chunks'\\]"):
        publish(target, audit, {"chunks": tables["qrels"]}, None, ReportSettings(), sample_exports(tables))
    assert not target.exists()
