"""A recording's frames, and when each is shown. Its sound is in ``sound``.

Second 0 of a recording is the moment its first frame is shown; all times of a session count from it.

FFmpeg, through PyAV, decodes every frame once: its times, their number, and which are interlaced come from it. Frames
that do not decode do not exist. ``pictures`` has the frames' pictures.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from tasks.media.container import RecordingError
from tasks.media.pictures import read_pictures
from tasks.media.shown_frames import ShownFrames
from tasks.media.video_header import check_promise, read_header


@dataclass(frozen=True)
class FrameBatch:
    """Consecutive decoded frames.

    Attributes:
        first: number of the first frame, from 0.
        time: (n,) float64 seconds of the recording.
        rgb: (n, height, width, 3) uint8.
        previous: (height, width, 3) uint8, the frame before the first of these, where the caller kept it.
    """

    first: int
    time: np.ndarray
    rgb: np.ndarray
    previous: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True)
class FrameTimes:
    """The times of all T frames that decode.

    Attributes:
        time: (T,) float64 seconds of the recording; the first is 0.
        truncated: whether frames are missing.
        interlaced: how many of them are interlaced.
    """

    time: np.ndarray
    truncated: bool
    interlaced: int


def read_frame_times(path: Path, *, allow_truncated: bool = False) -> FrameTimes:
    """The time of every frame that decodes.

    Raises:
        RecordingError: nothing decodes, or the times run backwards.
        TruncatedError: frames are missing (unless ``allow_truncated``).
    """
    header = read_header(path)
    ticks, interlaced = [], 0
    with ShownFrames(path) as frames:
        for frame in frames:
            ticks.append(frame.ticks)
            interlaced += frame.interlaced
        truncated = check_promise(path, header, frames, allow_truncated=allow_truncated)
        if len(ticks) > 1 and ticks[0] == ticks[-1]:
            raise RecordingError(f"{path.name}: its frames carry no timestamps; remux it with FFmpeg")
        time = np.array([frames.seconds(tick - ticks[0]) for tick in ticks])
    return FrameTimes(time, truncated, interlaced)


def read_frames(path: Path, batch_size: int, *, allow_truncated: bool = False) -> Iterator[FrameBatch]:
    """The frames of ``path`` in batches; one batch is in memory at a time, and the caller may keep its arrays.

    Raises:
        RecordingError: nothing decodes, the size changes, the times run backwards, or the two decoders differ.
        TruncatedError: after the last frame, where frames are missing (unless ``allow_truncated``).
    """
    header = read_header(path)
    time, rgb = np.empty(batch_size), None
    first_tick: int | None = None
    count, filled = 0, 0
    with ShownFrames(path) as frames:
        for frame, picture in read_pictures(path, frames):
            first_tick = frame.ticks if first_tick is None else first_tick
            if rgb is None:
                rgb = np.empty((batch_size, *picture.shape), np.uint8)
            time[filled] = frames.seconds(frame.ticks - first_tick)
            cv2.cvtColor(picture, cv2.COLOR_BGR2RGB, dst=rgb[filled])
            count, filled = count + 1, filled + 1
            if filled == batch_size:
                yield FrameBatch(count - filled, time, rgb)
                time, rgb, filled = np.empty(batch_size), np.empty_like(rgb), 0
        if filled and rgb is not None:
            yield FrameBatch(count - filled, time[:filled], rgb[:filled])
        check_promise(path, header, frames, allow_truncated=allow_truncated)
