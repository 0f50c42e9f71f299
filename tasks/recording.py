"""A recording: its frames as they decode, on the container's own clock. Its sound is in ``sound``.

OpenCV decodes the frames, as OpenFace does, so that both agree on how many there are; PyAV reads what OpenCV does not
tell (how many frames the header promises, when the video stream starts). A header is a promise, not a fact: a
truncated or damaged file decodes to fewer frames, and only the decoded ones exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from tasks.media import RecordingError, open_container


class TruncatedError(RecordingError):
    """Fewer frames decode than the container's header promises."""


@dataclass(frozen=True)
class VideoHeader:
    """What the container says of its video.

    Attributes:
        width, height: pixels.
        fps: nominal frames per second; the frames' own times are the truth.
        promised_frames: how many frames there should be, None where the container keeps no count.
        promised_s: how long the video stream should be, None where the container does not say.
        start_s: when the first frame is shown on the container's clock.
    """

    width: int
    height: int
    fps: float
    promised_frames: int | None
    promised_s: float | None
    start_s: float


@dataclass(frozen=True)
class FrameBatch:
    """Consecutive decoded frames.

    Attributes:
        first: number of the first frame, from 0.
        time: (n,) float64 seconds on the container's clock.
        rgb: (n, height, width, 3) uint8.
    """

    first: int
    time: np.ndarray
    rgb: np.ndarray

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True)
class FrameTimes:
    """The times of all frames that decode, and whether there should be more."""

    time: np.ndarray
    truncated: bool


def read_header(path: Path) -> VideoHeader:
    """What the container at ``path`` says of its video.

    Raises:
        RecordingError: it is empty, no media file, or has no video.
    """
    with open_container(path) as container:
        if not container.streams.video:
            raise RecordingError(f"{path.name}: has no video stream")
        stream = container.streams.video[0]
        base = stream.time_base
        promised_s = float(stream.duration * base) if stream.duration and base else None
        if promised_s is None:
            promised_s = _tagged_duration(stream.metadata.get("DURATION", ""))
        return VideoHeader(
            width=stream.width,
            height=stream.height,
            fps=float(stream.average_rate or stream.guessed_rate or 0),
            promised_frames=stream.frames or None,
            promised_s=promised_s,
            start_s=float(stream.start_time * base) if stream.start_time and base else 0.0,
        )


def read_frames(path: Path, batch_size: int, *, allow_truncated: bool = False) -> Iterator[FrameBatch]:
    """The frames of ``path`` in batches; one batch is in memory at a time, and its array is the caller's to keep.

    Raises:
        RecordingError: nothing decodes.
        TruncatedError: after the last frame, where the header promised more (unless ``allow_truncated``).
    """
    header = read_header(path)
    capture = _capture(path)
    time, rgb = np.empty(batch_size), None
    count, filled, last = 0, 0, 0.0
    while capture.grab():
        ok, image = capture.retrieve()
        if not ok:
            break
        if rgb is None:
            rgb = np.empty((batch_size, *image.shape), np.uint8)
        elif image.shape != rgb.shape[1:]:
            raise RecordingError(
                f"{path.name}: frame {count + 1} is {image.shape[1]}x{image.shape[0]}, the frames before it are "
                f"{rgb.shape[2]}x{rgb.shape[1]}"
            )
        time[filled] = last = _frame_time(capture, header, path, count, last)
        cv2.cvtColor(image, cv2.COLOR_BGR2RGB, dst=rgb[filled])
        count, filled = count + 1, filled + 1
        if filled == batch_size:
            yield FrameBatch(count - filled, time, rgb)
            time, rgb, filled = np.empty(batch_size), np.empty_like(rgb), 0
    if filled and rgb is not None:
        yield FrameBatch(count - filled, time[:filled], rgb[:filled])
    capture.release()
    _check_promise(path, header, count, last, allow_truncated)


def read_frame_times(path: Path, *, allow_truncated: bool = False) -> FrameTimes:
    """The time of every frame that decodes, in seconds on the container's clock.

    Raises:
        RecordingError: nothing decodes, or the times run backwards.
        TruncatedError: the header promises more frames (unless ``allow_truncated``).
    """
    header = read_header(path)
    capture = _capture(path)
    times: list[float] = []
    while capture.grab():
        times.append(_frame_time(capture, header, path, len(times), times[-1] if times else 0.0))
    capture.release()
    truncated = _check_promise(path, header, len(times), times[-1] if times else 0.0, allow_truncated)
    if len(times) > 1 and times[0] == times[-1]:
        raise RecordingError(f"{path.name}: its frames carry no timestamps; remux it with FFmpeg")
    return FrameTimes(np.array(times), truncated)


def _capture(path: Path) -> cv2.VideoCapture:
    # Naming the backend keeps OpenCV from taking a file name with '%' in it for a pattern of images.
    capture = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG)
    if not capture.isOpened():
        raise RecordingError(f"{path.name}: the video cannot be opened for decoding")
    return capture


def _frame_time(capture: cv2.VideoCapture, header: VideoHeader, path: Path, count: int, last: float) -> float:
    time = capture.get(cv2.CAP_PROP_POS_MSEC) / 1000 + header.start_s  # OpenCV counts from the stream's start
    if count and time < last:
        raise RecordingError(
            f"{path.name}: the timestamps run backwards: frame {count + 1} is at {time:.3f} s, the one before it at "
            f"{last:.3f} s; remux it with FFmpeg"
        )
    return time


def _check_promise(path: Path, header: VideoHeader, count: int, last: float, allow_truncated: bool) -> bool:
    """Whether frames are missing that the header promises; raises where that is not allowed."""
    if count == 0:
        raise RecordingError(f"{path.name}: no frame decodes")
    if header.promised_frames is not None:
        promise, kept = f"{header.promised_frames} frames", f"{count}"
        short = count < header.promised_frames and not _are_dropped_frames(path, header, count, last)
    elif header.promised_s is not None:
        promise, kept = f"{header.promised_s:.1f} s", f"{last:.1f} s"
        # No count in this container: a whole second is beyond what rounding and a long last frame explain.
        short = last < header.promised_s - max(1.0, 3 / header.fps if header.fps else 0)
    else:
        return False
    if short and not allow_truncated:
        raise TruncatedError(
            f"{path.name}: the header promises {promise}, {kept} decode: the file is truncated or damaged; set "
            "[recording] allow_truncated = true to use what there is"
        )
    return short


def _are_dropped_frames(path: Path, header: VideoHeader, count: int, last: float) -> bool:
    """Whether the missing frames were never recorded: an AVI keeps an empty packet in the place of a dropped frame.

    So it is where every packet that holds something decodes and the last frame is where the header ends.
    """
    if not header.fps or not header.promised_frames:
        return False
    end_s = header.start_s + header.promised_frames / header.fps
    if last < end_s - max(2.5 / header.fps, 0.2):
        return False
    with open_container(path) as container:
        return count >= sum(packet.size > 0 for packet in container.demux(video=0))


def _tagged_duration(text: str) -> float | None:
    """Matroska's DURATION tag, ``HH:MM:SS.nnnnnnnnn``, in seconds."""
    try:
        hours, minutes, seconds = text.split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    except ValueError:
        return None
