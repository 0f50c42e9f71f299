"""Where texts may be sent: one host, and another machine only where the user names it in the same call.

Transcripts are intimate, so what may be sent is decided in one place (:class:`Gate`), through which every byte passes:
it refuses another host than the one that was agreed to, whatever a server answers.
"""

from __future__ import annotations

import ipaddress
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

import httpcore2
import httpx2
import openai

from storyframes_empathy.text.budget import Budget

MOST_BYTES = 1_000_000  # of an answer in words
_CONNECTIONS = 100  # at once


class EndpointError(ValueError):
    """The texts may not be sent there; nothing was."""


class AnswerTooLongError(ValueError):
    """An answer is longer than any answer is, or packed so that its length cannot be known; it was not read."""


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible service.

    Attributes:
        base_url: of its API, without the key.
        host: the one host that is spoken to, with its port where the URL has one.
        is_here: it is this machine, and so is the proxy: nothing leaves it.
        proxy: the URL of the one that it is reached through, which may hold a password; None for none.
    """

    base_url: str
    host: str
    is_here: bool
    proxy: str | None = field(default=None, repr=False)


def agree(base_url: str, send_to: Sequence[str] = (), *, proxy: str | None = None, sending: bool = True) -> Endpoint:
    """The endpoint, if the texts may be sent there, and through the proxy.

    Args:
        base_url: ``https://host/v1``.
        send_to: the hosts that the user has agreed to in this call, the proxy's too; with ``http://`` before one where
            the connection to it is not encrypted. This machine needs none.
        proxy: ``https://host:3128``; a user and a password may be in it.
        sending: it is used, not only reckoned with.

    Raises:
        EndpointError: a URL is none, ``base_url`` holds a key, or the user has not agreed to a host.
    """
    url = _parsed(base_url)
    recipients = [("to", url)] + ([("through the proxy", _parsed_proxy(proxy))] if proxy else [])
    agreed = {host.lower() for host in send_to}
    is_here = True
    for way, recipient in recipients:
        host = (recipient.hostname or "").lower()
        if _is_loopback(host):
            continue
        is_here = False
        word = host if recipient.scheme == "https" else f"http://{host}"
        if sending and word not in agreed:
            plain = "" if recipient.scheme == "https" else " (not encrypted: others on the way can read it)"
            given = f"--send-transcripts-to {' '.join(send_to)} is another host" if send_to else "nobody agreed to that"
            raise EndpointError(
                f"scoring sends transcripts and stories {way} {host}{plain}, and {given}: "
                f"if the participants agreed to it, add --send-transcripts-to {word}"
            )
    return Endpoint(base_url.rstrip("/"), (url.hostname or "").lower(), is_here, proxy)


def _parsed(base_url: str) -> SplitResult:
    url = _split(base_url, "--base-url is no URL: it is like https://host/v1")
    # Whatever else is in it may be a key, so it is not repeated.
    if url.username or url.password or url.query or url.fragment:
        raise EndpointError(
            "--base-url holds a user, a password or a query, perhaps a key: a key comes from the environment "
            "(--key-variable), as a URL is in logs and histories"
        )
    if url.scheme not in ("http", "https") or not url.hostname:
        raise EndpointError("--base-url is no URL of a service: it is like https://host/v1")
    return url


def _parsed_proxy(proxy: str) -> SplitResult:
    fault = "--proxy is no URL of a proxy: it is like https://host:3128"  # a password may be in it
    url = _split(proxy, fault)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise EndpointError(fault)
    return url


def _split(text: str, fault: str) -> SplitResult:
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError:
        raise EndpointError(fault) from None
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Gate(httpx2.BaseTransport):
    """What every request passes: to the one host only, and within the budget; and every answer: not too long or late.

    A request that was sent and never answered may have been paid for, so it counts. The timeout of a request is for its
    whole answer, from connecting to the last byte, however slowly that trickles.

    Attributes:
        sent: how many requests went out.
    """

    def __init__(self, endpoint: Endpoint, budget: Budget, most_bytes: int = MOST_BYTES) -> None:
        self._endpoint = endpoint
        self._budget = budget
        self._most_bytes = most_bytes
        self._clock = _Clock()
        self._pool = _pool(endpoint.proxy, self._clock)
        self._lock = threading.Lock()
        self.sent = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if (request.url.host or "").lower() != self._endpoint.host:
            raise EndpointError("a request to another host than the one that was agreed to was not sent")
        self._budget.check_attempt()
        with self._lock:
            self.sent += 1
        request.headers["Accept-Encoding"] = "identity"  # a short answer may be packed that is endless
        self._clock.end = time.monotonic() + request.extensions["timeout"]["read"]
        raw = httpcore2.Request(
            request.method,
            httpcore2.URL(
                scheme=request.url.raw_scheme,
                host=request.url.raw_host,
                port=request.url.port,
                target=request.url.raw_path,
            ),
            headers=request.headers.raw,
            content=request.read(),
            extensions=request.extensions,
        )
        try:
            answer = self._pool.handle_request(raw)
            try:
                content = self._read(answer)
            finally:
                answer.close()
        except httpcore2.TimeoutException:
            self._budget.lost()
            raise httpx2.ReadTimeout("no whole answer in time", request=request) from None
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ProxyError) as error:
            self._budget.lost()
            raise httpx2.NetworkError(type(error).__name__, request=request) from None
        return httpx2.Response(answer.status, headers=answer.headers, content=content, request=request)

    def _read(self, answer: httpcore2.Response) -> bytes:
        packed = {value for name, value in answer.headers if name.lower() == b"content-encoding"} - {b"identity", b""}
        if packed:
            raise AnswerTooLongError("it answered in a packed form that was not asked for")
        content = bytearray()
        for part in cast(Iterable[bytes], answer.stream):
            content += part
            if len(content) > self._most_bytes:
                raise AnswerTooLongError(f"it answered with more than {self._most_bytes // 1_000_000} MB")
        return bytes(content)

    def close(self) -> None:
        self._pool.close()


class _Clock(threading.local):
    """When the answer that this thread waits for must be there; every thread has its own."""

    end = 0.0

    def left(self) -> float:
        seconds = self.end - time.monotonic()
        if seconds <= 0:
            raise httpcore2.ReadTimeout
        return seconds


class _TimedStream(httpcore2.NetworkStream):
    """A connection on which nothing is waited for beyond the clock's end."""

    def __init__(self, inner: httpcore2.NetworkStream, clock: _Clock) -> None:
        self._inner = inner
        self._clock = clock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._clock.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._clock.left())

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return _TimedStream(self._inner.start_tls(ssl_context, server_hostname, self._clock.left()), self._clock)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _TimedBackend(httpcore2.SyncBackend):
    def __init__(self, clock: _Clock) -> None:
        self._clock = clock

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        inner = super().connect_tcp(host, port, self._clock.left(), local_address, socket_options)
        return _TimedStream(inner, self._clock)


def _pool(proxy: str | None, clock: _Clock) -> httpcore2.ConnectionPool:
    context, backend = httpx2.create_ssl_context(), _TimedBackend(clock)
    if proxy is None:
        return httpcore2.ConnectionPool(context, max_connections=_CONNECTIONS, network_backend=backend)
    chosen = httpx2.Proxy(proxy)
    return httpcore2.HTTPProxy(
        str(chosen.url),
        proxy_auth=chosen.raw_auth,
        ssl_context=context,
        max_connections=_CONNECTIONS,
        network_backend=backend,
    )


@contextmanager
def connected(
    endpoint: Endpoint, budget: Budget, key: str, timeout_s: float, retries: int, *, most_bytes: int = MOST_BYTES
) -> Iterator[tuple[openai.OpenAI, Gate]]:
    """A client that speaks to the endpoint only, and the gate that its requests pass.

    The environment's proxies, hosts' keys in ~/.netrc and the like are not used; nor is a redirect followed.
    """
    for name in ("openai", "httpx2", "httpcore2"):  # at DEBUG, which a variable can set, they log what is sent
        logging.getLogger(name).setLevel(logging.WARNING)
    gate = Gate(endpoint, budget, most_bytes)
    with httpx2.Client(transport=gate, trust_env=False, follow_redirects=False) as http:
        yield (
            openai.OpenAI(
                api_key=key, base_url=endpoint.base_url, timeout=timeout_s, max_retries=retries, http_client=http
            ),
            gate,
        )
