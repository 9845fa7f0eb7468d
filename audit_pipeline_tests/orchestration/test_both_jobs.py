"""Both jobs on a small index with the real encoder and a persistent instance: figures known by construction."""

from __future__ import annotations

import dagster as dg
import pytest

from audit_pipeline import load
from audit_pipeline.orchestration.component import build_defs
from audit_pipeline.orchestration.corpus_assets import CORPUS_ASSETS
from audit_pipeline.orchestration.naming import ingest_job_name
from audit_pipeline.orchestration.running import execute
from audit_pipeline.stages.checks import REPORT_CHECKS
from audit_pipeline_tests.small_audit import (
    CELLS,
    COPIED_CELL,
    COPY,
    MARKER,
    NAME,
    ORIGINAL,
    PER_CELL,
    PREFIX,
    REJECTED,
    ROWS,
    SmallAudit,
    assert_table_equals,
    rows_of_corpus,
)

BATCH_ASSETS = ("chunks", "probes", "passage_vectors", "minhash_signatures", "index_rows", "batch_integrity")


def metadata_of(instance: dg.DagsterInstance, asset: str, partition: str | None = None) -> dict[str, object]:
    """Metadata of the newest materialisation of an asset or of one of its partitions."""
    key = dg.AssetKey([PREFIX, asset])
    wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition]) if partition else key
    materialisation = instance.fetch_materializations(wanted, limit=1).records[0].asset_materialization
    assert materialisation is not None
    return {name: value.value for name, value in materialisation.metadata.items()}


def failed_checks(instance: dg.DagsterInstance, asset: str, check: str) -> dict[str | None, bool]:
    """Partition -> whether the check failed there, for all its executions."""
    key = dg.AssetCheckKey(dg.AssetKey([PREFIX, asset]), check)
    history = instance.event_log_storage.get_asset_check_execution_history(key, limit=100)
    assert {record.status.value for record in history} <= {"SUCCEEDED", "FAILED"}
    return {record.partition: record.status.value == "FAILED" for record in history}


@pytest.mark.parametrize("asset", BATCH_ASSETS)
def test_every_cell_that_holds_rows_is_materialised_and_no_other(audited: SmallAudit, asset: str) -> None:
    with audited.instance() as instance:
        assert instance.get_materialized_partitions(dg.AssetKey([PREFIX, asset])) == set(CELLS)


def test_every_corpus_asset_is_materialised(audited: SmallAudit) -> None:
    with audited.instance() as instance:
        materialised = {key.path[1] for key in instance.all_asset_keys() if key.path[0] == PREFIX}
    assert materialised == {*BATCH_ASSETS, *(asset.name for asset in CORPUS_ASSETS)}


def test_cells_say_their_rows_and_the_report_says_the_figures(audited: SmallAudit) -> None:
    with audited.instance() as instance:
        for cell in CELLS:
            rows = PER_CELL + (cell == COPIED_CELL)
            assert metadata_of(instance, "chunks", cell)["dagster/partition_row_count"] == rows
            assert metadata_of(instance, "batch_integrity", cell)["dagster/partition_row_count"] == rows
        assert metadata_of(instance, "chunks", CELLS[0])["rejected"] == REJECTED
        figures = metadata_of(instance, "audit_report")
        assert figures["self@1"] == round((ROWS - 1) / ROWS, 4)
        assert figures["self@1 n"] == ROWS
        assert figures["chunks"] == ROWS
    verdict = load(audited.state, NAME).audit["verdict"]
    assert (figures["reading"], figures["verdict"]) == (verdict["reading"], verdict["text"])


def test_a_cell_that_never_held_anything_is_skipped(changeable: SmallAudit) -> None:
    settings = changeable.settings
    before = changeable.table_version()
    with changeable.instance() as instance:
        defs = build_defs(settings)
        finished = execute(defs, ingest_job_name(settings), instance, partition_key="2024-01-03|beta")
        assert finished.success
        assert finished.get_asset_materialization_events() == []
        assert instance.get_materialized_partitions(dg.AssetKey([PREFIX, "chunks"])) == set(CELLS)
    assert changeable.table_version() == before


def test_the_table_holds_each_row_of_the_store_once(audited: SmallAudit) -> None:
    assert_table_equals(audited, rows_of_corpus())


def test_all_rows_are_probed_among_all_rows(audited: SmallAudit) -> None:
    audit = audited.audit()
    assert audit["corpus"] == {"chunks": ROWS, "batches": len(CELLS), "sources": 2}
    assert (audit["self_retrieval"]["n"], audit["self_retrieval"]["haystack"]) == (ROWS, ROWS)
    assert audit["index"]["rows"] == ROWS
    by_batch = {(b["source"], b["ingestion_date"]): (b["chunks"], b["n"]) for b in audit["self_retrieval"]["by_batch"]}
    assert by_batch == {
        ("Alpha", "2024-01-02"): (15, 15),
        ("Alpha", "2024-01-05"): (15, 15),
        ("beta", "2024-01-02"): (15, 15),
        ("beta", "2024-01-05"): (16, 16),
    }


def test_every_distinct_text_finds_itself_first(audited: SmallAudit) -> None:
    probes = load(audited.state, NAME).self_retrieval.set_index("chunk_id")
    distinct = probes.drop(index=[ORIGINAL, COPY])
    assert len(distinct) == ROWS - 2
    assert (distinct["rank_returned"] == 1).all()
    assert (distinct["rank_max"] == 1).all()
    assert distinct["score"].to_numpy() == pytest.approx(1.0, abs=1e-6)


def test_of_a_text_and_its_copy_one_is_first_and_the_other_a_twin(audited: SmallAudit) -> None:
    audit = audited.audit()
    own = audit["self_retrieval"]
    assert own["self@1"]["value"] == pytest.approx((ROWS - 1) / ROWS)
    assert own["self@10"]["value"] == 1.0
    assert own["self@1_lenient"]["value"] == 1.0
    assert own["self@1_unique"]["value"] == pytest.approx((ROWS - 2) / ROWS)
    assert audit["causes"]["self"] == {"twin": 1}
    (miss,) = [miss for miss in audit["misses"] if miss["run"] == "self"]
    assert miss["chunk_id"] in (ORIGINAL, COPY)
    assert (miss["rank_returned"], miss["rank_min"], miss["rank_max"]) == (2, 1, 2)
    assert miss["cause"] == "twin"


def test_the_copy_is_the_one_redundant_row_and_its_pair_the_one_exact_pair(audited: SmallAudit) -> None:
    duplicates = audited.audit()["duplicates"]
    assert duplicates["exact"] == {"groups": 1, "redundant_rows": 1, "implied_pairs": 1}
    assert duplicates["redundancy"]["exact"] == pytest.approx(1 / ROWS)
    report = load(audited.state, NAME)
    pairs = report.candidate_pairs
    exact = pairs[pairs["lanes"].map(lambda lanes: "exact" in lanes)]
    assert exact[["chunk_id_a", "chunk_id_b"]].values.tolist() == [[ORIGINAL, COPY]]
    assert exact["cosine"].iloc[0] == pytest.approx(1.0, abs=1e-6)
    clusters = report.duplicate_clusters.set_index("chunk_id")
    assert clusters.loc[ORIGINAL, "cluster_id"] == clusters.loc[COPY, "cluster_id"]
    assert clusters.loc[ORIGINAL, "is_representative"]  # the earlier date
    assert not clusters.loc[COPY, "is_representative"]


def test_rejected_rows_are_named_and_are_not_in_the_table(audited: SmallAudit) -> None:
    (finding,) = [finding for finding in audited.audit()["findings"] if finding["code"] == "empty_text"]
    assert finding["scope"] == {"source": "Alpha", "ingestion_date": "2024-01-02"}
    assert (finding["n_compared"], finding["evidence"]["rows"]) == (PER_CELL + REJECTED, REJECTED)
    assert not set(audited.table().index) & {"empty-1", "empty-2"}


def test_a_clean_index_has_no_error_finding_and_its_checks_pass(audited: SmallAudit) -> None:
    assert [f["code"] for f in audited.audit()["findings"] if f["severity"] == "error"] == []
    with audited.instance() as instance:
        assert failed_checks(instance, "chunks", "no_rows_rejected") == {CELLS[0]: True} | dict.fromkeys(
            CELLS[1:], False
        )
        assert failed_checks(instance, "batch_integrity", "table_holds_batch") == dict.fromkeys(CELLS, False)
        failed = {check for check in REPORT_CHECKS if failed_checks(instance, "audit_report", check) == {None: True}}
    assert failed == {"rows_as_in_store"}  # the rows without a text


def test_runs_leave_nothing_at_the_top_of_the_state_folder(audited: SmallAudit) -> None:
    folders = {path.name for path in audited.state.iterdir() if path.is_dir()}
    assert folders == {"audits", "index", "reports", "vectors", "history", "schedules", "storage"}


def test_a_run_shows_its_batch_and_why_and_not_its_process(audited: SmallAudit) -> None:
    with audited.instance() as instance:
        tags = [run.tags for run in instance.get_runs() if run.job_name == f"{PREFIX}__ingest_batch"]
    shown = {key.split("/")[0] for of_run in tags for key in of_run if not key.startswith(".dagster/")}
    assert shown == {"dagster", "audit_pipeline"}
    why = {of_run["dagster/partition"]: of_run["audit_pipeline/reason"] for of_run in tags}
    assert why == dict.fromkeys(CELLS, "new")


def test_neither_events_nor_metadata_nor_logs_hold_corpus_text(audited: SmallAudit) -> None:
    ours = {"audits", "index", "reports", "vectors"}
    dagster_files = [
        path
        for path in audited.state.rglob("*")
        if path.is_file() and path.relative_to(audited.state).parts[0] not in ours
    ]
    contents = {path: path.read_bytes() for path in dagster_files}
    assert sum(COPIED_CELL.encode() in content for content in contents.values()) > 0  # events are among these files
    assert [path for path, content in contents.items() if MARKER.encode() in content.lower()] == []
