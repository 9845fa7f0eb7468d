"""Every case of the tables, met once: the message is the table's, it is one sentence, and no message lacks a case."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from audit_pipeline.errors import AuditInputError
from audit_pipeline_tests import messages
from audit_pipeline_tests.messages.case import Case, World
from audit_pipeline_tests.messages.sites import every_site, recording, unreached

TABLES = sorted(name for _, name, _ in pkgutil.iter_modules(messages.__path__) if name.startswith("of_"))
CASES: dict[str, Case] = {
    f"{table}: {case.id}": case
    for table in TABLES
    for case in importlib.import_module(f"{messages.__name__}.{table}").CASES
}

LONGEST = 600
# Where a sentence says what to do, one of these words begins the clause, or pydantic says what the value should be.
TO_DO = re.compile(
    r"(?:[:;,]|or|and|else) (?:add|audit|change|check|choose|convert|correct|delete|give|install|keep|lower|look|"
    r"materialise|mend|name|raise|remove|rename|run|save|set|split|stop|use|wait for|write)\b|\bshould (?:be|have)\b"
)


@dataclass(frozen=True)
class Outcome:
    """What a case led to, and the folder it worked in."""

    error: BaseException | None
    folder: Path


@pytest.fixture(scope="module")
def met(
    tmp_path_factory: pytest.TempPathFactory, _hub_offline: None
) -> tuple[dict[str, Outcome], set[tuple[str, int]]]:
    """Every case's outcome, and the places in the package where their errors were made."""
    outcomes = {}
    with recording() as reached:
        for name, case in CASES.items():
            folder = tmp_path_factory.mktemp("case")
            error: BaseException | None = None
            with pytest.MonkeyPatch.context() as patch:
                try:
                    case.cause(World(folder, patch))
                except Exception as raised:
                    error = raised
            outcomes[name] = Outcome(error, folder)
    return outcomes, reached


@pytest.mark.parametrize("name", CASES)
def test_the_message_is_the_tables(met: tuple[dict[str, Outcome], set[tuple[str, int]]], name: str) -> None:
    outcome, case = met[0][name], CASES[name]
    if not isinstance(outcome.error, AuditInputError):
        raise AssertionError(f"no AuditInputError but {outcome.error!r}") from outcome.error
    message = str(outcome.error)
    assert case.fits(message, outcome.folder), f"\n     told: {message}\nthe table: {case.sentence}"


@pytest.mark.parametrize("name", CASES)
def test_a_message_is_one_sentence_that_says_what_to_do(
    met: tuple[dict[str, Outcome], set[tuple[str, int]]], name: str
) -> None:
    message = str(met[0][name].error)
    assert message == message.strip()
    assert message.isprintable()  # no line break, no control character of what was read
    assert len(message) < LONGEST
    assert not message.endswith(".")
    assert "Traceback" not in message
    assert not re.search(r"\b(pyarrow|pandas|pydantic|lancedb|dagster|yaml)\.\w|0x[0-9a-f]{6}", message)
    assert TO_DO.search(message), message


def test_every_message_of_the_package_has_a_case(met: tuple[dict[str, Outcome], set[tuple[str, int]]]) -> None:
    lacking = unreached(met[1])
    told = "\n".join(f"add a case to audit_pipeline_tests/messages/of_*.py for {site}" for site in lacking)
    if lacking:
        pytest.fail(f"these messages are in no table:\n{told}", pytrace=False)


def test_the_places_of_messages_are_found() -> None:
    """The search for them works: without it the test above could not fail."""
    files = Counter(site.file for site in every_site())
    assert files["settings_file.py"] >= 8
    assert files["config.py"] >= 10  # ValueErrors of validators
    assert files["encoder_settings.py"] >= 4
    assert files["settings_base.py"] >= 1
    assert files["column_settings.py"] >= 2
    assert files["encoder/openai_compatible.py"] >= 9
    assert not unreached({(site.file, site.last) for site in every_site()})
    assert len(unreached(set())) == len(every_site())


def test_no_two_cases_of_a_table_share_a_name() -> None:
    for table in TABLES:
        ids = [case.id for case in importlib.import_module(f"{messages.__name__}.{table}").CASES]
        assert len(ids) == len(set(ids)), table
