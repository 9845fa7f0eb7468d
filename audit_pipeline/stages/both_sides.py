"""The encodings behind the comparison with one prompt on both sides. The comparison stands in retrieval/."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from audit_pipeline.arms import as_arm, shared_extra
from audit_pipeline.encoder.roles import KNOWN_PROMPTS
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.index.lengths import at_stored_length
from audit_pipeline.retrieval.both_sides import Sides, compare_sides
from audit_pipeline.stages.held_out import bodies, body_vectors
from audit_pipeline.stages.texts import chunks_of, embedded
from audit_pipeline.stages.workspace import Workspace

if TYPE_CHECKING:
    from audit_pipeline.index.snapshot import TableSnapshot

MOST_ASKED = 100
MOST_ENCODED_ROWS = 200
"""Rows of the haystack where their texts have to be encoded for it; those of all probes are in the vector store."""


def arm_of_both_sides(settings: EncoderSettings) -> str:
    """The configured query arm, or where both sides carry it already the first commonly known one that they do not."""
    if settings.query_arm != settings.passage_arm:
        return settings.query_arm
    shared = shared_extra(settings.passage_extra, settings.query_extra)
    return next(arm for arm in (as_arm(prompt, shared) for prompt in KNOWN_PROMPTS) if arm != settings.query_arm)


def both_sides_texts(settings: EncoderSettings, asked: int, probes: int) -> int:
    """How many texts the comparison encodes at most that nothing else does, held sentences under known arms aside."""
    asked = min(asked, MOST_ASKED, probes)
    rows = min(probes, MOST_ENCODED_ROWS) if settings.query_arm == settings.passage_arm and asked else 0
    return asked + rows


def both_sides(workspace: Workspace, snapshot: TableSnapshot, held: pa.Table, arms: dict[str, str]) -> Any:
    """The section both_sides of audit.json for eligible rows of the held-out plan; None where nothing can be compared.

    The haystack is closed: the probes' own rows, as stored against encoded anew under the one arm. With the query arm
    their texts are encoded already, as self-retrieval's queries; else at most ``MOST_ENCODED_ROWS`` of them are.
    ``arms`` are those that the encoder takes.
    """
    settings, dimension = workspace.settings.encoder, snapshot.info.dimension
    arm = arm_of_both_sides(settings)
    held = held.slice(0, MOST_ASKED)
    if arm not in arms.values() or not len(held):
        return None
    plan = workspace.table("probe_plan", "probe_plan")["chunk_id"].to_pylist()
    ids = list(dict.fromkeys([*held["chunk_id"].to_pylist(), *plan]))
    rows = snapshot.row_of(pa.array(ids, pa.string()))
    kept = [place for place, row in enumerate(rows) if row >= 0 and snapshot.searchable[row]]
    kept = kept if arm == settings.query_arm else kept[:MOST_ENCODED_ROWS]
    place_of = {ids[place]: number for number, place in enumerate(kept)}
    asked = [number for number, chunk_id in enumerate(held["chunk_id"].to_pylist()) if chunk_id in place_of]
    if len(kept) < 2 or not asked:
        return None
    held = held.take(pa.array(asked))
    answers = np.array([place_of[chunk_id] for chunk_id in held["chunk_id"].to_pylist()], np.int64)
    names = pa.chunked_array([pa.array([ids[place] for place in kept], pa.string())])
    texts = embedded(workspace, chunks_of(workspace.population(), names))
    own_texts = texts.take(pa.array(answers))
    stored, _ = at_stored_length(snapshot, rows[kept][answers], body_vectors(workspace, held, dimension))
    configured = Sides(
        workspace.encoded(settings.query_arm, own_texts, dimension),
        workspace.encoded(settings.query_arm, held["held"], dimension),
        snapshot.vectors[rows[kept]],
        stored,
    )
    passages = workspace.encoded(arm, texts, dimension, "for one prompt on both sides")
    without = np.empty((len(held), dimension), np.float32)
    for places, _, part in bodies(workspace, held):
        without[places] = workspace.encoded(arm, part, dimension)
    same = Sides(passages[answers], workspace.encoded(arm, held["held"], dimension), passages, without)
    already = settings.query_arm if settings.query_arm == settings.passage_arm else None
    return compare_sides(configured, same, answers, snapshot.metric, arm, already)
