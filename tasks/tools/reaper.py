"""Starting a second process that cleans up (process groups, containers, folders) when this one is killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Reaper:
    """The reaper of one block; see ``reaper_process.py``."""

    pipe: int

    def group_began(self, group: int) -> None:
        """From now on this process group is to be killed with us."""
        self._tell(f"+{group}\n")

    def group_ended(self, group: int) -> None:
        """It is gone, and its id may become another's."""
        self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # killed: what it would have done the next run does
            os.write(self.pipe, line.encode())


@contextlib.contextmanager
def reaper(folder: Path | None = None, command: Sequence[str] = ()) -> Iterator[Reaper]:
    """While the block runs, a reaper stands by; at the end of the block it does its work as well.

    Args:
        folder: to remove.
        command: to run before.
    """
    script = str(Path(__file__).with_name("reaper_process.py"))
    process = subprocess.Popen(
        [sys.executable, "-I", script, str(folder or ""), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # so that a signal to our group leaves it to its work
        bufsize=0,
    )
    if process.stdin is None:  # for the type checker: it was asked for
        raise AssertionError
    try:
        yield Reaper(process.stdin.fileno())
    finally:
        process.stdin.close()
        process.wait()
