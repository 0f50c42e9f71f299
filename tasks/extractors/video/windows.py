"""The windows of a video: which frames each has by their true times, and their rows as the frames are decoded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from storyframes.times import PER_SECOND, ROUNDING, nearest_rows, ticks, tolerance, usual_step
from tasks.extractors.base import ExtractionError
from tasks.extractors.frames import FrameClock
from tasks.media.recording import FrameBatch

if TYPE_CHECKING:
    import torch

    from tasks.extractors.video.encoder import ClipEncoder

MASK = "valid"
"""The array that says which windows have a row."""


class Window(NamedTuple):
    """The frames of a window.

    Attributes:
        frames: (n,) int64 their numbers, ascending; one may stand twice.
        is_whole: whether each is near enough to its moment.
    """

    frames: np.ndarray
    is_whole: bool


@dataclass(frozen=True)
class Windows:
    """The windows of a video: ``length_s`` long, ``stride_s`` apart from second 0 on, as many as end with the video.

    A window is cut into as many equal parts as the model takes frames. Of each part it has the frame that is nearest to
    its middle, if that is at most half a part away, or half a frame where frames last longer.
    """

    clock: FrameClock
    length_s: float
    stride_s: float
    frames: int  # of a window

    @cached_property
    def start_s(self) -> np.ndarray:
        """(n,) float64 seconds at which the windows begin."""
        room = int(ticks(self.clock.end_s) - ticks(self.length_s)) + ROUNDING
        count = room // int(ticks(self.stride_s)) + 1 if room >= 0 else 0
        return np.arange(count) * self.stride_s

    @property
    def left_out_s(self) -> float:
        """Seconds at the end of the video that are in no window."""
        return max(self.clock.end_s - (float(self.start_s[-1]) + self.length_s), 0.0)

    def __iter__(self) -> Iterator[Window]:
        time, part_s = ticks(self.clock.time), self.length_s / self.frames
        near_enough = tolerance(part_s * PER_SECOND, usual_step(time, "frames"))
        middles_s = (np.arange(self.frames) + 0.5) * part_s
        for start_s in self.start_s:
            frames, is_near = nearest_rows(time, ticks(start_s + middles_s), near_enough)
            yield Window(frames, bool(is_near.all()))


class WindowWriter:
    """Takes all frames of a video in order, and writes a row for each of its windows.

    In memory are the prepared frames of the windows that have begun and not ended.

    Args:
        where: begins the sentence of an error.
    """

    def __init__(self, windows: Windows, encoder: ClipEncoder, out: FeatureWriter, where: str) -> None:
        self._windows, self._encoder, self._out, self._where = iter(windows), encoder, out, where
        self._values, self._mask = out.array("values"), out.array(MASK)
        self._times = windows.start_s + windows.length_s / 2
        self.on_gpu = encoder.device != "cpu"
        self._next = next(self._windows, None)
        self._begun: deque[Window] = deque()
        self._frames: dict[int, torch.Tensor] = {}
        self._clips: list[Sequence[torch.Tensor] | None] = []  # of windows that have ended; None for one without a row
        self._repeating = self._masked = 0

    def add(self, batch: FrameBatch) -> None:
        stop = batch.first + len(batch)
        while self._next is not None and self._next.frames[0] < stop:
            self._begun.append(self._next)
            self._next = next(self._windows, None)
        self._keep(batch)
        while self._begun and self._begun[0].frames[-1] < stop:
            self._end(self._begun.popleft())
        first = self._begun[0].frames[0] if self._begun else stop
        self._frames = {number: frame for number, frame in self._frames.items() if number >= first}

    def finish(self) -> None:
        self._write()
        self._out.quality["windows_with_rows"] = 1 - self._masked / len(self._times)
        if self._repeating:
            self._out.quality["windows_with_repeated_frames"] = self._repeating / len(self._times)
            self._out.caveat(Caveat.REPEATED_FRAMES)

    def _keep(self, batch: FrameBatch) -> None:
        """Prepare the frames of the batch that a window needs."""
        needed = np.zeros(len(batch), bool)
        for window in self._begun:
            if window.is_whole:
                places = window.frames - batch.first
                needed[places[(places >= 0) & (places < len(batch))]] = True
        if batch.seen is not None:
            needed &= batch.seen
        if needed.any():
            numbers = batch.first + np.flatnonzero(needed)
            self._frames |= zip(numbers.tolist(), self._encoder.prepare(batch.rgb[needed]), strict=True)

    def _end(self, window: Window) -> None:
        numbers = window.frames.tolist()
        has_row = window.is_whole and all(number in self._frames for number in numbers)
        self._repeating += has_row and len(set(numbers)) < len(numbers)
        self._masked += not has_row
        self._clips.append([self._frames[number] for number in numbers] if has_row else None)
        if len(self._clips) >= self._encoder.batch_size:
            self._write()

    def _write(self) -> None:
        clips = [clip for clip in self._clips if clip is not None]
        has_row = np.array([clip is not None for clip in self._clips], bool)
        self._clips = []
        rows = np.full((len(has_row), *self._values.row_shape), np.nan, np.float32)
        if clips:
            rows[has_row] = self._encoder.embed(clips)
        broken = np.flatnonzero(has_row & ~np.isfinite(rows).all(axis=1))
        if len(broken):
            raise ExtractionError(
                f"{self._where}: the model gives NaN or infinity for the window around "
                f"{self._times[self._values.rows + broken[0]]:.2f} s: with precision = 'float16' it may be too coarse "
                "for this model (set 'float32'); else its weights are wrong"
            )
        self._values.append(rows)
        self._mask.append(has_row.astype(np.uint8))
