"""The identity of a process, written into names and files, so that another process can tell later whether it has ended.

A process id alone does not do: ids are used again, and mean nothing after a restart or in another container.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

_SEPARATOR = ":"
_STOPPED = "Tt"
_ENDED = "ZX"  # a zombie has ended; only its parent has not asked yet


@dataclass(frozen=True)
class Owner:
    """One process.

    Attributes:
        boot: id of the kernel's boot; empty where the system tells none.
        namespace: of process ids: containers have their own.
        pid: in that namespace.
        started: when, in the kernel's ticks.
    """

    boot: str
    namespace: str
    pid: int
    started: str

    @classmethod
    def this_process(cls) -> Self:
        pid = os.getpid()
        return cls(_boot(), _pid_namespace(), pid, _started(pid))

    @classmethod
    def parse(cls, text: str, separator: str = _SEPARATOR) -> Self | None:
        """The owner that :meth:`text` named; None for anything else."""
        try:
            boot, namespace, pid, started = text.split(separator)
            return cls(boot, namespace, int(pid), started)
        except ValueError:
            return None

    def text(self, separator: str = _SEPARATOR) -> str:
        return separator.join((self.boot, self.namespace, str(self.pid), self.started))

    @property
    def is_of_this_boot(self) -> bool:
        return self.boot == _boot()

    @property
    def can_be_asked_after(self) -> bool:
        """Whether this process can tell at all if that one lives: same boot, same ids."""
        return bool(self.boot) and self.is_of_this_boot and self.namespace == _pid_namespace()

    @property
    def is_gone(self) -> bool:
        """Whether the process is known to have ended; False where that cannot be told from here."""
        return self.can_be_asked_after and _started(self.pid) != self.started

    @property
    def is_stopped(self) -> bool:
        """Whether the process is there and does not run, by SIGSTOP, Ctrl-Z or a debugger."""
        return self.can_be_asked_after and not self.is_gone and _stat(self.pid)[0] in _STOPPED


@cache
def _boot() -> str:
    return _read(Path("/proc/sys/kernel/random/boot_id")).strip()


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return "0"


def _started(pid: int) -> str:
    """When the process started; empty where there is none, or it has ended."""
    fields = _stat(pid)
    return fields[19] if fields[0] not in _ENDED else ""


def _stat(pid: int) -> list[str]:
    """What /proc tells of a process, from its state on; ``X``, as of a dead one, where there is none."""
    return _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split() or ["X"]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # no such process, or a system without /proc
        return ""
