"""A filter that hides rows by intent: nothing is said against vectors, and a hidden source is not out of line."""

from __future__ import annotations

import pytest

from audit_pipeline.report.verdict_words import HIDDEN, NOTHING_LET_THROUGH, READINGS, verdict_words
from audit_pipeline_tests.cases.conftest import AuditTable, Corpus


@pytest.mark.page
def test_drafts_that_are_not_published_are_no_broken_vectors(audit_table: AuditTable, corpus: Corpus) -> None:
    sources = ["guide"] * 120 + ["drafts"] * 30
    columns = {"source": sources, "published": [source == "guide" for source in sources]}
    found = audit_table(corpus.rows(slice(150), **columns), filter="published = true")
    assert found.causes == {"filter_excluded": 30}
    assert found.codes("error", "warning") == {"self_low"}
    assert (found.report["verdict"]["reading"], verdict_words(found.report)) == ("vectors_or_index", HIDDEN)
    text = found.report["verdict"]["text"]
    assert "30 of the 30 self misses are rows that the filter hides; among the 120 probes that it lets through" in text
    assert "No work on prompts" not in text
    page = (found.folder / "state" / "reports" / "case" / "audit.html").read_text(encoding="utf-8")
    assert HIDDEN[1] in page
    assert READINGS["vectors_or_index"][1] not in page


def test_a_filter_that_lets_nothing_through_is_told_as_such(audit_table: AuditTable, corpus: Corpus) -> None:
    found = audit_table(corpus.rows(slice(60), lang=["en"] * 60), filter="lang = 'de'")
    assert found.finding("filter_excludes")["message"].endswith(
        "it lets nothing through, and every search comes back empty."
    )
    assert verdict_words(found.report) == NOTHING_LET_THROUGH
    assert "lets no probed row through" in found.report["verdict"]["text"]
    sound = audit_table(corpus.rows(slice(60), lang=["en"] * 60), filter="lang = 'en'")
    assert "filter_excludes" not in sound.codes()
    assert "filter" not in sound.report["verdict"]["text"]
