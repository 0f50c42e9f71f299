"""Decoded frames become the pictures that all extractors see: BGR of 8 bits, progressive and upright.

swscale converts, with the same bits as OpenCV's reader of videos, which earlier versions used. HDR (PQ, HLG) and wide
gamut (BT.2020, P3) are mapped to BT.709, as a player does on an ordinary screen. Interlaced frames are deinterlaced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from tasks.media.container import RecordingError, ShownFrame, ShownFrames

if TYPE_CHECKING:
    import av
    from av.filter import Graph

DEINTERLACING = "bwdif, one frame for each, at the time of its first field"
_TIME_BASE = Fraction(1, 25)
# Codes of ITU-T H.273 for colours that an ordinary screen cannot show.
_WIDE_PRIMARIES = frozenset({8, 9, 11, 12})  # film, BT.2020, DCI-P3, Display P3
_HDR_TRANSFERS = frozenset({9, 10, 16, 17, 18})  # logarithmic (2), PQ, SMPTE ST 428, HLG
_BT709 = 1
_MATRICES = {8: "YCgCo", 10: "BT.2020 constant luminance"}


def has_wide_colours(picture: av.VideoFrame) -> bool:
    """Whether a frame's colours are beyond BT.709, as its tags say: HDR or a wide gamut."""
    return picture.color_primaries in _WIDE_PRIMARIES or picture.color_trc in _HDR_TRANSFERS


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
            RecordingError: its colours are coded in a way that FFmpeg does not convert.
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
            raise RecordingError(
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
        RecordingError: colours cannot be converted, or deinterlacing fails.
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
        raise RecordingError(f"{frames.name}: deinterlacing failed: {error.strerror}") from None


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
