"""Scores of clips by a trained model: each window is encoded once, however many stories it is rated for."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from storyframes import ClipDataset, ClipSampler
from storyframes_empathy.training.feed import Feed
from storyframes_empathy.training.settings import TrainSettings
from storyframes_empathy.training.splits import Stories

EPS = 1e-8
"""The least norm that a vector has in a cosine."""


class WindowSampler(ClipSampler):
    """The first clip of each window, in the dataset's order."""

    def __init__(self, dataset: ClipDataset) -> None:
        super().__init__(dataset)
        self.windows: list[np.ndarray] = dataset.windows()["clips"].tolist()

    @property
    def total(self) -> int:
        return len(self.windows)

    def order(self, generator: np.random.Generator) -> np.ndarray:
        return np.array([clips[0] for clips in self.windows])


def compared(encoded: Tensor, vectors: Tensor | None, settings: TrainSettings) -> Tensor:
    """Scores, (n,) float32, of what a model made of n windows.

    Args:
        encoded: (n, width of the stories' vectors); (n, 1) where there are no stories, and that is the score.
        vectors: (n, width), each window's story.
        settings: whether the cosine is taken as it is.
    """
    encoded = encoded.float()
    if vectors is None:
        return encoded[:, 0]
    cosine = torch.cosine_similarity(encoded, vectors, dim=1, eps=EPS)
    return (1 + cosine) / 2 if settings.cosine == "rescale" else cosine


def autocast(settings: TrainSettings) -> Any:
    """The precision that a model computes with."""
    kind = torch.device(settings.device).type
    return torch.autocast(kind, torch.bfloat16, enabled=settings.precision == "bfloat16")


def predict(
    model: nn.Module, feed: Feed, dataset: ClipDataset, stories: Stories | None, settings: TrainSettings
) -> np.ndarray:
    """The scores of a dataset's clips, (n,) float64.

    Args:
        model: of :mod:`storyframes_empathy.training.models`; it is left in the mode for evaluation.
        feed: of the clips, as in training.
        dataset: the clips.
        stories: their vectors, None for labels without a story.
        settings: those of the training.

    Raises:
        StoreError: the store does not hold a clip's rows (any more).
    """
    model.eval()
    sampler = WindowSampler(dataset)
    device = torch.device(settings.device)
    vectors = None if stories is None else torch.from_numpy(stories.vectors).float().to(device)
    rows = None if stories is None else stories.of(dataset.clips)
    scores = np.empty(len(dataset))
    first = 0
    with torch.inference_mode(), autocast(settings):
        for places, given in feed.batches(dataset, sampler, settings.batch_size):
            clips = sampler.windows[first : first + len(places)]
            first += len(clips)
            encoded = model(given)
            window = torch.from_numpy(np.repeat(np.arange(len(clips)), [len(each) for each in clips])).to(device)
            flat = np.concatenate(clips)
            of_clip = None if vectors is None or rows is None else vectors[torch.from_numpy(rows[flat]).to(device)]
            scores[flat] = compared(encoded[window], of_clip, settings).cpu().numpy()
    return scores
