"""v on its principal components: what a step is given of 2757 columns, in fewer (another model, ``pca``).

They are fitted on what models are given of the frames of training participants (z-scores, cut, 0 where there is no
value), each frame once. Nothing is subtracted, so that what is 0 stays 0, and nothing is scaled.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from storyframes import ClipDataset
from storyframes.store import write_atomically
from storyframes_empathy.training.inputs import Preparation
from storyframes_empathy.training.moments import each_row_once

_FLAT = 1e-10  # the share of the largest variance below which a direction is none


@dataclass(frozen=True)
class Projection:
    """Principal components.

    Attributes:
        components: (width, n) float64, of length 1, at right angles, the one with the most variance first; the
            largest number in each is positive.
        explained: the share of the variance that they have.
        frames: how many rows they were fitted on.
    """

    components: np.ndarray
    explained: float
    frames: int

    @property
    def digest(self) -> str:
        """SHA-256 of the numbers."""
        return hashlib.sha256(np.ascontiguousarray(self.components).tobytes()).hexdigest()


def fit_projection(dataset: ClipDataset, preparation: Preparation, modality: str, count: int) -> Projection:
    """The principal components of a modality.

    Args:
        dataset: training clips.
        preparation: of this modality alone; it does not project.
        modality: which.
        count: how many components.

    Raises:
        ValueError: the training frames do not vary in so many directions.
        StoreError: the store does not hold its rows (any more).
    """
    width = preparation.widths[modality]
    products, total = torch.zeros((width, width), dtype=torch.float64), torch.zeros(width, dtype=torch.float64)
    rows = 0
    name = preparation.parts[modality][0].name
    for batch, new in each_row_once(dataset):
        given = preparation({field: torch.from_numpy(values) for field, values in batch.items()})
        there = given.masks[modality]
        steps = batch[preparation.parts[modality][0].mask].shape[1]
        there = there & torch.from_numpy(new.of(name, steps)[:, : there.shape[1]])
        exact = given.values[modality][there].double()
        products.addmm_(exact.T, exact)
        total += exact.sum(dim=0)
        rows += len(exact)
    mean = total / max(rows, 1)
    values, vectors = torch.linalg.eigh(products / max(rows, 1) - torch.outer(mean, mean))
    return _largest(values.flip(0), vectors.flip(1), count, rows, modality)


def _largest(values: Tensor, vectors: Tensor, count: int, rows: int, modality: str) -> Projection:
    """The first components; ``values`` are the variances of all, the largest first."""
    several = int((values > _FLAT * values[0]).sum()) if values[0] > 0 else 0
    if several < count:
        raise ValueError(f"pca = {count}: the {rows} training frames of {modality} vary in {several} directions only")
    vectors = vectors[:, :count]
    largest = vectors.gather(0, vectors.abs().argmax(dim=0, keepdim=True))
    explained = float(values[:count].sum() / values.clamp(min=0).sum())
    return Projection((vectors * largest.sign()).numpy(), explained, rows)


def remembered_projection(folder: Path, key: object, fit: Callable[[], Projection]) -> Projection:
    """A projection out of ``folder`` where it is there, else fitted now and left there.

    Args:
        folder: private to the owner.
        key: what the numbers follow from, as JSON.
        fit: fits them.
    """
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]
    path = folder / f"{digest}.pca.npz"
    try:
        with np.load(path) as content:
            return Projection(content["components"], float(content["explained"]), int(content["frames"]))
    except FileNotFoundError:
        found = fit()
    content = io.BytesIO()
    np.savez(content, components=found.components, explained=found.explained, frames=found.frames)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, content.getvalue())
    return found
