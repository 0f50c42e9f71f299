"""Writes upright pictures as a video, for tools that open files themselves."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def write_lossless(path: Path, pictures: Iterable[NDArray[np.uint8]], rate: float) -> int:
    """A video of these pictures that every FFmpeg since 2003 decodes to the very same pixels: HuffYUV of RGB in an AVI.

    Args:
        path: a new file, ``.avi``.
        pictures: (height, width, 3) uint8 BGR, of one size.
        rate: frames a second; an AVI has no other times.

    Returns:
        How many frames it has.
    """
    import av
    import cv2

    count = 0
    with av.open(str(path), "w", format="avi") as container:
        stream: Any = None
        for picture in pictures:
            if stream is None:
                stream = container.add_stream("huffyuv", rate=Fraction(rate).limit_denominator(1001))
                stream.height, stream.width = picture.shape[:2]
                stream.pix_fmt = "rgb24"
                stream.codec_context.thread_count = 1
            rgb: Any = cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
            frame = av.VideoFrame.from_ndarray(rgb, "rgb24")
            frame.pts, frame.time_base = count, 1 / stream.codec_context.framerate
            container.mux(stream.encode(frame))
            count += 1
        if stream is not None:
            container.mux(stream.encode(None))
    return count
