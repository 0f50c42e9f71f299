"""Synthetic sessions of the paper's shape, written as a feature store, an archive, .npy files and HDF5 files.

Values move as tracked faces do, a little from frame to frame, and have as many decimals as OpenFace writes, so that
compression has something to do. A session has the paper's mean number of windows: 3,630 frames.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import zarr

sys.path.append(str(Path(__file__).parents[2] / "tests"))
from support.clip_indexes import build_index

from storyframes.clips.window_spec import WindowSpec
from storyframes.clips.windows import SessionSignals
from storyframes.features import FEATURES, VISION, feature_spec
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.storage.local_folder import LocalStorage
from tasks.clip_index.index import write_clip_index

WINDOW = WindowSpec().window
CHUNK_ROWS = 60


@dataclass(frozen=True)
class ClipData:
    """The same sessions four times."""

    root: Path
    sessions: int = 12
    frames: int = 3_630

    @property
    def features(self) -> Path:
        return self.root / "features"

    @property
    def archive(self) -> Path:
        return self.root / "archive"

    @property
    def session_ids(self) -> list[str]:
        return [f"s{number:03d}" for number in range(self.sessions)]

    def npy(self, session_id: str, name: str) -> Path:
        return self.root / f"{session_id}-{name}.npy"

    def hdf5(self, session_id: str) -> Path:
        return self.root / f"{session_id}.h5"

    def write(self) -> None:
        """Make all four."""
        create_store(self.features)
        for number, session_id in enumerate(self.session_ids):
            self._write_session(session_id, np.random.default_rng(number))
        catalogue.compact(LocalStorage(self.features))
        write_clip_index(clip_index(self._tables()), LocalStorage(self.features))
        shutil.copytree(self.features, self.archive)
        for folder in self.archive.glob("*/*/*/values"):
            _compress(folder)
        # Pages on their way to the disk would be paid for by whoever runs first.
        os.sync()

    def _write_session(self, session_id: str, generator: np.random.Generator) -> None:
        arrays = write_features(self.features, session_id, generator, self.frames)
        with h5py.File(self.hdf5(session_id), "w") as file:
            for name, values in arrays.items():
                np.save(self.npy(session_id, name), values)
                chunks = None if name == "valid" else (CHUNK_ROWS, values.shape[1])
                file.create_dataset(name, data=values, chunks=chunks)

    def _tables(self) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
        fps, share = WindowSpec().fps, self.frames * 15 // 28
        phases, ratings = [], []
        for number, session_id in enumerate(self.session_ids):
            phases.append((session_id, "story_share", 0.0, share / fps))
            phases.append((session_id, "reflection", share / fps, self.frames / fps))
            ratings += [(session_id, f"story{position}", position, 1 + number % 5) for position in (1, 2, 3)]
        return (
            pd.DataFrame({"session_id": self.session_ids, "participant_id": self.session_ids}),
            pd.DataFrame(phases, columns=["session_id", "phase", "start_s", "end_s"]),
            pd.DataFrame(ratings, columns=["session_id", "story_id", "position", "empathy"]),
        )


def write_features(root: Path, session_id: str, generator: np.random.Generator, frames: int) -> dict[str, np.ndarray]:
    """Publish the features of a session of so many frames; gives their values, and openface's mask."""
    arrays = {"openface": _landmarks(generator, frames), "resnet50": _embeddings(generator, frames)}
    valid = (generator.random(frames) < 0.95).astype(np.uint8)
    for feature, values in arrays.items():
        with FeatureWriter(LocalStorage(root), session_id, feature_spec(session_id, feature)) as out:
            out.write("values", values)
            if feature == "openface":
                out.write("valid", valid)
                out.write("confidence", np.full(frames, 0.98, np.float32))
            out.publish("benchmark", {})
    return arrays | {"valid": valid}


def clip_index(tables: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]) -> pd.DataFrame:
    """The clip index with every column filled."""
    frames = int(tables[1]["end_s"].max() * WindowSpec().fps) + 1
    signals = SessionSignals(
        tracked=np.ones(frames, np.uint8),
        confidence=np.full(frames, 0.98, np.float32),
        audio_time=np.arange(frames * 7) / 100,
        word_start=np.arange(frames // 6) / 2.5,
        features=frozenset(VISION),
    )
    sessions = tables[0]["session_id"]
    return build_index(*tables, WindowSpec(), dict.fromkeys(sessions, signals), list(FEATURES))


def _landmarks(generator: np.random.Generator, frames: int) -> np.ndarray:
    steps = generator.normal(scale=0.3, size=(frames, 714)).astype(np.float32)
    return (np.cumsum(steps, axis=0, dtype=np.float32) + np.float32(300)).round(1)


def _embeddings(generator: np.random.Generator, frames: int) -> np.ndarray:
    return np.abs(generator.normal(scale=0.5, size=(frames, 2048)).astype(np.float32)).astype(np.float16)


def _compress(folder: Path) -> None:
    """The array in ``folder`` in the archive profile: the same chunks, each compressed with zstd."""
    array = zarr.open_array(folder, mode="r")
    values, described, attributes = array[:], array.metadata, dict(array.attrs)
    shape = values.shape
    zarr.create_array(
        folder,
        shape=shape,
        dtype=values.dtype,
        chunks=(CHUNK_ROWS, *shape[1:]),
        shards=(-(-shape[0] // CHUNK_ROWS) * CHUNK_ROWS, *shape[1:]),
        compressors=zarr.codecs.ZstdCodec(level=3),
        fill_value=described.fill_value,
        dimension_names=described.dimension_names,
        attributes=attributes,
        overwrite=True,
    )[:] = values


def uniform(data: ClipData, count: int, seed: int) -> Iterator[tuple[str, int]]:
    """Random clips as session and first frame."""
    generator = np.random.default_rng(seed)
    ids = data.session_ids
    for session, start in zip(
        generator.integers(len(ids), size=count), generator.integers(data.frames - WINDOW, size=count), strict=True
    ):
        yield ids[session], int(start)
