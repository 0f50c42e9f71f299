"""Clean up when the process that started this one has ended, in whatever way.

Usage: ``python reaper_process.py FOLDER [COMMAND [ARGUMENT…]]`` with a pipe for standard input; ``FOLDER`` may be
empty. No process can catch SIGKILL, but the kernel closes a dead process's pipes, so this small process, in a session
of its own, notices it. It then kills the running process groups (the parent wrote a line ``+ID`` for each that began,
``-ID`` for each that ended), runs the command (which removes a container: killing an engine's client does not stop
it), and removes the folder.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time

_TRIES = 100
_PAUSE_S = 0.1


def main() -> None:
    folder, command = sys.argv[1], sys.argv[2:]
    groups: set[int] = set()
    for line in sys.stdin:  # ends when the parent's end of the pipe is closed
        group = int(line[1:])
        if line[0] == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    if command:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)
    for _ in range(_TRIES if folder else 0):  # a process that was just killed may have made another file
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.lexists(folder):
            break
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    main()
