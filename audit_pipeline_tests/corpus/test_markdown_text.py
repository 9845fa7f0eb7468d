"""Markdown texts cut by hand and by the reader; properties over generated ones."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit_pipeline.corpus.markdown_text import BrokenFrontMatterError, chunks_of, split_front_matter

GUIDE = """Before any title.

Install
=======

Run it.

Linux *and* `BSD`
-----------------

First [step](http://x).

## Empty

# C# | ~tips~ #

Text.

## Linux

One.

## Linux

Two.

> # quoted, no section

- # in a list, no section
"""


def cut(text: str, words: int = 200, overlap: int = 0) -> list[tuple[str, str | None, str]]:
    return [(chunk.name, chunk.heading, chunk.text) for chunk in chunks_of(text, words, overlap)]


def test_sections_stand_under_the_path_of_their_titles() -> None:
    assert cut(GUIDE) == [
        ("", None, "Before any title."),
        ("Install", "Install", "Run it."),
        ("Install|Linux and BSD", "Install > Linux and BSD", "First [step](http://x)."),
        (r"C\# \| \~tips\~", "C# | ~tips~", "Text."),
        (r"C\# \| \~tips\~|Linux", "C# | ~tips~ > Linux", "One."),
        (
            r"C\# \| \~tips\~|Linux~2",
            "C# | ~tips~ > Linux",
            "Two.\n\n> # quoted, no section\n\n- # in a list, no section",
        ),
    ]


@pytest.mark.parametrize(
    "text", ["", "\n \n", "# Only\n\n## titles\n", "[a]: http://x\n", "# T\n<!-- todo -->\n\n---\n"]
)
def test_what_shows_no_text_gives_no_chunk(text: str) -> None:
    assert cut(text) == []


def test_a_text_without_titles_is_one_section() -> None:
    assert cut("one\n\ntwo\n") == [("", None, "one\n\ntwo")]
    assert [name for name, _, _ in cut("one two\n\nthree four\n", words=2)] == ["", "#2"]


def test_an_empty_title_is_not_the_text_before_any() -> None:
    assert cut("one\n\n#\ntwo\n") == [("", None, "one"), ("~1", None, "two")]


def test_long_sections_are_cut_between_blocks_items_lines_sentences_and_words() -> None:
    sentences = "Go home now. Please stay. One two three four five six seven."
    text = f"a b c\n\nd e\n\n{sentences}\n\n- s t\n- u v\n- w\n\n| x | y |\n|---|---|\n| 1 | 2 |\n"
    assert [body for _, _, body in cut(text, words=5)] == [
        "a b c\n\nd e",
        "Go home now. Please stay.",
        "One two three four five",
        "six seven.\n\n- s t",
        "- u v\n- w",
        "| x | y |",
        "|---|---|",
        "| 1 | 2 |",
    ]


CODE = "```\n# no title\n\na b c d e f g h\n```"


def test_code_stays_whole_wherever_it_stands() -> None:
    text = f"one two\n\n{CODE}\n\nthree four\n\n- item\n\n  {CODE.replace(chr(10), chr(10) + '  ')}\n\n    indented\n"
    bodies = [body for _, _, body in cut(text, words=4, overlap=2)]
    assert bodies[:3] == ["one two", CODE, "three four\n\n- item"]
    assert sum(body.count("```") for body in bodies) == 4
    assert all(body.count("```") in (0, 2) for body in bodies)


def test_an_overlap_repeats_the_last_words_within_the_section() -> None:
    text = "# A\n\na b c d\n\ne f g h\n\n# B\n\ni j\n"
    assert cut(text, words=6, overlap=2) == [
        ("A", "A", "a b c d"),
        ("A#2", "A", "c d\n\ne f g h"),
        ("B", "B", "i j"),
    ]


def test_characters_of_scripts_without_spaces_are_words() -> None:
    assert [body for _, _, body in cut("一二三四五六七。", words=3)] == ["一二三", "四五六", "七。"]


def test_an_edit_elsewhere_leaves_a_chunk_as_it_is() -> None:
    before = {name: (heading, body) for name, heading, body in cut(GUIDE)}
    longer = GUIDE.replace("Run it.", "Run it. " + "More words. " * 300).replace("## Empty\n", "## New\n\nNew text.\n")
    after = {name: (heading, body) for name, heading, body in cut(longer)}
    assert {name for name in before if before[name] != after.get(name)} == {"Install"}


@pytest.mark.parametrize(
    ("text", "front", "rest"),
    [
        ("---\ntitle: T\ndate: 2026-01-02\n---\n# A\n", {"title": "T", "date": "2026-01-02"}, "# A\n"),
        ("---\na: {b: 1}\n...\nx", {"a": {"b": "1"}}, "x"),
        ('+++\ntitle = "T"\n+++\nx', {"title": "T"}, "x"),
        ("---\n---\nx", {}, "x"),
        ("---\nprose: of a kind\n", None, "---\nprose: of a kind\n"),  # never closed
        ("---\nJust prose\n---\nx", None, "---\nJust prose\n---\nx"),  # a rule and a setext title
        ("---\n*a b*: c: d\n---\nx", None, "---\n*a b*: c: d\n---\nx"),
        ("text\n---\na: 1\n---\n", None, "text\n---\na: 1\n---\n"),
    ],
)
def test_front_matter(text: str, front: dict | None, rest: str) -> None:
    assert split_front_matter(text) == (front, rest)


def test_front_matter_that_cannot_be_read_quotes_nothing_and_is_kept_out() -> None:
    with pytest.raises(BrokenFrontMatterError) as raised:
        split_front_matter("---\nsecret: a: b\n---\nx")
    assert raised.value.args == ("YAML, mapping values are not allowed here", "x")


WORDS = st.lists(st.from_regex(r"[a-z]{1,6}[.?!]?", fullmatch=True), min_size=1, max_size=25).map(" ".join)
BLOCKS = st.one_of(
    WORDS,
    WORDS.map(lambda text: "> " + text),
    st.lists(WORDS, min_size=1, max_size=4).map(lambda items: "\n".join(f"- {item}" for item in items)),
    WORDS.map(lambda text: f"```\n{text}\n\n# {text}\n```"),
)
SECTIONS = st.lists(st.tuples(st.integers(1, 3), st.sampled_from("AB"), st.lists(BLOCKS, max_size=4)), max_size=5)


@given(SECTIONS, st.integers(1, 12), st.data())
@settings(max_examples=40, deadline=None)
def test_no_word_is_lost_no_chunk_is_too_long_and_names_are_unique(
    sections: list, words: int, data: st.DataObject
) -> None:
    text = "\n\n".join("\n\n".join([f"{'#' * level} {title}", *blocks]) for level, title, blocks in sections)
    plain = chunks_of(text, words, 0)
    wanted = [word for _, _, blocks in sections for block in blocks for word in block.split()]
    assert [word for chunk in plain for word in chunk.text.split()] == wanted
    overlap = data.draw(st.integers(0, words - 1))
    for chunks in (plain, chunks_of(text, words, overlap)):
        assert len({chunk.name for chunk in chunks}) == len(chunks)
        for chunk in chunks:
            assert len(re.findall("^```", chunk.text, re.MULTILINE)) % 2 == 0
            assert len(chunk.text.split()) <= words or chunk.text.startswith("```")
