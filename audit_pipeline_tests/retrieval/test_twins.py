import pytest

from audit_pipeline.retrieval.twins import Twin, twin

LONG = "the quick brown fox jumps over the lazy dog near a quiet river bank today"  # 15 words


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("One  text\nhere", "one text HERE", Twin("same_text", False)),
        ("caf\u00e9 open", "cafe\u0301 open", Twin("same_text", False)),
        ("error E1001 raised by the pump", "error E1002 raised by the pump", Twin("one_word", True)),
        ("costs 1,500 dollars a year", "costs 1.25 dollars a year", Twin("one_word", True)),
        ("a red car", "a blue car", Twin("one_word", False)),
        ("a red car", "a car", Twin("one_word", False)),
        ("see the red car now", "see the blue bus now", None),  # Indel 2 x 3 / 10 = .6
        (LONG, LONG.replace("quick", "slow").replace("lazy", "tired"), Twin("similar", False)),  # 2 x 13 / 30 = .87
        ("cat", "dog", None),
        ("", "dog", None),
        ("", "", Twin("same_text", False)),
        ("?!", "...", None),
    ],
)
def test_twins(a: str, b: str, expected: Twin | None):
    assert twin(a, b, 0.8) == expected
    assert twin(b, a, 0.8) == expected


def test_two_numbers_that_differ_are_numeric_although_two_words_do():
    one = "pump 12 delivers 300 litres of water an hour at full load"
    other = "pump 13 delivers 350 litres of water an hour at full load"
    assert twin(one, other, 0.8) == Twin("similar", True)


def test_the_similarity_is_a_setting_and_reached_at_equality():
    a, b = "a b c d e f g h x y", "a b c d e f g h u v"  # 2 x 8 / 20 = .8
    assert twin(a, b, 0.8) == Twin("similar", False)
    assert twin(a, b, 0.81) is None


def test_word_order_counts():
    assert twin("alpha beta gamma delta epsilon", "epsilon delta gamma beta alpha", 0.8) is None
