"""Which prompt the application puts before its queries: their vectors against fresh encodings. Opens no table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from audit_pipeline.arms import split_arm
from audit_pipeline.encoder.calibration import (
    CALIBRATION_ROWS,
    NOISE_LOSS,
    Calibration,
    EncodeFunction,
    calibrate,
    cosine_loss,
)
from audit_pipeline.encoder.fidelity import EXPLAINS_SHARE, NOT_IDENTIFIABLE
from audit_pipeline.encoder.roles import QUERY, arms_of
from audit_pipeline.encoder_settings import EncoderSettings

UNEXPLAINED = "unexplained"
"""No known prompt before the query gives this vector."""
_QUERIES_OF_A_ROUND = 24
"""Unexplained queries encoded under every arm at once; what is found there is then tried on all of them."""
_ROUNDS_WITHOUT_SUCCESS = 3
_TIE = 1e-6


@dataclass(frozen=True)
class QuerySide:
    """What m query vectors carry.

    ``role`` (m,) is an arm's name (``query``: as configured), NOT_IDENTIFIABLE (within storage noise of the configured
    encoding, which is more than another prompt would change) or UNEXPLAINED; ``loss`` (m,) 1 - cos to the configured
    encoding; ``arms`` the prompt of each arm by name.
    """

    role: list[str]
    loss: np.ndarray
    arms: dict[str, str]
    calibration: Calibration


def arms_of_queries(settings: EncoderSettings, own_prompts: dict[str, str]) -> dict[str, str]:
    """The arms of the role fingerprint, the configured query prompt first and under the name ``query``."""
    others = {name: arm for name, arm in arms_of(settings, own_prompts).items() if arm != settings.query_arm}
    return {QUERY: settings.query_arm} | others


def judge_queries(
    texts: list[str],
    sent: np.ndarray,
    arms: dict[str, str],
    encode: EncodeFunction,
    *,
    prompt_is_text: bool = True,
    stability: Callable[[list[str]], None] | None = None,
) -> QuerySide:
    """The arm of each of the vectors ``sent`` (m, d) that were sent for ``texts``, at least one.

    The rule of the role fingerprint: a vector is as configured when its loss is under a tenth of what the cheapest
    wrong arm costs on these queries (p5 over at most 32 of them, float64); the others are encoded under the other
    arms, a few under all and all under those that were found. ``prompt_is_text``: the model reads a prompt as part of
    the text; then a text that the log holds with its prompt already in front counts as that prompt's. Length does not
    matter, nor does rounding to float16. ``stability`` is called with the texts of the yardstick before they are used.
    """
    distinct = list(dict.fromkeys(texts))
    yardstick = distinct[:: -(-len(distinct) // CALIBRATION_ROWS)]
    if stability is not None:
        stability(yardstick)
    calibration = calibrate(yardstick, arms, encode, QUERY)
    loss = cosine_loss(sent, encode(texts, arms[QUERY]))
    found_loss = loss.copy()
    role = np.full(len(texts), UNEXPLAINED, dtype=object)
    role[loss <= calibration.tolerance] = QUERY
    explained = max(calibration.tolerance, NOISE_LOSS)

    def try_on(rows: np.ndarray, name: str) -> bool:
        own = cosine_loss(sent[rows], encode([texts[row] for row in rows], arms[name]))
        better = (own <= explained) & (own < EXPLAINS_SHARE * loss[rows]) & (own < found_loss[rows] - _TIE)
        role[rows[better]], found_loss[rows[better]] = name, own[better]
        return bool(better.any())

    tried, without_success = np.zeros(len(texts), dtype=bool), 0
    others = [name for name in arms if name != QUERY]
    while without_success < _ROUNDS_WITHOUT_SUCCESS:
        open_rows = np.flatnonzero((role == UNEXPLAINED) & ~tried)
        # The nearest first: a prompt moves a vector less than another text does.
        chosen = np.sort(open_rows[np.argsort(loss[open_rows], kind="stable")][:_QUERIES_OF_A_ROUND])
        if not len(chosen):
            break
        tried[chosen] = True
        found = [name for name in others if try_on(chosen, name)]
        found = [name for name in found if (role[chosen] == name).any()]
        rest = np.setdiff1d(open_rows, chosen)
        for name in found:
            if len(rest):
                try_on(rest, name)
        without_success = 0 if found else without_success + 1
    role[(role == UNEXPLAINED) & (loss <= NOISE_LOSS)] = NOT_IDENTIFIABLE
    if prompt_is_text:
        _read_logged_prompts(texts, role, arms)
    return QuerySide(role.tolist(), loss, arms, calibration)


def _read_logged_prompts(texts: list[str], role: np.ndarray, arms: dict[str, str]) -> None:
    """A log may hold what was encoded, prompt and all: encoded as it stands, that is the prompt it begins with."""
    bare = next((name for name, arm in arms.items() if arm == ""), None)
    if bare is None:
        return
    prompts = {name: arm for name, arm in arms.items() if arm and not split_arm(arm)[1]}
    for row in np.flatnonzero(role == bare):
        role[row] = next((name for name, prompt in prompts.items() if texts[row].startswith(prompt)), bare)
