"""The grid of the benchmark: which runs there are, and training one of them wherever it is given to.

A run in a worker is a run of ``storyframes empathy train``: the same files, resumable in the same way. It never
raises: what went wrong is its outcome, so that its siblings go on.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from storyframes_empathy.training.run_folder import RunName, RunStatus, read_state
from storyframes_empathy.training.settings import ModelName, TrainSettings

PAPERS_MODALITIES = ("t", "v+a", "v+t", "a+t", "v+a+t")


@dataclass(frozen=True)
class TrainingUnit:
    """One run of the grid.

    Attributes:
        features: the feature store's location.
        run: which run.
        settings: how it is trained.
        runs: the folder of all runs.
        replace: whether one that something else decided may be taken the place of.
    """

    features: str
    run: RunName
    settings: TrainSettings
    runs: Path
    replace: bool = False

    @property
    def name(self) -> str:
        return str(self.run)

    @property
    def makes(self) -> tuple[RunName, ...]:
        return (self.run,)

    @property
    def awaits(self) -> tuple[RunName, ...]:
        return ()

    @property
    def needs(self) -> Mapping[str, float]:
        """What it takes of a worker."""
        return {"CPU": self.settings.threads} if self.settings.device == "cpu" else {"GPU": 1}

    @property
    def cost(self) -> float:
        """It takes minutes, so it is a task of its own."""
        return math.inf

    def do(self) -> tuple[TrainingOutcome, ...]:
        """See :func:`train_unit`."""
        return (train_unit(self),)

    def left_behind(self) -> None:
        """A run that is done may be the one that this was to take the place of, so what is there says nothing."""

    def apart(self) -> tuple[TrainingUnit]:
        """It has no parts."""
        return (self,)

    def lost(self, reason: str) -> tuple[TrainingOutcome, ...]:
        """Its outcome where its worker could not say it."""
        return (as_left(self, reason),)


@dataclass(frozen=True)
class TrainingOutcome:
    """What came of a run of the grid: small, and free of anything private.

    Attributes:
        run: which.
        status: done or failed.
        is_new: whether anything was trained now.
        reason: why it failed; empty otherwise.
        seconds: how long it took.
        transient: it failed for a reason that may pass.
        untrained: why there is no untrained baseline beside it; empty where there is one.
        fingerprint: of what decided it; empty where it is not done.
    """

    run: RunName
    status: RunStatus
    is_new: bool = False
    reason: str = ""
    seconds: float = 0.0
    transient: bool = False
    untrained: str = ""
    fingerprint: str = ""

    @property
    def failed(self) -> bool:
        return self.status is not RunStatus.DONE

    def __str__(self) -> str:
        """As a line of a log."""
        if self.failed:
            return f"{self.run}: failed: {self.reason}"
        lacking = f"; no untrained baseline: {self.untrained}" if self.untrained else ""
        return f"{self.run}: {f'trained in {self.seconds:.1f} s' if self.is_new else 'done before'}{lacking}"


def grid(
    phases: Sequence[str], models: Sequence[ModelName], modalities: Sequence[tuple[str, ...]], seeds: Sequence[int]
) -> list[RunName]:
    """All runs, those that a first table needs first: seed by seed."""
    return [
        RunName(phase, model, named, seed) for seed, phase, model, named in product(seeds, phases, models, modalities)
    ]


# PyTorch's generator and number of threads are the process's, and so are a run's: two at once would not be repeatable.
_alone = threading.Lock()


def train_unit(unit: TrainingUnit) -> TrainingOutcome:
    """Train a run of the grid, or go on with it, or find that it is done."""
    from storyframes import FeatureStore
    from storyframes.store import StorageError, StoreError
    from storyframes_empathy.scores.run_record import RunError
    from storyframes_empathy.training.opened import CannotTrainError
    from storyframes_empathy.training.runs import RunDiffersError, train_run
    from storyframes_empathy.training.train import CheckpointError

    began = time.monotonic()

    def failed(reason: str, *, transient: bool = False) -> TrainingOutcome:
        seconds = time.monotonic() - began
        return TrainingOutcome(unit.run, RunStatus.FAILED, True, reason, seconds, transient)

    with _alone:
        try:
            store = FeatureStore(unit.features)
            done = train_run(store, unit.run, unit.settings, unit.runs, _Nobody(), replace=unit.replace)
        except (CannotTrainError, RunDiffersError, CheckpointError, RunError, StoreError) as error:
            return failed(str(error))
        except StorageError as error:
            return failed(str(error), transient=True)
        except OSError as error:
            return failed(f"{error.filename or unit.runs}: {error.strerror or error}", transient=True)
        except Exception as error:  # a library's, say out of memory: its siblings go on
            return failed(f"{type(error).__name__}: {error}")
    seconds = time.monotonic() - began
    state = read_state(done.folder)
    fingerprint = state.fingerprint if state else ""
    return TrainingOutcome(unit.run, done.status, done.is_new, done.reason, seconds, False, done.untrained, fingerprint)


def as_left(unit: TrainingUnit, reason: str) -> TrainingOutcome:
    """The outcome of a run whose worker could not tell it: by what it left in its folder."""
    state = read_state(unit.run.folder(unit.runs))
    if state is not None and state.status is RunStatus.DONE:
        return TrainingOutcome(unit.run, RunStatus.DONE, True)
    return TrainingOutcome(unit.run, RunStatus.FAILED, True, reason)


def not_in_runs(runs: Path, outcomes: Sequence[TrainingOutcome]) -> dict[TrainingOutcome, str]:
    """The outcomes that are done by what a worker says and not by this process's view of the folder, and why not."""
    return {
        done: f"a worker says that it is done, but {runs} does not have it as this process sees it: is another folder "
        "mounted there on a worker? Train again"
        for done in outcomes
        if not done.failed and not _is_there(runs, done)
    }


def _is_there(runs: Path, done: TrainingOutcome) -> bool:
    try:
        state = read_state(done.run.folder(runs))
    except OSError:
        return False
    return state is not None and (state.status, state.fingerprint) == (RunStatus.DONE, done.fingerprint)


class _Nobody:
    """Watches nothing: a worker has no terminal."""

    def begins(self, epoch: int, epochs: int, steps: int) -> None: ...

    def step(self) -> None: ...

    def epoch(self, done: object) -> None: ...
