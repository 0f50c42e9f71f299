"""Processes that use a store: what they write is private, and another process can find out whether they have ended.

A process id alone is reused, and means nothing after a restart or in another container.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self

_SEPARATOR = ":"
_STOPPED = "Tt"
_ENDED = "ZX"  # a zombie has ended; its parent has not yet asked for its exit code


@dataclass(frozen=True)
class ProcessIdentity:
    """A process, named so that another process can find out later whether it has ended.

    Attributes:
        boot: id of the kernel's boot; empty where the system has none.
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
    def is_checkable(self) -> bool:
        """Whether this process can find out if that one is alive: same boot, same namespace of ids."""
        return bool(self.boot) and self.is_of_this_boot and self.namespace == _pid_namespace()

    @property
    def is_gone(self) -> bool:
        """Whether the process is known to have ended; False where it is not :attr:`is_checkable`."""
        return self.is_checkable and _started(self.pid) != self.started

    @property
    def is_stopped(self) -> bool:
        """Whether the process exists and is stopped, by SIGSTOP, Ctrl-Z or a debugger."""
        return self.is_checkable and not self.is_gone and _stat(self.pid)[0] in _STOPPED


def keep_private() -> None:
    """Have this process write files that only their owner reads, and no image of its memory where it crashes.

    It holds recordings or words. Its children inherit both.
    """
    os.umask(0o077)
    try:
        import resource
    except ModuleNotFoundError:  # Windows, which writes no core files
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


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
    """The fields of /proc/PID/stat from the state on; ``X``, the state of a dead process, where there is none."""
    return _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split() or ["X"]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # no such process, or a system without /proc
        return ""
