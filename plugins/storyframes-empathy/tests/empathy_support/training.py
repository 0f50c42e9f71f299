"""A small planted study, and short runs on it."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from empathy_support.planted_study import Nobody, Planted, planted, settings
from storyframes.store.feature_store import FeatureStore
from storyframes_empathy.training.run_folder import RunName
from storyframes_empathy.training.runs import train_run
from storyframes_empathy.training.settings import ModelName, TrainSettings

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


@dataclass
class Killed(Nobody):
    """Kills its process after so many steps."""

    after: int

    def step(self) -> None:
        self.after -= 1
        if self.after < 0:
            os.kill(os.getpid(), signal.SIGKILL)


def train_and_be_killed(
    store: FeatureStore, runs: Path, run: RunName, after: int, asked: TrainSettings | None = None
) -> None:
    """Train in another process that is killed after some steps."""
    child = os.fork()
    if not child:
        try:
            train_run(store, run, asked or quick(), runs, Killed(after))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
