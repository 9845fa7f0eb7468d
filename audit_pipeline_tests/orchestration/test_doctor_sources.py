"""What `doctor` says of sources that cannot be listed, of batches that are not in order, and of the last audit."""

from __future__ import annotations

import json
from pathlib import Path

from audit_pipeline.stages.doctor import Line
from audit_pipeline.stages.doctor_sources import last_audit
from audit_pipeline.state import read_json, write_json
from audit_pipeline_tests.command import Command
from audit_pipeline_tests.small_audit import CELLS, NAME, ROWS, SmallAudit


def look(audit: SmallAudit, command: Command) -> tuple[int, dict[str, Line]]:
    printed = command("doctor", "--json", "--config", str(audit.config), "--state", str(audit.state))
    lines = [Line(**line) for line in json.loads(printed.out)]
    return printed.code, {line.what: line for line in lines}


def test_sources_batches_and_the_last_audit_in_order(changeable: SmallAudit, command: Command) -> None:
    _, lines = look(changeable, command)
    assert lines[f"source 'Alpha' of {NAME}"].seen.startswith(f"2 files at {changeable.folder}/corpus/alpha, 0.0 MiB")
    assert lines[f"source 'beta' of {NAME}"].seen.startswith("1 file at ")
    assert lines[f"batches of {NAME}"].seen.startswith(f"{len(CELLS)} batches, {ROWS} rows; ")
    assert "has no error finding" in lines[f"last audit of {NAME}"].seen


def test_a_source_that_is_gone_fails_with_the_sentence_of_an_audit(changeable: SmallAudit, command: Command) -> None:
    path = changeable.folder / "corpus" / "beta.jsonl"
    path.unlink()
    code, lines = look(changeable, command)
    gone = lines[f"source 'beta' of {NAME}"]
    assert (code, gone.state) == (1, "fail")
    assert gone.seen == f"source 'beta': no jsonl file at {path}"
    assert gone.to_do.startswith("check the path")
    assert lines[f"source 'Alpha' of {NAME}"].state == "ok"


def test_a_batch_left_half_done_and_those_of_other_settings_are_named(changeable: SmallAudit, command: Command) -> None:
    (folder,) = [path.parent for path in changeable.state.rglob("batch.json") if read_json(path)["key"] == CELLS[0]]
    write_json(folder / "pending.json", {"generation": "0000"})
    write_json(folder / "unsettled.json", {"generation": "0000", "written": False, "taken": []})
    code, lines = look(changeable, command)
    half = lines[f"batches of {NAME}"]
    assert (code, half.state) == (0, "warn")
    assert half.seen == f"1 batch failed: {CELLS[0]} (not finished)"
    (folder / "unsettled.json").unlink()
    write_json(folder / "pending.json", {"generation": read_json(folder / "batch.json")["generation"]})
    changeable.config.write_text(changeable.config.read_text() + "  index: {embed_text: '{source} {text}'}\n")
    other = look(changeable, command)[1][f"batches of {NAME}"]
    assert other.state == "warn"
    assert other.seen == f"4 batches ingested under other settings: {', '.join(sorted(CELLS))}"


def test_error_findings_of_the_last_audit_are_counted_with_its_day_and_place(
    tmp_path: Path, audited: SmallAudit
) -> None:
    assert last_audit(audited.settings, tmp_path)[0].state == "not_measured"
    findings = [{"code": code, "severity": "error"} for code in ("text_drift", "missing_rows", "missing_rows")]
    findings.append({"code": "twins", "severity": "info"})
    report = tmp_path / "reports" / NAME
    write_json(report / "audit.json", {"created_at": "2026-02-03T04:05:06+00:00", "findings": findings})
    (line,) = last_audit(audited.settings, tmp_path)
    assert (line.state, line.to_do) == ("warn", f"look at {report / 'audit.html'}")
    assert line.seen == "the last audit of 2026-02-03 has 3 error findings: missing_rows, text_drift"
