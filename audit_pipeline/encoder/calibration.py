"""What a wrong prompt costs with this encoder, and whether it repeats itself. No stored vector is judged here."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from audit_pipeline.encoder.protocol import Encoder
from audit_pipeline.encoder.roles import PASSAGE
from audit_pipeline.encoder.segments import write_json
from audit_pipeline.encoder.vector_store import VectorStore, text_keys

CALIBRATION_ROWS = 32
FAITHFUL_SHARE = 0.1
"""A row is faithful when its loss is under this share of what the cheapest wrong prompt costs."""
NOISE_LOSS = 1e-4
"""Most that storage, another machine or another library version costs (float16 3e-8, bfloat16 5e-5, machine 1e-4)."""
INDISTINGUISHABLE_LOSS = 1e-6
"""An arm that costs less than this cannot be told from the configured one: its tokens are the same."""

EncodeFunction = Callable[[list[str], str], np.ndarray]
"""encode(texts, prompt) -> vectors (n, d)."""


@dataclass(frozen=True)
class ArmLoss:
    """What encoding with another arm's prompt costs against the configured prompt."""

    name: str
    prompt: str
    median: float
    p5: float

    @property
    def distinguishable(self) -> bool:
        return self.p5 > INDISTINGUISHABLE_LOSS


@dataclass(frozen=True)
class Calibration:
    """The arms' losses over ``n`` rows."""

    arms: tuple[ArmLoss, ...]
    n: int

    @property
    def cheapest(self) -> float | None:
        """p5 loss of the wrong arm that is hardest to see; None where none can be seen."""
        return min((arm.p5 for arm in self.arms if arm.distinguishable), default=None)

    @property
    def tolerance(self) -> float:
        """Loss up to which a row is faithful to the configured arm."""
        return NOISE_LOSS if self.cheapest is None else FAITHFUL_SHARE * self.cheapest

    def identifiable(self, prompt: str) -> bool:
        """Whether the arm of this prompt can be told from the configured arm."""
        return any(arm.prompt == prompt and arm.distinguishable for arm in self.arms)


def cosine_loss(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """1 - cos of each row pair of (n, d) arrays, (n,) float64; NaN where a vector is zero.

    Computed as half the squared distance of the unit vectors: 1 - dot would lose all digits of a loss near 1e-16.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        first = a.astype(np.float64)
        first /= np.linalg.norm(first, axis=1, keepdims=True)
        second = b.astype(np.float64)
        second /= np.linalg.norm(second, axis=1, keepdims=True)
        return 0.5 * np.sum((first - second) ** 2, axis=1)


def calibrate(texts: list[str], arms: dict[str, str], encode: EncodeFunction, configured: str = PASSAGE) -> Calibration:
    """Loss of every arm to the ``configured`` one over ``texts`` (about 32), in float64."""
    right = encode(texts, arms[configured])
    losses = []
    for name, prompt in arms.items():
        if name == configured:
            continue
        loss = cosine_loss(encode(texts, prompt), right)
        loss = loss[np.isfinite(loss)]  # without its prompt a text may hold no token that the model knows
        if not len(loss):
            continue
        losses.append(ArmLoss(name, prompt, float(np.median(loss)), float(np.quantile(loss, 0.05))))
    return Calibration(tuple(losses), len(texts))


def batch_dependence(encoder: Encoder, store: VectorStore, texts: list[str], prompt: str) -> float:
    """Largest loss between a text encoded alone and the same text encoded in one batch with the others.

    Around 1e-13 for a sound runtime. Measured once per encoder, library versions and machine, and kept beside the
    encoder's vectors.
    """
    libraries = json.dumps([encoder.identity.libraries, platform.machine(), platform.processor()], sort_keys=True)
    keys = np.unique(text_keys(texts, prompt))
    name = hashlib.sha256(libraries.encode() + keys.tobytes()).hexdigest()[:16]
    path = store.folder_of(encoder.identity) / f"stability-{name}.json"
    try:
        return float(json.loads(path.read_text(encoding="utf-8"))["loss"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # never measured here, or unreadable: measure
    alone = np.concatenate([encoder.encode([text], prompt=prompt) for text in texts])
    together = encoder.encode(texts, prompt=prompt)
    loss = cosine_loss(alone, together)
    worst = float(np.max(loss[~np.isnan(loss)], initial=0.0))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"loss": worst, "texts": len(texts)})
    return worst
