import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from audit_pipeline.duplicates.shingles import jaccard_and_containment, shingle_sets, shingles, units


def test_six_words_make_two_shingles_of_five_and_case_and_spaces_do_not_matter():
    expected = {"the cat sat on the", "cat sat on the mat"}
    assert shingles("The cat  sat on\nthe mat.", 5) == ("words", expected)


def test_a_text_under_five_words_is_one_shingle():
    assert shingles("a b", 5) == ("words", {"a b"})


def test_text_without_a_word_has_no_shingle():
    assert shingles("", 5) == ("no_signature", set())
    assert shingles(" --- ...", 5) == ("no_signature", set())


def test_chinese_is_cut_into_characters_and_english_with_one_chinese_word_is_not():
    kind, found = shingles("今天下午开会。", 5)
    assert kind == "characters"
    assert found == {"今天下午开", "天下午开会"}
    assert units("the word 你好 is a common greeting")[0] == "words"


def test_jaccard_and_containment_of_a_pair_worked_out_by_hand():
    # 6 and 8 words: 2 and 4 shingles, 2 of them shared.
    sets = shingle_sets(["a b c d e f", "a b c d e f g h", "v w x y z"], 5)
    jaccard, containment = jaccard_and_containment(sets, np.array([0, 0]), np.array([1, 2]))
    assert jaccard.tolist() == [0.5, 0.0]
    assert containment.tolist() == [1.0, 0.0]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(alphabet="abc ", max_size=30), min_size=2, max_size=8))
def test_overlaps_equal_those_of_python_sets(texts):
    a, b = np.triu_indices(len(texts), 1)
    jaccard, containment = jaccard_and_containment(shingle_sets(texts, 2), a, b)
    plain = [shingles(text, 2)[1] for text in texts]
    for row, (one, other) in enumerate(zip(a, b, strict=True)):
        shared, either = len(plain[one] & plain[other]), len(plain[one] | plain[other])
        assert jaccard[row] == (shared / either if either else 0)
        smaller = min(len(plain[one]), len(plain[other]))
        assert containment[row] == (shared / smaller if smaller else 0)


def test_blocks_do_not_change_the_overlaps(monkeypatch):
    texts = [" ".join(f"{word % (7 + text)}" for word in range(40)) for text in range(12)]
    a, b = np.triu_indices(12, 1)
    whole = jaccard_and_containment(shingle_sets(texts, 3), a, b)
    monkeypatch.setattr("audit_pipeline.duplicates.shingles._BLOCK_ELEMENTS", 50)
    monkeypatch.setattr("audit_pipeline.duplicates.shingles._PAIRS_PER_BLOCK", 3)
    cut = jaccard_and_containment(shingle_sets(texts, 3), a, b)
    assert np.array_equal(whole, cut)
