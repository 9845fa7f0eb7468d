"""What each lane finds alone, on pairs laid out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit_pipeline.duplicates.labelled_pairs import LabelledPairs
from audit_pipeline.duplicates.lane_worth import lane_worth
from audit_pipeline.duplicates.pair_table import LANES, Pairs
from audit_pipeline.duplicates.sweep import Judged
from audit_pipeline.proportions import wilson

# (a, b, lanes, cosine, verified, window); chunk 9 is a copy of chunk 0.
LAID_OUT = [
    (0, 1, "minhash", 0.70, True, False),  # copied text that no neighbour list holds
    (0, 9, "exact", 1.00, True, False),
    (1, 2, "minhash neighbour", 0.97, True, False),  # both
    (2, 3, "minhash neighbour", 0.80, True, False),  # both: in the neighbour's list, though under the threshold
    (3, 4, "neighbour", 0.98, False, False),  # the embedding alone
    (4, 5, "minhash neighbour", 0.99, False, False),  # the embedding alone: MinHash proposed it and it was no copy
    (5, 6, "neighbour", 0.95 - 5e-7, False, False),  # reaches the threshold within its tolerance
    (6, 7, "neighbour", 0.94, False, False),  # neither
    (7, 8, "minhash neighbour", 0.99, True, True),  # a window
    (6, 8, "minhash", 0.99, False, False),  # neither: no copy, and in no neighbour list
]
LABELS = [(1, 9, True), (1, 2, True), (3, 4, True), (4, 5, False), (5, 6, False), (6, 7, True), (0, 9, True)]
SAME_TEXT = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 0])


def worth(labels: list[tuple[int, int, bool]], threshold: float | None, searched: int = 9) -> dict[str, Any]:
    a, b, lanes, cosine, verified, window = zip(*LAID_OUT, strict=True)
    n = len(LAID_OUT)
    pairs = Pairs(
        a=np.array(a),
        b=np.array(b),
        lanes=np.array([[name in one.split() for name in LANES] for one in lanes]),
        jaccard=np.full(n, np.nan),
        containment=np.full(n, np.nan),
        cosine=np.array(cosine),
        shared_bands=np.full(n, -1),
        verified=np.array(verified),
        window=np.array(window),
    )
    left, right = (np.array([pair[side] for pair in labels], dtype=np.int64) for side in (0, 1))
    same = np.array([pair[2] for pair in labels], dtype=bool)
    judged = LabelledPairs(left, right, same, np.ones(len(labels), dtype=bool), [None] * len(labels), {})
    nothing = np.zeros(len(labels))
    return lane_worth(pairs, SAME_TEXT, Judged(judged, nothing, nothing > 0), threshold, searched)


def test_each_pair_is_counted_where_it_was_found() -> None:
    found = worth(LABELS, 0.95)
    assert [found[part]["pairs"] for part in ("minhash_only", "both", "embedding_only")] == [1, 2, 3]
    # The label of 1 and 9 is that of 1 and 0, whose text 9 copies; 0 and 9 themselves are copies, and no part of this.
    assert found["minhash_only"]["labelled"] == wilson(1, 1).as_dict()
    assert found["both"]["labelled"] == wilson(1, 1).as_dict()
    assert found["embedding_only"]["labelled"] == wilson(1, 3).as_dict()
    # Of the duplicates 1-9, 1-2, 3-4 and 6-7 MinHash finds the first two, the embedding 1-2 and 3-4.
    assert found["found"] == {
        "minhash": wilson(2, 4).as_dict(),
        "embedding": wilson(2, 4).as_dict(),
        "either": wilson(3, 4).as_dict(),
    }
    assert found["advice"].startswith(
        "MinHash alone finds 1 pair of copied text that no neighbour list holds: keep it."
    )
    assert "Embeddings alone find 3 more from 0.95; of 3 labelled 33 % are duplicates" in found["advice"]
    assert "too few to decide" in found["advice"]


def test_what_was_not_compared_is_not_measured() -> None:
    no_threshold = worth(LABELS, None)
    assert (no_threshold["minhash_only"]["pairs"], no_threshold["embedding_only"]["pairs"]) == (1, None)
    assert no_threshold["embedding_only"]["labelled"]["n"] == 0
    assert no_threshold["found"]["embedding"]["n"] == no_threshold["found"]["either"]["n"] == 0
    assert no_threshold["found"]["minhash"]["n"] == 4
    assert "not measured: there is no threshold" in no_threshold["advice"]
    no_vectors = worth(LABELS, 0.95, searched=0)
    assert [no_vectors[part]["pairs"] for part in ("minhash_only", "both", "embedding_only")] == [None] * 3
    assert no_vectors["advice"].startswith("Not measured: no vectors were compared")
    unlabelled = worth([], 0.95)
    assert unlabelled["embedding_only"] == {"pairs": 3, "labelled": wilson(0, 0).as_dict()}
    assert "is not measured: none is labelled" in unlabelled["advice"]


@pytest.mark.parametrize(("same", "said"), [(True, "they earn their place"), (False, "a list to read")])
def test_enough_labels_decide_what_the_embedding_alone_is_worth(same: bool, said: str) -> None:
    assert said in worth([(3, 4, same)] * 12, 0.95)["advice"]


def test_nothing_over_the_threshold_is_said() -> None:
    assert "nothing beyond it at 0.999" in worth(LABELS, 0.999)["advice"]
