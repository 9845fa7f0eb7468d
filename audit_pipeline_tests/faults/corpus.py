"""Content that no vector can separate, or that self-retrieval cannot see: twins, long and short chunks, hubs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from audit_pipeline_tests.faults.index import PASSAGE, QUERY, Batch, Index
from audit_pipeline_tests.faults.texts import both_hold
from audit_pipeline_tests.faults.vectors import encoded_again

SOME_PROBES = 300  # where every query has to be encoded anew
MENU = "Home Products Pricing Docs Blog Contact"
SOME_WORDS = 8
PASSAGES = (
    "All examples on these pages may be copied and changed under the terms of the licence.",
    "Please report mistakes in the text to the people who look after the documentation.",
    "Names of products are marks of their owners and are used here for identification only.",
)
BOILERPLATE = "Every example on this page may be copied and changed under the terms of the licence below."


def holding(index: Index, batch: Batch, texts: list[str], prompt: str = PASSAGE) -> Index:
    """Store and table with other texts in the batch's rows, and the vectors of these."""
    whole = index.texts
    for place, text in zip(batch.places, texts, strict=True):
        whole[place] = text
    return encoded_again(index.with_column("text", whole, of_store=True), batch, prompt)


def of_the_rest(index: Index, batch: Batch, rng: np.random.Generator, each: int = 1) -> list[str]:
    """As many texts of other batches as the batch has rows, or ``each`` joined for every row."""
    others = np.flatnonzero(~batch.rows)
    if each == 1:
        return [index.texts[place] for place in rng.choice(others, len(batch.places), replace=False)]
    chosen = [rng.choice(others, each, replace=False) for _ in batch.places]
    return ["\n\n".join(index.texts[place] for place in row) for row in chosen]


def twins_within(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The batch is one text, over and over."""
    return holding(index, batch, [index.texts[batch.places[0]]] * len(batch.places))


def twins_across(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The batch holds texts of the other batches again, encoded as they should be."""
    return holding(index, batch, of_the_rest(index, batch, rng))


def twins_in_the_wrong_role(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """A second path ingests texts of the other batches again, without the prompt."""
    return holding(index, batch, of_the_rest(index, batch, rng), prompt="")


def twins_in_the_query_role(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The same in the query's role: these copies win every probe of the originals."""
    return holding(index, batch, of_the_rest(index, batch, rng), prompt=QUERY)


def longer_than_read(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    return holding(index, batch, of_the_rest(index, batch, rng, each=8))


def equal_as_read(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Each two chunks of the batch begin with the same long text and differ beyond what is read of them."""
    beginnings = of_the_rest(index, batch, rng, each=12)
    return holding(index, batch, paired_with_ends(index, batch, beginnings))


def equal_beginnings_within_reach(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The sound twin: the same ends behind beginnings short enough for the ends to be read."""
    beginnings = [" ".join(text.split()[:5]) for text in of_the_rest(index, batch, rng, each=12)]
    return holding(index, batch, paired_with_ends(index, batch, beginnings))


def paired_with_ends(index: Index, batch: Batch, beginnings: list[str]) -> list[str]:
    own = [index.texts[place] for place in batch.places]
    return [f"{beginnings[2 * (number // 2)]}\n\n{text}" for number, text in enumerate(own)]


def short_chunks(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """A splitter that left a few words a chunk."""
    return both_hold(index, batch, lambda text: " ".join(text.split()[:3]))


def unrelated_sentences(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """A splitter that put the sentences of three unrelated texts into each chunk."""
    words = [[word.strip(".!?") for word in index.texts[place].split()] for place in batch.places]
    n = len(words)

    def sentence(row: int, third: int) -> str:
        own = words[row % n]
        part = own[third * len(own) // 3 : (third + 1) * len(own) // 3]
        return " ".join(part).capitalize() + "."

    step = n // 3
    chunks = [" ".join(sentence(row + third * step, third) for third in range(3)) for row in range(n)]
    return holding(index, batch, chunks)


def boilerplate_sentence(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Each chunk of the batch has the same sentence in its middle."""

    def around(text: str) -> str:
        words = [word.strip(".!?") for word in text.split()]
        half = len(words) // 2
        return f"{' '.join(words[:half])}. {BOILERPLATE} {' '.join(words[half:])}.".replace("..", ".")

    return both_hold(index, batch, around)


def passage_in_every_chunk(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Each chunk of the batch is a few words of its own and the same three sentences, in another order."""
    chunks = []
    for number, place in enumerate(batch.places):
        own = " ".join(word.strip(".!?") for word in index.texts[place].split()[:SOME_WORDS])
        chunks.append(" ".join([f"{own}.", *(PASSAGES[(number + turn) % 3] for turn in range(3))]))
    return holding(index, batch, chunks)


def navigation(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The batch is menus, and what the application puts before its queries draws them there."""
    return navigation_beside(index, batch, rng).with_settings("encoder", query_prompt=f"{MENU} " * 8)


def navigation_beside(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    menus = [f"{MENU} {MENU} page {number}" for number in range(len(batch.places))]
    return holding(index, batch, menus).with_settings("sample", total=SOME_PROBES)


def swapped_everywhere(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """Every row was encoded in the query's role."""
    swapped = replace(index, vectors=index.encoders.encode(QUERY, index.texts))
    return swapped.with_settings("sample", total=SOME_PROBES)


def one_prompt_on_both_sides(index: Index, batch: Batch, rng: np.random.Generator) -> Index:
    """The settings say so as well, and the model names no prompt of its own: all agree on what may be wrong."""
    return swapped_everywhere(index, batch, rng).with_settings("encoder", passage_prompt=QUERY)
