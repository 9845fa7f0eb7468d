"""The labelled queries of two audits judged by document, so that other chunkings compare. It tests nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from audit_pipeline.report.pairing import Pairs

AMONG_DOCUMENTS = "document_success@10"
"""A relevant document is among the first ten distinct documents."""
IN_EQUAL_TEXT = "document_success@text"
"""A relevant document is reached in as much text as the shorter of both audits' ten rows hold."""

K = 10
UNLIKE = 1.2
"""Ratio of words from which ten rows of two indexes are no equal reading."""


def pair_documents(
    pairs: Pairs, documents: tuple[pd.DataFrame, pd.DataFrame], labelled: tuple[pd.DataFrame, pd.DataFrame]
) -> Pairs:
    """The paired labelled queries with whether a relevant document was found, on either side.

    A document that is relevant in one audit is in the other, so that both are asked for the same. The first measure
    counts documents and not rows: a corpus in shorter chunks shows more rows of one document, which ten rows would hold
    against it and ten documents do not. The second holds the reading equal instead of the number of documents, and is
    measured only where ten rows of one hold a fifth more words than those of the other: a chunk counts as read when at
    least half of it lies within the words that the shorter ten rows of this query hold.
    """
    frame = pairs.frame.copy()
    ids = (frame["id_a"], frame["id_b"])
    listed = [
        table.merge(pd.DataFrame({"query_id": own, "pair": np.arange(len(own))}), on="query_id")
        for table, own in zip(documents, ids, strict=True)
    ]
    relevant = pd.concat([table.loc[table["relevant"].astype(bool), ["pair", "document"]] for table in listed])
    relevant = relevant.drop_duplicates()
    words = [
        table.set_index("query_id")["words_10"].reindex(own).to_numpy(float)
        for table, own in zip(labelled, ids, strict=True)
    ]
    budget = np.fmin(*words)
    measures = [AMONG_DOCUMENTS, IN_EQUAL_TEXT] if unlike(*(np.median(own) for own in words)) else [AMONG_DOCUMENTS]
    for side, table in zip("ab", listed, strict=True):
        found = table.merge(relevant, on=["pair", "document"])
        among = found[found["rank"] <= K]["pair"]
        reached = found["words_before"] + found["words"] / 2 <= budget[found["pair"]]
        places = np.arange(len(frame))
        frame[f"{AMONG_DOCUMENTS} {side}"] = pd.array(np.isin(places, among), "boolean")
        frame[f"{IN_EQUAL_TEXT} {side}"] = pd.array(np.isin(places, found[reached]["pair"]), "boolean")
    return replace(pairs, run="documents", frame=frame, measures=tuple(measures))


def unlike(one: float, other: float) -> bool:
    """Whether two lengths in words differ by more than a fifth of the smaller."""
    return bool(max(one, other) > UNLIKE * min(one, other))
