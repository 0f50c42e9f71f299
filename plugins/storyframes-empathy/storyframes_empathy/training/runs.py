"""A run from beginning to end: opened, skipped if it is done already, trained, scored, written."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save

import storyframes
import storyframes_empathy
from storyframes import FeatureStore
from storyframes.store import write_atomically
from storyframes_empathy.scores.predictions import FILE as PREDICTIONS
from storyframes_empathy.scores.predictions import write_predictions
from storyframes_empathy.scores.run_record import RECORD, Run, ScoreScale, TrainLabels, write_run
from storyframes_empathy.training.labels import best_cut
from storyframes_empathy.training.opened import OpenRun, Prepared, open_run
from storyframes_empathy.training.predict import predict
from storyframes_empathy.training.run_folder import (
    CHECKPOINT,
    EPOCHS,
    STATE,
    WEIGHTS,
    RunName,
    RunStatus,
    State,
    held,
    read_state,
    write_epochs,
    write_state,
)
from storyframes_empathy.training.settings import TrainSettings
from storyframes_empathy.training.train import (
    Epoch,
    Progress,
    TrainingFailedError,
    Watcher,
    described_weights,
    fit,
    processor_of,
)
from storyframes_empathy.training.untrained import leave_untrained


class RunDiffersError(Exception):
    """The folder of a run holds one that something else decided."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        name: which.
        folder: of the run.
        status: done or failed.
        is_new: whether anything was trained now.
        reason: why it failed; empty otherwise.
        weights: which epoch's weights are kept, and their val_mse; empty where it failed.
        dropped: clips of the phase that lack an input or a label.
        untrained: why there is no untrained baseline beside it; empty where there is one.
    """

    name: RunName
    folder: Path
    status: RunStatus
    is_new: bool
    reason: str
    weights: Mapping[str, Any]
    dropped: int
    untrained: str = ""


def train_run(
    store: FeatureStore, name: RunName, settings: TrainSettings, runs: Path, watch: Watcher, *, replace: bool = False
) -> Outcome:
    """Train a run and score its clips, unless that was done already; beside it lies the baseline that nobody trained.

    Args:
        store: the features.
        name: which run.
        settings: how.
        runs: the folder of all runs.
        watch: called with the progress.
        replace: whether a run that something else decided may be taken the place of.

    Returns:
        How it ended: also where a loss was not finite.

    Raises:
        CannotTrainError, StoreError: see :func:`~storyframes_empathy.training.opened.open_run`; also if this processor
            cannot compute the model in its precision.
        RunDiffersError: the folder holds a run that something else decided.
        StorageError: another process trains it.
        CheckpointError: its checkpoint is damaged.
        OSError: something cannot be written.
    """
    opened = open_run(store, name, settings)
    folder = name.folder(runs)
    with held(folder):
        before = read_state(folder)
        dropped = opened.splits.dropped
        if before is not None and before.fingerprint != opened.fingerprint:
            if not replace:
                what = ", ".join(before.differing(opened.decided))
                raise RunDiffersError(
                    f"{folder} holds a run that something else decided ({what}): --replace takes its place, "
                    "another --out keeps both"
                )
            before = None
        if before is not None and before.status is RunStatus.DONE and (folder / PREDICTIONS).exists():
            untrained = leave_untrained(store, name, settings, runs)
            return Outcome(name, folder, RunStatus.DONE, False, "", _kept(folder), dropped, untrained)
        opened.check_precision()
        if before is None:
            for left in (STATE, RECORD, PREDICTIONS, WEIGHTS, EPOCHS, CHECKPOINT):
                (folder / left).unlink(missing_ok=True)
        try:
            with processor_of(settings):
                prepared = opened.prepared(runs)
                write_state(folder, State(RunStatus.RUNNING, opened.fingerprint, opened.decided))
                weights = _train(opened, prepared, folder, watch)
        except TrainingFailedError as error:
            failed = State(RunStatus.FAILED, opened.fingerprint, opened.decided, str(error), error.epoch, error.batch)
            write_state(folder, failed)
            return Outcome(name, folder, RunStatus.FAILED, True, str(error), {}, dropped)
        write_state(folder, State(RunStatus.DONE, opened.fingerprint, opened.decided))
        untrained = leave_untrained(store, name, settings, runs)
        return Outcome(name, folder, RunStatus.DONE, True, "", weights, dropped, untrained)


def _train(opened: OpenRun, prepared: Prepared, folder: Path, watch: Watcher) -> dict[str, Any]:
    settings, splits, feed = opened.settings, opened.splits, prepared.feed
    checkpoint = folder / CHECKPOINT

    def note(epochs: Sequence[Epoch]) -> None:
        write_epochs(folder, [asdict(one) for one in epochs])

    seed, fingerprint = opened.name.seed, opened.fingerprint
    model, progress = fit(opened.make, feed, splits, settings, seed, checkpoint, fingerprint, note, watch)
    cut, tables = splits.scale.score_threshold, []
    for split in [name for name in splits.scored if name != "train"] or ["train"]:
        dataset = splits.scored[split]
        scores = predict(model, feed, dataset, splits.stories, settings)
        labels, copies = splits.labels(dataset.clips), splits.copies[split]
        tables.append(_table(dataset.clips, labels, scores, copies))
        if split == "val" and settings.score_cut == "val":
            cut = best_cut(scores, labels > splits.scale.similar_above, copies)
    run = _record(opened, progress, prepared.digests, cut)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    write_atomically(folder / WEIGHTS, save(weights))
    write_predictions(folder, run, pd.concat(tables, ignore_index=True))
    write_run(folder, run)
    return described_weights(progress)


def _table(clips: pd.DataFrame, labels: np.ndarray, scores: np.ndarray, copies: np.ndarray) -> pd.DataFrame:
    columns = ["clip_id", "session_id", "participant_id", "story_id", "phase", "split"]
    return clips[columns].assign(rating=labels, score=scores, copies=copies)


def _record(opened: OpenRun, progress: Progress, digests: Mapping[str, Any], cut: float) -> Run:
    scale, training = opened.splits.scale, opened.splits.scored["train"]
    labels = opened.splits.labels(training.clips)
    return Run(
        phase=opened.name.phase,
        model=opened.name.model.value,
        variant=opened.variant,
        modalities="+".join(opened.name.modalities),
        seed=opened.name.seed,
        scheme=scale.name,
        minimum=scale.low,
        maximum=scale.high,
        threshold=scale.similar_above,
        label=ScoreScale(scale.scale),
        score_threshold=cut,
        train=TrainLabels(
            n=len(labels), mean=float(labels.mean()), prevalence=float((labels > scale.similar_above).mean())
        ),
        fingerprint=opened.fingerprint,
        caveats=opened.caveats,
        settings=opened.decided["settings"],
        versions={
            "storyframes": storyframes.__version__,
            "storyframes-empathy": storyframes_empathy.__version__,
            "torch": torch.__version__,
            "git": _commit(),
        },
        data={
            "clips": opened.splits.digest,
            "dropped": opened.splits.dropped,
            "features": opened.decided["features"],
            **digests,
            "sizes": {split: len(dataset) for split, dataset in opened.splits.scored.items()},
            "weights": described_weights(progress),
            "device": opened.settings.device,
            "threads": opened.settings.threads,
            "onednn": opened.settings.uses_onednn,
        },
    )


def _kept(folder: Path) -> dict[str, Any]:
    content = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    return dict(content["data"]["weights"])


def _commit() -> str:
    """The commit of storyframes, where its code is in a checkout; empty elsewhere."""
    root = Path(storyframes.__file__).parents[1]
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()
