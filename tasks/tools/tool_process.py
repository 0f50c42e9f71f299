"""Running an external tool so that it cannot outlive this process, hang for ever or fill the memory with its output.

Two guards see to it that nothing is left when this process is killed: the kernel kills the tool (``parent_death.py``),
and a second process, the reaper, kills what the tool has started and removes its folder (``reaper_process.py``).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
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

_KEPT_BEGINNING_BYTES = 64_000
_KEPT_END_BYTES = 4000
_PIPE_BYTES = 1 << 20
_LOOK_EVERY_S = 1.0
_SHOWN_CHARACTERS = 400
KILLED = 137
"""The exit code of a tool that was killed, for want of memory as a rule."""


@dataclass(frozen=True)
class ToolResult:
    """How a tool ended."""

    exit_code: int  # as in a shell: 128 + n for a tool that signal n ended
    timed_out: bool  # whether it was killed because its time was up
    output: str  # the end of what it printed, both streams
    beginning: str = ""  # the beginning of it

    def printed_last(self, *folders: Path) -> str:
        """The end of what it printed as the end of a sentence, from a word's beginning, without these paths."""
        text = self.output
        for folder in folders:
            text = text.replace(str(folder), "…")
        if len(text) > _SHOWN_CHARACTERS:
            text = "… " + re.sub(r"^\S*\s+", "", text[-_SHOWN_CHARACTERS:])
        return f"; it printed last: {text}" if text else ""


@dataclass(frozen=True)
class Reaper:
    """The reaper of one block; see ``reaper_process.py``."""

    pipe: int

    def group_began(self, group: int) -> None:
        """Kill this process group with us, from now on."""
        self._send(f"+{group}\n")

    def group_ended(self, group: int) -> None:
        """Forget this process group: its id may be used again."""
        self._send(f"-{group}\n")

    def _send(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the reaper was killed: the next run cleans up
            os.write(self.pipe, line.encode())


@contextlib.contextmanager
def reaper(folder: Path | None = None, command: Sequence[str] = ()) -> Iterator[Reaper]:
    """A second process runs the command and removes the folder at the end of the block, or when this one is killed."""
    script = str(Path(__file__).with_name("reaper_process.py"))
    process = subprocess.Popen(
        [sys.executable, "-I", script, str(folder or ""), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # so that a signal to our group does not reach it
        bufsize=0,
    )
    if process.stdin is None:  # for the type checker
        raise AssertionError
    try:
        yield Reaper(process.stdin.fileno())
    finally:
        process.stdin.close()
        process.wait()


def thread_environment(threads: int) -> dict[str, str]:
    """Variables that limit a tool's numerical libraries to this many threads."""
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
    """``command``, running in ``folder`` in a process group of its own, and killed at the end of the block.

    The whole group is killed on a timeout and on every error here. When this process ends, in whatever way, the tool
    dies with it, and with a ``reaper`` everything that the tool has started. Only the beginning and the end of what it
    prints are kept. Only this user can read the files that it makes.

    Args:
        command: with an absolute path first.
        timeout_s: how long the caller waits for it in total; time in which the caller does not wait is not counted.
        environment: all of its environment.
        reaper: kills the process group when this process is killed.
        takes_input: whether the caller writes to its standard input, which is empty otherwise.
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
    """A tool that runs; :func:`running_tool` starts it."""

    def __init__(self, process: subprocess.Popen[bytes], timeout_s: float) -> None:
        if process.stdout is None:  # for the type checker
            raise AssertionError
        self._process = process
        self._printed = _Printed(process.stdout)  # read all the time, so that the tool never waits to print
        self._left_s = timeout_s
        self._timed_out = self._stopped = False
        if process.stdin:
            os.set_blocking(process.stdin.fileno(), False)
            with contextlib.suppress(OSError):  # fewer writes where the system allows it
                fcntl.fcntl(process.stdin.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def send(self, content: memoryview) -> bool:
        """Write to its standard input, as fast as it reads.

        Returns:
            False where it reads no more: it has closed its input, has ended, or its time is up and it is killed.
        """
        stdin = self._process.stdin
        if stdin is None or stdin.closed:
            return False
        writable = select.poll()
        writable.register(stdin, select.POLLOUT)
        content = content.cast("B")
        while content:
            if not self._wait(lambda seconds: bool(writable.poll(1000 * seconds))):
                return False
            try:
                content = content[os.write(stdin.fileno(), content[:_PIPE_BYTES]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return False
        return True

    def end(self) -> ToolResult:
        """Close its input and wait until it ends, or until its time is up and it is killed."""
        if self._process.stdin:
            self._process.stdin.close()
        self._wait(self._has_ended)
        self.stop()
        code = self._process.returncode
        beginning, end = self._printed.texts()
        return ToolResult(code if code >= 0 else 128 - code, self._timed_out, end, beginning)

    def stop(self) -> None:
        """Kill it, and everything that it has started."""
        if self._stopped:  # its process id may be used again
            return
        self._stopped = True
        if self._process.stdin:
            self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _wait(self, happened: Callable[[float], bool]) -> bool:
        """Whether an event happens before the tool ends or its time is up; ``happened`` waits for some seconds."""
        began = time.monotonic()
        while not (done := happened(max(0.0, min(self._left_s - (time.monotonic() - began), _LOOK_EVERY_S)))):
            if self._has_ended(0):  # another process may keep the pipe open, so the pipe does not show it
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
    """Reads a stream to its end in a thread, and keeps its beginning and its end."""

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
