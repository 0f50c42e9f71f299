"""A stand-in for a language model's service, to try ``storyframes empathy score`` without one.

It listens on this machine only.

    python -m demo.stub_endpoint 8001

It speaks as much of the OpenAI protocol as scoring needs, and answers with a number that is a digest of the question:
always the same, and it means nothing.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Reply:
    """What a request gets."""

    content: str = "0.5"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None  # instead of a completion


def digest_number(request: dict[str, Any]) -> Reply:
    """A number on the scale of the question, 0 to 1 or 1 to 4, that depends on every character of it."""
    question = json.dumps(request.get("messages", request.get("input")))
    share = int.from_bytes(hashlib.sha256(question.encode()).digest()[:4], "big") / 2**32
    return Reply(f"{1 + 3 * share if 'on a scale from 1 to 4' in question else share:.2f}")


class StubEndpoint(ThreadingHTTPServer):
    """Answers ``POST`` to chat/completions with what ``reply`` makes of each request, and to embeddings with digests.

    Attributes:
        requests: all that came, with their headers under ``headers``.
    """

    daemon_threads = True

    def __init__(self, reply: Callable[[dict[str, Any]], Reply] = digest_number, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.reply = reply
        self.requests: list[dict[str, Any]] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: StubEndpoint

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append(
                request | {"headers": {name.lower(): value for name, value in self.headers.items()}, "path": self.path}
            )
        reply = self.server.reply(request)
        made = _embeddings(request) if "input" in request else _completion(request, reply)
        body = reply.body if reply.body is not None else json.dumps(made).encode()
        with suppress(ConnectionError):  # whoever asked has gone
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Says nothing: what was asked is nobody's business."""


def _completion(request: dict[str, Any], reply: Reply) -> dict[str, Any]:
    words = sum(len(message["content"].split()) for message in request["messages"])
    return {
        "id": "stub",
        "object": "chat.completion",
        "created": 0,
        "model": request["model"],
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": reply.content}}],
        "usage": {"prompt_tokens": words, "completion_tokens": 3, "total_tokens": words + 3},
    }


def _embeddings(request: dict[str, Any]) -> dict[str, Any]:
    """For each text 32 numbers that are a digest of it, in another order than they were asked for."""
    rows = [[byte / 255 - 0.5 for byte in hashlib.sha256(text.encode()).digest()] for text in request["input"]]
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "model": request["model"], "data": data[::-1], "usage": usage}


if __name__ == "__main__":
    server = StubEndpoint(port=int(sys.argv[1]) if len(sys.argv) > 1 else 8001)
    print(f"listening at {server.url}; Ctrl-C ends it")  # noqa: T201
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
