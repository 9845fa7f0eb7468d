"""A search or a lane of the audit that is broken stops the run: no figure comes from it, the last report stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pytest

from audit_pipeline.duplicates import exact_groups, lanes, neighbour_pairs, self_checks
from audit_pipeline.duplicates.neighbour_pairs import Neighbours
from audit_pipeline.index.exact import ExactRanks, ExactSearch
from audit_pipeline_tests.cases.command import run_command
from audit_pipeline_tests.cases.conftest import Corpus, table_of
from audit_pipeline_tests.command import Command

ROWS = 60
SETTINGS = """\
type: audit_pipeline.IndexAudit
attributes:
  name: checked
  encoder: {kind: none}
  index: {uri: db, table: docs, managed: false}
"""
CHECKS = [
    "exact_search_scores_every_row",
    "planted_duplicate_is_found",
    "ranks_agree_with_a_plain_count",
    "duplicates_exact",
    "duplicates_minhash",
    "duplicates_neighbour",
]
Patch = pytest.MonkeyPatch


def half_of_the_rows(patch: Patch) -> None:
    init = ExactSearch.__init__

    def halved(self: ExactSearch, vectors: np.ndarray, searchable: np.ndarray, metric: str) -> None:
        init(self, vectors, searchable & (np.arange(len(searchable)) < len(searchable) // 2), metric)

    patch.setattr(ExactSearch, "__init__", halved)


def another_metric(patch: Patch) -> None:
    init = ExactSearch.__init__
    patch.setattr(ExactSearch, "__init__", lambda self, vectors, searchable, _: init(self, vectors, searchable, "l2"))


def without_planted_vectors(patch: Patch) -> None:
    ranks = ExactSearch.ranks

    def blind(self: ExactSearch, *arguments: Any, override: Any = None, **options: Any) -> ExactRanks:
        return ranks(self, *arguments, **options)

    patch.setattr(ExactSearch, "ranks", blind)


def equal_texts_apart(patch: Patch) -> None:
    def apart(signatures: Any, *_: Any) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(len(signatures)), np.ones(len(signatures), np.int64)

    for module in (exact_groups, self_checks):
        patch.setattr(module, "stand_for", apart)


def bands_without_the_last_row(patch: Patch) -> None:
    join = lanes.join_bands
    for module in (lanes, self_checks):
        patch.setattr(module, "join_bands", lambda matrix, *rest: join(matrix[:-1], *rest))


def neighbours_that_are_none(patch: Patch) -> None:
    def far(unit: np.ndarray, queries: np.ndarray, k: int, *_: Any) -> Neighbours:
        return Neighbours(np.zeros((len(queries), k), np.int64), np.full((len(queries), k), 0.5))

    for module in (neighbour_pairs, self_checks):
        patch.setattr(module, "exact_neighbours", far)


@pytest.fixture(scope="module")
def reported(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, its settings, and below state the report of a sound run."""
    folder = tmp_path_factory.mktemp("broken instrument")
    lancedb.connect(str(folder / "db")).create_table("docs", table_of(corpus.texts[:ROWS], corpus.vectors[:ROWS]))
    (folder / "checked.yaml").write_text(SETTINGS, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("audit_pipeline.report.publish.render_page", lambda *_: "")
        code, audit = run_command(folder / "checked.yaml", folder / "state")
    assert code == 0
    assert [check["name"] for check in audit["self_checks"] if check["passed"]] == CHECKS
    return folder


def reports(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (folder / "state" / "reports").rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (half_of_the_rows, "exact search scored 30 rows where 60 can be searched"),
        (another_metric, "under cosine"),
        (without_planted_vectors, "planted_duplicate_is_found"),
        (equal_texts_apart, "exact lane"),
        (bands_without_the_last_row, "minhash lane"),
        (neighbours_that_are_none, "neighbour lane"),
    ],
)
def test_a_broken_instrument_exits_3_says_what_is_broken_and_leaves_the_last_report(
    reported: Path, command: Command, monkeypatch: Patch, broken: Callable[[Patch], None], said: str
) -> None:
    before = reports(reported)
    assert any(path.endswith("audit.json") for path in before)
    broken(monkeypatch)
    printed = command("run", "--config", str(reported / "checked.yaml"), "--state", str(reported / "state"))
    assert (printed.code, printed.out) == (3, "")
    last = printed.err.splitlines()[-1]
    assert last.startswith("audit-pipeline: the audit's own check failed, nothing was published: ")
    assert said in last
    assert reports(reported) == before


def test_a_first_run_with_a_broken_search_publishes_nothing(
    reported: Path, command: Command, monkeypatch: Patch, tmp_path: Path
) -> None:
    half_of_the_rows(monkeypatch)
    assert command("run", "--config", str(reported / "checked.yaml"), "--state", str(tmp_path)).code == 3
    assert list(tmp_path.rglob("audit.json")) == []
