"""Looking at a soak's processes: which part each plays, what it listens on, and what of that is there in the end."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

_LISTENING = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")
# Not the semaphores of Python's multiprocessing: 32 bytes each, without data or an owner's name, which stay until
# the next boot where everything is killed in the same moment, Python's own tracker of them included.
_SHARED_MEMORY = re.compile(r"/dev/shm/(?!sem\.)\S+")


class Role(StrEnum):
    """The part that a process plays in a run."""

    DRIVER = "driver"  # the command, with Dask's scheduler and its nannies
    SERVER = "Prefect server"
    WORKER = "Dask worker"
    TRACKER = "resource tracker"
    REAPER = "reaper"
    TOOL = "tool"
    TOOLS_CHILD = "tool's child"
    BESIDE = "command beside"
    READER = "reading training job"
    OTHER = "other"


_ROLES = (
    (Role.SERVER, "prefect server start"),
    (Role.SERVER, "prefect.server.api"),
    (Role.REAPER, "reaper_process.py"),
    (Role.TRACKER, "multiprocessing.resource_tracker"),
    (Role.WORKER, "multiprocessing.forkserver"),  # and the process that workers are forked from
    (Role.DRIVER, "main; main() extract"),
    (Role.BESIDE, "main; main()"),
    (Role.READER, "-m benchmarks.soak.reader"),
    (Role.TOOL, "FeatureExtraction"),
    (Role.TOOLS_CHILD, "sleep "),
    (Role.TOOLS_CHILD, "gunzip "),
)


@dataclass(frozen=True)
class ProcessIdentity:
    """A process; its id may be another's later, so with its start."""

    pid: int
    started: str
    line: str = field(compare=False)

    @property
    def role(self) -> Role:
        return next((role for role, part in _ROLES if part in self.line), Role.OTHER)


def of_the_soak(folder: Path) -> list[ProcessIdentity]:
    """Every living process that mentions the folder, but this one."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):  # it ended while we looked
                if process := _look_at(int(name), str(folder)):
                    found.append(process)
    return sorted(found, key=lambda each: int(each.started))


def _look_at(pid: int, folder: str) -> ProcessIdentity | None:
    process = Path(f"/proc/{pid}")
    line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    mentions = (process / "environ").read_bytes().decode(errors="replace") + line + os.readlink(process / "cwd")
    if folder not in mentions:
        return None
    started = started_at(pid)
    return ProcessIdentity(pid, started, line) if started else None


def started_at(pid: int) -> str:
    """When the process started, in the kernel's ticks; empty where there is none, or a dead one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


@dataclass
class Holdings:
    """What the soak's processes were seen to hold that could outlive them."""

    listening: dict[str, str] = field(default_factory=dict)  # a socket's inode: what it is
    shared_memory: set[str] = field(default_factory=set)

    def note(self, processes: list[ProcessIdentity]) -> None:
        """Remember what these hold now."""
        listening = _listening()
        for process in processes:
            with contextlib.suppress(OSError):
                for inode in _sockets_of(process.pid) & listening.keys():
                    self.listening[inode] = f"{listening[inode]} of the {process.role}"
                maps = Path(f"/proc/{process.pid}/maps").read_text()
                self.shared_memory |= set(_SHARED_MEMORY.findall(maps))

    def left(self) -> Iterator[str]:
        """What of it is still there."""
        for inode in sorted(self.listening.keys() & _listening().keys()):
            yield f"still listening: {self.listening[inode]}"
        for path in sorted(self.shared_memory):
            if Path(path).exists():
                yield f"shared memory left: {path}"


def _sockets_of(pid: int) -> set[str]:
    found = set()
    folder = f"/proc/{pid}/fd"
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if match := _SOCKET.fullmatch(os.readlink(f"{folder}/{name}")):
                found.add(match[1])
    return found


def _listening() -> dict[str, str]:
    """Every listening socket of this machine: its inode, and where it listens."""
    found = {}
    for table in ("tcp", "tcp6"):
        for line in _lines(f"/proc/net/{table}"):
            fields = line.split()
            if fields[3] == _LISTENING:
                found[fields[9]] = f"port {int(fields[1].rpartition(':')[2], 16)}"
    for line in _lines("/proc/net/unix"):
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and int(fields[3], 16) & 0x10000:  # it accepts connections
            found[fields[6]] = f"socket {fields[7]}"
    return found


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()[1:] if Path(path).exists() else []
