"""The settings of the queries: those that are drawn from the corpus, and those that the team has judged or logged."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from audit_pipeline.settings_base import Settings


class SampleSettings(Settings):
    """How many probes, and how they are drawn."""

    per_batch: int | None = Field(default=None, ge=1, description="Most probes of one batch; null: no cap.")
    total: int = Field(default=2000, ge=1, description="Probes over the whole corpus.")
    fingerprint_per_batch: int = Field(default=4, ge=4, description="Rows re-encoded per batch to check its vectors.")
    arms: int = Field(
        default=100,
        ge=0,
        description="Held-out and labelled queries, each, that are asked under every known prompt; 0: none.",
    )
    ann_sweep: int = Field(
        default=100,
        ge=0,
        description="Held-out and labelled queries that are asked under other nprobes, ef and refine_factor; 0: none.",
    )
    seed: int = Field(default=0, description="Another seed draws other probes.")
    held_out: Literal["middle", "first", "heading", "last", "random"] = Field(
        default="middle", description="Which sentence is held out as the query."
    )
    like: str | None = Field(
        default=None,
        description=(
            "Report folder of another audit of the same corpus: its held-out sentences are asked of this index too, "
            "wherever its chunks hold them, so that `compare` pairs indexes of other chunking. It takes the place of "
            "held_out and min_sentences; self-retrieval is drawn as ever."
        ),
    )
    min_sentences: int = Field(default=3, ge=2, description="Sentences a chunk needs to be held out from.")
    min_words: int = Field(
        default=5, ge=1, description="Words the held sentence needs; with like, words that are left."
    )


class LabelSettings(Settings):
    """What the team has judged, where it has."""

    queries: str | None = Field(
        default=None, description="jsonl: BEIR (_id, text) or query with chunk_id, doc_id, contains."
    )
    qrels: str | None = Field(default=None, description="tsv: query-id, corpus-id, score. Needed by BEIR queries.")
    pairs: str | None = Field(
        default=None,
        description="chunk_id_a, chunk_id_b, duplicate (true, false), origin (corpus|constructed)",
    )
    observed: str | None = Field(
        default=None,
        description=(
            "parquet or jsonl: query, vector, returned_ids as the application sent and got them; of a longer log "
            "sample.total rows are used."
        ),
    )
    see_also: bool = Field(
        default=False,
        description="Take numpydoc 'See Also' descriptions of docstrings sources as labelled queries.",
    )

    @model_validator(mode="after")
    def _supported(self) -> LabelSettings:
        if self.qrels and not self.queries:
            raise ValueError("'qrels' without 'queries': name the file with the query texts as well")
        return self
