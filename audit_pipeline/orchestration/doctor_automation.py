"""What `doctor` says of what should run by itself: daemon, sensors, schedules, alerts. It turns on nothing."""

import os
import time
from urllib.parse import urlsplit

import dagster as dg
from dagster._core.scheduler.instigation import InstigatorStatus

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.orchestration.naming import (
    alert_sensor_name,
    audit_schedule_name,
    condition_sensor_name,
    discovery_sensor_name,
)
from audit_pipeline.plural import counted
from audit_pipeline.stages.doctor import Line

LONGEST_SILENCE = 300.0
"""Seconds without a sign of life after which a daemon is taken for dead: it gives one every 30, Dagster waits 1,800."""
_START = "start it: make ui, or for good `dagster-daemon run -w workspace.yaml` with DAGSTER_HOME set to this home"


def alerts(settings: IndexAuditSettings) -> list[Line]:
    """Whether the variable that alerts need is set here, and holds what it should. Its value is not shown."""
    what, wanted = f"alerts of {settings.name}", settings.alerts
    if wanted is None:
        return [Line(what, "not_measured", "no alerts are configured")]
    name, value = wanted.secret_env, os.environ.get(wanted.secret_env, "").strip()
    if not value:
        seen = f"{name} ({wanted.field_of_secret}) is not set in this environment, so nothing could be posted from it"
        return [Line(what, "warn", seen, f"set {name} wherever Dagster's code runs, and here to have it looked at")]
    if wanted.slack is not None:
        if not value.startswith("xox"):
            return [Line(what, "warn", f"{name} does not begin as a token of Slack does", f"put a token in {name}")]
    elif not _is_address(value):
        return [Line(what, "fail", f"{name} holds no http(s) address", f"put the webhook's address in {name}")]
    return [Line(what, "ok", f"{name} is set, for {wanted.place}; nothing was posted")]


def _is_address(value: str) -> bool:
    try:
        address = urlsplit(value)
        return address.scheme in ("http", "https") and bool(address.hostname)
    except ValueError:
        return False


def automation(settings: IndexAuditSettings, location: str, instance: dg.DagsterInstance) -> list[Line]:
    """Whether sensors and schedule are on or off as the settings say, or have been turned in the UI."""
    what, mode = f"automation of {settings.name}", settings.automation.mode
    on_by_settings, turned = _wanted(settings), _turned_by_hand(location, instance)
    off = [name for name, on in on_by_settings.items() if on and turned.get(name) is False]
    on = [name for name, on in on_by_settings.items() if on or turned.get(name)]
    by_hand = [name for name in on if not on_by_settings[name]]
    if off:
        seen = f"turned off in the UI, though the settings want them on: {', '.join(off)}"
        to_do = "turn them on on Dagster's page Automation, or take automation.mode or alerts out of the settings"
        return [Line(what, "warn", seen, to_do)]
    aside = f" ({', '.join(by_hand)} by hand)" if by_hand else ""
    return [Line(what, "ok", f"mode {mode}; on: {', '.join(on) or 'nothing'}{aside}")]


def daemon(indexes: list[IndexAuditSettings], location: str, instance: dg.DagsterInstance) -> list[Line]:
    """Whether Dagster's daemon gives signs of life where something should run by itself."""
    turned = _turned_by_hand(location, instance)
    waiting = [name for one in indexes for name, on in _wanted(one).items() if turned.get(name, on)]
    if not waiting:
        return [Line("daemon", "not_measured", "no sensor and no schedule is on, so none is needed")]
    others = _on_of_others(indexes, location, instance)
    idle = f"{counted(len(waiting), 'sensor or schedule', 'sensors and schedules')} on"
    idle += f", and {others} of other indexes" if others else ""
    beats = instance.get_daemon_heartbeats()
    required = instance.get_required_daemon_types()
    if not any(one in beats for one in required):
        return [Line("daemon", "warn", f"it never ran on this home, with {idle}: nothing runs by itself", _START)]
    now = time.time()
    silent = [one for one in required if one not in beats or now - beats[one].timestamp > LONGEST_SILENCE]
    if silent:
        last = max(beats[one].timestamp for one in required if one in beats)
        when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(last))
        told = ", ".join(silent) if len(silent) < len(required) else "all of it"
        seen = f"no sign of life for {LONGEST_SILENCE / 60:.0f} minutes of {told} (last seen {when}), with {idle}"
        return [Line("daemon", "warn", seen, _START)]
    errors = sorted({str(error.cls_name) for one in required for error in beats[one].errors or []})
    if errors:
        seen = f"it runs, and reports {', '.join(errors)}"
        return [Line("daemon", "warn", seen, "read the errors on Dagster's page Deployment > Daemons")]
    return [Line("daemon", "ok", f"it runs, with {idle}")]


def _wanted(settings: IndexAuditSettings) -> dict[str, bool]:
    """Every sensor and schedule of an index, and whether its settings have it on."""
    mode, managed = settings.automation.mode, settings.index.managed
    wanted = {discovery_sensor_name(settings): mode != "manual", audit_schedule_name(settings): mode == "sensors"}
    if mode == "conditions" and managed:
        wanted[condition_sensor_name(settings)] = True
    if settings.alerts is not None:
        wanted[alert_sensor_name(settings)] = True
    return wanted


def _on_of_others(indexes: list[IndexAuditSettings], location: str, instance: dg.DagsterInstance) -> int:
    """Sensors and schedules that are on in this home and belong to none of the indexes looked at.

    The daemon keeps a state of what the code has on. It stays when an index is taken out, so this may count too many.
    """
    own = {name for one in indexes for name in _wanted(one)}
    on = (InstigatorStatus.RUNNING, InstigatorStatus.DECLARED_IN_CODE)
    return sum(
        state.status in on
        and state.origin.instigator_name not in own
        and state.origin.repository_origin.code_location_origin.location_name == location
        for state in instance.all_instigator_state()
    )


def _turned_by_hand(location: str, instance: dg.DagsterInstance) -> dict[str, bool]:
    """Sensors and schedules of the code location that somebody turned on (True) or off in the UI."""
    hands = {InstigatorStatus.RUNNING: True, InstigatorStatus.STOPPED: False}
    return {
        state.origin.instigator_name: hands[state.status]
        for state in instance.all_instigator_state()
        if state.status in hands and state.origin.repository_origin.code_location_origin.location_name == location
    }
