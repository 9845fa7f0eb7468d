"""The corpus's texts in the query role, for duplicates.regime query: encoded once. No pair is judged here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.arms import as_arm
from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.corpus.text import is_blank
from audit_pipeline.duplicates.regime import QUERY, QueryRole
from audit_pipeline.encoder.roles import PASSAGE
from audit_pipeline.encoder.template import embedded_texts
from audit_pipeline.findings import Finding
from audit_pipeline.index.snapshot import USABLE
from audit_pipeline.stages.index import can_probe, pinned_snapshot
from audit_pipeline.stages.texts import embedded
from audit_pipeline.stages.workspace import Workspace

if TYPE_CHECKING:
    from audit_pipeline.encoder.protocol import Encoder


def asks_in_query_role(settings: IndexAuditSettings) -> bool:
    """Whether the duplicates need texts in the query role: under equal prompts both roles give one vector."""
    return settings.duplicates.regime == QUERY and settings.encoder.query_arm != settings.encoder.passage_arm


def texts_in_query_role(workspace: Workspace, *, first: bool = False) -> QueryRole | None:
    """Every row's embedded text in the query role; None where the settings do not ask for it.

    The distinct texts come from the vector store, encoded there at first need, and are kept in memory (m x d float32)
    for the stages after this one. ``first`` is said by the stage that needs them first: it alone counts those that were
    encoded before. An encoder of another dimension than the table's gives no row a vector.
    """
    if not asks_in_query_role(workspace.settings):
        return None
    snapshot = pinned_snapshot(workspace)
    if workspace.asked is not None and workspace.asked[0] is snapshot:
        return workspace.asked[1]
    place = np.full(len(snapshot.rows), -1, dtype=np.int64)
    vectors = np.empty((0, snapshot.info.dimension), dtype=np.float32)
    if can_probe(workspace):
        wanted = snapshot.vector_state == USABLE
        wanted &= ~is_blank(snapshot.rows["text"]).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(wanted)
        texts = embedded_template(workspace, snapshot.rows.take(pa.array(rows))).dictionary_encode()
        if len(rows):
            encoded = workspace.encode(workspace.settings.encoder.query_arm, texts.dictionary)
            if first:
                workspace.count_cached(encoded)
            vectors = encoded.vectors
            place[rows] = texts.indices.to_numpy()
    workspace.asked = (snapshot, QueryRole(vectors, place))
    return workspace.asked[1]


def regime_not_measured(workspace: Workspace) -> list[Finding]:
    """not_measured: nothing can be compared in the query role, because the encoder is not the table's."""
    if not asks_in_query_role(workspace.settings) or can_probe(workspace):
        return []
    dimension = workspace.summary("vector_index")["index"]["dimension"]
    return [
        Finding(
            code="not_measured",
            severity="info",
            message="Near-duplicates in the query role were not measured: the encoder's vectors do not have the "
            f"{dimension} dimensions of the table's.",
            remedy="Name the encoder that wrote the table, or set duplicates.regime to stored.",
            n_compared=0,
            evidence={"what": "regime", "dimension": dimension},
        )
    ]


def texts_to_ask(workspace: Workspace, encoder: Encoder) -> int:
    """Texts that the regime and second vectors would encode, for --dry-run: those that the vector store lacks.

    Of a table without a source store its rows are counted, copies and stored ones included: its texts are not read.
    """
    settings = workspace.settings
    arms = [settings.encoder.query_arm] if asks_in_query_role(settings) else []
    second = settings.duplicates.second
    if second is not None and second.vector is None and settings.labels.pairs:
        arms.append(as_arm(second.passage_prompt or "", settings.encoder.passage_extra))
    if not arms:
        return 0
    if not settings.sources:
        from audit_pipeline.index.connection import connect, open_table, table_names

        database = connect(workspace.index_uri, settings.index.storage_options)
        names = table_names(database) if settings.index.table == "*" else [settings.index.table]
        return len(arms) * sum(open_table(database, name).count_rows() for name in names)
    keys = [key for key, info in sorted(workspace.scan().batches.items()) if info.rows]
    batches = [pc.cast(embedded(workspace, workspace.store.read_batch(key).chunks), pa.large_string()) for key in keys]
    strings = pa.chunked_array(batches, pa.large_string())
    return sum(workspace.vectors.pending(encoder, arm, strings).missing for arm in arms)


def embedded_template(workspace: Workspace, rows: pa.Table) -> pa.Array:
    """What was embedded of each row: by the template that the fingerprint found in all sound batches, else by that of
    the settings.
    """
    arms = workspace.table("role_fingerprint", "batch_arms").to_pylist()
    found = {row["embed_text"] for row in arms if row["arm"] == PASSAGE}
    return embedded_texts(rows, found.pop() if len(found) == 1 else workspace.settings.index.embed_text)
