"""A recording's frames: when each is shown, and its picture. The recording's sound is in ``sound``.

Second 0 of a recording is the moment its first frame is shown; all times of a session count from it. FFmpeg, through
PyAV, decodes every frame once: its time, the number of frames, and which are interlaced come from it. Frames that do
not decode do not exist.

OpenCV decodes the pictures, as OpenFace does, and every 32nd is compared with FFmpeg's own: OpenCV may report a frame
that it has not written. Version 5.0 and some before it do so with interlaced frames, and return whatever the memory
contained. So from the first interlaced frame on the pictures are FFmpeg's, deinterlaced. :func:`read_pictures` is where
a frame becomes the picture that all extractors see: BGR, upright, progressive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from storyframes.store.storage.scratch import scratch_folder
from tasks.media.container import RecordingError, ShownFrame, ShownFrames
from tasks.media.upright import write_lossless
from tasks.media.video_header import check_promise, read_header
from tasks.tools.tool_process import reaper

if TYPE_CHECKING:
    import av
    from av.filter import Graph

SAMPLED = 32  # every n-th frame is compared, starting with the first
# Mean difference of a sample, of 256 levels, that rounding may explain. The conversions are the same, so the difference
# is 0 where both use the same FFmpeg; a person who moves in front of a still camera changes more between two frames.
_TOLERANCE = 0.5
_ADVICE = "convert it with FFmpeg, for example ffmpeg -i VIDEO -c:v libx264 -crf 15 OTHER.mp4"
DEINTERLACING = "bwdif, one frame for each, at the time of its first field"
_TIME_BASE = Fraction(1, 25)


@dataclass(frozen=True)
class FrameBatch:
    """Consecutive decoded frames."""

    first: int  # number of the first frame, from 0
    time: np.ndarray  # (n,) float64 seconds of the recording
    rgb: np.ndarray  # (n, height, width, 3) uint8
    # (height, width, 3) uint8, the frame before the first of these, where the caller kept it
    previous: np.ndarray | None = None
    # (n,) bool, whether the picture shows anything: of a region of a picture, somebody; None where all do
    seen: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True)
class FrameTimes:
    """The times of all T frames that decode."""

    time: np.ndarray  # (T,) float64 seconds of the recording; the first is 0
    truncated: bool  # whether frames are missing
    interlaced: int  # how many of them are interlaced


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
    import cv2

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


_ANY_FPS = 25.0  # of a copy, where the header names no rate


@contextmanager
def file_for_tools(path: Path, cut: Callable[[int, np.ndarray], np.ndarray] | None = None) -> Iterator[Path]:
    """The video itself where its pictures are stored upright; else an upright copy, for a tool that opens the file.

    The copy has the same pixels and the same number of frames, at an even rate. It lies in a private folder, which is
    removed at the end of the block, and also when this process is killed.

    Args:
        cut: gives what the tool is to see of a frame, by its number and its picture, always of one size; None: all.

    Raises:
        RecordingError: see :func:`read_frames`.
        OSError: there is no room for the copy.
    """
    header = read_header(path)
    if header.is_upright and cut is None:
        yield path
        return
    with scratch_folder("upright") as folder, reaper(folder), ShownFrames(path) as frames:
        copy = folder / f"{path.stem}.avi"
        pictures = (cut(frame.number, whole) if cut else whole for frame, whole in read_pictures(path, frames))
        write_lossless(copy, pictures, header.fps or _ANY_FPS)
        yield copy


# --- pictures --------------------------------------------------------------------------------------------------------


def read_pictures(path: Path, frames: ShownFrames) -> Iterator[tuple[ShownFrame, np.ndarray]]:
    """Every frame with its upright picture, (height, width, 3) uint8 BGR.

    Raises:
        RecordingError: OpenCV cannot open the video, its pictures are not FFmpeg's, or deinterlacing fails.
    """
    import av

    opencv = OpenCVFrames(path, frames.stream.codec.canonical_name)
    before: ShownFrame | None = None
    remaining = iter(frames)
    for frame in remaining:
        if frame.interlaced:
            opencv.close()
            break
        yield frame, frames.orientation.upright(opencv.picture_of(frame, frames.damaged_packets))
        before = frame
    else:
        opencv.end()
        return
    # The filter needs the frame before as well, whose picture was returned already.
    context = [frame] if before is None else [before, frame]
    try:
        for shown, picture in deinterlace(chain(context, remaining)):
            if shown is not before:
                yield shown, frames.orientation.upright(bgr(picture))
    except av.FFmpegError as error:
        raise RecordingError(f"{path.name}: deinterlacing failed: {error.strerror}") from None


def bgr(picture: av.VideoFrame) -> np.ndarray:
    """A frame of PyAV's, converted as OpenCV converts: (height, width, 3) uint8 BGR."""
    return picture.to_ndarray(format="bgr24", interpolation="BICUBIC")


class OpenCVFrames:
    """OpenCV's pictures of a video, in order, as they are stored.

    Args:
        codec: FFmpeg's name of its codec, for messages.

    Raises:
        RecordingError: OpenCV cannot open it.
    """

    def __init__(self, path: Path, codec: str) -> None:
        import cv2

        self._name = path.name
        self._codec = codec
        self._gaps = 0
        # Naming the backend keeps OpenCV from taking a file name with '%' in it for a pattern of images.
        self._capture = cv2.VideoCapture(str(path.absolute()), cv2.CAP_FFMPEG)
        if not self._capture.isOpened():
            raise RecordingError(f"{path.name}: the video cannot be opened for decoding")
        self._capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 0)  # it turns, but does not mirror

    def picture_of(self, frame: ShownFrame, damaged_packets: int = 0) -> np.ndarray:
        """The next picture, which should be this frame's: (height, width, 3) uint8 BGR.

        Args:
            frame: as FFmpeg decoded it.
            damaged_packets: so far; OpenCV reports a missing picture once for each, and then goes on.

        Raises:
            RecordingError: OpenCV has no more pictures, or this one is not the frame's.
        """
        where = f"{self._name}: frame {frame.number + 1}"
        ok, picture = self._capture.read()
        while not ok and self._gaps < damaged_packets:
            self._gaps += 1
            ok, picture = self._capture.read()
        if not ok:
            raise RecordingError(f"{where} ({self._codec}) decodes with FFmpeg, but not with OpenCV; {_ADVICE}")
        expected = (frame.picture.height, frame.picture.width, 3)
        if picture.shape != expected:
            sizes = f"{expected[1]}x{expected[0]}, but OpenCV gives {picture.shape[1]}x{picture.shape[0]}"
            raise RecordingError(f"{where} is {sizes}; {_ADVICE}")
        if frame.number % SAMPLED == 0:
            self._compare(picture, frame, where)
        return picture

    def _compare(self, picture: np.ndarray, frame: ShownFrame, where: str) -> None:
        import cv2

        difference = cv2.norm(picture, bgr(frame.picture), cv2.NORM_L1) / picture.size
        if difference > _TOLERANCE:
            raise RecordingError(
                f"{where} is another picture with OpenCV than with FFmpeg (they differ by {difference:.1f} of 256 "
                f"levels on the average, {_TOLERANCE} may be rounding): one of them is wrong; {_ADVICE}"
            )

    def end(self) -> None:
        """Close OpenCV's decoder after the last frame.

        Raises:
            RecordingError: OpenCV has more frames.
        """
        has_more = self._capture.grab()
        self.close()
        if has_more:
            raise RecordingError(f"{self._name}: OpenCV decodes more frames of it than FFmpeg; {_ADVICE}")

    def close(self) -> None:
        self._capture.release()


def deinterlace(frames: Iterable[ShownFrame]) -> Iterator[tuple[ShownFrame, av.VideoFrame]]:
    """Every frame with its deinterlaced picture; frames that are not interlaced pass unchanged.

    One progressive frame for each interlaced one, so that rows and times stay those of the recording. FFmpeg's bwdif
    reads the frame before and the frame after, so it is one frame behind; no more is in memory.

    Args:
        frames: in order, of one size and pixel format.

    Raises:
        av.FFmpegError: the filter refuses a frame.
    """
    graph: Graph | None = None
    waiting: deque[ShownFrame] = deque()
    for number, frame in enumerate(frames):
        if graph is None:
            graph = _bwdif(frame.picture)
        waiting.append(frame)
        frame.picture.pts, frame.picture.time_base = number, _TIME_BASE  # for the filter alone; ours are in ``frame``
        graph.vpush(frame.picture)
        yield from _filtered(graph, waiting)
    if graph is not None:
        graph.vpush(None)
        yield from _filtered(graph, waiting)


def _bwdif(like: av.VideoFrame) -> Graph:
    from av.filter import Graph

    graph = Graph()
    source = graph.add_buffer(width=like.width, height=like.height, format=like.format, time_base=_TIME_BASE)
    bwdif = graph.add("bwdif", "mode=send_frame:parity=auto:deint=interlaced")
    graph.link_nodes(source, bwdif, graph.add("buffersink")).configure()
    return graph


def _filtered(graph: Graph, waiting: deque[ShownFrame]) -> Iterator[tuple[ShownFrame, av.VideoFrame]]:
    import av

    while waiting:
        try:
            picture = graph.vpull()
        except (av.BlockingIOError, av.EOFError):
            return
        yield waiting.popleft(), picture
