"""Running an external tool that must not outlive us, hang for ever, or fill the memory with what it prints."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tasks.tools.reaper import Reaper

_KEPT_BEGINNING_BYTES = 64_000
_KEPT_END_BYTES = 4000


@dataclass(frozen=True)
class ToolResult:
    """How a tool ended.

    Attributes:
        exit_code: as a shell tells it: 128 + n for a tool that signal n ended.
        timed_out: it was killed because its time was up.
        output: the end of what it printed, both streams.
        beginning: the beginning of it.
    """

    exit_code: int
    timed_out: bool
    output: str
    beginning: str = ""


def thread_environment(threads: int) -> dict[str, str]:
    """What keeps a tool's numerical libraries to this many threads."""
    return {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}


def guarded(command: Sequence[str]) -> list[str]:
    """The command, as one that the kernel kills when this process dies (see ``parent_death.py``)."""
    return [sys.executable, "-I", str(Path(__file__).with_name("parent_death.py")), str(os.getpid()), *command]


def run_tool(
    command: list[str],
    *,
    folder: Path,
    timeout_s: float,
    environment: Mapping[str, str],
    reaper: Reaper | None = None,
) -> ToolResult:
    """Run ``command`` in ``folder`` in a process group of its own.

    The group is killed as a whole on a timeout and on every error here; the tool itself dies with this process,
    however that ends (parent-death signal, set by ``parent_death.py`` between fork and exec), and with a ``reaper``
    whatever the tool has started as well. Of what it prints only the beginning and the end are kept, however much
    that is.
    """
    process = subprocess.Popen(
        guarded(command),
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    if process.stdout is None:  # for the type checker: it was asked for
        raise AssertionError
    printed = _Printed(process.stdout)
    if reaper:
        reaper.group_began(process.pid)
    timed_out = False
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
    finally:
        _kill_group(process)
        if reaper:
            reaper.group_ended(process.pid)
    code = process.returncode
    beginning, end = printed.texts()
    return ToolResult(code if code >= 0 else 128 - code, timed_out, end, beginning)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # also what the tool left running behind it
    process.wait()


class _Printed:
    """Reads a stream to its end in a thread and remembers the beginning and the end of it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._beginning = self._end = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with self._stream:
            while block := self._stream.read1(1 << 16):  # type: ignore[attr-defined]
                self._beginning += block[: _KEPT_BEGINNING_BYTES - len(self._beginning)]
                self._end = (self._end + block)[-_KEPT_END_BYTES:]

    def texts(self) -> tuple[str, str]:
        self._thread.join(10)  # a grandchild that escaped the group may hold the stream open
        return _as_text(self._beginning), _as_text(self._end)


def _as_text(printed: bytes) -> str:
    return printed.decode("utf-8", errors="replace").strip()
