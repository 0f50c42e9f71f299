"""Which clips are trained with and which are scored: participants drawn into splits, and the two ways to oversample."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from storyframes import (
    STORIES,
    ClipDataset,
    ClipInput,
    ClipSampler,
    FeatureName,
    FeatureStore,
    OversamplingSampler,
    SplitSpec,
    UniformSampler,
)
from storyframes.clips import SPLITS, complete_clips, filter_clips, lacking_clips, parse_filter
from storyframes_empathy.training.labels import LabelScale, curve_labels, curve_range, hint, numbers, scale_of
from storyframes_empathy.training.paper_order import PaperOrderOversamplingSampler
from storyframes_empathy.training.settings import MODALITIES, TrainSettings


@dataclass(frozen=True)
class Stories:
    """The stories' vectors, E(S).

    Attributes:
        vectors: (stories, width) float32.
        rows: the row of each story.
    """

    vectors: np.ndarray
    rows: Mapping[str, int]

    def of(self, clips: pd.DataFrame) -> np.ndarray:
        """The row of each clip's story, (n,) int64."""
        return np.array([self.rows[story] for story in clips["story_id"]], np.int64)


@dataclass(frozen=True)
class Splits:
    """The clips of a run.

    Attributes:
        training: the dataset that ``sampler`` orders.
        sampler: the order of training.
        scored: the clips of each split that there is, each once.
        copies: of each clip of ``scored``, how often it counts.
        scale: what is learned of its label.
        label_of: by clip_id, the label as a number.
        stories: None where the label is about no story.
        dropped: clips of the phase that lack an input, a label or, where only chosen stories count, a chosen one.
    """

    training: ClipDataset
    sampler: ClipSampler
    scored: dict[str, ClipDataset]
    copies: dict[str, np.ndarray]
    scale: LabelScale
    label_of: Mapping[str, float]
    stories: Stories | None
    dropped: int

    def labels(self, clips: pd.DataFrame) -> np.ndarray:
        """The labels as numbers, (n,) float64."""
        return np.array([self.label_of[clip] for clip in clips["clip_id"]], np.float64)

    @property
    def digest(self) -> str:
        """SHA-256 of the clips, their splits, labels, stories and how often each counts."""
        told = hashlib.sha256()
        for split, dataset in self.scored.items():
            clips = dataset.clips
            columns = [clips["clip_id"], self.labels(clips), clips["story_id"].fillna(""), self.copies[split]]
            for row in zip(*columns, strict=True):
                told.update(repr((split, *map(str, row))).encode())
        return told.hexdigest()


def open_splits(
    store: FeatureStore, phase: str, modalities: tuple[str, ...], seed: int, settings: TrainSettings
) -> Splits:
    """The clips of a run.

    Args:
        store: the features.
        phase: of whose windows; one model is trained for each.
        modalities: those that the model is given.
        seed: draws the splits, unless the settings fix them, and the order.
        settings: what else is asked for.

    Raises:
        ValueError: there is no such phase or label, no clip has all inputs, or nothing is left to train with.
        StoreError: there is no clip index.
    """
    split = SplitSpec(seed if settings.split_seed is None else settings.split_seed, settings.split_shares)
    index = split.applied(store.clips())
    if FeatureName(settings.label).is_label_curve and settings.label in store.all_features:
        index = index.assign(**{settings.label: curve_labels(store, index, settings)})
        index.attrs["schemes"] = {**index.attrs.get("schemes", {}), settings.label: "interval"}
    _check(index, store, phase, settings)
    wanted = pc.field("phase") == phase
    if settings.where is not None:
        wanted &= parse_filter(settings.where, index.columns)
    clips = filter_clips(index, wanted)
    unsaid = 0
    if settings.only_chosen(phase):
        clips, unsaid = _of_chosen_stories(clips)
    labelled = clips[clips[settings.label].notna()].reset_index(drop=True)
    if not len(labelled):
        raise ValueError(f"no clip of the phase {phase!r} has a label {settings.label!r}")
    used = settings.clip_inputs(modalities)
    only_used = settings.keep_partial or settings.missing == "mask"
    needed = used if only_used else settings.clip_inputs(MODALITIES)
    needed = [*needed, ClipInput("story")] if settings.target == "story" else needed
    complete = _complete(labelled, store, needed, settings)
    if settings.missing == "mask":
        complete = with_some_input(complete, store, used)
    dropped = unsaid + len(clips) - len(complete)
    if settings.target == "none":  # a window is not another one for every story that it is rated for
        complete = complete.drop_duplicates(["session_id", "start_frame", settings.label])
    chosen = pc.field("clip_id").isin(complete["clip_id"].tolist())
    there = [name for name in SPLITS if (complete["split"] == name).any()]
    if "train" not in there:
        raise ValueError("no clip is left to train with: no participant of the split train has any")
    if settings.keep == "best" and "val" not in there:
        raise ValueError(
            "no participant of the split val has clips, so no epoch is the best one: give other split_shares, another "
            'split_seed, or keep = "last"'
        )
    if settings.score_cut == "val" and "val" not in there:
        raise ValueError('no participant of the split val has clips: score_cut = "val" has nothing to be chosen by')
    scored = {name: ClipDataset(store, used, chosen & (pc.field("split") == name), split=split) for name in there}
    counted = {name: np.ones(len(dataset), np.int64) for name, dataset in scored.items()}
    training = scored["train"]
    sampler: ClipSampler = UniformSampler(training, seed=seed)
    if settings.oversampling == "uniform":
        sampler = OversamplingSampler(training, by=settings.label, seed=seed)
    elif settings.oversampling == "paper":
        training = ClipDataset(store, used, chosen, split=split)
        orders = {name: PaperOrderOversamplingSampler(training, name, by=settings.label, seed=seed) for name in SPLITS}
        sampler = orders["train"]
        counted = {name: _copies(training, order, scored[name]) for name, order in orders.items()}
    if sampler.total < 2:
        raise ValueError("a single clip is left to train with: no model can be")
    said = curve_range(store, settings.label) if FeatureName(settings.label).is_label_curve else None
    scale = scale_of(index[settings.label], settings, said)
    labels = dict(zip(complete["clip_id"], numbers(complete[settings.label]).tolist(), strict=True))
    return Splits(training, sampler, scored, counted, scale, labels, _stories(store, settings), dropped)


def with_some_input(clips: pd.DataFrame, store: FeatureStore, inputs: Sequence[ClipInput]) -> pd.DataFrame:
    """The clips that have at least one of the inputs.

    Raises:
        ValueError: none has.
    """
    lacks_all = np.all([lacking_clips(clips, store, requested) for requested in inputs], axis=0)
    if lacks_all.all():
        raise ValueError(f"no clip has any of the inputs {', '.join(requested.field for requested in inputs)}")
    return clips[~lacks_all].reset_index(drop=True)


def _of_chosen_stories(clips: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """The clips of the story that each session reflected on, and how many are of sessions that do not say which."""
    if "reflected" not in clips:
        raise ValueError(
            'reflection_story = "chosen", and the clip index does not say which it is: give the table ratings a column '
            "reflected (true for one story of each session), and index the study again"
        )
    chosen = clips["reflected"].isin([True])
    if not chosen.any():
        raise ValueError('reflection_story = "chosen", and no rating of these sessions says reflected = true')
    unsaid = ~chosen.groupby(clips["session_id"]).transform("any")
    return clips[chosen].reset_index(drop=True), int(unsaid.sum())


def _check(index: pd.DataFrame, store: FeatureStore, phase: str, settings: TrainSettings) -> None:
    phases = sorted(index["phase"].unique())
    if phase not in phases:
        raise ValueError(f"there is no phase {phase!r} in the clip index; there are {', '.join(phases) or 'none'}")
    schemes = {name: kind for name, kind in index.attrs.get("schemes", {}).items() if name in index}
    numeric = [name for name, kind in schemes.items() if kind in ("ordinal", "interval")]
    if settings.label not in numeric:
        kind = f"is {schemes[settings.label]}" if settings.label in schemes else "is no scheme of the clip index"
        raise ValueError(
            f"the label {settings.label!r} {kind}: what is ordinal or interval can be learned "
            f"({', '.join(numeric) or 'none there'}){hint(store, settings.label)}"
        )
    if settings.oversampling != "none" and schemes[settings.label] != "ordinal":
        raise ValueError(
            f"the label {settings.label!r} is interval, of which nothing can come equally often: oversampling = "
            '"none", which the preset regression has'
        )


def _complete(
    clips: pd.DataFrame, store: FeatureStore, needed: list[ClipInput], settings: TrainSettings
) -> pd.DataFrame:
    if settings.target == "story" and clips["story_id"].isna().all():
        raise ValueError(
            f"no clip with a label {settings.label!r} is about a story: --preset regression learns labels without one"
        )
    try:
        return complete_clips(clips, store, needed, drop_missing=True)
    except ValueError as error:
        if settings.keep_partial:
            raise
        advice = (
            "clips need all of v, a and t, so that runs of one and another compare; --keep-partial takes the others"
        )
        raise ValueError(f"{error} ({advice})") from None


def _copies(everything: ClipDataset, order: ClipSampler, scored: ClipDataset) -> np.ndarray:
    """How often each clip of ``scored`` is in an order of the clips of all splits."""
    times = pd.Series(everything.clips["clip_id"].to_numpy()[list(order)]).value_counts()
    return times.reindex(scored.clips["clip_id"], fill_value=0).to_numpy(np.int64)


def _stories(store: FeatureStore, settings: TrainSettings) -> Stories | None:
    if settings.target == "none":
        return None
    rows = {story: row for row, story in enumerate(store.story_ids("sbert"))}
    return Stories(store.read(STORIES, "sbert"), rows)
