"""Running an external tool that must not outlive us, hang for ever, or fill the memory with what it prints."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_KEPT_CHARACTERS = 2000


@dataclass(frozen=True)
class ToolResult:
    """How a tool ended.

    Attributes:
        exit_code: as a shell tells it: 128 + n for a tool that signal n ended.
        timed_out: it was killed because its time was up.
        output: the end of what it printed, both streams, shortened.
    """

    exit_code: int
    timed_out: bool
    output: str


def run_tool(command: list[str], *, folder: Path, timeout_s: float, threads: int) -> ToolResult:
    """Run ``command`` in ``folder`` in a process group of its own.

    The group is killed as a whole on a timeout and on every error here; the tool itself dies with this process,
    however that ends (parent-death signal, set by ``parent_death.py`` between fork and exec).

    Raises:
        OSError: the command cannot be started.
    """
    guard = [sys.executable, "-I", str(Path(__file__).with_name("parent_death.py")), str(os.getpid())]
    environment = {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(folder),
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
    }
    with tempfile.TemporaryFile(dir=folder) as printed:
        process = subprocess.Popen(
            [*guard, *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        timed_out = False
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _kill_group(process)
        code = process.returncode
        return ToolResult(code if code >= 0 else 128 - code, timed_out, _end_of(printed, folder))


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # also what the tool left running behind it
    process.wait()


def _end_of(printed: BinaryIO, folder: Path) -> str:
    printed.seek(0, os.SEEK_END)
    printed.seek(max(0, printed.tell() - _KEPT_CHARACTERS))
    text = printed.read().decode("utf-8", errors="replace")
    return text.replace(str(folder), "…").strip()
