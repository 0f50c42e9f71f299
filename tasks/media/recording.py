"""A recording's frames: when each is shown, and its picture. The recording's sound is in ``sound``.

Second 0 of a recording is the moment its first frame is shown; all times of a session count from it. FFmpeg, through
PyAV, decodes every frame once, and one decoding gives all: its time, the number of frames, which are interlaced, and
the pictures. Frames that do not decode do not exist.

The pictures are those that all extractors see: BGR of 8 bits, progressive and upright. swscale converts, with the same
bits as OpenCV's reader of videos, which earlier versions used: it returns uninitialised memory for interlaced frames
(4.14, 5.0), and has no times in an AVI with B-frames and no AV1. HDR (PQ, HLG) and wide gamut (BT.2020, P3) are mapped
to BT.709, as a player does on an ordinary screen. Interlaced frames are deinterlaced.
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
from tasks.media.container import FIRST_STREAMS, PictureError, RecordingError, StreamChoice, recording_files
from tasks.media.shown_frames import ShownFrame, ShownFrames, has_wide_colours
from tasks.media.upright import write_lossless
from tasks.media.video_header import check_promise, read_header
from tasks.tools.tool_process import reaper

if TYPE_CHECKING:
    import av
    from av.filter import Graph

DEINTERLACING = "bwdif, one frame for each, at the time of its first field"
_TIME_BASE = Fraction(1, 25)
_BT709 = 1
_MATRICES = {8: "YCgCo", 10: "BT.2020 constant luminance"}


@dataclass(frozen=True)
class FrameBatch:
    """Consecutive decoded frames.

    Attributes:
        first: the number of the first frame, from 0.
        time: (n,) float64 seconds of the recording.
        rgb: (n, height, width, 3) uint8.
        previous: (height, width, 3) uint8, the frame before the first of these, where the caller kept it.
        seen: (n,) bool, whether the picture shows anything: of a region of a picture, somebody; None where all do.
    """

    first: int
    time: np.ndarray
    rgb: np.ndarray
    previous: np.ndarray | None = None
    seen: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.time)


@dataclass(frozen=True)
class FrameTimes:
    """The times of all T frames that decode."""

    time: np.ndarray  # (T,) float64 seconds of the recording; the first is 0
    truncated: bool  # whether frames are missing
    interlaced: int  # how many of them are interlaced
    longer_s: float = 0.0  # for how long the last frames of files are shown until the next file begins


class RecordingReader:
    """One decoding of a video: its pictures in batches and, after the last of them, the times of all its frames.

    One batch is in memory at a time, and the caller may keep its arrays.

    Args:
        path: the video.
        batch_size: how many frames a batch has; the last one may have fewer.
        allow_truncated: missing frames are no error.
        map_colours: whether HDR and wide gamut are mapped to BT.709, else pictures have the coded values.
        streams: which video of a file that has several.

    Attributes:
        wants_pictures: may be set to False at any time: what follows is decoded for its times only.
    """

    def __init__(
        self,
        path: Path,
        batch_size: int = 1,
        *,
        allow_truncated: bool = False,
        map_colours: bool = True,
        streams: StreamChoice = FIRST_STREAMS,
    ) -> None:
        self._path = path
        self._streams = streams
        self._batch_size = batch_size
        self._allow_truncated = allow_truncated
        self._converter = PictureConverter(path.name, map_colours=map_colours)
        self._ticks: list[int] = []
        self._interlaced = 0
        self._times: FrameTimes | None = None
        self.wants_pictures = True

    @property
    def has_wide_colours(self) -> bool:
        """Whether a picture so far is of HDR or of a wide gamut."""
        return self._converter.has_wide_colours

    @property
    def times(self) -> FrameTimes:
        """The times of all frames, after the last batch."""
        if self._times is None:
            raise ValueError(f"{self._path.name} has not been read to its end")
        return self._times

    def batches(self) -> Iterator[FrameBatch]:
        """The frames, once.

        Raises:
            RecordingError: nothing decodes, the size changes, the times run backwards, or a picture cannot be
                converted.
            TruncatedError: after the last frame, where frames are missing (unless ``allow_truncated``).
        """
        header = read_header(self._path, self._streams)
        with ShownFrames(self._path, self._streams) as frames:
            shown = self._counted(frames)
            if self.wants_pictures:
                with _one_opencv_thread():
                    yield from self._filled(frames, shown)
            for _ in shown:
                """Only its time is wanted."""
            truncated = check_promise(self._path, header, frames, allow_truncated=self._allow_truncated)
            ticks = self._ticks
            if len(ticks) > 1 and ticks[0] == ticks[-1]:
                raise RecordingError(f"{self._path.name}: its frames carry no timestamps; remux it with FFmpeg")
            time = np.array([frames.seconds(tick - ticks[0]) for tick in ticks])
            self._times = FrameTimes(time, truncated, self._interlaced, frames.longer_s)

    def _counted(self, frames: ShownFrames) -> Iterator[ShownFrame]:
        for frame in frames:
            self._ticks.append(frame.ticks)
            self._interlaced += frame.interlaced
            yield frame

    def _filled(self, frames: ShownFrames, shown: Iterator[ShownFrame]) -> Iterator[FrameBatch]:
        import cv2

        time, rgb = np.empty(self._batch_size), None
        count = filled = 0
        for frame, picture in read_pictures(frames, shown, self._converter):
            if rgb is None:
                rgb = np.empty((self._batch_size, *picture.shape), np.uint8)
            time[filled] = frames.seconds(frame.ticks - self._ticks[0])
            cv2.cvtColor(picture, cv2.COLOR_BGR2RGB, dst=rgb[filled])
            count, filled = count + 1, filled + 1
            if filled == self._batch_size:
                yield FrameBatch(count - filled, time, rgb)
                if not self.wants_pictures:
                    return
                time, rgb, filled = np.empty(self._batch_size), np.empty_like(rgb), 0
        if filled and rgb is not None:
            yield FrameBatch(count - filled, time[:filled], rgb[:filled])


@contextmanager
def _one_opencv_thread() -> Iterator[None]:
    """Keep OpenCV from starting a thread for each processor in every process that extracts."""
    import cv2

    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(before)


def read_frame_times(path: Path, *, allow_truncated: bool = False, streams: StreamChoice = FIRST_STREAMS) -> FrameTimes:
    """The time of every frame that decodes.

    Raises:
        RecordingError: nothing decodes, or the times run backwards.
        TruncatedError: frames are missing (unless ``allow_truncated``).
    """
    reader = RecordingReader(path, allow_truncated=allow_truncated, streams=streams)
    reader.wants_pictures = False
    for _ in reader.batches():
        """There are none."""
    return reader.times


def read_frames(
    path: Path, batch_size: int, *, allow_truncated: bool = False, streams: StreamChoice = FIRST_STREAMS
) -> Iterator[FrameBatch]:
    """The frames of ``path`` in batches, see :meth:`RecordingReader.batches`."""
    return RecordingReader(path, batch_size, allow_truncated=allow_truncated, streams=streams).batches()


_ANY_FPS = 25.0  # of a copy, where the header names no rate


@contextmanager
def file_for_tools(
    path: Path,
    cut: Callable[[int, np.ndarray], np.ndarray] | None = None,
    converter: PictureConverter | None = None,
    streams: StreamChoice = FIRST_STREAMS,
) -> Iterator[Path]:
    """The video itself, or a copy of it, for a tool that opens the file.

    It is copied where its pictures are not stored upright, where the file has several videos of which not the first is
    chosen, and where the recording is several files. The copy has the same pixels and the same number of frames, at an
    even rate. It lies in a private folder, which is removed at the end of the block, and also when this process is
    killed.

    Args:
        cut: gives what the tool is to see of a frame, by its number and its picture, always of one size; None: all.
        converter: of the pictures of a copy; without it colours beyond BT.709 are mapped.
        streams: which video of a file that has several.

    Raises:
        RecordingError: see :meth:`RecordingReader.batches`.
        OSError: there is no room for the copy.
    """
    header = read_header(path, streams)
    if header.is_upright and header.is_default and cut is None:
        yield path
        return
    with scratch_folder("upright") as folder, reaper(folder), ShownFrames(path, streams) as frames:
        copy = folder / f"{recording_files(path)[0].stem}.avi"
        shown = read_pictures(frames, iter(frames), converter or PictureConverter(path.name))
        pictures = (cut(frame.number, whole) if cut else whole for frame, whole in shown)
        write_lossless(copy, pictures, header.fps or _ANY_FPS)
        yield copy


class PictureConverter:
    """Converts the frames of one recording, in one thread.

    Args:
        name: of the recording, for messages.
        map_colours: whether colours beyond BT.709 are mapped to it, else the coded values are kept.

    Attributes:
        has_wide_colours: whether a frame so far has colours beyond BT.709.
    """

    def __init__(self, name: str, *, map_colours: bool = True) -> None:
        from av.video.reformatter import Interpolation, VideoReformatter

        self._name = name
        self._map_colours = map_colours
        self._reformatter = VideoReformatter()  # kept: a new one for HDR takes seconds to prepare its tables
        self._bicubic = Interpolation.BICUBIC
        self.has_wide_colours = False

    def bgr(self, picture: av.VideoFrame) -> np.ndarray:
        """A decoded frame as (height, width, 3) uint8 BGR.

        Raises:
            PictureError: its colours are coded in a way that FFmpeg does not convert.
        """
        import av

        is_wide = has_wide_colours(picture)
        self.has_wide_colours |= is_wide
        target = _BT709 if is_wide and self._map_colours else None
        try:
            converted = self._reformatter.reformat(
                picture,
                format="bgr24",
                interpolation=self._bicubic,
                dst_color_trc=target,
                dst_color_primaries=target,
                threads=1,
            )
        except (av.FFmpegError, OSError) as error:
            matrix = _MATRICES.get(picture.colorspace, f"number {picture.colorspace} of ITU-T H.273")
            raise PictureError(
                f"{self._name}: FFmpeg does not convert its colours (pixel format {picture.format.name}, matrix "
                f"{matrix}): {error.strerror}; encode it again with the matrix BT.709 (from YCgCo: ffmpeg -i VIDEO "
                "-vf zscale=matrix=709,format=yuv420p -c:v libx264 -crf 15 -c:a copy OTHER.mp4)"
            ) from None
        return converted.to_ndarray()


def read_pictures(
    frames: ShownFrames, shown: Iterator[ShownFrame], converter: PictureConverter
) -> Iterator[tuple[ShownFrame, np.ndarray]]:
    """Every frame with its upright picture, (height, width, 3) uint8 BGR.

    Args:
        frames: the open video.
        shown: its frames.

    Raises:
        PictureError: colours cannot be converted, or deinterlacing fails.
    """
    import av

    before: ShownFrame | None = None
    for frame in shown:
        if frame.interlaced:
            break
        yield frame, frames.orientation.upright(converter.bgr(frame.picture))
        before = frame
    else:
        return
    # The filter needs the frame before as well, whose picture was returned already.
    context = [frame] if before is None else [before, frame]
    try:
        for deinterlaced, picture in deinterlace(chain(context, shown)):
            if deinterlaced is not before:
                yield deinterlaced, frames.orientation.upright(converter.bgr(picture))
    except av.FFmpegError as error:
        raise PictureError(f"{frames.name}: deinterlacing failed: {error.strerror}") from None


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
    graph.threads = 1
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
