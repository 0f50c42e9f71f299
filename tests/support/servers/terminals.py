"""A command run in a terminal of a given width, as a person runs it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

ROOT = Path(__file__).parents[3]


def in_terminal(*arguments: object, columns: int = 100) -> tuple[int, str]:
    """The exit code of ``storyframes ARGUMENTS``, and what the terminal showed, without its colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=environment | {"TERM": "xterm"}
    )
    os.close(theirs)
    shown = read_to_end(ours)
    os.close(ours)
    return process.wait(), re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


def read_to_end(terminal: int) -> str:
    """All that is printed until nobody has the terminal open any more."""
    shown = b""
    while True:
        try:
            block = os.read(terminal, 65536)
        except OSError:  # the kernel's word for it
            block = b""
        if not block:
            return shown.decode()
        shown += block
