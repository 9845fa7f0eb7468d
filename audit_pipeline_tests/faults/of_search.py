"""The kinds that leave rows right: searches and indexes, content, labels; and what no audit can see."""

from __future__ import annotations

from audit_pipeline_tests.faults import corpus, labels, rows, search, texts, vectors
from audit_pipeline_tests.faults.kind import LOW, Kind, in_another_role, names

SEARCH = (
    Kind(
        search.hidden_by_a_filter,
        "filter_excludes",
        "info",
        causes=names("filter_excluded"),
        seen_by=("rows", "self"),
        twin=search.let_through_by_a_filter,
        beside=LOW,
    ),
    Kind(
        search.hidden_by_null,
        "filter_excludes",
        "warning",
        causes=names("filter_excluded"),
        seen_by=("rows", "self"),
        twin=search.not_hidden_by_null,
        beside=LOW,
    ),
    Kind(
        search.filtered_after_search,
        "short_results",
        "warning",
        "corpus",
        seen_by=("self",),
        twin=search.filtered_before_search,
        beside=LOW | names("filter_excludes ann_recall_low"),
    ),
    Kind(
        search.cut_off_too_high,
        "below_cutoff",
        "warning",
        "corpus",
        causes=names("below_cutoff"),
        seen_by=("self",),
        twin=search.cut_off_that_lets_through,
        beside=LOW,
    ),
    Kind(search.without_index, "index_absent", "info", "corpus", seen_by=("index",), twin=search.with_index),
    Kind(
        search.index_too_small_to_train,
        "index_empty",
        "error",
        "corpus",
        seen_by=("index",),
        twin=search.with_index,
    ),
    Kind(search.added_after_index, "index_stale", "warning", "corpus", seen_by=("index",), twin=search.with_index),
    Kind(
        search.skipped_after_index,
        "index_stale",
        "error",
        "corpus",
        causes=names("unindexed"),
        seen_by=("index", "self"),
        twin=search.fast_over_all,
        beside=LOW | names("ann_recall_low"),
    ),
    Kind(search.added_after_words, "fts_index_stale", "warning", "corpus", seen_by=("index",), twin=search.with_words),
    Kind(
        search.wrong_metric,
        "metric_mismatch",
        "error",
        "corpus",
        causes=names("metric"),
        seen_by=("index", "self"),
        twin=search.l2_over_unit_vectors,
        beside=LOW,
    ),
    Kind(
        search.starved_probes,
        "ann_recall_low",
        "warning",
        "corpus",
        causes=names("ann_miss"),
        seen_by=("ann",),
        twin=search.probes_of_all,
        beside=LOW | names("short_results"),
    ),
    Kind(
        search.coarse_codes,
        "ann_recall_low",
        "warning",
        "corpus",
        causes=names("ann_miss"),
        seen_by=("ann",),
        twin=search.coarse_codes_refined,
        beside=LOW,
    ),
)

CORPUS = (
    Kind(corpus.twins_within, "twins", "info", "corpus", causes=names("twin"), seen_by=("self",), beside=LOW),
    Kind(corpus.twins_across, "twins", "info", "corpus", causes=names("twin"), seen_by=("self",), beside=LOW),
    in_another_role(corpus.twins_in_the_wrong_role, beside=LOW | names("twins")),
    in_another_role(corpus.twins_in_the_query_role, seen_by=("vectors", "self"), beside=LOW | names("twins")),
    # Its texts differ from the start, but of two that are alike as far as they are read one may miss.
    Kind(corpus.longer_than_read, "truncation", "warning", causes=names("truncated"), seen_by=("rows",), reads=128),
    Kind(
        corpus.equal_as_read,
        "truncation",
        "warning",
        causes=names("truncated"),
        seen_by=("rows", "self"),
        twin=corpus.equal_beginnings_within_reach,
        reads=128,
        beside=LOW,
    ),
    Kind(
        corpus.unrelated_sentences,
        "stratum_anomaly",
        "warning",
        held_out=names("encoder overlap twin"),
        seen_by=("held_out",),
        beside=LOW,
    ),
    # Where all of these chunks are probed the sentence stands in none of their bodies, and says too little of any.
    Kind(
        corpus.boilerplate_sentence,
        None,
        held_out=names("overlap encoder"),
        seen_by=("held_out",),
        beside=names("stratum_anomaly"),
    ),
    Kind(corpus.passage_in_every_chunk, None, held_out=names("overlap"), seen_by=("held_out",)),
    Kind(
        corpus.navigation,
        "hubs",
        "info",
        "corpus",
        causes=names("encoder twin"),  # the menus differ from each other by a number
        seen_by=("self", "held_out"),
        twin=corpus.navigation_beside,
        beside=LOW,
        anywhere=names("stratum_anomaly"),
    ),
)

LABELS = (
    Kind(labels.point_nowhere, "labels_invalid", "warning", "corpus", seen_by=("labelled",), twin=labels.right),
    Kind(
        labels.point_at_another,
        "stratum_anomaly",
        "warning",
        labelled=names("encoder"),
        seen_by=("labelled",),
        twin=labels.right,
        beside=names("relationship_gap undecided"),
    ),
    Kind(
        labels.asked_in_the_passage_role,
        "query_side_mismatch",
        "error",
        "corpus",
        seen_by=("observed",),
        twin=labels.asked_in_the_query_role,
    ),
)

UNSEEN = (
    Kind(
        corpus.one_prompt_on_both_sides,
        None,
        seen_by=("none",),
        why="settings, index and queries agree, and the model names no prompt that could contradict them",
    ),
    Kind(
        rows.lost_without_a_store,
        None,
        seen_by=("none",),
        twin=rows.without_a_store,
        why="without a source store nothing says what should be there",
    ),
    Kind(
        texts.mangled_in_the_store_as_well,
        None,
        seen_by=("none",),
        why="store, table and vector agree: the store is the reference",
    ),
    Kind(
        rows.filed_elsewhere,
        None,
        seen_by=("none",),
        why="only ids, texts and vectors are compared with the store; fields beside them are not",
    ),
    Kind(
        corpus.short_chunks,
        None,
        causes=names("twin encoder"),
        seen_by=("none",),
        beside=LOW | names("twins hubs"),
        why="a few words are a right text with a right vector; held-out retrieval has nothing to hold out",
    ),
    Kind(
        vectors.half_precision,
        None,
        seen_by=("none",),
        why="the loss is far below what any search can tell",
    ),
)
