"""The gate: it fails on a planted loss and on nothing else, and says where no loss could have been seen."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from markdown_it import MarkdownIt

from audit_pipeline.proportions import mcnemar
from audit_pipeline.report.compare import Change, compare
from audit_pipeline.report.gate import MEASURES, Gate, judge
from audit_pipeline.report.gate_text import gate_markdown, gate_text, headline, points, sentence
from audit_pipeline.report.junit import gate_junit
from audit_pipeline.report.saved import open_report
from audit_pipeline_tests.command import Command
from audit_pipeline_tests.report.gate_reports import error, hits, write_report

N = 2000
LATER = "2026-01-09T00:00:00+00:00"


def gate_of(folder: Path, before: dict[str, Any], after: dict[str, Any], **settings: Any) -> Gate:
    one = open_report(write_report(folder / "before", **before))
    other = open_report(write_report(folder / "after", **({"created_at": LATER} | after)))
    return judge(one, other, settings.get("margin", 0.01), 0.05, settings.get("errors_fail", False))


def states(gate: Gate) -> dict[str, str]:
    return {one.measure: one.state for one in gate.measures}


def everything(missed: int, n: int = N) -> dict[str, Any]:
    answered = hits(n, missed)
    return {"own": answered, "own_10": answered, "held": answered, "labelled": answered}


def test_a_loss_beyond_chance_and_margin_fails_and_names_measure_and_cause(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, everything(10), everything(10) | {"own": hits(N, 70)})
    assert gate.failed
    assert states(gate) == {name: "failed" if name == "self@1" else "passed" for name in MEASURES}
    said = sentence(gate.measures[0], gate.margin)
    assert said.startswith("self@1 fell by 3 points, 99.5 % to 96.5 % (95 % interval -3.")
    assert "n 2,000, 0 won, 60 lost: beyond chance (p under 0.0001 after Holm) and beyond the margin of 1 point" in said
    assert said.endswith("lost to ann_miss 60.")
    assert headline(gate) == "Gate failed: self@1 fell beyond chance by more than 1 point."


@pytest.mark.parametrize("missed", [10, 0], ids=["equal", "risen"])
def test_what_is_equal_or_has_risen_passes(tmp_path: Path, missed: int) -> None:
    gate = gate_of(tmp_path, everything(10), everything(missed))
    assert not gate.failed
    assert set(states(gate).values()) == {"passed"}
    assert headline(gate).startswith("Gate passed: self@1, self@10, heldout@10, labelled_success@10 did not fall")


def test_a_loss_beyond_chance_within_the_margin_passes(tmp_path: Path) -> None:
    """Fifteen of 2,000 lost and none won is far beyond chance, and three quarters of a point."""
    before, after = everything(0), everything(0) | {"own": hits(N, 15)}
    gate = gate_of(tmp_path, before, after)
    one = gate.measures[0]
    assert (one.state, one.beyond_chance) == ("passed", True)
    assert "a loss within the margin of 1 point" in sentence(one, gate.margin)
    assert states(gate_of(tmp_path / "tighter", before, after, margin=0.005))["self@1"] == "failed"


def test_a_loss_beyond_the_margin_within_chance_does_not_fail_and_is_no_pass(tmp_path: Path) -> None:
    """Seven of 100 lost, three won: p is .34, and 100 questions see a loss of a point almost never."""
    before, after = hits(100, 0), hits(100, 7)
    before[50:53] = False
    gate = gate_of(tmp_path, {"own": before}, {"own": after})
    assert not gate.failed
    assert states(gate)["self@1"] == "not_seen"


def test_one_loss_among_four_measures_must_stand_holms_correction(tmp_path: Path) -> None:
    """Seven lost and none won: p is .016, which alone is under .05 and times four is not."""
    before, after = everything(0, 200), everything(0, 200) | {"own": hits(200, 7)}
    gate = gate_of(tmp_path, before, after)
    assert gate.measures[0].p == pytest.approx(4 * 2 / 2**7)
    assert not gate.failed
    alone = {"own": hits(200, 0), "own_10": hits(200, 0)}
    assert gate_of(tmp_path / "two", alone, alone | {"own": hits(200, 7)}).failed  # two measures: .031


def test_too_few_questions_are_no_pass_and_the_number_needed_is_said(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, everything(0, 60), everything(0, 60))
    assert not gate.failed
    assert set(states(gate).values()) == {"not_seen"}
    assert headline(gate).startswith("Gate not failed, but too few questions to see a loss of 1 point; could not be")
    # Four measures: eight lost and none won are the fewest that chance does not explain, so P(X >= 8) is to be .8.
    from scipy.stats import binom

    needed = gate.measures[0].needed
    assert needed is not None
    assert binom.sf(7, needed, 0.01) >= 0.8 > binom.sf(7, needed - 1, 0.01)
    assert f"about {needed:,} are needed for 80 times in 100 (sample.total)." in sentence(gate.measures[0], 0.01)
    assert "more labelled queries" in sentence(gate.measures[3], 0.01)
    enough = gate_of(tmp_path / "enough", everything(0, needed), everything(0, needed))
    assert set(states(enough).values()) == {"passed"}
    one_less = gate_of(tmp_path / "one less", everything(0, needed - 1), everything(0, needed - 1))
    assert set(states(one_less).values()) == {"not_seen"}


@pytest.mark.parametrize(
    ("chunks", "said", "exact"),
    [
        # Four measures and none won: at least eight of 300 are to be lost, which 3.5 points are in .8 of all samples.
        (
            300,
            "could not be seen: every chunk was probed, and a loss of 1 point would be told from chance once "
            "in 100 times by 300 questions; a loss of 3.{tenth} points is the least that all of them see (--margin "
            "0.03{tenth}).",
            True,
        ),
        (
            600,
            "about {needed} are needed for 80 times in 100, and the corpus has about 600 (sample.total): a loss of "
            "1.{tenth} points is the least that all of them see (--margin 0.01{tenth}).",
            False,
        ),
        (5000, "about {needed} are needed for 80 times in 100 (sample.total).", False),
    ],
)
def test_no_more_questions_are_asked_for_than_the_corpus_has(
    tmp_path: Path, chunks: int, said: str, exact: bool
) -> None:
    from scipy.stats import binom

    assert 0.01 <= binom.sf(7, 300, 0.01) < 0.02
    asked = everything(0, 300) | {"chunks": chunks}
    gate = gate_of(tmp_path, asked, asked)
    needed = next(n for n in range(300, 5000) if binom.sf(7, n, 0.01) >= 0.8)
    tenth = next(k for k in range(1, 100) if binom.sf(7, chunks, k / 1000) >= 0.8)
    filled = said.format(needed=f"{needed:,}", tenth=tenth % 10)
    for one in gate.measures[:3]:
        assert sentence(one, gate.margin).endswith(filled), sentence(one, gate.margin)
    assert sentence(gate.measures[3], gate.margin).endswith("are needed for 80 times in 100 (more labelled queries).")
    why = (
        "Every chunk was probed by both audits, so what changed in self@1, self@10, heldout@10 is exact for the chunks "
        "that both hold; the test takes these as a sample of the chunks still to come."
    )
    assert (why in gate.cautions) == exact


def test_of_chunks_that_cannot_be_held_out_no_question_is_expected(tmp_path: Path) -> None:
    """A sixth of 300 probes could be held out, so of 1,200 chunks some 200 can; none has labels."""
    asked = {"own": hits(300, 0), "held": hits(50, 0), "chunks": 1200}
    gate = gate_of(tmp_path, asked, asked)
    assert [one.available for one in gate.measures] == [1200, 1200, 200, None]


def test_a_rise_beyond_chance_passes_however_few_were_asked(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, {"own": hits(60, 20)}, {"own": hits(60, 0)})
    assert states(gate)["self@1"] == "passed"
    assert "the rise is beyond chance" in sentence(gate.measures[0], gate.margin)


def test_where_next_to_nothing_was_found_nothing_more_can_be_lost(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, everything(N - 10), everything(N))
    assert set(states(gate).values()) == {"not_seen"}
    assert "the baseline finds less than 1 point, so there is no more to lose" in gate_text(gate).replace("\n    ", " ")


def test_what_one_audit_did_not_ask_is_not_measured_and_no_pass(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, everything(0), everything(0) | {"labelled": None})
    assert states(gate)["labelled_success@10"] == "not_measured"
    assert "labelled_success@10 is not measured: the second audit asked no such question." in gate_text(gate)
    assert "not measured: labelled_success@10" in headline(gate)


def test_new_errors_are_told_and_fail_only_where_that_is_asked_for(tmp_path: Path) -> None:
    old = error("duplicate_ids")
    new = [old, error(scope={"source": "b"}), error("self_low") | {"severity": "warning"}]
    told = gate_of(tmp_path / "told", everything(0) | {"findings": [old]}, everything(0) | {"findings": new})
    assert [(one["code"], one["scope"]) for one in told.new_errors] == [("missing_rows", {"source": "b"})]
    assert not told.failed
    assert "told only (--fail-on-new-errors" in gate_text(told).replace("\n  ", " ")
    before, after = tmp_path / "told" / "before", tmp_path / "told" / "after"
    asked = judge(open_report(before), open_report(after), 0.01, 0.05, True)
    assert asked.failed
    assert headline(asked) == "Gate failed: 1 new error finding."
    gone = judge(open_report(after), open_report(before), 0.01, 0.05, True)
    assert (gone.new_errors, gone.failed) == ([], False)


def test_reports_of_two_indexes_are_judged_with_a_caution(tmp_path: Path) -> None:
    assert gate_of(tmp_path, everything(0), everything(0)).cautions == []
    cautions = gate_of(tmp_path / "two", everything(0), everything(0) | {"name": "other"}).cautions
    assert cautions == ["The reports are of two indexes, 'handbook' and 'other': what differs may be the corpus."]


def test_a_copy_of_the_same_audit_passes_and_says_so(tmp_path: Path) -> None:
    gate = gate_of(tmp_path, everything(0), everything(0) | {"created_at": "2026-01-02T00:00:00+00:00"})
    assert not gate.failed
    assert "Both reports are of one audit" in gate_text(gate)


HOSTILE = 'a|b `x` <img src=x> @team "q" \x0b\ufffe'


def hostile(folder: Path) -> Gate:
    findings = [error(scope={"source": HOSTILE}, message=f"Rows of {HOSTILE} are gone.")]
    after = everything(0) | {"own": hits(N, 60), "findings": findings, "labelled": None, "held": hits(60, 0)}
    before = everything(0) | {"held": hits(60, 0)}
    return gate_of(folder, before | {"name": "handbook"}, after | {"name": "handbook"}, errors_fail=True)


def test_the_comment_leads_with_the_verdict_and_holds_a_table(tmp_path: Path) -> None:
    text = gate_markdown(hostile(tmp_path))
    assert text.startswith("### Gate failed: self@1 fell beyond chance by more than 1 point and 1 new error finding; ")
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    cells = [tokens[place + 1].content for place, token in enumerate(tokens) if token.type in ("th_open", "td_open")]
    rows = [cells[start : start + 8] for start in range(0, len(cells), 8)]
    assert rows[0] == ["measure", "baseline", "candidate", "change (95 % interval)", "n", "won", "lost", "verdict"]
    shown = {row[0]: row[1:] for row in rows[1:]}
    assert shown.keys() == MEASURES.keys()
    assert shown["self@1"] == ["100 %", "97.0 %", "-3.0 (-3.8 to -2.3)", "2,000", "0", "60", "**failed**"]
    assert shown["heldout@10"][3:] == ["60", "0", "0", "could not be seen"]
    assert shown["labelled_success@10"] == ["", "", "", "0", "", "", "not measured"]


def test_names_from_the_corpus_steer_neither_comment_nor_xml(tmp_path: Path) -> None:
    gate = hostile(tmp_path)
    page = MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(gate_markdown(gate))
    assert "<img" not in page
    assert re.sub("<code>.*?</code>", "", page).count("@team") == 0  # in a code span nobody is called
    assert "a/b 'x' &lt;img src=x&gt; @team" in page
    ElementTree.fromstring(gate_junit(gate))
    assert "\x0b" not in gate_text(gate)


# What the schema of Jenkins' xUnit plugin asks of each element: attributes it must have, may have, and its children.
JUNIT: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"time", "skipped", "timestamp", "hostname", "id", "package"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name"}, {"classname", "time"}, {"skipped", "failure", "error", "system-out", "system-err"}),
    "failure": (set(), {"type", "message"}, set()),
    "skipped": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def test_the_xml_is_what_ci_systems_read(tmp_path: Path) -> None:
    gate = hostile(tmp_path)
    text = gate_junit(gate)
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ')
    root = ElementTree.fromstring(text.encode())
    for element in root.iter():
        must, may, children = JUNIT[element.tag]
        assert must <= set(element.keys()) <= must | may, element.tag
        assert {child.tag for child in element} <= children, element.tag
    suite = root.find("testsuite")
    assert suite is not None
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert cases.keys() == {*MEASURES, "new error findings"}
    assert {name: [child.tag for child in case] for name, case in cases.items()} == {
        "self@1": ["failure"],
        "self@10": ["system-out"],
        "heldout@10": ["skipped"],
        "labelled_success@10": ["skipped"],
        "new error findings": ["failure"],
    }
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "2",
        "errors": "0",
        "skipped": "2",
    }
    failure = cases["self@1"].find("failure")
    assert failure is not None
    assert failure.get("message") == failure.text == sentence(gate.measures[0], gate.margin)


def test_errors_that_are_only_told_are_skipped_and_none_pass(tmp_path: Path) -> None:
    told = gate_of(tmp_path / "told", everything(0), everything(0) | {"findings": [error()]})
    clean = gate_of(tmp_path / "clean", everything(0), everything(0))
    for gate, tag in ((told, "skipped"), (clean, "system-out")):
        root = ElementTree.fromstring(gate_junit(gate))
        (case,) = [case for case in root.iter("testcase") if case.get("name") == "new error findings"]
        assert [child.tag for child in case] == [tag]


@pytest.mark.parametrize(
    ("share", "said"), [(0.01, "1 point"), (0.025, "2.5 points"), (0.1, "10 points"), (0.0004, "0.04 points")]
)
def test_margins_in_points(share: float, said: str) -> None:
    assert points(share) == said


def test_the_command_judges_the_last_report_of_the_state_folder(tmp_path: Path, command: Command) -> None:
    baseline = write_report(tmp_path / "baseline", **everything(0))
    write_report(tmp_path / "state" / "reports" / "handbook", **everything(0) | {"created_at": LATER})
    files = {kind: tmp_path / "made" / f"gate.{kind}" for kind in ("md", "xml")}
    written = ("--markdown", str(files["md"]), "--junit", str(files["xml"]))
    passed = command("gate", "--baseline", str(baseline / "audit.json"), "--state", str(tmp_path / "state"), *written)
    assert (passed.code, passed.err) == (0, "")
    assert passed.out.startswith("Gate passed: ")
    assert files["md"].read_text(encoding="utf-8").startswith("### Gate passed: ")
    assert ElementTree.parse(files["xml"]).getroot().get("failures") == "0"
    worse = write_report(tmp_path / "worse", **everything(60) | {"created_at": LATER})
    failed = command("gate", "--baseline", str(baseline), "--candidate", str(worse), *written, "--json")
    assert failed.code == 1
    judged = json.loads(failed.out)
    assert (judged["failed"], {one["state"] for one in judged["measures"]}) == (True, {"failed"})
    assert ElementTree.parse(files["xml"]).getroot().get("failures") == "4"
    lenient = command("gate", "--baseline", str(baseline), "--candidate", str(worse), "--margin", "0.05")
    assert lenient.code == 0


def test_two_clean_audits_fail_no_more_often_than_the_level_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question is answered with 95 % in either audit, independently: nothing changed, so hardly any gate fails."""
    report = open_report(write_report(tmp_path / "report", own=hits(1, 0)))
    monkeypatch.setattr("audit_pipeline.report.gate.questions_needed", lambda *_: None)  # a search, of no weight here
    compared, draw, failed = compare(report, report), np.random.default_rng(11), 0
    for _ in range(300):
        changes = []
        for measure in MEASURES:
            lost, won = (int(n) for n in draw.multinomial(300, [0.0475, 0.0475, 0.905])[:2])
            moved = (won - lost) / 300
            p = mcnemar(lost, won)
            changes.append(Change(measure, {}, 300, 0.95, 0.95 + moved, moved, moved, moved, won, lost, p, False))
        monkeypatch.setattr("audit_pipeline.report.gate.compare", lambda *_, c=changes: replace(compared, changes=c))
        failed += judge(report, report, 0.01, 0.05, False).failed
    assert 0 < failed <= 16  # at 2.5 %, the losses of a two-sided 5 %, more than 16 of 300 come once in 500 draws
