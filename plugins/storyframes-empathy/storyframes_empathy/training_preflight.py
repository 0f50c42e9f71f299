"""Checks, before any training is given to a cluster, that its workers can do it; a machine's fault is said once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from flows.clusters.admission import admit_workers
from flows.clusters.connection import Connection
from flows.clusters.installation import Installation
from flows.clusters.preflight import blind_to, unreachable_from_here
from storyframes.store.layout import CLIPS, RunMark, leave_mark, open_storage
from storyframes.store.storage import StorageError

if TYPE_CHECKING:
    from distributed import Worker

_PACKAGES = ("torch", "safetensors", "scipy")
_VALUES_DEPEND_ON = ("torch", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class TrainingExpectations:
    """What every worker must have.

    Attributes:
        installation: of the flow.
        features: the feature store's location; it may be read-only.
        clips: SHA-256 of its clip index.
        mark: of the run, in the folder of runs, which has to be writable.
        api: the Prefect server's URL.
    """

    installation: Installation
    features: str
    clips: str
    mark: RunMark
    api: str


@contextmanager
def only_able_to_train(
    connection: Connection, features: str, runs: Path, warn: Callable[[str], None]
) -> Iterator[None]:
    """Ask every worker whether it sees what it needs, now and while the block runs when it joins.

    Args:
        connection: of the cluster.
        features: the feature store's location.
        runs: the folder of runs; made here where it is not there.
        warn: told, in a line, of a worker that joined later and cannot; it takes no work.

    Raises:
        ClusterError: with every problem of the workers that are there, and the machines that have it.
        StorageError: the folder of runs cannot be written to, or the feature store not be read.
    """
    from prefect.settings import PREFECT_API_URL

    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    with leave_mark(open_storage(runs)) as mark:
        expected = TrainingExpectations(
            installation=Installation.of_this_process(_VALUES_DEPEND_ON),
            features=features,
            clips=open_storage(features).digest(CLIPS),
            mark=mark,
            api=PREFECT_API_URL.value() or "",
        )
        with admit_workers(connection, partial(_problems_of, expected), warn):
            yield


def _problems_of(expected: TrainingExpectations, worker: Worker) -> list[str]:
    return training_problems_here(expected)


def training_problems_here(expected: TrainingExpectations) -> list[str]:
    """What this process lacks for training."""
    found = expected.installation.differences_here()
    lacking = [package for package in _PACKAGES if find_spec(package) is None]
    if lacking:
        found.append(f"it lacks {', '.join(lacking)}: pip install 'storyframes-empathy[train]' there")
    try:
        if open_storage(expected.features).digest(CLIPS) != expected.clips:
            found.append(
                f"it sees another clip index at {expected.features}: mount the same feature store there; where "
                "'storyframes index' wrote the index anew meanwhile, run again"
            )
    except (FileNotFoundError, StorageError):
        found.append(f"it cannot read {expected.features}: mount the feature store under the same path")
    return found + blind_to(expected.mark, "folder of runs") + unreachable_from_here(expected.api)
