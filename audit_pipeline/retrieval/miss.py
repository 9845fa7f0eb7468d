"""One missed probe and what its cause may be read from. The tests that name the cause are in causes.py."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.reasons import ID_COLLISION
from audit_pipeline.index.exact import TIE_TOLERANCE, ExactSearch
from audit_pipeline.index.snapshot import TableSnapshot, VariantFunction
from audit_pipeline.retrieval.ranking import Identities
from audit_pipeline.retrieval.rows_ahead import ReadPart
from audit_pipeline.retrieval.twins import Twin, twin


@dataclass(frozen=True)
class Miss:
    """A probe that did not hit.

    ``k`` is the rank it had to reach (1 for self-retrieval); ``row`` the answer's row, -1 where the table lacks it;
    ranks are None where there are none; ``returned`` the rows the application got (empty where the run is exact
    only); ``ahead`` the rows of other ids that are closer or level, closest first, with ``ahead_scores``;
    ``ahead_complete`` is False where there are more of them than were kept.
    """

    run: str
    position: int  # in the run's table, for the lexical evidence
    probe_id: str
    chunk_id: str
    k: int
    row: int
    query: np.ndarray
    rank_returned: int | None
    rank_min: int | None
    rank_max: int | None
    score: float
    returned: np.ndarray
    ahead: np.ndarray
    ahead_scores: np.ndarray
    ahead_complete: bool
    overlap: str | None = None  # id of the row that also holds the held sentence
    filter: str | None = None  # the filter it was sent with, where that is filled from a row


@dataclass(frozen=True)
class Fidelity:
    """What the vector checks found, where they ran.

    ``states``: chunk_id -> (state, detail) with the states faithful, role_mismatch, misaligned, vector_drift; the
    detail of a faithful row is the part of its text that is encoded ("the first 64 tokens"), None for all of it;
    ``fresh``: chunk_id -> the store's text encoded now in the configured arm.
    """

    states: Mapping[str, tuple[str, str | None]] = field(default_factory=dict)
    fresh: Mapping[str, np.ndarray] = field(default_factory=dict)


FidelityCheck = Callable[[list[str]], Fidelity]
"""check(chunk ids) -> what the vector checks find of these chunks' rows; asked for missed answers and rows ahead."""


@dataclass
class Evidence:
    """Everything the tests may look at, computed at most once."""

    snapshot: TableSnapshot
    exact: ExactSearch
    identities: Identities
    settings: IndexAuditSettings
    own_texts: Mapping[str, str] = field(default_factory=dict)  # the store's text of missed chunks, where it has them
    variants: VariantFunction | None = None
    fidelity: Fidelity = field(default_factory=Fidelity)  # of missed answers, and of suspected rows ahead of them
    read_part: ReadPart | None = None
    text_is_embedded: bool = True  # False: the vectors encode something unknown, so a text's query proves little
    encoder_is_stable: bool = True  # False: no stored vector was compared with a fresh one, which another batch changes
    bodies: Mapping[int, str] = field(default_factory=dict)  # row -> the text in its place, in held-out retrieval
    cosine_ranks: Mapping[int, int] = field(default_factory=dict)  # position -> rank_min under cosine
    lexical_ranks: Mapping[int, int | None] = field(default_factory=dict)  # position -> rank of the answer by words
    collided: Mapping[str, Collection[str]] = field(default_factory=dict)  # other texts the store has under an id
    _code_of_row: dict[int, int] = field(default_factory=dict)
    _code_of_text: dict[str, int] = field(default_factory=dict)
    _twins: dict[tuple[int, int], Twin | None] = field(default_factory=dict)

    def text(self, row: int) -> str:
        return self.snapshot.rows["text"][int(row)].as_py() or ""

    def read(self, row: int) -> str | None:
        """What is read of a row's embedded text where that is not all of it; None as well where no limit is known."""
        return None if self.read_part is None else self.read_part(row, self.bodies.get(row))

    def twin(self, row: int, other: int) -> Twin | None:
        """How two rows are twins. Remembered by text: a thousand copies of one text are compared once."""
        one, two = self._text_code(row), self._text_code(other)
        key = (min(one, two), max(one, two))
        if key not in self._twins:
            self._twins[key] = twin(self.text(row), self.text(other), self.settings.duplicates.twin_similarity)
        return self._twins[key]

    def _text_code(self, row: int) -> int:
        if row not in self._code_of_row:
            self._code_of_row[row] = self._code_of_text.setdefault(self.text(row), len(self._code_of_text))
        return self._code_of_row[row]

    def applied_filter(self, miss: Miss) -> str | None:
        """The filter that the application sent with the query."""
        return self.settings.index.filter if miss.filter is None else miss.filter

    def passes_filter(self, miss: Miss) -> bool:
        """Whether the filter lets a row of the answer through; where it was not evaluated over the rows, it does."""
        passing = self.snapshot.passes_filter
        if passing is None or miss.row < 0:
            return True
        code = self.identities.codes_of(np.array([miss.row]))[0]
        return bool(passing[self.identities.rows_of_code(int(code))].any())

    def found_by(self, miss: Miss, variant: str) -> bool | None:
        """Whether the variant search returns the answer within its limit; None where no variants can be run."""
        return None if self.variants is None else self.distance_by(miss, variant) is not None

    def distance_by(self, miss: Miss, variant: str) -> float | None:
        """The store's own distance of the answer in the variant search, NaN where it says none; None if not found."""
        if self.variants is None:
            return None
        limit = self.settings.index.search.limit
        if miss.filter is None:
            hits = self.variants(miss.query[None, :], limit, variant)
        else:
            hits = self.variants(miss.query[None, :], limit, variant, np.array([miss.filter], dtype=object))
        place = next((p for p, row in enumerate(hits.rows[0]) if self.identities.id_of(row) == miss.chunk_id), None)
        if place is None:
            return None
        return float("nan") if hits.distances is None else float(hits.distances[0, place])

    def would_hit(self, miss: Miss) -> bool | None:
        """Whether the fresh vector in the answer's place would hit against the same rows, ties in its favour.

        None where no fresh vector was handed over.
        """
        fresh = self.fidelity.fresh.get(miss.chunk_id)
        if fresh is None:
            return None
        replaced = ExactSearch(np.asarray(fresh, np.float32)[None, :], np.ones(1, bool), self.exact.metric)
        score = replaced.scores(miss.query[None, :], np.zeros((1, 1), np.int64))[0, 0]
        if np.isnan(score) or (not np.isnan(miss.score) and score < miss.score):
            return False
        return int(np.count_nonzero(miss.ahead_scores > score + TIE_TOLERANCE)) < miss.k


def texts_by_id(chunks: pa.Table | None, chunk_ids: list[str]) -> dict[str, str]:
    """The store's text of these chunks, read without turning the rest of the store into Python objects."""
    import pyarrow.compute as pc

    if chunks is None or not chunk_ids:
        return {}
    rows = chunks.filter(
        pc.is_in(chunks["chunk_id"], value_set=pa.array(chunk_ids, chunks.schema.field("chunk_id").type))
    )
    return dict(zip(rows["chunk_id"].to_pylist(), rows["text"].to_pylist(), strict=True))


def collided_texts(rejected: pa.Table | None, chunk_ids: list[str]) -> dict[str, set[str]]:
    """Of these chunks the texts that the store has a second time under their ids, from its rejected rows."""
    import pyarrow.compute as pc

    if rejected is None or not chunk_ids:
        return {}
    collided = pc.and_(
        pc.equal(rejected["reason"], ID_COLLISION), pc.is_in(rejected["chunk_id"], value_set=pa.array(chunk_ids))
    )
    rows = rejected.select(["chunk_id", "text"]).filter(collided)
    found: dict[str, set[str]] = {}
    for chunk_id, text in zip(rows["chunk_id"].to_pylist(), rows["text"].to_pylist(), strict=True):
        found.setdefault(chunk_id, set()).add(text or "")
    return found
