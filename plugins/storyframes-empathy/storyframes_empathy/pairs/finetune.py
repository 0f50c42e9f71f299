"""Training a sentence encoder further, so that the cosines of two stories follow what people said of them.

The losses are those of sentence-transformers. The loop is our own and short: their trainer would bring two packages
more, writes cards and logs that may quote training texts, and does nothing else that is needed here.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from storyframes.store import write_atomically
from storyframes_empathy.pairs.metrics import THRESHOLD
from storyframes_empathy.pairs.table import HIGHEST, LOWEST, Aspect, PairTexts, Vector
from tasks.extractors import SbertSettings
from tasks.models import import_torchvision

if TYPE_CHECKING:
    import torch

SCALE = 20.0  # of CoSENT and AnglE
MARGIN = 0.5  # of contrastive, in cosine distance
_WARM_UP = 0.1  # the share of steps in which the learning rate rises; then it falls to 0
RECORD = "finetune.json"


class FinetuneError(ValueError):
    """The model cannot be trained with these pairs; the message says why."""


class Loss(StrEnum):
    """What is made small."""

    COSINE = "cosine"  # the squared difference of cosine and label
    COSENT = "cosent"
    ANGLE = "angle"
    CONTRASTIVE = "contrastive"  # of similar and dissimilar pairs

    def labels(self, scores: Vector) -> Vector:
        """Labels of 1 to 4 as the loss takes them: from 0 to 1, or 1 above 2.5 and else 0."""
        if self is Loss.CONTRASTIVE:
            return (scores > THRESHOLD).astype(np.float64)
        return (scores - LOWEST) / (HIGHEST - LOWEST)

    def of(self, model: Any) -> Any:
        """The loss of sentence-transformers for a model."""
        import_torchvision()  # which transformers imports, its own way
        from sentence_transformers.sentence_transformer import losses

        if self is Loss.COSINE:
            return losses.CosineSimilarityLoss(model)
        if self is Loss.COSENT:
            return losses.CoSENTLoss(model, scale=SCALE)
        if self is Loss.ANGLE:
            return losses.AnglELoss(model, scale=SCALE)
        distance = losses.SiameseDistanceMetric.COSINE_DISTANCE
        return losses.ContrastiveLoss(model, distance_metric=distance, margin=MARGIN)


@dataclass(frozen=True)
class Recipe:
    """How it is trained: AdamW, a learning rate that rises for a tenth of the steps and then falls to 0.

    Attributes:
        aspect: whose labels.
        loss: what is made small.
        epochs, batch_size: how often every pair is seen, and how many at once.
        learning_rate: the highest.
        seed: of the order of pairs and of dropout.
    """

    aspect: Aspect = Aspect.EMPATHY
    loss: Loss = Loss.COSINE
    epochs: int = 3
    batch_size: int = 16
    learning_rate: float = 2e-5
    seed: int = 0


def finetune(
    texts: PairTexts,
    recipe: Recipe,
    out: Path,
    settings: SbertSettings | None = None,
    progress: Callable[[int, float], None] = lambda epoch, loss: None,
) -> dict[str, Any]:
    """Train a model and write its folder, with a record (``finetune.json``) and no text.

    Args:
        texts: pairs; those without a label of the aspect are left out and counted.
        recipe: how.
        out: a folder that is not there yet; it is there only when all of it is.
        settings: the model to begin with; by default all-MiniLM-L6-v2.
        progress: called with the mean loss of each epoch.

    Returns:
        The record.

    Raises:
        FinetuneError: no such labels, labels outside 1 to 4, all the same, or training led to numbers that are none.
        ExtractionError: the model is not there.
        OSError: the folder cannot be written.
    """
    begin = settings or SbertSettings()
    labels = _labels(texts, recipe.aspect)
    chosen = np.flatnonzero(np.isfinite(labels))
    targets = recipe.loss.labels(labels[chosen])
    if len(np.unique(targets)) < 2:
        raise FinetuneError(f"{len(chosen)} pairs have a label of {recipe.aspect}, all the same: nothing to learn")
    pairs = [(texts.a[at], texts.b[at]) for at in chosen]
    model = begin.open_model().model
    limit, different = model.max_seq_length, sorted({text for pair in pairs for text in pair})
    lengths = [len(one) for one in model.tokenizer(different, verbose=False)["input_ids"]]
    cut = sum(length > limit for length in lengths) if limit else 0
    losses = train(model, pairs, targets, recipe, progress)
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(mode=0o700, parents=True)
    try:
        model.save_pretrained(str(part), create_model_card=False, safe_serialization=True)
        files = sorted(path for path in part.rglob("*") if path.is_file())
        record = {
            "recipe": asdict(recipe),
            "pairs": len(pairs),
            "without_label": len(texts.a) - len(pairs),
            "loss": losses,
            "begun_with": dict(begin.model_digests()),
            "files": {path.relative_to(part).as_posix(): _sha256(path.read_bytes()) for path in files},
            "pairs_sha256": _sha256(json.dumps([pairs, targets.tolist()]).encode()),
            "caveats": [f"{cut} texts longer than the model reads: cut"] if cut else [],
            "versions": {name: version(name) for name in ("storyframes", "sentence-transformers", "torch")},
        }
        write_atomically(part / RECORD, (json.dumps(record, indent=2) + "\n").encode())
        part.rename(out)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return record


def _labels(texts: PairTexts, aspect: Aspect) -> Vector:
    if aspect not in texts.labels:
        raise FinetuneError(f"the table has no labels of {aspect}: a column {aspect} or {aspect.published}")
    labels = texts.labels[str(aspect)].to_numpy(np.float64)
    if len(wrong := np.flatnonzero((labels < LOWEST) | (labels > HIGHEST))):
        row = texts.labels["row"].iloc[wrong[0]]
        raise FinetuneError(f"row {row}: {aspect} = {labels[wrong[0]]:g} is outside {LOWEST:g} to {HIGHEST:g}")
    return labels


def train(
    model: Any,
    pairs: list[tuple[str, str]],
    targets: Vector,
    recipe: Recipe,
    progress: Callable[[int, float], None],
) -> list[float]:
    """Train the model in place; gives back the mean loss of each epoch.

    Raises:
        FinetuneError: a loss is not a number.
    """
    import torch

    loss = recipe.loss.of(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate)
    steps = recipe.epochs * math.ceil(len(pairs) / recipe.batch_size)
    rate = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, steps))
    means = []
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        model.train()
        for epoch in range(recipe.epochs):
            order, total = torch.randperm(len(pairs)).tolist(), 0.0
            for start in range(0, len(order), recipe.batch_size):
                batch = order[start : start + recipe.batch_size]
                value = batch_loss(model, loss, [pairs[at] for at in batch], targets[batch])
                if not torch.isfinite(value):
                    raise FinetuneError(f"the loss of epoch {epoch + 1} is not a number: try a lower --learning-rate")
                optimiser.zero_grad()
                value.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
                rate.step()
                total += value.item() * len(batch)
            means.append(total / len(pairs))
            progress(epoch + 1, means[-1])
    model.eval()
    return means


def batch_loss(model: Any, loss: Any, pairs: list[tuple[str, str]], targets: Vector) -> torch.Tensor:
    """The loss of a batch, a scalar with its gradient."""
    import torch

    sides = [model.preprocess([pair[side] for pair in pairs]) for side in (0, 1)]
    features = [
        {name: of.to(model.device) if isinstance(of, torch.Tensor) else of for name, of in side.items()}
        for side in sides
    ]
    value: torch.Tensor = loss(features, torch.tensor(targets, dtype=torch.float32, device=model.device))
    return value


def _rate(step: int, steps: int) -> float:
    warm = max(1, round(_WARM_UP * steps))
    return (step + 1) / warm if step < warm else max(0.0, (steps - step) / max(1, steps - warm))


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
