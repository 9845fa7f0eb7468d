"""What of each chunk is held out, and its body encoded and cut as its batch's vectors are. It searches nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.encoder.cutting import Cut, Scissors
from audit_pipeline.encoder.fidelity import FAITHFUL
from audit_pipeline.encoder.sampling import fields_of
from audit_pipeline.encoder.template import embedded_texts
from audit_pipeline.retrieval.miss import Fidelity, FidelityCheck
from audit_pipeline.stages.texts import chunks_of
from audit_pipeline.stages.vectors import adopted_cut
from audit_pipeline.stages.workspace import Workspace

ROLE_UNKNOWN = "role_unknown"
ROLE_NOT_MEASURED = "role_not_measured"
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
    unstable = any(finding.code == "encoder_unstable" for finding in workspace.findings("role_fingerprint"))
    for kept, why in ((known, ROLE_NOT_MEASURED if unstable else ROLE_UNKNOWN), (whole, TEXT_NOT_EMBEDDED)):
        lost = pc.and_(held["eligible"], pc.invert(kept))
        reason = pc.if_else(lost, why, held["reason"])
        held = held.set_column(held.schema.get_field_index("reason"), "reason", reason)
        held = held.set_column(held.schema.get_field_index("eligible"), "eligible", pc.and_(held["eligible"], kept))
    return held


def bodies(workspace: Workspace, eligible: pa.Table) -> Passages:
    """The bodies of eligible rows of the plan, made as the passages of their batches were.

    That is under the same prompt and template, and cut where the writer of the vectors cut its texts.
    """
    return _passages(workspace, eligible, adopted_cut(workspace))


def body_vectors(workspace: Workspace, eligible: pa.Table, dimension: int) -> np.ndarray:
    """(n, dimension) vectors of the bodies, in the order of ``eligible``."""
    return _encoded(workspace, bodies(workspace, eligible), len(eligible), dimension)


def uncut_bodies(workspace: Workspace, eligible: pa.Table, dimension: int) -> FidelityCheck | None:
    """What tells of a missed body whether the writer's cut is to blame: its whole encoding. None where nothing is cut.

    The check answers for the chunks whose bodies the cut shortens, and leaves out the others.
    """
    cut = adopted_cut(workspace)
    if cut is None:
        return None

    def check(chunk_ids: list[str]) -> Fidelity:
        asked = eligible.filter(pc.is_in(eligible["chunk_id"], value_set=pa.array(chunk_ids, pa.string())))
        as_written = _texts_of(_passages(workspace, asked, cut))
        whole = _texts_of(_passages(workspace, asked, None))
        shortened = asked.take(
            pa.array([place for place in sorted(whole) if whole[place] != as_written[place]], pa.int64())
        )
        vectors = _encoded(workspace, _passages(workspace, shortened, None), len(shortened), dimension)
        ids = shortened["chunk_id"].to_pylist()
        return Fidelity(dict.fromkeys(ids, (FAITHFUL, str(cut))), dict(zip(ids, vectors, strict=True)))

    return check


def _passages(workspace: Workspace, eligible: pa.Table, cut: Cut | None) -> Passages:
    arms = _arms_of(workspace, eligible["chunk_id"])
    chunks = chunks_of(workspace.population(), eligible["chunk_id"])
    chunks = chunks.set_column(chunks.schema.get_field_index("text"), "text", eligible["body"])
    prompts, templates = arms["prompt"].to_pylist(), arms["embed_text"].to_pylist()
    passages: Passages = []
    for prompt, template in sorted(set(zip(prompts, templates, strict=True)), key=repr):
        places = np.flatnonzero([pair == (prompt, template) for pair in zip(prompts, templates, strict=True)])
        texts = embedded_texts(chunks.take(pa.array(places)), template)
        passages += [(places, prompt, texts)] if cut is None else _shortened(workspace, places, prompt, texts, cut)
    return passages


def _shortened(workspace: Workspace, places: np.ndarray, prompt: str, texts: pa.Array, cut: Cut) -> Passages:
    """What a cut leaves of the texts, by the arm it leaves: a tail has lost its prompt."""
    assert workspace.encoder is not None  # a cut was seen by encoding
    scissors = Scissors(workspace.encoder, prompt)
    by_arm: dict[str, dict[int, str]] = {}
    for place, text in zip(places.tolist(), texts.to_pylist(), strict=True):
        piece = scissors.cut_text(text or "", cut)
        arm, kept = (prompt, text or "") if piece is None else (piece.arm, piece.text)
        by_arm.setdefault(arm, {})[place] = kept
    return [
        (np.array(list(kept), dtype=np.int64), arm, pa.array(list(kept.values()), texts.type))
        for arm, kept in sorted(by_arm.items())
    ]


def _texts_of(passages: Passages) -> dict[int, tuple[str, str]]:
    """(arm, text) by place."""
    return {
        place: (arm, text)
        for places, arm, texts in passages
        for place, text in zip(places.tolist(), texts.to_pylist(), strict=True)
    }


def _encoded(workspace: Workspace, passages: Passages, n: int, dimension: int) -> np.ndarray:
    vectors = np.empty((n, dimension), dtype=np.float32)
    for places, arm, texts in passages:
        vectors[places] = workspace.encoded(arm, texts, dimension)
    return vectors


def _arms_of(workspace: Workspace, chunk_ids: pa.ChunkedArray) -> pa.Table:
    """The prompt and template found for the batch of each chunk, null where none was found."""
    arms = workspace.table("role_fingerprint", "batch_arms")
    batches = chunks_of(workspace.population(["chunk_id", "batch"]), chunk_ids)["batch"]
    place = pc.index_in(batches, value_set=arms["batch"].combine_chunks())
    return arms.select(["prompt", "embed_text"]).take(place)
