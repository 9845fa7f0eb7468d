import numpy as np

from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates.lanes import exact_and_minhash, merge_lanes, neighbour_lane
from audit_pipeline.duplicates.signatures import compute_signatures
from audit_pipeline.duplicates.stages import duplicate_clusters
from audit_pipeline.duplicates.windows import overlap_units
from audit_pipeline_tests.duplicates.snapshots import SETTINGS, at_degrees, candidates_of, snapshot_of, words_of


def words(text):
    return text.split()


def test_the_end_of_one_chunk_that_begins_the_next_is_an_overlap():
    assert overlap_units(words("a b c d e f g"), words("c d e f g h i"), 5) == 5


def test_four_shared_words_are_too_few():
    assert overlap_units(words("a b c d e f g"), words("d e f g h i"), 5) == 0


def test_equal_chunks_and_a_chunk_inside_the_other_are_no_windows():
    assert overlap_units(words("a b c d e f g"), words("a b c d e f g"), 5) == 0
    assert overlap_units(words("x a b c d e f"), words("a b c d e f"), 5) == 0


def test_a_repeated_header_is_passed_over():
    assert overlap_units(words("the header a b c d e f"), words("the header b c d e f g"), 5) == 5


def test_a_word_cut_in_two_at_the_border_does_no_harm():
    assert overlap_units(words("a b half c d e f begi"), words("lf c d e f beginning g"), 5) == 6
    assert overlap_units(words("a b half c d e f begi"), words("xx c d e f beginning g"), 5) == 0


def test_two_chunks_that_differ_in_their_last_word_are_near_duplicates_and_no_windows():
    assert overlap_units(words("a b c d e f g h end"), words("a b c d e f g h close"), 5) == 0


def test_shared_text_in_the_middle_is_no_window():
    assert overlap_units(words("a b c d e f g"), words("x c d e f y"), 4) == 0


def window_corpus(documents):
    """Windows of 256 words that overlap by 200, over one text of 592 words."""
    text = words_of(np.random.default_rng(0), 592).split()
    texts = [" ".join(text[start : start + 256]) for start in range(0, 337, 56)]
    return snapshot_of(
        texts, at_degrees(*range(len(texts))), documents=documents(len(texts)), positions=list(range(len(texts)))
    )


def test_overlapping_windows_are_a_class_of_their_own_in_no_cluster():
    snapshot = window_corpus(lambda count: ["page"] * count)
    settings = DuplicateSettings(containment=0.7)
    signatures = compute_signatures(snapshot.rows, settings)
    lexical = exact_and_minhash(snapshot, signatures, settings).tables["lexical_pairs"]
    neighbours = neighbour_lane(snapshot, signatures, settings).tables["neighbour_pairs"]
    merged = merge_lanes(snapshot, lexical, neighbours, settings)
    rows = merged.tables["candidate_pairs"].to_pylist()
    # 7 windows: neighbours up to 4 places apart share text (256 - 4 x 56 = 32 words): 6 + 5 + 4 + 3 pairs.
    assert sum(row["window"] for row in rows) == 18
    assert any(row["verified"] for row in rows)
    [finding] = merged.findings
    assert (finding.code, finding.share, finding.evidence["median_overlap"]) == ("chunk_windows", 1.0, 200)
    for threshold in (None, 0.9):
        result = duplicate_clusters(snapshot, signatures, merged.tables["candidate_pairs"], threshold, settings)
        # 5 and more places apart nothing is shared, so only such pairs may pass at .9: 0-5, 0-6, 1-6.
        assert len(result.tables["duplicate_clusters"]) == (0 if threshold is None else 4)


def test_the_same_windows_in_different_documents_are_near_duplicates():
    rows = candidates_of(window_corpus(lambda count: [f"page {number}" for number in range(count)])).to_pylist()
    assert not any(row["window"] for row in rows)


def test_neighbouring_chunks_without_shared_text_are_no_windows():
    generator = np.random.default_rng(1)
    texts = [words_of(generator, 60) for _ in range(6)]
    snapshot = snapshot_of(texts, at_degrees(*range(6)), documents=["page"] * 6, positions=list(range(6)))
    signatures = compute_signatures(snapshot.rows, SETTINGS)
    lexical = exact_and_minhash(snapshot, signatures, SETTINGS).tables["lexical_pairs"]
    neighbours = neighbour_lane(snapshot, signatures, SETTINGS).tables["neighbour_pairs"]
    merged = merge_lanes(snapshot, lexical, neighbours, SETTINGS)
    assert merged.findings == []
    assert merged.summary["pairs"] == {"possible": 15, "candidates": 15, "never_looked_at": 0, "windows": 0}


def test_a_document_that_repeats_itself_further_on_has_no_window_there():
    generator = np.random.default_rng(2)
    repeated = words_of(generator, 40)
    texts = [f"{words_of(generator, 20)} {repeated}", words_of(generator, 60), f"{repeated} {words_of(generator, 20)}"]
    snapshot = snapshot_of(texts, at_degrees(0, 40, 80), documents=["page"] * 3, positions=[0, 1, 2])
    rows = candidates_of(snapshot).to_pylist()
    assert any(row["jaccard"] > 0.4 for row in rows)
    assert not any(row["window"] for row in rows)
    neighbours = snapshot_of(texts[::2], at_degrees(0, 80), documents=["page"] * 2, positions=[0, 1])
    assert [row["window"] for row in candidates_of(neighbours).to_pylist()] == [True]
