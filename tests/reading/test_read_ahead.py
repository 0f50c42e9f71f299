from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from support.processes import HANG_S

from tasks.media.container import read_ahead


def test_all_items_in_order() -> None:
    assert list(read_ahead(iter(range(100)), 3)) == list(range(100))
    assert list(read_ahead(iter(()), 3)) == []


def test_no_more_than_so_many_are_read_ahead() -> None:
    read: list[int] = []
    enough = threading.Event()

    def items() -> Iterator[int]:
        for number in range(100):
            read.append(number)
            if len(read) == 4:
                enough.set()
            yield number

    ahead = read_ahead(items(), 3)
    assert next(ahead) == 0
    assert enough.wait(HANG_S)  # reading goes on while this thread has the first item: it, and three more
    for number in range(1, 50):
        assert next(ahead) == number
        assert len(read) <= number + 4


def test_an_error_comes_in_its_place() -> None:
    def items() -> Iterator[int]:
        yield from (1, 2)
        raise OSError("the disk is gone")

    ahead = read_ahead(items(), 3)
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(OSError, match="the disk is gone"):
        next(ahead)


def test_a_caller_that_stops_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    ahead = read_ahead(iter(range(10**9)), 3)
    next(ahead)
    assert threading.active_count() == before + 1
    ahead.close()
    assert threading.active_count() == before
