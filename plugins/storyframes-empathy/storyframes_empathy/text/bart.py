"""Scores by BART (the paper's row "EmpathicStoriesBART"): the cosine of what it makes of two texts.

A text's vector is the mean of the model's last hidden state over its tokens. The model is a local folder, as
transformers saves one, with its weights as safetensors; no code of it is run, and nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from storyframes_empathy.text.samples import Sample
from tasks.models import import_torchvision, model_digest

LONGEST = 1024  # tokens of a text; the rest is left out, and counted
_BATCH = 8
_EPS = 1e-8


class BartError(ValueError):
    """The model cannot be used; the message names the folder and says why."""


@dataclass(frozen=True)
class BartScores:
    """What BART gives.

    Attributes:
        scores: (n,) float64, the cosine of each sample's two texts, from -1 to 1.
        truncated: how many of the distinct texts were longer than the model reads.
    """

    scores: np.ndarray
    truncated: int


class Bart:
    """A BART model of a local folder.

    Args:
        folder: with config.json, model.safetensors and a tokenizer.
        device: as torch names it.

    Raises:
        BartError: there is none, or it is no such model.
    """

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        weights = folder / "model.safetensors"
        if not weights.is_file():
            raise BartError(
                f"{folder} has no model.safetensors: --weights is a folder as transformers' save_pretrained writes one"
            )
        import_torchvision()  # which transformers imports, its own way
        from safetensors import SafetensorError
        from transformers import AutoTokenizer, BartModel

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model: Any = BartModel.from_pretrained(folder, local_files_only=True, use_safetensors=True)
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise BartError(f"{folder}: cannot be loaded as a BART model ({type(error).__name__})") from None
        self._model = model.to(device).eval()
        self._longest = min(LONGEST, int(model.config.max_position_embeddings))
        self._device = device
        self.sha256 = model_digest(weights)

    def score(self, samples: Sequence[Sample], progress: Callable[[int], None] = lambda done: None) -> BartScores:
        """The cosine of each sample's text and story. A text is encoded once, however many samples have it."""
        texts = sorted({text for sample in samples for text in (sample.said, sample.story)}, key=len)
        vectors: dict[str, np.ndarray] = {}
        truncated = 0
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            encoded, cut = self._encode(batch)
            vectors.update(zip(batch, encoded, strict=True))
            truncated += cut
            progress(len(vectors))
        return BartScores(np.array([_cosine(vectors[one.said], vectors[one.story]) for one in samples]), truncated)

    def _encode(self, texts: list[str]) -> tuple[np.ndarray, int]:
        """(n, width) float64, and how many were cut."""
        import torch

        lengths = [len(ids) for ids in self._tokenizer(texts, truncation=False, verbose=False)["input_ids"]]
        tokens = self._tokenizer(
            texts, truncation=True, max_length=self._longest, padding=True, return_tensors="pt"
        ).to(self._device)
        with torch.inference_mode():
            hidden = self._model(
                input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
            ).last_hidden_state.double()
        mask = tokens["attention_mask"].double()[..., None]
        means = (hidden * mask).sum(1) / mask.sum(1)
        return means.cpu().numpy(), sum(length > self._longest for length in lengths)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / max(float(np.linalg.norm(a) * np.linalg.norm(b)), _EPS))
