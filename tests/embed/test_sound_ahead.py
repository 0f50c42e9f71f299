"""Sound for a GPU: read once, windows computed ahead of their storing, the same rows and the same measure of seams."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from support.media.recordings import write_wave

from tasks.extractors.audio import sound
from tasks.extractors.audio.encoder import windows_at_once
from tasks.extractors.audio.shape import AudioShape, FrontEnd
from tasks.extractors.audio.sound import keeping
from tasks.extractors.audio.windows import SoundRows, moments, window_rows
from tasks.media.sound import read_audio

RATE = 1000
SHAPE = AudioShape(width=3, depth=1, rate=RATE, front_end=FrontEnd.of([(20, 10, 0)]))
SIGNAL = np.random.default_rng(0).normal(0, 1, 9_350).astype(np.float32)
BLOCKS = np.split(SIGNAL, range(130, len(SIGNAL), 130))


class Averaging:
    """A network whose rows depend on their window as a whole, as with attention.

    Args:
        fails_at: the number of the window at which it fails.
    """

    def __init__(self, batch_size: int, ahead: int, fails_at: int = -1) -> None:
        self.batch_size, self.ahead, self.given, self._fails_at = batch_size, ahead, [0], fails_at

    def embed(self, windows: Sequence[np.ndarray], mean: float, variance: float) -> list[np.ndarray]:
        self.given.append(len(windows))
        if 0 <= self._fails_at < sum(self.given):
            raise ZeroDivisionError
        return [self.rows(window) for window in windows]

    @staticmethod
    def rows(window: np.ndarray) -> np.ndarray:
        starts = 10 * np.arange(SHAPE.front_end.rows(len(window)))
        column = window[starts] + window.mean()
        return np.stack([column, column * 2 + 1, np.sin(column)], axis=1).astype(np.float32)


def rows_of(network: Averaging) -> tuple[np.ndarray, SoundRows]:
    stream = SoundRows(cast(Any, network), SHAPE, 1.0, 0.2)
    return np.concatenate([*stream.of(BLOCKS)]), stream


def root_mean_square(rows: np.ndarray) -> float:
    wide = rows.astype(np.float64)
    return float(np.sqrt((wide * wide).sum(axis=1).mean()))


@pytest.mark.parametrize(("batch_size", "ahead"), [(1, 0), (3, 0), (1, 4), (3, 4), (50, 4)])
def test_windows_computed_ahead_have_the_same_rows_and_seams(batch_size: int, ahead: int) -> None:
    rows, stream = rows_of(Averaging(batch_size, ahead))
    size, context = window_rows(SHAPE, 1.0, 0.2)
    firsts = [*range(0, 701, 100), 934 - size]  # the last window is moved back to the end
    windows = [Averaging.rows(SIGNAL[10 * first : 10 * (first + size) + 10]) for first in firsts]
    edges = [0, *(first + size - context for first in firsts[:-1]), 934]
    assert (len(rows), stream.windows) == (934, 9)
    for window, first, start, stop in zip(windows, firsts, edges[:-1], edges[1:], strict=True):
        np.testing.assert_array_equal(rows[start:stop], window[start - first : stop - first])
    seams = []
    for number, edge in enumerate(edges[1:-1]):
        earlier, later = windows[number : number + 2]
        difference = later[[edge - firsts[number + 1]]] - earlier[[edge - firsts[number]]]
        spread = np.concatenate([earlier - earlier.mean(axis=0), later - later.mean(axis=0)])
        seams.append(root_mean_square(difference) / root_mean_square(spread))
    assert stream.seam == max(seams) > 0


@pytest.mark.parametrize("ahead", [0, 4])
def test_what_fails_ahead_fails(ahead: int) -> None:
    with pytest.raises(ZeroDivisionError):
        rows_of(Averaging(2, ahead, fails_at=5))


@pytest.mark.parametrize(("most", "is_kept"), [(4 * RATE, True), (4 * RATE - 1, False)])
def test_a_sound_that_fits_is_kept_while_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, is_kept: bool
) -> None:
    write_wave(tmp_path / "s.wav", (SIGNAL[: 4 * RATE] * 3000).astype(np.int16), RATE)
    monkeypatch.setattr(sound, "KEPT_SAMPLES", most)
    kept: list[Any] = []
    of_blocks = moments(block.samples for block in keeping(read_audio(tmp_path / "s.wav", RATE), kept))
    again = [*read_audio(tmp_path / "s.wav", RATE)]
    assert of_blocks == moments(block.samples for block in again)
    assert [block.time for block in kept] == ([block.time for block in again] if is_kept else [])


@pytest.mark.parametrize(("seconds", "windows"), [(5, 30), (34, 4), (600, 1)])
def test_a_gpu_is_given_150_s_of_sound_at_once(seconds: int, windows: int) -> None:
    assert windows_at_once(seconds * RATE, RATE) == windows
