"""A network over a signal of any length, window by window, in memory that does not grow; and what the seams do.

The signal arrives in blocks and is cut into chunks with context on both sides. All windows are of one length, so that a
network sees no odd one at the end: the last is moved back until it ends with the signal. Windows begin at whole rows.
Of each row one window's value is kept, one in which the row has as much context as it can have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from tasks.extractors.audio.shape import AudioShape, FrontEnd
from tasks.media.container import read_ahead

if TYPE_CHECKING:
    from tasks.extractors.audio.encoder import SoundEncoder

_SQUARED_ROWS = 64


@dataclass(frozen=True)
class Window:
    """Samples that go through the network at once."""

    first_row: int  # of the window, counted from the signal's first
    keep: slice  # which of the window's rows are kept
    samples: np.ndarray  # (n,) float32


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
        """The windows of (n,) float32 blocks, each as soon as it is known that another follows it."""
        step, rows = self._front_end.step, self._rows
        buffered, buffered_row = np.empty(0, np.float32), 0  # from this row on
        waiting: list[np.ndarray] = []
        start = kept = 0
        for block in blocks:
            waiting.append(block)
            self.samples += len(block)
            if self._front_end.rows(self.samples) <= start + rows:
                continue
            buffered, waiting = np.concatenate([buffered, *waiting]), []
            while self._front_end.rows(self.samples) > start + rows:
                # The window before this one is no longer needed: the last one cannot begin earlier than this.
                buffered, buffered_row = buffered[(start - buffered_row) * step :].copy(), start
                stop = start + rows - self._context
                yield Window(start, slice(kept - start, stop - start), buffered[: self._front_end.samples(rows)])
                kept, start = stop, start + rows - 2 * self._context
        total = self._front_end.rows(self.samples)
        if total <= kept:
            return
        last = max(total - rows, 0)
        samples = np.concatenate([buffered, *waiting])[(last - buffered_row) * step :]
        if last:
            samples = samples[: self._front_end.samples(rows)]
        yield Window(last, slice(kept - last, total - last), samples)


class SecondsOfSound:
    """The windows of one signal that become one row each, from its first sample on; as many as end with it.

    A signal that is shorter than a window is one window, as long as it is.

    Args:
        length: samples of a window.
        stride: samples from the start of a window to the next one's; need not be whole.

    Attributes:
        left_out: samples at the end that are in no window.
    """

    def __init__(self, length: int, stride: float) -> None:
        self._length, self._stride = length, stride
        self.left_out = 0

    def of(self, blocks: Iterable[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
        """Each window's first sample, counted from the signal's first, and its (n,) samples."""
        buffered, first, number = np.empty(0, np.float32), 0, 0
        for block in blocks:
            buffered = np.concatenate([buffered, block])
            while (begin := round(number * self._stride)) + self._length <= first + len(buffered):
                yield begin, buffered[begin - first :][: self._length].copy()
                number += 1
            unused = min(max(round(number * self._stride) - first, 0), len(buffered))
            buffered, first = buffered[unused:], first + unused
        total = first + len(buffered)
        if number == 0 and total:
            yield 0, buffered
        elif number:
            self.left_out = max(total - round((number - 1) * self._stride) - self._length, 0)


class SoundRows:
    """The rows of one signal.

    Attention sees all of a window, so the value of a row depends somewhat on which window it is in. How much is
    measured wherever two windows meet: both have the first row that the later one gives.

    Args:
        chunk_s: seconds of a window whose rows are kept; None for a model whose window is of one length.
        context_s: seconds beside a chunk.
        moments: mean and variance of the whole signal.

    Raises:
        ValueError: chunk and context leave no row, or do not fit into the model's window.

    Attributes:
        windows: run so far.
        row: given so far.
        seam: the largest difference between two windows' values of one row, as a share of the distance of the rows of
            these windows from their mean (root mean squares); 0 if one window held the whole signal, and without
            context, as then no row is in two windows.
    """

    def __init__(
        self,
        encoder: SoundEncoder,
        shape: AudioShape,
        chunk_s: float | None,
        context_s: float,
        moments: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self._encoder, self._shape, self._moments = encoder, shape, moments
        rows, context = window_rows(shape, chunk_s, context_s)
        self._cut = Windows(shape.front_end, rows, context)
        self._before: _Rows | None = None
        self.windows, self.row, self.seam = 0, 0, 0.0

    @property
    def samples(self) -> int:
        """Of the signal, so far."""
        return self._cut.samples

    def of(self, blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """The rows of the signal that ``blocks``, (n,) float32 samples each, make together.

        Yields:
            (m, columns) float32, one row after the other.
        """
        embedded = self._embedded(blocks)
        if self._encoder.ahead:  # a GPU computes the next windows while the rows of these are stored
            embedded = read_ahead(embedded, 1)
        for group in embedded:
            for window, rows in group:
                self._measure_seam(window, rows)
                kept = rows[window.keep]
                self.row += len(kept)
                self.windows += 1
                yield kept

    def _embedded(self, blocks: Iterable[np.ndarray]) -> Iterator[list[tuple[Window, np.ndarray]]]:
        """The windows with their rows, as many as go through the network together."""
        windows = self._cut.cut(blocks)
        if self._encoder.ahead:
            windows = read_ahead(windows, self._encoder.ahead)
        while batch := list(islice(windows, max(self._encoder.batch_size, 1))):
            alike = len({len(window.samples) for window in batch}) == 1  # the last of all may lack some samples
            groups = [batch] if alike else [[window] for window in batch]
            for group in groups:
                rows = self._encoder.embed([window.samples for window in group], *self._moments)
                yield list(zip(group, rows, strict=True))

    def _measure_seam(self, window: Window, rows: np.ndarray) -> None:
        before, self._before = self._before, _Rows(window.first_row, rows, _squared_lengths(rows - rows.mean(axis=0)))
        if before is not None:
            at = window.first_row + window.keep.start
            if at - before.first < len(before.values):
                spread = float(np.sqrt(np.concatenate([before.spread, self._before.spread]).mean()))
                difference = rows[window.keep.start] - before.values[at - before.first]
                size = float(np.sqrt(_squared_lengths(difference[None]).mean()))
                self.seam = max(self.seam, size / spread if spread else 0.0)


@dataclass(frozen=True)
class _Rows:
    """The rows of a window, until those of the next one are there."""

    first: int  # counted from the signal's first
    values: np.ndarray
    spread: np.ndarray  # of each row, the square of its distance from their mean


def window_rows(shape: AudioShape, chunk_s: float | None, context_s: float) -> tuple[int, int]:
    """How many rows a window has, and how many of them are context on each side.

    Raises:
        ValueError: chunk and context leave no row, or do not fit into the model's window.
    """
    context = -int(-context_s // shape.row_s)
    if not shape.window_rows:
        return max(round((chunk_s or 0.0) / shape.row_s), 1) + 2 * context, context
    window_s = shape.window_rows * shape.row_s
    if chunk_s is not None:
        raise ValueError(f"chunk_s cannot be set: the model's window is of {window_s:g} s, less the context")
    if shape.window_rows - 2 * context < 1:
        raise ValueError(
            f"context_s = {context_s:g} on both sides leaves nothing of the model's window of {window_s:g} s"
        )
    return shape.window_rows, context


def moments(blocks: Iterable[np.ndarray]) -> tuple[float, float]:
    """Mean and variance of a signal in blocks of (n,) samples; 0 and 0 of none."""
    count, total, squares = 0, 0.0, 0.0
    for block in blocks:
        exact = block.astype(np.float64)
        count, total, squares = count + len(exact), total + float(exact.sum()), squares + float(exact @ exact)
    mean = total / max(count, 1)
    return mean, max(squares / max(count, 1) - mean * mean, 0.0)


def _squared_lengths(values: np.ndarray) -> np.ndarray:
    """The square of each row's length, float64; a few rows at a time, which stay in a processor's cache."""
    parts = np.array_split(values, -(-len(values) // _SQUARED_ROWS))
    return np.concatenate([(wide * wide).sum(axis=1) for wide in (part.astype(np.float64) for part in parts)])
