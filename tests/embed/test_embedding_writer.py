from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from storyframes.store.shards import ShardWriter
from tasks.extractors.base import ExtractionError
from tasks.extractors.image.writer import EmbeddingWriter
from tasks.media.recording import FrameBatch


class Numbers:
    """An engine whose rows are the number that an image is made of, twice."""

    device = "cpu"

    def __init__(self, batch_size: int, ahead: int, bad: int | None = None) -> None:
        self.batch_size, self.ahead, self.bad, self.largest = batch_size, ahead, bad, 0

    def start(self, images: np.ndarray):
        self.largest = max(self.largest, len(images))
        rows = np.repeat(images[:, 0, 0, :1].astype(np.float32), 2, axis=1)
        rows[rows == self.bad] = np.nan
        return lambda: rows


def written(folder: Path, frames: int, wanted, *, batch: int = 8, **engine) -> tuple[np.ndarray, np.ndarray]:
    """Frames 0, 1, 2, … of which those of ``wanted`` have an image."""

    def images(batch: FrameBatch) -> tuple[np.ndarray, np.ndarray]:
        present = np.isin(batch.first + np.arange(len(batch)), wanted)
        return batch.rgb[present], present

    values, mask = ShardWriter(folder / "values", (2,), "f4", np.nan), ShardWriter(folder / "mask", (), "u1", 0)
    writer = EmbeddingWriter(images, Numbers(**engine), values, mask)
    for first in range(0, frames, batch):
        number = np.arange(first, min(first + batch, frames), dtype=np.uint8)
        writer.add(FrameBatch(first, number / 15, np.tile(number[:, None, None, None], (1, 2, 2, 3))))
    writer.finish()
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


@pytest.mark.parametrize(("batch_size", "ahead"), [(1, 0), (8, 0), (7, 2), (64, 1)])
@pytest.mark.parametrize("wanted", GAPS.values(), ids=GAPS)
def test_rows_are_those_of_their_frames_and_gaps_stay_gaps(tmp_path: Path, wanted, batch_size, ahead) -> None:
    values, mask = written(tmp_path, 200, list(wanted), batch_size=batch_size, ahead=ahead)
    expected = np.full((200, 2), np.nan, np.float32)
    expected[list(wanted)] = np.array(list(wanted), np.float32)[:, None]
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(mask[:, 0], ~np.isnan(expected[:, 0]))


@pytest.mark.parametrize("bad", [0, 61, 117])
def test_a_model_that_gives_nan_is_an_error_that_names_the_frame(tmp_path: Path, bad: int) -> None:
    wanted = [0, *range(60, 120)]
    with pytest.raises(ExtractionError, match=rf"not finite \(NaN or infinite\) for frame {bad}:"):
        written(tmp_path, 200, wanted, batch_size=7, ahead=2, bad=bad)
