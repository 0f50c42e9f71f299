"""Waiting for processes as long as they make progress: by the clock, a busy machine would look like a hang."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_TICKS_S = os.sysconf("SC_CLK_TCK")
_LOOK_EVERY_S = 1.0  # a look reads the state of every process of the machine
_LEAST_SHARE = 0.02  # of a processor; a process that only polls uses less


class Patience:
    """Whether to go on waiting for processes.

    Progress is a file that grows, or CPU time of the processes and of all that they have started: 2 % of a processor
    since the last progress.

    Args:
        pids: gives the processes by now; they may be replaced.
        files: that they write, such as their log.
        stalled_s: without any progress, waiting is over after this time.
        limit_s: it is over after this time, whatever they do.
        clock: seconds.
        cpu_s: CPU-seconds of processes and their descendants.
    """

    def __init__(
        self,
        pids: Callable[[], Iterable[int]],
        *files: Path,
        stalled_s: float,
        limit_s: float,
        clock: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[Iterable[int]], float] | None = None,
    ) -> None:
        self._pids, self._files = pids, files
        self.stalled_s, self.limit_s = stalled_s, limit_s
        self._clock, self._cpu_s = clock, cpu_s or cpu_seconds
        self._began = self._last = self._looked = clock()
        self._used, self._written = self._cpu_s(pids()), self._sizes()

    def why_over(self) -> str:
        """Why waiting is over, as the end of a sentence about the processes; empty while it is not."""
        now = self._clock()
        if now - self._looked < _LOOK_EVERY_S:
            return ""
        self._looked, used, written = now, self._cpu_s(self._pids()), self._sizes()
        if now - self._began > self.limit_s:
            return f"not ready after {self.limit_s:.0f} s"
        if written != self._written or used - self._used >= _LEAST_SHARE * max(now - self._last, 1.0):
            self._last, self._used, self._written = now, used, written
        self._used = min(self._used, used)  # a process that ended took its time along
        return f"without any progress for {self.stalled_s:.0f} s" if now - self._last > self.stalled_s else ""

    def _sizes(self) -> list[int]:
        return [_size(path) for path in self._files]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time of living processes and all of their descendants, with those that they have waited for."""
    children: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    for pid, parent, ticks in _processes():
        children.setdefault(parent, []).append(pid)
        used[pid] = ticks
    remaining, seen = list(pids), set[int]()
    while remaining:
        pid = remaining.pop()
        if pid not in seen:
            seen.add(pid)
            remaining += children.get(pid, [])
    return sum(used.get(pid, 0) for pid in seen) / _TICKS_S


def _processes() -> Iterator[tuple[int, int, int]]:
    """Every process of this machine: its id, its parent's, and its clock ticks."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):  # it has ended
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                yield int(name), int(fields[1]), sum(map(int, fields[11:15]))
