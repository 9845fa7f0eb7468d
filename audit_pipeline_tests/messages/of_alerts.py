"""Mistakes in the settings of alerts. The address of a webhook that was written there is not repeated."""

from __future__ import annotations

import dagster as dg

from audit_pipeline.orchestration.alerts import alert_sensors
from audit_pipeline.settings_file import load_settings
from audit_pipeline_tests.messages.attributes import GOOD
from audit_pipeline_tests.messages.case import Case, World, settings_file

SECRET = "https://hooks.example/T0/B0/x"
FILE = "type: audit_pipeline.IndexAudit\nattributes:\n" + GOOD


def alerts(text: str) -> str:
    return f"{FILE}  alerts: {text}\n"


def muting(text: str) -> str:
    return alerts(f"{{webhook_env: HOOK, mute: [{{{text}}}]}}")


def variable_that_is_not_set(world: World) -> None:
    world.patch.delenv("HOOK", raising=False)
    (sensor,) = alert_sensors(load_settings(world.write("defs.yaml", alerts("{webhook_env: HOOK}"))))
    with dg.DagsterInstance.ephemeral() as instance:
        sensor(dg.build_sensor_context(instance=instance))


def damaged(world: World, name: str) -> None:
    world.patch.setenv("HOOK", SECRET)
    world.patch.setenv("DAGSTER_HOME", str(world.folder))
    world.write(name, "[")
    (sensor,) = alert_sensors(load_settings(world.write("defs.yaml", alerts("{webhook_env: HOOK}"))))
    with dg.DagsterInstance.ephemeral() as instance:
        sensor(dg.build_sensor_context(instance=instance))


def channel(text: str) -> str:
    return alerts(f"{{slack: {{channel: '#search', {text}}}}}")


def missing_extra(world: World) -> None:
    world.patch.setattr("importlib.util.find_spec", lambda name: None)
    alert_sensors(load_settings(world.write("defs.yaml", channel("token_env: BOT"))))


def token_that_is_not_set(world: World) -> None:
    world.patch.delenv("BOT", raising=False)
    world.patch.setattr("importlib.util.find_spec", lambda name: name)
    (sensor,) = alert_sensors(load_settings(world.write("defs.yaml", channel("token_env: BOT"))))
    with dg.DagsterInstance.ephemeral() as instance:
        sensor(dg.build_sensor_context(instance=instance))


CASES = [
    Case(
        "a record of what was told that is cut",
        lambda world: damaged(world, "audits/handbook/alerts.json"),
        "FOLDER/audits/handbook/alerts.json: this record of what was told is damaged or of another version: delete it, "
        "and all that stands is told once more",
    ),
    Case(
        "a report to tell of that is cut",
        lambda world: damaged(world, "reports/handbook/audit.json"),
        "FOLDER/reports/handbook/audit.json: this report is damaged or of another version: run the audit again",
    ),
    Case(
        "nowhere to post to",
        settings_file(alerts("{every_seconds: 60}")),
        "FOLDER/defs.yaml: alerts: webhook_env or slack says where news are posted, but none is set: name one "
        "of the two",
    ),
    Case(
        "two places to post to",
        settings_file(alerts("{webhook_env: HOOK, slack: {channel: '#search', token_env: BOT}}")),
        "FOLDER/defs.yaml: alerts: webhook_env or slack says where news are posted, but both are set, and each thing "
        "is told once: name one of the two",
    ),
    Case(
        "a token where the name of its variable belongs",
        settings_file(channel("token_env: xoxb-1-SECRET")),
        "FOLDER/defs.yaml: alerts.slack.token_env: this is no name of an environment variable: set the token in the "
        "environment and write the variable's name here, such as SLACK_BOT_TOKEN",
    ),
    Case(
        "a token where a section belongs",
        settings_file(alerts("{slack: xoxb-1-SECRET}")),
        "FOLDER/defs.yaml: alerts.slack: this should be a section with fields of its own",
    ),
    Case(
        "a token that would go over the network in the clear",
        settings_file(channel("token_env: BOT, base_url: 'http://slack.example/api/'")),
        "FOLDER/defs.yaml: alerts.slack.base_url: the token is sent there, so it should be an https:// address, or "
        "http:// on this machine: correct it",
    ),
    Case(
        "a channel without the extra that posts to it",
        missing_extra,
        "alerts.slack: dagster-slack is not installed: install the extra by pip install 'audit-pipeline[slack]' "
        "wherever Dagster's code runs, or use alerts.webhook_env, which needs none",
    ),
    Case(
        "a token that is not set",
        token_that_is_not_set,
        "alerts.slack.token_env: the variable BOT is not set where Dagster's code runs: set it, or remove alerts",
    ),
    Case(
        "the address of a webhook where the name of its variable belongs",
        settings_file(alerts(f"{{webhook_env: '{SECRET}'}}")),
        "FOLDER/defs.yaml: alerts.webhook_env: this is no name of an environment variable: set the address in the "
        "environment and write the variable's name here, such as SLACK_WEBHOOK_URL",
    ),
    Case(
        "the address of a webhook where a section belongs",
        settings_file(alerts(f"'{SECRET}'")),
        "FOLDER/defs.yaml: alerts: this should be a section with fields of its own",
    ),
    Case(
        "a list of addresses where the name of a variable belongs",
        settings_file(alerts(f"{{webhook_env: ['{SECRET}']}}")),
        "FOLDER/defs.yaml: alerts.webhook_env: Input should be a valid string",
    ),
    Case(
        "a variable that is not set",
        variable_that_is_not_set,
        "alerts.webhook_env: the variable HOOK is not set where Dagster's code runs: set it, or remove alerts",
    ),
    Case(
        "an unknown code that is muted",
        settings_file(muting("code: missing_row, until: 2026-03-01, reason: known")),
        "FOLDER/defs.yaml: alerts.mute.0.code: 'missing_row' is neither a finding code nor a check on batches "
        "(did you mean 'missing_rows'?): correct it",
    ),
    Case(
        "an unknown scope that is muted",
        settings_file(muting("code: missing_rows, scope: {sauce: late}, until: 2026-03-01, reason: known")),
        "FOLDER/defs.yaml: alerts.mute.0.scope: 'sauce' is no part of a finding's scope; use one of source, "
        "ingestion_date, length_band",
    ),
    Case(
        "a severity that what is muted never has",
        settings_file(muting("code: missing_rows, severity: warning, until: 2026-03-01, reason: known")),
        "FOLDER/defs.yaml: alerts.mute.0: severity: missing_rows is error, so this would mute nothing: correct or "
        "remove it",
    ),
    Case(
        "a severity of a check",
        settings_file(muting("code: table_holds_batch, severity: error, until: 2026-03-01, reason: known")),
        "FOLDER/defs.yaml: alerts.mute.0: severity: table_holds_batch is neither warning nor error, so this would mute "
        "nothing: correct or remove it",
    ),
    Case(
        "a report that no browser opens",
        settings_file(alerts("{webhook_env: HOOK, report_url: reports/handbook/audit.html}")),
        "FOLDER/defs.yaml: alerts.report_url: this is no address that a browser opens, such as "
        "https://search.example/reports/handbook/audit.html: correct it",
    ),
    Case(
        "a report behind a password",
        settings_file(alerts(f"{{webhook_env: HOOK, report_url: 'https://me:{SECRET}@host/audit.html'}}")),
        "FOLDER/defs.yaml: alerts.report_url: it holds credentials, which each message would repeat: write the address "
        "without them",
    ),
    Case(
        "a mute without an end",
        settings_file(muting("code: missing_rows, reason: known")),
        "FOLDER/defs.yaml: alerts.mute.0.until: this field is required: add it",
    ),
]
