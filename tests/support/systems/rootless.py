"""Doing something as a user without any privilege, as on a cluster's node, also where the tests are root's."""

from __future__ import annotations

import ctypes
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

USER = 54321
_NEW_USER_NAMESPACE = 0x10000000


def as_ordinary_user(function: Callable[[], Any], started: Callable[[int], None] = lambda pid: None) -> Any:
    """What a function gives in a child process that is no root; the caller's files are that user's own.

    An exception that it raises is raised here; None where the child was killed.

    Args:
        started: called with the child's process id.
    """
    out, into = os.pipe()
    user, group = os.geteuid(), os.getegid()
    if (child := os.fork()) == 0:
        try:
            if user == 0:
                # A root of no namespace but its own has no privilege, and loses those in its own with the next exec.
                assert ctypes.CDLL(None, use_errno=True).unshare(_NEW_USER_NAMESPACE) == 0
                Path("/proc/self/uid_map").write_text(f"{USER} {user} 1")
                Path("/proc/self/setgroups").write_text("deny")
                Path("/proc/self/gid_map").write_text(f"{USER} {group} 1")
            answer = function()
        except BaseException as error:
            answer = error
        os.write(into, pickle.dumps(answer))
        os._exit(0)
    os.close(into)
    started(child)
    with os.fdopen(out, "rb") as pipe:
        answered = pipe.read()
    os.waitpid(child, 0)
    answer = pickle.loads(answered) if answered else None
    if isinstance(answer, BaseException):
        raise answer
    return answer
