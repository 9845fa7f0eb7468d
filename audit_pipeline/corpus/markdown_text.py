"""One Markdown text as chunks by its headings, and its front matter. Files and columns are in markdown_files.py."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from audit_pipeline.corpus.sentences import guess_language

_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(rf"[{_CJK}]|[^\s{_CJK}]+")
_CONTAINERS = ("bullet_list", "ordered_list", "list_item", "blockquote")
_WHOLE = ("fence", "code_block")
_COMMENTS = re.compile(r"\s*(<!--.*?-->\s*)+", re.DOTALL)
_SPECIAL = re.compile(r"[\\#|~]")
_CLOSED_BY = {"---": ("---", "..."), "+++": ("+++",)}
_KEY = re.compile(r"""["']?[\w][\w .-]*["']?\s*[:=]""")


@dataclass(frozen=True)
class MarkdownChunk:
    """A stretch of the source text. ``name`` is unique in its file, ``heading`` the titles above it."""

    name: str
    heading: str | None
    text: str


@dataclass(frozen=True)
class _Piece:
    """The least that is moved from one chunk to another: ``whole`` is a code block, which no overlap cuts."""

    start: int
    end: int
    words: int
    whole: bool


class BrokenFrontMatterError(ValueError):
    """Front matter that is no YAML or TOML; the message quotes nothing of it."""


def split_front_matter(text: str) -> tuple[dict[str, Any] | None, str]:
    """(front matter, the rest) of a text that begins with YAML between ``---`` or TOML between ``+++``.

    None where there is none: a ``---`` above prose is a thematic break. Scalars of YAML stay strings as written.
    Raises BrokenFrontMatterError, with the rest as its second argument, where the keys cannot be read.
    """
    lines = text.split("\n")
    fence = lines[0].rstrip()
    end = next((i for i, line in enumerate(lines[1:], 1) if line.rstrip() in _CLOSED_BY.get(fence, ())), None)
    if end is None:
        return None, text
    inner, rest = "\n".join(lines[1:end]), "\n".join(lines[end + 1 :])
    try:
        found = (
            tomllib.loads(inner) if fence == "+++" else yaml.load(inner, Loader=yaml.BaseLoader)
        )  # builds no objects
    except (yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        if not _KEY.match(inner.lstrip()):
            return None, text
        told = getattr(error, "problem", None) or "not read"
        raise BrokenFrontMatterError(f"{'TOML' if fence == '+++' else 'YAML'}, {told}", rest) from error
    if found is None:
        return {}, rest
    return (dict(found), rest) if isinstance(found, Mapping) else (None, text)


def chunks_of(text: str, words: int, overlap: int) -> list[MarkdownChunk]:
    r"""The chunks of a Markdown text (CommonMark and tables) without its front matter, in order.

    A section is what stands between two headings, its chunks are stretches of the source of at most ``words`` words,
    cut between blocks, else list items, lines of a table, sentences, words. A code block stays whole. Titles are in
    ``heading`` and not in the text, so that a heading with nothing under it gives no chunk.

    ``name`` is the path of titles, ``A|B``, with ``#2`` from the section's second chunk on, and ``~2`` behind the
    second of two titles that are equal under one parent; ``\``, ``#``, ``|``, ``~`` in titles are escaped. So a chunk
    keeps its name whatever changes in other sections, and when its own text does.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    offsets = [0, *(match.end() for match in re.finditer("\n", text))]
    offsets.append(len(text))

    def at(line: int) -> int:
        return offsets[min(line, len(offsets) - 1)]

    chunks: list[MarkdownChunk] = []
    for names, titles, blocks, end in _sections(text, len(offsets)):
        starts: dict[int, bool] = {}
        for block in blocks:
            _cut(block, text, at, words, words - overlap, starts)
        bounds = [*starts, at(end)]
        pieces = [
            _Piece(start, stop, len(_WORD.findall(text, start, stop)), whole)
            for (start, whole), stop in zip(starts.items(), bounds[1:], strict=True)
        ]
        path = "|".join(names)
        heading = " > ".join(title for title in titles if title) or None
        for number, body in enumerate(_packed(pieces, text, words, overlap), 1):
            chunks.append(MarkdownChunk(path if number == 1 else f"{path}#{number}", heading, body))
    return chunks


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def _sections(text: str, last_line: int) -> Iterator[tuple[list[str], list[str], list[SyntaxTreeNode], int]]:
    """(escaped titles, titles, blocks, line of the end) of each section that holds blocks."""
    stack: list[tuple[int, str, str]] = []  # level, escaped and numbered, title
    counts: dict[tuple[str, ...], int] = {}
    blocks: list[SyntaxTreeNode] = []
    for node in SyntaxTreeNode(_parser().parse(text)).children:
        if node.type != "heading":
            if blocks or not _is_silent(node):
                blocks.append(node)
            continue
        if blocks:
            yield [name for _, name, _ in stack], [title for _, _, title in stack], blocks, _lines(node)[0]
        blocks = []
        level, title = int(node.tag[1]), _title(node)
        while stack and stack[-1][0] >= level:
            stack.pop()
        escaped = _SPECIAL.sub(r"\\\g<0>", title)
        place = (*(name for _, name, _ in stack), escaped)
        counts[place] = counts.get(place, 0) + 1
        first = counts[place] == 1 and escaped  # an empty title is no title: "~1" is not the text before any
        stack.append((level, escaped if first else f"{escaped}~{counts[place]}", title))
    if blocks:
        yield [name for _, name, _ in stack], [title for _, _, title in stack], blocks, last_line


def _is_silent(node: SyntaxTreeNode) -> bool:
    """Whether a block shows no text: a rule, a comment. Before the first that does it is left out."""
    return node.type == "hr" or (node.type == "html_block" and _COMMENTS.fullmatch(node.content) is not None)


def _title(node: SyntaxTreeNode) -> str:
    """The heading's text as it is shown: without marks and link targets, white space collapsed."""
    shown = (
        one.content if one.type in ("text", "code_inline") else " "
        for one in node.walk()
        if one.type in ("text", "code_inline", "softbreak", "hardbreak")
    )
    return " ".join("".join(shown).split())


def _lines(node: SyntaxTreeNode) -> tuple[int, int]:
    if node.map is None:
        raise ValueError(f"a block of type {node.type} has no lines")
    return node.map


def _cut(node: SyntaxTreeNode, text: str, at: Any, limit: int, step: int, starts: dict[int, bool]) -> None:
    """Put the first characters of a block's pieces into ``starts``: one piece where it is short enough."""
    first, last = _lines(node)
    start, end = at(first), at(last)
    long = len(_WORD.findall(text, start, end)) > limit
    if long and node.type in _CONTAINERS:
        starts.setdefault(start, False)
        for child in node.children:
            _cut(child, text, at, limit, step, starts)
    elif long and node.type not in _WHOLE:
        for place in _runs(text, start, end, limit, step, sentences=node.type == "paragraph"):
            starts.setdefault(place, False)
    else:
        starts[start] = starts.get(start, False) or node.type in _WHOLE


def _runs(text: str, start: int, end: int, limit: int, step: int, *, sentences: bool) -> Iterator[int]:
    """Where the sentences or lines of a long block begin, and within those that are too long every ``step`` words."""
    import sentencex

    body = text[start:end]
    parts = sentencex.segment(guess_language(body), body) if sentences else body.splitlines(keepends=True)
    cursor = start
    for part in parts:
        begin = text.index(part, cursor)
        cursor = begin + len(part)
        found = [match.start() for match in _WORD.finditer(text, begin, cursor)]
        if found:
            yield begin if begin == start else found[0]
        if len(found) > limit:
            yield from found[step::step]


def _packed(pieces: list[_Piece], text: str, words: int, overlap: int) -> Iterator[str]:
    """The texts of a section's chunks: as many pieces each as fit, after the overlap."""
    place = 0
    while place < len(pieces):
        count = pieces[place].words
        start, led = _lead(pieces, place, text, min(overlap, max(0, words - count)))
        count += led
        last = place
        while last + 1 < len(pieces) and count + pieces[last + 1].words <= words:
            last += 1
            count += pieces[last].words
        body = text[start : pieces[last].end].strip("\n").rstrip()
        if body.strip():
            yield body
        place = last + 1


def _lead(pieces: list[_Piece], place: int, text: str, wanted: int) -> tuple[int, int]:
    """(first character, words) of what a chunk repeats: at most ``wanted`` words, and nothing of a code block."""
    start, taken = pieces[place].start, 0
    for piece in reversed(pieces[:place]):
        if taken == wanted or piece.whole:
            break
        found = [match.start() for match in _WORD.finditer(text, piece.start, piece.end)]
        if len(found) > wanted - taken:
            return found[len(found) - (wanted - taken)], wanted
        start, taken = piece.start, taken + len(found)
    return start, taken
