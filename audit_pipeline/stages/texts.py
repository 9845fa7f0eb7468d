"""The chunks a stage asks for, and the strings an encoder is given for them. Encoding itself is the encoder room's."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline import schemas
from audit_pipeline.encoder.template import embedded_texts
from audit_pipeline.stages.workspace import Workspace


def embedded(workspace: Workspace, chunks: pa.Table) -> pa.Array:
    """What was embedded of each chunk, without a prompt: its text, or the template of the settings over its fields."""
    return embedded_texts(chunks, workspace.settings.index.embed_text)


def with_tokens(workspace: Workspace, chunks: pa.Table) -> pa.Table:
    """The chunks with n_tokens: tokens of prompt and embedded text, not truncated; null without its tokenizer."""
    encoder = workspace.encoder
    if encoder is None or encoder.counts_are_estimates or not len(chunks):
        return chunks
    prompt = workspace.settings.encoder.passage_prompt
    texts = embedded(workspace, chunks)
    if prompt:
        texts = pc.binary_join_element_wise(pa.scalar(prompt), texts, "")
    tokens = encoder.count_tokens(texts)
    column = schemas.CHUNKS.get_field_index("n_tokens")
    return chunks.set_column(column, schemas.CHUNKS.field("n_tokens"), pa.array(tokens, pa.int32()))


def chunks_of(population: pa.Table, chunk_ids: pa.ChunkedArray) -> pa.Table:
    """The population's rows of these ids, in their order; an id that stands twice gives its first row."""
    return population.take(pc.index_in(chunk_ids, value_set=population["chunk_id"].combine_chunks()))
