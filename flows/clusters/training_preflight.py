"""Checks, before any training is given to a cluster, that its workers can do it; a machine's fault is said once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import storyframes
from flows.clusters.connection import Connection
from flows.clusters.preflight import differences_here, python_version, refuse, unreachable_from_here

_PACKAGES = ("torch", "safetensors", "scipy")


@dataclass(frozen=True)
class TrainingExpectations:
    """What every worker must have.

    Attributes:
        version: of storyframes.
        python: major and minor version: tasks travel pickled.
        features: the feature store's location; a folder has to be there.
        runs: the folder of runs; it has to be there and writable.
        api: the Prefect server's URL.
    """

    version: str
    python: str
    features: str
    runs: Path
    api: str


def check_training_workers(connection: Connection, features: str, runs: Path) -> None:
    """Ask every worker that is there whether it sees what it needs; those that join later are not asked.

    Args:
        connection: of the cluster.
        features: the feature store's location.
        runs: the folder of runs; made here where it is not there.

    Raises:
        ClusterError: with every problem and the machines that have it.
    """
    from prefect.settings import PREFECT_API_URL

    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    api = PREFECT_API_URL.value() or ""
    expected = TrainingExpectations(storyframes.__version__, python_version(), features, runs, api)
    with connection.client() as client:
        refuse(client.run(training_problems_here, expected, on_error="return"))


def training_problems_here(expected: TrainingExpectations) -> list[str]:
    """What this process lacks for training."""
    found = differences_here(expected.version, expected.python)
    lacking = [package for package in _PACKAGES if find_spec(package) is None]
    if lacking:
        found.append(f"it lacks {', '.join(lacking)}: pip install 'storyframes[train]' there")
    if "://" not in expected.features and not os.access(expected.features, os.R_OK):
        found.append(f"it cannot read {expected.features}: mount the feature store under the same path")
    if not os.access(expected.runs, os.W_OK):
        found.append(f"it cannot write to {expected.runs}: mount the folder of runs under the same path")
    return found + unreachable_from_here(expected.api)
