from __future__ import annotations

import copy
import datetime as dt
from typing import Any

import numpy as np
import pytest

from audit_pipeline.alert_settings import AlertSettings
from audit_pipeline.findings import ERROR_CODES, INFO_CODES, SEVERITIES_OF_AMBIGUOUS_CODES, WARNING_CODES
from audit_pipeline.report.audit_json import (
    AuditShapeError,
    audit_schema,
    build_audit,
    dump_audit,
    not_measured,
    to_plain,
    validate_audit,
)
from audit_pipeline_tests.report.sample_audit import (
    CREATED,
    sample_audit,
    sample_findings,
    sample_parts,
    sample_settings,
)


def test_the_rich_sample_is_accepted_with_and_without_labels(audit: dict[str, Any]) -> None:
    validate_audit(audit)
    assert sample_audit(labels=False)["labelled"] is None


def test_findings_stand_errors_first(audit: dict[str, Any]) -> None:
    severities = [finding["severity"] for finding in audit["findings"]]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)


def _without_n(audit: dict[str, Any]) -> None:
    del audit["self_retrieval"]["self@1"]["n"]


def _bare_number(audit: dict[str, Any]) -> None:
    audit["held_out"]["by_source"][0]["heldout@10"] = 0.9


def _value_without_probes(audit: dict[str, Any]) -> None:
    audit["labelled"]["labelled_success@10"] = {"value": 1.0, "low": 1.0, "high": 1.0, "n": 0}


def _missing_section(audit: dict[str, Any]) -> None:
    del audit["duplicates"]["floor"]


def _missing_key(audit: dict[str, Any]) -> None:
    del audit["roles"]


def _unknown_severity(audit: dict[str, Any]) -> None:
    audit["findings"][0]["severity"] = "fatal"


def _wrong_severity(audit: dict[str, Any]) -> None:
    audit["findings"][0]["severity"] = "info"


def _unknown_code(audit: dict[str, Any]) -> None:
    audit["findings"][0]["code"] = "something_odd"


def _unknown_reading(audit: dict[str, Any]) -> None:
    audit["verdict"]["reading"] = "fine"


def _list_in_scope(audit: dict[str, Any]) -> None:
    audit["findings"][0]["scope"] = {"source": ["a", "b"]}


def _unknown_cause(audit: dict[str, Any]) -> None:
    audit["causes"]["self"]["gremlins"] = 3


def _outside_its_interval(audit: dict[str, Any]) -> None:
    audit["ann_recall"]["ann_recall@10"] = {"value": 0.5, "low": 0.6, "high": 0.7, "n": 10}


def _recall_without_interval(audit: dict[str, Any]) -> None:
    del audit["duplicates"]["sweep"][0]["recall_pipeline_low"]


def _failed_self_check(audit: dict[str, Any]) -> None:
    audit["self_checks"][0]["passed"] = False


@pytest.mark.parametrize(
    ("spoil", "place"),
    [
        (_without_n, "self_retrieval/self@1"),
        (_bare_number, "held_out/by_source/0/heldout@10"),
        (_value_without_probes, "labelled"),
        (_missing_section, "duplicates"),
        (_missing_key, "the top"),
        (_unknown_severity, "findings/0/severity"),
        (_wrong_severity, "findings/0"),
        (_unknown_code, "findings/0/code"),
        (_unknown_reading, "verdict/reading"),
        (_list_in_scope, "findings/0/scope"),
        (_unknown_cause, "causes/self"),
        (_outside_its_interval, "ann_recall/ann_recall@10"),
        (_recall_without_interval, "duplicates/sweep/0"),
        (_failed_self_check, "self_checks/0/passed"),
    ],
)
def test_a_wrong_shape_is_refused_with_its_place(audit: dict[str, Any], spoil: Any, place: str) -> None:
    spoiled = copy.deepcopy(audit)
    spoil(spoiled)
    with pytest.raises(AuditShapeError) as caught:
        validate_audit(spoiled)
    assert place in str(caught.value)


def test_the_schema_knows_exactly_the_finding_codes() -> None:
    codes = audit_schema()["properties"]["findings"]["items"]["properties"]["code"]["enum"]
    assert set(codes) == ERROR_CODES | WARNING_CODES | INFO_CODES | set(SEVERITIES_OF_AMBIGUOUS_CODES)


def test_a_figure_the_search_limit_forbids_may_be_null(audit: dict[str, Any]) -> None:
    limited = copy.deepcopy(audit)
    limited["self_retrieval"]["self@10"] = None
    validate_audit(limited)


def test_sections_that_did_not_run_are_valid_and_hold_no_figure() -> None:
    parts = {part: not_measured(part) for part in ("self_retrieval", "held_out", "ann_recall")}
    audit = sample_audit(labels=False, **parts)
    assert audit["held_out"]["heldout@10"] == {"value": None, "low": None, "high": None, "n": 0}


def test_credentials_reach_neither_settings_nor_uri(audit: dict[str, Any]) -> None:
    text = dump_audit(audit)
    assert "hunter2" not in text
    assert audit["index"]["uri"] == "s3://***@bucket/lance"
    assert audit["settings"]["index"]["storage_options"] == {"aws_secret_access_key": "***"}


def test_a_missing_part_and_a_time_without_zone_are_named() -> None:
    parts = sample_parts()
    keywords: dict[str, Any] = {
        "name": "handbook",
        "timings": {},
        "versions": {},
        "settings": sample_settings(),
    }
    with pytest.raises(AuditShapeError, match="time zone"):
        build_audit(parts, [], created_at=dt.datetime(2026, 1, 1), **keywords)
    del parts["roles"]
    with pytest.raises(AuditShapeError, match="roles"):
        build_audit(parts, [], created_at=CREATED, **keywords)


def test_rare_causes_keep_their_place_among_the_misses() -> None:
    def miss(position: int, cause: str) -> dict[str, Any]:
        ranks: dict[str, Any] = {"rank_returned": None, "rank_min": None, "rank_max": None, "evidence": {}}
        return {"probe_id": f"self:{position}", "chunk_id": str(position), "run": "self", "cause": cause, **ranks}

    misses = [miss(position, "encoder") for position in range(500)] + [miss(900, "missing_row"), miss(901, "twin")]
    kept = sample_audit(misses=misses)["misses"]
    assert len(kept) == 200
    assert [entry["cause"] for entry in kept[-2:]] == ["missing_row", "twin"]
    assert [entry["chunk_id"] for entry in kept[:198]] == [str(position) for position in range(198)]


def test_numpy_values_and_dates_become_plain_json() -> None:
    value = {"a": np.float64(0.5), "b": (np.int64(3), dt.date(2026, 1, 2)), "c": np.array([1, 2]), "d": {"y", "x"}}
    assert to_plain(value) == {"a": 0.5, "b": [3, "2026-01-02"], "c": [1, 2], "d": ["x", "y"]}


def test_nan_is_refused_with_its_place() -> None:
    with pytest.raises(AuditShapeError, match="a/1: nan"):
        to_plain({"a": [1.0, np.nan]})


def test_the_mutes_of_the_settings_are_counted_in_the_audit() -> None:
    mute = {"code": "role_mismatch", "until": "2026-03-01", "reason": "is being encoded anew"}
    alerts = AlertSettings.model_validate({"webhook_env": "SOME_WEBHOOK", "mute": [mute]})
    audit = build_audit(
        sample_parts(),
        sample_findings(),
        name="handbook",
        created_at=CREATED,
        timings={},
        versions={},
        settings=sample_settings().model_copy(update={"alerts": alerts}),
    )
    errors = sum(one["code"] == "role_mismatch" for one in audit["findings"])
    assert errors > 0
    assert audit["muted"] == [mute | {"scope": {}, "ended": False, "findings": errors}]
    assert sample_audit()["muted"] == []
