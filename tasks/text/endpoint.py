"""Where texts may be sent: one host, and another machine only where the user names it in the same call.

Transcripts are intimate, so what may be sent is decided in one place (:class:`Gate`), through which every byte passes:
it refuses another host than the one that was agreed to, whatever a server answers.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import cast
from urllib.parse import SplitResult, urlsplit

import httpx2
import openai

from tasks.text.budget import Budget


class EndpointError(ValueError):
    """The texts may not be sent there; nothing was."""


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible service.

    Attributes:
        base_url: of its API, without the key.
        host: the one host that is spoken to, with its port where the URL has one.
        is_here: it is this machine: nothing leaves it.
    """

    base_url: str
    host: str
    is_here: bool


def agree(base_url: str, send_to: str | None, *, sending: bool = True) -> Endpoint:
    """The endpoint, if the texts may be sent there.

    Args:
        base_url: ``https://host/v1``.
        send_to: the host that the user has agreed to in this call; with ``http://`` before it where the connection
            is not encrypted. This machine needs none.
        sending: it is used, not only reckoned with.

    Raises:
        EndpointError: the URL is none, holds a key, or the user has not agreed to its host.
    """
    url = _parsed(base_url)
    host = (url.hostname or "").lower()
    here = _is_loopback(host)
    if not here and sending:
        wanted = host if url.scheme == "https" else f"http://{host}"
        if (send_to or "").lower() != wanted:
            given = f"--send-transcripts-to {send_to} is another host" if send_to else "nobody agreed to that"
            plain = "" if url.scheme == "https" else " (not encrypted: others on the way can read it)"
            raise EndpointError(
                f"scoring sends transcripts and stories to {host}{plain}, and {given}: "
                f"if the participants agreed to it, add --send-transcripts-to {wanted}"
            )
    return Endpoint(base_url.rstrip("/"), host, here)


def _parsed(base_url: str) -> SplitResult:
    try:
        url = urlsplit(base_url)
        _ = url.port
    except ValueError:
        raise EndpointError("--base-url is no URL: it is like https://host/v1") from None
    # Whatever else is in it may be a key, so it is not repeated.
    if url.username or url.password or url.query or url.fragment:
        raise EndpointError(
            "--base-url holds a user, a password or a query, perhaps a key: a key comes from the environment "
            "(--key-variable), as a URL is in logs and histories"
        )
    if url.scheme not in ("http", "https") or not url.hostname:
        raise EndpointError("--base-url is no URL of a service: it is like https://host/v1")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Gate(httpx2.BaseTransport):
    """What every request passes: to the one host only, and within the budget.

    A request that was sent and never answered may have been paid for, so it counts.

    Attributes:
        sent: how many requests went out.
    """

    def __init__(self, endpoint: Endpoint, budget: Budget, inner: httpx2.BaseTransport) -> None:
        self._endpoint = endpoint
        self._budget = budget
        self._inner = inner
        self._lock = Lock()
        self.sent = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if (request.url.host or "").lower() != self._endpoint.host:
            raise EndpointError("a request to another host than the one that was agreed to was not sent")
        self._budget.check_attempt()
        with self._lock:
            self.sent += 1
        try:
            answer = self._inner.handle_request(request)
            content = b"".join(cast(Iterable[bytes], answer.stream))
        except httpx2.TransportError:
            self._budget.lost()
            raise
        answer.close()
        return httpx2.Response(answer.status_code, headers=answer.headers, content=content, request=request)

    def close(self) -> None:
        self._inner.close()


@contextmanager
def connected(
    endpoint: Endpoint, budget: Budget, key: str, timeout_s: float, retries: int, proxy: str | None = None
) -> Iterator[tuple[openai.OpenAI, Gate]]:
    """A client that speaks to the endpoint only, and the gate that its requests pass.

    The environment's proxies, hosts' keys in ~/.netrc and the like are not used; nor is a redirect followed.
    """
    for name in ("openai", "httpx2", "httpcore2"):  # at DEBUG, which a variable can set, they log what is sent
        logging.getLogger(name).setLevel(logging.WARNING)
    gate = Gate(endpoint, budget, httpx2.HTTPTransport(proxy=proxy))
    with httpx2.Client(transport=gate, trust_env=False, follow_redirects=False) as http:
        yield (
            openai.OpenAI(
                api_key=key, base_url=endpoint.base_url, timeout=timeout_s, max_retries=retries, http_client=http
            ),
            gate,
        )
