"""Names of the counterfactual searches that tell why a row was not returned. The searches themselves are index/'s."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from audit_pipeline.index.snapshot import SearchHits

Variant = Literal["without_filter", "without_cutoff", "with_tail", "nprobes", "ef", "refine", "exact"]

FINDERS: tuple[Variant, ...] = ("nprobes", "ef", "refine", "exact")
"""Settings tried in this order for a row that the ANN search loses; "exact" leaves the index out."""

VariantSearch = Callable[[np.ndarray, int, Variant], SearchHits]
"""search(queries (m, d), limit, variant): the application's search with one thing lifted or raised."""
