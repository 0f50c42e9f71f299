"""Other users of this machine, for tests that root runs."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from typing import Any


def as_user(user: int, groups: Sequence[int], function: Callable[[], Any]) -> Any:
    """What a function gives in a process of another user, whose first group has the user's number.

    An exception is returned, not raised. Import before the call what the function imports, where only root may read it.
    """
    out, into = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups(list(groups))
            os.setgid(user)
            os.setuid(user)
            answer = function()
        except BaseException as error:
            answer = error
        os.write(into, pickle.dumps(answer))
        os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        answer = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    return answer
