"""A server on the loopback that answers embeddings requests as told, and keeps what it was asked."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSION = 4


def vector_of(text: str, role: object = None) -> list[float]:
    """A vector made of a text and of the request's input_type."""
    digest = hashlib.sha256(f"{role}|{text}".encode()).digest()
    return [float(byte) for byte in digest[:DIMENSION]]


def sound(body: dict[str, Any], usage: bool = True) -> dict[str, Any]:
    """The answer of a server without faults: 3 tokens a text."""
    items = [
        {"object": "embedding", "index": i, "embedding": vector_of(text, body.get("input_type"))}
        for i, text in enumerate(body["input"])
    ]
    answer: dict[str, Any] = {"object": "list", "data": items, "model": body["model"]}
    if usage:
        answer["usage"] = {"prompt_tokens": 3 * len(items), "total_tokens": 3 * len(items)}
    return answer


@dataclass
class Reply:
    """One answer: a status, a body made from the request's, headers, and how long it takes."""

    status: int = 200
    make: Callable[[dict[str, Any]], Any] = sound
    headers: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass
class EmbeddingServer:
    """``replies`` are given in turn; after them ``rule`` answers, which is sound unless told otherwise."""

    base_url: str = ""
    replies: list[Reply] = field(default_factory=list)
    rule: Callable[[dict[str, Any]], Reply] = lambda body: Reply()
    bodies: list[dict[str, Any]] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


@contextmanager
def serving() -> Iterator[EmbeddingServer]:
    """A server that runs within the block."""
    server = EmbeddingServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.bodies.append(body)
            server.authorizations.append(self.headers.get("Authorization"))
            server.paths.append(self.path)
            server.keys.append(self.headers.get("Idempotency-Key"))
            reply = server.replies.pop(0) if server.replies else server.rule(body)
            time.sleep(reply.seconds)
            made = reply.make(body)
            content = made if isinstance(made, bytes) else json.dumps(made).encode()
            try:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                pass  # the client has gone

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    server.base_url = f"http://127.0.0.1:{httpd.server_address[1]}/v1"
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
