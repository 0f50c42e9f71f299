"""Deinterlacing: one progressive frame for each interlaced one, so that rows and times stay those of the recording."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from fractions import Fraction

import av
from av.filter import Graph

from tasks.media.shown_frames import ShownFrame

POLICY = "bwdif, one frame for each, at the time of its first field"
_TIME_BASE = Fraction(1, 25)


def deinterlace(frames: Iterable[ShownFrame]) -> Iterator[tuple[ShownFrame, av.VideoFrame]]:
    """Every frame with its deinterlaced picture; frames that are not interlaced pass as they are.

    FFmpeg's bwdif looks at the frame before and the frame after, so it is one frame behind; no more is in memory.

    Args:
        frames: in order, of one size and pixel format.

    Raises:
        av.FFmpegError: the filter refuses a frame.
    """
    graph: Graph | None = None
    waiting: deque[ShownFrame] = deque()
    for number, frame in enumerate(frames):
        if graph is None:
            graph = _graph(frame.picture)
        waiting.append(frame)
        frame.picture.pts, frame.picture.time_base = number, _TIME_BASE  # the filter wants some; ours are in ``frame``
        graph.vpush(frame.picture)
        yield from _ready(graph, waiting)
    if graph is not None:
        graph.vpush(None)
        yield from _ready(graph, waiting)


def _graph(like: av.VideoFrame) -> Graph:
    graph = Graph()
    source = graph.add_buffer(width=like.width, height=like.height, format=like.format, time_base=_TIME_BASE)
    bwdif = graph.add("bwdif", "mode=send_frame:parity=auto:deint=interlaced")
    graph.link_nodes(source, bwdif, graph.add("buffersink")).configure()
    return graph


def _ready(graph: Graph, waiting: deque[ShownFrame]) -> Iterator[tuple[ShownFrame, av.VideoFrame]]:
    while waiting:
        try:
            picture = graph.vpull()
        except (av.BlockingIOError, av.EOFError):
            return
        yield waiting.popleft(), picture
