from __future__ import annotations

import copy
import re
from copy import deepcopy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from audit_pipeline.report.blind_spots import blind_spots
from audit_pipeline.report.duplicates_view import lane_recall_view, queue_notice, separation_words
from audit_pipeline.report.page import render_page
from audit_pipeline.report.publish import publish
from audit_pipeline.report_settings import ReportSettings
from audit_pipeline_tests.report.sample_audit import sample_audit, sample_excerpts
from audit_pipeline_tests.report.sample_tables import HOSTILE, SECRET_TEXT, sample_exports, sample_tables


class Elements(HTMLParser):
    """Collects what a browser would see: tags with attributes, and text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(page: str) -> Elements:
    elements = Elements()
    elements.feed(page)
    return elements


@pytest.fixture(scope="module")
def page(audit: dict[str, Any]) -> str:
    missed = audit["misses"][0]["chunk_id"]
    return render_page(audit, {missed: f"{SECRET_TEXT} <img src=x onerror=alert(1)>"})


def test_a_script_in_a_source_name_or_a_text_stays_text(page: str) -> None:
    elements = parsed(page)
    assert not [tag for tag, _ in elements.tags if tag in ("script", "img", "iframe", "object", "link")]
    text = "".join(elements.text)
    assert HOSTILE in text
    assert "<img src=x onerror=alert(1)>" in text


def test_nothing_on_the_page_is_fetched_from_anywhere(page: str) -> None:
    for _, attributes in parsed(page).tags:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "href", "xlink:href", "data", "action", "srcset"):
                assert (value or "").startswith("#")
    assert not re.search(r"https?://|@import|url\((?!#)", page)


def test_links_inside_the_page_have_their_targets(page: str) -> None:
    tags = parsed(page).tags
    wanted = {attributes["href"][1:] for tag, attributes in tags if tag == "a" and attributes["href"]}
    ids = [attributes["id"] for _, attributes in tags if attributes.get("id")]
    assert wanted <= set(ids)
    assert len(ids) == len(set(ids)), "ids of charts collide"


def test_the_page_says_where_its_two_shares_of_held_out_sentences_differ(audit: dict[str, Any]) -> None:
    def text(overlap: int) -> str:
        shown = copy.deepcopy(audit)
        shown["held_out"]["overlap"] = overlap
        return " ".join("".join(parsed(render_page(shown, {})).text).split())

    assert re.search(r"rows\. [\d,]+ probes have a sentence to hold out", text(3))
    assert "are asked here too" in text(3)
    assert "are asked here too" not in text(0)


def test_the_first_screen_answers_what_is_broken_to_blame_where_and_what_to_do(page: str) -> None:
    first_screen = "".join(parsed(page[: page.index('id="findings"')]).text)
    for words in (
        "queries and documents do not meet",
        "Reading: relationship",
        "2 error findings",
        "Exit code by the findings: 1, at least one error finding",  # a batch that is left out makes another
        "Encoded with another prompt",
        "source team-04, ingested 2025-02-03",
        "Ingest the batch again",
        "labelled_success@10",
    ):
        assert words in first_screen


def test_every_headline_figure_stands_with_its_n_and_interval(page: str, audit: dict[str, Any]) -> None:
    text = " ".join("".join(parsed(page).text).split())
    figure = audit["held_out"]["heldout@10"]
    assert f"95 %: {100 * figure['low']:.1f} to {100 * figure['high']:.1f} %; n 500" in text
    assert "58.2 % (51.7 to 64.5 %, n 225)" in text


def test_six_findings_of_one_code_are_one_row_with_six_places(page: str) -> None:
    text = "".join(parsed(page).text)
    assert "and 5 more places" in text
    assert "all 6 places" in text
    assert text.count("One part is worse than the rest") == 1


def test_charts_are_drawn_for_wide_and_narrow_windows_and_follow_the_colour_scheme(page: str) -> None:
    tags = parsed(page).tags
    for size in ("wide", "narrow"):
        assert sum(attributes.get("class") == size for _, attributes in tags) == 9
    assert sum(tag == "svg" for tag, _ in tags) == 18
    assert "prefers-color-scheme:dark" in page
    colours = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', page))
    mapped = set(re.findall(r'svg \[fill="(#[0-9a-f]{6})"\]', page))
    assert colours <= mapped, "a colour of a chart does not follow the scheme"


def test_without_labels_the_page_says_so_and_marks_the_threshold_provisional() -> None:
    text = "".join(parsed(render_page(sample_audit(labels=False), {})).text)
    assert "real queries were not measured" in text
    assert "Labelled retrieval: whether real queries find their answers is unknown" in text
    assert "Call two chunks duplicates from cosine 0.96 in regime stored, provisionally" in text
    assert "not measured with paraphrases. One cluster grew by chains." in " ".join(text.split())
    assert "Redundancy by paraphrase: the clusters grew by chains" in text
    assert "Why cosine may drop." in text
    assert "Would other search settings do better, or cost less?" in text
    assert "← as configured" in text
    assert "← recommended, ✓ reaches the limit" in text
    assert re.search(r"within api\s*10,000\s*0\.912", text)
    assert re.search(r"api and guides\s*10,000\s*0\.853\s*0\.4", text)
    assert "4 other pairs of sources have fewer pairs of chunks and are left out." in text


def test_second_vectors_are_judged_in_words_and_figures(audit: dict[str, Any]) -> None:
    text = "".join(parsed(render_page(audit, {})).text)
    assert "The second vectors judge duplicates better. The second vectors: column symmetric" in text
    assert re.search(r"second\s*0\.94\s*93\.0", text)
    without = copy.deepcopy(audit)
    without["duplicates"]["second"] = None
    assert "second vector" not in "".join(parsed(render_page(without, {})).text)


def test_an_audit_that_measured_next_to_nothing_still_renders(audit: dict[str, Any]) -> None:
    from audit_pipeline.report.audit_json import not_measured, validate_audit

    bare = copy.deepcopy(audit)
    for part in ("self_retrieval", "held_out", "ann_recall"):
        bare[part] = not_measured(part)
    bare["ann_sweep"] = {"n": 0, "status": "not_measured", "reason": "every search is exact", "settings": []}
    bare |= {"labelled": None, "findings": [], "misses": [], "roles": [], "self_checks": [], "timings": {}}
    bare["causes"] = {"self": {}, "held_out": {}, "labelled": {}}
    bare["verdict"]["reading"] = "undecided"
    duplicates = bare["duplicates"]
    duplicates["sweep"] = []
    duplicates["floor"] = dict.fromkeys(("mean", "p50", "p90", "p99", "p99.9", "max")) | {"n": 0}
    duplicates["floor"] |= {"by_source_pair": [], "source_pairs_left_out": 0}
    duplicates["recommended"] |= {"threshold": None, "low": None, "high": None}
    duplicates["redundancy"] = dict.fromkeys(("exact", "lexical", "embedding"))
    validate_audit(bare)
    page = render_page(bare, {})
    assert "<svg" not in page
    text = "".join(parsed(page).text)
    assert "Nothing is to blame" in text
    assert "No threshold is recommended for regime stored." in text
    assert not re.search(r"\b(nan|None|inf)\b", text.replace("(none)", ""))


def test_healthy_figures_with_an_error_finding_are_not_shown_in_green(audit: dict[str, Any]) -> None:
    odd = copy.deepcopy(audit)
    odd["verdict"]["reading"] = "healthy"
    assert '<div class="banner bad">' in render_page(odd, {})


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_text_none_leaves_no_corpus_text_anywhere(
    tmp_path: Path, audit: dict[str, Any], probes: dict[str, Any]
) -> None:
    excerpts, tables = sample_excerpts(audit), sample_tables(probes)
    exported = sample_exports(tables)
    publish(tmp_path / "none", audit, tables, excerpts, ReportSettings(text="none"), exported)
    publish(tmp_path / "excerpt", audit, tables, excerpts, ReportSettings(text="excerpt"), exported)
    for name, content in written(tmp_path / "none").items():
        assert SECRET_TEXT.encode() not in content, name
    page = (tmp_path / "excerpt" / "audit.html").read_text()
    assert SECRET_TEXT in page
    assert "more words " * 40 not in page
    for name, content in written(tmp_path / "excerpt").items():
        assert name == "audit.html" or SECRET_TEXT.encode() not in content


def test_the_page_tells_how_far_labellers_agree_and_what_is_in_dispute() -> None:
    told = "agree on 97.0 % (91.5 to 99.0 %) of 100, kappa 0.94, 2 in conflict, not used, 1 settled."
    text = "".join(parsed(render_page(sample_audit(), {})).text).replace("\u00a0", " ")
    assert told in text
    assert "people agree" not in "".join(parsed(render_page(sample_audit(labels=False), {})).text)


def test_the_section_on_duplicates_says_what_a_threshold_is_worth(page: str, audit: dict[str, Any]) -> None:
    said = "".join(parsed(page).text).replace("\u00a0", " ")
    # At .96 the sample's queue is .89 / 2, of 3,900 flagged pairs of which 190 are copies.
    assert "Of the 3,710 pairs over it that are no exact copies, an estimated 44.5 % (34 to 55) are duplicates." in said
    assert "Read them before anything is dropped." in said
    assert "0.86 (at least 0.81; 310 duplicates, 420 others). The second decides" in said
    assert "Here 0.96 is reached by 0.0025 of 10,000 of random pairs." in said
    assert "Under model-m, on the demo's 3,000 docstrings, by 2,500 of 10,000: at that rate" in said
    assert "about 1,036,000,000 pairs among your" in said
    assert "MinHash alone: verified copied text that no neighbour list holds" in said
    assert "Of the labelled duplicates that are no exact copies: MinHash finds 45.0 % (" in said
    assert "n 400), the embedding 88.0 %" in said
    assert "Of 4,144,000,000 possible pairs 921,000 became candidates and 4,143,079,000 were never looked at." in said


def test_without_labelled_pairs_the_page_promises_no_curve_and_no_share_of_them() -> None:
    audit = sample_audit(labels=False)
    nothing = {"value": None, "low": None, "high": None, "n": 0}
    audit["duplicates"]["lane_worth"]["found"] = dict.fromkeys(("minhash", "embedding", "either"), nothing)
    said = "".join(parsed(render_page(audit, {})).text).replace("\u00a0", " ")
    assert "Without labelled pairs neither precision nor recall is measured." in said
    assert "Above: of the labelled pairs" not in said
    assert "What share of the duplicates each lane finds is not measured" in said
    assert "finds not measured" not in said
    assert "Above: of the labelled pairs" in "".join(parsed(render_page(sample_audit(), {})).text)


def test_what_lies_outside_the_sample_is_told_by_the_sample_and_by_batches() -> None:
    def told(n: int, batches: list[int], first: tuple[float, float]) -> str:
        own = {
            "n": n,
            "self@1": {"value": 0.99, "low": first[0], "high": first[1], "n": n},
            "by_batch": [{"n": probes} for probes in batches],
        }
        return " ".join(blind_spots(audit | {"self_retrieval": audit["self_retrieval"] | own}))

    audit = sample_audit()
    # 1 - 0.05 ** (1 / 1000) is 0.0030.
    assert "With 1,000 probes a defect of under 0.30 %" in told(1000, [900, 58, 42], (0.98, 0.995))
    assert "2 of 3 batches have fewer, and are seen" in told(1000, [900, 58, 42], (0.98, 0.995))
    assert "of 5 %: every batch has as many." in told(1000, [941, 59], (0.98, 0.995))
    census = told(700, [700], (0.99, 0.99))
    assert "Every chunk was searched for by its own text: none lies outside the sample." in census
    assert "could have been missed" not in census


def test_the_recall_of_both_lanes_stands_on_the_page(page: str, audit: dict[str, Any]) -> None:
    said = "".join(parsed(page).text).replace("\u00a0", " ")
    rows = lane_recall_view(audit["duplicates"])["rows"]
    # 1 - (1 - J^4)^32 at .5, .6 and .7; 171, 197 and 200 of 200 planted pairs were found.
    assert [row["expected"] for row in rows] == ["87.3 %", "98.8 %", ">99.9 %"]
    assert [row["found"].split(" (")[0] for row in rows] == ["85.5 %", "98.5 %", "100 %"]
    for row in rows:
        assert row["found"] in said
    assert "against an exact scan of a sample of rows: 100 % (98.0 to 100.0 %; n 200)." in said
    assert "Rows whose last neighbour still reaches 0.9, so that pairs beyond it were never seen: 321." in said
    nothing = [{"jaccard": 0.5, "value": None, "low": None, "high": None, "n": 0}]
    unmeasured = audit["duplicates"] | {
        "minhash": audit["duplicates"]["minhash"]
        | {"measured_recall": nothing, "expected_recall": [{"jaccard": 0.5, "value": 0.873}]}
    }
    assert lane_recall_view(unmeasured)["rows"] == [{"jaccard": "0.5", "found": "not measured", "expected": "87.3 %"}]


def test_a_queue_of_duplicates_is_not_told_off_and_one_without_bands_is_silent(audit: dict[str, Any]) -> None:
    sweep = audit["duplicates"]["sweep"]
    good = [row | {"precision_queue": 0.95 if row["recommended"] else None} for row in sweep]
    notice = queue_notice(good)
    assert notice is not None
    assert notice["tone"] == "good"
    assert "Read them" not in notice["text"]
    assert queue_notice([row | {"precision_queue": None} for row in sweep]) is None
    assert separation_words(None) == ""


def test_texts_of_symbols_only_are_told_apart_from_what_was_compared() -> None:
    audit = sample_audit()
    told = "stand in no comparison and in no share above"
    before = "".join(parsed(render_page(audit, {})).text).replace("\u00a0", " ")
    assert told not in before
    assert "with paraphrases (about 44.5 % of these pairs are duplicates). Identical texts: 812 groups" in before
    audit["duplicates"]["wordless"] = {"rows": 40, "copies": 30}
    after = "".join(parsed(render_page(audit, {})).text).replace("\u00a0", " ")
    assert f"(40 texts of symbols only, without a word, {told}; 30 of them repeat another verbatim); " in after


def test_that_the_pairs_are_to_be_read_is_said_once() -> None:
    audit = sample_audit()
    audit["duplicates"]["recommended"]["reason"] += " Read them: it is a queue for a person, not a list to delete."
    section = "".join(parsed(render_page(audit, {})).text).partition("Duplicates")[2]
    assert section.count("Read them: ") == 1
    assert "Read them before" not in section


def test_a_threshold_that_is_not_to_be_relied_on_is_no_bold_advice(audit: dict[str, Any]) -> None:
    plain = render_page(audit, {})
    assert "<b>Call two chunks duplicates from cosine 0.96</b>" in plain
    doubtful = deepcopy(audit)
    doubtful["duplicates"]["recommended"]["caution"] = "0.96 is the lowest row of the sweep."
    doubtful["duplicates"]["labels"]["bands"] = {"words": "9 of 9 labels lie outside."}
    page = render_page(doubtful, {})
    assert "<b>Call two chunks" not in page
    text = " ".join("".join(parsed(page).text).split())
    assert "The best row of this sweep is cosine 0.96 in regime stored (95 %: 0.94 to 0.97). 0.96 is the lowest" in text
    assert "9 of 9 labels lie outside." in text
    assert "9 of 9 labels" not in plain


def test_the_page_says_what_was_drawn_for_the_intervals(audit: dict[str, Any]) -> None:
    separation = audit["duplicates"]["separation"]
    assert "families of labelled pairs" in separation_words(separation)
    assert "chunks drawn 2,000 times, as one family" in separation_words(separation | {"drawn_by": "chunks"})
