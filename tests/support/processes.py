"""The processes of a run and what they listen on, from /proc; and waiting for them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasks.tools.patience import Patience

LISTENING = "0A"
HANG_S = 900.0  # without progress
_LONGEST_S = 1700.0  # whatever happens: shorter than the limit of a test


def processes_with(mark: str) -> list[int]:
    """The processes whose environment holds this text when they begin, whoever their parent is."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def ports_of(pids: list[int]) -> set[tuple[str, int]]:
    """The addresses (as /proc writes them, in hexadecimal) and ports on which these processes listen."""
    sockets = set()
    for pid in pids:
        for file in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(str(file.readlink()))
            except OSError:
                continue
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in sockets:
                address, port = fields[1].split(":")
                found.add((address, int(port, 16)))
    return found


def alive(pid: int) -> bool:
    """Whether it runs; what has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children(parent: int, name: str = "") -> list[int]:
    """The children of a process on whose command line this stands."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                owner = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                if owner == parent and name in (entry / "cmdline").read_text():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_for(condition: Callable[[], object], what: str = "it did not happen") -> None:
    """Wait until the condition holds; fails where nothing that this process has started makes progress any more."""
    patience = Patience(lambda: children(os.getpid()), stalled_s=HANG_S, limit_s=_LONGEST_S)
    while not condition():
        assert not (why := patience.why_over()), f"{what}: {why}"
        time.sleep(0.05)


def ended(process: subprocess.Popen[Any]) -> int:
    """How a process ended, once it has."""
    wait_for(lambda: process.poll() is not None, "a process did not end")
    return int(process.returncode)
