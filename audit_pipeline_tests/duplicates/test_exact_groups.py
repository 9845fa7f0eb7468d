import datetime as dt

from audit_pipeline.duplicates.exact_groups import group_exact
from audit_pipeline.duplicates.lanes import exact_and_minhash
from audit_pipeline.duplicates.rows import nodes_of
from audit_pipeline.duplicates.signatures import compute_signatures
from audit_pipeline_tests.duplicates.snapshots import SETTINGS, at_degrees, pair_ids, snapshot_of


def lexical(snapshot):
    return exact_and_minhash(snapshot, compute_signatures(snapshot.rows, SETTINGS), SETTINGS)


def groups_of(snapshot):
    return group_exact(nodes_of(snapshot), compute_signatures(snapshot.rows, SETTINGS), SETTINGS)


def test_only_the_two_cats_pair():
    result = lexical(snapshot_of(["cat", "dog", "cat"]))
    assert pair_ids(result.tables["lexical_pairs"]) == [("c00000", "c00002")]
    assert result.summary["exact"] == {"groups": 1, "redundant_rows": 1, "implied_pairs": 1}


def test_texts_without_words_never_pair_even_with_each_other():
    result = lexical(snapshot_of(["", "a b", "", "---", "---", "a c"]))
    assert len(result.tables["lexical_pairs"]) == 0
    assert result.summary["exact"]["groups"] == 0
    # Two rows of "---" that can be seen, one of them more than there are texts; "" cannot.
    assert result.summary["wordless"] == {"rows": 2, "copies": 1}
    assert lexical(snapshot_of(["", "\u200b", "\u200b", "a b"])).summary["wordless"]["rows"] == 0


def test_ten_identical_texts_are_nine_duplicates_of_one():
    result = lexical(snapshot_of(["The same  text"] * 5 + ["the same text"] * 5 + ["another one"]))
    pairs = result.tables["lexical_pairs"]
    assert pairs["chunk_id_a"].to_pylist() == ["c00000"] * 9
    assert pairs["lanes"].to_pylist() == [["exact"]] * 9
    assert pairs["jaccard"].to_pylist() == [1.0] * 9
    assert result.summary["exact"] == {"groups": 1, "redundant_rows": 9, "implied_pairs": 45}


def test_the_earliest_row_with_a_usable_vector_stands_for_its_group():
    dates = [dt.date(2026, 1, 3), dt.date(2026, 1, 2), dt.date(2026, 1, 1), None]
    usable = snapshot_of(["same words"] * 4, at_degrees(0, 0, 0, 0), dates=dates)
    assert groups_of(usable).representatives.tolist() == [2]
    vectors = at_degrees(0, 0, 0, 0)
    vectors[2] = 0
    assert groups_of(snapshot_of(["same words"] * 4, vectors, dates=dates)).representatives.tolist() == [1]


def test_rows_that_no_batch_signed_are_signed_here():
    snapshot = snapshot_of(["one text", "two text", "one text"])
    signatures = compute_signatures(snapshot.rows.slice(0, 2), SETTINGS)
    assert group_exact(nodes_of(snapshot), signatures, SETTINGS).representative.tolist() == [0, 1, 0]
    hashes = signatures.select(["chunk_id", "normalised_sha256", "status"])
    assert group_exact(nodes_of(snapshot), hashes, SETTINGS).representative.tolist() == [0, 1, 0]


def test_a_row_whose_text_was_changed_after_it_was_signed_goes_by_the_text_that_it_holds():
    signed = compute_signatures(snapshot_of(["one text", "one text", "two text"]).rows, SETTINGS)
    hashes = signed.select(["chunk_id", "normalised_sha256", "status"])
    for signatures in (signed, hashes):
        clean = group_exact(nodes_of(snapshot_of(["one text", "ONE  text", "two text"])), signatures, SETTINGS)
        assert clean.representative.tolist() == [0, 0, 2]
        assert clean.signatures.equals(signatures.replace_schema_metadata(None))
        changed = group_exact(nodes_of(snapshot_of(["one text", "two text", "two text"])), signatures, SETTINGS)
        assert changed.representative.tolist() == [0, 1, 1]
        # Both columns of the lane: signed anew, not only told apart.
        assert (
            changed.signatures[1:2]
            .drop_columns("chunk_id")
            .equals(signatures[2:3].replace_schema_metadata(None).drop_columns("chunk_id"))
        )


def test_a_row_never_pairs_with_its_own_earlier_copy():
    ids = ["a", "b", "a", "b"]
    texts = ["first text of this batch", "second text of this batch"] * 2
    snapshot = snapshot_of(texts, at_degrees(0, 10, 0, 10), ids=ids)
    result = lexical(snapshot)
    assert len(result.tables["lexical_pairs"]) == 0
    assert result.summary["exact"]["redundant_rows"] == 0
