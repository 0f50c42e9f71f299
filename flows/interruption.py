"""Ctrl-C and SIGTERM: the work is taken down in order, and the process ends by the same signal."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

GOES_ON = "what was published stays, the same command goes on from there"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ORDERLY_S = 10.0  # as long as taking down a cluster and a server may well take

_asked_at = 0.0


def end_in_order() -> None:
    """From now on the first Ctrl-C or SIGTERM raises KeyboardInterrupt or SystemExit, once, and all is taken down.

    Whoever asks again meanwhile changes nothing, as a second exception would break what the first one takes down; who
    asks after ten seconds more ends the process at once. What a shell started in the background, which ignores Ctrl-C,
    goes on ignoring it.
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    global _asked_at
    again = frame is not None and _asked_at > 0  # without a frame it is the first one, see heeded
    if again and time.monotonic() - _asked_at < _ORDERLY_S:
        return
    if again:
        os.write(2, f"{described(128 + number)}\n".encode())  # printing could be what was interrupted
        os._exit(128 + number)
    _asked_at = _asked_at or time.monotonic()
    _raise(number)


def _raise(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """While the block runs, Ctrl-C and SIGTERM end it with what their handlers raise, wherever they arrive.

    A handler raises wherever the program happens to be. In the middle of a serializer of pydantic, where Prefect spends
    much time, what it raises comes out as a serialization error; the handler is then called again here.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # no handler runs here
        return
    arrived: list[signal.Signals] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def noting(handler: Callable[[int, FrameType | None], object]) -> Callable[[int, FrameType | None], None]:
        def note(number: int, frame: FrameType | None) -> None:
            arrived.append(signal.Signals(number))
            handler(number, frame)

        return note

    for number, handler in before.items():
        if callable(handler):
            signal.signal(number, noting(handler))
    try:
        yield
    except Exception:
        for number in arrived:
            again = before[number]
            if callable(again):
                again(number, None)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_promise = ""
_at_once = False


def promise(what: str) -> None:
    """Say what holds if the command is interrupted from now on: the last words of the command then."""
    global _promise
    _promise = what


def leave_at_once() -> None:
    """End the process without what libraries do at exit: Prefect would try for minutes to reach a dead server."""
    global _at_once
    _at_once = True


def is_leaving_at_once() -> bool:
    return _at_once


def described(code: int) -> str:
    """The last words of a command that was interrupted."""
    how = "interrupted" if code == 128 + signal.SIGINT else "terminated"
    return f"{how}: {_promise}" if _promise else how
