"""The benchmark as a Prefect flow: a grid of training runs on a cluster, one task each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.states import State
from pydantic import BaseModel, ConfigDict, Field

from flows import ClusterWork, WorkerCheck, load_cluster, load_settings, work_on_cluster
from storyframes import FeatureStore
from storyframes.store import CLIPS, StorageError, StoreError, open_storage
from storyframes_empathy.training.grid import PAPERS_MODALITIES, TrainingOutcome, TrainingUnit, grid, not_in_runs
from storyframes_empathy.training.settings import (
    ModelName,
    TrainSettings,
    TrainSettingsError,
    load_train_settings,
    misfit,
    modalities_of,
)
from tasks.inspect import human_time, markdown_table

_PACKAGES = ("torch", "safetensors", "scipy")
_VALUES_DEPEND_ON = ("torch", "numpy", "scipy", "scikit-learn")


class BenchmarkRequest(BaseModel):
    """Which runs are to be there.

    Attributes:
        features: the feature store, where the workers see it under the same path.
        out: the folder of runs, likewise.
        phases: of the clip index; without them all that it has.
        models, modalities, seeds: the grid.
        config: the configuration's TOML file ([train], [cluster]).
        cluster: a cluster's YAML file or a Dask scheduler's address, in the place of the configuration's.
        replace: take the place of runs that other settings decided.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    features: str = Field(min_length=1, description="The feature store: a folder, or s3://bucket/prefix.")
    out: Path = Field(description="The folder of runs, the same for all workers.")
    phases: tuple[str, ...] = Field(default=(), description="Of the clip index; without any all that it has.")
    models: tuple[ModelName, ...] = Field(default=tuple(ModelName), description="Which models.")
    modalities: tuple[str, ...] = Field(default=PAPERS_MODALITIES, description="What each is given: v, a, t with +.")
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = Field(default=(0, 1, 2), description="A run for each.")
    config: Path | None = Field(default=None, description="The configuration's TOML file; without it the defaults.")
    cluster: str | None = Field(default=None, description="A cluster's YAML file, or tls://host:port.")
    replace: bool = Field(default=False, description="Replace runs made with other settings.")


@dataclass(frozen=True)
class BenchmarkResult:
    """What a benchmark did."""

    outcomes: tuple[TrainingOutcome, ...]
    seconds: float

    @property
    def failed(self) -> tuple[TrainingOutcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.failed)

    def __str__(self) -> str:
        trained = sum(outcome.is_new and not outcome.failed for outcome in self.outcomes)
        before = sum(not one.is_new for one in self.outcomes)
        return f"{trained} trained, {before} done before, {len(self.failed)} failed"


def prepare_benchmark(
    request: BenchmarkRequest, report: Callable[[TrainingOutcome | str], None] = lambda _: None
) -> ClusterWork[TrainingOutcome]:
    """The runs that are asked for; nothing is started.

    Raises:
        SettingsError, TrainSettingsError, ClusterSettingsError, StoreError, StorageError: it cannot be done.
    """
    train: TrainSettings = load_train_settings(request.config)
    cluster = load_cluster(request.cluster) if request.cluster else load_settings(request.config).cluster
    there = list(dict.fromkeys(FeatureStore(request.features).clips()["phase"]))
    if unknown := [phase for phase in request.phases if phase not in there]:
        raise StoreError(f"the clip index has no phase {unknown[0]!r}; it has {', '.join(map(str, there))}")
    names = grid(
        request.phases or tuple(there),
        request.models,
        [modalities_of(modality) for modality in request.modalities],
        request.seeds,
    )
    for name in names:
        if why := misfit(name.model, name.modalities, train):
            raise TrainSettingsError(f"{name}: {why}")
    if train.personality is not None:  # workers have other working directories
        study = str(Path(train.personality.study).absolute())
        train = train.model_copy(update={"personality": train.personality.model_copy(update={"study": study})})
    features = request.features if "://" in request.features else str(Path(request.features).absolute())
    runs = request.out.absolute()
    units = [TrainingUnit(features, name, train, runs, request.replace) for name in dict.fromkeys(names)]

    def result(outcomes: Sequence[TrainingOutcome], seconds: float) -> BenchmarkResult:
        result = BenchmarkResult(tuple(outcomes), seconds)
        _leave_artifacts(result)
        return result

    return ClusterWork(
        name="train",
        units=units,
        cluster=cluster,
        check=lambda: _what_workers_need(features, runs),
        doubts=lambda outcomes: not_in_runs(runs, outcomes),
        result=result,
        report=report,
        unit_name="run",
    )


@flow(name="train-benchmark", persist_result=False)
def train_benchmark(request: BenchmarkRequest) -> State:
    """Train every run of the grid that is not done.

    Returns:
        Completed; PartialSuccess where some runs failed; Failed where all did, or where what was asked for cannot be
        done. Its data is a :class:`BenchmarkResult`, or None.
    """
    return work_on_cluster(lambda: prepare_benchmark(request), TrainSettingsError)


@flow(name="train-benchmark", persist_result=False)
def go_on(request: BenchmarkRequest, run_id: str) -> State:
    """Go on with a benchmark that this process has prepared, see :func:`flows.cli.run_work`."""
    return work_on_cluster(run_id)


def _leave_artifacts(result: BenchmarkResult) -> None:
    """A summary and a table on the Prefect server: names of runs, how long they took, why they failed."""
    failed = [(str(one.run), one.reason) for one in result.failed]
    blocks = [
        "# Benchmark",
        f"{result}; it took {human_time(result.seconds)}.",
        *(["## Failed", markdown_table(("run", "why"), failed)] if failed else []),
    ]
    create_markdown_artifact("\n\n".join(blocks), key="summary", description=str(result))
    rows = [
        {
            "phase": outcome.run.phase,
            "model": outcome.run.model.value,
            "modalities": "+".join(outcome.run.modalities),
            "seed": outcome.run.seed,
            "status": "done before" if not outcome.is_new else str(outcome.status),
            "seconds": round(outcome.seconds, 1),
            "reason": outcome.reason,
        }
        for outcome in result.outcomes
    ]
    create_table_artifact(rows, key="training", description=str(result))


def _what_workers_need(features: str, runs: Path) -> WorkerCheck:
    """What every worker must have: the feature store, which it may see read-only, and the folder of runs."""
    lacks = partial(training_problems_here, features, open_storage(features).digest(CLIPS))
    return WorkerCheck(runs, "folder of runs", _VALUES_DEPEND_ON, "storyframes_empathy", lacks)


def training_problems_here(features: str, clips: str) -> list[str]:
    """What this process lacks for training with a feature store whose clip index has this digest."""
    found = []
    lacking = [package for package in _PACKAGES if find_spec(package) is None]
    if lacking:
        found.append(f"it lacks {', '.join(lacking)}: pip install 'storyframes-empathy[train]' there")
    try:
        if open_storage(features).digest(CLIPS) != clips:
            found.append(
                f"it sees another clip index at {features}: mount the same feature store there; where "
                "'storyframes index' wrote the index anew meanwhile, run again"
            )
    except (FileNotFoundError, StorageError):
        found.append(f"it cannot read {features}: mount the feature store under the same path")
    return found
