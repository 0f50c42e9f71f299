"""A small planted study, and short runs on it."""

from __future__ import annotations

from pathlib import Path

from storyframes.store.feature_store import FeatureStore
from support.planted_study import Planted, planted, settings
from tasks.empathy.run_folder import RunName
from tasks.empathy.settings import ModelName, TrainSettings

RESULTS = ("model.safetensors", "predictions.parquet")


def small(folder: Path) -> FeatureStore:
    """A store of eight participants, with four windows of a session and three stories each."""
    return planted(folder / "features", Planted(participants=8, sessions=1, windows=4))


def quick(**more: object) -> TrainSettings:
    """A few steps of a few clips: 5 epochs, whose rate changes after the second and fourth."""
    return settings(**{"epochs": 5, "batch_size": 16, "split_shares": (0.5, 0.25, 0.25), **more})


def name(model: str = "ef_lstm", seed: int = 0, modalities: tuple[str, ...] = ("v", "a")) -> RunName:
    return RunName("story_share", ModelName(model), modalities, seed)


def results(folder: Path) -> list[bytes]:
    """The weights and predictions of a run, to be compared."""
    return [(folder / each).read_bytes() for each in RESULTS]
