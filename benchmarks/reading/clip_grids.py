"""Clips on a grid: inputs with ``rate`` beside the same rows, copied or gathered by hand from np.memmap.

Where the points of the grid are the recording's own frames, rows are copied as they lie; else each point has the row
nearest to it. By hand the rows of a clip's points are known beforehand: what is compared is reading. Ratios are clips
per CPU-second over those by hand, in the same, interleaved run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.measure import print_machine
from benchmarks.performance_page import record
from benchmarks.reading.clip_data import WINDOW, ClipData, uniform
from benchmarks.reading.clips import BATCH, OPENFACE, WIDTH, Rows, Way, compare, memmaps, read_dataset
from storyframes import ClipDataset, ClipInput
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import CLOCK, feature_spec
from storyframes.store import catalogue
from storyframes.store.publish import FeatureWriter
from storyframes.store.storage.local_folder import LocalStorage

FPS = WindowSpec().fps
CLIPS = 3_072
CONTIGUOUS, RESAMPLED = 0.90, 0.75
_SECONDS = WINDOW / FPS

Fill = Callable[[Rows, int, int], None]
"""Fills a place of a batch with the rows of a session from a frame on."""


def write_clocks(data: ClipData) -> None:
    """Frames at the paper's rate, for every session."""
    for session_id in data.session_ids:
        with FeatureWriter(LocalStorage(data.features), session_id, feature_spec(session_id, CLOCK)) as out:
            out.write("time", np.arange(data.frames) / FPS)
            out.publish("benchmark", {})
    catalogue.compact(LocalStorage(data.features))


def nearest(rate: float) -> np.ndarray | None:
    """Of each point of a clip its row, by hand; None where they are the frames."""
    if rate == FPS:
        return None
    points = np.arange(round(_SECONDS * rate)) / rate
    return np.abs(points[:, None] - np.arange(WINDOW) / FPS).argmin(axis=1)


def chosen(rows: np.ndarray, points: np.ndarray | None) -> np.ndarray:
    return rows if points is None else np.take(rows, points, axis=0)


def one_array(place: int, dtype: type, width: int, points: np.ndarray | None) -> Fill:
    """``place`` says which of a session's arrays: 0 openface, 1 resnet50."""
    count = WINDOW if points is None else len(points)
    values, mask = np.empty((BATCH, count, width), dtype), np.empty((BATCH, count), bool)

    def fill(rows: Rows, start: int, into: int) -> None:
        arrays = rows(start, start + WINDOW)
        if points is None:
            values[into] = arrays[place]
        else:
            np.take(arrays[place], points, axis=0, out=values[into], mode="clip")
        mask[into] = chosen(arrays[2], points) != 0 if place == 0 else ~np.isnan(values[into, :, 0])

    return fill


def vision(points: np.ndarray | None) -> Fill:
    count = WINDOW if points is None else len(points)
    values, mask = np.empty((BATCH, count, WIDTH), np.float32), np.empty((BATCH, count), bool)

    def fill(rows: Rows, start: int, into: int) -> None:
        openface, resnet50, valid = rows(start, start + WINDOW)
        values[into, :, :OPENFACE] = chosen(openface, points)
        values[into, :, OPENFACE:] = chosen(resnet50, points)
        mask[into] = chosen(valid, points) != 0

    return fill


def ways(data: ClipData, rate: float, inputs: dict[str, Fill], target: float | None) -> dict[str, Way]:
    """By hand, and with ClipDataset, all inputs of a clip."""
    sessions = memmaps(data)

    def by_hand() -> None:
        for number, (session, start) in enumerate(uniform(data, CLIPS, seed=0)):
            for fill in inputs.values():
                fill(sessions[session], start, number % BATCH)

    dataset = ClipDataset(data.features, [ClipInput(name, rate=rate) for name in inputs])
    return {"by hand": Way(CLIPS, by_hand), "ClipDataset": Way(CLIPS, partial(read_dataset, dataset), target=target)}


def main() -> None:
    print_machine()
    with tempfile.TemporaryDirectory() as folder:
        data = ClipData(Path(folder))
        data.write()
        write_clocks(data)
        rows = []
        for rate in (FPS, 25.0, 10.0):
            points = nearest(rate)
            openface = one_array(0, np.float32, OPENFACE, points)
            resnet50 = one_array(1, np.float16, WIDTH - OPENFACE, points)
            for title, inputs in (
                ("vision", {"vision": vision(points)}),
                ("openface and resnet50", {"openface": openface, "resnet50": resnet50}),
                ("resnet50 alone", {"resnet50": resnet50}),
                ("openface alone", {"openface": openface}),
            ):
                # As they lie, what a clip costs beside its copy shows in a small one: no target for these.
                target = RESAMPLED if points is not None else CONTIGUOUS if title == "vision" else None
                name = f"{title}, {rate:g} rows a second"
                theirs, ours = compare(name, ways(data, rate, inputs, target)).values()
                rates = f"{theirs.per_cpu_s:,.0f}", f"{ours.per_cpu_s:,.0f}"
                rows.append([name, *rates, f"{ours.cpu:.2f}", ours.wanted])
    record("clips-on-a-grid", ("rows a second", "by hand", "ClipDataset", "ratio, CPU", "wanted"), rows, ["zarr"])


if __name__ == "__main__":
    main()
