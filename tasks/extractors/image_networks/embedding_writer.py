"""Frames in, rows out: keeps an engine fed, and stores what it gives in the order of the frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from storyframes.store.shards import ShardWriter
from tasks.extractors.base import ExtractionError
from tasks.extractors.image_networks.engine import Engine
from tasks.media.recording import FrameBatch

Images = Callable[[FrameBatch], tuple[np.ndarray, np.ndarray]]
"""Of n frames, (k, height, width, 3) uint8 images, and (n,) bool which k of the frames they are of."""

_GAP_ROWS = 64  # written at once where frames have no image


class EmbeddingWriter:
    """Takes frames, appends their rows in the same order.

    Args:
        images: frames in, images of the network's size out, of all frames or some.
        engine: images in, rows out.
        values: where they go; frames without an image have its fill.
        mask: where it goes which frames have an image.
    """

    def __init__(self, images: Images, engine: Engine, values: ShardWriter, mask: ShardWriter | None = None) -> None:
        self._images_of = images
        self._engine = engine
        self._values = values
        self._mask = mask
        self.on_gpu = engine.device != "cpu"
        self.frames = self.measured = 0
        self._images: list[np.ndarray] = []
        self._under_way: deque[Callable[[], np.ndarray]] = deque()
        self._gaps: deque[int] = deque([0])  # frames without an image before each image that has no row yet, and after

    def add(self, batch: FrameBatch) -> None:
        images, present = self._images_of(batch)
        self._images.extend(images)
        for there in present:
            if there:
                self._gaps.append(0)
            else:
                self._gaps[-1] += 1
        self.frames += len(present)
        self.measured += len(images)
        if self._mask is not None:
            self._mask.append(present.astype(np.uint8))
        while len(self._images) >= self._engine.batch_size:
            self._start()
            self._collect(all_but=self._engine.ahead)

    def finish(self) -> None:
        while self._images:
            self._start()
            self._collect(all_but=self._engine.ahead)
        self._collect(all_but=0)
        self._write_gap(self._gaps.popleft())

    def _start(self) -> None:
        size = self._engine.batch_size
        images, self._images = self._images[:size], self._images[size:]
        self._under_way.append(self._engine.start(np.stack(images)))

    def _collect(self, all_but: int) -> None:
        while len(self._under_way) > all_but:
            self._write(self._under_way.popleft()())

    def _write(self, rows: np.ndarray) -> None:
        """Rows of the next images, each after the frames without one that come before it."""
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            frame = self._values.rows + row + sum(list(self._gaps)[: row + 1])
            raise ExtractionError(
                f"the model gives numbers that are not finite (NaN or infinite) for frame {frame}: with "
                "precision = 'float16' it may be too coarse for this model (set 'float32'); else its weights are wrong"
            )
        begun = 0
        for row in range(len(rows)):
            if self._gaps[0]:
                self._values.append(rows[begun:row])
                self._write_gap(self._gaps[0])
                begun = row
            self._gaps.popleft()
        self._values.append(rows[begun:])

    def _write_gap(self, frames: int) -> None:
        spec = (self._values.row_shape, self._values.fill, self._values.dtype)
        for first in range(0, frames, _GAP_ROWS):
            shape, fill, dtype = spec
            self._values.append(np.full((min(_GAP_ROWS, frames - first), *shape), fill, dtype))
