"""Equal windows over a signal that arrives in blocks: chunks with context on both sides, in memory that does not grow.

All windows are of one length, so that a network sees no odd one at the end: the last is moved back until it ends with
the signal. Windows begin at whole rows. Of each row one window's value is kept, one in which the row has as much
context as it can have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tasks.extractors.embed.audio.shape import FrontEnd


@dataclass(frozen=True)
class Window:
    """Samples that go through the network at once.

    Attributes:
        first_row: of the window, counted from the signal's first.
        keep: which of the window's rows are kept.
        samples: (n,) float32.
    """

    first_row: int
    keep: slice
    samples: np.ndarray


class Windows:
    """The windows of one signal.

    Args:
        front_end: which samples a row is made of.
        rows: of a window.
        context_rows: on each side of a chunk; not at the signal's two ends.

    Attributes:
        samples: of the signal, so far.
    """

    def __init__(self, front_end: FrontEnd, rows: int, context_rows: int) -> None:
        if context_rows < 0 or rows - 2 * context_rows < 1:
            raise ValueError(f"a window of {rows} rows has no room for {context_rows} rows of context on both sides")
        self._front_end, self._rows, self._context = front_end, rows, context_rows
        self.samples = 0

    def cut(self, blocks: Iterable[np.ndarray]) -> Iterator[Window]:
        """The windows, each as soon as it is known that another follows it.

        Args:
            blocks: (n,) float32, one after the other.
        """
        step, rows = self._front_end.step, self._rows
        held, held_row = np.empty(0, np.float32), 0  # from this row on
        waiting: list[np.ndarray] = []
        start = kept = 0
        for block in blocks:
            waiting.append(block)
            self.samples += len(block)
            if self._front_end.rows(self.samples) <= start + rows:
                continue
            held, waiting = np.concatenate([held, *waiting]), []
            while self._front_end.rows(self.samples) > start + rows:
                # The window before this one is no longer needed: the last one cannot begin earlier than this.
                held, held_row = held[(start - held_row) * step :].copy(), start
                stop = start + rows - self._context
                yield Window(start, slice(kept - start, stop - start), held[: self._front_end.samples(rows)])
                kept, start = stop, start + rows - 2 * self._context
        total = self._front_end.rows(self.samples)
        if total <= kept:
            return
        last = max(total - rows, 0)
        samples = np.concatenate([held, *waiting])[(last - held_row) * step :]
        if last:
            samples = samples[: self._front_end.samples(rows)]
        yield Window(last, slice(kept - last, total - last), samples)
