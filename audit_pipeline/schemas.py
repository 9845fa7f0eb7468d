"""Arrow schemas of every table the audit writes. Columns are added here first; no code that fills them belongs here."""

from __future__ import annotations

import pyarrow as pa

CHUNKS = pa.schema(
    [
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("source", pa.string()),
        pa.field("ingestion_date", pa.date32()),
        pa.field("batch", pa.string(), nullable=False),  # the partition key, "2026-01-02|handbook"
        pa.field("doc_id", pa.string()),
        pa.field("heading", pa.string()),
        pa.field("position", pa.int32()),
        pa.field("text", pa.string(), nullable=False),
        pa.field("text_sha256", pa.string(), nullable=False),  # hex, of the raw UTF-8 bytes
        pa.field("n_words", pa.int32(), nullable=False),
        pa.field("n_tokens", pa.int32()),  # null without an encoder
    ]
)

REJECTED_CHUNKS = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),  # ordinal in the file or table, from 0
        pa.field("origin", pa.string(), nullable=False),  # file or distribution
        pa.field("chunk_id", pa.string()),
        pa.field("source", pa.string()),
        pa.field("batch", pa.string()),
        pa.field("reason", pa.string(), nullable=False),  # a code, see corpus.reasons
        pa.field("detail", pa.string(), nullable=False),
        pa.field("text", pa.string()),
    ]
)

SIGNATURES = pa.schema(
    [
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("normalised_sha256", pa.string(), nullable=False),  # of the NFC, case-folded, white-space-folded text
        pa.field("status", pa.string(), nullable=False),  # words | characters | no_signature
        pa.field("n_shingles", pa.int32(), nullable=False),
        pa.field("signature", pa.binary()),  # little-endian hash values, null without a signature
    ]
)

PROBE_PLAN = pa.schema(
    [
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("source", pa.string()),
        pa.field("ingestion_date", pa.date32()),
        pa.field("batch", pa.string(), nullable=False),
        pa.field("length_band", pa.string(), nullable=False),
        pa.field("n_tokens", pa.int32()),
        pa.field("stratum", pa.string(), nullable=False),  # after merging
        pa.field("stratum_chunks", pa.int64(), nullable=False),  # N_h
        pa.field("stratum_probes", pa.int64(), nullable=False),  # n_h
        pa.field("weight", pa.float64(), nullable=False),  # N_h / n_h
        pa.field("text_sha256", pa.string()),  # of the probed text, so that audits pair where ids are new
        pa.field("n_words", pa.int32()),
    ]
)

_PROBE = [
    pa.field("probe_id", pa.string(), nullable=False),
    pa.field("chunk_id", pa.string(), nullable=False),
    pa.field("source", pa.string()),
    pa.field("ingestion_date", pa.date32()),
    pa.field("batch", pa.string(), nullable=False),
    pa.field("length_band", pa.string(), nullable=False),
    pa.field("n_tokens", pa.int32()),
    pa.field("stratum", pa.string(), nullable=False),
    pa.field("stratum_chunks", pa.int64(), nullable=False),
    pa.field("weight", pa.float64(), nullable=False),
    pa.field("text_sha256", pa.string()),
    pa.field("n_words", pa.int32()),
]
_RANKS = [
    pa.field("rank_min", pa.int32()),  # exact, ties within 1e-6 counted in the probe's favour
    pa.field("rank_max", pa.int32()),  # exact, ties within 1e-6 counted against it
    pa.field("score", pa.float64()),  # of the answer, under the application's metric, larger is closer
    pa.field("best_other_score", pa.float64()),
    pa.field("best_other_id", pa.string()),
    pa.field("haystack", pa.int64()),  # rows it was ranked among: those that the filter it was sent with lets through
]
_MISS = [
    pa.field("cause", pa.string()),  # null for a hit
    pa.field("evidence", pa.string()),  # JSON object, null for a hit
]

SELF_RETRIEVAL = pa.schema(
    [
        *_PROBE,
        pa.field("rank_returned", pa.int32()),  # null when not among the returned rows
        *_RANKS,
        pa.field("returned", pa.int32(), nullable=False),  # distinct ids the search answered with
        pa.field("expected", pa.int32(), nullable=False),  # distinct ids it could have answered with
        pa.field("hit_1", pa.bool_(), nullable=False),
        pa.field("hit_10", pa.bool_()),  # null where the application asks for fewer than 10 rows
        *_MISS,
    ]
)

HELD_OUT_RETRIEVAL = pa.schema(
    [
        *_PROBE,
        pa.field("eligible", pa.bool_(), nullable=False),
        pa.field("ineligible_reason", pa.string()),
        pa.field("held", pa.string()),  # middle | first | heading | last | random; like: as another audit asked
        pa.field("doc_id", pa.string()),
        pa.field("held_sha256", pa.string()),  # of the held sentence in normal form, see corpus.spans
        pa.field("held_words", pa.int32()),
        pa.field("held_rolling", pa.string()),  # of its words, 16 hex digits
        pa.field("sentences", pa.int32()),
        pa.field("overlap", pa.bool_()),  # the held sentence also stands in a row ahead of or level with k
        *_RANKS,
        pa.field("hit_1", pa.bool_()),  # null where not eligible
        pa.field("hit_10", pa.bool_()),
        *_MISS,
    ]
)

LABELLED_RETRIEVAL = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("relevant", pa.int32(), nullable=False),
        pa.field("answer_id", pa.string(), nullable=False),  # the relevant chunk that came first, exactly scored
        pa.field("source", pa.string()),
        pa.field("ingestion_date", pa.date32()),
        pa.field("batch", pa.string()),
        pa.field("length_band", pa.string()),
        pa.field("text_sha256", pa.string()),  # of the query
        pa.field("verbatim", pa.bool_(), nullable=False),  # the query stands word for word in a relevant text
        pa.field("rank_returned", pa.int32()),  # of the first relevant chunk returned
        *_RANKS,
        pa.field("returned", pa.int32(), nullable=False),
        pa.field("success_10", pa.bool_()),
        pa.field("recall_10", pa.float64()),
        pa.field("exact_success_10", pa.bool_()),
        pa.field("exact_recall_10", pa.float64()),
        pa.field("words_10", pa.int64()),  # of the ten closest chunks: what reading ten rows means here
        *_MISS,
    ]
)

LABELLED_DOCUMENTS = pa.schema(  # the first ten documents of each labelled query by their closest chunk, exactly scored
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("rank", pa.int32()),  # among documents, ties in favour; null: a relevant document beyond the tenth
        pa.field("document", pa.string(), nullable=False),  # doc_id; of a chunk without one its own id
        pa.field("row_rank", pa.int32()),  # of its closest chunk among chunks
        pa.field("words_before", pa.int64()),  # of the chunks ahead of that one
        pa.field("words", pa.int64()),  # of that chunk
        pa.field("relevant", pa.bool_(), nullable=False),
    ]
)

RETRIEVED = pa.schema(  # the rankings themselves, for TREC exports and recomputation
    [
        pa.field("run", pa.string(), nullable=False),  # self | held_out | labelled
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("score", pa.float64(), nullable=False),  # exact, larger is closer
    ]
)

QRELS = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("relevance", pa.int32(), nullable=False),
    ]
)

ANN_RECALL = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("run", pa.string(), nullable=False),  # held_out | labelled
        pa.field("returned", pa.int32(), nullable=False),
        pa.field("ann_recall_10", pa.float64(), nullable=False),
    ]
)

OBSERVED_RETRIEVAL = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),  # first 12 hex digits of sha256 of the query's text
        pa.field("invalid", pa.string()),  # why the row cannot be used in full; null where it can
        pa.field("role", pa.string()),  # the arm of the vector sent, see encoder.query_side; null: not compared
        pa.field("loss", pa.float64()),  # 1 - cos to the configured query encoding
        pa.field("returned", pa.int32()),  # distinct ids returned; null where none were logged
        pa.field("unknown_ids", pa.int32()),  # of those compared, ids that the table lacks
        pa.field("short", pa.bool_()),  # fewer ids than were asked for and could be had
        pa.field("recall", pa.float64()),  # share of the returned rows that reach the k-th best, k their number
        pa.field("order", pa.float64()),  # share of neighbouring returned rows in exact order
    ]
)

FORMATTING_ARMS = pa.schema(  # the same queries under each prompt on the query side, against the configured one
    [
        pa.field("run", pa.string(), nullable=False),  # held_out | labelled
        pa.field("arm", pa.string(), nullable=False),
        pa.field("prompt", pa.string(), nullable=False),
        pa.field("request", pa.string(), nullable=False),  # JSON object: the role's further request fields
        pa.field("configured", pa.bool_(), nullable=False),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("won", pa.int64()),  # queries that only this arm answers; null for the configured one
        pa.field("lost", pa.int64()),
        pa.field("difference", pa.float64()),
        pa.field("difference_low", pa.float64()),
        pa.field("difference_high", pa.float64()),
        pa.field("p", pa.float64()),
        pa.field("p_holm", pa.float64()),
        pa.field("better", pa.bool_(), nullable=False),  # beyond chance
        pa.field("worse", pa.bool_(), nullable=False),
    ]
)

STRATA = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),  # self | held_out | labelled
        pa.field("dimension", pa.string(), nullable=False),  # see retrieval.strata
        pa.field("source", pa.string()),
        pa.field("ingestion_date", pa.date32()),
        pa.field("length_band", pa.string()),
        pa.field("filter", pa.string()),  # JSON object: the values that the row fills the application's filter with
        pa.field("position", pa.string()),  # first | middle | last of its document
        pa.field("document", pa.string()),
        pa.field("chunks", pa.int64()),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("measure", pa.string(), nullable=False),  # self@1, heldout@10, ...
        pa.field("value", pa.float64()),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
    ]
)

CANDIDATE_PAIRS = pa.schema(
    [
        pa.field("chunk_id_a", pa.string(), nullable=False),  # a < b
        pa.field("chunk_id_b", pa.string(), nullable=False),
        pa.field("lanes", pa.list_(pa.string()), nullable=False),  # of exact, minhash, neighbour; sorted
        pa.field("jaccard", pa.float64()),
        pa.field("containment", pa.float64()),
        pa.field("cosine", pa.float64()),
        pa.field("shared_bands", pa.int32()),
        pa.field("verified", pa.bool_(), nullable=False),  # jaccard or containment reaches its setting
        pa.field("window", pa.bool_(), nullable=False),  # neighbouring chunks of one document that share text
    ]
)

NEIGHBOUR_PAIRS = pa.schema(  # handed from the neighbour lane to the merge, kept nowhere
    [
        pa.field("node_a", pa.int32(), nullable=False),  # place of the chunk id among the table's in ascending order
        pa.field("node_b", pa.int32(), nullable=False),  # a < b
    ]
)

NEIGHBOUR_REACH = pa.schema(  # working table: a row per representative that was looked up
    [
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("last_cosine", pa.float64()),  # of the last neighbour kept; null where there are fewer than asked for
    ]
)

LABEL_POOL = pa.schema(  # working table: pairs that no lane proposed, for the labelling queue
    [
        pa.field("chunk_id_a", pa.string(), nullable=False),  # a < b
        pa.field("chunk_id_b", pa.string(), nullable=False),
        pa.field("cosine", pa.float64(), nullable=False),
    ]
)

SIMILARITY_FLOOR = pa.schema(
    [
        pa.field("scope", pa.string(), nullable=False),  # all | across_sources | "<source> x <source>"
        pa.field("statistic", pa.string(), nullable=False),  # mean, p50, ..., share>=0.90
        pa.field("value", pa.float64(), nullable=False),
        pa.field("n", pa.int64(), nullable=False),
    ]
)

THRESHOLD_SWEEP = pa.schema(
    [
        pa.field("threshold", pa.float64(), nullable=False),
        pa.field("threshold_store_score", pa.float64()),
        pa.field("tp", pa.int64(), nullable=False),
        pa.field("fp", pa.int64(), nullable=False),
        pa.field("fn", pa.int64(), nullable=False),
        pa.field("precision", pa.float64()),
        pa.field("precision_low", pa.float64()),
        pa.field("precision_high", pa.float64()),
        pa.field("precision_queue", pa.float64()),
        pa.field("precision_queue_low", pa.float64()),
        pa.field("precision_queue_high", pa.float64()),
        pa.field("precision_queue_n", pa.int64(), nullable=False),  # labels drawn by band that pass
        pa.field("recall_scored", pa.float64()),
        pa.field("recall_pipeline", pa.float64()),
        pa.field("recall_pipeline_low", pa.float64()),
        pa.field("recall_pipeline_high", pa.float64()),
        pa.field("flagged", pa.int64(), nullable=False),
        pa.field("to_read", pa.int64(), nullable=False),  # flagged pairs that are no exact copies
        pa.field("flagged_per_10k_candidates", pa.float64()),
        pa.field("flagged_per_10k_chunks", pa.float64()),
        pa.field("random_share", pa.float64()),
        pa.field("expected_all_pairs", pa.float64()),
        pa.field("saturated_rows", pa.int64()),
        pa.field("precision_gained", pa.float64()),  # from the row before to this one
        pa.field("recall_paid", pa.float64()),
        pa.field("exchange", pa.float64()),
        pa.field("inverted", pa.bool_()),
        pa.field("recommended", pa.bool_(), nullable=False),
    ]
)

DUPLICATE_CLUSTERS = pa.schema(
    [
        pa.field("cluster_id", pa.string(), nullable=False),  # chunk_id of the representative
        pa.field("chunk_id", pa.string(), nullable=False),
        pa.field("is_representative", pa.bool_(), nullable=False),
        pa.field("cosine_to_representative", pa.float64()),
        pa.field("chain_only", pa.bool_(), nullable=False),
        pa.field("numeric", pa.bool_(), nullable=False),  # differs from the representative in numbers only
        pa.field("action", pa.string(), nullable=False),  # keep | drop | review
        pa.field("same_text_as", pa.string()),  # of a drop: the chunk of equal text that stays; null: only near to one
    ]
)

BATCH_INTEGRITY = pa.schema(
    [
        pa.field("batch", pa.string(), nullable=False),
        pa.field("source", pa.string()),
        pa.field("ingestion_date", pa.date32()),
        pa.field("store_rows", pa.int64()),
        pa.field("table_rows", pa.int64(), nullable=False),
        pa.field("missing_rows", pa.int64()),
        pa.field("orphan_rows", pa.int64()),
        pa.field("duplicate_ids", pa.int64()),
        pa.field("invalid_vectors", pa.int64(), nullable=False),
        pa.field("text_drift", pa.int64()),
        pa.field("vector_drift", pa.int64()),
        pa.field("rejected_rows", pa.int64()),
        pa.field("truncated_rows", pa.int64()),
    ]
)

TABLES: dict[str, pa.Schema] = {
    "self_retrieval": SELF_RETRIEVAL,
    "held_out_retrieval": HELD_OUT_RETRIEVAL,
    "labelled_retrieval": LABELLED_RETRIEVAL,
    "labelled_documents": LABELLED_DOCUMENTS,
    "retrieved": RETRIEVED,
    "qrels": QRELS,
    "ann_recall": ANN_RECALL,
    "formatting_arms": FORMATTING_ARMS,
    "observed_retrieval": OBSERVED_RETRIEVAL,
    "strata": STRATA,
    "candidate_pairs": CANDIDATE_PAIRS,
    "similarity_floor": SIMILARITY_FLOOR,
    "threshold_sweep": THRESHOLD_SWEEP,
    "duplicate_clusters": DUPLICATE_CLUSTERS,
    "batch_integrity": BATCH_INTEGRITY,
}
"""Tables published under DIR/reports/<name>/tables. None holds corpus text, a time, a path or a version."""
