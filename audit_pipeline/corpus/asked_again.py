"""The held-out plan that asks another audit's sentences of this corpus. Finding words in texts is spans.py's."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.corpus.sentences import HELD_OUT, Documents, cut_out, split_sentences, stands_in
from audit_pipeline.corpus.spans import Mark, Span, find_spans, normal_sha256
from audit_pipeline.corpus.text import normalise, words

ASKED = pa.schema([HELD_OUT.field(name) for name in ("doc_id", "held_sha256", "held_words", "held_rolling")])

_WORD = re.compile(r"\w+")
_WIDEST_GAP = 12  # characters between two words that are tried as part of the sentence, on either side


@dataclass(frozen=True)
class AskedAgain:
    """``held`` are the chunks that hold a sentence (HELD_OUT, by chunk_id); ``counts`` say what became of all.

    That is ``asked`` in all, ``no_document`` whose document is not in this corpus, ``not_whole`` that stand whole in
    no chunk (a boundary cuts them, or the text is another), ``shared_chunk`` in a chunk that another sentence is asked
    of, ``asked_twice`` that had been asked already; the rest are the rows of ``held``.
    """

    held: pa.Table
    counts: dict[str, int]


def ask_again(asked: pa.Table, population: pa.Table, min_words: int) -> AskedAgain:
    """For each sentence of ``asked`` (ASKED) the chunk of ``population`` that holds it, and that chunk without it.

    Where both corpora know documents by the same ids, a sentence is looked for in its own document only. Of several
    chunks that hold it the one is taken in which it stands farthest from an end, so that a window that overlaps the
    next one is asked where it knows most around it. A chunk is asked one sentence: of several the first by
    hash that can be. It is not eligible (``too_short``) where fewer than ``min_words`` words are left without the
    sentence, nor where the sentence stands in the rest too (``repeated``).
    """
    once = asked.take(pa.array(_first_of_each(asked["held_sha256"].to_pylist()), pa.int64()))
    counts = {"asked": len(asked), "asked_twice": len(asked) - len(once)}
    documents = once["doc_id"].combine_chunks()
    known = pc.is_in(documents, value_set=pc.unique(population["doc_id"]).drop_null())
    by_document = bool(pc.any(known).as_py())
    counts["no_document"] = 0
    chunks = population
    if by_document:
        elsewhere = pc.and_(documents.is_valid(), pc.invert(known))
        counts["no_document"] = int(pc.sum(elsewhere).as_py() or 0)
        once = once.filter(pc.invert(elsewhere))
        if once["doc_id"].null_count == 0:
            chunks = population.filter(pc.is_in(population["doc_id"], value_set=pc.unique(once["doc_id"])))
    spans = find_spans(chunks["text"], _marks(once))
    doc_ids = chunks["doc_id"].to_pylist()
    chunk_ids = chunks["chunk_id"].to_pylist()
    of_chunk: dict[int, list[tuple[str, int, Span]]] = {}
    counts["not_whole"] = 0
    own_documents = once["doc_id"].to_pylist()
    for number, (sha, own, some) in enumerate(zip(once["held_sha256"].to_pylist(), own_documents, spans, strict=True)):
        inside = [s for s in some if not by_document or own is None or doc_ids[s.chunk] == own]
        if not inside:
            counts["not_whole"] += 1
            continue
        best = min(inside, key=lambda s: (-min(s.before, s.after), chunk_ids[s.chunk], s.first))
        of_chunk.setdefault(best.chunk, []).append((sha, number, best))
    counts["shared_chunk"] = sum(len(some) - 1 for some in of_chunk.values())
    holders = chunks.take(pa.array(sorted(of_chunk), pa.int64()))
    around = Documents(
        population.filter(pc.is_in(population["doc_id"], value_set=pc.unique(holders["doc_id"]).drop_null()))
    )
    asked_rows = once.to_pylist()
    records = []
    for place, chunk in zip(sorted(of_chunk), holders.to_pylist(), strict=True):
        tried = [
            _held_of(chunk, around, asked_rows[number], span, min_words)
            for _, number, span in sorted(of_chunk[place], key=lambda one: one[:2])
        ]
        records.append(next((record for record in tried if record["eligible"]), tried[0]))
    held = pa.Table.from_pylist(records, schema=HELD_OUT).sort_by("chunk_id")
    return AskedAgain(held, dict(sorted(counts.items())))


def _held_of(chunk: dict, around: Documents, asked: dict, span: Span, min_words: int) -> dict[str, object]:
    """The record of HELD_OUT of one chunk and the sentence that stands in it."""
    header, _, _ = around.around(chunk)
    # As everywhere else a repeated header is no part of what is asked for; offsets are those of the composed form.
    whole = _composed(chunk["text"])
    text = _composed(chunk["text"].removeprefix(header).lstrip("\n")) if header else whole
    record: dict[str, object] = dict.fromkeys(HELD_OUT.names)
    record.update(
        chunk_id=chunk["chunk_id"],
        doc_id=chunk["doc_id"],
        eligible=False,
        sentences=len(split_sentences(text)),
        **{name: asked[name] for name in ("held_sha256", "held_words", "held_rolling")},
    )
    own = words(normalise(whole))[span.first : span.first + asked["held_words"]]
    ends = _characters_of(text, own, asked["held_sha256"])
    if ends is None:
        return record | {"reason": "in_header"}
    held, body = text[ends[0] : ends[1]], cut_out(text, *ends)
    if len(words(body)) < min_words:
        return record | {"reason": "too_short"}
    if stands_in(held, body):
        return record | {"reason": "repeated"}
    return record | {"eligible": True, "held": held, "body": body}


def _characters_of(text: str, own: list[str], sha256: str) -> tuple[int, int] | None:
    """From where to where the run of words stands in the text, None where it does not.

    Marks beside it belong to it where that gives the sentence as it was asked, else those that touch its words.
    """
    pieces = [(match.start(), match.end()) for match in _WORD.finditer(text)]
    folded: list[str] = []
    piece_of: list[int] = []  # folding can make several words of one
    for number, (start, end) in enumerate(pieces):
        some = words(normalise(text[start:end]))
        folded += some
        piece_of += [number] * len(some)
    size = len(own)
    first = next((i for i in range(len(folded) - size + 1) if folded[i : i + size] == own), None)
    if first is None:
        return None
    one, last = piece_of[first], piece_of[first + size - 1]
    start, end = pieces[one][0], pieces[last][1]
    floor = max(pieces[one - 1][1] if one else 0, start - _WIDEST_GAP)
    ceiling = min(pieces[last + 1][0] if last + 1 < len(pieces) else len(text), end + _WIDEST_GAP)
    for left in range(start, floor - 1, -1):
        for right in range(end, ceiling + 1):
            if normal_sha256(text[left:right]) == sha256:
                return left, right
    while start > floor and not text[start - 1].isspace():
        start -= 1
    while end < ceiling and not text[end].isspace():
        end += 1
    return start, end


def _marks(asked: pa.Table) -> list[Mark]:
    columns = (asked[name].to_pylist() for name in ("held_sha256", "held_words", "held_rolling"))
    return [Mark(*row) for row in zip(*columns, strict=True)]


def _first_of_each(values: Sequence[str]) -> list[int]:
    seen: dict[str, int] = {}
    for place, value in enumerate(values):
        seen.setdefault(value, place)
    return sorted(seen.values())


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)
