"""`audit-pipeline doctor`: every check in its order, and those of Dagster itself. Nothing is changed or mended here."""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.errors import reason_of
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.doctor_automation import alerts, automation, daemon
from audit_pipeline.orchestration.home import PROCESS_TAG, other_host, process_lives, unfinished_runs
from audit_pipeline.orchestration.naming import audit_job_name, ingest_job_name, source_partitions_name
from audit_pipeline.orchestration.partitions import batch_partitions
from audit_pipeline.orchestration.pools import freeing_command
from audit_pipeline.plural import counted
from audit_pipeline.stages import doctor, doctor_sources
from audit_pipeline.stages.doctor import Check, Line
from audit_pipeline.stages.grid import first_day
from audit_pipeline.state import StateFolder

PROJECT = Path(__file__).parents[2]
LOCATION = "audit_pipeline"
MOST_CELLS = 28_000
"""Cells of the largest grid that was tried: its page opened in 4 s, one of 19,750 cells in 6 s (Dagster 1.13.27)."""
STORAGE = "Dagster's storage"
OfInstance = Callable[[dg.DagsterInstance], list[Line]]
_IDS_SHOWN = 3
_VARIABLE = re.compile(r'environment variable "?([A-Za-z_][A-Za-z0-9_]*)"? which is not set')


def examine(indexes: list[IndexAuditSettings], root: Path) -> Iterator[Line]:
    """The lines of every check, as they are found. Sets DAGSTER_HOME and forbids the model hub for this process."""
    os.environ["DAGSTER_HOME"] = str(root)
    os.environ["HF_HUB_OFFLINE"] = "1"
    hide = doctor.hiding(indexes)
    for what, check in _first_checks(indexes, root):
        yield from doctor.within(what, check, hide)
    opened = doctor.within(STORAGE, partial(storage, root), hide)
    yield from opened
    for what, of_instance in _checks_of_instance(indexes, root):
        if any(line.state != "ok" for line in opened):
            yield Line(what, "not_measured", "Dagster's storage cannot be read", f"see {STORAGE}")
        else:
            yield from doctor.within(what, partial(_of_instance, of_instance), hide)
    for what, check in _checks(indexes, root):
        yield from doctor.within(what, check, hide)


def _first_checks(indexes: list[IndexAuditSettings], root: Path) -> Iterator[tuple[str, Check]]:
    yield "home", partial(home, root)
    yield "definitions", partial(definitions, indexes)
    yield "versions", partial(doctor.versions, PROJECT / "constraints.txt")


def _checks_of_instance(indexes: list[IndexAuditSettings], root: Path) -> list[tuple[str, OfInstance]]:
    return [
        ("code location", locations),
        ("daemon", partial(daemon, indexes, LOCATION)),
        *((f"automation of {one.name}", partial(automation, one, LOCATION)) for one in indexes),
        *((f"grid of {one.name}", partial(grid, one, root)) for one in indexes),
        ("runs of dead processes", dead_runs),
        ("pool slots", slots),
    ]


def _checks(indexes: list[IndexAuditSettings], root: Path) -> Iterator[tuple[str, Check]]:
    for settings in indexes:
        yield f"model of {settings.name}", partial(doctor.model, settings)
        yield f"table of {settings.name}", partial(doctor.table, settings, root)
        yield f"object store of {settings.name}", partial(doctor.object_store, settings)
        for entry in settings.sources:
            what = f"source {entry.name!r} of {settings.name}"
            yield what, partial(doctor_sources.source, what, entry, settings)
        yield f"batches of {settings.name}", partial(doctor_sources.batches, settings, root)
        yield f"last audit of {settings.name}", partial(doctor_sources.last_audit, settings, root)
        yield f"labels of {settings.name}", partial(doctor.labels, settings)
        yield f"alerts of {settings.name}", partial(alerts, settings)
    yield "disk", partial(doctor.disk, root)


def home(root: Path) -> list[Line]:
    """Whether the state folder is there, can be written to, and is a Dagster home whose dagster.yaml is valid."""
    if not root.exists():
        return [Line("home", "warn", f"{root} does not exist yet", "audit-pipeline prepare or run makes it")]
    if not root.is_dir():
        return [Line("home", "fail", f"{root} is no folder", "choose another with --state")]
    try:
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        to_do = "give this user the right to write there, or choose another folder with --state"
        return [Line("home", "fail", f"{root} cannot be written to ({error.strerror})", to_do)]
    if not (root / "dagster.yaml").exists():
        return [Line("home", "warn", f"{root} has no dagster.yaml yet", "audit-pipeline prepare or run makes it")]
    from dagster._core.instance.config import dagster_instance_config

    try:
        dagster_instance_config(str(root))
    except (dg.DagsterError, yaml.YAMLError, ValueError) as error:
        seen = f"{root / 'dagster.yaml'} is not valid ({type(error).__name__})"
        return [Line("home", "fail", seen, "correct it, or delete it and call audit-pipeline prepare")]
    return [Line("home", "ok", f"{root}, writable, dagster.yaml valid")]


def definitions(indexes: list[IndexAuditSettings]) -> list[Line]:
    """Whether the definitions load, and the names of the code location agree in the files of the project."""
    lines = []
    names = _location_names()
    if len(set(names.values())) > 1:
        told = ", ".join(f"{name!r} in {file}" for file, name in names.items())
        to_do = f"write {LOCATION!r} in each: sensors keep what they know under that name"
        lines.append(Line("definitions", "fail", f"the code location has several names: {told}", to_do))
    if not indexes:
        return [*lines, Line("definitions", "not_measured", "no index is configured", "name one with --config")]
    defs = dg.Definitions.merge(*(build_defs(settings) for settings in indexes))
    dg.Definitions.validate_loadable(defs)
    jobs = [
        name
        for one in indexes
        for name in ([ingest_job_name(one)] if one.index.managed else []) + [audit_job_name(one)]
    ]
    return [*lines, Line("definitions", "ok", f"code location {LOCATION} loads, jobs {', '.join(jobs)}")]


def _location_names() -> dict[str, Any]:
    """The name of the code location in each file that gives one; none where the package stands without its project."""
    names: dict[str, Any] = {}
    try:
        tools = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
        names["pyproject.toml [tool.dg]"] = tools["dg"]["project"]["code_location_name"]
        names["pyproject.toml [tool.dagster]"] = tools["dagster"]["code_location_name"]
        workspace = yaml.safe_load((PROJECT / "workspace.yaml").read_text(encoding="utf-8"))
        names["workspace.yaml"] = workspace["load_from"][0]["python_module"]["location_name"]
    except FileNotFoundError:
        pass
    return names


def storage(root: Path) -> list[Line]:
    """Whether Dagster's storage can be opened and read, as dagster.yaml names it."""
    if not (root / "dagster.yaml").exists():  # opening an instance would make it
        return [Line(STORAGE, "not_measured", "there is no Dagster home yet", "see home")]
    try:
        with dg.DagsterInstance.get() as instance:
            instance.get_runs(limit=1)
            instance.all_instigator_state()
            instance.get_daemon_heartbeats()
            kind = type(instance.run_storage).__name__.removesuffix("RunStorage")
    except Exception as error:
        return [_not_opened(root, error)]
    return [Line(STORAGE, "ok", f"{kind}, readable")]


def _not_opened(root: Path, error: Exception) -> Line:
    """What an error of Dagster's storage means; of its settings, which may hold a password, nothing is repeated."""
    text = str(error)
    variables = sorted(set(_VARIABLE.findall(text + " ".join(one.message for one in getattr(error, "errors", [])))))
    if variables:
        seen = f"dagster.yaml names an environment variable that is not set: {', '.join(variables)}"
        return Line(STORAGE, "fail", seen, "set it, or correct dagster.yaml")
    if "dagster_postgres" in text:
        seen = "dagster.yaml asks for Postgres, and dagster-postgres is not installed"
        return Line(STORAGE, "fail", seen, "pip install 'audit-pipeline[postgres]'")
    if isinstance(error, (dg.DagsterError, yaml.YAMLError)):
        seen = f"dagster.yaml cannot be used ({type(error).__name__})"
        return Line(
            STORAGE, "fail", seen, f"correct {root / 'dagster.yaml'}, or delete it and call audit-pipeline prepare"
        )
    seen = f"it cannot be read ({type(error).__name__}: {reason_of(error)})"
    to_do = (
        f"start the database that dagster.yaml names; where it is SQLite, put copies of the folders history "
        f"and schedules back in {root}, or move them away: runs and events are lost then, reports and tables are not"
    )
    return Line(STORAGE, "fail", seen, to_do)


def _of_instance(check: OfInstance) -> list[Line]:
    with dg.DagsterInstance.get() as instance:
        return check(instance)


def locations(instance: dg.DagsterInstance) -> list[Line]:
    """Whether sensors and schedules keep what they know under one name of the code location."""
    kept: dict[str, int] = {}
    for state in instance.all_instigator_state():
        name = state.origin.repository_origin.code_location_origin.location_name
        kept[name] = kept.get(name, 0) + 1
    others = {name: count for name, count in kept.items() if name != LOCATION}
    if others:
        told = ", ".join(
            f"{name!r} ({counted(count, 'sensor or schedule', 'sensors or schedules')})"
            for name, count in others.items()
        )
        to_do = (
            f"start Dagster with -w workspace.yaml, which names it {LOCATION}: under another name sensors begin anew"
        )
        return [Line("code location", "warn", f"the home knows other code locations: {told}", to_do)]
    seen = counted(sum(kept.values()), "sensor or schedule", "sensors and schedules")
    return [Line("code location", "ok", f"{LOCATION}, {seen} kept under it by the daemon or the UI")]


def grid(settings: IndexAuditSettings, root: Path, instance: dg.DagsterInstance) -> list[Line]:
    """How many cells the index's grid of source x period has, as the definitions build it."""
    what = f"grid of {settings.name}"
    start = first_day(settings, StateFolder(root, settings.name))
    dates = batch_partitions(settings, start).get_partitions_def_for_dimension("ingestion_date")
    sources = len(instance.get_dynamic_partitions(source_partitions_name(settings)))
    periods = dates.get_num_partitions()
    cells = sources * periods
    seen = f"{counted(sources, 'source')} x {counted(periods, settings.ingestion_grain)} = {counted(cells, 'cell')}"
    if cells <= MOST_CELLS:
        return [Line(what, "ok", seen)]
    wider = {"day": "week or month", "week": "month"}.get(settings.ingestion_grain)
    to_do = f"ingestion_grain: {wider} widens the cells" if wider else "a later start_date leaves old cells out"
    return [Line(what, "warn", f"{seen}; its page in the UI was tried with {MOST_CELLS:,} only (some 5 s)", to_do)]


def dead_runs(instance: dg.DagsterInstance) -> list[Line]:
    """Runs that are unfinished although their process is gone."""
    dead, others = unfinished_runs(instance)
    unknown = [run for run in others if PROCESS_TAG not in run.tags]
    aside = (
        f"; {counted(len(unknown), 'unfinished run')} without a known process, which this cannot judge"
        if unknown
        else ""
    )
    if dead:
        seen = f"{counted(len(dead), 'run')} of processes that are gone: {_some([run.run_id for run in dead])}{aside}"
        return [Line("runs of dead processes", "fail", seen, "audit-pipeline run ends them and frees their slots")]
    return [Line("runs of dead processes", "ok", f"none{aside}")]


def slots(instance: dg.DagsterInstance) -> list[Line]:
    """Slots of pools that are held by runs that are over, gone, unknown, or of hosts that cannot be seen from here."""
    storage = instance.event_log_storage
    if not storage.supports_global_concurrency_limits:
        return [Line("pool slots", "not_measured", "this event log storage has no pools")]
    held = []
    unseen: dict[str, str] = {}
    keys = sorted(storage.get_concurrency_keys())
    for key in keys:
        for slot in storage.get_concurrency_info(key).claimed_slots:
            run = instance.get_run_by_id(slot.run_id)
            tag = run.tags.get(PROCESS_TAG) if run else None
            if run is None or run.is_finished or (tag is not None and not process_lives(tag)):
                held.append(f"{key} by run {slot.run_id}")
            elif host := other_host(tag):
                unseen[slot.run_id] = f"{key} by run {slot.run_id} of host {host}"
    if held:
        to_do = (
            "stop waiting runs and free the slots on Dagster's page Deployment > Concurrency; a running daemon frees "
            "those of finished runs after a minute, audit-pipeline run those of dead processes"
        )
        seen = f"{counted(len(held), 'slot')} held by a run that is over: {_some(held)}"
        return [Line("pool slots", "fail", seen, to_do)]
    if unseen:
        seen = f"held by a run whose host cannot be seen from here: {_some(list(unseen.values()))}"
        command = freeing_command(instance, next(iter(unseen)))
        return [Line("pool slots", "warn", seen, f"where its process is gone, free it: {command}")]
    return [Line("pool slots", "ok", f"{counted(len(keys), 'pool')}, no slot held by a run that is over")]


def _some(several: list[str]) -> str:
    left = len(several) - _IDS_SHOWN
    return ", ".join(several[:_IDS_SHOWN]) + (f" and {left} more" if left > 0 else "")
