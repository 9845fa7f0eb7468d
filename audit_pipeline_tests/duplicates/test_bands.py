"""Score bands of labels: reading them, the weights they give, and when they were drawn under other vectors."""

from __future__ import annotations

import numpy as np
import pytest

from audit_pipeline.duplicates.bands import BandWeights, band_weights, read_band, with_points

LOW, HIGH = "0.90-0.95", "0.95-1.00"


def weights_of(bands: list[str | None], cosine: list[float], candidates: list[float]) -> BandWeights:
    return band_weights(bands, np.array(cosine), np.array(candidates))


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("0.90-0.92", (0.90, 0.92)),
        (" 0.9 - 1 ", (0.9, 1.0)),
        ("-1.00..0.80", (-1.0, 0.8)),
        ("-0.2--0.1", (-0.2, -0.1)),
        ("0.9,0.92", (0.9, 0.92)),
        ("0,90-0,92", (0.90, 0.92)),
        ("-1,00..0,80", (-1.0, 0.8)),
        *((text, None) for text in ("0.9.1-1.0", "..-1", "0.92-0.90", "0.9-0.9", "90-92", "high", "0.9", "", None)),
    ],
)
def test_a_band_is_read_or_it_is_none(text: str | None, limits: tuple[float, float] | None) -> None:
    assert read_band(text) == limits


@pytest.mark.parametrize(
    ("text", "pointed"),
    [
        ("0,90-0,92", "0.90-0.92"),
        ("-1,00..0,80", "-1.00..0.80"),
        *((text, text) for text in ("0.90-0.92", "0.9,0.92", "high", "", "0,9x")),
    ],
)
def test_decimal_commas_become_points(text: str, pointed: str) -> None:
    assert with_points(text) == pointed


def test_the_weights_undo_the_sampling_rate_of_the_bands() -> None:
    # Ten candidates in the low band and two in the high one; two labels were drawn from each.
    candidates = [0.91] * 10 + [0.97] * 2
    found = weights_of([LOW, LOW, HIGH, HIGH], [0.91, 0.91, 0.97, 0.97], candidates)
    assert found.weights is not None
    assert found.weights.tolist() == [5, 5, 1, 1]
    assert found.as_dict() == {"banded": 4, "outside": 0, "unreadable": 0, "used": True, "words": None}
    assert weights_of([LOW, None], [0.91, 0.2], candidates).weights == pytest.approx([10, 0])
    for without in ([None, ""], []):
        assert weights_of(without, [0.9] * len(without), candidates) == BandWeights(None, 0, 0, 0, None)


def test_bands_that_overlap_give_no_weights_and_say_so() -> None:
    found = weights_of(["0.80-0.90", "0.85-0.95"], [0.82, 0.92], [0.82, 0.87, 0.92])
    assert found.weights is None
    assert "overlap" in str(found.words)
    beside = weights_of(["0.80-0.90", "0.90-0.95"], [0.82, 0.92], [0.82, 0.87, 0.92])
    assert beside.weights == pytest.approx([2, 1])


@pytest.mark.parametrize("moved", [0, 2, 3])
def test_labels_outside_their_bands_beyond_one_in_fifty_leave_no_weights(moved: int) -> None:
    bands: list[str | None] = [LOW] * 50 + [HIGH] * 50
    cosine = [0.92] * (50 - moved) + [0.97] * (50 + moved)
    found = weights_of(bands, cosine, [0.92] * 500 + [0.97] * 100)
    assert (found.banded, found.outside) == (100, moved)
    if moved == 3:
        assert found.weights is None
        assert "3 of 100 labels lie outside their score band now: the bands were drawn under other" in str(found.words)
        assert "Draw a new queue." in str(found.words)
    else:
        assert (found.words, found.weights[0] if found.weights is not None else None) == (None, 10)


def test_the_last_digits_of_an_encoding_take_no_label_out_of_its_band() -> None:
    # 1.0000002 is what float32 makes of equal directions; a re-encoded pair crosses an edge by 5e-4.
    found = weights_of([LOW, LOW, HIGH], [0.8995, 0.9505, 1.0000002], [0.91, 0.93, 0.97])
    assert (found.outside, found.words) == (0, None)
    assert found.weights == pytest.approx([1, 1, 1])
    assert weights_of([LOW, LOW, HIGH], [0.898, 0.92, 0.97], [0.91, 0.93, 0.97]).outside == 1


def test_bands_that_cannot_be_read_count_as_none_and_are_told() -> None:
    found = weights_of([LOW, "0.9.1-1.0", "..-1", "0.92-0.90"], [0.92] * 4, [0.91, 0.93])
    assert found.weights == pytest.approx([2, 0, 0, 0])
    assert (found.banded, found.unreadable) == (1, 3)
    assert "3 labels name a score band that cannot be read and count as labels without one" in str(found.words)
    none = weights_of(["high"], [0.92], [0.91])
    assert (none.weights, none.unreadable) == (None, 1)
    assert none.words is not None
