"""From a decoded frame to its picture, as every extractor sees it: BGR, upright, progressive.

OpenCV decodes the pictures, as OpenFace does, and every 32nd is compared with FFmpeg's own: OpenCV may report a frame
that it has not written. Version 5.0 and some before it do so with interlaced frames, and return whatever the memory
contained. So from the first interlaced frame on the pictures are FFmpeg's, deinterlaced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain
from pathlib import Path

import av
import cv2
import numpy as np
from av.filter import Graph

from tasks.media.container import RecordingError
from tasks.media.shown_frames import ShownFrame, ShownFrames

SAMPLED = 32  # every n-th frame is compared, starting with the first
# Mean difference of a sample, of 256 levels, that rounding may explain. The conversions are the same, so the difference
# is 0 where both use the same FFmpeg; a person who moves in front of a still camera changes more between two frames.
_TOLERANCE = 0.5
_ADVICE = "convert it with FFmpeg, for example ffmpeg -i VIDEO -c:v libx264 -crf 15 OTHER.mp4"
DEINTERLACING = "bwdif, one frame for each, at the time of its first field"
_TIME_BASE = Fraction(1, 25)


def read_pictures(path: Path, frames: ShownFrames) -> Iterator[tuple[ShownFrame, np.ndarray]]:
    """Every frame with its picture, (height, width, 3) uint8 BGR.

    Raises:
        RecordingError: OpenCV cannot open the video, its pictures are not FFmpeg's, or deinterlacing fails.
    """
    opencv = OpenCVFrames(path, frames.stream.codec.canonical_name)
    before: ShownFrame | None = None
    remaining = iter(frames)
    for frame in remaining:
        if frame.interlaced:
            opencv.close()
            break
        yield frame, opencv.picture_of(frame, frames.damaged_packets)
        before = frame
    else:
        opencv.end()
        return
    # The filter needs the frame before as well, whose picture was returned already.
    context = [frame] if before is None else [before, frame]
    try:
        for shown, picture in deinterlace(chain(context, remaining)):
            if shown is not before:
                yield shown, bgr(picture)
    except av.FFmpegError as error:
        raise RecordingError(f"{path.name}: deinterlacing failed: {error.strerror}") from None


def bgr(picture: av.VideoFrame) -> np.ndarray:
    """A frame of PyAV's, converted as OpenCV converts: (height, width, 3) uint8 BGR."""
    return picture.to_ndarray(format="bgr24", interpolation="BICUBIC")


class OpenCVFrames:
    """OpenCV's pictures of a video, in order.

    Args:
        path: the video.
        codec: FFmpeg's name of its codec, for messages.

    Raises:
        RecordingError: OpenCV cannot open it.
    """

    def __init__(self, path: Path, codec: str) -> None:
        self._name = path.name
        self._codec = codec
        self._gaps = 0
        # Naming the backend keeps OpenCV from taking a file name with '%' in it for a pattern of images.
        self._capture = cv2.VideoCapture(str(path.absolute()), cv2.CAP_FFMPEG)
        if not self._capture.isOpened():
            raise RecordingError(f"{path.name}: the video cannot be opened for decoding")

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
    graph = Graph()
    source = graph.add_buffer(width=like.width, height=like.height, format=like.format, time_base=_TIME_BASE)
    bwdif = graph.add("bwdif", "mode=send_frame:parity=auto:deint=interlaced")
    graph.link_nodes(source, bwdif, graph.add("buffersink")).configure()
    return graph


def _filtered(graph: Graph, waiting: deque[ShownFrame]) -> Iterator[tuple[ShownFrame, av.VideoFrame]]:
    while waiting:
        try:
            picture = graph.vpull()
        except (av.BlockingIOError, av.EOFError):
            return
        yield waiting.popleft(), picture
