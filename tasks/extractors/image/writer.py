"""Frames in, rows out: an engine is fed with images of frames, and its rows are stored in the order of the frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from storyframes.store.publish import FeatureWriter
from storyframes.store.shards import ShardWriter
from tasks.extractors.base import ExtractionError
from tasks.extractors.image.faces import Faces
from tasks.media.recording import FrameBatch

if TYPE_CHECKING:
    from tasks.extractors.image.engines import Engine
    from tasks.extractors.image.preprocessing import Preprocessing

MASK = "valid"
"""The array that says which frames have a row, of a feature in which some have none."""

Images = Callable[[FrameBatch], tuple[np.ndarray, np.ndarray]]
"""Of n frames, (k, height, width, 3) uint8 images, and (n,) bool which k of the frames they are of."""

_GAP_ROWS = 64  # written at once where frames have no image
_PREPARING = 2  # batches of frames whose images are made at once beside a GPU: Pillow takes as long for one as decoding


class EmbeddingWriter:
    """Takes frames, appends their rows in the same order.

    Args:
        images: gives images of the network's size, of all frames or some.
        values: gets a row for each frame, its fill for frames without an image.
        mask: gets a number for each frame: 1 with an image, 0 without.
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
        self._preparing: deque[Future[tuple[np.ndarray, np.ndarray]]] = deque()
        self._threads = ThreadPoolExecutor(_PREPARING, "images") if self.on_gpu else None

    def add(self, batch: FrameBatch) -> None:
        if self._threads is None:
            self._take(*self._images_of(batch))
            return
        self._preparing.append(self._threads.submit(self._images_of, batch))
        if len(self._preparing) > _PREPARING:
            self._take(*self._preparing.popleft().result())

    def _take(self, images: np.ndarray, present: np.ndarray) -> None:
        self._images.extend(images)
        for is_present in present:
            if is_present:
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
        while self._preparing:
            self._take(*self._preparing.popleft().result())
        if self._threads is not None:
            self._threads.shutdown()
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
        values = self._values
        for first in range(0, frames, _GAP_ROWS):
            shape = (min(_GAP_ROWS, frames - first), *values.row_shape)
            values.append(np.full(shape, values.fill, values.dtype))


@dataclass(frozen=True)
class ChosenImages:
    """Images of each ``every``-th frame, or of the face in it; made in several threads at once beside a GPU.

    It does not know its writer, which would then stay, with its network, until Python looks for circles.
    """

    preprocessing: Preprocessing
    every: int
    faces: Faces | None

    def __call__(self, batch: FrameBatch) -> tuple[np.ndarray, np.ndarray]:
        present = (batch.first + np.arange(len(batch))) % self.every == 0
        if batch.seen is not None:
            present &= batch.seen
        images: list[np.ndarray] = []
        if self.faces is None:
            if present.any():
                images.append(self.preprocessing.images(batch.rgb[present] if not present.all() else batch.rgb))
        else:
            for row in np.flatnonzero(present):
                face = self.faces.cut(batch.first + int(row), batch.rgb[row])
                present[row] = face is not None
                if face is not None:
                    images.append(self.preprocessing.images(face[None]))
        none = np.empty((0, *self.preprocessing.size, 3), np.uint8)
        return (np.concatenate(images) if images else none), present


class ImageWriter(EmbeddingWriter):
    """Writes ``values`` of each ``every``-th frame, or of the face in it, and the mask ``valid`` if there is one."""

    def __init__(
        self,
        preprocessing: Preprocessing,
        engine: Engine,
        out: FeatureWriter,
        *,
        every: int = 1,
        faces: Faces | None = None,
    ) -> None:
        self._out = out
        mask = out.array(MASK) if MASK in out.spec.arrays else None
        super().__init__(ChosenImages(preprocessing, every, faces), engine, out.array("values"), mask)

    def finish(self) -> None:
        super().finish()
        if MASK in self._out.spec.arrays:
            self._out.quality["frames_with_rows"] = self.measured / max(self.frames, 1)

    def _write(self, rows: np.ndarray) -> None:
        try:
            super()._write(rows)
        except ValueError as error:  # a number is too large for what is stored
            raise ExtractionError(
                f"[[embed]] {self._out.spec.name}: {error}, in which its rows are stored: set dtype = 'float32'"
            ) from None
