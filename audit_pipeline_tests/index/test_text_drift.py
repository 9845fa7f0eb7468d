import pytest

from audit_pipeline.index.text_drift import kind_of_drift


@pytest.mark.parametrize(
    ("own", "stored", "kind"),
    [
        ("caf\u00e9", "cafe\u0301", "unicode_form"),
        ("two  words\nhere ", "two words here", "white_space"),
        ("caf\u00e9  au lait", "cafe\u0301 au lait", "white_space"),
        ("a < b & c", "a &lt; b &amp; c", "entities"),
        ("intro\n\nsection one\n\nsection two", "intro\n\nsection one", "section_lost"),
        ("port 8080", "port 8081", "differs"),
        ("Case matters", "case matters", "differs"),
        ("something", "", "differs"),
    ],
)
def test_the_weakest_change_that_makes_two_texts_equal_is_named(own: str, stored: str, kind: str) -> None:
    assert kind_of_drift(own, stored) == kind
