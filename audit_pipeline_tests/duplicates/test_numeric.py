import pytest

from audit_pipeline.duplicates.numeric import compare_numbers


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Error 5: denied", "Error 17: denied"),
        ("code 0x80070005 denied", "code 0x8007000E denied"),
        ("costs 1,024.5 each", "costs 7 each"),
        ("moves by -5 now", "moves by 5 now"),
        ("key E100 pressed", "KEY  e200 pressed"),
    ],
)
def test_texts_that_differ_in_a_number_only(text, other):
    assert compare_numbers(text, other) == (True, False)


@pytest.mark.parametrize(
    ("text", "other"),
    [("Error 5: denied", "error 5: denied"), ("Error 5: denied", "Error 5: granted"), ("a 5", "a 5 b"), ("", "")],
)
def test_texts_that_differ_otherwise_or_not_at_all(text, other):
    assert compare_numbers(text, other) == (False, True)
