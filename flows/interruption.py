"""Ctrl-C, SIGTERM and batch systems' signals: a command takes down what it started, and ends with 130 or 143."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

GOES_ON = "what was published stays, the same command goes on from there"
# Batch systems announce the end of a job by SIGTERM or by one of the last three.
_NAMES = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGXCPU")
_SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))  # Windows has the first two


@dataclass
class Interruption:
    """How this process ends when it is interrupted; one object, since a process has one set of signal handlers."""

    promise: str = ""  # what holds if the command is interrupted now; its last words then
    # the process ends without what libraries do at exit: Prefect would try for minutes to reach a dead server
    leaves_at_once: bool = False
    orderly_s: float = 10.0  # seconds that taking down a cluster and a server may take
    asked_at: float | None = None  # by :func:`time.monotonic`, when the first signal arrived

    def end_in_order(self) -> None:
        """From now on the first of these signals raises KeyboardInterrupt or SystemExit, once.

        Another signal within ``orderly_s`` changes nothing: a second exception would break what the first one takes
        down. A later one ends the process at once. What a shell started in the background, which ignores Ctrl-C, goes
        on ignoring it.
        """
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._end)

    def _end(self, number: int, frame: FrameType | None) -> None:
        if frame is not None and self.asked_at is not None:  # without a frame it is the first signal, see heeded
            if time.monotonic() - self.asked_at < self.orderly_s:
                return
            code = 128 + (number if number == signal.SIGINT else signal.SIGTERM)
            os.write(2, f"{self.last_words(code)}\n".encode())  # printing could be what was interrupted
            os._exit(code)
        self.asked_at = self.asked_at or time.monotonic()
        _raise(number)

    def last_words(self, code: int) -> str:
        """What an interrupted command says last."""
        how = "interrupted" if code == 128 + signal.SIGINT else "terminated"
        return f"{how}: {self.promise}" if self.promise else how


OF_THIS_PROCESS = Interruption()


def _raise(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + signal.SIGTERM)


def promise(what: str) -> None:
    """Say what holds if the command is interrupted from now on."""
    OF_THIS_PROCESS.promise = what


def leave_at_once() -> None:
    """See :attr:`Interruption.leaves_at_once`."""
    OF_THIS_PROCESS.leaves_at_once = True


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """While the block runs, these signals end it with what their handlers raise, wherever they arrive.

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
