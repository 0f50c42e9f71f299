"""Which files of ours a stranger has to read to follow some work: those in which a function is called."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
FLOORS = ("storyframes", "tasks", "flows", "plugins")


class CalledFiles(dict[str, set[str]]):
    """By file of ours (``tasks/extract.py``), the names of the functions that were called in it.

    Attributes:
        changes: how often a function was called that is not in the file of the one that was called before it, lambdas
            and comprehensions included.
    """

    changes = 0


@contextmanager
def called_files() -> Iterator[CalledFiles]:
    """The files of ours in which functions are called while the block runs.

    In this process, in all threads that begin in the block. Bodies of modules and classes do not count, nor do lambdas
    and comprehensions: who follows the work reads neither for themselves. What is done once in a process (a model that
    is loaded, a value that is cached) counts where it is done: do the work once before to leave that out.
    """
    called = CalledFiles()
    last: dict[int, str] = {}  # by thread
    prefixes = tuple(f"{ROOT / floor}/" for floor in FLOORS)

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(prefixes):
            return
        called.changes += last.setdefault(threading.get_ident(), code.co_filename) != code.co_filename
        last[threading.get_ident()] = code.co_filename
        if code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<"):
            file = Path(code.co_filename).relative_to(ROOT).as_posix()
            called.setdefault(file, set()).add(code.co_qualname)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)
        threading.setprofile(before)


def described(called: dict[str, set[str]]) -> str:
    """The files and what was called in them, a line each."""
    return "\n".join(f"{file}: {', '.join(sorted(names))}" for file, names in sorted(called.items()))
