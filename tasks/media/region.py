"""A region of a recording's pictures, as a camera of its own: cut out, of one size, and its points put back.

A fixed region is cut out as it is, to whole pixels. Moving boxes become pictures of one size: that of the largest box
of the recording, rounded up to even numbers. A smaller box is enlarged until it fits, with its aspect kept (bilinear),
and is centred; what is beside it, or outside the recording's picture, is black. A box of that size is not scaled.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tasks.media.container import RecordingError
from tasks.media.recording import FrameBatch


class RegionView:
    """The pictures of a region.

    Args:
        boxes: (T, 4) float64, x, y, w, h of each frame as fractions of the upright picture; NaN where nobody is seen.
        width, height: of the recording's upright pictures, pixels.
        fixed: all boxes are the same and inside the picture, and are cut at their edges.

    Attributes:
        size: width and height of the region's pictures, pixels.
        seen: (T,) bool, whether the frame shows somebody.

    Raises:
        RecordingError: a box is smaller than a pixel, or nobody is ever seen.
    """

    def __init__(self, boxes: NDArray[np.float64], width: int, height: int, *, fixed: bool = False) -> None:
        self._picture, self._fixed = (width, height), fixed
        self.seen: NDArray[np.bool_] = np.all(np.isfinite(boxes), axis=1)
        if not self.seen.any():
            raise RecordingError("its boxes show nobody in any frame")
        sides = np.array([width, height])
        filled = np.where(self.seen[:, None], boxes, boxes[np.argmax(self.seen)])
        self._start = np.rint(filled[:, :2] * sides).astype(np.int64)  # (T, 2) left and top, pixels
        end = np.rint((filled[:, :2] + filled[:, 2:]) * sides).astype(np.int64)
        self._box = end - self._start if fixed else np.rint(filled[:, 2:] * sides).astype(np.int64)  # width and height
        if (self._box < 1).any():
            frame = int(np.argmax((self._box < 1).any(axis=1)))
            raise RecordingError(f"its box at frame {frame} is smaller than a pixel of the {width}x{height} picture")
        largest = self._box.max(axis=0)
        self.size = (int(largest[0]), int(largest[1])) if fixed else tuple(int(side + side % 2) for side in largest)
        enlarged = np.minimum(*((largest / self._box).T))[:, None] * self._box
        self._shown = np.minimum(np.rint(enlarged), largest).astype(np.int64)
        self._margin = (np.array(self.size) - self._shown) // 2
        self._scale = self._shown / self._box

    def cut(self, batch: FrameBatch) -> FrameBatch:
        """The region's pictures of the next frames of the recording; black where nobody is seen.

        Of a fixed region inside the picture they are a part of the same memory: a copy costs a tenth of decoding.
        """
        _, height, width, _ = batch.rgb.shape
        if (width, height) != self._picture:
            raise RecordingError(
                f"its frames are {width}x{height}, its header says {self._picture[0]}x{self._picture[1]}"
            )
        seen = self.seen[batch.first : batch.first + len(batch)]
        (left, top), (w, h) = self._start[0].tolist(), self._box[0].tolist()
        if self._fixed and min(left, top) >= 0 and left + w <= width and top + h <= height:
            return replace(batch, rgb=batch.rgb[:, top : top + h, left : left + w], seen=seen)
        pictures = np.zeros((len(batch), self.size[1], self.size[0], 3), np.uint8)
        for frame, (rgb, picture) in enumerate(zip(batch.rgb, pictures, strict=True), batch.first):
            self._draw(frame, rgb, picture)
        return replace(batch, rgb=pictures, seen=seen)

    def picture(self, frame: int, whole: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The region's picture of a frame, (h, w, 3), from its whole picture (height, width, 3) uint8."""
        picture = np.zeros((self.size[1], self.size[0], 3), np.uint8)
        self._draw(frame, whole, picture)
        return picture

    def _draw(self, frame: int, whole: NDArray[np.uint8], picture: NDArray[np.uint8]) -> None:
        """Draw the region's picture of a frame into a black one."""
        if not self.seen[frame]:
            return
        (left, top), (w, h) = self._start[frame].tolist(), self._box[frame].tolist()
        (margin_x, margin_y), (shown_w, shown_h) = self._margin[frame].tolist(), self._shown[frame].tolist()
        shown = picture[margin_y : margin_y + shown_h, margin_x : margin_x + shown_w]
        y, x = max(-top, 0), max(-left, 0)  # where the picture begins in the box
        inside = whole[top + y : max(top + h, 0), left + x : max(left + w, 0)]
        is_scaled = (shown_w, shown_h) != (w, h)
        box = shown
        if is_scaled:
            box = inside if inside.shape[:2] == (h, w) else np.zeros((h, w, 3), np.uint8)
        if box is not inside:
            box[y : y + inside.shape[0], x : x + inside.shape[1]] = inside
        if is_scaled:
            import cv2

            cv2.resize(box, (shown_w, shown_h), dst=shown, interpolation=cv2.INTER_LINEAR)

    def squares(self, whole: NDArray[np.float32]) -> NDArray[np.float32]:
        """Squares of all frames, (T, 3) x and y of the centre and the side in the whole picture, in the region's."""
        scale, shift = self.to_whole(np.arange(len(whole)))
        within = [(whole[:, :2] - shift) / scale, whole[:, 2:] / scale.mean(axis=1, keepdims=True)]
        return np.concatenate(within, axis=1).astype(np.float32)

    def holds(self, frames: NDArray[np.int64], x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.bool_]:
        """(n,) whether the region of each of these frames shows somebody, and has this point of the whole picture."""
        beside = np.stack([x, y], axis=1) - self._start[frames]
        return self.seen[frames] & ((beside >= 0) & (beside < self._box[frames])).all(axis=1)

    def to_whole(self, frames: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scale and shift, each (n, 2) for x and y, from a point of these frames' region to one of the whole picture.

        ``whole = scale * region + shift``; whole numbers are the centres of pixels.
        """
        scale = 1 / self._scale[frames]
        return scale, self._start[frames] - 0.5 + (0.5 - self._margin[frames]) * scale
