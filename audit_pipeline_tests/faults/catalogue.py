"""The catalogue: every kind of defect, and the codes that no kind plants with the reason."""

from __future__ import annotations

from audit_pipeline_tests.faults.of_rows import ROWS, TEXTS, VECTORS
from audit_pipeline_tests.faults.of_search import CORPUS, LABELS, SEARCH, UNSEEN

KINDS = (*VECTORS, *ROWS, *TEXTS, *SEARCH, *CORPUS, *LABELS, *UNSEEN)

NOT_PLANTED = {"provenance_mixed": "a managed table's own record, and these are tables of others: planted in cases/"}
