"""The settings of the encoder: fields, defaults, and the checks that need no data. It never loads a model."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, model_validator

from audit_pipeline.arms import as_arm
from audit_pipeline.settings_base import Settings, only_under

_OF_REQUESTS = {
    "query_extra",
    "api_key_env",
    "timeout_seconds",
    "retries",
    "requests_per_minute",
    "tokens_per_minute",
    "token_budget",
}
SERVER_FIELDS = {"base_url", "passage_extra", "dimensions", *_OF_REQUESTS}
"""Encoder settings of kind openai_compatible only."""
UNDECIDING_FIELDS = {"batch_size", "query_prompt", *_OF_REQUESTS}
"""Encoder settings that change no stored passage vector."""

# The port takes no other than digits: what is no number there would be repeated by whoever opens the address.
_ADDRESS = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[^/@?#:\[\]]+)(:0*\d{1,5})?(/[^@?#]*)?")


class EncoderSettings(Settings):
    """How the application encodes queries and passages."""

    kind: Literal["sentence_transformers", "openai_compatible", "none"] = Field(
        default="sentence_transformers",
        description=(
            "sentence_transformers runs the model here; openai_compatible asks a server; "
            "none leaves out every check that needs encoding."
        ),
    )
    model: str | None = Field(
        default=None,
        description="Name or folder of a sentence-transformers model or an installed package of one; a server's model.",
    )
    revision: str | None = Field(default=None, description="Revision of the model on the hub.")
    query_prompt: str = Field(default="", description="String put before a query, exactly as the application does.")
    passage_prompt: str = Field(default="", description="String put before a passage, exactly as the writer did.")
    batch_size: int = Field(default=64, ge=1, description="Texts encoded at once.")
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        default="float32", description="Precision of the model; encode as production does."
    )
    max_tokens: int | None = Field(default=None, ge=8, description="Tokens the model reads; default: its own limit.")
    trust_remote_code: bool = Field(default=False, description="Run code that comes with the model.")
    base_url: str | None = Field(
        default=None, description="openai_compatible: address before /embeddings, such as https://api.openai.com/v1."
    )
    query_extra: dict[str, Any] = Field(
        default_factory=dict, description="openai_compatible: further fields of a query's request: {input_type: query}."
    )
    passage_extra: dict[str, Any] = Field(
        default_factory=dict, description="openai_compatible: further fields of a passage's request."
    )
    dimensions: int | None = Field(
        default=None, ge=1, description="openai_compatible: dimensions to ask for; default: the model's own."
    )
    api_key_env: str = Field(
        default="OPENAI_API_KEY", description="openai_compatible: environment variable that holds the key."
    )
    timeout_seconds: float = Field(default=60, gt=0, description="openai_compatible: longest wait for one answer.")
    retries: int = Field(default=6, ge=0, description="openai_compatible: further attempts of a request that failed.")
    requests_per_minute: int | None = Field(default=None, ge=1, description="openai_compatible: rate limit.")
    tokens_per_minute: int | None = Field(default=None, ge=1, description="openai_compatible: rate limit.")
    token_budget: int | None = Field(
        default=None,
        ge=1,
        description="openai_compatible: most tokens one run may send; it stops before it sends more.",
    )

    @model_validator(mode="after")
    def _model_is_named(self) -> EncoderSettings:
        if self.kind != "none" and not self.model:
            raise ValueError(f"kind {self.kind} needs 'model': name a model, or set kind to none")
        return self

    @model_validator(mode="after")
    def _server_is_named(self) -> EncoderSettings:
        if self.kind != "openai_compatible":
            only_under(self, SERVER_FIELDS, "kind", "openai_compatible")
            return self
        if not self.base_url or not _ADDRESS.fullmatch(self.base_url):
            raise ValueError(
                "kind openai_compatible needs 'base_url', an http(s) address without user, query or fragment "
                "and with a number as its port: "
                "write it as https://api.openai.com/v1"
            )
        for name, extra in (("query_extra", self.query_extra), ("passage_extra", self.passage_extra)):
            taken = sorted(set(extra) & {"model", "input", "dimensions"})
            if taken:
                raise ValueError(f"{name!r} may not hold {taken[0]!r}: remove it, the request has it from elsewhere")
            secret = sorted(
                key for key in extra if re.search("api.?key|^token$|secret|password|authorization", key.lower())
            )
            if secret:
                raise ValueError(
                    f"{name!r} may not hold {secret[0]!r}: set the key in the environment (encoder.api_key_env)"
                )
        return self

    @property
    def query_arm(self) -> str:
        """How a query is encoded: its prompt, and its further request fields where it has any (see arms)."""
        return as_arm(self.query_prompt, self.query_extra)

    @property
    def passage_arm(self) -> str:
        """How a passage is encoded, as ``query_arm``."""
        return as_arm(self.passage_prompt, self.passage_extra)
