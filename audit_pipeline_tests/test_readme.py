"""What the README and the pages under docs/ show must work: settings parse, files, links and commands exist."""

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
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}
README = TEXTS[ROOT / "README.md"]
ALL = "\n".join(TEXTS.values())
BLOCKS = re.findall(r"```yaml\n(.*?)```", ALL, flags=re.DOTALL)
YAML_BLOCKS = [block for block in BLOCKS if block.startswith("type:")]
FRAGMENTS = [block for block in BLOCKS if not block.startswith("type:")]


@pytest.mark.parametrize("block", YAML_BLOCKS)
def test_each_yaml_of_the_pages_is_a_valid_setting(block: str) -> None:
    document = yaml.safe_load(block)
    assert document["type"] == "audit_pipeline.IndexAudit"
    settings = parse_settings(document["attributes"], "README.md", base=ROOT)
    assert settings.name == document["attributes"]["name"]


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_each_part_of_a_setting_fits_into_one(fragment: str) -> None:
    whole = next(block for block in YAML_BLOCKS if "table: docs" in block)
    attributes = yaml.safe_load(whole)["attributes"]
    for section, fields in yaml.safe_load(fragment).items():
        attributes[section] = attributes.get(section, {}) | fields if isinstance(fields, dict) else fields
    assert parse_settings(attributes, "README.md", base=ROOT).name == "production"


def test_the_pages_show_a_managed_index_and_one_as_it_stands() -> None:
    managed = [parse_settings(yaml.safe_load(b)["attributes"], "README.md", ROOT).index.managed for b in YAML_BLOCKS]
    assert managed == [True, False, False, False]


def test_every_file_the_pages_name_exists() -> None:
    mentioned = re.findall(r"`((?:audit_pipeline|docs|benchmarks)/[\w/.-]+\.(?:py|json|ya?ml))`", ALL)
    paths = [path for path in mentioned if "NAME" not in path]
    assert len(paths) > 3
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_link_within_the_pages_leads_to_a_file_and_a_heading() -> None:
    broken = []
    for page, text in TEXTS.items():
        links = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text)
        for path, anchor in links:
            target = (page.parent / path).resolve() if path else page
            headings = re.findall(r"^#+ (.*)$", TEXTS.get(target, ""), flags=re.MULTILINE)
            if not target.exists() or (anchor and anchor not in map(_anchor, headings)):
                broken.append((page.name, path, anchor))
    assert broken == []


def _anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_make_target_the_pages_name_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`make (\w+)`", ALL)) | set(re.findall(r"^make (\w+)", ALL, flags=re.MULTILINE))
    assert targets == {"audit", "test", "ui", "lint", "benchmarks", "defects", "recount"}
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, flags=re.MULTILINE)] == []


def test_every_command_the_pages_name_has_help() -> None:
    commands = set(re.findall(r"audit-pipeline (\w+)", ALL))
    assert commands == {"run", "backfill", "inspect", "compare", "gate", "doctor", "label", "prepare"}
    for command in commands:
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0


def test_the_commands_that_label_pairs_work_as_shown(
    audited: SmallAudit, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    section = ALL.split("## Labelled pairs")[1].split("\n## ")[0]
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
