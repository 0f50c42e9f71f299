"""What a container's header says of its video (size, length, number of frames), to be compared with what decodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks.media.container import RecordingError
from tasks.media.cut_off import missing_bytes
from tasks.media.shown_frames import ShownFrame, ShownFrames

_FEWEST_FPS, _MOST_FPS = 1, 240


class TruncatedError(RecordingError):
    """Fewer frames decode than the container's header promises."""


@dataclass(frozen=True)
class VideoHeader:
    """What the container says of its video.

    Attributes:
        width, height: pixels.
        fps: nominal frames per second; the frames' own times are the truth.
        promised_frames: how many frames there should be, None where the container keeps no count. Frames that an edit
            list hides (an MP4 that was trimmed without coding it again) are not among them.
        promised_s: how long the video stream should be, None where the container does not say.
        start_s: when the first frame that decodes is shown on the container's clock: second 0 of the recording.
    """

    width: int
    height: int
    fps: float
    promised_frames: int | None
    promised_s: float | None
    start_s: float


def read_header(path: Path) -> VideoHeader:
    """What the container at ``path`` says of its video; decodes the first frame, for its time.

    Raises:
        RecordingError: it is empty, no media file, has no video, or its first frame is to be shown turned.
    """
    with ShownFrames(path) as frames:
        stream = frames.stream
        promised_frames, promised_s = _promised(frames)
        first = next(iter(frames), None)
        return VideoHeader(
            width=stream.width,
            height=stream.height,
            fps=float(stream.average_rate or stream.guessed_rate or 0),
            promised_frames=promised_frames,
            promised_s=promised_s,
            start_s=frames.seconds(first.ticks if first else stream.start_time or 0),
        )


def promised_length_s(path: Path) -> float:
    """How long the video at ``path`` should be, seconds; 0 where its header does not say. Decodes nothing.

    Raises:
        RecordingError: it is empty, no media file, or has no video.
    """
    with ShownFrames(path) as frames:
        promised_frames, promised_s = _promised(frames)
        fps = float(frames.stream.average_rate or frames.stream.guessed_rate or 0)
        return length_s(fps, promised_frames, promised_s)


def length_s(fps: float, promised_frames: int | None, promised_s: float | None) -> float:
    """How long a video should be by what its header says, seconds; 0 where that does not say."""
    return promised_frames / fps if promised_frames and fps else promised_s or 0.0


def _promised(frames: ShownFrames) -> tuple[int | None, float | None]:
    """The frames and the seconds that a video should have; None for what the container does not say."""
    stream = frames.stream
    base = stream.time_base
    promised_s = float(stream.duration * base) if stream.duration and base else None
    if promised_s is None:
        promised_s = _tagged_duration(stream.metadata.get("DURATION", ""))
    promised_frames = stream.frames or None
    if promised_frames and frames.format.startswith("mov,"):
        promised_frames = sum(not entry.is_discard for entry in stream.index_entries)
    return promised_frames, promised_s


def read_rate(path: Path) -> tuple[float | None, float | None]:
    """Frames per second and seconds of the video at ``path`` by its header; None where that does not say.

    A rate beyond what cameras have, such as the thousand per second of many a browser's recording, is the clock's.

    Raises:
        RecordingError: it is empty, no media file, or has no video.
    """
    with ShownFrames(path) as frames:
        stream = frames.stream
        fps = float(stream.average_rate or stream.guessed_rate or 0)
        length_s = float(stream.duration * stream.time_base) if stream.duration and stream.time_base else None
        length_s = length_s or _tagged_duration(stream.metadata.get("DURATION", ""))
        return (fps if _FEWEST_FPS <= fps <= _MOST_FPS else None), length_s


def check_promise(path: Path, header: VideoHeader, frames: ShownFrames, *, allow_truncated: bool) -> bool:
    """Whether frames are missing that the file should have.

    Args:
        path: the video.
        header: its own.
        frames: as they are after the last one.
        allow_truncated: missing frames are no error.

    Raises:
        RecordingError: nothing decodes.
        TruncatedError: frames are missing, and ``allow_truncated`` does not hold.
    """
    if frames.last is None:
        raise RecordingError(f"{path.name}: no frame decodes")
    reason = _what_is_missing(path, header, frames, frames.last)
    if reason and not allow_truncated:
        raise TruncatedError(
            f"{path.name}: {reason}: the file is truncated or damaged; set [recording] allow_truncated = true to use "
            "what there is"
        )
    return bool(reason)


def _what_is_missing(path: Path, header: VideoHeader, frames: ShownFrames, last: ShownFrame) -> str:
    count, last_s = last.number + 1, frames.seconds(last.ticks)
    if header.promised_frames is not None:
        if count >= header.promised_frames or _are_dropped_frames(path, header, frames, last):
            return _what_is_torn(frames)
        return f"the header promises {header.promised_frames} frames, {count} decode"
    # No count in this container: a whole second is beyond what rounding and a long last frame explain.
    tolerance_s = max(1.0, 3 / header.fps if header.fps else 0)
    if header.promised_s is not None and last_s < header.promised_s - tolerance_s:
        return f"the header promises {header.promised_s:.1f} s, {last_s:.1f} s decode"
    if missing := missing_bytes(path):
        return f"the file is {missing} bytes shorter than its header says"
    return f"{frames.damaged_packets} of its packets do not decode" if frames.damaged_packets else _what_is_torn(frames)


def _what_is_torn(frames: ShownFrames) -> str:
    if frames.torn_packets:
        return f"of {frames.torn_packets} of its packets a part is missing"
    return f"{frames.damaged_frames} of its frames are damaged, as the decoder says" if frames.damaged_frames else ""


def _are_dropped_frames(path: Path, header: VideoHeader, frames: ShownFrames, last: ShownFrame) -> bool:
    """Whether the missing frames were never recorded: an AVI keeps an empty packet in the place of a dropped frame.

    So it is where the file is whole, every packet that holds something decodes, and the last frame is where the header
    ends.
    """
    if frames.format != "avi" or not header.fps or not header.promised_frames:
        return False
    end_s = header.start_s + header.promised_frames / header.fps
    at_end = frames.seconds(last.ticks) >= end_s - max(2.5 / header.fps, 0.2)
    return at_end and last.number + 1 >= frames.filled_packets and not missing_bytes(path)


def _tagged_duration(text: str) -> float | None:
    """Matroska's DURATION tag, ``HH:MM:SS.nnnnnnnnn``, in seconds."""
    try:
        hours, minutes, seconds = text.split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    except ValueError:
        return None
