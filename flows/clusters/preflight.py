"""Checks, before any work is given to a cluster, that its workers can do it; a machine's fault is said once."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import storyframes
from flows.clusters.connection import Connection
from flows.clusters.needs import ClusterError
from tasks.extractors.base import Scope
from tasks.extractors.registry import ExtractorsSettings, broken, build_extractor, registered
from tasks.extractors.required_tools import missing_tools

if TYPE_CHECKING:
    from distributed import Worker

    from tasks.extract import Work


@dataclass(frozen=True)
class Expectations:
    """What every worker must have.

    Attributes:
        version: of storyframes.
        python: major and minor version: tasks travel pickled.
        inputs: some files of the study; they stand for all, which lie beside them.
        store: the feature store's location; a folder has to be there and writable.
        api: the Prefect server's URL.
        settings: of the extractors.
        features: what they are to extract; the programs that they run have to be there.
    """

    version: str
    python: str
    inputs: tuple[Path, ...]
    store: str
    api: str
    settings: ExtractorsSettings
    features: tuple[str, ...]


def check_workers(connection: Connection, work: Sequence[Work]) -> None:
    """Ask every worker that is there whether it sees what it needs.

    Workers that join later are not asked: what is wrong with them shows in the outcomes.

    Raises:
        ClusterError: with every problem and the machines that have it.
    """
    from prefect.settings import PREFECT_API_URL

    expected = Expectations(
        version=storyframes.__version__,
        python=python_version(),
        inputs=tuple(_examples(work)),
        store=work[0].store,
        api=PREFECT_API_URL.value() or "",
        settings=work[0].settings,
        features=tuple(sorted({feature for unit in work for feature in unit.features})),
    )
    with connection.client() as client:
        # First and in words alone: what a worker without the plug-in is sent of it cannot be read there.
        refuse(client.run(lacking_plug_ins, _plug_ins(expected.features), on_error="return"))
        refuse(client.run(problems_here, expected, on_error="return"))


def refuse(answers: Mapping[str, object]) -> None:
    """Raise what the workers answered, each problem once, with the workers that have it."""
    problems: dict[str, list[str]] = {}
    for worker, answer in sorted(answers.items()):
        for problem in answer if isinstance(answer, list) else [f"it cannot be asked: {type(answer).__name__}"]:
            problems.setdefault(problem, []).append(worker)
    if problems:
        lines = [f"  {problem} ({_shown(workers)})" for problem, workers in problems.items()]
        raise ClusterError("\n".join(["this cluster's workers cannot do the work:", *lines]))


def _plug_ins(features: Iterable[str]) -> dict[str, str]:
    """By feature that comes from a plug-in, its distribution and version."""
    classes = {**registered(Scope.STORIES), **registered()}
    named = {feature: classes[feature].distribution for feature in features if feature in classes}
    return {feature: distribution for feature, distribution in named.items() if distribution}


def lacking_plug_ins(expected: Mapping[str, str]) -> list[str]:
    """The plug-ins that this process has not, or in another version, or that cannot be used here.

    Args:
        expected: by feature, the distribution and version that the flow has.
    """
    here = _plug_ins({*registered(), *registered(Scope.STORIES)})
    found = []
    for feature, distribution in expected.items():
        if feature in here:
            if here[feature] != distribution:
                found.append(f"it has {here[feature]}, the flow has {distribution}: install that there ({feature})")
            continue
        why = [f": {why}" for name, why in broken().items() if name.startswith(f"{distribution}:")]
        missing = f"the plug-in {distribution} cannot be used" if why else f"it lacks the plug-in {distribution}"
        found.append(f"{missing}{''.join(why) or ': install it there'} ({feature})")
    return found


def problems_here(expected: Expectations, dask_worker: Worker | None = None) -> list[str]:
    """What this process lacks; Dask says which of its workers it is."""
    found = differences_here(expected.version, expected.python)
    found += [
        f"it cannot read {path}: mount the study under the same path"
        for path in expected.inputs
        if not os.access(path, os.R_OK)
    ]
    if "://" not in expected.store and not os.access(expected.store, os.W_OK):
        found.append(f"it cannot write to {expected.store}: mount the feature store under the same path")
    found += unreachable_from_here(expected.api)
    return found + missing_tools(expected.settings, _features_of(expected, dask_worker))


def differences_here(version: str, python: str) -> list[str]:
    """In what this process differs from one with these versions of storyframes and of Python."""
    found = []
    if storyframes.__version__ != version:
        found.append(f"it has storyframes {storyframes.__version__}, the flow has {version}")
    if python_version() != python:
        found.append(f"it has Python {python_version()}, the flow has {python}")
    return found


def unreachable_from_here(api: str) -> list[str]:
    """Whether this process does not reach the Prefect server at a URL; none is reached in any case."""
    if not api or _answers(api):
        return []
    return [f"it does not reach the Prefect server at {api}: set PREFECT_API_URL to one that it does"]


def _features_of(expected: Expectations, worker: Worker | None) -> list[str]:
    """The features that this worker may be given: one with a GPU alone needs no OpenFace."""
    resources = worker.state.total_resources if worker else {}

    def can(feature: str) -> bool:
        needs = build_extractor(expected.settings, "", feature).needs
        return all(resources.get(name, 0) >= amount for name, amount in needs.items())

    return [feature for feature in expected.features if worker is None or can(feature)]


def _examples(work: Iterable[Work]) -> list[Path]:
    """The files of the first session that has any."""
    return next(([file.path for file in unit.source.files.values()] for unit in work if unit.source.files), [])


def python_version() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def _answers(url: str) -> bool:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=10):
            return True
    except OSError:
        return False


def _shown(workers: list[str]) -> str:
    return workers[0] if len(workers) == 1 else f"{workers[0]} and {len(workers) - 1} more"
