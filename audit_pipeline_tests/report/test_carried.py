"""A threshold of one encoder in the audit of another: what it flags there by that one's own sweep."""

from __future__ import annotations

from typing import Any

from audit_pipeline.report.carried import carried_thresholds, carried_words


def audit(model: str, threshold: float | None, shares: dict[float, float | None], provisional: bool = False) -> dict:
    sweep: list[dict[str, Any]] = [
        {"threshold": t, "random_share": share, "flagged_per_10k_chunks": 1e4 * t, "expected_all_pairs": 7.0}
        for t, share in shares.items()
    ]
    recommended = {"threshold": threshold, "provisional": provisional}
    encoder = {"model": model, "fingerprint": model, "passage_prompt": ""}
    return {"encoder": encoder, "duplicates": {"sweep": sweep, "recommended": recommended}}


def test_a_threshold_is_read_off_the_other_audits_sweep() -> None:
    a, b = audit("a", 0.96, {0.9: 0.01, 0.96: 0.0002}), audit("b", None, {0.9: 0.5, 0.96: 0.1})
    [carried] = carried_thresholds(a, b)
    assert (carried["of"], carried["in"], carried["there"]["random_share"]) == ("first", "second", 0.1)
    said = carried_words(carried)
    assert "The first audit's recommended duplicate threshold 0.96 flags in the second audit 1,000 of 10,000" in said
    assert "(2 of 10,000 random pairs and 9,600 pairs per 10,000 chunks in its own)" in said
    assert "belongs to one model on one corpus" in said


def test_both_thresholds_are_carried_and_a_row_that_is_missing_is_not_measured() -> None:
    a, b = audit("a", 0.96, {0.96: 0.0002}), audit("b", 0.85, {0.85: None}, provisional=True)
    first, second = carried_thresholds(a, b)
    assert (first["there"], second["there"], second["of"]) == (None, None, "second")
    assert "not measured" in carried_words(first)
    assert "provisional" in carried_words(second)


def test_one_encoder_on_both_sides_or_no_threshold_carries_nothing() -> None:
    a = audit("a", 0.96, {0.96: 0.0002})
    assert carried_thresholds(a, a) == []
    assert carried_thresholds(audit("a", None, {}), audit("b", None, {})) == []
    assert carried_thresholds({"encoder": {"model": "a"}}, {"encoder": {"model": "b"}}) == []
