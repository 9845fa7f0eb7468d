"""What a reader sees of HTML or Markdown: the text without its markup. Nothing is compared here."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser

from markdown_it import MarkdownIt

_UNSEEN = frozenset(("script", "style", "template"))


class _Text(HTMLParser):
    """Gathers character data; references are resolved by the parser."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in _UNSEEN

    def handle_endtag(self, tag: str) -> None:
        self._unseen = max(0, self._unseen - (tag in _UNSEEN))

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.parts.append(data)


def without_html(text: str) -> str:
    """The text without tags, comments, scripts and styles; references become characters, white space stays.

    The standard library's tokenizer is enough: no tree is needed, and it takes broken markup as it comes.
    """
    if "<" not in text:
        return text
    parser = _Text()
    parser.feed(text)
    parser.close()
    return "".join(parser.parts)


def without_markdown(text: str) -> str:
    """The text as CommonMark with tables and strikethrough renders it, without tags. Link targets and list numbers go.

    Raises nothing: every text is Markdown.
    """
    return without_html(_markdown().render(text))


@cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])
