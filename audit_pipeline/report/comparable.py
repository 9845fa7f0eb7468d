"""What two audits were made of, what of them cannot be compared and why, in sentences. No figure is compared here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from audit_pipeline.report.by_document import unlike
from audit_pipeline.report.pairing import Pairs

LEAST_PAIRED = 0.5
"""Share of the smaller audit's probes that pair where both have the same chunks."""
_ROUNDING = 1e-9
_ENCODER = ("kind", "model", "revision", "query_prompt", "passage_prompt", "max_tokens", "dtype")
_INDEX = ("table", "rows", "metric", "index_type")
_COMPARED = {"encoder": ("model", "query_prompt", "passage_prompt", "max_tokens"), "index": ("metric",)}


def side_of(audit: Mapping[str, Any], own: pd.DataFrame) -> dict[str, Any]:
    """What one audit looked at: encoder, prompts, table, index, and how long its chunks are (null where not known).

    ``own`` is its table of self-retrieval, whose probes stand for the chunks by their weight.
    """
    return {
        "encoder": {name: audit["encoder"].get(name) for name in _ENCODER},
        "index": {name: audit["index"].get(name) for name in _INDEX},
        "chunks": audit.get("corpus", {}).get("chunks"),
        "median_words": _median_words(own),
    }


def comparable(pairs: dict[str, Pairs], sides: dict[str, dict[str, Any]]) -> tuple[dict[str, Pairs], dict[str, str]]:
    """The runs as they can be compared, and why some are not.

    Where the chunks of both are of other lengths and few probes pair, those that do are the chunks that happen to be
    equal, such as documents of one chunk: they stand for neither index, so own texts and sentences held out of them are
    not compared. Sentences that both were asked by name pair whatever the chunks.
    """
    one, other = sides["a"]["median_words"], sides["b"]["median_words"]
    own = pairs["self"]
    asked = min(_asked(own))
    rechunked = bool(one and other and unlike(one, other) and len(own.frame) < LEAST_PAIRED * asked)
    lengths = f"of {one:,.0f} words in the first and {other:,.0f} in the second" if one and other else ""
    again = "set sample.like in one audit to the folder of the other, and it is asked the same sentences"
    why: dict[str, str] = {}
    for run, pair in pairs.items():
        if run in ("self", "held_out") and rechunked and pair.by != "sentence":
            equal = f"; the {len(pair.frame):,} that are equal in both stand for neither" if len(pair.frame) else ""
            why[run] = f"the chunks are others, {lengths}{equal}" + (f"; {again}" if run == "held_out" else "")
        elif not min(_asked(pair)):
            if max(_asked(pair)):
                why[run] = f"the {'first' if not _asked(pair)[0] else 'second'} audit asked no such question"
        elif not len(pair.frame):
            why[run] = _NOTHING[run] + (f"; {again}" if run == "held_out" else "")
    return {run: pair.emptied() if run in why else pair for run, pair in pairs.items()}, why


_NOTHING = {
    "self": "no self probe is the same in both: ids and texts differ, as they do after another chunking",
    "held_out": "no held-out sentence is the same in both",
    "labelled": "no labelled query is the same in both: after another chunking judge by doc_id or contains, since "
    "the ids of chunks are new",
}


def without_documents(a: pd.DataFrame | None, b: pd.DataFrame | None) -> str | None:
    """Why labelled queries cannot be judged by document; None where they can."""
    for which, table in (("first", a), ("second", b)):
        if table is None:
            return f"the {which} audit is of a version that kept no documents: run it again"
        if not len(table):
            return f"the {which} audit knows no documents: name their column (columns: doc_id) and run it again"
    return None


def cautions(a: Mapping[str, Any], b: Mapping[str, Any], pairs: Mapping[str, Pairs]) -> list[str]:
    """What makes the comparison less than it seems, in sentences."""
    said = []
    for part, keys in _COMPARED.items():
        for key in keys:
            one, other = a[part].get(key), b[part].get(key)
            if one != other:
                said.append(f"The {part}'s {key} differs: {one!r} in the first, {other!r} in the second.")
    said += [
        f"The {run} probes have new ids and were paired by their text."
        for run, pair in pairs.items()
        if pair.by == "text"
    ]
    if pairs["held_out"].by == "sentence":
        said.append(
            "Held-out sentences are found where the chunk that holds them is: a longer chunk is the coarser answer, "
            "and there are fewer others."
        )
    return said


def _median_words(own: pd.DataFrame) -> float | None:
    """Words of the chunk in the middle; None in a report from before the tables had them, and without probes."""
    if "n_words" not in own.columns:
        return None
    known = own[own["n_words"].notna()].sort_values("n_words")
    if not len(known):
        return None
    words, weight = known["n_words"].to_numpy(float), known["weight"].to_numpy(float)
    below = np.cumsum(weight) / weight.sum()
    # The first of which half are no longer; where exactly half are, the middle between it and the next.
    first, last = np.searchsorted(below, 0.5 - _ROUNDING), np.searchsorted(below, 0.5 + _ROUNDING)
    return float((words[first] + words[last]) / 2)


def _asked(pair: Pairs) -> tuple[int, int]:
    both = len(pair.frame) + pair.changed
    return pair.only_a + both, pair.only_b + both
