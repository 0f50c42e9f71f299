"""Passing on what has come of each unit of work, to a terminal or to the server, without the flow knowing which."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from tasks.extract import Outcome


class Watcher(Protocol):
    """Somebody who watches a run."""

    def planning(self, session_id: str, number: int, count: int) -> None:
        """This session is being planned."""

    def planned(self, due: int, idle: int, impossible: int) -> None:
        """So many features are due, so many need nothing done, and so many cannot be made: a file is not there."""

    def finished(self, outcome: Outcome) -> None:
        """One unit of work has ended."""

    def warned(self, line: str) -> None:
        """Something is wrong, and the run goes on; called from any thread."""


class _Nobody:
    def planning(self, session_id: str, number: int, count: int) -> None: ...

    def planned(self, due: int, idle: int, impossible: int) -> None: ...

    def finished(self, outcome: Outcome) -> None: ...

    def warned(self, line: str) -> None: ...


_NOBODY: Watcher = _Nobody()
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


def watcher() -> Watcher:
    """Who watches this run."""
    return _watcher.get() or _NOBODY


@contextmanager
def watched_by(somebody: Watcher) -> Iterator[None]:
    """Let ``somebody`` watch the runs in this block."""
    token = _watcher.set(somebody)
    try:
        yield
    finally:
        _watcher.reset(token)
