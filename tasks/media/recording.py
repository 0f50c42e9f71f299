"""A recording's frames, and when each is shown. Its sound is in ``sound``.

Second 0 of a recording is the moment its first frame is shown; all times of a session count from there.

FFmpeg, through PyAV, decodes every frame once and says when it is shown, how many there are, and which are interlaced.
OpenCV decodes the pictures, as OpenFace does; samples of them are compared with FFmpeg's. OpenCV does not decode
interlaced frames, so from the first of them on the pictures are FFmpeg's, deinterlaced. Only frames that decode exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import av
import cv2
import numpy as np

from tasks.media.container import RecordingError
from tasks.media.deinterlace import deinterlace
from tasks.media.opencv_frames import OpenCVFrames, bgr
from tasks.media.shown_frames import ShownFrame, ShownFrames
from tasks.media.video_header import check_promise, read_header


@dataclass(frozen=True)
class FrameBatch:
    """Consecutive decoded frames.

    Attributes:
        first: number of the first frame, from 0.
        time: (n,) float64 seconds of the recording.
        rgb: (n, height, width, 3) uint8.
        previous: (height, width, 3) uint8, the frame before the first of these, where somebody kept it.
    """

    first: int
    time: np.ndarray
    rgb: np.ndarray
    previous: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True)
class FrameTimes:
    """The times of all frames that decode.

    Attributes:
        time: (T,) float64 seconds of the recording; the first is 0.
        truncated: whether there should be more.
        interlaced: how many of them are interlaced.
    """

    time: np.ndarray
    truncated: bool
    interlaced: int


def read_frame_times(path: Path, *, allow_truncated: bool = False) -> FrameTimes:
    """The time of every frame that decodes.

    Raises:
        RecordingError: nothing decodes, or the times run backwards.
        TruncatedError: there should be more frames (unless ``allow_truncated``).
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
    """The frames of ``path`` in batches; one batch is in memory at a time, and its array is the caller's to keep.

    Raises:
        RecordingError: nothing decodes, the size changes, the times run backwards, or a decoder is found to be wrong.
        TruncatedError: after the last frame, where there should be more (unless ``allow_truncated``).
    """
    header = read_header(path)
    time, rgb = np.empty(batch_size), None
    count, filled = 0, 0
    with ShownFrames(path) as frames:
        for seconds, picture in _pictures(path, frames):
            if rgb is None:
                rgb = np.empty((batch_size, *picture.shape), np.uint8)
            time[filled] = seconds
            cv2.cvtColor(picture, cv2.COLOR_BGR2RGB, dst=rgb[filled])
            count, filled = count + 1, filled + 1
            if filled == batch_size:
                yield FrameBatch(count - filled, time, rgb)
                time, rgb, filled = np.empty(batch_size), np.empty_like(rgb), 0
        if filled and rgb is not None:
            yield FrameBatch(count - filled, time[:filled], rgb[:filled])
        check_promise(path, header, frames, allow_truncated=allow_truncated)


def _pictures(path: Path, frames: ShownFrames) -> Iterator[tuple[float, np.ndarray]]:
    """Every frame's second and its BGR picture."""
    opencv = OpenCVFrames(path, frames.stream.codec.canonical_name)
    first: ShownFrame | None = None
    before: ShownFrame | None = None
    rest = iter(frames)
    for frame in rest:
        first = first or frame
        if frame.interlaced:
            opencv.close()
            break
        yield frames.seconds(frame.ticks - first.ticks), opencv.picture_of(frame, frames.damaged_packets)
        before = frame
    else:
        opencv.end()
        return
    # The filter looks at the frame before as well, which has been given out already.
    known = [frame] if before is None else [before, frame]
    try:
        for shown, picture in deinterlace(chain(known, rest)):
            if shown is not before:
                yield frames.seconds(shown.ticks - first.ticks), bgr(picture)
    except av.FFmpegError as error:
        raise RecordingError(f"{path.name}: deinterlacing failed: {error.strerror}") from None
