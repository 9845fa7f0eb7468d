"""Tables whose rows have no date, all or some: a defect is named by its source, never by a day that was made up."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from audit_pipeline_tests.cases.conftest import Audit, AuditTable, Corpus, table_of

ROWS = 80
DAY = dt.date(2026, 1, 5)
IN_TWO = np.arange(ROWS) >= ROWS // 2
CODES = ("invalid_vectors", "misaligned_vectors")


def table(corpus: Corpus, spoilt: np.ndarray, days: list[dt.date | None] | None) -> pa.Table:
    """Sources one and two; of the spoilt rows some have another row's vector, the last three none."""
    vectors = corpus.vectors[:ROWS].copy()
    places = np.flatnonzero(spoilt)
    vectors[places] = vectors[np.roll(places, 1)]
    vectors[places[-3:]] = 0.0
    dates = {} if days is None else {"ingestion_date": pa.array(days, pa.date32())}
    return table_of(corpus.texts[:ROWS], vectors, source=np.where(IN_TWO, "two", "one").tolist(), **dates)


def of_vectors(audit: Audit) -> dict[str, Any]:
    return {f["code"]: f["scope"] for f in audit.report["findings"] if f["code"] in CODES}


def test_without_any_date_no_day_appears(corpus: Corpus, audit_table: AuditTable) -> None:
    audit = audit_table(table(corpus, IN_TWO, None))
    assert of_vectors(audit) == {code: {"source": "two"} for code in CODES}
    assert not re.search(r"\d{4}-\d\d-\d\d", json.dumps(audit.report["findings"]))
    assert "(source 'two')" in audit.finding("invalid_vectors")["message"]
    assert [row["ingestion_date"] for row in audit.report["roles"]] == [None, None]
    assert audit.tables().batch_integrity["ingestion_date"].isna().all()


@pytest.mark.parametrize("dated_half", ["of two", "of none"])
def test_rows_without_a_date_beside_dated_ones(corpus: Corpus, audit_table: AuditTable, dated_half: str) -> None:
    days: list[dt.date | None] = [DAY] * (ROWS // 2) + [None] * (ROWS // 2)
    spoilt, scope = IN_TWO, {"source": "two"}
    if dated_half == "of two":
        days[-20:] = [DAY] * 20
        spoilt, scope = IN_TWO & np.array([day is None for day in days]), {"source": "two", "ingestion_date": None}
    audit = audit_table(table(corpus, spoilt, days))
    assert of_vectors(audit) == dict.fromkeys(CODES, scope)
    of_dates = audit_table(table(corpus, ~IN_TWO, days))
    assert of_vectors(of_dates)["invalid_vectors"] == {"source": "one", "ingestion_date": DAY.isoformat()}


def test_a_sound_table_without_dates_is_silent(corpus: Corpus, audit_table: AuditTable) -> None:
    assert audit_table(table(corpus, np.zeros(ROWS, dtype=bool), None)).codes("error", "warning") == set()
