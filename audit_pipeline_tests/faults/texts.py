"""Ways to alter the stored text of a batch. Its vectors stay right, unless a name says otherwise."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Callable

import numpy as np

from audit_pipeline_tests.faults.index import PASSAGE, Batch, Index
from audit_pipeline_tests.faults.vectors import encoded_again

Altered = Callable[[str], str]


def stored_as(index: Index, batch: Batch, alter: Altered) -> Index:
    """The table's texts of the batch altered; the store's and the vectors as they were."""
    texts = index.texts
    for place in batch.places:
        texts[place] = alter(texts[place])
    return index.with_column("text", texts)


def both_hold(index: Index, batch: Batch, alter: Altered) -> Index:
    """Store and table hold texts that can be altered in this way, with the vectors of these texts: a sound index."""
    texts = index.texts
    for place in batch.places:
        texts[place] = alter(texts[place])
    return encoded_again(index.with_column("text", texts, of_store=True), batch, PASSAGE)


def first(text: str) -> str:
    return text.split(maxsplit=1)[0]


def rest(text: str) -> str:
    return text.split(maxsplit=1)[1]


def accented(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return both_hold(index, batch, lambda text: text.replace("e", "é", 5).replace("u", "ü", 2))


def decomposed(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return stored_as(accented(index, batch, rng), batch, lambda text: unicodedata.normalize("NFD", text))


def quoted(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return both_hold(index, batch, lambda text: f"""'{first(text)}' & "{rest(text)}" """.strip())


def entities(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return stored_as(quoted(index, batch, rng), batch, html.escape)


def curly_quotes(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return stored_as(quoted(index, batch, rng), batch, lambda text: text.replace('"', "\u201d").replace("'", "\u2019"))


def spaced(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return both_hold(index, batch, lambda text: f"{first(text)}\n\n  {rest(text)}")


def white_space_collapsed(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return stored_as(spaced(index, batch, rng), batch, lambda text: " ".join(text.split()))


def capitals(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return both_hold(index, batch, lambda text: f"{first(text).upper()} {rest(text)}")


def case_folded(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return stored_as(capitals(index, batch, rng), batch, str.lower)


def with_markup(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return both_hold(index, batch, lambda text: f"<p><b>{first(text)}</b> {rest(text)}</p>")


def markup_stripped(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    def strip(text: str) -> str:
        for tag in ("<p>", "</p>", "<b>", "</b>"):
            text = text.replace(tag, "")
        return text

    return stored_as(with_markup(index, batch, rng), batch, strip)


def cut_short(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The table keeps the first half of each text."""
    return stored_as(index, batch, lambda text: text[: len(text) // 2])


def beginning_lost(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return stored_as(index, batch, lambda text: text[len(text) // 3 :])


def mojibake(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """UTF-8 that was read as Latin-1."""
    return stored_as(accented(index, batch, rng), batch, lambda text: text.encode().decode("latin-1"))


def texts_shuffled(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Each row has its own vector and the text of another row of the batch."""
    texts = index.texts
    moved = np.roll(batch.places, 1)
    for place, other in zip(batch.places, moved, strict=True):
        texts[place] = index.texts[other]
    return index.with_column("text", texts)


def section_lost_and_encoded(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The writer lost the last two thirds of each text before it was stored and encoded."""
    return both_lost(index, batch, lambda text: text[: len(text) // 3])


def replaced_and_encoded(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The writer stored and encoded an error page in the place of each text."""
    return both_lost(index, batch, lambda text: f"Request {len(text)} was refused: too many requests, try again later.")


def both_lost(index: Index, batch: Batch, alter: Altered) -> Index:
    altered = stored_as(index, batch, alter)
    return encoded_again(altered, batch, PASSAGE, [altered.texts[place] for place in batch.places])


def mangled_in_the_store_as_well(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """What came out of the PDF is wrong, and store, table and vector agree on it."""
    return both_hold(index, batch, lambda text: text.replace("e", "c").replace("rn", "m"))
