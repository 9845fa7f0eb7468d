"""The threshold that a corpus without labels gets: from the floor alone. Labels are weighed in recommend.py."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from audit_pipeline.duplicates.floor import ALL, UNLIKE, measured
from audit_pipeline.duplicates.floor_of_unlike import LEAST_PAIRS, LEFT_OUT
from audit_pipeline.duplicates.separation import caution
from audit_pipeline.plural import counted


def provisional(none: dict[str, Any], floor: pa.Table, thresholds: list[float]) -> dict[str, Any]:
    """The ``recommended`` part without labels: ``none``, or the lowest threshold over the p99.9 of random pairs.

    The larger of that of all pairs and that of different sources: pairs of one source are alike more often than those
    of two, and a corpus of many sources hides that in neither floor alone. Copies are no unrelated pairs: with them in
    it the limit would rise with the duplicates that are looked for. A quantile of too few pairs is none.
    """
    found = {scope: measured(floor, unlike, "p99.9") for scope, unlike in UNLIKE.items()}
    pairs = found[ALL][1]
    if not measured(floor, UNLIKE[ALL], LEFT_OUT)[1]:
        return none | {"reason": "No labelled pairs of this corpus, and no floor was measured."}
    if pairs < LEAST_PAIRS:
        return none | {
            "reason": "No labelled pairs of this corpus, and too few pairs for a floor: "
            f"{counted(pairs, 'random pair')} without the copies, and it takes {LEAST_PAIRS:,} to say what one in "
            "1,000 reaches."
        }
    limit = max(value for value, n in found.values() if value is not None and n >= LEAST_PAIRS)
    over = [row for row, threshold in enumerate(thresholds) if threshold > limit]
    if not over:
        return none | {
            "reason": "No labelled pairs of this corpus, and one random pair in 1,000 that is no copy reaches "
            f"{limit:.3f}."
        }
    return {
        "threshold": thresholds[over[0]],
        "low": None,
        "high": None,
        "provisional": True,
        "edge": over[0] in (0, len(thresholds) - 1),
        "caution": caution(thresholds[over[0]], thresholds, None),
        "reason": f"No labelled pairs of this corpus: lowest threshold over {limit:.3f}, which one random pair in "
        "1,000 that is no copy reaches. It rests on the floor alone.",
    }
