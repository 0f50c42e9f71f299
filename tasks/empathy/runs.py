"""A run from beginning to end: opened, skipped if it is done already, trained, scored, written."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import torch
from safetensors.torch import save
from torch import nn

import storyframes
from storyframes.clips.dataset import ClipDataset
from storyframes.clips.named_inputs import needed_features
from storyframes.store.durable import write_atomically
from storyframes.store.feature_store import FeatureStore
from tasks.empathy.feed import Feed, Loaded, open_bank
from tasks.empathy.fitting import misfit
from tasks.empathy.inputs import Part, Preparation, open_parts, rows_of
from tasks.empathy.labels import best_cut
from tasks.empathy.models.build import build
from tasks.empathy.moments import Moments, Rows, measure, remembered
from tasks.empathy.predict import predict
from tasks.empathy.predictions import FILE as PREDICTIONS
from tasks.empathy.predictions import write_predictions
from tasks.empathy.provenance import clip_caveats, feature_caveats, versions_of
from tasks.empathy.run_folder import (
    CHECKPOINT,
    EPOCHS,
    WEIGHTS,
    RunName,
    RunStatus,
    State,
    held,
    read_state,
    write_epochs,
    write_state,
)
from tasks.empathy.run_record import RECORD, Run, ScoreScale, TrainLabels, write_run
from tasks.empathy.settings import MODALITIES, ModelName, TrainSettings
from tasks.empathy.splits import Splits, open_splits
from tasks.empathy.train import Epoch, Progress, TrainingFailedError, Watcher, described_weights, fit, processor_of
from tasks.empathy.untrained import leave_untrained

TRAIN_VERSION = 1
"""Of the code that decides numbers; raised when the same settings would give other ones."""
MOMENTS, BANKS = ".moments", ".banks"
"""The folders in RUNS where moments, and prepared frames, are kept for all runs."""


class CannotTrainError(Exception):
    """The store has not what a run needs; nothing was begun."""


class RunDiffersError(Exception):
    """The folder of a run holds one that something else decided."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        name: which.
        folder: where it lies.
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


@dataclass(frozen=True)
class OpenRun:
    """A run whose clips are chosen, before anything was trained.

    Attributes:
        name: which.
        settings: how.
        store: the features.
        splits: the clips.
        parts: of each modality.
        versions: of the features that are used, by feature and session.
    """

    name: RunName
    settings: TrainSettings
    store: FeatureStore
    splits: Splits
    parts: Mapping[str, Sequence[Part]]
    versions: Mapping[str, Mapping[str, str]]

    @property
    def decided(self) -> dict[str, Any]:
        """All that decides the numbers of the run, as JSON has it."""
        settings = self.settings.deciding()
        unused = {name.value for name in ModelName} - {self.name.model}
        unused |= set(MODALITIES) - set(self.name.modalities)  # which clips they leave is in the digest below
        return {
            "code": TRAIN_VERSION,
            "model": self.name.model.value,
            "modalities": "+".join(self.name.modalities),
            "phase": self.name.phase,
            "seed": self.name.seed,
            "settings": {key: value for key, value in settings.items() if key not in unused},
            "features": {feature: _digest(versions) for feature, versions in self.versions.items()},
            "clips": self.splits.digest,
        }

    @property
    def fingerprint(self) -> str:
        return _digest(self.decided)

    def widths(self) -> dict[str, int]:
        """The columns of each modality."""
        return {name: sum(part.width for part in parts) for name, parts in self.parts.items()}

    def make(self) -> nn.Module:
        """The model, with new weights."""
        out = 1 if self.splits.stories is None else self.splits.stories.vectors.shape[1]
        first = self.parts[self.name.modalities[0]][0]  # all have as many steps
        steps = self.splits.training.fields[first.mask].shape[0]
        return build(self.name.model, self.widths(), out, self.settings, steps)

    def feed(self, moments: Mapping[str, Moments], banks: Path) -> Feed:
        """Where batches come from; a bank is kept in the folder ``banks``."""
        settings = self.settings
        if settings.bank == "none":
            return Loaded(Preparation(self.parts, moments, settings.device), settings.device)
        inputs = [part.deciding() for name in self.parts for part in settings.parts(name)]
        key = {"inputs": inputs, "modalities": list(self.parts), "versions": self.versions}
        key["moments"] = {name: each.digest for name, each in moments.items()}
        datasets = list(self.splits.scored.values())
        return open_bank(banks, key, datasets, Preparation(self.parts, moments), settings.bank, settings.device)

    def moments(self, folder: Path) -> dict[str, Moments]:
        """Of each part: out of ``folder``, where they are kept, or measured now."""
        training = self.splits.scored["train"]
        windows = training.windows()[["session_id", "start_frame", "stop_frame"]]
        frames = hashlib.sha256(windows.to_csv(index=False).encode()).hexdigest()
        inputs = {part.input: part for name in self.name.modalities for part in self.settings.parts(name)}
        keys = {
            name: {
                "input": part.deciding(),
                "versions": {
                    feature: self.versions[feature] for feature in needed_features(part.clip_input(), self.store)
                },
                "frames": frames,
            }
            for name, part in inputs.items()
        }
        parts = {part.name: part for own in self.parts.values() for part in own}

        def taking(part: Part) -> Rows:
            return lambda batch: rows_of(batch, part)

        def measured(names: Sequence[str]) -> dict[str, Moments]:
            dataset = ClipDataset(
                self.store, [inputs[name].clip_input() for name in names], _these_clips(training), split=training.split
            )
            return measure(dataset, {name: taking(parts[name]) for name in names})

        return remembered(folder, keys, measured)


def open_run(store: FeatureStore, name: RunName, settings: TrainSettings) -> OpenRun:
    """A run, ready to be trained; nothing is written.

    Raises:
        CannotTrainError: there are no such clips, labels or inputs, or too few clips.
        StoreError: there is no clip index.
    """
    try:
        return _open(store, name, settings)
    except ValueError as error:  # as the reader says what it cannot read
        raise CannotTrainError(str(error)) from error


def _open(store: FeatureStore, name: RunName, settings: TrainSettings) -> OpenRun:
    if why := misfit(name.model, name.modalities, settings):
        raise ValueError(why)
    splits = open_splits(store, name.phase, name.modalities, name.seed, settings)
    versions = versions_of(store, splits.scored, name.modalities, settings, stories=splits.stories is not None)
    parts = open_parts(splits.training, settings, name.modalities)
    _check_steps(name.model, parts, splits.training, settings)
    return OpenRun(name, settings, store, splits, parts, versions)


def _check_steps(
    model: ModelName, parts: Mapping[str, Sequence[Part]], dataset: ClipDataset, settings: TrainSettings
) -> None:
    frames = int(dataset.clips["stop_frame"].iloc[0] - dataset.clips["start_frame"].iloc[0])
    steps = {name: dataset.fields[own[0].mask].shape[0] for name, own in parts.items()}
    shown = ", ".join(f"{name} {each}" for name, each in steps.items())
    if model is ModelName.EF_LSTM and len(set(steps.values())) > 1:
        raise ValueError(
            f"{model} joins the modalities row by row, and of a clip they have {shown}: give them one rate"
        )
    if settings.bank != "none" and set(steps.values()) != {frames}:
        raise ValueError(f'a bank has the {frames} frames of a clip, and of one there are rows {shown}: bank = "none"')


def train_run(
    store: FeatureStore, name: RunName, settings: TrainSettings, runs: Path, watch: Watcher, *, replace: bool = False
) -> Outcome:
    """Train a run and score its clips, unless that was done already; beside it lies the baseline that nobody trained.

    Args:
        store: the features.
        name: which run.
        settings: how.
        runs: the folder of all runs.
        watch: told of the progress.
        replace: whether a run that something else decided may be taken the place of.

    Returns:
        How it ended: also where a loss was not finite.

    Raises:
        CannotTrainError, StoreError: see :func:`open_run`.
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
        if before is None:
            for left in (RECORD, PREDICTIONS, WEIGHTS, EPOCHS, CHECKPOINT):
                (folder / left).unlink(missing_ok=True)
        state = State(RunStatus.RUNNING, opened.fingerprint, opened.decided)
        write_state(folder, state)
        try:
            with processor_of(settings):
                weights = _train(opened, folder, runs, watch)
        except TrainingFailedError as error:
            failed = State(RunStatus.FAILED, opened.fingerprint, opened.decided, str(error), error.epoch, error.batch)
            write_state(folder, failed)
            return Outcome(name, folder, RunStatus.FAILED, True, str(error), {}, dropped)
        write_state(folder, State(RunStatus.DONE, opened.fingerprint, opened.decided))
        untrained = leave_untrained(store, name, settings, runs)
        return Outcome(name, folder, RunStatus.DONE, True, "", weights, dropped, untrained)


def _train(opened: OpenRun, folder: Path, runs: Path, watch: Watcher) -> dict[str, Any]:
    settings, splits = opened.settings, opened.splits
    moments = opened.moments(runs / MOMENTS)
    feed = opened.feed(moments, runs / BANKS)
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
    run = _record(opened, progress, moments, cut)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    write_atomically(folder / WEIGHTS, save(weights))
    write_predictions(folder, run, pd.concat(tables, ignore_index=True))
    write_run(folder, run)
    return described_weights(progress)


def _table(clips: pd.DataFrame, labels: np.ndarray, scores: np.ndarray, copies: np.ndarray) -> pd.DataFrame:
    columns = ["clip_id", "session_id", "participant_id", "story_id", "phase", "split"]
    return clips[columns].assign(rating=labels, score=scores, copies=copies)


def _record(opened: OpenRun, progress: Progress, moments: Mapping[str, Moments], cut: float) -> Run:
    scale, training = opened.splits.scale, opened.splits.scored["train"]
    labels = opened.splits.labels(training.clips)
    return Run(
        phase=opened.name.phase,
        model=opened.name.model.value,
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
        caveats=(*feature_caveats(opened.store, opened.versions), *clip_caveats(opened.settings)),
        settings=opened.decided["settings"],
        versions={"storyframes": storyframes.__version__, "torch": torch.__version__, "git": _commit()},
        data={
            "clips": opened.splits.digest,
            "dropped": opened.splits.dropped,
            "features": opened.decided["features"],
            "moments": {name: each.digest for name, each in moments.items()},
            "sizes": {split: len(dataset) for split, dataset in opened.splits.scored.items()},
            "weights": described_weights(progress),
            "device": opened.settings.device,
            "threads": opened.settings.threads,
        },
    )


def _kept(folder: Path) -> dict[str, Any]:
    content = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    return dict(content["data"]["weights"])


def _commit() -> str:
    """The commit of this code, where it lies in a repository of its own; empty elsewhere."""
    root = Path(__file__).parents[2]
    if not (root / ".git").exists():
        return ""
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _these_clips(dataset: ClipDataset) -> pc.Expression:
    return pc.field("clip_id").isin(dataset.clips["clip_id"].tolist())
