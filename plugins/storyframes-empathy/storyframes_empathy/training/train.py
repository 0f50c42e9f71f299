"""The training loop: plain, resumable to the bit, and it stops at the first loss that is not a number.

Everything random of an epoch follows from the seed and the epoch's number, so that a checkpoint after each epoch is
enough: what a killed run makes again is what it would have made.
"""

from __future__ import annotations

import contextlib
import io
import math
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from storyframes.store import write_atomically
from storyframes_empathy.training.feed import Feed
from storyframes_empathy.training.models.parts import Sequences, use_onednn
from storyframes_empathy.training.predict import autocast, compared, predict
from storyframes_empathy.training.settings import TrainSettings
from storyframes_empathy.training.splits import Splits


class CheckpointError(Exception):
    """A checkpoint cannot be gone on with."""


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Replace the checkpoint in one step; private to the owner.

    Raises:
        OSError: it cannot be written.
    """
    content = io.BytesIO()
    torch.save(dict(state), content)
    write_atomically(path, content.getvalue())


def load_checkpoint(path: Path, fingerprint: str) -> dict[str, Any] | None:
    """The checkpoint of the run with this fingerprint, on the processor; None where there is none.

    Raises:
        CheckpointError: it is damaged.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        return None
    except (RuntimeError, EOFError, pickle.UnpicklingError, ValueError) as error:
        raise CheckpointError(
            f"{path} is damaged ({type(error).__name__}): remove it, and the run begins anew"
        ) from None
    if not isinstance(state, dict) or state.get("fingerprint") != fingerprint:
        return None
    return state


class TrainingFailedError(Exception):
    """A loss was not finite.

    Attributes:
        epoch, batch: when, from 1; batch 0 is the validation after the epoch.
    """

    def __init__(self, what: str, epoch: int, batch: int) -> None:
        where = f"batch {batch}" if batch else "its validation"
        super().__init__(f"{what} was not finite in epoch {epoch}, {where}: try a smaller learning_rate")
        self.epoch, self.batch = epoch, batch


@dataclass(frozen=True)
class Epoch:
    """What an epoch came to; a line of epochs.jsonl."""

    epoch: int
    train_mse: float
    val_mse: float | None
    seconds: float


class Watcher(Protocol):
    """Who looks on."""

    def begins(self, epoch: int, epochs: int, steps: int) -> None:
        """Training goes on with ``epoch`` (from 1) of ``epochs``, of so many steps each."""

    def step(self) -> None:
        """A batch was learned."""

    def epoch(self, done: Epoch) -> None:
        """An epoch ended."""


@dataclass
class Progress:
    """What a checkpoint has beside weights.

    Attributes:
        epochs: those that are done.
        best: the number (from 1) of the epoch whose weights are kept, 0 before there is one.
    """

    epochs: list[Epoch] = field(default_factory=list)
    best: int = 0


def fit(
    make: Callable[[], nn.Module],
    feed: Feed,
    splits: Splits,
    settings: TrainSettings,
    seed: int,
    checkpoint: Path,
    fingerprint: str,
    note: Callable[[Sequence[Epoch]], None],
    watch: Watcher,
) -> tuple[nn.Module, Progress]:
    """Train a model, or go on where a checkpoint of the same run was left.

    Args:
        make: makes the model with weights drawn from torch's generator.
        feed: of the clips.
        splits: the clips.
        settings: how.
        seed: of weights, dropout and, with the epoch, order.
        checkpoint: the file, written anew after each epoch.
        fingerprint: of the run; a checkpoint of another is not gone on with.
        note: called with all epochs that a checkpoint has.
        watch: called with the progress.

    Returns:
        The model with the weights that are kept, and how it came to them.

    Raises:
        TrainingFailedError: a loss was not finite.
        CheckpointError: the checkpoint is damaged.
    """
    device = torch.device(settings.device)
    torch.manual_seed(seed)
    model = make().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    rate = torch.optim.lr_scheduler.StepLR(optimizer, settings.step_epochs, settings.step_factor)
    kept: dict[str, Tensor] = {}
    progress = Progress()
    saved = load_checkpoint(checkpoint, fingerprint)
    if saved is not None:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        rate.load_state_dict(saved["rate"])
        kept = saved["kept"]
        progress = Progress([Epoch(**one) for one in saved["epochs"]], saved["best"])

    def save() -> None:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rate": rate.state_dict()}
        done = {**asdict(progress), "kept": kept, "fingerprint": fingerprint}
        save_checkpoint(checkpoint, {**state, **done})
        note(progress.epochs)

    if saved is None:
        save()
    use_onednn(model, settings.uses_onednn)
    learned = torch.from_numpy(splits.scale.learned(splits.labels(splits.training.clips))).float().to(device)
    for number in range(len(progress.epochs) + 1, settings.epochs + 1):
        watch.begins(number, settings.epochs, -(-len(splits.sampler) // settings.batch_size))
        began = time.monotonic()
        splits.sampler.set_epoch(number - 1)
        torch.manual_seed(_epoch_seed(seed, number))
        train_mse = _learn(model, optimizer, _batches(feed, splits, learned, settings), settings, number, watch)
        rate.step()
        val_mse = _validated(model, feed, splits, settings, number)
        progress.epochs.append(Epoch(number, train_mse, val_mse, round(time.monotonic() - began, 3)))
        if settings.keep == "last" or val_mse is None or val_mse < _val(progress, progress.best):
            progress.best = number
            kept = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        save()
        watch.epoch(progress.epochs[-1])
    model.load_state_dict(kept)
    return model, progress


def _val(progress: Progress, epoch: int) -> float:
    value = progress.epochs[epoch - 1].val_mse if epoch else None
    return math.inf if value is None else value


def _epoch_seed(seed: int, epoch: int) -> int:
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> 1)


Learned = tuple[Sequences, Tensor | None, Tensor]


def _batches(feed: Feed, splits: Splits, learned: Tensor, settings: TrainSettings) -> Iterator[Learned]:
    """Inputs, stories and what is learned, of each batch; one of a single clip is left out."""
    stories = splits.stories
    vectors = None if stories is None else torch.from_numpy(stories.vectors).float().to(learned.device)
    rows = None if stories is None else torch.from_numpy(stories.of(splits.training.clips)).to(learned.device)
    for where, given in feed.batches(splits.training, splits.sampler, settings.batch_size):
        places = where.to(learned.device)
        if len(places) > 1:
            of_clip = None if vectors is None or rows is None else vectors[rows[places]]
            yield given, of_clip, learned[places]


def _learn(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterator[Learned],
    settings: TrainSettings,
    epoch: int,
    watch: Watcher,
) -> float:
    """Learn an epoch; its mean loss, of each clip as it was learned."""
    model.train()
    total, clips = 0.0, 0
    for number, (given, vectors, learned) in enumerate(batches, 1):
        value = _step(model, optimizer, given, vectors, learned, settings)
        if not math.isfinite(value):
            raise TrainingFailedError("the loss", epoch, number)
        total += value * len(learned)
        clips += len(learned)
        watch.step()
    return total / clips


def _step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    given: Sequences,
    vectors: Tensor | None,
    learned: Tensor,
    settings: TrainSettings,
) -> float:
    optimizer.zero_grad()
    with autocast(settings):
        encoded = model(given)
    loss = torch.nn.functional.mse_loss(compared(encoded, vectors, settings), learned)
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def _validated(model: nn.Module, feed: Feed, splits: Splits, settings: TrainSettings, epoch: int) -> float | None:
    """The mean squared error on the validation clips, each as often as it counts; None where there are none."""
    if "val" not in splits.scored:
        return None
    dataset = splits.scored["val"]
    scores = predict(model, feed, dataset, splits.stories, settings)
    errors = (scores - splits.scale.learned(splits.labels(dataset.clips))) ** 2
    mse = float(np.average(errors, weights=splits.copies["val"]))
    if not math.isfinite(mse):
        raise TrainingFailedError("the loss", epoch, 0)
    return mse


@contextlib.contextmanager
def processor_of(settings: TrainSettings) -> Iterator[None]:
    """As many threads as asked for, and on a GPU only kernels that give the same twice where there are such."""
    threads = torch.get_num_threads()
    torch.set_num_threads(settings.threads)
    on_gpu = torch.device(settings.device).type != "cpu"
    deterministic = torch.are_deterministic_algorithms_enabled()
    if on_gpu:
        torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)


def described_weights(progress: Progress) -> dict[str, Any]:
    """Which weights are kept, for the record of a run."""
    best = progress.epochs[progress.best - 1]
    return {"epoch": best.epoch, "val_mse": best.val_mse, "epochs": len(progress.epochs)}
