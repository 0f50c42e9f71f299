from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.messages import naming
from support.processes import HANG_S, wait_for

from storyframes.store.shards import ShardWriter
from tasks.extractors.base import ExtractionError
from tasks.extractors.image.preprocessing import Normalisation, Preprocessing
from tasks.extractors.image.writer import EmbeddingWriter, ImageWriter
from tasks.media.recording import FrameBatch


class Numbers:
    """An engine whose rows are the number that an image is made of, twice."""

    def __init__(self, batch_size: int, ahead: int, bad: int | None = None, device: str = "cpu") -> None:
        self.batch_size, self.ahead, self.bad, self.largest, self.device = batch_size, ahead, bad, 0, device

    def start(self, images: np.ndarray):
        self.largest = max(self.largest, len(images))
        rows = np.repeat(images[:, 0, 0, :1].astype(np.float32), 2, axis=1)
        rows[rows == self.bad] = np.nan
        return lambda: rows


def written(
    folder: Path, frames: int, wanted, *, batch: int = 8, broken: int | None = None, **engine
) -> tuple[np.ndarray, np.ndarray]:
    """Frames 0, 1, 2, … of which those of ``wanted`` have an image.

    Beside a GPU the images of each second batch are made before those of the batch before it.
    """
    made = [threading.Event() for _ in range(0, frames, batch)]
    size = batch

    def images(batch: FrameBatch) -> tuple[np.ndarray, np.ndarray]:
        number = batch.first // size
        if engine.get("device") == "cuda" and number % 2 == 0 and number + 1 < len(made):
            assert made[number + 1].wait(HANG_S)
        made[number].set()
        if number == broken:
            raise RuntimeError(f"batch {number} cannot be prepared")
        present = np.isin(batch.first + np.arange(len(batch)), wanted)
        return batch.rgb[present], present

    values, mask = ShardWriter(folder / "values", (2,), "f4", np.nan), ShardWriter(folder / "mask", (), "u1", 0)
    writer = EmbeddingWriter(images, Numbers(**engine), values, mask)
    try:
        for first in range(0, frames, batch):
            number = np.arange(first, min(first + batch, frames), dtype=np.uint8)
            writer.add(FrameBatch(first, number / 15, np.tile(number[:, None, None, None], (1, 2, 2, 3))))
        writer.finish()
    finally:
        for event in made:
            event.set()
    assert (writer.frames, writer.measured) == (frames, len(wanted))
    assert (values.close().layout.rows, mask.close().layout.rows) == (frames, frames)
    return tuple(
        np.fromfile(next(path for path in (folder / name).rglob("0") if path.is_file()), dtype)[
            : frames * width
        ].reshape(frames, width)
        for name, dtype, width in (("values", "f4", 2), ("mask", "u1", 1))
    )


GAPS = {
    "all": range(200),
    "none": [],
    "the first alone": [0],
    "the last alone": [199],
    "every third": range(0, 200, 3),
    "a long gap in the middle": [*range(50), *range(180, 200)],
    "gaps at both ends": range(70, 90),
    "here and there": sorted(np.random.default_rng(0).choice(200, 61, replace=False).tolist()),
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("batch_size", "ahead"), [(1, 0), (8, 0), (7, 2), (64, 1)])
@pytest.mark.parametrize("wanted", GAPS.values(), ids=GAPS)
def test_rows_are_those_of_their_frames_and_gaps_stay_gaps(tmp_path: Path, wanted, batch_size, ahead, device) -> None:
    values, mask = written(tmp_path, 200, list(wanted), batch_size=batch_size, ahead=ahead, device=device)
    expected = np.full((200, 2), np.nan, np.float32)
    expected[list(wanted)] = np.array(list(wanted), np.float32)[:, None]
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(mask[:, 0], ~np.isnan(expected[:, 0]))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("bad", [0, 61, 117])
def test_a_model_that_gives_nan_is_an_error_that_names_the_frame(tmp_path: Path, bad: int, device: str) -> None:
    wanted = [0, *range(60, 120)]
    with pytest.raises(ExtractionError, match=naming("NaN", bad)):
        written(tmp_path, 200, wanted, batch_size=7, ahead=2, bad=bad, device=device)


@pytest.mark.parametrize("broken", [0, 5, 24])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_image_that_cannot_be_made_is_the_features_error(tmp_path: Path, device: str, broken: int) -> None:
    with pytest.raises(RuntimeError, match=f"batch {broken} cannot be prepared"):
        written(tmp_path, 200, range(200), batch_size=7, ahead=1, device=device, broken=broken)


def preparing() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("images_")]


@pytest.mark.parametrize("finished", [True, False])
def test_a_session_leaves_no_threads_and_no_network_behind(tmp_path: Path, finished: bool) -> None:
    """Also one that was given up, without Python's search for circles."""
    wait_for(lambda: not preparing())
    preprocessing = Preprocessing(lambda rgb: rgb, (2, 2), Normalisation((0.0,) * 3, (1.0,) * 3))
    spec = SimpleNamespace(arrays={"values": None})
    values = ShardWriter(tmp_path / "values", (2,), "f4", np.nan)
    out = SimpleNamespace(array=lambda _: values, spec=spec, quality={})
    engine = Numbers(8, 1, device="cuda")
    gc.disable()
    try:
        writer = ImageWriter(preprocessing, engine, out)
        for first in range(0, 48, 8):
            writer.add(FrameBatch(first, np.arange(first, first + 8) / 15, np.zeros((8, 2, 2, 3), np.uint8)))
        assert preparing()
        if finished:
            writer.finish()
            assert not preparing()
        network = weakref.ref(engine)
        del writer, engine
        wait_for(lambda: not preparing() and network() is None)
    finally:
        gc.enable()
