import importlib.metadata
from pathlib import Path

import pytest

from audit_pipeline.corpus.docstrings import docstrings_of, find_modules, read_docstrings
from audit_pipeline.source_settings import SourceSettings
from audit_pipeline_tests.corpus.builders import store_of

SOURCE = b'''"""Module."""
import this_does_not_exist

if True:
    def branch():
        """First."""
else:
    def branch():
        """Second."""

class Outer:
    """Outer

        indented.
    """
    @property
    def value(self):
        """Read."""
    @value.setter
    def value(self, new):
        """Write."""
    class Inner:
        async def run(self):
            """Run."""
            def local():
                """Local."""

def silent(): pass
'''


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed distribution of four modules, one of them broken, one a test."""
    package = tmp_path / "site" / "toolbox"
    (package / "tests").mkdir(parents=True)
    (package / "__init__.py").write_bytes(SOURCE)
    (package / "broken.py").write_text("def (:")
    (package / "plain.py").write_text('def f():\n    """   """\n')
    (package / "tests" / "test_a.py").write_text('"""A test."""')
    info = tmp_path / "site" / "toolbox-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toolbox\nVersion: 1.0\n")
    files = ["__init__.py", "broken.py", "plain.py", "tests/test_a.py"]
    (info / "RECORD").write_text("".join(f"toolbox/{name},,\n" for name in files))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return package


def entry_of(**more: object) -> SourceSettings:
    return SourceSettings.model_validate(
        {"name": "tools", "uri": "toolbox", "format": "docstrings", "ingestion_date": "2026-01-02"} | more
    )


def test_names_are_qualified_as_python_does_and_texts_are_cleaned() -> None:
    assert list(docstrings_of(SOURCE)) == [
        (None, "Module."),
        ("branch", "First."),
        ("branch", "Second."),
        ("Outer", "Outer\n\nindented."),
        ("Outer.value", "Read."),
        ("Outer.value", "Write."),
        ("Outer.Inner.run", "Run."),
        ("Outer.Inner.run.<locals>.local", "Local."),
    ]


@pytest.mark.usefixtures("distribution")
def test_chunks_are_numbered_where_a_name_repeats() -> None:
    table = next(read_docstrings(entry_of()))
    assert table["chunk_id"].to_pylist()[:6] == [
        "tools:toolbox",
        "tools:toolbox.branch",
        "tools:toolbox.branch#2",
        "tools:toolbox.Outer",
        "tools:toolbox.Outer.value",
        "tools:toolbox.Outer.value#2",
    ]
    assert table["heading"].to_pylist()[:2] == ["toolbox", "branch"]
    assert table["position"].to_pylist() == list(range(8))
    assert set(table["doc_id"].to_pylist()) == {"toolbox"}


@pytest.mark.usefixtures("distribution")
def test_tests_are_left_out_unless_named_and_a_broken_module_is_a_rejected_row() -> None:
    assert [module.name for module in find_modules(entry_of())] == ["toolbox", "toolbox.broken", "toolbox.plain"]
    assert [module.name for module in find_modules(entry_of(packages=["toolbox.tests"]))] == ["toolbox.tests.test_a"]
    rows = store_of(entry_of().model_dump(mode="json")).read_all()
    assert dict(zip(rows.rejected["chunk_id"].to_pylist(), rows.rejected["reason"].to_pylist(), strict=True)) == {
        "tools:toolbox.broken": "unparsable_module",
        "tools:toolbox.plain.f": "empty_text",
    }


def test_an_installed_distribution_is_read_with_its_vendored_copies() -> None:
    entry = entry_of(uri="pip", packages=["pip._vendor.packaging"])
    tables = list(read_docstrings(entry))
    ids = [chunk_id for table in tables for chunk_id in table["chunk_id"].to_pylist()]
    assert "tools:pip._vendor.packaging.version.Version" in ids
    assert len(set(ids)) == len(ids)
    assert importlib.metadata.version("pip")
