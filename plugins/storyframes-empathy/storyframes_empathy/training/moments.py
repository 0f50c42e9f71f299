"""Means and standard deviations of the columns over the rows that training sees, each row once.

Windows overlap, so that a frame is in several clips: here it counts once, and so does a word or a step of the sound.
Only rows whose mask is True count, and of these only finite values. Sums are in float64, chunk by chunk, merged as
Chan et al. (1979) do.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from storyframes import ClipDataset
from storyframes.store import write_atomically

SMALLEST = 1e-6
"""A smaller standard deviation is that of a constant: 1 is divided by instead."""
_WINDOWS_AT_ONCE = 8
Rows = Callable[[Mapping[str, np.ndarray]], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Moments:
    """Of each column: how many values there are, their mean, and the sum of squared differences from it.

    Attributes:
        count: (width,) float64.
        mean: (width,) float64, 0 where there is no value.
        squares: (width,) float64.
    """

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, counts: np.ndarray) -> Moments:
        """Of rows (n, width), of which those count where ``counts``, alike, is True."""
        count = counts.sum(axis=0).astype(np.float64)
        exact = np.where(counts, values, 0).astype(np.float64)
        mean = exact.sum(axis=0) / np.maximum(count, 1)
        squares = (np.where(counts, exact - mean, 0) ** 2).sum(axis=0)
        return cls(count, mean, squares)

    @classmethod
    def none(cls, width: int) -> Moments:
        return cls(np.zeros(width), np.zeros(width), np.zeros(width))

    def merged(self, other: Moments) -> Moments:
        """Of the rows of both."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        apart = other.mean - self.mean
        mean = self.mean + apart * share
        return Moments(count, mean, self.squares + other.squares + apart**2 * self.count * share)

    @property
    def std(self) -> np.ndarray:
        """(width,) float64, of all values (not of a sample); 1 where it is next to nothing."""
        std = np.sqrt(self.squares / np.maximum(self.count, 1))
        return np.where(std < SMALLEST, 1.0, std)

    @property
    def digest(self) -> str:
        """SHA-256 of the numbers."""
        return hashlib.sha256(b"".join(each.tobytes() for each in (self.count, self.mean, self.squares))).hexdigest()


def covering(windows: pd.DataFrame) -> list[tuple[int, int]]:
    """Windows of one session, as few as hold all its frames that any of them holds.

    Args:
        windows: start_frame and stop_frame, in the order of start_frame; a later one does not stop earlier.

    Returns:
        The place of each in ``windows``, and the first of its frames that those before it do not hold.
    """
    starts, stops = windows["start_frame"].to_numpy(), windows["stop_frame"].to_numpy()
    chosen: list[tuple[int, int]] = []
    covered = starts[0]
    while True:
        last = int(np.searchsorted(starts, covered, side="right")) - 1
        if stops[last] <= covered:  # the next one begins after a gap, if there is one
            last += 1
            if last == len(starts):
                return chosen
            covered = starts[last]
        chosen.append((last, int(covered)))
        covered = stops[last]


def measure(dataset: ClipDataset, rows: Mapping[str, Rows]) -> dict[str, Moments]:
    """The moments of the frames of a dataset's clips.

    Args:
        dataset: training clips.
        rows: of each part by name: its values (n, T, width) of a batch, and which of them count.

    Returns:
        By the same names.

    Raises:
        StoreError: the store does not hold its rows (any more).
    """
    found: dict[str, Moments] = {}
    for batch, new in each_row_once(dataset):
        for name, take in rows.items():
            values, counts = take(batch)
            counts = counts & new.of(name, values.shape[1])[..., None]
            width = values.shape[2]
            ours = Moments.of(values.reshape(-1, width), counts.reshape(-1, width))
            found[name] = found.get(name, Moments.none(width)).merged(ours)
    return found


@dataclass(frozen=True)
class NewRows:
    """Which rows of the windows of a batch no earlier window has.

    Attributes:
        own: by padded input, (n, T) bool.
        skipped: (n,) of each window, the share of its frames that earlier ones have.
    """

    own: Mapping[str, np.ndarray]
    skipped: np.ndarray

    def of(self, name: str, steps: int) -> np.ndarray:
        """Of an input's T rows, (n, T) bool."""
        if name in self.own:
            return self.own[name]
        return np.arange(steps)[None, :] / steps >= self.skipped[:, None] - 1e-9


def each_row_once(dataset: ClipDataset) -> Iterator[tuple[Mapping[str, np.ndarray], NewRows]]:
    """Batches that hold every row that any clip of a dataset has, and which of them are new."""
    seen = _Seen(dataset)
    for clips, skipped in _chunks(dataset):
        yield dataset.read(clips), NewRows(seen.new(clips), skipped)


class _Seen:
    """Which rows of padded inputs were in earlier windows; sessions come one after another."""

    def __init__(self, dataset: ClipDataset) -> None:
        self._dataset = dataset
        self._session, self._rows = "", dict[str, set[int]]()

    def new(self, clips: Sequence[int]) -> dict[str, np.ndarray]:
        found: dict[str, np.ndarray] = {}
        for place, clip in enumerate(clips):
            if (session := self._dataset.clips["session_id"].iloc[clip]) != self._session:
                self._session, self._rows = session, {}
            for name, rows in self._dataset.stored_rows(clip).items():
                seen = self._rows.setdefault(name, {-1})
                steps = self._dataset.fields[f"{name}_mask"].shape[0]
                mask = found.setdefault(name, np.zeros((len(clips), steps), bool))
                mask[place, : len(rows)] = [row not in seen for row in rows.tolist()]
                seen.update(rows.tolist())
        return found


def _chunks(dataset: ClipDataset) -> Iterator[tuple[list[int], np.ndarray]]:
    """Clips that hold every frame, and which share of each is in an earlier one."""
    clips, skipped = [], []
    for _, windows in dataset.windows().groupby("session_id", sort=False):
        windows = windows.sort_values("start_frame")
        for place, first in covering(windows):
            one = windows.iloc[place]
            clips.append(int(one["clips"][0]))
            skipped.append((first - one["start_frame"]) / (one["stop_frame"] - one["start_frame"]))
    for begin in range(0, len(clips), _WINDOWS_AT_ONCE):
        yield clips[begin : begin + _WINDOWS_AT_ONCE], np.array(skipped[begin : begin + _WINDOWS_AT_ONCE])


def remembered(
    folder: Path, keys: Mapping[str, object], measured: Callable[[Sequence[str]], Mapping[str, Moments]]
) -> dict[str, Moments]:
    """Moments by name, out of ``folder`` where they are there.

    Args:
        folder: a file for each, private to the owner.
        keys: by name, what the numbers follow from, as JSON.
        measured: measures those that are lacking.
    """
    paths = {name: folder / f"{_digest(key)}.npz" for name, key in keys.items()}
    found = {name: moments for name, path in paths.items() if (moments := _read(path)) is not None}
    lacking = [name for name in keys if name not in found]
    for name, moments in measured(lacking).items() if lacking else ():
        found[name] = moments
        content = io.BytesIO()
        np.savez(content, count=moments.count, mean=moments.mean, squares=moments.squares)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(paths[name], content.getvalue())
    return found


def _digest(key: object) -> str:
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]


def _read(path: Path) -> Moments | None:
    try:
        with np.load(path) as content:
            return Moments(content["count"], content["mean"], content["squares"])
    except FileNotFoundError:
        return None
