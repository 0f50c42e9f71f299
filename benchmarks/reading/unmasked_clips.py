"""Clips of features of frames that have no mask array, by width and by what is NaN, beside np.memmap by hand.

The widest ones also one at a time, as training code without a loader reads them.

By hand the same clips are copied, without a mask and with one that is False where a row is all NaN. Ratios are clips
per CPU-second over those without a mask, in the same, interleaved run.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.measure import interleave, print_machine
from benchmarks.performance_page import record
from benchmarks.reading.clip_data import WINDOW, ClipData
from benchmarks.reading.clips import BATCH, CLIPS, MEMMAP, Way, compare, read_dataset, read_loader
from storyframes import ClipDataset, ClipLoader, UniformSampler
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue
from storyframes.store.publish import FeatureWriter
from storyframes.store.storage.local_folder import LocalStorage

WIDTHS = {700: 0.90, 128: 0.80, 32: 0.80}
"""Columns, and the ratio that is wanted."""
LACKING = {"no NaN": 0, "first": 1, "lost": None}
"""How many columns, from the first one, are NaN in half of the rows; None is all."""
WITH_MASKS, OURS = "the same, with masks", "ClipDataset, one thread"


def feature(width: int, lacking: str) -> str:
    return f"{lacking.replace(' ', '_').lower()}_{width}"


def write_features(data: ClipData) -> None:
    for number, session in enumerate(data.session_ids):
        for width in WIDTHS:
            for lacking, count in LACKING.items():
                generator = np.random.default_rng(number)
                values = generator.normal(size=(data.frames, width)).astype(np.float32)
                values[generator.random(data.frames) < 0.5, :count] = np.nan
                name = feature(width, lacking)
                np.save(data.npy(session, name), values)
                array = ArraySpec(Axis.FRAME, "float32", "noise", (width,), ("column",))
                spec = FeatureSpec(name, "noise", {"values": array})
                with FeatureWriter(LocalStorage(data.features), session, spec) as out:
                    out.write("values", values)
                    out.publish("benchmark", {})
    catalogue.compact(LocalStorage(data.features))


def ways(data: ClipData, name: str, width: int) -> dict[str, Way]:
    dataset = ClipDataset(data.features, [name])
    chosen = dataset.clips[["session_id", "start_frame"]].iloc[list(UniformSampler(dataset))[:CLIPS]]
    arrays = {session: np.load(data.npy(session, name), mmap_mode="r") for session in data.session_ids}
    clips = [(arrays[session], start) for session, start in chosen.itertuples(index=False)]
    values, mask = np.empty((BATCH, WINDOW, width), np.float32), np.empty((BATCH, WINDOW), bool)

    def by_hand(masks: bool) -> None:
        for number, (rows, start) in enumerate(clips):
            values[number % BATCH] = rows[start : start + WINDOW]
            if masks:
                mask[number % BATCH] = ~np.isnan(values[number % BATCH]).all(axis=1)

    return {
        MEMMAP: Way(CLIPS, partial(by_hand, False)),
        WITH_MASKS: Way(CLIPS, partial(by_hand, True)),
        OURS: Way(CLIPS, partial(read_dataset, dataset), target=WIDTHS[width]),
    }


def one_at_a_time(data: ClipData) -> list[list[str]]:
    """A row for each way of reading the same clips: processor time a clip, and of np.memmap."""
    width = max(WIDTHS)
    dataset = ClipDataset(data.features, [feature(width, "no NaN")])
    order = list(UniformSampler(dataset))[:CLIPS]
    arrays = {
        session: np.load(data.npy(session, feature(width, "no NaN")), mmap_mode="r") for session in data.session_ids
    }
    chosen = dataset.clips[["session_id", "start_frame"]].iloc[order]
    clips = [(arrays[session], start) for session, start in chosen.itertuples(index=False)]

    def by_hand() -> None:
        for rows, start in clips:
            np.array(rows[start : start + WINDOW])

    def single() -> None:
        for number in order:
            dataset[number]

    def batches() -> None:
        for first in range(0, CLIPS, BATCH):
            dataset.__getitems__(order[first : first + BATCH])

    def loader() -> None:
        read_loader(ClipLoader(dataset, BATCH, UniformSampler(dataset), threads=1))

    measured = interleave(
        {
            MEMMAP: by_hand,
            "ClipDataset[i]": single,
            f"__getitems__ of {BATCH}": batches,
            "ClipLoader, one thread": loader,
        },
        runs=9,
    )
    base = measured[MEMMAP].cpu_s
    return [
        [name, f"{result.cpu_s / CLIPS * 1e6:.1f}", f"{result.cpu_s / base:.2f}"] for name, result in measured.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--alone", action="store_true", help="only clips one at a time")
    alone = parser.parse_known_args()[0].alone
    print_machine()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        data = ClipData(Path(folder))
        data.write()
        write_features(data)
        for width in () if alone else WIDTHS:
            ratios = [
                compare(f"{width} columns, {lacking}", ways(data, feature(width, lacking), width))
                for lacking in LACKING
            ]
            cells = [ratios[0][WITH_MASKS].cpu, *(ratio[OURS].cpu for ratio in ratios)]
            rows.append([str(width), *(f"{ratio:.2f}" for ratio in cells)])
        times = one_at_a_time(data)
    if rows:
        columns = ("columns", "gather with masks", *(f"ClipDataset: {lacking}" for lacking in LACKING))
        record("clips-without-a-mask", columns, rows)
    record("clips-one-at-a-time", ("clips of 120 x 700 float32", "CPU-us a clip", "of np.memmap"), times, ["torch"])


if __name__ == "__main__":
    main()
