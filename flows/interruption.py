"""Ctrl-C and SIGTERM: the work is taken down in order, and the process ends by the same signal."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

GOES_ON = "what was published stays, the same command goes on from there"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


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
