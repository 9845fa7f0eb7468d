"""The example workflow, step by step: every `run:` in bash as the runner calls it, on a small audit, offline."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import lancedb
import numpy as np
import pyarrow as pa
import pytest
import yaml

from audit_pipeline_tests.small_audit import NAME, SmallAudit, cli_environment

ROOT = Path(__file__).parents[2]
WORKFLOW = yaml.safe_load((ROOT / "docs" / "examples" / "gate.yml").read_text(encoding="utf-8"))


def run_job(job: str, folder: Path, audit: SmallAudit) -> dict[str, int]:
    """Runs a job's steps in ``folder`` as the runner does: after a failure only those with always(). Exit by step."""
    programs = folder / "bin"
    if not programs.exists():
        programs.mkdir()
        (programs / "audit-pipeline").write_text(f'#!/bin/sh\nexec {sys.executable} -m audit_pipeline.cli "$@"\n')
        (programs / "audit-pipeline").chmod(0o755)
    own = {"CONFIG": str(audit.config), "STATE": str(audit.state), "NAME": NAME}
    assert own.keys() == WORKFLOW["env"].keys()
    environment = cli_environment(**own, GITHUB_STEP_SUMMARY=str(folder / "summary.md"), PYTHONPATH=str(ROOT))
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    exits: dict[str, int] = {}
    for step in WORKFLOW["jobs"][job]["steps"]:
        if "run" not in step or (any(exits.values()) and not str(step.get("if", "")).startswith("always()")):
            continue
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
        exits[step["name"].split(";")[0].split(",")[0]] = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=200
        ).returncode
    return exits


def damage(audit: SmallAudit) -> None:
    """Half of the rows carry the vector of their neighbour: a writer that put rows and vectors out of step."""
    table = lancedb.connect(str(audit.state / "index" / f"{NAME}.lance")).open_table("chunks")
    rows = table.to_arrow().sort_by("chunk_id")
    vectors = np.stack(rows["vector"].to_pylist()).astype(np.float32)
    vectors[:30] = np.roll(vectors[:30], 1, axis=0)
    place = rows.schema.get_field_index("vector")
    kind = rows.schema.field("vector").type
    flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1]).cast(kind)
    table.merge_insert("chunk_id").when_matched_update_all().execute(rows.set_column(place, "vector", flat))


def test_every_step_of_the_example_works_and_the_gate_closes_on_a_planted_loss(
    changeable: SmallAudit, tmp_path: Path
) -> None:
    kept = run_job("baseline", tmp_path, changeable)
    assert set(kept.values()) == {0}
    assert len(kept) == 3
    assert (tmp_path / "baseline" / "tables" / "self_retrieval.parquet").exists()
    damage(changeable)
    failed = run_job("gate", tmp_path, changeable)
    assert failed == {"Install": 0, "Audit": 0, "Gate": 1, "Summary": 0}
    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("### Gate failed: self@1")
    assert int(ElementTree.parse(tmp_path / "gate.xml").getroot().get("failures", "")) >= 1
    # The sound twin: the report of before the damage stands as the last one, and the gate lets it pass.
    shutil.rmtree(changeable.report)
    shutil.copytree(tmp_path / "baseline", changeable.report)
    gate = [step for step in WORKFLOW["jobs"]["gate"]["steps"] if step.get("name") != "Audit"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(WORKFLOW["jobs"]["gate"], "steps", gate)
        assert set(run_job("gate", tmp_path, changeable).values()) == {0}


def test_the_example_names_no_machine_and_no_registry() -> None:
    text = (ROOT / "docs" / "examples" / "gate.yml").read_text(encoding="utf-8")
    assert "://" not in text
    assert not [line for line in text.splitlines() if "/home/" in line or "/work" in line.replace("/workflows/", "")]
