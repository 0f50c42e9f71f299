"""Running an external tool so that it cannot outlive this process, hang for ever or fill the memory with its output."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tasks.tools.reaper import Reaper

_KEPT_BEGINNING_BYTES = 64_000
_KEPT_END_BYTES = 4000
_PIPE_BYTES = 1 << 20
_LOOK_EVERY_S = 1.0


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
    """Run ``command`` in ``folder`` to its end; see :func:`running_tool`."""
    with running_tool(command, folder=folder, timeout_s=timeout_s, environment=environment, reaper=reaper) as tool:
        return tool.end()


@contextlib.contextmanager
def running_tool(
    command: list[str],
    *,
    folder: Path,
    timeout_s: float,
    environment: Mapping[str, str],
    reaper: Reaper | None = None,
    takes_input: bool = False,
) -> Iterator[RunningTool]:
    """``command``, running in ``folder`` in a process group of its own, and gone at the end of the block.

    The group is killed as a whole on a timeout and on every error here; the tool itself dies with this process,
    however that ends (parent-death signal, set by ``parent_death.py`` between fork and exec), and with a ``reaper``
    whatever the tool has started as well. Of what it prints only the beginning and the end are kept, however much
    that is. The files that it makes are its user's alone.

    Args:
        command: with an absolute path first.
        folder: where it runs.
        timeout_s: how long it is waited for, all in all; while nobody waits for it, it may take its time.
        environment: all of its environment.
        reaper: told of the process group.
        takes_input: whether something is written to its standard input, which is empty otherwise.
    """
    process = subprocess.Popen(
        guarded(command),
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        umask=0o077,
    )
    tool = RunningTool(process, timeout_s)
    if reaper:
        reaper.group_began(process.pid)
    try:
        yield tool
    finally:
        tool.stop()
        if reaper:
            reaper.group_ended(process.pid)


class RunningTool:
    """A tool that runs; made by :func:`running_tool`."""

    def __init__(self, process: subprocess.Popen[bytes], timeout_s: float) -> None:
        if process.stdout is None:  # for the type checker: it was asked for
            raise AssertionError
        self._process = process
        self._printed = _Printed(process.stdout)  # read all the time, so that a tool that prints never waits for us
        self._left_s = timeout_s
        self._timed_out = self._stopped = False
        if process.stdin:
            os.set_blocking(process.stdin.fileno(), False)
            with contextlib.suppress(OSError):  # fewer turns where the system allows it
                fcntl.fcntl(process.stdin.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def send(self, content: memoryview) -> bool:
        """Write to its standard input, as fast as it reads.

        Returns:
            False where it takes no more: it has closed its input, has ended, or its time is up and it is killed.
        """
        stdin = self._process.stdin
        if stdin is None or stdin.closed:
            return False
        place = select.poll()
        place.register(stdin, select.POLLOUT)
        content = content.cast("B")
        while content:
            if not self._wait(lambda seconds: bool(place.poll(1000 * seconds))):
                return False
            try:
                content = content[os.write(stdin.fileno(), content[:_PIPE_BYTES]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return False
        return True

    def end(self) -> ToolResult:
        """Close its input and wait until it has ended, or until its time is up and it is killed."""
        if self._process.stdin:
            self._process.stdin.close()
        self._wait(self._has_ended)
        self.stop()
        code = self._process.returncode
        beginning, end = self._printed.texts()
        return ToolResult(code if code >= 0 else 128 - code, self._timed_out, end, beginning)

    def stop(self) -> None:
        """Kill it, and what it left running behind it."""
        if self._stopped:  # its number may be somebody else's by now
            return
        self._stopped = True
        if self._process.stdin:
            self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _wait(self, happened: Callable[[float], bool]) -> bool:
        """Whether it happened before the tool ended and before its time was up; ``happened`` waits for some seconds."""
        began = time.monotonic()
        while not (done := happened(max(0.0, min(self._left_s - (time.monotonic() - began), _LOOK_EVERY_S)))):
            if self._has_ended(0):  # a pipe that something else holds open as well would never say so
                break
            if time.monotonic() - began >= self._left_s:
                self._timed_out = True
                self.stop()
                break
        self._left_s -= time.monotonic() - began
        return done

    def _has_ended(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


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
