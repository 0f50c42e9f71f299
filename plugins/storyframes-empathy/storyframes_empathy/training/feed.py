"""Where batches come from: read and prepared clip by clip, or gathered from frames that were prepared once.

Windows overlap, and each is in as many clips as its session has ratings: clip by clip every frame is prepared again
some twenty times an epoch. A bank holds the prepared frames of all sessions instead, in a file that is mapped. In
float32 it gives a model the same bits; in bfloat16 half of the size, and other ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from storyframes import ClipDataset, ClipLoader, ClipSampler
from storyframes.clips import BatchBuffers, Field
from storyframes.store import StorageError, lock_new_file, locked
from storyframes_empathy.training.inputs import Preparation
from storyframes_empathy.training.models.parts import Sequences
from storyframes_empathy.training.moments import covering

BATCHED = 8
"""Windows that are prepared at once when a bank is made."""
_KEPT = 2
"""Batches whose memory is used again: while a model learns from one, the next is gathered."""
_TEMPORARY = ".tmp"
Kind = Literal["float32", "bfloat16"]


def new_memory(nbytes: int) -> np.ndarray:
    """Memory for :class:`storyframes.clips.BatchBuffers`."""
    return np.empty(nbytes, np.uint8)


class Feed(Protocol):
    """Gives a model the clips of a dataset."""

    def batches(self, dataset: ClipDataset, sampler: ClipSampler, size: int) -> Iterator[tuple[Tensor, Sequences]]:
        """Places in the dataset, (n,) int64, and what a model is given of these clips; n is at most ``size``."""


class Loaded:
    """Reads clips, and prepares every batch anew."""

    def __init__(self, preparation: Preparation, device: torch.device | str = "cpu") -> None:
        self._preparation = preparation
        self._device = device

    def batches(self, dataset: ClipDataset, sampler: ClipSampler, size: int) -> Iterator[tuple[Tensor, Sequences]]:
        for batch in ClipLoader(dataset, size, sampler, device=self._device):
            yield batch["index"], self._preparation(batch)


class Bank:
    """Prepared frames of all sessions, one after another.

    Attributes:
        values: (frames, columns of all modalities) float32 or bfloat16.
        masks: (frames, modalities) bool.
        widths: the columns of each modality, in the order of the file.
        first: by session, the frame number that its first row is of, and that row.
    """

    def __init__(
        self, values: Tensor, masks: Tensor, widths: Mapping[str, int], first: Mapping[str, tuple[int, int]]
    ) -> None:
        self.values, self.masks, self.widths, self.first = values, masks, widths, first
        self._memory: tuple[tuple[int, int], BatchBuffers] | None = None

    def batches(self, dataset: ClipDataset, sampler: ClipSampler, size: int) -> Iterator[tuple[Tensor, Sequences]]:
        clips = dataset.clips
        session = clips["session_id"].tolist()
        origin = np.array([row - frame for frame, row in (self.first[one] for one in session)], np.int64)
        starts = clips["start_frame"].to_numpy(np.int64) + origin
        steps = int(clips["stop_frame"].iloc[0] - clips["start_frame"].iloc[0])
        memory = self._memory_of(size, steps)
        order = iter(sampler)
        while places := list(islice(order, size)):
            batch = {name: torch.from_numpy(array) for name, array in memory.take(len(places)).items()}
            yield torch.tensor(places), self._gathered(starts[places].tolist(), steps, batch)

    def _memory_of(self, size: int, steps: int) -> BatchBuffers:
        """Memory for batches, kept from epoch to epoch: making it new takes longer than copying the rows into it."""
        if self._memory is None or self._memory[0] != (size, steps):
            fields = {
                "values": Field((steps, self.values.shape[1]), np.dtype(np.float32)),
                "masks": Field((steps, self.masks.shape[1]), np.dtype(bool)),
            }
            self._memory = (size, steps), BatchBuffers(fields, size, _KEPT, new_memory)
        return self._memory[1]

    def _gathered(self, starts: Sequence[int], steps: int, batch: Mapping[str, Tensor]) -> Sequences:
        """The windows that begin at these rows, in a batch's memory, or in the GPU's."""
        device = self.values.device
        values, masks = (
            each if device.type == "cpu" else torch.empty_like(each, device=device) for each in batch.values()
        )
        for place, start in enumerate(starts):
            values[place] = self.values[start : start + steps]
            masks[place] = self.masks[start : start + steps]
        parts = values.split(list(self.widths.values()), dim=2)
        return Sequences(
            dict(zip(self.widths, parts, strict=True)), {name: masks[..., one] for one, name in enumerate(self.widths)}
        )


def open_bank(
    folder: Path,
    key: object,
    datasets: Sequence[ClipDataset],
    preparation: Preparation,
    kind: Kind,
    device: torch.device | str = "cpu",
) -> Bank:
    """A bank of the frames of the clips of these datasets: out of ``folder``, or made there.

    Args:
        folder: of all banks; two files for each, private to the owner. They can be removed at any time.
        key: what the values follow from, as JSON.
        datasets: clips with as many rows as frames.
        preparation: of their inputs, on the processor.
        kind: of the values.
        device: where they are gathered; a GPU holds all of them.

    Raises:
        ValueError: an input has not one row for each frame.
        OSError: it cannot be written.
    """
    ranges = _ranges(datasets)
    first, rows = {}, 0
    for session, (start, stop) in ranges.items():
        first[session] = (start, rows)
        rows += stop - start
    widths = preparation.widths
    columns = sum(widths.values())
    named = {"key": key, "kind": kind, "frames": {session: list(each) for session, each in ranges.items()}}
    name = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:32]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_leavings(folder)
    paths = folder / f"{name}.values", folder / f"{name}.masks"
    size = np.uint16 if kind == "bfloat16" else np.float32
    if not all(path.exists() for path in paths):
        _make(paths, (rows, columns), size, datasets, preparation, first)
    values = torch.from_numpy(np.memmap(paths[0], size, "c", shape=(rows, columns)))  # of this process, if written to
    masks = torch.from_numpy(np.memmap(paths[1], np.bool_, "c", shape=(rows, len(widths))))
    values = values.view(torch.bfloat16) if kind == "bfloat16" else values
    return Bank(values.to(device), masks.to(device), widths, first)


def _ranges(datasets: Sequence[ClipDataset]) -> dict[str, tuple[int, int]]:
    """The frames of each session that clips have."""
    clips = pd.concat([dataset.clips[["session_id", "start_frame", "stop_frame"]] for dataset in datasets])
    found = clips.groupby("session_id").agg({"start_frame": "min", "stop_frame": "max"}).sort_index()
    return {str(session): (int(start), int(stop)) for session, start, stop in found.itertuples()}


def _make(
    paths: tuple[Path, Path],
    shape: tuple[int, int],
    dtype: type[np.generic],
    datasets: Sequence[ClipDataset],
    preparation: Preparation,
    first: Mapping[str, tuple[int, int]],
) -> None:
    """Write the files, each under its name when it is whole; the masks', which is last, stands for both."""
    with contextlib.ExitStack() as until_named:
        making = [until_named.enter_context(_temporary(path)) for path in paths]
        values = np.memmap(making[0], dtype, "r+", shape=shape)
        masks = np.memmap(making[1], np.bool_, "r+", shape=(shape[0], len(preparation.widths)))
        for dataset in datasets:
            for session, windows in dataset.windows().groupby("session_id", sort=False):
                frame, row = first[str(session)]
                _fill(values, masks, dataset, windows.sort_values("start_frame"), preparation, row - frame)
        values.flush()
        masks.flush()
        for temporary, path in zip(making, paths, strict=True):
            os.replace(temporary, path)


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    """An empty file beside ``path``, removed if it was not renamed; its lock tells it from a killed process's."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_TEMPORARY}")
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if lock_new_file(descriptor):  # else somebody took it for a dead one's before it was locked
                yield temporary
                return
        finally:
            temporary.unlink(missing_ok=True)
            os.close(descriptor)


def _remove_leavings(folder: Path) -> None:
    """Remove what processes left that were killed while they made a bank; what is being made is left alone."""
    for path in folder.glob(f".*{_TEMPORARY}"):
        # It stays where a process holds it, and where a file system without locks cannot say so.
        with contextlib.suppress(OSError, StorageError), locked(path, 0):
            path.unlink(missing_ok=True)


def _fill(
    values: np.ndarray,
    masks: np.ndarray,
    dataset: ClipDataset,
    windows: pd.DataFrame,
    preparation: Preparation,
    origin: int,
) -> None:
    """Prepare the frames of a session; ``origin`` added to a frame's number is its row."""
    chosen = [place for place, _ in covering(windows)]
    for begin in range(0, len(chosen), BATCHED):
        some = windows.iloc[chosen[begin : begin + BATCHED]]
        batch = dataset.read([int(clips[0]) for clips in some["clips"]])
        given = preparation({name: torch.from_numpy(array) for name, array in batch.items()})
        prepared = torch.cat(list(given.values.values()), dim=2)
        there = torch.stack(list(given.masks.values()), dim=2).numpy()
        flat = (prepared.to(torch.bfloat16).view(torch.uint16) if values.dtype == np.uint16 else prepared).numpy()
        for place, (start, stop) in enumerate(zip(some["start_frame"], some["stop_frame"], strict=True)):
            if stop - start != flat.shape[1]:
                raise ValueError(f'a clip of {stop - start} frames has {flat.shape[1]} rows: bank = "none" reads it')
            values[start + origin : stop + origin] = flat[place]
            masks[start + origin : stop + origin] = there[place]
