"""Credentials in URIs: whether one holds any, and texts without them. Which URIs can be opened is said elsewhere."""

from __future__ import annotations

import re

HIDDEN = "***"

# A password may hold a slash, so behind a colon the user info ends at an @ alone; a port is no password.
_PASSWORD = re.compile(r"^[^/:@?#]*:(?!\d+/)[^@]*@")
_SECRET_NAME = re.compile(r"^sig$|signature|key|token|secret|passw|credential|auth", re.IGNORECASE)
_PARAMETER = re.compile(r"[?&]([\w.%-]+)=")

# Where a text goes on behind a URI, its own punctuation is no part of it.
_END = r"(?=[:,;.)\]}'\"]*(?:[&\s]|$))"
_USER = re.compile(r"(?<=//)(?:[^/@\s:]*:[^@\s]*|[^/@\s]+)@")
_QUERY = re.compile(r"(?<=://)[^\s?]*\?\S*")
_VALUE = re.compile(rf"=[^&\s]*?{_END}")


def holds_credentials(uri: str) -> bool:
    """Whether a URI has user info with a password, or a query with a signature, key, token or the like."""
    _, found, rest = uri.partition("://")
    if not found:
        return False
    return bool(_PASSWORD.match(rest)) or any(_SECRET_NAME.search(name) for name in _PARAMETER.findall(rest))


def without_credentials(text: str) -> str:
    """The text with the user info and all query values of every URI in it hidden."""
    if "//" not in text:
        return text
    text = _USER.sub(f"{HIDDEN}@", text)
    return _QUERY.sub(lambda found: _VALUE.sub(f"={HIDDEN}", found[0]), text)
