"""A video's frames as FFmpeg decodes them, in the order in which they are shown, with times and how they are turned.

A phone that is held upright stores its pictures lying, and beside them a matrix that says how a player has to turn
them (ISO 14496-12, the matrix of a track header). FFmpeg hands it over with every frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from tasks.media.container import (
    FIRST_STREAMS,
    JoinedFiles,
    RecordingError,
    StreamChoice,
    chosen_video,
    open_container,
    opened_files,
)

if TYPE_CHECKING:
    import av

_BEGINS_ANYWHERE = ("mpegts", "mpeg")
# Decoders that leave a part of a damaged picture as it was in memory, so that it is another one in each read. These two
# say so if they are asked to be strict, ProRes always does, FFV1 never.
_STRICT = ("mjpeg", "jpegls")
_UNWRITTEN = (*_STRICT, "prores", "ffv1")
_RECENT = 30  # frames whose usual distance gives the time of an AVI's last frames

# Codes of ITU-T H.273 for colours that an ordinary screen cannot show.
_WIDE_PRIMARIES = frozenset({8, 9, 11, 12})  # film, BT.2020, DCI-P3, Display P3
_HDR_TRANSFERS = frozenset({9, 10, 16, 17, 18})  # logarithmic (2), PQ, SMPTE ST 428, HLG
_ONE = 1 << 16  # the matrix has numbers of 16.16 bits


@dataclass(frozen=True)
class Orientation:
    """What makes a stored picture upright, in this order.

    Example:
        >>> import numpy as np
        >>> clockwise = Orientation(transposed=True, mirrored=True)
        >>> clockwise.upright(np.array([[1, 2], [3, 4]], np.uint8)).tolist()
        [[3, 1], [4, 2]]
    """

    transposed: bool = False  # rows become columns
    mirrored: bool = False  # left becomes right
    upside_down: bool = False  # above becomes below

    @property
    def is_stored(self) -> bool:
        """Whether stored pictures are upright."""
        return not (self.transposed or self.mirrored or self.upside_down)

    def upright(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The upright picture of a stored one, (height, width) or (height, width, 3) uint8."""
        import cv2

        upright: Any = cv2.transpose(picture) if self.transposed else picture
        if self.mirrored or self.upside_down:
            upright = cv2.flip(upright, -1 if self.mirrored and self.upside_down else int(self.mirrored))
        return upright

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height of the upright picture of a stored one."""
        return (height, width) if self.transposed else (width, height)


STORED = Orientation()


def orientation_of(picture: av.VideoFrame) -> Orientation | None:
    """How a decoded frame is to be turned; None where its matrix does something else than to turn and to mirror."""
    from av.sidedata import sidedata

    # picture.side_data would keep the container, and the container the picture: their memory would be free only when
    # Python looks for such cycles, hundreds of frames later.
    container: Any = sidedata.SideDataContainer
    stored: Any = container(picture).get("DISPLAYMATRIX")
    if stored is None:
        return STORED
    matrix = np.frombuffer(bytes(stored), np.int32)
    if len(matrix) != 9:
        return None
    (a, b, _), (c, d, _), _ = matrix.reshape(3, 3).tolist()  # x' = a x + c y, y' = b x + d y
    if b == c == 0 and abs(a) == abs(d) == _ONE:
        return Orientation(mirrored=a < 0, upside_down=d < 0)
    if a == d == 0 and abs(b) == abs(c) == _ONE:
        return Orientation(transposed=True, mirrored=c < 0, upside_down=b < 0)
    return None


@dataclass(frozen=True)
class ShownFrame:
    """One frame, decoded and not yet converted."""

    number: int  # counted from 0
    ticks: int  # when it is shown on the container's clock, in units of the stream's time base
    picture: av.VideoFrame  # as FFmpeg decoded it

    @property
    def interlaced(self) -> bool:
        """Whether it is two fields of different moments, as the stream says."""
        return bool(self.picture.interlaced_frame)


def has_wide_colours(picture: av.VideoFrame) -> bool:
    """Whether a frame's colours are beyond BT.709, as its tags say: HDR or a wide gamut."""
    return picture.color_primaries in _WIDE_PRIMARIES or picture.color_trc in _HDR_TRANSFERS


class _SecondDecoder:
    """Decodes a video again, with other pictures in memory: what differs was not decoded, but left as it was there."""

    def __init__(self, stream: av.VideoStream) -> None:
        import av

        first: Any = stream.codec_context
        self._context: Any = av.VideoCodecContext.create(stream.codec.name, "r")
        for name, value in (("extradata", first.extradata), ("width", first.width), ("height", first.height)):
            setattr(self._context, name, value)
        self._context.thread_count = 1
        self._held: deque[av.VideoFrame] = deque(maxlen=3)  # their memory is not used again as early as the first's

    def gives(self, picture: av.VideoFrame, packet: av.Packet[Any]) -> bool:
        """Whether the packet of which the first decoder made this picture gives the same again."""
        import av

        try:
            pictures = self._context.decode(packet)
        except av.FFmpegError:
            return False
        self._held.extend(pictures)
        return [_pixels(again) for again in pictures] == [_pixels(picture)]


def _pixels(picture: av.VideoFrame) -> list[bytes]:
    """The planes of a decoded frame, without what is beside the picture in memory."""
    planes = []
    for number, plane in enumerate(picture.planes):
        width = plane.width * sum(-(-part.bits // 8) for part in picture.format.components if part.plane == number)
        planes.append(np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, -1)[:, :width].tobytes())
    return planes


class ShownFrames:
    """An open video; iterating decodes it once, from the first frame, with one frame in memory.

    What does not decode is left out; the caller compares with the header and decides whether that is allowed.

    Args:
        streams: which video of a file that has several.

    Attributes:
        name: of the file.
        streams: PyAV's video stream of each file of the recording.
        stream: the first of them, in whose time base all times are.
        format: FFmpeg's name of the container.
        last: the last frame so far.
        filled_packets: packets read so far that have content; an AVI has an empty one where its recorder dropped a
            frame.
        damaged_packets: those that did not decode.
        torn_packets: those of which a part is missing; what decodes of them is no whole frame.
        damaged_frames: frames so far of which the decoder says that it invented a part.
        orientation: how the frames so far are to be turned to be upright.

    Raises:
        RecordingError: it cannot be opened or has no video; while iterating: it does not begin with a keyframe, a frame
            has no time or an earlier one than the frame before it, the size changes, or a frame is to be shown askew or
            turned otherwise than the frames before it.
    """

    def __init__(self, path: Path, streams: StreamChoice = FIRST_STREAMS) -> None:
        self.name = path.name
        self._container = open_container(path)
        try:
            self.streams = [chosen_video(file, path.name, streams) for file in opened_files(self._container)]
        except RecordingError:
            self._container.close()
            raise
        self.stream = self.streams[0]
        self._codec = self.stream.codec.canonical_name
        # One thread: a process has one recording at a time, and there are as many processes as processors. It is also
        # needed for correct values: with threads for frames it is unknown which packet a frame comes from (see _ticks),
        # and with threads for slices damaged H.264 decodes to other pictures than FFmpeg's command shows.
        for stream in self.streams:
            stream.thread_type = "NONE"
            stream.codec_context.thread_count = 1
            if self._codec in _STRICT:
                stream.codec_context.options = {"err_detect": "explode"}
        self._second: _SecondDecoder | None = None
        self.format = self._container.format.name
        self.last: ShownFrame | None = None
        self.filled_packets = self.damaged_packets = self.torn_packets = self.damaged_frames = 0
        self.orientation = STORED
        self._first_packet: int | None = None
        self._opening: av.Packet[Any] | None = None  # the first packet of the file that is being read
        self._opened: av.Packet[Any] | None = None  # the one of the file of the last frame
        self._delay = 0
        self._recent: deque[int] = deque(maxlen=_RECENT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._container.close()

    def __iter__(self) -> Iterator[ShownFrame]:
        for picture in self._decoded():
            number = self.last.number + 1 if self.last else 0
            frame = ShownFrame(number, self._ticks(picture, self.last, number), picture)
            self._check(frame, self.last)
            if self._opened is not self._opening:
                self._check_beginning(picture)
                self._opened = self._opening
            self.damaged_frames += picture.is_corrupt
            self.last = frame
            yield frame

    @property
    def is_default(self) -> bool:
        """Whether it is the first picture of one file, which programs that open the file themselves read."""
        return len(self.streams) == 1 and bool(self.stream.index == self._container.streams.video[0].index)

    @property
    def longer_s(self) -> float:
        """For how many seconds frames so far are shown longer, see :class:`~tasks.media.container.JoinedFiles`."""
        return self._container.longer_s if isinstance(self._container, JoinedFiles) else 0.0

    def seconds(self, ticks: int) -> float:
        """Ticks of the stream's time base in seconds."""
        base = self.stream.time_base
        return ticks * base.numerator / base.denominator if base else 0.0

    def _decoded(self) -> Iterator[av.VideoFrame]:
        import av

        try:
            for packet in self._container.demux(self.stream):
                if self._opening is None or packet.stream is not self._opening.stream:
                    self._opening = packet
                    self._second = _SecondDecoder(packet.stream) if self._codec == "ffv1" else None
                self.filled_packets += packet.size > 0 and not packet.is_discard
                # A broadcast may begin anywhere, with frames whose first packets are missing.
                counts = self.last is not None or self.format not in _BEGINS_ANYWHERE
                self.torn_packets += packet.is_corrupt and counts
                try:
                    pictures = packet.decode()
                except av.FFmpegError:
                    self.damaged_packets += counts
                    continue  # as OpenCV and OpenFace do
                if self._first_packet is None:
                    self._first_packet = packet.dts
                whole = [picture for picture in pictures if self._is_written(picture, packet)]
                self.damaged_packets += counts and len(whole) < len(pictures)
                yield from whole
        except (av.InvalidDataError, av.EOFError):
            yield from self._kept_back()  # damaged from here on
        except av.FFmpegError as error:
            raise RecordingError(f"{self.name}: reading it failed: {error.strerror}") from None

    def _is_written(self, picture: av.VideoFrame, packet: av.Packet[Any]) -> bool:
        """Whether all of a picture was decoded, as far as its decoder can tell."""
        if self._codec in _UNWRITTEN and picture.is_corrupt:
            return False
        return self._second is None or self._second.gives(picture, packet)

    def _kept_back(self) -> Iterator[av.VideoFrame]:
        """The frames that the decoder still has when the file breaks off."""
        import av

        try:
            yield from (self._opening.stream if self._opening else self.stream).decode(None)
        except av.FFmpegError:
            return

    def _ticks(self, picture: av.VideoFrame, last: ShownFrame | None, number: int) -> int:
        """When the frame is shown.

        An AVI has no presentation times, only the order of its packets, and FFmpeg's guesses at them run backwards
        where the video has B-frames. The packets' times are those of the frames in the order in which they are shown,
        so a frame has the time of the packet after which the decoder returns it, less the delay of the first. The last
        frames, which the decoder returns at the end of the file, continue with the usual step.
        """
        ticks = picture.dts if self.format == "avi" or picture.pts is None else picture.pts
        if self.format == "avi" and picture.dts is not None:
            if last is None:
                self._delay = picture.dts - (picture.dts if self._first_packet is None else self._first_packet)
            ticks = picture.dts - self._delay
        if ticks is None and last is not None:
            step = median_low(self._recent) if self._recent else self._nominal_step()
            ticks = last.ticks + step
        if ticks is None:
            ticks = picture.pts
        if ticks is None:
            raise RecordingError(f"{self.name}: frame {number + 1} carries no timestamp; remux it with FFmpeg")
        if last is not None:
            self._recent.append(ticks - last.ticks)
        return ticks

    def _nominal_step(self) -> int:
        rate, base = self.stream.average_rate, self.stream.time_base
        return round(1 / rate / base) if rate and base else 1

    def _check(self, frame: ShownFrame, last: ShownFrame | None) -> None:
        picture, where = frame.picture, f"{self.name}: frame {frame.number + 1}"
        try:
            orientation = orientation_of(picture)
        except ValueError:  # PyAV cannot list a frame's side data if it does not know all of its kinds
            raise RecordingError(
                f"{where} ({self._codec}) has metadata of a kind that PyAV does not read, so how it "
                "is to be turned is unknown; convert it: ffmpeg -i VIDEO -c:v libx264 -crf 15 -c:a copy OTHER.mp4"
            ) from None
        if orientation is None or (last is not None and orientation != self.orientation):
            how = "askew" if orientation is None else "turned otherwise than the frames before it"
            raise RecordingError(
                f"{where} is to be shown {how} (the container says so): frames are turned by 90, 180 or 270 degrees or "
                "mirrored, and all of a recording alike; make them upright: ffmpeg -i VIDEO -c:a copy UPRIGHT.mp4"
            )
        self.orientation = orientation
        if last is None:
            return
        if frame.ticks < last.ticks:
            raise RecordingError(
                f"{self.name}: the timestamps run backwards: frame {frame.number + 1} is at "
                f"{self.seconds(frame.ticks):.3f} s, the one before it at {self.seconds(last.ticks):.3f} s; remux it "
                "with FFmpeg"
            )
        before = last.picture
        if (picture.width, picture.height) != (before.width, before.height):
            raise RecordingError(
                f"{where} is {picture.width}x{picture.height}, the frames before it are "
                f"{before.width}x{before.height}; one recording has one size: convert it with FFmpeg (-vf scale)"
            )

    def _check_beginning(self, first: av.VideoFrame) -> None:
        """Refuse a first frame that was predicted from frames before it: without these, most decoders return garbage.

        An MP4 that was trimmed without coding it again has these frames, hidden by its edit list. FFmpeg's H.264
        decoder returns nothing until the whole picture was renewed, which a camera may do bit by bit, without any
        keyframe.
        """
        from av.video.frame import PictureType

        opening = self._opening
        if first.key_frame or first.pict_type == PictureType.I or self._codec == "h264":
            return
        is_unknown = first.pict_type == PictureType.NONE
        if opening is not None and opening.is_keyframe and (opening.is_discard or is_unknown):
            return
        raise RecordingError(
            f"{self.name}: does not begin with a keyframe, so its pictures up to the next one are garbage; "
            + self._advice()
        )

    def _advice(self) -> str:
        """What to do about the pictures before the first keyframe."""
        import av

        rest = self._container.demux(self.stream)
        keyframe = next((packet for packet in rest if packet.is_keyframe and packet.dts is not None), None)
        if keyframe is None or keyframe.dts is None:
            return "it has no keyframe at all: copy it again"
        seconds = self.seconds(keyframe.dts) - (self._container.start_time or 0) / av.time_base
        return (
            f"cut them off, so that second 0 is at its second {seconds:.3f}: "
            f"ffmpeg -i VIDEO -ss {seconds:.3f} -c:v libx264 -crf 15 OTHER.mp4, and look at its first pictures"
        )
