"""What a run would cost, for --dry-run: rows, texts, tokens, minutes. Nothing is written or sent."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.encoder.calibration import CALIBRATION_ROWS
from audit_pipeline.encoder.protocol import Encoder
from audit_pipeline.encoder.query_side import arms_of_queries
from audit_pipeline.encoder.roles import arms_of
from audit_pipeline.encoder.truncation_probe import LONG_ROWS, MOST_ENCODINGS
from audit_pipeline.plural import counted
from audit_pipeline.stages.asked_again import asked_sentences
from audit_pipeline.stages.both_sides import both_sides_texts
from audit_pipeline.stages.changes import BatchChange
from audit_pipeline.stages.regime import texts_to_ask
from audit_pipeline.stages.retired import remembered
from audit_pipeline.stages.texts import embedded
from audit_pipeline.stages.workspace import Workspace

CALIBRATION_TEXTS = 32


@dataclass(frozen=True)
class Forecast:
    """Cost of a run: passages known exactly, probes at most."""

    batches: int
    rows: int
    texts: int  # distinct passages that are not in the vector store yet
    tokens: int
    probe_texts: int  # at most: queries, held sentences and bodies
    check_texts: int  # sound vectors need no more than these; others are compared further
    minutes: float | None  # at most; None where it was not timed: no passage is new, or a server encodes
    sent_to: str | None = None  # the server that gets the texts
    tokens_estimated: bool = False
    asked_texts: int = 0  # passages in another role, for duplicates.regime and duplicates.second
    managed: bool = True
    has_encoder: bool = True

    def as_text(self, name: str) -> str:
        """One line for the terminal."""
        return f"{name}: {self._batches()}; {self._texts()}" + (f"; {self._cost()}" if self.has_encoder else "")

    def _batches(self) -> str:
        if not self.managed:
            return "audited as it stands, so no batch is brought in"
        if not self.batches:
            return "every batch is up to date"
        return f"{counted(self.batches, 'batch', 'batches')} to bring up to date ({counted(self.rows, 'row')})"

    def _texts(self) -> str:
        if not self.has_encoder:
            return "nothing is encoded, for encoder.kind is none"
        about = "about " if self.tokens_estimated else ""
        passages = "no passage to encode"
        if self.texts:
            passages = f"{counted(self.texts, 'passage')} to encode ({about}{counted(self.tokens, 'token')})"
        asked = f", {self.asked_texts:,} under other prompts for the duplicates" if self.asked_texts else ""
        return (
            f"{passages}, at most {counted(self.probe_texts, 'text')} for the probes and {self.check_texts:,} for the "
            f"checks of vectors{asked}, less what earlier runs have encoded"
        )

    def _cost(self) -> str:
        if self.sent_to is not None:
            return f"they would be sent to {self.sent_to}, nothing was sent now"
        if self.minutes is None:
            return "the minutes are not known, for without a new passage none was timed"
        return f"at most about {self.minutes:.1f} minutes of encoding"


def forecast(workspace: Workspace, changes: list[BatchChange]) -> Forecast:
    """Counts the texts of the changed batches that the vector store lacks, and times a few of them."""
    encoder = workspace.encoder
    prompt = workspace.settings.encoder.passage_arm
    rows, texts, tokens = sum(change.rows for change in changes), 0, 0
    sample: list[str] = []
    changed = [change.key for change in changes if change.rows]
    if encoder is not None and changed:
        # All at once: a text that stands in several batches is encoded once.
        batches = (embedded(workspace, _chunks(workspace, key)) for key in changed)
        strings = pa.chunked_array([pc.cast(batch, pa.large_string()) for batch in batches])
        pending = workspace.vectors.pending(encoder, prompt, strings)
        texts, tokens = pending.missing, pending.tokens
        if pending.missing:
            sample = strings.slice(0, CALIBRATION_TEXTS).to_pylist()
    found = sum(info.rows for info in workspace.scan().batches.values()) if workspace.settings.sources else None
    total = workspace.settings.sample.total
    probes = 0 if encoder is None else 3 * (total if found is None else min(total, found))
    held = probes // 3
    if encoder is not None and workspace.settings.sample.like is not None:
        held = len(asked_sentences(workspace.settings.sample.like))
        probes = probes // 3 + 2 * held
    if encoder is not None:
        probes += _arm_texts(workspace, encoder.own_prompts, held)
    if encoder is not None and workspace.settings.labels.observed:
        probes += 2 * total  # in the configured prompt, and in the one that production turns out to send
    checks = 0 if encoder is None else _check_texts(workspace, encoder, found)
    asked_texts = 0 if encoder is None else texts_to_ask(workspace, encoder)
    minutes = None
    if encoder is not None and sample and not encoder.is_remote:
        encoder.encode(sample[:1])  # the first call loads the model
        started = time.perf_counter()
        encoder.encode(sample, prompt=prompt)
        seconds_per_text = (time.perf_counter() - started) / len(sample)
        minutes = (texts + probes + checks + asked_texts) * seconds_per_text / 60
    sent_to = workspace.settings.encoder.base_url if encoder is not None and encoder.is_remote else None
    estimated = encoder is not None and encoder.counts_are_estimates
    return Forecast(
        batches=len(changes),
        rows=rows,
        texts=texts,
        tokens=tokens,
        probe_texts=probes,
        check_texts=checks,
        minutes=minutes,
        sent_to=sent_to,
        tokens_estimated=estimated,
        asked_texts=asked_texts,
        managed=workspace.settings.index.managed,
        has_encoder=encoder is not None,
    )


def _check_texts(workspace: Workspace, encoder: Encoder, rows: int | None) -> int:
    """Texts that the checks of sound vectors encode at most: each arm, stability, rows of each batch, the cut."""
    arms = len(arms_of(workspace.settings.encoder, encoder.own_prompts))
    most = workspace.settings.sample.total + LONG_ROWS
    compared = most if rows is None else min(most, rows)
    # Stability takes each calibration text twice: alone, and together with the others.
    return min(compared, CALIBRATION_ROWS) * (arms + 2) + compared + (MOST_ENCODINGS if compared > 1 else 0)


def _arm_texts(workspace: Workspace, own_prompts: dict[str, str], probes: int) -> int:
    """At most so many queries under the prompts that are not configured, and texts under one on both sides."""
    settings = workspace.settings
    labelled = bool(settings.labels.queries or settings.labels.see_also)
    asked = min(settings.sample.arms, probes) + (settings.sample.arms if labelled else 0)
    further = both_sides_texts(settings.encoder, settings.sample.arms, probes)
    return (len(arms_of_queries(settings.encoder, own_prompts)) - 1) * asked + further


def _chunks(workspace: Workspace, key: str) -> pa.Table:
    """The rows that an ingest of the batch would read: the store's, or those kept of a retired source."""
    kept = remembered(workspace, key)
    return (kept.rows if kept is not None else workspace.store.read_batch(key)).chunks
