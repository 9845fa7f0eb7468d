"""The kinds that spoil rows: their vectors, the rows themselves, their texts."""

from __future__ import annotations

from audit_pipeline_tests.faults import corpus, rows, texts, vectors
from audit_pipeline_tests.faults.kind import (
    LOW,
    Kind,
    drifted,
    in_another_form,
    in_another_role,
    invalid,
    misaligned,
    names,
    untouched,
)

VECTORS = (
    in_another_role(vectors.role_swapped),
    in_another_role(vectors.prompt_dropped),
    in_another_role(vectors.prompt_of_another_model),
    in_another_role(vectors.template_in_front),
    in_another_role(corpus.swapped_everywhere, scope="corpus", beside=LOW),
    drifted(vectors.other_model),
    drifted(vectors.dimensions_cut),
    drifted(vectors.components_filled, beside=LOW | names("not_normalised")),
    drifted(vectors.coarse_quantisation),
    drifted(vectors.byte_order_swapped),
    drifted(vectors.text_cut_by_the_runtime, seen_by=("vectors",)),
    drifted(vectors.stale_vectors, twin=vectors.text_written_anew),
    misaligned(vectors.shifted),
    misaligned(vectors.shuffled),
    misaligned(vectors.one_vector_for_all),
    invalid(vectors.not_a_number, "nan", vectors.in_plain_lists),
    invalid(vectors.nan_made_null, "null"),
    invalid(vectors.infinite, "infinite"),
    invalid(vectors.zero, "zero"),
    Kind(
        vectors.nan_dropped, "missing_rows", "error", causes=names("missing_row"), seen_by=("rows", "self"), beside=LOW
    ),
    Kind(
        vectors.another_dimension,
        "dimension_mismatch",
        "error",
        causes=names("invalid_vector"),
        seen_by=("vectors", "self"),
        twin=vectors.in_plain_lists,
        beside=LOW,
    ),
    Kind(vectors.uneven_lengths, "not_normalised", "warning", seen_by=("vectors",)),
    Kind(
        vectors.uneven_lengths_under_dot,
        "not_normalised",
        "error",
        causes=names("metric"),
        seen_by=("vectors", "self"),
        twin=vectors.under_dot,
        beside=LOW,
    ),
)

ROWS = (
    Kind(rows.lost, "missing_rows", "error", causes=names("missing_row"), seen_by=("rows", "self"), beside=LOW),
    # Both rows of an id take a place among the ten that are asked for.
    Kind(rows.doubled, "duplicate_ids", "error", seen_by=("rows",), beside=names("short_results ann_recall_low")),
    Kind(
        rows.ids_reused,
        "duplicate_ids",
        "error",
        causes=names("duplicate_id"),
        seen_by=("rows",),
        beside=LOW | names("text_drift short_results ann_recall_low"),
    ),
    Kind(rows.ids_collided, "missing_rows", "error", causes=names("missing_row"), seen_by=("rows", "self"), beside=LOW),
    Kind(rows.orphaned, "orphan_rows", "warning", seen_by=("rows",)),
    Kind(
        rows.ids_changed,
        "missing_rows",
        "error",
        causes=names("missing_row"),
        seen_by=("rows", "self"),
        beside=LOW | names("orphan_rows"),
    ),
    Kind(rows.text_blanked, "text_drift", "error", seen_by=("rows",), beside=names("empty_text")),
)

TEXTS = (
    in_another_form(texts.decomposed, texts.accented, "unicode_form", "warning"),
    in_another_form(texts.white_space_collapsed, texts.spaced, "white_space", "warning"),
    in_another_form(texts.entities, texts.quoted, "entities", "warning"),
    in_another_form(texts.case_folded, texts.capitals, "case", "error"),
    in_another_form(texts.curly_quotes, texts.quoted, "quotes", "error"),
    in_another_form(texts.markup_stripped, texts.with_markup, "html_tags", "error"),
    in_another_form(texts.cut_short, untouched, "truncated", "error"),
    in_another_form(texts.beginning_lost, untouched, "section_lost", "error"),
    in_another_form(texts.mojibake, texts.accented, "differs", "error"),
    in_another_form(texts.texts_shuffled, untouched, "differs", "error"),
    Kind(
        texts.section_lost_and_encoded,
        "text_drift",
        "error",
        causes=names("text_drift"),
        seen_by=("rows", "self"),
        beside=LOW,
    ),
    Kind(
        texts.replaced_and_encoded,
        "text_drift",
        "error",
        causes=names("text_drift"),
        seen_by=("rows", "self"),
        beside=LOW,
    ),
)
