"""What `doctor` says of a sound state folder, of planted defects beside it, and of a half that does not answer."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import dagster as dg
import lancedb
import pyarrow as pa
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from moto.server import ThreadedMotoServer

from audit_pipeline.encoder import model_files
from audit_pipeline.orchestration.doctor import STORAGE, grid, home, locations, storage
from audit_pipeline.orchestration.home import PROCESS_TAG, end_dead_runs, process_tag
from audit_pipeline.orchestration.naming import source_partitions_name
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages import doctor
from audit_pipeline.state import StateFolder, write_json
from audit_pipeline_tests.command import Command
from audit_pipeline_tests.small_audit import NAME, PREFIX, ROWS, SmallAudit

POOL = f"{PREFIX}__table"
SECRET = "markedSecretQ7zzPassphrase"


@pytest.fixture
def looked_at(changeable: SmallAudit, command: Command) -> Callable[..., tuple[int, dict[str, doctor.Line]]]:
    """Exit code and lines by what they are of, of the small audit's state folder or of what is named instead."""

    def look(*arguments: str) -> tuple[int, dict[str, doctor.Line]]:
        usual = ("--config", str(changeable.config), "--state", str(changeable.state))
        printed = command("doctor", "--json", *(arguments or usual))
        lines = [doctor.Line(**line) for line in json.loads(printed.out)]
        assert SECRET not in printed.out + printed.err
        return printed.code, {line.what: line for line in lines}

    return look


Look = Callable[..., tuple[int, dict[str, doctor.Line]]]


def states(lines: dict[str, doctor.Line], state: str) -> set[str]:
    return {what for what, line in lines.items() if line.state == state}


def settings(folder: Path, **attributes: Any) -> Any:
    index = {"uri": "db", "table": "docs", "managed": False}
    return parse_settings({"name": "case", "encoder": {"kind": "none"}, "index": index, **attributes}, "case", folder)


def test_of_a_sound_folder_nothing_fails_and_what_is_not_there_is_not_measured(
    changeable: SmallAudit, looked_at: Look
) -> None:
    version = changeable.table_version()
    code, lines = looked_at()
    assert (code, states(lines, "fail"), states(lines, "warn")) == (0, set(), set())
    absent = {f"object store of {NAME}", f"labels of {NAME}", f"alerts of {NAME}", "daemon"}
    assert states(lines, "not_measured") == absent
    uri = changeable.state / "index" / f"{NAME}.lance"
    assert lines[f"table of {NAME}"].seen.startswith(
        f"chunks in {uri}, version {version}, {ROWS} rows, columns chunk_id"
    )
    assert lines[f"model of {NAME}"].seen.endswith("384 dimensions")
    assert lines[f"grid of {NAME}"].seen.startswith("2 sources x ")
    assert all(line.to_do for line in lines.values() if line.state in ("warn", "fail"))
    assert changeable.table_version() == version


def run_of(tag: str, status: dg.DagsterRunStatus) -> dg.DagsterRun:
    return dg.DagsterRun(job_name="some_job", status=status, tags={PROCESS_TAG: tag})


def test_a_dead_run_and_its_slot_are_named_and_a_living_one_is_left(changeable: SmallAudit, looked_at: Look) -> None:
    living = run_of(process_tag()[PROCESS_TAG], dg.DagsterRunStatus.STARTED)
    with changeable.instance() as instance:
        instance.add_run(living)
        instance.event_log_storage.claim_concurrency_slot(POOL, living.run_id, "index_rows")
    assert looked_at()[0] == 0
    # A number that a process of another time had: this process started later.
    pid = process_tag()[PROCESS_TAG].split(":")[0]
    dead = run_of(f"{pid}:1000000000.00", dg.DagsterRunStatus.STARTED)
    with changeable.instance() as instance:
        instance.event_log_storage.free_concurrency_slots_for_run(living.run_id)
        instance.add_run(dead)
        instance.event_log_storage.claim_concurrency_slot(POOL, dead.run_id, "index_rows")
    code, lines = looked_at()
    assert (code, states(lines, "fail")) == (1, {"runs of dead processes", "pool slots"})
    assert dead.run_id in lines["runs of dead processes"].seen
    assert living.run_id not in lines["runs of dead processes"].seen
    assert f"{POOL} by run {dead.run_id}" in lines["pool slots"].seen
    with changeable.instance() as instance:
        end_dead_runs(instance)  # what `run` begins with, as the line says
    assert looked_at()[0] == 0


@pytest.mark.parametrize("known", [True, False])
def test_a_slot_of_a_run_that_is_over_is_named(changeable: SmallAudit, looked_at: Look, known: bool) -> None:
    over = run_of(process_tag()[PROCESS_TAG], dg.DagsterRunStatus.FAILURE)
    with changeable.instance() as instance:
        if known:
            instance.add_run(over)
        instance.event_log_storage.claim_concurrency_slot(POOL, over.run_id, "index_rows")
    code, lines = looked_at()
    assert (code, states(lines, "fail")) == (1, {"pool slots"})


def test_a_slot_of_a_run_of_another_host_is_named_with_what_frees_it(changeable: SmallAudit, looked_at: Look) -> None:
    elsewhere = run_of("1:1000000000.00:another-host", dg.DagsterRunStatus.STARTED)
    with changeable.instance() as instance:
        instance.add_run(elsewhere)
        instance.event_log_storage.claim_concurrency_slot(POOL, elsewhere.run_id, "index_rows")
    code, lines = looked_at()
    assert (code, lines["pool slots"].state) == (0, "warn")
    assert f"{POOL} by run {elsewhere.run_id} of host another-host" in lines["pool slots"].seen
    command = lines["pool slots"].to_do.partition(": ")[2]
    place = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(command, shell=True, check=True, env={**os.environ, "PATH": place, "DAGSTER_HOME": ""})
    assert looked_at()[1]["pool slots"].state == "ok"


def test_a_table_that_is_gone_is_named_with_the_rows_that_were_in_it(changeable: SmallAudit, looked_at: Look) -> None:
    shutil.rmtree(changeable.state / "index")
    code, lines = looked_at()
    assert (code, states(lines, "fail")) == (1, {f"table of {NAME}"})
    assert f"though {ROWS} rows of batches were written to it" in lines[f"table of {NAME}"].seen


def test_a_table_whose_data_files_are_gone_cannot_be_read(changeable: SmallAudit, looked_at: Look) -> None:
    (data,) = (changeable.state / "index").rglob("data")
    shutil.rmtree(data)
    code, lines = looked_at()
    assert (code, states(lines, "fail")) == (1, {f"table of {NAME}"})


def test_before_the_first_run_nothing_fails_and_the_folder_is_not_made(
    changeable: SmallAudit, looked_at: Look, tmp_path: Path
) -> None:
    code, lines = looked_at("--config", str(changeable.config), "--state", str(tmp_path / "new"))
    assert (code, states(lines, "warn")) == (0, {"home", f"table of {NAME}"})
    assert {"pool slots", "runs of dead processes", f"grid of {NAME}"} <= states(lines, "not_measured")
    assert not (tmp_path / "new").exists()


def test_a_home_that_cannot_be_written_to_fails_and_the_rest_is_looked_at(
    changeable: SmallAudit, looked_at: Look
) -> None:
    """Below /sys nobody can write, not even root, to whom the modes of folders mean nothing; nor is there any room."""
    code, lines = looked_at("--config", str(changeable.config), "--state", "/sys/kernel")
    assert (code, states(lines, "fail")) == (1, {"home", "disk"})
    assert "cannot be written to" in lines["home"].seen
    assert lines[f"model of {NAME}"].state == "ok"


def test_a_file_in_place_of_the_home_and_an_invalid_dagster_yaml_fail(
    changeable: SmallAudit, looked_at: Look, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert home(tmp_path / "file")[0].state == "fail"
    (changeable.state / "dagster.yaml").write_text("storage: {sqlit: 1}\n")
    code, lines = looked_at()
    assert code == 1
    assert states(lines, "fail") == {"home", STORAGE}
    assert {"pool slots", "daemon", "code location"} <= states(lines, "not_measured")
    assert lines[f"table of {NAME}"].state == "ok"


@pytest.mark.parametrize(
    ("text", "seen", "to_do"),
    [
        (
            "storage: {sqlite: {base_dir: {env: NOT_SET_HERE}}}",
            "dagster.yaml names an environment variable that is not set: NOT_SET_HERE",
            "set it",
        ),
        (
            f"storage: {{postgres: {{postgres_url: 'postgresql://u:{SECRET}@127.0.0.1:1/db'}}}}",
            "dagster.yaml asks for Postgres, and dagster-postgres is not installed",
            "pip install 'audit-pipeline[postgres]'",
        ),
        (f"storage: {{sqlite: {{base_dir: [{SECRET}]}}}}", "dagster.yaml cannot be used (Dagster", "correct "),
    ],
)
def test_a_storage_that_cannot_be_opened_is_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, seen: str, to_do: str
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "dagster_postgres", None)
    (tmp_path / "dagster.yaml").write_text(text)
    (line,) = storage(tmp_path)
    assert (line.state, line.seen.startswith(seen), line.to_do.startswith(to_do)) == ("fail", True, True)
    assert SECRET not in line.seen + line.to_do


def test_broken_files_of_dagster_are_told_once_and_what_lies_in_them_is_not_measured(
    changeable: SmallAudit, looked_at: Look
) -> None:
    (changeable.state / "history" / "runs.db").write_bytes(b"junk" * 2000)
    code, lines = looked_at()
    assert (code, states(lines, "fail")) == (1, {STORAGE})
    assert "file is not a database" in lines[STORAGE].seen
    assert "folders history and schedules" in lines[STORAGE].to_do
    assert {"pool slots", "runs of dead processes", f"grid of {NAME}"} <= states(lines, "not_measured")


def test_a_model_that_is_not_there_is_named_with_the_command_that_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {}

    def absent(name: str, **options: Any) -> str:
        asked.update(options)
        raise FileNotFoundError(name)

    monkeypatch.setattr("huggingface_hub.snapshot_download", absent)
    (line,) = doctor.model(settings(tmp_path, encoder={"model": "nobody/absent-model", "revision": "abc"}))
    assert line.state == "fail"
    assert line.to_do.startswith("hf download nobody/absent-model --revision abc")
    assert asked["local_files_only"] is True
    (folder,) = doctor.model(settings(tmp_path, encoder={"model": str(tmp_path / "absent")}))
    assert (folder.state, folder.to_do[:22]) == ("fail", "correct encoder.model:")
    with pytest.raises(Exception, match="cannot be fetched"):
        model_files.find_model("nobody/absent-model")
    assert asked["local_files_only"] is False


def test_a_server_is_reached_without_asking_it_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        encoder = {"kind": "openai_compatible", "base_url": f"http://127.0.0.1:{port}/v1", "model": "m"}
        served = settings(tmp_path, encoder={**encoder, "api_key_env": "SOME_API_KEY"})
        (up,) = doctor.model(served)
    (down,) = doctor.model(served)
    assert (up.state, down.state) == ("ok", "fail")
    assert "SOME_API_KEY is set" in up.seen
    assert SECRET not in up.seen


@pytest.fixture
def silent() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def in_bucket(endpoint: str) -> dict[str, Any]:
    options = {"aws_access_key_id": "AKIAXEMARKED", "aws_secret_access_key": SECRET, "aws_region": "us-east-1"}
    options |= {"aws_endpoint": endpoint, "allow_http": "true"}
    return {"uri": "s3://vectors/db", "table": "docs", "managed": False, "storage_options": options}


def test_an_object_store_that_never_answers_is_given_up(
    tmp_path: Path, looked_at: Look, silent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "SECONDS", {"object store": 1.0, "table": 1.0})
    attributes = {"name": "case", "encoder": {"kind": "none"}, "index": in_bucket(f"http://127.0.0.1:{silent}")}
    config = tmp_path / "defs.yaml"
    config.write_text(json.dumps({"type": "audit_pipeline.IndexAudit", "attributes": attributes}))
    started = time.monotonic()
    code, lines = looked_at("--config", str(config), "--state", str(tmp_path / "state"))
    assert time.monotonic() - started < 20
    assert (code, states(lines, "fail")) == (1, {"object store of case", "table of case"})
    assert lines["object store of case"].seen == "no answer within 1 s"


def test_an_object_store_that_answers_is_in_order(tmp_path: Path) -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        index = in_bucket(endpoint)
        keys = {"aws_access_key_id": "AKIAXEMARKED", "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=endpoint, **keys).create_bucket(Bucket="vectors")
        rows = pa.table({"text": ["a"], "vector": pa.array([[1.0, 0.0]], pa.list_(pa.float32(), 2))})
        lancedb.connect(index["uri"], storage_options=index["storage_options"]).create_table("docs", rows)
        case = settings(tmp_path, index=index)
        assert [line.seen for line in doctor.object_store(case)] == ["s3://vectors/db answers, 1 tables"]
        assert [line.state for line in doctor.table(case, tmp_path)] == ["ok"]
        named = settings(tmp_path, index={**index, "columns": {"source": "origin"}})
        assert [(line.state, line.to_do) for line in doctor.table(named, tmp_path)] == [
            ("fail", "correct index.columns")
        ]
    finally:
        server.stop()


def test_labels_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("chunk_id_a,chunk_id_b,duplicate,origin\na,b,true,corpus\n")
    (tmp_path / "queries.jsonl").write_text(json.dumps({"query": "who", "chunk_id": "a"}) + "\n")
    files = {"pairs": "pairs.csv", "queries": "queries.jsonl"}

    def line() -> doctor.Line:
        case = settings(tmp_path, labels=files)
        return doctor.within("labels of case", lambda: doctor.labels(case), str)[0]

    told = "read: queries, 1 pair; what of it is in the index, the audit tells (labels_invalid)"
    assert (line().state, line().seen) == ("ok", told)
    (tmp_path / "pairs.csv").write_text("chunk_id_a\na\n")
    assert line().state == "fail"
    (tmp_path / "pairs.csv").unlink()
    assert line().seen.startswith("labels.pairs: there is no file")
    assert line().to_do == "correct the path or remove the field"


@pytest.mark.parametrize(
    ("pinned", "state"), [("", "ok"), ("pyarrow==0.1\n", "warn"), ("# nothing\nno-such-package==1\n", "ok")]
)
def test_versions_beside_the_constraints(tmp_path: Path, pinned: str, state: str) -> None:
    (tmp_path / "constraints.txt").write_text(pinned)
    (line,) = doctor.versions(tmp_path / "constraints.txt")
    assert line.state == state
    assert ("pyarrow" in line.seen) is (state == "warn")


def test_a_version_that_the_requirements_refuse_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda _: ["pyarrow>=999", "nothing-such; extra == 'x'"])
    (line,) = doctor.versions(tmp_path / "absent.txt")
    assert line.state == "fail"
    assert "(>=999)" in line.seen


@pytest.mark.parametrize(("free", "state"), [(1 << 40, "ok"), (2 << 30, "warn"), (1 << 20, "fail")])
def test_little_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: str) -> None:
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert doctor.disk(tmp_path / "not" / "there")[0].state == state


def test_a_grid_above_what_was_tried_is_warned_of_with_the_grain_that_helps(tmp_path: Path) -> None:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        for grain, state in (("day", "warn"), ("month", "ok")):
            case = settings(tmp_path, start_date="2020-01-01", ingestion_grain=grain)
            instance.add_dynamic_partitions(source_partitions_name(case), [f"s{n}" for n in range(12)])
            (line,) = grid(case, tmp_path, instance)
            assert line.state == state
        assert line.seen.startswith("12 sources x ")
        months = int(line.seen.split()[3])
        held = StateFolder(tmp_path, case.name).batch("2019-11-01|s0") / "batch.json"
        write_json(held, {"content_hash": "of rows from before a start date that was set later"})
        (longer,) = grid(case, tmp_path, instance)
        assert longer.seen == f"12 sources x {months + 2} months = {12 * (months + 2):,} cells"
        (empty,) = grid(settings(tmp_path, name="other", start_date="2020-01-01"), tmp_path, instance)
        assert (empty.state, empty.seen.split(" = ")[1]) == ("ok", "0 cells")


@pytest.mark.parametrize(("location", "state"), [("audit_pipeline", "ok"), ("audit_pipeline.definitions", "warn")])
def test_sensors_known_under_another_location_are_told(tmp_path: Path, location: str, state: str) -> None:
    code = InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name="m"), location_name=location)
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(code, "__repository__"), "case__discovery")
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        instance.add_instigator_state(
            InstigatorState(origin, dg._core.definitions.run_request.InstigatorType.SENSOR, InstigatorStatus.RUNNING)
        )
        (line,) = locations(instance)
    assert line.state == state


def test_settings_that_cannot_be_used_exit_2(tmp_path: Path, command: Command) -> None:
    printed = command("doctor", "--config", str(tmp_path / "absent.yaml"), "--state", str(tmp_path))
    assert (printed.code, printed.out) == (2, "")


def test_a_check_that_raises_is_a_line_and_secrets_are_hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)

    def raises() -> list[doctor.Line]:
        raise RuntimeError(f"GET https://user:hunter2@host/?sig={SECRET} failed")

    hide = doctor.hiding([settings(tmp_path)])
    assert hide(f"s3://user:hunter2@host/b with {SECRET}") == "s3://***@host/b with ***"
    (line,) = doctor.within("store", raises, hide)
    assert (line.state, line.seen) == ("fail", "RuntimeError: GET https://***@host/?sig=*** failed")
    text = doctor.line_text(line)
    assert text.startswith("FAIL          store: RuntimeError: GET")
    assert "; to do: " in text
