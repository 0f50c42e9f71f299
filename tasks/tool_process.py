"""Running an external tool that must not outlive us, hang for ever, or fill the memory with what it prints."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_KEPT_BYTES = 4000


@dataclass(frozen=True)
class ToolResult:
    """How a tool ended.

    Attributes:
        exit_code: as a shell tells it: 128 + n for a tool that signal n ended.
        timed_out: it was killed because its time was up.
        output: the end of what it printed, both streams.
    """

    exit_code: int
    timed_out: bool
    output: str


def thread_environment(threads: int) -> dict[str, str]:
    """What keeps a tool's numerical libraries to this many threads."""
    return {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}


def run_tool(command: list[str], *, folder: Path, timeout_s: float, environment: Mapping[str, str]) -> ToolResult:
    """Run ``command`` in ``folder`` in a process group of its own.

    The group is killed as a whole on a timeout and on every error here; the tool itself dies with this process,
    however that ends (parent-death signal, set by ``parent_death.py`` between fork and exec). Of what it prints only
    the end is kept, however much that is.
    """
    guard = [sys.executable, "-I", str(Path(__file__).with_name("parent_death.py")), str(os.getpid())]
    process = subprocess.Popen(
        [*guard, *command],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    if process.stdout is None:  # for the type checker: it was asked for
        raise AssertionError
    tail = _Tail(process.stdout)
    timed_out = False
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        _kill_group(process)
    code = process.returncode
    return ToolResult(code if code >= 0 else 128 - code, timed_out, tail.text())


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # also what the tool left running behind it
    process.wait()


class _Tail:
    """Reads a stream to its end in a thread and remembers the last of it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._kept = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._stream:
            while block := self._stream.read(1 << 16):
                self._kept = (self._kept + block)[-_KEPT_BYTES:]

    def text(self) -> str:
        self._thread.join(10)  # a grandchild that escaped the group may hold the stream open
        return self._kept.decode("utf-8", errors="replace").strip()
