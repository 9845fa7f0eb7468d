"""What the README shows must work: its settings parse, its files and commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from audit_pipeline.cli import app
from audit_pipeline.duplicates.labelled_pairs import read_labelled_pairs
from audit_pipeline.settings_file import parse_settings
from audit_pipeline_tests.command import Command
from audit_pipeline_tests.small_audit import NAME, SmallAudit

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
YAML_BLOCKS = [block for block in BLOCKS if block.startswith("type:")]
FRAGMENTS = [block for block in BLOCKS if not block.startswith("type:")]


@pytest.mark.parametrize("block", YAML_BLOCKS)
def test_each_yaml_of_the_readme_is_a_valid_setting(block: str) -> None:
    document = yaml.safe_load(block)
    assert document["type"] == "audit_pipeline.IndexAudit"
    settings = parse_settings(document["attributes"], "README.md", base=ROOT)
    assert settings.name == document["attributes"]["name"]


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_each_part_of_a_setting_fits_into_one(fragment: str) -> None:
    whole = next(block for block in YAML_BLOCKS if "table: docs" in block)
    attributes = yaml.safe_load(whole)["attributes"]
    for section, fields in yaml.safe_load(fragment).items():
        attributes[section] = attributes.get(section, {}) | fields
    assert parse_settings(attributes, "README.md", base=ROOT).name == "production"


def test_the_readme_shows_a_managed_index_and_one_as_it_stands() -> None:
    managed = [parse_settings(yaml.safe_load(b)["attributes"], "README.md", ROOT).index.managed for b in YAML_BLOCKS]
    assert managed == [True, False, False, False]


def test_every_file_the_readme_points_at_exists() -> None:
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README)
    mentioned = re.findall(r"`(audit_pipeline/[\w/.-]+\.(?:py|json|yaml))`", README)
    paths = [path for path in [*pictures, *mentioned] if "NAME" not in path]
    assert pictures
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_make_target_the_readme_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`make (\w+)`", README)) | set(re.findall(r"^make (\w+)", README, flags=re.MULTILINE))
    assert targets == {"audit", "test", "ui", "lint", "benchmarks", "defects", "recount"}
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, flags=re.MULTILINE)] == []


def test_every_command_the_readme_names_has_help() -> None:
    commands = set(re.findall(r"audit-pipeline (\w+)", README))
    assert commands == {"run", "backfill", "inspect", "compare", "gate", "doctor", "label"}
    for command in commands:
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0


def test_the_commands_that_label_pairs_work_as_shown(
    audited: SmallAudit, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    section = README.split("### Label pairs")[1].split("\n### ")[0]
    lines = re.findall(r"^\.venv/bin/audit-pipeline (label .*?)(?:    #.*)?$", section, flags=re.MULTILINE)
    assert [line.split()[1] for line in lines] == ["queue", "import", "export"]
    monkeypatch.chdir(tmp_path)
    for line in lines:
        arguments = [NAME if word == "handbook" else word for word in line.split()]
        assert command(*arguments, "--state", str(audited.state)).code == 0
        if "queue" in arguments:
            filled = Path("queue.csv").read_text(encoding="utf-8-sig").splitlines(keepends=True)
            assert filled[0].startswith("nr,text_a,text_b,duplicate,reason,labeller,")
    assert read_labelled_pairs(Path("pairs.csv")).num_rows == 0
    assert Path("conflicts.csv").exists()


def test_the_python_example_reads_an_audit(audited: SmallAudit) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert 'load(".audit", "demo")' in example
    names: dict[str, object] = {}
    exec(example.replace('".audit", "demo"', f"{str(audited.state)!r}, {NAME!r}"), names)
    table = eval('audit.table("self_retrieval", text=True)', names)
    assert len(table) == eval('audit.audit["self_retrieval"]["n"]', names)
    assert table["text"].str.len().gt(0).all()
