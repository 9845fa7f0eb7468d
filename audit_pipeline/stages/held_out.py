"""What of each chunk is held out, and its body encoded as its batch's vectors are. Nothing is searched here."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.encoder.sampling import fields_of
from audit_pipeline.encoder.template import embedded_texts
from audit_pipeline.stages.texts import chunks_of
from audit_pipeline.stages.workspace import Workspace

ROLE_UNKNOWN = "role_unknown"
TEXT_NOT_EMBEDDED = "text_not_embedded"

Passages = list[tuple[np.ndarray, str, pa.Array]]
"""Parts of the eligible chunks that share an arm: their places (k,), the prompt, the bodies as embedded (k,)."""


def held_out_plan(workspace: Workspace) -> pa.Table:
    """The plan's held-out table (corpus.sentences.HELD_OUT) without chunks of batches whose vectors carry no known arm.

    A body encoded in another arm than the rows it competes with would measure the mismatch, not the content. Nor is
    there a body where something else than the text was embedded: the held sentence would still stand in it.
    """
    held = workspace.table("probe_plan", "held_out_plan")
    arms = _arms_of(workspace, held["chunk_id"])
    templates = pc.unique(arms["embed_text"]).to_pylist()
    textless = [template for template in templates if template is not None and "text" not in fields_of(template)]
    known = pc.is_valid(arms["prompt"])
    whole = pc.invert(pc.is_in(arms["embed_text"], value_set=pa.array(textless, pa.string())))
    for kept, why in ((known, ROLE_UNKNOWN), (whole, TEXT_NOT_EMBEDDED)):
        lost = pc.and_(held["eligible"], pc.invert(kept))
        reason = pc.if_else(lost, why, held["reason"])
        held = held.set_column(held.schema.get_field_index("reason"), "reason", reason)
        held = held.set_column(held.schema.get_field_index("eligible"), "eligible", pc.and_(held["eligible"], kept))
    return held


def bodies(workspace: Workspace, eligible: pa.Table) -> Passages:
    """The bodies of eligible rows of the plan, made as the passages of their batches were: same prompt and template."""
    arms = _arms_of(workspace, eligible["chunk_id"])
    chunks = chunks_of(workspace.population(), eligible["chunk_id"])
    chunks = chunks.set_column(chunks.schema.get_field_index("text"), "text", eligible["body"])
    prompts, templates = arms["prompt"].to_pylist(), arms["embed_text"].to_pylist()
    passages = []
    for prompt, template in sorted(set(zip(prompts, templates, strict=True)), key=repr):
        places = np.flatnonzero([pair == (prompt, template) for pair in zip(prompts, templates, strict=True)])
        passages.append((places, prompt, embedded_texts(chunks.take(pa.array(places)), template)))
    return passages


def body_vectors(workspace: Workspace, eligible: pa.Table, dimension: int) -> np.ndarray:
    """(n, dimension) vectors of the bodies, in the order of ``eligible``."""
    vectors = np.empty((len(eligible), dimension), dtype=np.float32)
    for places, prompt, texts in bodies(workspace, eligible):
        vectors[places] = workspace.encoded(prompt, texts, dimension)
    return vectors


def _arms_of(workspace: Workspace, chunk_ids: pa.ChunkedArray) -> pa.Table:
    """The prompt and template found for the batch of each chunk, null where none was found."""
    arms = workspace.table("role_fingerprint", "batch_arms")
    batches = chunks_of(workspace.population().select(["chunk_id", "batch"]), chunk_ids)["batch"]
    place = pc.index_in(batches, value_set=arms["batch"].combine_chunks())
    return arms.select(["prompt", "embed_text"]).take(place)
