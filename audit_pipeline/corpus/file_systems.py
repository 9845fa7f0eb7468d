"""File systems of local paths and object stores, by environment or storage options. Which files: see files.py."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyarrow import fs

# LanceDB's words for what Arrow's file systems take; LanceDB takes each with and without its prefix.
_S3: dict[str, tuple[str, ...]] = {
    "access_key": ("access_key_id",),
    "secret_key": ("secret_access_key",),
    "session_token": ("session_token", "token"),
    "region": ("region", "default_region"),
    "endpoint_override": ("endpoint", "endpoint_url"),
    "force_virtual_addressing": ("virtual_hosted_style_request",),
    "anonymous": ("skip_signature",),
    "role_arn": ("role_arn",),
    "session_name": ("role_session_name",),
}
_AZURE: dict[str, tuple[str, ...]] = {
    "account_name": ("storage_account_name", "account_name"),
    "account_key": ("storage_account_key", "storage_access_key", "account_key", "access_key"),
    "sas_token": ("storage_sas_token", "storage_sas_key", "sas_token", "sas_key"),
    "tenant_id": ("storage_tenant_id", "storage_authority_id", "tenant_id", "authority_id"),
    "client_id": ("storage_client_id", "client_id"),
    "client_secret": ("storage_client_secret", "client_secret"),
}
_GOOGLE: dict[str, tuple[str, ...]] = {"anonymous": ("skip_signature",)}
_PREFIXED = {"s3": ("aws_", _S3), "az": ("azure_", _AZURE), "gs": ("google_", _GOOGLE)}
OBJECT_STORES = tuple(f"{scheme}://" for scheme in _PREFIXED)
# Of LanceDB's client alone: they change how long it tries, not what is read; an endpoint says itself that it is HTTP.
_TUNING = frozenset(
    "allow_http aws_allow_http connect_timeout timeout request_timeout download_retry_count client_max_retries "
    "client_retry_timeout pool_idle_timeout pool_max_idle_per_host user_agent".split()
)
_SECRET = ("key", "secret", "token")


class UnknownOptionError(ValueError):
    """A storage option that is not heeded when files are read. The message names it and never its value."""


def filesystem_of(uri: str, options: Mapping[str, str] | None = None) -> tuple[fs.FileSystem, str]:
    """(file system, path in it) of a path or of a file://, s3://, gs:// or az:// URI.

    What ``options`` leave open comes from the environment, under the names that LanceDB reads: AWS_ENDPOINT and
    AWS_REGION, AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY and the like. Raises UnknownOptionError, and
    what Arrow raises (OSError, ValueError).
    """
    if "://" not in uri:
        return fs.LocalFileSystem(), uri
    scheme, _, path = uri.partition("://")
    if scheme not in _PREFIXED:
        return fs.FileSystem.from_uri(uri)
    given = _arguments(scheme, {name.lower(): value for name, value in (options or {}).items()})
    prefix, words = _PREFIXED[scheme]
    told = {
        argument: value
        for argument, names in words.items()
        if (value := next((os.environ[key] for name in names if (key := (prefix + name).upper()) in os.environ), None))
    }
    if scheme == "az":
        if "account_name" not in given | told:
            raise OSError("AZURE_STORAGE_ACCOUNT_NAME is not set")
        own = given if given.keys() - {"account_name"} else told | given
        return fs.AzureFileSystem(**own), path  # a key beside a token of the environment would be two
    if scheme == "gs":
        anonymous = _is_true(given.get("anonymous"))
        return (fs.GcsFileSystem(anonymous=True), path) if anonymous else fs.FileSystem.from_uri(uri)
    return _s3(uri, path, told, given)


def secrets_of(options: Mapping[str, str]) -> list[str]:
    """The values that no message may repeat, though a library's may: longest first."""
    held = [value for name, value in options.items() if any(part in name.lower() for part in _SECRET) and value]
    return sorted(held, key=len, reverse=True)


def hidden(text: str, options: Mapping[str, str]) -> str:
    """The text without the secrets among the options."""
    for secret in secrets_of(options):
        text = text.replace(secret, "***")
    return text


def _s3(uri: str, path: str, told: dict[str, str], given: dict[str, str]) -> tuple[fs.FileSystem, str]:
    # Keys belong together: those of the environment are Arrow's to find, as are those of a profile or an instance.
    whole = {name: told[name] for name in ("region", "endpoint_override") if name in told} | given
    if not given and "endpoint_override" not in whole:
        return fs.FileSystem.from_uri(uri)
    flags = {name: _is_true(whole.pop(name)) for name in ("force_virtual_addressing", "anonymous") if name in whole}
    if "endpoint_override" in whole:
        whole["scheme"] = "http" if whole["endpoint_override"].startswith("http://") else "https"
    elif "region" not in whole:
        whole["region"] = fs.resolve_s3_region(path.partition("/")[0])
    return fs.S3FileSystem(**whole, **flags), path


def _arguments(scheme: str, options: dict[str, str]) -> dict[str, str]:
    prefix, words = _PREFIXED[scheme]
    known = {key: argument for argument, names in words.items() for name in names for key in (name, prefix + name)}
    unknown = sorted(options.keys() - known.keys() - _TUNING)
    if unknown:
        heeded = ", ".join(prefix + names[0] for names in words.values())
        raise UnknownOptionError(f"{unknown[0]!r} is not heeded where files are read, only {heeded}")
    return {known[name]: value for name, value in options.items() if name in known}


def _is_true(value: str | None) -> bool:
    return value is not None and value.strip().lower() in ("true", "1", "yes", "on")
