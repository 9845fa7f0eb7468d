"""What `doctor` says of a daemon that is dead or missing, of what was turned off, and of the alerts' variable."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.remote_origin import InProcessCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import InstigatorState, InstigatorStatus
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._daemon.types import DaemonHeartbeat
from dagster._utils.error import SerializableErrorInfo

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.doctor_automation import _wanted, alerts, automation, daemon
from audit_pipeline.settings_file import parse_settings
from audit_pipeline.stages.doctor import Line, hiding, within

pytestmark = pytest.mark.filterwarnings("ignore:.*partitions_def:dagster.PreviewWarning")

LOCATION = "audit_pipeline"
VARIABLE = "CASE_SECRET_PLACE"
HOOK = "https://hooks.example/services/T0MARKED/B0"
TOKEN = "xoxb-MARKED-1"


def settings(mode: str = "manual", **attributes: Any) -> IndexAuditSettings:
    index = {"uri": "/db", "table": "docs", "managed": mode == "conditions"}
    if mode == "conditions":
        attributes["sources"] = [{"name": "a", "uri": "a", "format": "jsonl"}]
    whole = {"name": "case", "encoder": {"model": "m"}, "index": index, "automation": {"mode": mode}, **attributes}
    return parse_settings(whole, "case", Path("/nowhere"))


TOLD = {"alerts": {"webhook_env": VARIABLE}}


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as made:
        yield made


def turn(instance: dg.DagsterInstance, name: str, status: InstigatorStatus, location: str = LOCATION) -> None:
    code = InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name="m"), location_name=location)
    origin = RemoteInstigatorOrigin(RemoteRepositoryOrigin(code, "__repository__"), name)
    instance.add_instigator_state(InstigatorState(origin, InstigatorType.SENSOR, status))


def beat(instance: dg.DagsterInstance, ago: float, *, only: str | None = None, error: str | None = None) -> None:
    errors = [SerializableErrorInfo("words of a chunk", [], error)] if error else []
    for kind in instance.get_required_daemon_types():
        if only in (None, kind):
            instance.add_daemon_heartbeat(DaemonHeartbeat(time.time() - ago, kind, "d1", errors))


def one(lines: list[Line]) -> Line:
    (line,) = lines
    assert line.to_do or line.state in ("ok", "not_measured")
    return line


@pytest.mark.parametrize("mode", ["manual", "sensors", "conditions"])
def test_what_the_settings_want_on_is_what_the_definitions_have_on(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    case = settings(mode, **TOLD)
    defs = build_defs(case)
    made = [*(defs.sensors or []), *(defs.schedules or [])]
    on = (dg.DefaultSensorStatus.RUNNING, dg.DefaultScheduleStatus.RUNNING)
    assert _wanted(case) == {each.name: each.default_status in on for each in made}


def test_where_nothing_is_on_no_daemon_is_needed(instance: dg.DagsterInstance) -> None:
    assert one(daemon([settings()], LOCATION, instance)).state == "not_measured"
    assert one(daemon([settings(), settings("sensors")], LOCATION, instance)).state == "warn"
    assert one(daemon([settings(**TOLD)], LOCATION, instance)).state == "warn"
    turn(instance, "case__discovery", InstigatorStatus.RUNNING)  # by hand
    assert one(daemon([settings()], LOCATION, instance)).state == "warn"


def test_a_daemon_that_never_ran_lives_is_dead_or_complains(instance: dg.DagsterInstance) -> None:
    def look() -> Line:
        return one(daemon([settings("sensors")], LOCATION, instance))

    assert "never ran on this home, with 2 sensors and schedules on" in look().seen
    assert "dagster-daemon run" in look().to_do
    beat(instance, ago=10)
    assert look().state == "ok"
    beat(instance, ago=10, error="OperationalError")
    assert (look().state, look().seen) == ("warn", "it runs, and reports OperationalError")
    beat(instance, ago=10)
    beat(instance, ago=400, only="SENSOR")
    assert "no sign of life for 5 minutes of SENSOR (last seen 20" in look().seen
    beat(instance, ago=400)
    assert "of all of it" in look().seen
    assert look().state == "warn"


def test_what_is_on_of_indexes_that_were_not_looked_at_is_counted_apart(instance: dg.DagsterInstance) -> None:
    for name, status in {"discovery": "DECLARED_IN_CODE", "alerts": "RUNNING", "audit_schedule": "STOPPED"}.items():
        turn(instance, f"another__{name}", InstigatorStatus[status])
        turn(instance, f"case__{name}", InstigatorStatus.DECLARED_IN_CODE)
    turn(instance, "elsewhere__discovery", InstigatorStatus.RUNNING, location="another")
    beat(instance, ago=10)
    seen = one(daemon([settings("sensors", **TOLD)], LOCATION, instance)).seen
    assert seen == "it runs, with 3 sensors and schedules on, and 2 of other indexes"


def test_what_was_turned_off_is_named_and_what_was_turned_on_is_told(instance: dg.DagsterInstance) -> None:
    case = settings("sensors", **TOLD)

    def look(of: IndexAuditSettings = case) -> Line:
        return one(automation(of, LOCATION, instance))

    assert look().seen == "mode sensors; on: case__discovery, case__audit_schedule, case__alerts"
    for name, status in {"discovery": "RUNNING", "alerts": "DECLARED_IN_CODE"}.items():
        turn(instance, f"case__{name}", InstigatorStatus[status])
    turn(instance, "case__audit_schedule", InstigatorStatus.STOPPED, location="another")
    assert look().state == "ok"
    turn(instance, "case__audit_schedule", InstigatorStatus.STOPPED)
    assert (look().state, look().seen.split(": ")[1]) == ("warn", "case__audit_schedule")
    assert look(settings()).seen == "mode manual; on: case__discovery (case__discovery by hand)"


@pytest.mark.parametrize(
    ("configured", "value", "state", "seen"),
    [
        (None, HOOK, "not_measured", "no alerts are configured"),
        ("webhook_env", HOOK + "\n", "ok", f"{VARIABLE} is set, for the webhook in {VARIABLE}; nothing was posted"),
        ("webhook_env", None, "warn", f"{VARIABLE} (alerts.webhook_env) is not set in this environment"),
        ("webhook_env", " ", "warn", f"{VARIABLE} (alerts.webhook_env) is not set in this environment"),
        ("webhook_env", "hooks.example/T0MARKED", "fail", f"{VARIABLE} holds no http(s) address"),
        ("webhook_env", "http://[T0MARKED", "fail", f"{VARIABLE} holds no http(s) address"),
        ("slack", TOKEN, "ok", f"{VARIABLE} is set, for Slack's channel #search; nothing was posted"),
        ("slack", None, "warn", f"{VARIABLE} (alerts.slack.token_env) is not set"),
        ("slack", HOOK, "warn", f"{VARIABLE} does not begin as a token of Slack does"),
    ],
)
def test_the_variable_of_the_alerts(
    configured: str | None, value: str | None, state: str, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"slack": {"channel": "#search", "token_env": VARIABLE}, "webhook_env": VARIABLE}
    case = settings(alerts={configured: fields[configured]}) if configured else settings()
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    line = one(alerts(case))
    assert line.state == state
    assert line.seen.startswith(seen)
    assert "MARKED" not in line.seen + line.to_do


def test_the_address_of_a_webhook_is_taken_out_of_whatever_a_check_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", HOOK + "\n")
    hide = hiding([settings(alerts={"webhook_env": "PLACE"})])
    (line,) = within("case", lambda: [Line("case", "ok", f"at {HOOK}")], hide)
    assert line.seen == "at ***"
