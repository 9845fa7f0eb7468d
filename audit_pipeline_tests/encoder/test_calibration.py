from __future__ import annotations

import numpy as np
import pytest

from audit_pipeline.encoder.calibration import NOISE_LOSS, calibrate, cosine_loss


def test_the_loss_is_one_minus_cosine_whatever_the_norms():
    a = np.array([[1, 0], [3, 0], [0, 2], [1, 0]], dtype=np.float32)
    b = np.array([[5, 0], [1, 1], [0, -1], [0, 1]], dtype=np.float32)
    np.testing.assert_allclose(cosine_loss(a, b), [0, 1 - np.sqrt(0.5), 2, 1], atol=1e-12)


def test_a_tiny_loss_keeps_its_digits():
    angle = 1e-7
    a, b = np.array([[1.0, 0.0]]), np.array([[np.cos(angle), np.sin(angle)]])
    assert cosine_loss(a, b)[0] == pytest.approx(angle**2 / 2, rel=1e-6)


def test_a_zero_vector_has_no_loss():
    assert np.isnan(cosine_loss(np.zeros((1, 2)), np.ones((1, 2)))).all()


def turned(degrees: dict[str, float]):
    """An encoder of the plane: every text at 0 degrees, turned by its prompt."""

    def encode(texts: list[str], prompt: str) -> np.ndarray:
        angle = np.radians(degrees[prompt])
        return np.tile([np.cos(angle), np.sin(angle)], (len(texts), 1)).astype(np.float32)

    return encode


def test_the_tolerance_is_a_tenth_of_what_the_cheapest_wrong_arm_costs():
    arms = {"passage": "p", "query": "q", "none": "", "'same'": "p "}
    calibration = calibrate(["a", "b"], arms, turned({"p": 0, "q": 60, "": 90, "p ": 0}))
    assert [(arm.name, round(arm.p5, 6), arm.distinguishable) for arm in calibration.arms] == [
        ("query", 0.5, True),
        ("none", 1.0, True),
        ("'same'", 0.0, False),
    ]
    assert calibration.tolerance == pytest.approx(0.05)
    assert calibration.identifiable("q")
    assert not calibration.identifiable("p ")


def test_where_no_arm_can_be_told_the_tolerance_is_storage_noise():
    calibration = calibrate(["a"], {"passage": "p", "query": "q"}, turned({"p": 0, "q": 0}))
    assert calibration.cheapest is None
    assert calibration.tolerance == NOISE_LOSS
