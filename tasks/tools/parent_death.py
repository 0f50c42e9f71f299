"""Run a command that the kernel kills when the process PARENT_PID dies, in whatever way.

Usage: ``python parent_death.py PARENT_PID COMMAND [ARGUMENT…]``. It is a separate program because no Python code runs
safely between fork and exec of a process with threads, such as a Dask worker.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit("cannot ask for a parent-death signal")
    if os.getppid() != parent:
        sys.exit("the parent died first")
    try:
        os.execv(command[0], command)  # noqa: S606
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
