"""Run a command when the process that started this one is gone, however it went.

Usage: ``python container_reaper.py COMMAND [ARGUMENT…]`` with a pipe for standard input. Killing a container engine's
client does not stop the container, and nobody can catch SIGKILL; but the kernel closes a dead process's pipes, so this
small process, in a session of its own, hears of it and removes the container.
"""

import subprocess
import sys


def main() -> None:
    sys.stdin.buffer.read()  # returns when the other end is closed
    subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)


if __name__ == "__main__":
    main()
