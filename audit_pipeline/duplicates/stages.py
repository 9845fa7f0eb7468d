"""The stages that judge candidate pairs: floor, sweep with its recommendation, clusters. No pair is found here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates import findings
from audit_pipeline.duplicates.chains import find_chains
from audit_pipeline.duplicates.clusters import (
    DROP,
    REVIEW,
    cluster,
    cluster_table,
    components,
    in_numbers_only,
    redundancy,
)
from audit_pipeline.duplicates.exact_groups import group_exact
from audit_pipeline.duplicates.floor import ALL, QUANTILES, TOLERANCE, UNLIKE, floor_table, measure_floor, measured
from audit_pipeline.duplicates.floor_by_source import floors_by_source
from audit_pipeline.duplicates.floor_of_unlike import LEFT_OUT
from audit_pipeline.duplicates.label_pool import pool_of_random_pairs
from audit_pipeline.duplicates.labelled_pairs import (
    LabelledPairs,
    in_table_ids,
    no_labels,
    read_labelled_pairs,
    validate_labelled_pairs,
)
from audit_pipeline.duplicates.lane_worth import lane_worth
from audit_pipeline.duplicates.pair_table import EXACT, Pairs, from_table
from audit_pipeline.duplicates.provisional import provisional
from audit_pipeline.duplicates.recommend import LEAST_LABELS, Resampled, best_row
from audit_pipeline.duplicates.regime import QueryRole, name_regime, regime_words
from audit_pipeline.duplicates.removal import CosineAlone
from audit_pipeline.duplicates.rows import Nodes, nodes_of
from audit_pipeline.duplicates.separation import Separation, caution, queue_words, separation_of
from audit_pipeline.duplicates.sweep import Candidates, Judged, sweep_table, weights_of
from audit_pipeline.findings import Finding
from audit_pipeline.index.snapshot import TableSnapshot
from audit_pipeline.results import StageResult


def similarity_floor(
    snapshot: TableSnapshot,
    settings: DuplicateSettings,
    roles: Mapping[str, str] | None = None,
    asked: QueryRole | None = None,
) -> StageResult:
    """Cosine of random pairs. Tables: ``similarity_floor``, ``random_pairs`` (a few of them, schemas.LABEL_POOL).

    Summary: ``floor`` (of all sources; null with n 0), with that of the pairs that are no copies and of each pair of
    sources.
    """
    nodes = nodes_of(snapshot, roles, asked)
    table = measure_floor(nodes, settings)
    floor: dict[str, Any] = {name: measured(table, ALL, name)[0] for name in ("mean", *QUANTILES, "max")}
    floor["n"] = measured(table, ALL, "mean")[1]
    limit, n = measured(table, UNLIKE[ALL], "p99.9")
    left_out = measured(table, UNLIKE[ALL], LEFT_OUT)[0]
    floor["unlike"] = {"p99.9": limit, "n": n, "left_out": int(left_out or 0)}
    by_source = floors_by_source(nodes)
    floor |= by_source.summary(settings.thresholds)
    table = pa.concat_tables([table, floor_table(by_source.rows(settings.thresholds))])
    return StageResult({"similarity_floor": table, "random_pairs": pool_of_random_pairs(nodes)}, {"floor": floor})


def threshold_sweep(
    snapshot: TableSnapshot,
    candidate_pairs: pa.Table,
    similarity_floor: pa.Table,
    neighbour_reach: pa.Table,
    settings: DuplicateSettings,
    labels: Path | None = None,
    roles: Mapping[str, str] | None = None,
    store_ids: pa.Table | None = None,
    asked: QueryRole | None = None,
) -> StageResult:
    """The sweep over the candidate pairs and the recommended threshold.

    ``labels`` is the file of labels.pairs, whose ids may be those of ``store_ids`` (in_table_ids). Only pairs of origin
    corpus count; constructed ones sit elsewhere in the score distribution.
    Tables: ``threshold_sweep``. Summary: ``regime``, ``sweep``, ``recommended``, ``separation``,
    ``lane_worth``, ``labels``.
    Findings: labels_invalid, labels_few, no_usable_threshold, candidates_missed. Raises AuditInputError for a labels
    file that cannot be used.
    """
    nodes = nodes_of(snapshot, roles, asked)
    pairs = from_table(nodes, candidate_pairs)
    del candidate_pairs  # millions of rows
    given, known, windows = usable_labels(nodes, pairs, labels, store_ids)
    exact, kept = pairs.in_lane(EXACT), ~pairs.window
    same_text = components(len(nodes), pairs.a[exact], pairs.b[exact])
    swept = Candidates(pairs.a[kept], pairs.b[kept], pairs.cosine[kept], same_text)
    of_corpus = known.where(known.corpus)
    judged = Judged(of_corpus, nodes.cosines(of_corpus.a, of_corpus.b), swept.contains(of_corpus.a, of_corpus.b))
    reach = neighbour_reach["last_cosine"].to_numpy().astype(np.float64)
    table, resampled = sweep_table(
        swept, judged, similarity_floor, reach, settings.thresholds, _store_scores(nodes, settings.thresholds)
    )
    separation = separation_of(resampled, judged, table) if resampled is not None else None
    recommended, found = _recommend(table, judged, resampled, separation, similarity_floor, settings.thresholds)
    bands = weights_of(swept, judged)
    if bands.words:
        recommended["reason"] += f" {bands.words}"
    recommended, found = name_regime(recommended, found, settings.regime, asked)
    chosen = [threshold == recommended["threshold"] for threshold in settings.thresholds]
    table = table.set_column(
        table.schema.get_field_index("recommended"), table.schema.field("recommended"), pa.array(chosen)
    )
    missed = judged.labels.duplicate & ~judged.candidate & (judged.cosine >= settings.thresholds[0] - TOLERANCE)
    passing = judged.labels.duplicate & (judged.cosine >= settings.thresholds[0] - TOLERANCE)
    found += findings.labelled_missed(
        int(missed.sum()), int(passing.sum()), nodes.ids(judged.labels.a[missed][:5]).to_pylist()
    )
    invalid = known.invalid | ({"window": windows} if windows else {})
    found += findings.labels_invalid(invalid, len(given) if given is not None else 0)
    found += findings.labels_few(judged.duplicates, judged.others)
    constructed = known.where(~known.corpus)
    worth = lane_worth(pairs, same_text, judged, recommended["threshold"], len(reach))
    summary = {
        "regime": {"name": settings.regime, "words": regime_words(settings.regime, asked)},
        "sweep": table.to_pylist(),
        "recommended": recommended,
        "separation": separation.as_dict() if separation is not None else None,
        "lane_worth": worth,
        "labels": {
            "duplicates": judged.duplicates,
            "others": judged.others,
            "constructed_duplicates": int(constructed.duplicate.sum()),
            "constructed_others": int((~constructed.duplicate).sum()),
            "invalid": invalid,
            "conflicts": known.conflicts,
            "adjudicated": known.adjudicated,
            "agreement": known.agreement,
            "bands": bands.as_dict(),
        },
    }
    return StageResult({"threshold_sweep": table}, summary, found)


def usable_labels(
    nodes: Nodes, pairs: Pairs, labels: Path | None, store_ids: pa.Table | None
) -> tuple[pa.Table | None, LabelledPairs, int]:
    """The labels as given (None without a file), those that can be used, and how many are window pairs instead."""
    given = read_labelled_pairs(labels) if labels is not None else None
    if given is not None and store_ids is not None:
        given = in_table_ids(given, store_ids)
    known = validate_labelled_pairs(given, nodes) if given is not None else no_labels()
    return given, *_without_windows(known, pairs, len(nodes))


def duplicate_clusters(
    snapshot: TableSnapshot,
    signatures: pa.Table,
    candidate_pairs: pa.Table,
    threshold: float | None,
    settings: DuplicateSettings,
    roles: Mapping[str, str] | None = None,
    cosine: CosineAlone | None = None,
    asked: QueryRole | None = None,
) -> StageResult:
    """Clusters of the pairs that pass, and how redundant the corpus is.

    Equal texts always pass; beside them the pairs whose cosine reaches ``threshold`` (the recommended one), or, where
    that is None, the verified pairs. Window pairs never pass. Unless ``cosine`` (removal.cosine_alone) has earned it,
    only text that equals another or stands whole in it is offered for removal. Tables: ``duplicate_clusters``.
    Summary: ``redundancy`` (each lane including those before it; embedding None without a threshold, or where clusters
    grew by chains), ``numbers_only`` (the part of that which differs from its representative in numbers only: distinct
    facts) and ``clusters``. Findings: chained_clusters.
    """
    nodes = nodes_of(snapshot, roles, asked)
    pairs = from_table(nodes, candidate_pairs)
    del candidate_pairs  # millions of rows
    exact = pairs.in_lane(EXACT)
    lexical = exact | (pairs.verified & ~pairs.window)
    near = np.zeros(len(pairs), dtype=bool)
    if threshold is not None:
        near = (pairs.cosine >= threshold - TOLERANCE) & ~pairs.window
    passing = exact | near if threshold is not None else lexical
    found = cluster(nodes.seniority, pairs.a[passing], pairs.b[passing])
    same_text_as = group_exact(nodes, signatures, settings).representative
    table = cluster_table(nodes, found, same_text_as, threshold, settings, cosine is not None and cosine.drops)
    sizes = np.unique(found.representative, return_counts=True)[1]
    action = table["action"].to_numpy(zero_copy_only=False)
    chain_only = table["chain_only"].to_numpy(zero_copy_only=False)
    chains = None
    if threshold is not None:
        distinct = table["same_text_as"].is_null().to_numpy()
        chains = find_chains(len(nodes), nodes.node_of(table["cluster_id"])[distinct], chain_only[distinct])

    def share(edges: np.ndarray) -> float | None:
        # Rows of which no text holds a word were compared by nothing: neither redundant nor free of it.
        return redundancy(len(nodes), pairs.a[edges], pairs.b[edges]) if (same_text_as >= 0).any() else None

    def numbers(edges: np.ndarray, of: float | None) -> float | None:
        siblings = in_numbers_only(nodes, pairs.a[edges], pairs.b[edges], same_text_as) if of else 0
        return None if of is None else siblings / len(nodes)

    embedding = share(lexical | near) if threshold is not None else None
    told = findings.chained_clusters(chains, len(nodes), threshold, embedding, nodes)
    embedding = embedding if chains is None else None
    by_text = share(lexical)
    summary: dict[str, Any] = {
        "redundancy": {"exact": share(exact), "lexical": by_text, "embedding": embedding},
        "numbers_only": {"lexical": numbers(lexical, by_text), "embedding": numbers(lexical | near, embedding)},
        "clusters": {
            "count": len(sizes),
            "members": len(table),
            "largest": int(sizes.max(initial=0)),
            "chain_only": int(np.sum(chain_only)),
            "numeric": int(np.sum(table["numeric"].to_numpy(zero_copy_only=False))),
            "drop": int(np.sum(action == DROP)),
            "copies": len(table) - table["same_text_as"].null_count,
            "review": int(np.sum(action == REVIEW)),
            "cosine_alone": asdict(cosine) if cosine is not None else None,
            "withheld": told[0].message if told else None,
        },
    }
    return StageResult({"duplicate_clusters": table}, summary, told)


def _recommend(
    table: pa.Table,
    judged: Judged,
    resampled: Resampled | None,
    separation: Separation | None,
    floor: pa.Table,
    thresholds: list[float],
) -> tuple[dict[str, Any], list[Finding]]:
    """The ``recommended`` part of audit.json, and no_usable_threshold where labels exist but do not suffice.

    ``withheld`` is then the row that a recommendation would have named, so that a reader sees what was not advised.
    """
    none = {"threshold": None, "low": None, "high": None, "provisional": False, "edge": False, "caution": None}
    if not len(judged.labels):
        return provisional(none, floor, thresholds), []
    precision, recall = table["precision"].to_pylist(), table["recall_pipeline"].to_pylist()
    row = best_row(precision, recall)
    few = min(judged.duplicates, judged.others) < LEAST_LABELS
    if few or resampled is None or separation is None or not separation.suffices:
        found = findings.no_usable_threshold(judged.duplicates, judged.others, separation)
        withheld = None
        if row is not None and resampled is not None:
            withheld = {"threshold": thresholds[row], **_interval_of_rows(resampled, thresholds)}
        return none | {"reason": found[0].message, "withheld": withheld}, found
    if row is None:
        return none | {"reason": "No labelled pair passes any threshold of the sweep."}, []
    edge = row in (0, len(thresholds) - 1)
    reason = f"Largest precision + recall of the pipeline ({precision[row]:.3f} + {recall[row]:.3f})."
    reason += f" {queue_words(table.slice(row, 1).to_pylist()[0])}"
    beware = caution(thresholds[row], thresholds, separation)
    if beware:
        reason += f" {beware}"
    return {
        "threshold": thresholds[row],
        **_interval_of_rows(resampled, thresholds),
        "provisional": False,
        "edge": edge,
        "caution": beware,
        "reason": reason,
    }, []


def _interval_of_rows(resampled: Resampled, thresholds: list[float]) -> dict[str, float | None]:
    """``low`` and ``high``: between which thresholds the best row of 95 % of the draws lies."""
    ends = {"low": resampled.row_low, "high": resampled.row_high}
    return {name: None if row is None else thresholds[row] for name, row in ends.items()}


def _without_windows(labels: LabelledPairs, pairs: Pairs, nodes: int) -> tuple[LabelledPairs, int]:
    """The labels without window pairs, which are in no sweep, and how many these are."""
    windows = pairs.a[pairs.window] * nodes + pairs.b[pairs.window]
    is_window = np.isin(labels.a * nodes + labels.b, windows)
    return labels.where(~is_window), int(is_window.sum())


def _store_scores(nodes: Nodes, thresholds: list[float]) -> list[float | None]:
    """Each threshold as the distance that the store returns under the application's metric; None where norms forbid it.

    LanceDB returns 1 - cosine, 1 - dot product or the squared Euclidean distance. The latter two follow from the cosine
    only where all vectors have norm 1.
    """
    metric = nodes.snapshot.metric
    if metric != "cosine" and not nodes.all_unit:
        return [None] * len(thresholds)
    scale = 2.0 if metric == "l2" else 1.0
    return [round(scale * (1 - threshold), 12) for threshold in thresholds]
