"""A starved ANN index in a whole audit: what its finding says, and the same table searched as it says."""

from __future__ import annotations

from typing import Any

import yaml
from lancedb.index import IvfFlat

from audit_pipeline_tests.cases.conftest import AuditTable, Corpus


def with_ten_partitions(table: Any) -> None:
    table.create_index("vector", config=IvfFlat(distance_type="cosine", num_partitions=10))


def test_the_remedy_of_a_starved_search_is_the_settings_that_heal_it(audit_table: AuditTable, corpus: Corpus) -> None:
    table, sample = corpus.rows(slice(None)), {"ann_sweep": 120}
    starved = audit_table(table, after=with_ten_partitions, metric="cosine", search={"nprobes": 1}, sample=sample)
    found, sweep = starved.finding("ann_recall_low"), starved.report["ann_sweep"]
    assert (sweep["status"], sweep["n"], sweep["partitions"]) == ("raise", 120, 10)
    assert found["remedy"] == sweep["text"]
    assert found["evidence"]["settings"] == sweep["yaml"]
    named = yaml.safe_load(sweep["yaml"])
    assert named["search"]["nprobes"] > 1
    healed = audit_table(table, after=with_ten_partitions, metric="cosine", **named, sample=sample)
    assert healed.report["ann_recall"]["ann_recall@10"]["value"] >= 0.95
    assert "ann_recall_low" not in healed.codes()
    assert healed.report["ann_sweep"]["status"] in ("as_it_is", "cheaper")
