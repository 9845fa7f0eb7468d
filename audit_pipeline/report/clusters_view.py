"""The largest duplicate clusters, from the published table, as the page lists them. No pair is judged here."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

CLUSTERS_SHOWN = 5
MEMBERS_SHOWN = 4


def largest_clusters(clusters: pa.Table) -> list[dict[str, Any]]:
    """The clusters with most members: id, size, how many are tied only through a chain, and the first members."""
    if clusters.num_rows == 0:
        return []
    sizes = clusters["cluster_id"].combine_chunks().value_counts()
    ranked = pa.table({"id": sizes.field("values"), "size": sizes.field("counts")})
    ranked = ranked.sort_by([("size", "descending"), ("id", "ascending")]).slice(0, CLUSTERS_SHOWN)
    shown = []
    for cluster_id, size in zip(ranked["id"].to_pylist(), ranked["size"].to_pylist(), strict=True):
        members = clusters.filter(pc.equal(clusters["cluster_id"], cluster_id)).sort_by(
            [("is_representative", "descending"), ("chunk_id", "ascending")]
        )
        shown.append(
            {
                "cluster_id": cluster_id,
                "size": size,
                "chain_only": pc.sum(members["chain_only"]).as_py() or 0,
                "numeric": pc.sum(members["numeric"]).as_py() or 0,
                "members": members.slice(0, MEMBERS_SHOWN).to_pylist(),
            }
        )
    return shown
