"""The project as `dg` sees it: what it lists, checks, scaffolds and launches, and several indexes side by side."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from audit_pipeline.errors import AuditInputError
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.orchestration.naming import source_partitions_name
from audit_pipeline.orchestration.project import configured_indexes
from audit_pipeline.orchestration.running import plan
from audit_pipeline.settings_file import load_settings
from audit_pipeline.stages.checks import REPORT_CHECKS
from audit_pipeline_tests.orchestration.test_both_jobs import BATCH_ASSETS
from audit_pipeline_tests.small_audit import (
    PREFIX,
    SETTINGS,
    SmallAudit,
    assert_table_equals,
    cli_environment,
    rows_of_corpus,
)

ROOT = Path(__file__).parents[2]
DG = Path(sys.executable).with_name("dg")
MANAGED = """\
type: audit_pipeline.IndexAudit
attributes:
  name: {name}
  sources: [{{name: a, uri: a.jsonl, format: jsonl}}]
  encoder: {{model: some-model}}
"""
STANDS = """\
type: audit_pipeline.IndexAudit
attributes:
  name: {name}
  encoder: {{kind: none}}
  index: {{uri: lance, table: docs, managed: false}}
"""
JOBS = ("ingest_batch", "corpus_audit")
ALL_ASSETS = {*BATCH_ASSETS, *(asset.name for asset in CORPUS_ASSETS)}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project's folder with three further indexes in it; nothing of it is run."""
    return copy_of_project(
        tmp_path_factory.mktemp("project"),
        {"h0": MANAGED, "h0-clean": MANAGED, "as-it-stands": STANDS},
    )


def copy_of_project(folder: Path, indexes: dict[str, str]) -> Path:
    shutil.copytree(ROOT / "audit_pipeline", folder / "audit_pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "workspace.yaml", "dagster.yaml"):
        shutil.copyfile(ROOT / name, folder / name)
    for name, text in indexes.items():
        write_index(folder / "audit_pipeline" / "defs", name, text)
    (folder / "home").mkdir()
    shutil.copyfile(ROOT / "dagster.yaml", folder / "home" / "dagster.yaml")
    return folder


def write_index(defs: Path, folder: str, text: str) -> Path:
    (defs / folder).mkdir(parents=True)
    path = defs / folder / "defs.yaml"
    path.write_text(text.format(name=folder), encoding="utf-8")
    return path


def run_dg(project: Path, *arguments: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    # PYTHONPATH: the package of the copy, and not the one that is installed.
    environment = cli_environment(PYTHONPATH=str(project), DAGSTER_HOME=str(home or project / "home"), COLUMNS="200")
    return subprocess.run(
        [str(DG), *arguments], cwd=project, env=environment, capture_output=True, text=True, timeout=120
    )


def listed(project: Path) -> dict[str, Any]:
    finished = run_dg(project, "list", "defs", "--json")
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def assets_of(listing: dict[str, Any], prefix: str) -> set[str]:
    keys = [asset["asset_key_parts"] for asset in listing["assets"]]
    return {key[1] for key in keys if key[0] == prefix}


def test_indexes_of_one_project_load_side_by_side_and_so_does_what_was_scaffolded(project: Path) -> None:
    scaffolded = run_dg(project, "scaffold", "defs", "audit_pipeline.IndexAudit", "mine")
    assert scaffolded.returncode == 0, scaffolded.stderr
    assert (project / "audit_pipeline" / "defs" / "mine" / "defs.yaml").is_file()
    listing = listed(project)
    for prefix in ("demo", "h0", "h0_clean", "mine"):
        assert assets_of(listing, prefix) == ALL_ASSETS, prefix
    # Nothing of this project writes an index as it stands: its batches are observed, in the assets that show them.
    assert assets_of(listing, "as_it_stands") == {asset.name for asset in CORPUS_ASSETS} | {
        "index_rows",
        "batch_integrity",
    }
    jobs = {job["name"] for job in listing["jobs"]}
    managed = {f"{name}__{job}" for name in ("demo", "h0", "h0_clean", "mine") for job in JOBS}
    assert jobs - {"__ASSET_JOB"} == managed | {"as_it_stands__corpus_audit"}
    for asset in listing["assets"]:
        assert asset["description"], asset["asset_key"]
        assert asset["owners"], asset["asset_key"]
        assert asset["group_name"].startswith(asset["asset_key_parts"][0] + "_")
    checks = {(check["asset_key"], check["name"]) for check in listing["asset_checks"]}
    assert {("h0/audit_report", name) for name in REPORT_CHECKS} <= checks
    assert {("h0/chunks", "no_rows_rejected"), ("h0/batch_integrity", "table_holds_batch")} <= checks


def test_dg_finds_nothing_wrong_with_yaml_and_definitions(project: Path) -> None:
    finished = run_dg(project, "check", "defs")  # checks the YAML files first
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "All component YAML validated successfully" in finished.stdout
    assert "All definitions loaded successfully" in finished.stdout


def test_dg_check_yaml_names_the_file_and_the_field_of_a_mistake(tmp_path: Path) -> None:
    project = copy_of_project(tmp_path, {"bad": MANAGED + "  smaple: {{total: 5}}\n"})
    # By its path: without one, dg 1.13 checks a single file of each component type.
    finished = run_dg(project, "check", "yaml", "audit_pipeline/defs/bad")
    assert finished.returncode == 1
    said = finished.stdout + finished.stderr
    assert "bad/defs.yaml" in said
    assert "smaple" in said


@pytest.mark.timeout(120)
def test_dg_launch_brings_one_batch_up_to_date(changeable: SmallAudit, tmp_path: Path) -> None:
    project = copy_of_project(tmp_path, {})
    home = project / "audit_pipeline" / "defs" / "small"
    home.mkdir()
    (home / "defs.yaml").write_text(SETTINGS, encoding="utf-8")
    rows = rows_of_corpus()
    next(row for row in rows if row["chunk_id"] == "beta-1-07")["text"] = "Parchment kept in a dry cellar lasts."
    SmallAudit(home).write_corpus(rows)
    changeable.write_corpus(rows)
    partition = "2024-01-02|beta"
    finished = run_dg(
        project, "launch", "--job", f"{PREFIX}__ingest_batch", "--partition", partition, home=changeable.state
    )
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]
    assert_table_equals(changeable, rows)
    with changeable.instance() as instance:
        (run,) = instance.get_runs(limit=1)
        assert (run.job_name, run.status) == (f"{PREFIX}__ingest_batch", dg.DagsterRunStatus.SUCCESS)
        assert run.tags["dagster/partition"] == partition
        assert plan(changeable.settings) == []


# Names


def test_names_that_begin_alike_do_not_collide(tmp_path: Path) -> None:
    for name in ("h0", "h0-clean", "h1"):
        write_index(tmp_path, name, MANAGED)
    settings = [settings for _, settings in configured_indexes(tmp_path)]
    assert [one.name for one in settings] == ["h0", "h0-clean", "h1"]
    assert len({source_partitions_name(one) for one in settings}) == 3
    assert len({key for one in settings for key in keys_of(build_defs(one))}) == 3 * len(ALL_ASSETS)


def keys_of(defs: dg.Definitions) -> set[dg.AssetKey]:
    return set(defs.resolve_all_asset_keys())


def test_files_of_other_component_types_are_left_alone(tmp_path: Path) -> None:
    write_index(tmp_path, "h0", MANAGED)
    write_index(tmp_path, "other", "type: dagster.DefsFolderComponent\nattributes: {{}}\n")
    assert [settings.name for _, settings in configured_indexes(tmp_path)] == ["h0"]


@pytest.mark.parametrize("broken", [b"type: [\n", b"type: caf\xe9\n", b"day: 2026-13-01\n"])
def test_a_file_below_defs_that_is_no_yaml_is_told_in_one_sentence(tmp_path: Path, broken: bytes) -> None:
    path = write_index(tmp_path, "h0", MANAGED)
    path.write_bytes(broken)
    with pytest.raises(AuditInputError) as raised:
        configured_indexes(tmp_path)
    assert str(raised.value).startswith(f"{path}: ")


# Partitions


@pytest.mark.parametrize(
    ("grain", "first", "second"),
    [("day", "2024-01-03", "2024-01-04"), ("week", "2024-01-01", "2024-01-08"), ("month", "2024-01-01", "2024-02-01")],
)
def test_the_grid_begins_with_the_period_of_the_start_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grain: str, first: str, second: str
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    text = MANAGED + f"  start_date: 2024-01-03\n  ingestion_grain: {grain}\n"
    settings = load_settings(write_index(tmp_path, "h0", text))
    chunks = build_defs(settings).resolve_asset_graph().get(dg.AssetKey(["h0", "chunks"]))
    assert isinstance(chunks.partitions_def, dg.MultiPartitionsDefinition)
    dates = chunks.partitions_def.get_partitions_def_for_dimension("ingestion_date")
    assert dates.get_partition_keys()[:2] == [first, second]
