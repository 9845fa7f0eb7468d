"""Sentences of a chunk, and the one that is held out as a query. Encoding and scoring them is in retrieval."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.spans import mark_of
from audit_pipeline.corpus.text import normalise, words

HELD_OUT = pa.schema(
    [
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("eligible", pa.bool_(), nullable=False),
        pa.field("reason", pa.string()),
        pa.field("held", pa.string()),
        pa.field("body", pa.string()),
        pa.field("sentences", pa.int32(), nullable=False),
        pa.field("doc_id", pa.string()),
        pa.field("held_sha256", pa.string()),  # see corpus.spans.Mark: another audit finds the sentence by these three
        pa.field("held_words", pa.int32()),
        pa.field("held_rolling", pa.string()),
    ]
)

Which = Literal["middle", "first", "heading", "last", "random"]

# A run shared by two neighbouring chunks counts as the splitter's overlap from this many words on; shorter ones are
# phrases that a document repeats.
_OVERLAP_WORDS = 5
_HAN = re.compile(r"[\u4e00-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")


def guess_language(text: str) -> str:
    """Language code for the segmenter, from the script alone: ja, zh, else en (its rules are the general ones)."""
    if _KANA.search(text):
        return "ja"
    return "zh" if len(_HAN.findall(text)) * 5 > len(text) else "en"


def split_sentences(text: str, language: str | None = None) -> list[str]:
    """Sentences of the text in order, stripped, without empty ones, by sentencex (Wikimedia)."""
    import sentencex

    pieces = sentencex.segment(language or guess_language(text), text)
    return [piece.strip() for piece in pieces if piece.strip()]


def stands_in(sentence: str, text: str) -> bool:
    """Whether the sentence stands word for word in the text, both in normal form; an empty one stands nowhere."""
    wanted = normalise(sentence)
    return bool(wanted) and wanted in normalise(text)


def hold_out(
    chunks: pa.Table,
    document_chunks: pa.Table | None,
    which: Which,
    min_sentences: int,
    min_words: int,
    seed: int,
) -> pa.Table:
    """The sentence held out of each chunk and the text without it, as HELD_OUT in the order of ``chunks``.

    ``chunks`` are the planned ones (chunk_id, text, heading, doc_id, position), ``document_chunks`` all chunks of
    their documents (the same columns), None where documents are not known. Lines at the beginning of most of a
    document's chunks are a header and are taken off first. ``first`` and ``last`` are drawn outside the word runs
    shared with the chunk before and after. ``held`` and ``body`` are null where the chunk is not eligible; ``reason``
    says why: no_heading, too_few_sentences, no_long_sentence, all_overlap (every candidate is shared with a
    neighbour), repeated (the held text stands in the body too).
    """
    documents = Documents(document_chunks if document_chunks is not None else None)
    records = [
        _hold_out_of(chunk, documents, which, min_sentences, min_words, seed)
        for chunk in chunks.select(_present(chunks)).to_pylist()
    ]
    return pa.Table.from_pylist(records, schema=HELD_OUT)


def _hold_out_of(
    chunk: dict, documents: Documents, which: Which, min_sentences: int, min_words: int, seed: int
) -> dict[str, object]:
    header, before, after = documents.around(chunk)
    text = chunk["text"].removeprefix(header).lstrip("\n") if header else chunk["text"]
    record: dict[str, object] = dict.fromkeys(HELD_OUT.names)
    sentences = split_sentences(text)
    record.update(chunk_id=chunk["chunk_id"], doc_id=chunk.get("doc_id"), eligible=False, sentences=len(sentences))
    if which == "heading":
        heading = (chunk.get("heading") or "").strip()
        if not words(heading):
            return record | {"reason": "no_heading"}
        body = _without(text, heading) if stands_in(heading, text.split("\n", 1)[0]) else text
        if not words(body):
            return record | {"reason": "too_few_sentences"}
        return record | {"eligible": True, "held": heading, "body": body} | marks(heading)
    if len(sentences) < min_sentences:
        return record | {"reason": "too_few_sentences"}
    long_enough = [place for place, sentence in enumerate(sentences) if len(words(sentence)) >= min_words]
    if not long_enough:
        return record | {"reason": "no_long_sentence"}
    candidates = long_enough
    if which in ("first", "last"):
        candidates = [place for place in long_enough if not _shared(sentences[place], (before, after))]
        if not candidates:
            return record | {"reason": "all_overlap"}
    place = _choose(candidates, len(sentences), which, seed, chunk["chunk_id"])
    held = sentences[place]
    body = _remove_piece(text, sentences, place)
    if stands_in(held, body):
        return record | {"reason": "repeated"}
    return record | {"eligible": True, "held": held, "body": body} | marks(held)


def marks(sentence: str) -> dict[str, str | int]:
    """The columns of HELD_OUT that name a sentence without its text."""
    mark = mark_of(sentence)
    return {"held_sha256": mark.sha256, "held_words": mark.words, "held_rolling": mark.rolling}


def _choose(candidates: list[int], sentences: int, which: Which, seed: int, chunk_id: str) -> int:
    if which == "first":
        return candidates[0]
    if which == "last":
        return candidates[-1]
    if which == "middle":
        middle = (sentences - 1) / 2
        return min(candidates, key=lambda place: (abs(place - middle), place))
    draw = hashlib.blake2b(f"{seed}:held:{chunk_id}".encode(), digest_size=8).digest()
    return candidates[int.from_bytes(draw, "big") % len(candidates)]


def _remove_piece(text: str, sentences: list[str], place: int) -> str:
    """The text without the sentence at this place; the white space around it stays one break."""
    start = 0
    for sentence in sentences[:place]:
        start = text.index(sentence, start) + len(sentence)
    start = text.index(sentences[place], start)
    return cut_out(text, start, start + len(sentences[place]))


def cut_out(text: str, start: int, end: int) -> str:
    """The text without what stands from ``start`` to ``end``; the white space around it stays one break."""
    left, right = text[:start], text[end:]
    gap = left[len(left.rstrip()) :] + right[: len(right) - len(right.lstrip())]
    joint = "\n\n" if gap.count("\n") > 1 else "\n" if "\n" in gap else " "
    return f"{left.rstrip()}{joint}{right.lstrip()}".strip()


def _without(text: str, heading: str) -> str:
    """The text without its first line, which is the heading, or without the heading at its beginning."""
    first, _, rest = text.partition("\n")
    if normalise(first).strip("#*= ") == normalise(heading):
        return rest.strip()
    match = re.match(r"\s*".join(re.escape(word) for word in heading.split()), text.lstrip(), re.IGNORECASE)
    return text.lstrip()[match.end() :].strip() if match else text


def _shared(sentence: str, neighbours: tuple[str, str]) -> bool:
    """Whether a run of at least 5 words of the sentence (all of a shorter one) stands in a neighbouring chunk."""
    tokens = words(normalise(sentence))
    size = min(_OVERLAP_WORDS, len(tokens))
    for neighbour in neighbours:
        text = f" {neighbour} "
        if size and any(f" {' '.join(tokens[i : i + size])} " in text for i in range(len(tokens) - size + 1)):
            return True
    return False


def _present(table: pa.Table) -> list[str]:
    return [
        name for name in ("chunk_id", "source", "doc_id", "heading", "position", "text") if name in table.column_names
    ]


class Documents:
    """Neighbours and repeated headers of the planned chunks' documents."""

    def __init__(self, table: pa.Table | None) -> None:
        self._chunks: dict[tuple, dict[int, str]] = {}
        self._headers: dict[tuple, str] = {}
        if table is None or not {"doc_id", "position"} <= set(table.column_names):
            return
        known = table.filter(pc.and_(table["doc_id"].is_valid(), table["position"].is_valid()))
        for row in known.select(_present(known)).to_pylist():
            self._chunks.setdefault(self._key(row), {})[row["position"]] = row["text"]

    @staticmethod
    def _key(row: dict) -> tuple:
        return row.get("source"), row.get("doc_id")

    def around(self, chunk: dict) -> tuple[str, str, str]:
        """(header of the document, words of the chunk before, words of the chunk after)."""
        key = self._key(chunk)
        texts = self._chunks.get(key)
        position = chunk.get("position")
        if texts is None or position is None:
            return "", "", ""
        if key not in self._headers:
            self._headers[key] = repeated_header(list(texts.values()))
        header = self._headers[key]
        before, after = texts.get(position - 1, ""), texts.get(position + 1, "")
        return (header if chunk["text"].startswith(header) else ""), _flat(before, header), _flat(after, header)


def _flat(text: str, header: str) -> str:
    return " ".join(words(normalise(text.removeprefix(header))))


def repeated_header(texts: list[str]) -> str:
    """The longest run of whole lines that begins at least three, and more than half, of a document's chunks."""
    header = ""
    prefixes = [""] * len(texts)
    rest = list(texts)
    while True:
        lines = [text.partition("\n") for text in rest]
        extended = [prefix + line + newline for prefix, (line, newline, _) in zip(prefixes, lines, strict=True)]
        counts = Counter(prefix for prefix, (_, newline, _) in zip(extended, lines, strict=True) if newline)
        best, count = max(counts.items(), key=lambda item: (item[1], item[0]), default=("", 0))
        if count < 3 or count * 2 <= len(texts):
            return header
        kept = [place for place, prefix in enumerate(extended) if prefix == best and lines[place][1]]
        header, total = best, len(texts)
        rest = [lines[place][2] for place in kept] + [""] * (total - len(kept))
        prefixes = [best] * len(kept) + ["\0"] * (total - len(kept))
