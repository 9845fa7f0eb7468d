"""One post to a webhook within a bounded time. Its address is a secret: it stands in no error and no log line."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import math
import re
import ssl
import urllib.request
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

LONGEST_REST = 3600.0
"""Seconds for which a server is left alone at most, whatever it asks for: news must not wait for days."""
_WORD = re.compile(r"[a-z][a-z_]+")
_LONGEST_WORD = 60
_WORD_SECONDS = 1.0


class NotPostedError(Exception):
    """A post that was not taken. ``unanswered`` where it may have been: it was sent, and no answer came.

    ``rest`` is for how many seconds the server asked to be left alone.
    """

    def __init__(self, reason: str, unanswered: bool = False, rest: float = 0.0) -> None:
        super().__init__(reason)
        self.unanswered = unanswered
        self.rest = rest


def post(address: str, body: dict[str, Any], key: str, seconds: float) -> None:
    """Post JSON, once, with ``key`` as its Idempotency-Key; done when the answer begins within so many seconds in all.

    Raises NotPostedError for anything but an answer of 200 to 299. A redirect is not followed: the address may be
    known to the one server only.
    """
    try:
        asyncio.run(asyncio.wait_for(_answered(address, body, key), seconds))
    except NotPostedError:
        raise
    except TimeoutError:
        raise NotPostedError(f"no answer came within {seconds:g} seconds", unanswered=True) from None
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError):
        raise NotPostedError("no connection could be made") from None
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError, ValueError):
        raise NotPostedError("the variable holds no http(s) address") from None
    except (httpx.TransportError, ssl.SSLError, OSError) as error:
        raise NotPostedError(f"the connection broke ({type(error).__name__})", unanswered=True) from None


async def _answered(address: str, body: dict[str, Any], key: str) -> None:
    request = httpx.Request(
        "POST",
        address,
        content=json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Idempotency-Key": key},
    )
    if request.url.scheme not in ("http", "https") or not request.url.host:
        raise httpx.UnsupportedProtocol("")
    # The bare transport: httpx's client writes the whole address of every request to the log.
    async with httpx.AsyncHTTPTransport(proxy=_proxy(request.url)) as transport:
        response = await transport.handle_async_request(request)
        word = "" if response.is_success else await _word(response)
        await response.aclose()
    if response.is_redirect:
        raise NotPostedError(f"it answered {response.status_code}, a redirect, which is not followed")
    if not response.is_success:
        raise refusal(response.status_code, word, response.headers.get("Retry-After"))


async def _word(response: httpx.Response) -> str:
    """The word by which Slack says why it refuses (`no_service`, `invalid_blocks`); empty where the answer is else."""
    body = b""
    try:
        async with asyncio.timeout(_WORD_SECONDS):
            async for part in response.aiter_raw():
                body += part
                if len(body) > _LONGEST_WORD:
                    return ""
    except (TimeoutError, httpx.TransportError):
        return ""
    text = body.decode(errors="replace").strip()
    return text if _WORD.fullmatch(text) else ""


def refusal(status: int, word: str, retry_after: str | None) -> NotPostedError:
    """The error for an answer that is no success, with the word in its body and its Retry-After header."""
    rest = rest_asked_for(retry_after)
    said = f"it answered {status}" + (f" ({word})" if word else "")
    # Of a gateway's 504 nobody knows whether the server behind it took the post.
    return NotPostedError(said + (f" and asks for a rest of {rest:g} seconds" if rest else ""), status == 504, rest)


def rest_asked_for(header: str | None) -> float:
    """The seconds of a Retry-After header, given as seconds or as a date; 0 where it is absent or neither."""
    if not header:
        return 0.0
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(header) - dt.datetime.now(dt.UTC)).total_seconds()
        except (TypeError, ValueError):
            return 0.0
    return min(max(seconds, 0.0), LONGEST_REST) if math.isfinite(seconds) else 0.0


def _proxy(url: httpx.URL) -> str | None:
    """The proxy that the environment names for an address."""
    return None if urllib.request.proxy_bypass(url.host) else urllib.request.getproxies().get(url.scheme)
