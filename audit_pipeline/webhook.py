"""One post to a webhook within a bounded time. Its address is a secret: it stands in no error and no log line."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
from typing import Any

import httpx


class NotPostedError(Exception):
    """A post that was not taken. ``unanswered`` where it may have been: it was sent, and no answer came."""

    def __init__(self, reason: str, unanswered: bool = False) -> None:
        super().__init__(reason)
        self.unanswered = unanswered


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
        await response.aclose()
    if response.is_redirect:
        raise NotPostedError(f"it answered {response.status_code}, a redirect, which is not followed")
    if not response.is_success:
        raise NotPostedError(f"it answered {response.status_code}")


def _proxy(url: httpx.URL) -> str | None:
    """The proxy that the environment names for an address."""
    return None if urllib.request.proxy_bypass(url.host) else urllib.request.getproxies().get(url.scheme)
