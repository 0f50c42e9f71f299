"""Networks on a processor compute in one thread: with more, sums are added in another order and values differ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes in one thread inside, as in a worker, and in as many as before afterwards.

    So a study's worker, a worker of somebody else's cluster and a notebook give the same values of one fingerprint. The
    work of a study is shared out over processors by sessions, not by threads.
    """
    import torch  # where this is called it is loaded; those that import this file may not have it

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
