"""Reading the YAML of one index into settings, and saying what is wrong with it. The fields stand in config."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from audit_pipeline.config import IndexAuditSettings
from audit_pipeline.errors import AuditInputError
from audit_pipeline.settings_base import Settings
from audit_pipeline.spelling import did_you_mean

COMPONENT_TYPE = "audit_pipeline.IndexAudit"


def load_settings(path: Path) -> IndexAuditSettings:
    """Settings from a defs.yaml, its relative paths resolved against its folder. Raises AuditInputError."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AuditInputError(f"{path}: the settings file cannot be read ({error.strerror}): check --config") from error
    except UnicodeDecodeError as error:
        raise AuditInputError(f"{path}: not UTF-8 text: save the settings file as UTF-8") from error
    except ValueError as error:  # YAML makes dates of what looks like one, also where there is no such day
        raise AuditInputError(f"{path}: a date in it is none ({error}): correct it") from error
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        where = f" in line {line + 1}" if line is not None else ""
        raise AuditInputError(f"{path}: not valid YAML{where}: correct the syntax there") from error
    if not isinstance(document, dict) or not isinstance(document.get("attributes"), dict):
        raise AuditInputError(
            f"{path}: no settings are in it: write 'type: {COMPONENT_TYPE}' and a mapping under 'attributes'"
        )
    if document.get("type") != COMPONENT_TYPE:
        raise AuditInputError(f"{path}: type is {document.get('type')!r}: write {COMPONENT_TYPE!r}")
    return parse_settings(document["attributes"], str(path), base=path.resolve().parent)


def parse_settings(attributes: dict[str, Any], where: str, base: Path) -> IndexAuditSettings:
    """Settings from the attributes mapping; relative paths are taken from ``base``. Raises AuditInputError."""
    try:
        settings = IndexAuditSettings.model_validate(attributes)
    except ValidationError as error:
        raise AuditInputError(f"{where}: {_first_error(error)}") from error
    return resolve_paths(settings, base)


def check_label_files(settings: IndexAuditSettings) -> None:
    """Raise AuditInputError where a file of labels is not there: better told before hours of encoding than after."""
    for name in ("queries", "qrels", "pairs", "observed"):
        path = getattr(settings.labels, name)
        if path is not None and "://" not in path and not Path(path).is_file():
            raise AuditInputError(f"labels.{name}: there is no file {path}: correct the path or remove the field")


def resolve_paths(settings: IndexAuditSettings, base: Path) -> IndexAuditSettings:
    """The settings with every relative path made absolute against ``base``; URIs with a scheme stay as they are."""

    def absolute(path: str | None) -> str | None:
        if path is None or "://" in path:
            return path
        return str((base / Path(path).expanduser()).absolute())

    def resolved(part: Settings, *fields: str) -> dict[str, Any]:
        return {field: absolute(getattr(part, field)) for field in fields if getattr(part, field) is not None}

    sources = [
        source if source.format == "docstrings" else source.model_copy(update=resolved(source, "uri"))
        for source in settings.sources
    ]
    encoder = settings.encoder
    if encoder.kind == "sentence_transformers" and encoder.model and encoder.model.startswith((".", "~")):
        encoder = encoder.model_copy(update=resolved(encoder, "model"))
    return settings.model_copy(
        update={
            "sources": sources,
            "encoder": encoder,
            "index": settings.index.model_copy(update=resolved(settings.index, "uri")),
            "sample": settings.sample.model_copy(update=resolved(settings.sample, "like")),
            "labels": settings.labels.model_copy(
                update=resolved(settings.labels, "queries", "qrels", "pairs", "observed")
            ),
        }
    )


def _first_error(error: ValidationError) -> str:
    """One sentence for the first problem: the field's path, what is wrong, what to do."""
    errors = error.errors()
    # A field that is missing may only be misspelt, so what is unknown is told first.
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    path = ".".join(str(part) for part in first["loc"])
    more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if first["type"] == "extra_forbidden":
        known = _fields_at(first["loc"][:-1])
        word = str(first["loc"][-1])
        hint = did_you_mean(word, known) + _belonging(word)
        return f"{path}: unknown field{hint}; remove it or use one of {', '.join(known)}{more}"
    if first["type"] == "missing":
        return f"{path}: this field is required: add it{more}"
    if first["type"] == "value_error":
        # The validators' own sentences, without pydantic's prefix; they say for themselves what was given.
        return f"{path + ': ' if path else ''}{first['ctx']['error']}{more}"
    if first["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return f"{path}: this should be a section with fields of its own{_given(first)}{more}"
    return f"{path}: {first['msg']}{_given(first)}{more}"


def _given(error: ErrorDetails) -> str:
    """The value that was refused, shortened; nothing of a section, and never a value that may be a credential."""
    hidden = ("storage_options", "query_extra", "passage_extra", "api_key_env", "webhook_env", "token_env")
    secret = any(part in hidden for part in error["loc"]) or error["loc"] in (("alerts",), ("alerts", "slack"))
    if secret or isinstance(error["input"], dict | list | BaseModel):
        return ""
    return f", got {textwrap.shorten(repr(error['input']), 80)}"


def _belonging(word: str) -> str:
    """A hint at the sections that have a field of this name, empty where none has."""
    places = [place for place in _all_fields(IndexAuditSettings, "") if place.rsplit(".", 1)[-1] == word]
    return f" (it belongs to another section: write it as {' or '.join(places)})" if places else ""


def _all_fields(model: type[BaseModel], prefix: str) -> Iterator[str]:
    """Every field below a section, by its path; those of a list's entries as 'sources[].name'."""
    for name, field in model.model_fields.items():
        yield prefix + name
        section = _section(field.annotation)
        if section is not None:
            entries = "[]" if get_origin(field.annotation) is list else ""
            yield from _all_fields(section, f"{prefix}{name}{entries}.")


def _section(annotation: Any) -> type[BaseModel] | None:
    """The settings class that a field holds, alone, as an alternative or in a list; None for a plain value."""
    choices = (annotation, *get_args(annotation))
    return next((one for one in choices if isinstance(one, type) and issubclass(one, BaseModel)), None)


def _fields_at(path: tuple[int | str, ...]) -> list[str]:
    model: type[BaseModel] = IndexAuditSettings
    for part in path:
        if isinstance(part, int):
            continue
        model = _section(model.model_fields[part].annotation) or model
    return list(model.model_fields)
