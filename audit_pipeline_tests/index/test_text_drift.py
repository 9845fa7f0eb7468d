from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from audit_pipeline.index.text_drift import MARKUP, TRANSFORMATIONS, bare, drift_of, drifts_of, transformed

SAME_WORDS = (*TRANSFORMATIONS, *MARKUP)


@pytest.mark.parametrize(
    ("own", "stored", "kind"),
    [
        ("caf\u00e9", "cafe\u0301", "unicode_form"),
        ("two  words\nhere ", "two words here", "white_space"),
        ("soft\u00adware", "software", "white_space"),
        ("caf\u00e9  au lait", "cafe\u0301 au lait", "white_space"),
        ("a < b & c", "a &lt; b &amp; c", "entities"),
        ("caf\u00e9 & co", "cafe\u0301  &amp; co", "entities"),
        ("\u201cquoted\u201d \u2013 it\u2019s\u2026", '"quoted" - it\'s...', "quotes"),
        ("\u201cR&D\u201d", '"R&amp;D"', "quotes"),
        ("the \ufb01rst \uff21", "the first A", "compatibility"),
        ("Case matters", "case matters", "case"),
        ("Stra\u00dfe \u201cA\u201d", 'strasse "a"', "case"),
        ("<p>One</p><p>two &amp; <b>three</b></p>", "One\ntwo & three", "html_tags"),
        ("<p>One</p><p>Two</p>", "OneTwo", "html_tags"),
        ("plain words", "<div>plain <i>words</i></div><script>run()</script>", "html_tags"),
        ("# Head\n\nsome *em*, `code` and [a link](http://x.y/z)", "Head some em, code and a link", "markdown"),
        ("1. first\n2. second", "first second", "markdown"),
        ("**Bold** and <b>bold</b>", "bold and bold", "markdown"),
        ("intro\n\nsection one\n\nsection two", "intro\n\nsection one", "truncated"),
        ("intro\n\nsection one\n\nsection two", "section one\n\nsection two", "section_lost"),
        ("port 8080", "port 8081", "differs"),
        ("2024. A year", "2025. A year", "differs"),  # both are "A year" as Markdown
        ("see [a](http://x)", "see [a](http://y)", "differs"),
        ("<b></b>", "***", "differs"),
        ("run --all", "run -all", "differs"),
        ("List<String> x", "List x y", "differs"),
        ("something", "", "differs"),
    ],
)
def test_the_weakest_change_that_makes_two_texts_equal_is_named(own: str, stored: str, kind: str) -> None:
    assert drift_of(own, stored).kind == kind


@pytest.mark.parametrize(
    ("own", "stored", "lost"),
    [
        ("one two three", "one two", 6),
        ("one  two\nthree", "one two th", 3),
        ("one two three", "one two\u2026", 6),
        ("one & two three", "one &amp; two", 6),
        ("plain", "other", None),
    ],
)
def test_a_truncated_text_says_how_many_characters_it_lacks(own: str, stored: str, lost: int | None) -> None:
    assert drift_of(own, stored).lost == lost


_TEXTS = st.text(
    st.sampled_from("aAb1 \n\t<>&;*_`#-.\u00e9\u0301e\ufb01\u201c\"\u2019'\u00a0\u200b\u2026\u00df"), max_size=12
)
_PIECES = st.lists(
    st.sampled_from(["word", "Word", " ", "\n\n", "&amp;", "&", "<b>", "</b>", "*", "# ", "caf\u00e9", "cafe\u0301"]),
    max_size=8,
).map("".join)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.tuples(_TEXTS, _TEXTS), st.tuples(_PIECES, _PIECES)))
def test_the_change_found_makes_them_equal_and_no_weaker_one_does(pair: tuple[str, str]) -> None:
    own, stored = pair
    assume(own != stored)
    kind = drift_of(own, stored).kind

    def undone_by(name: str) -> bool:
        if name in TRANSFORMATIONS:
            return transformed(own, name) == transformed(stored, name) != ""
        strip = MARKUP[name]
        return any(
            bare(strip(marked)) == bare(plain) != "" and len(bare(marked)) > len(bare(plain))
            for marked, plain in ((own, stored), (stored, own))
        )

    undone = [name for name in SAME_WORDS if undone_by(name)]
    if kind in SAME_WORDS:
        assert undone
        assert undone[0] == kind
    else:
        assert undone == []
    if kind == "truncated":
        assert transformed(own, "quotes").startswith(transformed(stored, "quotes").removesuffix("...").rstrip())


@settings(max_examples=200, deadline=None)
@given(_TEXTS)
def test_a_stronger_change_undoes_what_a_weaker_one_does(text: str) -> None:
    names = list(TRANSFORMATIONS)
    for place, weaker in enumerate(names):
        for stronger in names[place:]:
            assert transformed(transformed(text, weaker), stronger) == transformed(text, stronger)


def test_where_markup_is_parsed_no_more_a_pair_that_it_could_explain_stays_undetermined() -> None:
    own = ["<b>a</b> bc", "<b>a</b> bc", "words here", "a b", "first, middle and last"]
    stored = ["a bc", "a bc", "words", "A  B", "first and last"]
    kinds, lost = drifts_of(pa.array(own), pa.array(stored), most_parsed=1)
    assert kinds.to_pylist() == ["html_tags", "undetermined", "truncated", "case", "undetermined"]
    assert lost.to_pylist() == [None, None, 5, None, None]
    kinds, _ = drifts_of(pa.array(own), pa.array(stored))
    assert kinds.to_pylist() == ["html_tags", "html_tags", "truncated", "case", "differs"]
