import os
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import combinations, product

import numpy as np
import pytest

from audit_pipeline.duplicate_settings import DuplicateSettings
from audit_pipeline.duplicates.lanes import exact_and_minhash
from audit_pipeline.duplicates.minhash_pairs import candidate_probability, join_bands
from audit_pipeline.duplicates.signatures import compute_signatures
from audit_pipeline_tests.duplicates.snapshots import SETTINGS, pair_ids, snapshot_of, words_of


def lexical(texts, settings=SETTINGS):
    snapshot = snapshot_of(texts)
    return exact_and_minhash(snapshot, compute_signatures(snapshot.rows, settings), settings)


def test_the_band_join_finds_what_comparing_all_rows_with_all_finds():
    signatures = np.random.default_rng(0).integers(0, 3, (60, 12)).astype(np.uint32)
    join = join_bands(signatures, bands=4, cap=1000)
    found = dict(zip(zip(join.a.tolist(), join.b.tolist(), strict=True), join.shared_bands.tolist(), strict=True))
    expected = {}
    for a in range(60):
        for b in range(a + 1, 60):
            equal = (signatures[a] == signatures[b]).reshape(4, 3).all(axis=1).sum()
            if equal:
                expected[a, b] = int(equal)
    assert found == expected
    assert list(found) == sorted(found)
    assert join.hot == []


def in_numpy(signatures, bands, cap):
    """The join without Daft, without mixing keys and without arithmetic on pairs: buckets are dictionaries of rows."""
    rows = signatures.shape[1] // bands
    counts, hot = Counter(), []
    for band in range(bands):
        buckets = defaultdict(list)
        for row, values in enumerate(signatures[:, band * rows : (band + 1) * rows].tolist()):
            buckets[tuple(values)].append(row)
        for members in buckets.values():
            if len(members) > cap:
                hot.append((band, len(members), members[0]))
            counts.update(product(members[:1], members[1:]) if len(members) > cap else combinations(members, 2))
    return sorted((a, b, shared) for (a, b), shared in counts.items()), sorted(hot)


@pytest.mark.parametrize("rows_a_query", [1, 900, 10_000])
def test_the_join_is_that_of_an_independent_one_however_bands_are_put_into_queries(monkeypatch, rows_a_query):
    monkeypatch.setattr("audit_pipeline.duplicates.band_shuffle._ROWS_A_QUERY", rows_a_query)
    generator = np.random.default_rng(2)
    # Values of the whole range, few enough for buckets of every size: some 25 rows share each value pair of a band.
    values = generator.integers(0, 2**32, 4, dtype=np.uint32)
    signatures = values[generator.integers(0, 4, (400, 16))]
    join = join_bands(signatures, bands=8, cap=25)
    pairs, hot = in_numpy(signatures, 8, 25)
    assert list(zip(join.a.tolist(), join.b.tolist(), join.shared_bands.tolist(), strict=True)) == pairs
    assert sorted((bucket.band, bucket.size, bucket.centre) for bucket in join.hot) == hot
    assert 10 < len(hot) < 8 * 16


def test_no_rows_give_no_pairs():
    join = join_bands(np.empty((0, 128), dtype=np.uint32), 32, 200)
    assert (len(join.a), len(join.b), len(join.shared_bands), join.hot) == (0, 0, 0, [])


def test_a_join_asks_no_name_server_and_its_process_ends_well():
    """Daft reports its use over the network unless it is told not to before it is imported."""
    code = """
import socket, sys, time
asked = []
socket.getaddrinfo = lambda *address, **_: asked.append(address) or []
import numpy as np
from audit_pipeline.duplicates.minhash_pairs import join_bands
assert len(join_bands(np.zeros((3, 4), dtype=np.uint32), 2, 5).a) == 3
time.sleep(0.1)
sys.exit(f"asked for {asked}" if asked else 0)
"""
    environment = {name: value for name, value in os.environ.items() if "ANALYTICS" not in name}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_compaction_in_between_changes_nothing(monkeypatch):
    signatures = np.random.default_rng(1).integers(0, 3, (60, 12)).astype(np.uint32)
    whole = join_bands(signatures, 4, 1000)
    monkeypatch.setattr("audit_pipeline.duplicates.minhash_pairs._COMPACT_AT", 5)
    cut = join_bands(signatures, 4, 1000)
    assert np.array_equal(whole.a, cut.a)
    assert np.array_equal(whole.shared_bands, cut.shared_bands)


def test_a_bucket_over_the_cap_is_a_star_from_its_first_row():
    join = join_bands(np.zeros((6, 4), dtype=np.uint32), bands=2, cap=5)
    assert list(zip(join.a.tolist(), join.b.tolist(), strict=True)) == [(0, other) for other in range(1, 6)]
    assert join.shared_bands.tolist() == [2] * 5
    assert [(bucket.band, bucket.size, bucket.centre) for bucket in join.hot] == [(0, 6, 0), (1, 6, 0)]


def test_candidate_probability_at_thirty_two_bands_of_four_rows():
    # 1 - (1 - 1/16)^32
    assert abs(candidate_probability(0.5, 32, 4) - 0.8732112136) < 1e-9


def test_an_edited_copy_is_verified_and_an_unrelated_text_is_no_candidate():
    generator = np.random.default_rng(3)
    original, unrelated = words_of(generator, 180), words_of(generator, 180)
    words = original.split()
    words[60], words[120] = "changed", "edited"
    table = lexical([original, " ".join(words), unrelated]).tables["lexical_pairs"]
    assert pair_ids(table) == [("c00000", "c00001")]
    # 176 shingles each; two edits touch 10 of them: 166 of 186 are shared.
    assert table["jaccard"].to_pylist() == [166 / 186]
    assert table["verified"].to_pylist() == [True]


def test_fifty_documents_with_one_header_and_different_bodies_are_no_duplicates():
    generator = np.random.default_rng(5)
    header = words_of(generator, 40)
    result = lexical([f"{header} {words_of(generator, 200)}" for _ in range(50)])
    assert result.summary["minhash"]["verified"] == 0
    assert not any(result.tables["lexical_pairs"]["verified"].to_pylist())


def test_twenty_thousand_footers_give_bounded_edges_and_a_hot_bucket():
    generator = np.random.default_rng(7)
    footer = "page {} of the internal handbook of the company do not copy this without written permission of its owner"
    texts = [footer.format(number) for number in range(20_000)] + [words_of(generator, 12) for _ in range(20_000)]
    result = lexical(texts)
    assert [finding.code for finding in result.findings] == ["hot_bucket"]
    assert result.findings[0].evidence["largest"] > 10_000
    pairs = result.tables["lexical_pairs"]
    assert 0 < len(pairs) < SETTINGS.bands * 40_000
    assert all(b < "c20000" for b in pairs["chunk_id_b"].to_pylist())


def test_a_few_footers_are_joined_pair_by_pair_without_a_hot_bucket():
    footer = "page {} of the internal handbook of the company do not copy this without written permission of its owner"
    result = lexical([footer.format(number) for number in range(20)])
    assert result.findings == []
    assert result.summary["minhash"]["candidates"] == 190


def test_chinese_sentences_pair_by_their_characters_and_not_by_a_shared_english_word():
    table = lexical(
        [
            "我们今天下午在公司的大会议室里讨论了新产品的发布计划和预算",
            "我们今天下午在公司的大会议室里讨论了新产品的上市计划和预算",
            "请使用 Docker 启动服务器并且检查日志输出是否正常",
            "Docker 是一种容器技术可以简化应用程序的部署过程",
        ]
    ).tables["lexical_pairs"]
    assert pair_ids(table) == [("c00000", "c00001")]


def test_another_row_order_gives_the_same_pairs():
    generator = np.random.default_rng(11)
    base = words_of(generator, 60).split()
    texts = [" ".join([*base[:cut], "x", *base[cut + 1 :]]) for cut in range(0, 60, 3)]
    forward = lexical(texts, DuplicateSettings(bucket_cap=5))
    ids = [f"c{row:05d}" for row in range(len(texts))]
    backward_snapshot = snapshot_of(texts[::-1], ids=ids[::-1])
    settings = DuplicateSettings(bucket_cap=5)
    backward = exact_and_minhash(backward_snapshot, compute_signatures(backward_snapshot.rows, settings), settings)
    assert forward.tables["lexical_pairs"].equals(backward.tables["lexical_pairs"])
    assert forward.summary == backward.summary
