"""What a container's header says of its video (size, length, number of frames), compared with what decodes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from tasks.media.container import (
    FIRST_STREAMS,
    RecordingError,
    StreamChoice,
    chosen_video,
    open_container,
    recording_files,
    video_streams,
)
from tasks.media.shown_frames import ShownFrame, ShownFrames, has_wide_colours

if TYPE_CHECKING:
    import av

_COUNTED_S = 60  # of a video, in which packets are counted
_TIMED_S = 20  # of a video, in which packets' times are read
_FEWEST_FPS, _MOST_FPS = 1, 240
_UNKNOWN = b"\xff\xff\xff\xff"  # as the length of a RIFF
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"


class TruncatedError(RecordingError):
    """Fewer frames decode than the container's header promises."""


@dataclass(frozen=True)
class VideoHeader:
    """What the container says of its video."""

    # width, height: of its upright pictures, pixels
    width: int
    height: int
    is_upright: bool  # whether the pictures are stored upright
    fps: float  # nominal frames per second; only the frames' own times are exact
    # the header's number of frames, None where the container keeps no count. Frames that an edit list hides (an MP4
    # that was trimmed without coding it again) are not counted
    promised_frames: int | None
    promised_s: float | None  # the header's length of the video stream, None where the container does not say
    start_s: float  # when the first frame that decodes is shown on the container's clock: second 0 of the recording
    is_default: bool  # whether it is the first video of one file, which programs that open the file themselves read
    has_wide_colours: bool  # whether its first frame has colours beyond BT.709: HDR or a wide gamut


def read_header(path: Path, streams: StreamChoice = FIRST_STREAMS) -> VideoHeader:
    """What the container at ``path`` says of its chosen video; decodes the first frame, for its time.

    Raises:
        RecordingError: it is empty, is no media file, has no video, or its first frame is to be shown askew.
    """
    with ShownFrames(path, streams) as frames:
        stream = frames.stream
        promised_frames, promised_s = _promised(frames)
        first = next(iter(frames), None)
        width, height = frames.orientation.size(stream.width, stream.height)
        return VideoHeader(
            width=width,
            height=height,
            is_upright=frames.orientation.is_stored,
            fps=_nominal_fps(frames),
            promised_frames=promised_frames,
            promised_s=promised_s,
            start_s=frames.seconds(first.ticks if first else stream.start_time or 0),
            is_default=frames.is_default,
            has_wide_colours=first is not None and has_wide_colours(first.picture),
        )


def promised_length_s(path: Path, streams: StreamChoice = FIRST_STREAMS) -> float:
    """The header's length of the chosen video at ``path``, seconds; 0 where the header does not say. Decodes nothing.

    Raises:
        RecordingError: it is empty, is no media file, or has no video.
    """
    with ShownFrames(path, streams) as frames:
        return length_s(_nominal_fps(frames), *_promised(frames))


def length_s(fps: float, promised_frames: int | None, promised_s: float | None) -> float:
    """A video's length by what its header says, seconds; 0 where the header does not say."""
    return promised_frames / fps if promised_frames and fps else promised_s or 0.0


def _nominal_fps(frames: ShownFrames) -> float:
    return float(frames.stream.average_rate or frames.stream.guessed_rate or 0)


def _promised(frames: ShownFrames) -> tuple[int | None, float | None]:
    """The headers' number of frames and of seconds; None for what a container does not say."""
    counts, lengths_s = zip(*(_promised_of(stream, frames.format) for stream in frames.streams), strict=True)
    return sum(counts) if all(counts) else None, None if None in lengths_s else sum(lengths_s)


def _promised_of(stream: av.VideoStream, container: str) -> tuple[int | None, float | None]:
    base = stream.time_base
    promised_s = float(stream.duration * base) if stream.duration and base else None
    if promised_s is None:
        promised_s = _tagged_duration(stream.metadata.get("DURATION", ""))
    promised_frames = stream.frames or None
    if promised_frames and container.startswith("mov,"):
        promised_frames = sum(not entry.is_discard for entry in stream.index_entries)
    return promised_frames, promised_s


def read_rate(path: Path, streams: StreamChoice = FIRST_STREAMS) -> tuple[float | None, float | None]:
    """Frames per second and seconds of the chosen video at ``path`` by its header; None where the header does not say.

    A rate that no camera has, such as the 1000 per second of recordings made in a browser, is the clock's.

    Raises:
        RecordingError: it is empty, is no media file, or has no video.
    """
    with ShownFrames(path, streams) as frames:
        fps = _nominal_fps(frames)
        return (fps if _FEWEST_FPS <= fps <= _MOST_FPS else None), _promised(frames)[1]


def estimated_frames(path: Path, length_s: float, streams: StreamChoice = FIRST_STREAMS) -> float:
    """How many frames a video of so many seconds has by its header, else by the packets of its first minute.

    Decodes nothing. The rate that a Matroska or WebM states is not the one that a variable-rate recording has.

    Raises:
        RecordingError: it is empty, is no media file, or has no video.
    """
    with ShownFrames(path, streams) as frames:
        if promised := _promised(frames)[0]:
            return promised
        base = frames.stream.time_base
    if base is None:
        return 0.0
    count, begin_s, last_s = 0, None, 0.0
    with open_container(path) as container:
        for packet in container.demux(chosen_video(container, path.name, streams)):
            if packet.pts is None:
                continue
            last_s = float(packet.pts * base)
            begin_s = last_s if begin_s is None else begin_s
            count += 1
            if last_s - begin_s > _COUNTED_S:
                return count * max(length_s / (last_s - begin_s), 1.0)
    return count


def first_packet_times(path: Path, streams: StreamChoice = FIRST_STREAMS) -> np.ndarray:
    """(n,) float64, the seconds on its clock at which the frames of a video's first 20 seconds are shown, in order.

    Decodes nothing. Empty where packets do not say when they are shown, as in AVI with B-frames.

    Raises:
        RecordingError: FFmpeg cannot read it.
    """
    times: list[float] = []
    with open_container(path) as container:
        for packet in container.demux(chosen_video(container, path.name, streams)):
            if not packet.size:
                continue
            pts, base = packet.pts, packet.time_base
            if pts is None or base is None:
                return np.zeros(0)
            times.append(float(pts * base))
            if times[-1] - times[0] > _TIMED_S:
                break
    return np.sort(times)


def has_sound(path: Path) -> bool:
    """Whether there is sound in a video.

    Raises:
        RecordingError: FFmpeg cannot read it.
    """
    with open_container(path) as container:
        return bool(container.streams.audio)


def check_promise(path: Path, header: VideoHeader, frames: ShownFrames, *, allow_truncated: bool) -> bool:
    """Whether frames are missing that the header promises.

    Args:
        frames: after the last frame was read.
        allow_truncated: missing frames are no error.

    Raises:
        RecordingError: nothing decodes.
        TruncatedError: frames are missing (unless ``allow_truncated``), or see :func:`check_parts`.
    """
    if frames.last is None:
        raise RecordingError(f"{path.name}: no frame decodes")
    check_parts(path)
    is_torn = ends_within_a_block(recording_files(path)[-1])
    reason = _what_is_missing(path, header, frames, frames.last, torn=int(is_torn and frames.torn_packets == 1))
    if reason and not allow_truncated:
        raise TruncatedError(
            f"{path.name}: {reason}: the file is truncated or damaged; set [recording] allow_truncated = true to use "
            "the frames that decode"
        )
    return bool(reason) or is_torn


def check_parts(path: Path) -> None:
    """Refuse a recording of several files of which one is truncated that another one follows.

    Raises:
        TruncatedError: naming both.
    """
    for file, following in pairwise(recording_files(path)):
        if missing_bytes(file) or ends_within_a_block(file):
            raise TruncatedError(
                f"{file.name}: the file is truncated, so when {following.name} begins is unknown: copy it again, or "
                "make what follows a session of its own"
            )


def _what_is_missing(path: Path, header: VideoHeader, frames: ShownFrames, last: ShownFrame, *, torn: int) -> str:
    """Why frames are missing; ``torn`` is 1 where a live recording ends in its last packet, which may be damaged."""
    count, last_s = last.number + 1, frames.seconds(last.ticks)
    if header.promised_frames is not None:
        if count >= header.promised_frames or _are_dropped_frames(path, header, frames, last):
            return _what_is_torn(frames, last, torn)
        return f"the header promises {header.promised_frames} frames, {count} decode"
    # No count in this container: a whole second is beyond what rounding and a long last frame explain.
    tolerance_s = max(1.0, 3 / header.fps if header.fps else 0)
    # A stream's duration counts from its own beginning, which may be hours after 0, or before a clock that wraps;
    # Matroska's tag counts from 0.
    begin_s = frames.seconds(frames.stream.start_time or 0) if frames.stream.duration else 0.0
    if header.promised_s is not None and last_s - begin_s < header.promised_s - tolerance_s:
        return f"the header promises {header.promised_s:.1f} s, {last_s - begin_s:.1f} s decode"
    if missing := missing_bytes(path):
        return f"the file is {missing} bytes shorter than its header says"
    if frames.damaged_packets > torn:
        return f"{frames.damaged_packets} of its packets do not decode"
    return _what_is_torn(frames, last, torn)


def _what_is_torn(frames: ShownFrames, last: ShownFrame, torn: int) -> str:
    if frames.torn_packets > torn:
        return f"of {frames.torn_packets} of its packets a part is missing"
    if frames.damaged_frames > (torn and last.picture.is_corrupt):
        return f"{frames.damaged_frames} of its frames are damaged, as the decoder says"
    return ""


def _are_dropped_frames(path: Path, header: VideoHeader, frames: ShownFrames, last: ShownFrame) -> bool:
    """Whether the missing frames were never recorded: an AVI keeps an empty packet in the place of a dropped frame.

    That is so where the file is whole, every packet with content decodes, and the last frame is where the header ends.
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


# --- whether the file ends before its own container does: the rest of a copy that broke off ------------------------


def missing_bytes(path: Path) -> int:
    """By how many bytes a recording is shorter than its containers say; 0 where it is whole or they say nothing.

    AVI, Matroska and MP4 write the length of their parts into the file; only these numbers are read.
    """
    return sum(_missing_bytes(file) for file in recording_files(path))


def _missing_bytes(path: Path) -> int:
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] == b"RIFF":
            end = _end_of_riff(file, size)
        elif head[:4] == _EBML:
            end = _end_of_segment(file)
        elif head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"):
            end = _end_of_boxes(file, size)
        else:
            end = 0
    return max(end - size, 0)


def _end_of_riff(file: BinaryIO, size: int) -> int:
    """An AVI is one RIFF chunk, or several where it is larger than a gigabyte."""
    position = 0
    while position < size:
        file.seek(position)
        head = file.read(8)
        if head[:4] != b"RIFF" or head[4:] == _UNKNOWN or len(head) < 8:
            break  # other content after a whole AVI, or a WAV that was written to a pipe
        position += 8 + int.from_bytes(head[4:8], "little")
    return position


def _end_of_segment(file: BinaryIO) -> int:
    """A Matroska file is an EBML header and one segment; a segment that was recorded live has no length."""
    file.seek(4)
    header = _read_length(file)
    if header is None:
        return 0
    file.seek(header, 1)
    if file.read(4) != _SEGMENT:
        return 0
    length = _read_length(file)
    return 0 if length is None else file.tell() + length


def ends_within_a_block(path: Path) -> bool:
    """Whether a Matroska or WebM that was recorded live ends within a block, or within a cluster of known length.

    The header of such a file promises no length. Only the lengths of its elements are read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(4) != _EBML or _end_of_segment(file):
            return False
        file.seek(4)
        header = _read_length(file) or 0
        position = file.tell() + header
        while position < size:
            file.seek(position)
            first = file.read(1)[0]
            if first == 0:
                return False  # no element begins here
            file.seek(8 - first.bit_length(), 1)  # the rest of its identifier
            length = _read_length(file)  # None: a segment or a cluster, whose elements follow
            position = file.tell() + (length or 0)
        return position > size


def _read_length(file: BinaryIO) -> int | None:
    """EBML's number of variable length; None where all its bits are set, which means an unknown length."""
    first = file.read(1)
    if not first or not first[0]:
        return None
    more = 8 - first[0].bit_length()
    bits = 7 * (more + 1)
    value = int.from_bytes(first + file.read(more), "big") & ((1 << bits) - 1)
    return None if value == (1 << bits) - 1 else value


def _end_of_boxes(file: BinaryIO, size: int) -> int:
    """An MP4 is a sequence of boxes; one of length 0 extends to the end of the file."""
    position = 0
    while position + 8 <= size:
        file.seek(position)
        head = file.read(16)
        length = int.from_bytes(head[:4], "big")
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length < 8:
            break
        position += length
    return position


@dataclass(frozen=True)
class Streams:
    """What a recording's header says of its picture and sound."""

    # has_video, has_sound: whether it has such a stream; a cover picture of a sound file is no video
    has_video: bool
    has_sound: bool
    fps: float | None  # nominal frames per second; None where the header does not say
    seconds: float | None  # its length; None where the header does not say


def read_streams(path: Path) -> Streams:
    """What the header at ``path`` says; decodes nothing.

    Raises:
        RecordingError: it is empty, or is no media file.
    """
    import av

    with open_container(path) as container:
        videos = video_streams(container)
        rate = float(videos[0].average_rate or 0) if videos else 0.0
        return Streams(
            has_video=bool(videos),
            has_sound=bool(container.streams.audio),
            fps=rate if _FEWEST_FPS <= rate <= _MOST_FPS else None,
            seconds=container.duration / av.time_base if container.duration else None,
        )
