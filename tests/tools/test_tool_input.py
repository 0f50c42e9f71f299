"""Writing to a tool's standard input: whatever it does, nobody waits for ever, and what became of it is known."""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tasks.tools import tool_process
from tasks.tools.tool_process import ToolResult, running_tool

MUCH = memoryview(bytes(8 << 20))  # no pipe holds that


def run(folder: Path, code: str, timeout_s: float = 100, sent: memoryview = MUCH) -> tuple[bool, ToolResult]:
    """Send ``sent`` to a program; whether it took all, and how it ended."""
    command = [sys.executable, "-I", "-c", code]
    with running_tool(command, folder=folder, timeout_s=timeout_s, environment={}, takes_input=True) as tool:
        return tool.send(sent), tool.end()


def test_a_tool_gets_all_that_is_sent_and_then_the_end(tmp_path: Path) -> None:
    sent = memoryview(bytes(range(256)) * 20_000)
    code = "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    took_all, result = run(tmp_path, code, sent=sent)
    assert took_all
    assert result.output == hashlib.sha256(sent).hexdigest()


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_tool_that_prints_more_than_it_is_sent_never_waits_for_us(tmp_path: Path, stream: str) -> None:
    code = f"""
import sys
while block := sys.stdin.buffer.read(1 << 16):
    sys.{stream}.buffer.write(block * 3)
sys.{stream}.write("the end")
"""
    took_all, result = run(tmp_path, code)
    assert took_all
    assert result.exit_code == 0
    assert result.output.endswith("the end")


def test_a_tool_that_prints_before_it_reads_never_waits_for_us(tmp_path: Path) -> None:
    took_all, result = run(tmp_path, "import sys; sys.stdout.write('x' * (9 << 20)); sys.stdin.read()")
    assert took_all
    assert result.exit_code == 0


ENDINGS = {
    "closes its input and goes on": ("import os, time; os.close(0); time.sleep(.5)", 0),
    "ends at once": ("pass", 0),
    "ends in the middle": ("import sys; sys.stdin.buffer.read(1000); sys.exit(3)", 3),
    "is killed in the middle": (
        "import os, signal, sys; sys.stdin.buffer.read(1000); os.kill(os.getpid(), signal.SIGKILL)",
        137,
    ),
    "leaves a child that holds the input": (
        "import subprocess, sys; sys.stdin.buffer.read(10); subprocess.Popen(['/bin/sleep', '1000']); sys.exit(4)",
        4,
    ),
}


@pytest.mark.parametrize(("code", "exit_code"), ENDINGS.values(), ids=ENDINGS)
def test_a_tool_that_takes_no_more_is_left_at_once(tmp_path: Path, code: str, exit_code: int) -> None:
    took_all, result = run(tmp_path, code)
    assert not took_all
    assert (result.exit_code, result.timed_out) == (exit_code, False)


@pytest.mark.parametrize("code", ["", "sys.stdin.buffer.read(1000)", "sys.stdin.buffer.read()"])
def test_a_tool_that_hangs_is_killed_when_its_time_is_up(tmp_path: Path, code: str) -> None:
    _, result = run(tmp_path, f"import sys, time; {code or 'pass'}; time.sleep(1000)", timeout_s=2)
    assert result.timed_out


def test_only_the_time_that_we_wait_for_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others that share a pass over the frames may be far slower than the tool."""
    command = [sys.executable, "-I", "-c", "import sys; sys.stdin.read()"]
    with running_tool(command, folder=tmp_path, timeout_s=100, environment={}, takes_input=True) as tool:
        assert tool.send(MUCH)
        an_hour_later = SimpleNamespace(monotonic=lambda now=time.monotonic: now() + 3600)
        monkeypatch.setattr(tool_process, "time", an_hour_later)
        assert tool.send(MUCH)
        assert tool.end().exit_code == 0


def test_what_a_tool_writes_is_its_users_alone(tmp_path: Path) -> None:
    run(tmp_path, "open('landmarks', 'w').close()")
    assert (tmp_path / "landmarks").stat().st_mode & 0o777 == 0o600
