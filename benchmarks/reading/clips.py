"""Clips a second: the reader and the loader beside np.memmap, zarr-python and h5py, on the same sessions.

A clip is the paper's visual input, 120 frames x 2762 columns as float32, and its mask; every way of reading fills
batches of 64 of them. Ratios are clips per CPU-second over those of np.memmap in the same, interleaved run.
"""

from __future__ import annotations

import pickle
import resource
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import h5py
import numpy as np
import torch
import zarr

from benchmarks.measure import interleave
from benchmarks.performance_page import record
from benchmarks.reading.clip_data import WINDOW, ClipData, uniform
from storyframes import ClipDataset, ClipLoader, FeatureStore, SessionBlockSampler, UniformSampler
from storyframes.clips.batch_buffers import BatchBuffers, new_memory
from storyframes.features import VISION

BATCH = 64
CLIPS = 3_072  # of a run: 48 batches, two turns of SessionBlockSampler
OPENFACE = 714
WIDTH = 2762
MEMMAP = "np.memmap over .npy"


@dataclass(frozen=True)
class Way:
    """One way of reading.

    Attributes:
        clips: how many a run reads; the slow ones read fewer.
        read: reads them.
        target: ratio to np.memmap per CPU-second that it has to reach, if any.
        wall_target: the same per second.
    """

    clips: int
    read: Callable[[], object]
    target: float | None = None
    wall_target: float | None = None


Rows = Callable[[int, int], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""A session's openface, resnet50 and valid rows."""


def fill_batches(sessions: Mapping[str, Rows], clips: Iterable[tuple[str, int]]) -> None:
    """What one would write by hand: rows into the arrays of a batch, which are used again."""
    values, mask = np.empty((BATCH, WINDOW, WIDTH), np.float32), np.empty((BATCH, WINDOW), bool)
    for number, (session, start) in enumerate(clips):
        place = number % BATCH
        openface, resnet50, valid = sessions[session](start, start + WINDOW)
        values[place, :, :OPENFACE] = openface
        values[place, :, OPENFACE:] = resnet50
        mask[place] = valid


def memmaps(data: ClipData) -> dict[str, Rows]:
    def rows(arrays: list[np.ndarray], start: int, stop: int) -> tuple[np.ndarray, ...]:
        return arrays[0][start:stop], arrays[1][start:stop], arrays[2][start:stop]

    return {
        session: partial(rows, [np.load(data.npy(session, name), mmap_mode="r") for name in (*VISION, "valid")])
        for session in data.session_ids
    }


def zarr_arrays(data: ClipData) -> dict[str, Rows]:
    store = FeatureStore(data.features).catalogue.set_index(["session_id", "feature"])["path"]

    def open_one(session: str) -> Rows:
        parts = (("openface", "values"), ("resnet50", "values"), ("openface", "valid"))
        arrays = [zarr.open_array(data.features / store[session, feature] / name, mode="r") for feature, name in parts]
        return lambda start, stop: tuple(array[start:stop] for array in arrays)

    return {session: open_one(session) for session in data.session_ids}


def hdf5_files(data: ClipData) -> dict[str, Rows]:
    def open_one(session: str) -> Rows:
        file = h5py.File(data.hdf5(session))
        arrays = [file[name] for name in (*VISION, "valid")]
        return lambda start, stop: tuple(array[start:stop] for array in arrays)

    return {session: open_one(session) for session in data.session_ids}


def store_rows(data: ClipData) -> dict[str, Rows]:
    store = FeatureStore(data.features)

    def rows(session: str, start: int, stop: int) -> tuple[np.ndarray, ...]:
        return (
            store.view(session, "openface", start, stop),
            store.view(session, "resnet50", start, stop),
            store.view(session, "openface", start, stop, array="valid"),
        )

    return {session: partial(rows, session) for session in data.session_ids}


# --- random clips, one process ---------------------------------------------------------------------------------------


def random_clips(data: ClipData) -> dict[str, Way]:
    def by_hand(sessions: Mapping[str, Rows], count: int) -> Way:
        return Way(count, lambda: fill_batches(sessions, uniform(data, count, seed=0)))

    dataset = ClipDataset(data.features, ["vision"])
    archived = pickle.dumps(ClipDataset(data.archive, ["vision"]))

    def threads() -> None:
        read_loader(ClipLoader(dataset, BATCH, UniformSampler(dataset), threads=2))

    def blocks() -> None:
        cold = pickle.loads(archived)  # no chunk that an earlier run has decoded
        read_loader(ClipLoader(cold, BATCH, SessionBlockSampler(cold), threads=1))

    return {
        MEMMAP: by_hand(memmaps(data), CLIPS),
        "FeatureStore.view": by_hand(store_rows(data), CLIPS),
        "ClipDataset, one thread": Way(CLIPS, partial(read_dataset, dataset), target=0.90),
        "ClipLoader, two threads": Way(CLIPS, threads, target=0.45, wall_target=0.80),
        "zstd archive, block shuffle": Way(CLIPS, blocks, target=0.25),
        "h5py, same chunks": by_hand(hdf5_files(data), CLIPS // 8),
        "zarr-python, same store": by_hand(zarr_arrays(data), CLIPS // 48),
    }


def read_dataset(dataset: ClipDataset) -> None:
    """Batches one after the other, without torch."""
    order = list(UniformSampler(dataset))[:CLIPS]
    buffers = BatchBuffers(dataset.fields, BATCH, 1, new_memory)
    for first in range(0, CLIPS, BATCH):
        dataset.read(order[first : first + BATCH], out=buffers.take(BATCH))


def read_loader(loader: ClipLoader | torch.utils.data.DataLoader) -> None:
    for _ in islice(loader, CLIPS // BATCH):
        pass


@dataclass(frozen=True)
class Compared:
    """Clips per CPU-second and per second of a way, their ratios to the baseline's, and what is wanted of these."""

    per_cpu_s: float
    per_s: float
    cpu: float
    wall: float
    wanted: str

    def cells(self) -> list[str]:
        """Of a table's row."""
        rates = (f"{self.per_cpu_s:,.0f}", f"{self.per_s:,.0f}", f"{self.cpu:.2f}", f"{self.wall:.2f}")
        return [*rates, self.wanted]


CELLS = ("clips per CPU-s", "clips/s", "ratio, CPU", "ratio, wall", "wanted")


def compare(title: str, ways: Mapping[str, Way], runs: int = 5) -> dict[str, Compared]:
    """Measure and print; the first way is the baseline."""
    compared = {}
    measured = interleave({name: way.read for name, way in ways.items()}, runs)
    (base_name, base), *_ = ways.items()
    print(f"{title} (median of {runs}, interleaved)")
    for name, way in ways.items():
        result, baseline = measured[name], measured[base_name]
        per_cpu_s, per_s = way.clips / result.cpu_s, way.clips / result.wall_s
        cpu, wall = per_cpu_s / (base.clips / baseline.cpu_s), per_s / (base.clips / baseline.wall_s)
        targets = ((way.target, "CPU"), (way.wall_target, "wall"))
        wanted = ", ".join(f"{target:.2f} {kind}" for target, kind in targets if target is not None)
        compared[name] = Compared(per_cpu_s, per_s, cpu, wall, wanted)
        print(f"  {name:<27} {' '.join(compared[name].cells())}", flush=True)
    return compared


def main() -> None:
    torch.set_num_threads(1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with tempfile.TemporaryDirectory() as folder:
        data = ClipData(Path(folder))
        data.write()
        compared = compare("random clips of 120 frames x 2762 columns, in batches of 64", random_clips(data))
        rows = [[name, *one.cells()] for name, one in compared.items()]
        record("reading-clips", ("way", *CELLS), rows, ["zarr", "h5py", "torch"])


if __name__ == "__main__":
    main()
