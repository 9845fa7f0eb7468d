import datetime as dt

import numpy as np
import pyarrow as pa

from audit_pipeline.duplicates.clusters import cluster, redundancy
from audit_pipeline.duplicates.removal import CosineAlone
from audit_pipeline.duplicates.signatures import compute_signatures
from audit_pipeline.duplicates.stages import duplicate_clusters
from audit_pipeline_tests.duplicates.snapshots import SETTINGS, at_degrees, candidates_of, snapshot_of, words_of

EARNED, NOT_EARNED = CosineAlone(True, 0.95, "earned"), CosineAlone(False, 0.3, "not earned")


def clustered(snapshot, threshold, candidates=None, cosine=EARNED):
    signatures = compute_signatures(snapshot.rows, SETTINGS)
    pairs = candidates if candidates is not None else candidates_of(snapshot)
    return duplicate_clusters(snapshot, signatures, pairs, threshold, SETTINGS, cosine=cosine)


def members(result):
    return [
        (row["cluster_id"], row["chunk_id"], row["chain_only"], row["action"])
        for row in result.tables["duplicate_clusters"].to_pylist()
    ]


def test_a_member_out_of_reach_of_the_representative_is_tied_only_through_the_one_between():
    snapshot = snapshot_of(["alpha", "beta", "gamma"], at_degrees(0, 20, 40))
    result = clustered(snapshot, float(np.cos(np.radians(25))))
    assert members(result) == [
        ("c00000", "c00000", False, "keep"),
        ("c00000", "c00001", False, "drop"),
        ("c00000", "c00002", True, "review"),
    ]
    cosine = result.tables["duplicate_clusters"]["cosine_to_representative"].to_pylist()
    assert np.allclose(cosine, np.cos(np.radians([0, 20, 40])))
    assert result.summary["clusters"]["chain_only"] == 1


def test_two_verified_pairs_within_one_unverified_component_are_two_clusters():
    generator = np.random.default_rng(0)
    first, second = words_of(generator, 100).split(), words_of(generator, 100).split()
    # B and C share a third of their words: candidates of each other, but not verified.
    second[:35] = first[:35]

    def edited(words):
        return " ".join([*words[:-2], "edited", "twice"])

    texts = [" ".join(first), edited(first), " ".join(second), edited(second)]
    snapshot = snapshot_of(texts, at_degrees(0, 60, 120, 180))
    candidates = candidates_of(snapshot)
    assert len(candidates) == 6
    assert sum(candidates["verified"].to_pylist()) == 2
    result = clustered(snapshot, None, candidates)
    assert [row[:2] for row in members(result)] == [
        ("c00000", "c00000"),
        ("c00000", "c00001"),
        ("c00002", "c00002"),
        ("c00002", "c00003"),
    ]
    assert result.summary["redundancy"] == {"exact": 0.0, "lexical": 0.5, "embedding": None}


def test_every_cluster_has_exactly_one_representative_that_is_its_member_and_its_earliest():
    generator = np.random.default_rng(4)
    dates = [dt.date(2026, 1, 1) + dt.timedelta(days=int(day)) for day in generator.integers(0, 5, 200)]
    snapshot = snapshot_of([f"t{row}" for row in range(200)], generator.standard_normal((200, 2)), dates=dates)
    table = clustered(snapshot, 0.99999).tables["duplicate_clusters"].to_pandas()
    known = dict(zip(snapshot.rows["chunk_id"].to_pylist(), dates, strict=True))
    assert table["chunk_id"].is_unique
    assert set(table["chunk_id"]) <= set(known)
    assert len(table) > 50
    for cluster_id, group in table.groupby("cluster_id"):
        assert group.loc[group["is_representative"], "chunk_id"].tolist() == [cluster_id]
        assert cluster_id == min(group["chunk_id"], key=lambda chunk: (known[chunk], chunk))
        assert len(group) > 1


def test_components_are_those_of_a_plain_union_find():
    generator = np.random.default_rng(2)
    a, b = generator.integers(0, 300, 200), generator.integers(0, 300, 200)
    parent = list(range(300))

    def root(node):
        while parent[node] != node:
            node = parent[node]
        return node

    for one, other in zip(a, b, strict=True):
        low, high = sorted((root(int(one)), root(int(other))))
        parent[high] = low
    found = cluster(np.arange(300), a, b)
    assert {int(m): int(r) for m, r in zip(found.member, found.representative, strict=True)} == {
        node: root(node) for node in range(300) if sum(root(other) == root(node) for other in range(300)) > 1
    }
    assert redundancy(300, a, b) == (300 - len({root(node) for node in range(300)})) / 300


def test_nothing_is_neither_redundant_nor_free_of_it():
    assert redundancy(0, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)) is None


def test_table_rows_that_differ_in_one_number_are_numeric_and_never_dropped():
    header = "error code and its meaning in the table of the handbook of the product version"
    texts = [f"{header} 0x8007000{digit} access was denied to the file" for digit in (1, 2, 3)] + [
        f"{header} 0x80070001 access was denied to the files"
    ]
    result = clustered(snapshot_of(texts, at_degrees(0, 1, 2, 3)), 0.99)
    table = result.tables["duplicate_clusters"].to_pylist()
    assert [(row["numeric"], row["action"]) for row in table] == [
        (False, "keep"),
        (True, "review"),
        (True, "review"),
        (False, "drop"),
    ]
    assert result.summary["clusters"]["numeric"] == 2


def test_other_wording_with_another_number_is_not_dropped_either():
    result = clustered(snapshot_of(["at most 5 files a day", "no more than 10 files a day"], at_degrees(0, 1)), 0.99)
    assert [row[3] for row in members(result)] == ["keep", "review"]


def test_a_cosine_that_has_not_earned_it_drops_only_what_the_text_confirms():
    base = words_of(np.random.default_rng(1), 60)
    texts = [base, base.upper(), base[: base.rindex(" ")], "an entirely different wording"]
    snapshot = snapshot_of(texts, at_degrees(0, 0, 1, 2))
    assert [row[3] for row in members(clustered(snapshot, 0.99))] == ["keep", "drop", "drop", "drop"]
    for cosine in (NOT_EARNED, None):
        unsure = members(clustered(snapshot, 0.99, cosine=cosine))
        assert [row[3] for row in unsure] == ["keep", "drop", "drop", "review"]


def test_a_long_text_is_not_dropped_for_a_short_one_that_it_contains():
    long = words_of(np.random.default_rng(3), 80)
    short = " ".join(long.split()[:30])
    for texts, actions in (([short, long], ["keep", "review"]), ([long, short], ["keep", "drop"])):
        snapshot = snapshot_of(texts, at_degrees(0, 90))
        assert [row[2:] for row in members(clustered(snapshot, None))] == [(False, action) for action in actions]


def test_chunks_that_share_a_boilerplate_and_differ_in_their_own_sentence_are_not_dropped_by_their_text():
    notice = words_of(np.random.default_rng(6), 80)
    texts = [f"{notice} this method opens the left door", f"{notice} this property names the right key"]
    snapshot = snapshot_of(texts, at_degrees(0, 1))
    candidates = candidates_of(snapshot)
    assert candidates["verified"].to_pylist() == [True]
    for threshold in (None, 0.99):
        result = clustered(snapshot, threshold, candidates, NOT_EARNED)
        assert [row[2:] for row in members(result)] == [(False, "keep"), (False, "review")]


def stays_for(result):
    """action and same_text_as of each chunk."""
    rows = result.tables["duplicate_clusters"].to_pylist()
    return {row["chunk_id"]: (row["action"], row["same_text_as"]) for row in rows}


def test_of_copies_tied_through_a_chain_one_stays_and_the_others_go():
    # c0 at 0, c1 at 20 degrees, three copies of a text at 40, out of reach of c0; c5 copies c0.
    texts = ["alpha", "beta", "Gamma ray", "gamma ray", "GAMMA  ray", "ALPHA"]
    result = clustered(snapshot_of(texts, at_degrees(0, 20, 40, 40, 40, 0)), float(np.cos(np.radians(25))))
    assert stays_for(result) == {
        "c00000": ("keep", None),
        "c00001": ("drop", None),
        "c00002": ("review", None),
        "c00003": ("drop", "c00002"),
        "c00004": ("drop", "c00002"),
        "c00005": ("drop", "c00000"),
    }
    assert (result.summary["clusters"]["drop"], result.summary["clusters"]["copies"]) == (4, 3)


def test_copies_that_all_are_near_the_representative_go_for_its_sake():
    result = clustered(snapshot_of(["alpha", "beta", "BETA"], at_degrees(0, 5, 5)), 0.99)
    assert stays_for(result) == {"c00000": ("keep", None), "c00001": ("drop", None), "c00002": ("drop", None)}
    # With one vector off, cosine no longer says of the text that it may go: one copy of it stays.
    result = clustered(snapshot_of(["alpha", "beta", "BETA"], at_degrees(0, 5, 90)), 0.99)
    assert stays_for(result) == {"c00000": ("keep", None), "c00001": ("review", None), "c00002": ("drop", "c00001")}


def test_copies_of_a_numeric_twin_go_and_the_twin_itself_stays():
    header = "error code and its meaning in the table of the handbook of the product version"
    texts = [f"{header} 0x8007000{digit} access was denied to the file" for digit in (1, 2, 2)]
    result = clustered(snapshot_of(texts, at_degrees(0, 1, 1)), 0.99)
    assert stays_for(result) == {"c00000": ("keep", None), "c00001": ("review", None), "c00002": ("drop", "c00001")}


def test_a_chunk_whose_vector_is_broken_replaces_none_that_can_be_found():
    vectors = at_degrees(0, 0, 0, 0)
    vectors[0] = 0
    base = words_of(np.random.default_rng(5), 60)
    result = clustered(snapshot_of([base, base, base, base[: base.rindex(" ")]], vectors), 0.99)
    assert stays_for(result) == {
        "c00000": ("keep", None),
        "c00001": ("review", None),
        "c00002": ("drop", "c00001"),
        "c00003": ("review", None),
    }


def test_copies_with_a_broken_vector_stay_in_their_cluster():
    vectors = at_degrees(0, 0, 50)
    vectors[1] = 0
    result = clustered(snapshot_of(["same text", "same text", "other"], vectors), 0.9)
    assert members(result) == [("c00000", "c00000", False, "keep"), ("c00000", "c00001", False, "drop")]


def test_redundancy_of_each_lane_includes_the_lanes_before_it():
    base = words_of(np.random.default_rng(9), 80)
    texts = [base, base.upper(), f"{base} end", "one wording", "another phrase", "unrelated"]
    result = clustered(snapshot_of(texts, at_degrees(0, 0, 30, 60, 61, 150)), 0.99)
    assert result.summary["redundancy"] == {"exact": 1 / 6, "lexical": 2 / 6, "embedding": 3 / 6}


def test_what_differs_in_numbers_only_is_told_beside_the_redundancy_it_is_part_of():
    notice = words_of(np.random.default_rng(11), 40)
    texts = [f"{notice} order {number}" for number in (1, 2, 3)] + [f"{notice} ORDER 3", f"{notice} order"]
    snapshot = snapshot_of(texts, at_degrees(0, 1, 2, 2, 3))
    # Two are siblings of the representative; a copy of one repeats it, and the text without a number is neither.
    for threshold in (None, 0.99):
        summary = clustered(snapshot, threshold).summary
        assert summary["redundancy"]["exact"] == 1 / 5
        assert summary["redundancy"]["lexical"] == 4 / 5
        assert summary["numbers_only"] == {"lexical": 2 / 5, "embedding": None if threshold is None else 2 / 5}
    apart = clustered(snapshot_of([notice, f"{notice} end"], at_degrees(0, 1)), 0.99)
    assert apart.summary["numbers_only"] == {"lexical": 0.0, "embedding": 0.0}


def test_a_corpus_without_duplicates_has_no_clusters():
    result = clustered(snapshot_of(["one", "two"], at_degrees(0, 90)), 0.9)
    assert len(result.tables["duplicate_clusters"]) == 0
    assert result.summary["clusters"]["largest"] == 0
    assert result.summary["redundancy"]["embedding"] == 0
    empty = clustered(snapshot_of([], np.empty((0, 2))), None)
    assert empty.summary["redundancy"] == {"exact": None, "lexical": None, "embedding": None}
    assert isinstance(empty.tables["duplicate_clusters"], pa.Table)
