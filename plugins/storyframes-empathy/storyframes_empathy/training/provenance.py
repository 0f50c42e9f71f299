"""The versions of features that numbers are made of, and their caveats."""

from __future__ import annotations

from collections.abc import Mapping

from storyframes import STORIES, ClipDataset, FeatureStore, percent
from storyframes.clips import needed_features
from storyframes_empathy.training.settings import ModelName, TrainSettings
from storyframes_empathy.training.splits import Splits

Versions = Mapping[str, Mapping[str, str]]
"""By feature and session; the stories' features are called ``stories/…``."""


def versions_of(
    store: FeatureStore,
    datasets: Mapping[str, ClipDataset],
    modalities: tuple[str, ...],
    settings: TrainSettings,
    *,
    stories: bool,
) -> dict[str, dict[str, str]]:
    """The versions of the features that clips are made of.

    An input that is standardised by the person is made of all sessions of the clips' people.

    Args:
        store: the features.
        datasets: the clips of each split.
        modalities: those that are used.
        settings: say which inputs they are.
        stories: whether the stories' vectors are used.
    """
    sessions = {session for dataset in datasets.values() for session in dataset.clips["session_id"]}
    read: dict[str, set[str]] = {}
    for clip_input in settings.clip_inputs(modalities):
        of_input = sessions | _of_people(store, datasets) if clip_input.standardise == "person" else sessions
        for feature in needed_features(clip_input, store):
            read[feature] = read.get(feature, set()) | of_input
    versions = {feature: _versions(store, feature, read[feature]) for feature in sorted(read)}
    if stories:
        versions[f"{STORIES}/sbert"] = _versions(store, "sbert", {STORIES})
    return versions


def _of_people(store: FeatureStore, datasets: Mapping[str, ClipDataset]) -> set[str]:
    """All sessions in the clip index of the people whose clips these are."""
    people = {person for dataset in datasets.values() for person in dataset.clips["participant_id"]}
    index = store.clips()
    return set(index.loc[index["participant_id"].isin(people), "session_id"])


def _versions(store: FeatureStore, feature: str, sessions: set[str]) -> dict[str, str]:
    table = store.catalogue
    rows = table[(table["feature"] == feature) & table["session_id"].isin(sessions) & table["version"].notna()]
    return dict(sorted(zip(rows["session_id"], rows["version"], strict=True)))


def feature_caveats(store: FeatureStore, versions: Versions) -> tuple[str, ...]:
    """What the features' own caveats are, as "resnet50: untrained weights"."""
    table = store.catalogue
    found = set()
    for name, sessions in versions.items():
        feature = name.removeprefix(f"{STORIES}/")
        rows = table[(table["feature"] == feature) & table["session_id"].isin(sessions)]
        found |= {f"{name}: {caveat}" for caveats in rows["stamps"] if caveats is not None for caveat in caveats}
    return tuple(sorted(found))


def missing_caveats(splits: Splits, model: ModelName) -> tuple[str, ...]:
    """Which inputs are masked, or read as zeros, in which share of the clips of each split."""
    what = "read as zeros" if model is ModelName.EF_LSTM else "masked"  # it has no mask: inputs are joined before it
    found: dict[str, list[str]] = {}
    for split, dataset in splits.scored.items():
        for name, share in dataset.missing.items():
            if share:
                found.setdefault(name, []).append(f"{percent(share)} of {split}")
    return tuple(f"{name} is {what} where a session lacks it: {', '.join(shares)}" for name, shares in found.items())


def clip_caveats(settings: TrainSettings, phase: str) -> tuple[str, ...]:
    """What the choice of clips does to numbers."""
    found = []
    if settings.only_chosen(phase):
        found.append("only clips of the story that the session reflected on (reflection_story = chosen)")
    if settings.oversampling == "paper":
        found.append("val and test were oversampled by the whole study's ratings (oversampling = paper)")
    return tuple(found)
