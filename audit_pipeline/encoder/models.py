"""Loading an encoder and running it exactly as the application does. No prompt is chosen and nothing is cached here."""

from __future__ import annotations

import json
import logging
import threading
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from audit_pipeline.arms import split_arm
from audit_pipeline.encoder.model_files import ModelFiles, content_fingerprint, find_model, read_json
from audit_pipeline.encoder.protocol import Encoder, EncoderIdentity, Spending
from audit_pipeline.encoder.roles import never_selected
from audit_pipeline.encoder_settings import EncoderSettings
from audit_pipeline.errors import AuditInputError, reason_of
from audit_pipeline.results import Progress, no_progress

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

log = logging.getLogger(__name__)

TEXTS_PER_PROGRESS = 512
TEXTS_PER_TOKENIZER_CALL = 2048


class SentenceTransformerEncoder:
    """A sentence-transformers model as the application runs it. The model is loaded at first need."""

    def __init__(self, files: ModelFiles, settings: EncoderSettings) -> None:
        self.files = files
        self.settings = settings
        self._loading = threading.Lock()

    is_remote = False
    counts_are_estimates = False
    spending = Spending()

    @property
    def name(self) -> str:
        return self.files.name

    @property
    def cache_key(self) -> str:
        return self.identity.cache_key

    def check_budget(self, tokens: int) -> None:
        """Nothing is spent by a model that runs here."""

    @cached_property
    def identity(self) -> EncoderIdentity:
        return EncoderIdentity(
            model=self.files.name,
            revision=self.files.revision,
            dtype=self.settings.dtype,
            max_tokens=self.max_tokens,
            dimension=self.dimension,
            fingerprint=content_fingerprint(self.files.folder),
            libraries=_library_versions(),
        )

    @property
    def max_tokens(self) -> int | None:
        """Tokens the model reads, special tokens included; None where it has no limit."""
        limit = self._model.max_seq_length
        return None if limit is None or limit >= 1 << 30 else int(limit)

    @property
    def dimension(self) -> int:
        dimension = self._model.get_embedding_dimension()
        if dimension is None:
            dimension = self.encode(["."]).shape[1]
        return int(dimension)

    @cached_property
    def own_prompts(self) -> dict[str, str]:
        """The non-empty prompts that the model's configuration registers, by key."""
        prompts = read_json(self.files.folder, "config_sentence_transformers.json").get("prompts") or {}
        return {str(key): str(prompt) for key, prompt in prompts.items() if prompt}

    @property
    def prompts_never_applied(self) -> list[str]:
        """Role keys of the model's configuration that no call of its API selects by itself."""
        default = read_json(self.files.folder, "config_sentence_transformers.json").get("default_prompt_name")
        return never_selected(self.own_prompts, default)

    @property
    def excludes_prompt(self) -> bool:
        """True where the model leaves the prompt's tokens out of its pooling (instructor models)."""
        return any(getattr(module, "include_prompt", True) is False for module in self._model)

    def encode(self, texts: list[str], progress: Progress = no_progress, *, prompt: str = "") -> np.ndarray:
        """Vectors (n, d) float32 of ``prompt + text``, exactly as ``SentenceTransformer.encode`` returns them.

        Nothing is normalised that the model's own modules do not normalise. Pass the prompt apart from the text:
        a few models (instructor) leave its tokens out of their pooling.
        """
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        prompt, _ = split_arm(prompt)  # further request fields are a server's
        parts = []
        for start in range(0, len(texts), TEXTS_PER_PROGRESS):
            part = self._model.encode(
                texts[start : start + TEXTS_PER_PROGRESS],
                prompt=prompt,
                batch_size=self.settings.batch_size,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
            parts.append(np.asarray(part, dtype=np.float32))
            progress("encoding", min(start + TEXTS_PER_PROGRESS, len(texts)), len(texts))
        return np.concatenate(parts)

    def count_tokens(self, texts: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Tokens of each text as the model would see it without its limit, (n,) int32, special tokens included."""
        counts = np.zeros(len(texts), dtype=np.int32)
        for start in range(0, len(texts), TEXTS_PER_TOKENIZER_CALL):
            part = [text or "" for text in texts.slice(start, TEXTS_PER_TOKENIZER_CALL).to_pylist()]
            if self._fast_tokenizer is not None:
                encodings = self._fast_tokenizer.encode_batch_fast(part, add_special_tokens=self._adds_special_tokens)
                counts[start : start + len(part)] = [len(encoding) for encoding in encodings]
            else:
                ids = self._model.tokenizer(part, truncation=False, verbose=False)["input_ids"]
                counts[start : start + len(part)] = [len(sequence) for sequence in ids]
        return counts

    def token_spans(self, text: str) -> np.ndarray | None:
        """Characters at which each token begins and ends, (k, 2) int64; None for a slow tokenizer, which cannot say."""
        if self._fast_tokenizer is None:
            return None
        offsets = self._fast_tokenizer.encode(text, add_special_tokens=False).offsets
        return np.array(offsets, dtype=np.int64).reshape(-1, 2)

    @cached_property
    def special_tokens(self) -> int:
        """Tokens that the model adds to each text."""
        return int(self.count_tokens(pa.array([""]))[0])

    @cached_property
    def _fast_tokenizer(self) -> Any:
        """A copy of the model's tokenizer that neither cuts nor pads; None where the model has a slow one."""
        from tokenizers import Tokenizer

        tokenizer = self._model.tokenizer
        backend = tokenizer if isinstance(tokenizer, Tokenizer) else getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            return None
        copy = Tokenizer.from_str(backend.to_str())
        copy.no_truncation()
        copy.no_padding()
        return copy

    @cached_property
    def _adds_special_tokens(self) -> bool:
        """False for models on a bare ``tokenizers`` tokenizer (static embeddings), which encode without them."""
        from tokenizers import Tokenizer

        return not isinstance(self._model.tokenizer, Tokenizer)

    @property
    def _model(self) -> SentenceTransformer:
        with self._loading:
            return self._loaded

    @cached_property
    def _loaded(self) -> SentenceTransformer:
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # it would draw over the audit's own progress
        log.info("loading encoder %s", self.files.name)
        try:
            model = SentenceTransformer(
                str(self.files.folder),
                trust_remote_code=self.settings.trust_remote_code,
                model_kwargs={"dtype": getattr(torch, self.settings.dtype)},
            )
            if self.settings.max_tokens is not None:
                model.max_seq_length = self.settings.max_tokens
        except Exception as error:  # loading runs code of the model, which may raise anything
            raise AuditInputError(
                f"encoder.model: {self.files.name!r} cannot be loaded ({type(error).__name__}: {reason_of(error)}): "
                "check that the files are complete and that encoder.trust_remote_code is set where it needs it"
            ) from error
        return model.eval()


def load_encoder(settings: EncoderSettings) -> Encoder | None:
    """The encoder of the settings, one object per process; None for kind none. Raises AuditInputError."""
    if settings.kind == "none":
        return None
    # A model that runs here is the same for every prompt; a server's identity holds what all of its requests carry.
    roles = {"query_prompt", "passage_prompt"} if settings.kind == "sentence_transformers" else set()
    return _load(settings.model_dump_json(exclude=roles))


@lru_cache(maxsize=4)
def _load(settings_json: str) -> Encoder:
    settings = EncoderSettings.model_validate(json.loads(settings_json))
    assert settings.model is not None  # the settings refuse this kind without a model
    if settings.kind == "openai_compatible":
        from audit_pipeline.encoder.openai_compatible import OpenAICompatibleEncoder

        return OpenAICompatibleEncoder(settings)
    return SentenceTransformerEncoder(find_model(settings.model, settings.revision), settings)


def _library_versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("sentence-transformers", "transformers", "torch")}
