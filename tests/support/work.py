"""How much work something takes, counted in Python's instructions: the same on every machine, however busy it is."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def instructions(work: Callable[[], object]) -> int:
    """How many instructions of Python this takes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    gc.disable()  # what others have hung on its end would count as well
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
        gc.enable()
    return count


def grows_in_proportion(work: Callable[[int], Callable[[], object]], few: int) -> bool:
    """Whether twice as many rows take no more than twice as much work; ``work`` prepares that of so many rows."""
    work(few)()  # what is done once is done
    first, second, third = (instructions(work(rows)) for rows in (few, 2 * few, 4 * few))
    return third - second < 2.1 * (second - first)
