"""Copies and near-copies that take each other's rank: redundancy, never a fault of vectors or index."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest

from audit_pipeline.encoder.models import Encoder, load_encoder
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline_tests.cases.conftest import Audit, AuditTable, Corpus, table_of

COPIES, OTHERS = 15, 45
ONE_SOURCE = ["docs"] * (COPIES + OTHERS)
TWO_SOURCES = [*(["A"] * 8 + ["B"] * 7), *(["A", "B", "B"] * 15)]
Group = Callable[[Corpus], list[str]]


@pytest.fixture(scope="module")
def fast(corpus: Corpus) -> Encoder:
    return load_encoder(EncoderSettings(model=corpus.model))


@pytest.fixture
def audit(audit_table: AuditTable, corpus: Corpus, fast: Encoder) -> Callable[..., Audit]:
    """audit(group, source of each row, ...): the texts of a group before 45 others."""

    def run(group: list[str], source: list[str], **settings: Any) -> Audit:
        texts = [*group, *corpus.texts[:OTHERS]]
        return audit_table(table_of(texts, fast.encode(texts), source=source[: len(texts)]), **settings)

    return run


def same_text(corpus: Corpus) -> list[str]:
    return [corpus.texts[-1]] * COPIES


def other_spacing(corpus: Corpus) -> list[str]:
    """One text in other white space and case: its tokens are the same."""
    words = corpus.texts[-1].split()
    return [(" " * n + "\n").join(words if n % 2 else map(str.upper, words)) for n in range(COPIES)]


def other_numbers(_: Corpus) -> list[str]:
    """Texts that differ in the order of their numbers alone, which the mean of word vectors does not see."""
    text = (
        "The controller at rack {} shelf {} slot {} port {} refused a write to the volume because its battery was low, "
        "and the operator was told to replace the battery and to start the controller again before the next write."
    )
    return [text.format(*numbers) for numbers in list(permutations((3, 4, 5, 6)))[:COPIES]]


@pytest.mark.parametrize(
    ("group", "limit", "source"),
    [
        (same_text, 5, ONE_SOURCE),
        (same_text, 10, TWO_SOURCES),
        (other_spacing, 10, ONE_SOURCE),
        (other_numbers, 5, ONE_SOURCE),
        (other_numbers, 20, TWO_SOURCES),
    ],
)
def test_fifteen_copies_are_twins_and_not_a_fault_of_vectors_or_index(
    audit: Callable[..., Audit], corpus: Corpus, group: Group, limit: int, source: list[str]
) -> None:
    found = audit(group(corpus), source, search={"limit": limit})
    own = found.report["self_retrieval"]
    numeric = group is other_numbers
    missed = [miss for miss in found.report["misses"] if miss["run"] == "self"]
    assert found.causes == {"twin": len(missed)}
    for miss in missed:
        assert (miss["evidence"]["group"], miss["rank_min"], miss["rank_max"]) == (COPIES, 1, COPIES)
        assert miss["evidence"]["numeric"] == numeric
    if not numeric:  # sums in another order differ in the last bit, which decides who of them comes first
        assert len(missed) == COPIES - 1
        # Within the first ten are nine more of the copies.
        assert limit < 10 or own["self@10"]["value"] == pytest.approx((OTHERS + 10) / (OTHERS + COPIES))
    assert own["self@1"]["value"] == pytest.approx(1 - len(missed) / (OTHERS + COPIES))
    assert own["self@1_lenient"]["value"] == 1
    assert (own["self@10"] is None or own["self@10"]["value"] is None) == (limit < 10)  # what was not asked for
    assert found.report["verdict"]["reading"] == "twins"
    assert found.finding("twins")["evidence"] == {
        "misses": len(missed),
        "numeric": len(missed) if numeric else 0,
        "largest_group": COPIES,
    }
    assert found.codes("error") == set()
    assert found.codes("warning") == {"self_low"}
    if numeric:  # distinct facts to a reader, whatever the index makes of them
        assert found.report["duplicates"]["clusters"]["drop"] == 0


def test_a_corpus_without_copies_has_no_twins(audit: Callable[..., Audit], corpus: Corpus) -> None:
    found = audit(corpus.texts[-COPIES:], ONE_SOURCE, search={"limit": 5})
    assert found.causes == {}
    assert found.codes("error", "warning") == set()
    assert "twins" not in found.codes()
