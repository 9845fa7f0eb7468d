"""The backfill command: what it lists, what it brings in, and what it heals."""

from __future__ import annotations

import json
from pathlib import Path

import lancedb
import numpy as np
import pyarrow as pa

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.orchestration import workspaces
from audit_pipeline.stages.remedies import HEALED
from audit_pipeline_tests.command import Command
from audit_pipeline_tests.encoder import planted
from audit_pipeline_tests.faults.index import QUERY
from audit_pipeline_tests.orchestration.managed_index import DAY, LATER, SMALL_SAMPLE, table, write


def test_the_command_lists_then_brings_in_one_source_from_a_day_on(
    tmp_path: Path, fast_encoder: Encoder, command: Command
) -> None:
    texts = planted.docstrings("rich", 6)
    for name, part in (("docs", texts[:3]), ("late", texts[3:])):
        days = (DAY, LATER, "2026-01-05")
        write(tmp_path, {f"{name}{n}": (days[n], text) for n, text in enumerate(part)}, name)
    config, state = tmp_path / "defs.yaml", tmp_path / "state"
    config.write_text(
        "type: audit_pipeline.IndexAudit\nattributes:\n  name: managed\n  sources:\n"
        "    - {name: docs, uri: docs.jsonl, format: jsonl}\n    - {name: late, uri: late.jsonl, format: jsonl}\n"
        f"  encoder: {{model: {fast_encoder.files.folder}}}\n",
        encoding="utf-8",
    )

    def backfill(*more: str) -> tuple[int, list[str]]:
        printed = command("backfill", "--config", str(config), "--state", str(state), "--source", "late", *more)
        return printed.code, printed.out.splitlines()

    listed = [f"  {LATER}|late (new, 1 row)", "  2026-01-05|late (new, 1 row)"]
    assert backfill("--since", LATER, "--dry-run") == (
        0,
        ["managed: 2 batches of late to bring up to date", *listed],
    )
    assert not (state / "index").exists()
    done = ["managed: 2 batches of late to bring up to date", "managed: 2 batches brought in"]
    assert backfill("--since", LATER) == (0, done)
    assert set(table(tmp_path)) == {"late1", "late2"}
    up_to_date = [f"managed: nothing to do: the 2 batches of late from {LATER} on are up to date"]
    assert backfill("--since", LATER) == (0, up_to_date)
    nothing = ["managed: nothing to do: the source store has no batch of late from 2027-01-01 on"]
    assert backfill("--since", "2027-01-01", "--again") == (0, nothing)
    write(tmp_path, {"docs0": (DAY, texts[0]), "late0": (DAY, "an id in use")})  # now of docs, which comes first
    faulty = [
        "managed: 1 batch of late to bring up to date",
        f"  {DAY}|late: 1 missing_rows",
        "managed: 1 batch brought in, 1 of them not in the table as in the source store",
    ]
    assert backfill() == (1, faulty)
    (tmp_path / "docs.jsonl").write_text("{broken\n", encoding="utf-8")  # another source's fault
    assert backfill()[0] == 0
    (tmp_path / "late.jsonl").write_text("{broken\n", encoding="utf-8")
    assert backfill()[0] == 2


def test_backfill_again_heals_what_the_remedies_say_it_heals(
    tmp_path: Path, fast_encoder: Encoder, command: Command
) -> None:
    """Rotated vectors, another text, a row that is gone and one too many; then another prompt in one batch, and in the
    other noise, zeros and a repeated id. No batch has changed in its source.
    """
    texts = planted.docstrings("rich", 60)
    write(tmp_path, {f"d{n:02}": (DAY if n < 30 else LATER, text) for n, text in enumerate(texts)})
    (tmp_path / "defs.yaml").write_text(
        json.dumps(
            {
                "type": "audit_pipeline.IndexAudit",
                "attributes": {
                    "name": "managed",
                    "sources": [{"name": "docs", "uri": "docs.jsonl", "format": "jsonl"}],
                    "encoder": {"model": str(fast_encoder.files.folder)},
                    "sample": SMALL_SAMPLE,
                },
            }
        )
    )
    usual = ("--config", str(tmp_path / "defs.yaml"), "--state", str(tmp_path / "state"))
    report = tmp_path / "state" / "reports" / "managed" / "audit.json"

    def errors() -> dict[str, str]:
        workspaces._WORKSPACES.clear()
        command("run", *usual)
        found = json.loads(report.read_text())["findings"]
        return {one["code"]: one["remedy"] for one in found if one["code"] in HEALED}

    assert errors() == {}
    target = lancedb.connect(str(tmp_path / "state" / "index" / "managed.lance")).open_table("chunks")
    rows = target.to_arrow().sort_by("chunk_id").to_pylist()
    stored = [row["vector"] for row in rows]
    damaged = [{**row, "vector": stored[n - 1]} for n, row in enumerate(rows)]
    damaged[40]["text"] += " Words that the source store never had."
    damaged[50]["chunk_id"] = "never-in-the-store"
    target.delete("true")
    target.add(pa.Table.from_pylist(damaged, schema=target.schema))

    remedies = errors()
    assert {"misaligned_vectors", "text_drift", "missing_rows", "orphan_rows"} <= set(remedies)
    heals = "audit-pipeline backfill --source docs --again"
    assert remedies["misaligned_vectors"].endswith(heals)
    assert remedies["text_drift"].endswith(f"audit-pipeline backfill --source docs --since {LATER} --again")
    assert "the 2 batches of docs are up to date" in command("backfill", "--source", "docs", *usual).out
    listed = command("backfill", "--source", "docs", "--again", "--dry-run", *usual).out
    assert listed.splitlines()[1:] == [f"  {DAY}|docs (again, 30 rows)", f"  {LATER}|docs (again, 30 rows)"]
    assert command("backfill", "--source", "docs", "--again", *usual).code == 0
    assert errors() == {}

    prompted = fast_encoder.encode([row["text"] for row in rows[:30]], prompt=QUERY)
    noise = np.random.default_rng(0).normal(size=prompted.shape).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    noise[:3] = 0
    damaged = [{**row, "vector": [*prompted, *noise][n]} for n, row in enumerate(rows)]
    target.delete("true")
    target.add(pa.Table.from_pylist([*damaged, damaged[45]], schema=target.schema))
    remedies = errors()
    assert {"role_mismatch", "vector_drift", "invalid_vectors", "duplicate_ids"} <= set(remedies)
    for code, day in (("role_mismatch", DAY), ("vector_drift", LATER), ("duplicate_ids", LATER)):
        assert remedies[code].endswith(f"audit-pipeline backfill --source docs --since {day} --again"), remedies[code]
    assert command("backfill", "--source", "docs", "--again", *usual).code == 0
    assert errors() == {}
