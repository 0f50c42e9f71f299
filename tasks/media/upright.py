"""Upright pictures: how a recording's frames are to be turned, and a copy of them for tools that open files themselves.

A phone that is held upright stores its pictures lying, and beside them a matrix that says how a player has to turn
them (ISO 14496-12, the matrix of a track header). FFmpeg hands it over with every frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import av

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
