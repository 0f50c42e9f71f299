"""A run before anything was trained: its clips are chosen, its inputs known, its frames prepared on demand."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from torch import nn

from storyframes import ClipDataset, FeatureStore
from storyframes.clips import needed_features
from storyframes_empathy.training.feed import Feed, Loaded, open_bank
from storyframes_empathy.training.inputs import Part, Preparation, open_parts, rows_of
from storyframes_empathy.training.models.build import build
from storyframes_empathy.training.models.parts import Lstm
from storyframes_empathy.training.moments import Moments, Rows, measure, remembered
from storyframes_empathy.training.personality import Personality, WithPersonality, read_personality
from storyframes_empathy.training.predict import autocast
from storyframes_empathy.training.projection import Projection, fit_projection, remembered_projection
from storyframes_empathy.training.provenance import clip_caveats, feature_caveats, missing_caveats, versions_of
from storyframes_empathy.training.run_folder import (
    RunName,
)
from storyframes_empathy.training.settings import MODALITIES, ModelName, TrainSettings, misfit
from storyframes_empathy.training.splits import Splits, open_splits

TRAIN_VERSION = 1
"""Of the code that decides numbers; raised when the same settings would give other ones."""
MOMENTS, BANKS = ".moments", ".banks"
"""The folders in RUNS where moments, and prepared frames, are kept for all runs."""


class CannotTrainError(Exception):
    """The store has not what a run needs; nothing was begun."""


@dataclass(frozen=True)
class Prepared:
    """What a run is trained from.

    Attributes:
        feed: gives the batches.
        digests: of what was measured of training frames, as JSON has it, for the record of the run.
    """

    feed: Feed
    digests: Mapping[str, Any]


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
        personality: of the participants, where it is asked for.
    """

    name: RunName
    settings: TrainSettings
    store: FeatureStore
    splits: Splits
    parts: Mapping[str, Sequence[Part]]
    versions: Mapping[str, Mapping[str, str]]
    personality: Personality | None = None

    @property
    def decided(self) -> dict[str, Any]:
        """All that decides the numbers of the run, as JSON has it."""
        settings = self.settings.deciding(self.name.modalities)
        unused = {name.value for name in ModelName} - {self.name.model}
        unused |= set(MODALITIES) - set(self.name.modalities)  # which clips they leave is in the digest below
        return {
            "code": TRAIN_VERSION,
            "model": self.name.model.value,
            "modalities": "+".join(self.name.modalities),
            "phase": self.name.phase,
            "seed": self.name.seed,
            "settings": {key: value for key, value in settings.items() if key not in unused},
            **({"reflection_story": "chosen"} if self.settings.only_chosen(self.name.phase) else {}),
            "features": {feature: _digest(versions) for feature, versions in self.versions.items()},
            "clips": self.splits.digest,
            **({"personality": self.personality.digest} if self.personality else {}),
        }

    @property
    def variant(self) -> str:
        """What makes the model another one than that of its name; tables show it."""
        count = self.settings.components(self.name.modalities)
        return ", ".join([*([f"pca {count}"] if count else []), *(["personality"] if self.personality else [])])

    @property
    def caveats(self) -> tuple[str, ...]:
        """What users of its numbers must know."""
        of_personality = self.personality.caveats if self.personality else ()
        return (
            *feature_caveats(self.store, self.versions),
            *clip_caveats(self.settings, self.name.phase),
            *missing_caveats(self.splits, self.name.model),
            *of_personality,
        )

    @property
    def fingerprint(self) -> str:
        return _digest(self.decided)

    def make(self) -> nn.Module:
        """The model, with new weights."""
        out = 1 if self.splits.stories is None else self.splits.stories.vectors.shape[1]
        first = self.parts[self.name.modalities[0]][0]  # all have as many steps
        steps = self.splits.training.fields[first.mask].shape[0]
        widths = {name: sum(part.width for part in parts) for name, parts in self.parts.items()}
        if count := self.settings.components(self.name.modalities):
            widths["v"] = count
        traits = len(self.personality.scales) if self.personality else 0
        return build(self.name.model, widths, out, self.settings, steps, traits)

    def check_precision(self) -> None:
        """Refuse a model whose LSTMs oneDNN cannot compute in this precision on this processor.

        Raises:
            CannotTrainError: with the processor's name and what to set.
        """
        settings = self.settings
        if torch.device(settings.device).type != "cpu" or not settings.uses_onednn:
            return
        with torch.random.fork_rng(devices=[]):  # weights are drawn and thrown away
            if not any(isinstance(part, Lstm) for part in self.make().modules()):
                return
            try:
                with autocast(settings):
                    Lstm(1, 1)(torch.zeros(1, 1, 1))
            except RuntimeError as error:
                raise CannotTrainError(
                    f'precision = "{settings.precision}": oneDNN cannot compute an LSTM in it on this processor '
                    f'({_processor()}); set precision = "float32", or onednn = "off" to compute it without oneDNN'
                ) from error

    def prepared(self, runs: Path) -> Prepared:
        """Where batches come from; what is measured for it is kept in ``runs``, for all runs.

        Raises:
            CannotTrainError: v does not vary in so many directions.
        """
        settings = self.settings
        moments = self._moments(runs / MOMENTS)
        digests: dict[str, Any] = {"moments": {name: each.digest for name, each in moments.items()}}
        onto = {}
        if settings.components(self.name.modalities):
            projection = self._projection(moments, runs / MOMENTS)
            onto["v"] = projection.components
            digests["pca"] = {"components": projection.digest, "explained": projection.explained}
        feed = self._feed(moments, onto, digests, runs / BANKS)
        if self.personality is not None:
            feed = WithPersonality(feed, self.personality, settings.device)
        return Prepared(feed, digests)

    def _feed(
        self, moments: Mapping[str, Moments], onto: Mapping[str, np.ndarray], digests: Mapping[str, Any], banks: Path
    ) -> Feed:
        settings = self.settings
        if settings.bank == "none":
            return Loaded(Preparation(self.parts, moments, settings.device, onto), settings.device)
        inputs = [part.deciding() for name in self.parts for part in settings.parts(name)]
        key = {"inputs": inputs, "modalities": list(self.parts), "versions": self.versions, **digests}
        datasets = list(self.splits.scored.values())
        preparation = Preparation(self.parts, moments, onto=onto)
        return open_bank(banks, key, datasets, preparation, settings.bank, settings.device)

    def _projection(self, moments: Mapping[str, Moments], folder: Path) -> Projection:
        """Of v, fitted on training frames."""
        training, count = self.splits.scored["train"], self.settings.components(self.name.modalities)
        own = {"v": self.parts["v"]}
        key = {
            "pca": count,
            "inputs": [part.deciding() for part in self.settings.parts("v")],
            "moments": {part.name: moments[part.name].digest for part in own["v"]},
            "versions": self.versions,
            "frames": self._frames,
        }

        def fit() -> Projection:
            inputs = self.settings.clip_inputs(("v",))
            dataset = ClipDataset(self.store, inputs, _these_clips(training), split=training.split_spec)
            return fit_projection(dataset, Preparation(own, moments), "v", count)

        try:
            return remembered_projection(folder, key, fit)
        except ValueError as error:
            raise CannotTrainError(str(error)) from error

    @property
    def _frames(self) -> str:
        """The digest of the windows that are trained with."""
        windows = self.splits.scored["train"].windows()[["session_id", "start_frame", "stop_frame"]]
        return hashlib.sha256(windows.to_csv(index=False).encode()).hexdigest()

    def _moments(self, folder: Path) -> dict[str, Moments]:
        """Of each part: out of ``folder``, where they are kept, or measured now."""
        training = self.splits.scored["train"]
        inputs = {part.input: part for name in self.name.modalities for part in self.settings.parts(name)}
        keys = {
            name: {
                "input": part.deciding(),
                "versions": {
                    feature: self.versions[feature] for feature in needed_features(part.clip_input(), self.store)
                },
                "frames": self._frames,
            }
            for name, part in inputs.items()
        }
        parts = {part.name: part for own in self.parts.values() for part in own}

        def taking(part: Part) -> Rows:
            return lambda batch: rows_of(batch, part)

        def measured(names: Sequence[str]) -> dict[str, Moments]:
            own = [inputs[name].clip_input(self.settings.lack) for name in names]
            dataset = ClipDataset(self.store, own, _these_clips(training), split=training.split_spec)
            return measure(dataset, {name: taking(parts[name]) for name in names})

        return remembered(folder, keys, measured)


def _processor() -> str:
    """Its name."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


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
    personality = None
    if settings.personality is not None:
        people = {split: set(dataset.clips["participant_id"]) for split, dataset in splits.scored.items()}
        personality = read_personality(settings.personality, people["train"], set().union(*people.values()))
    versions = versions_of(store, splits.scored, name.modalities, settings, stories=splits.stories is not None)
    parts = open_parts(splits.training, settings, name.modalities)
    _check_width(parts, settings)
    _check_steps(name.model, parts, splits.training, settings)
    return OpenRun(name, settings, store, splits, parts, versions, personality)


def _check_width(parts: Mapping[str, Sequence[Part]], settings: TrainSettings) -> None:
    if not (count := settings.components(list(parts))):
        return
    width = sum(part.width for part in parts["v"])
    if count > width:
        raise ValueError(f"pca = {count}, and v has {width} columns: give it at most {width}")


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


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _these_clips(dataset: ClipDataset) -> pc.Expression:
    return pc.field("clip_id").isin(dataset.clips["clip_id"].tolist())
