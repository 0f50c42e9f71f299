"""Checks, before any unit is given to a cluster, that its workers can extract it; each fault is reported once."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from distributed import Worker

from flows.clusters.admission import admit_workers
from flows.clusters.connection import Connection
from flows.clusters.installation import VALUES_DEPEND_ON, Installation
from storyframes.store.layout import RunMark, leave_mark
from storyframes.store.storage import StorageError
from tasks.extract import ExtractionUnit
from tasks.extractors.availability import missing_tools
from tasks.extractors.base import Scope
from tasks.extractors.registry import ExtractorsSettings, broken, build_extractor, registered
from tasks.planning.units import price_of
from tasks.study.study_identity import digest_of_ends


@dataclass(frozen=True)
class Expectations:
    """What every worker must have."""

    installation: Installation  # of the flow
    # some files of the study and the digests of their ends; they stand for all, which lie beside them
    inputs: Mapping[Path, str]
    mark: RunMark  # of the run, in the feature store; a folder has to be writable
    api: str  # the Prefect server's URL
    settings: ExtractorsSettings  # of the extractors
    features: tuple[str, ...]  # what they are to extract; the programs that they run have to be there


@contextmanager
def only_able_workers(
    connection: Connection, units: Sequence[ExtractionUnit], warn: Callable[[str], None]
) -> Iterator[None]:
    """Ask every worker whether it sees what it needs, now and while the block runs when it joins.

    Args:
        units: what the workers are going to do, of one run.
        warn: called with a line about a worker that joined later and lacks something; it takes no units.

    Raises:
        ClusterError: with every problem of the workers that are there, and the machines that have it.
        StorageError: the store cannot be written to.
    """
    from prefect.settings import PREFECT_API_URL

    of_tracks = [track for unit in units for track in unit.tracks]
    settings, features = units[0].settings, tuple(sorted({feature for unit in of_tracks for feature in unit.features}))
    libraries = {library for feature in features for library in build_extractor(settings, "", feature).libraries}
    with leave_mark(units[0].open_store()) as mark:
        expected = Expectations(
            installation=Installation.of_this_process({*VALUES_DEPEND_ON, *libraries}),
            inputs=_examples(units),
            mark=mark,
            api=PREFECT_API_URL.value() or "",
            settings=settings,
            features=features,
        )
        with admit_workers(connection, partial(_problems_of, _plug_ins(features), pickle.dumps(expected)), warn):
            yield


def _problems_of(plug_ins: Mapping[str, str], expected: bytes, worker: Worker) -> list[str]:
    """Why this worker cannot do the work: by what plug-ins it has first, without which the rest cannot be read."""
    return lacking_plug_ins(plug_ins) or problems_here(pickle.loads(expected), worker)  # noqa: S301 - the flow packed it


def _plug_ins(features: Iterable[str]) -> dict[str, str]:
    """By feature that comes from a plug-in, its distribution and version."""
    classes = {**registered(Scope.STORIES), **registered()}
    named = {feature: classes[feature].distribution for feature in features if feature in classes}
    return {feature: distribution for feature, distribution in named.items() if distribution}


def lacking_plug_ins(expected: Mapping[str, str]) -> list[str]:
    """Of the flow's plug-ins, by feature, those that are not here, in another version, or cannot be used."""
    here = _plug_ins({*registered(), *registered(Scope.STORIES)})
    lacking = []
    for feature, distribution in expected.items():
        if feature in here:
            if here[feature] != distribution:
                lacking.append(f"it has {here[feature]}, the flow has {distribution}: install that there ({feature})")
            continue
        why = [f": {why}" for name, why in broken().items() if name.startswith(f"{distribution}:")]
        missing = f"the plug-in {distribution} cannot be used" if why else f"it lacks the plug-in {distribution}"
        lacking.append(f"{missing}{''.join(why) or ': install it there'} ({feature})")
    return lacking


def problems_here(expected: Expectations, dask_worker: Worker | None = None) -> list[str]:
    """What this process lacks; Dask says which of its workers it is."""
    problems = expected.installation.differences_here()
    for path, digest in expected.inputs.items():
        try:
            if digest_of_ends(path) != digest:
                problems.append(f"it sees another file at {path}: mount the study there")
        except OSError:
            problems.append(f"it cannot read {path}: mount the study under the same path")
    problems += blind_to(expected.mark, "feature store")
    problems += unreachable_from_here(expected.api)
    return problems + missing_tools(expected.settings, _features_of(expected, dask_worker))


def blind_to(mark: RunMark, what: str) -> list[str]:
    """Whether this process does not see the place in which the run has left its mark, or cannot write there."""
    if "://" not in mark.location and not os.access(mark.location, os.W_OK):
        return [f"it cannot write to {mark.location}: mount the {what} under the same path"]
    try:
        if mark.is_seen():
            return []
    except StorageError as error:
        return [f"it cannot read the {what}: {error}"]
    kind, remedy = (
        ("place", f"give it the same endpoint and keys for the {what}")
        if "://" in mark.location
        else ("folder", f"mount the {what} there")
    )
    return [f"it sees another {kind} at {mark.location}: {remedy}"]


def unreachable_from_here(api: str) -> list[str]:
    """Whether this process does not reach the Prefect server at a URL; none is reached in any case."""
    if not api or _answers(api):
        return []
    return [f"it does not reach the Prefect server at {api}: set PREFECT_API_URL to one that it does"]


def _features_of(expected: Expectations, worker: Worker | None) -> list[str]:
    """The features that this worker may be given: one with a GPU alone needs no OpenFace."""
    resources = worker.state.total_resources if worker else {}

    def can(feature: str) -> bool:
        needs = price_of([feature], expected.settings).needs
        return all(resources.get(name, 0) >= amount for name, amount in needs.items())

    return [feature for feature in expected.features if worker is None or can(feature)]


def _examples(units: Sequence[ExtractionUnit]) -> dict[Path, str]:
    """The files of the first, the middle and the last session that have any, with the digests of their ends."""
    sources = [unit.source for unit in units if unit.source.files]
    chosen = {number: sources[number] for number in (0, len(sources) // 2, len(sources) - 1) if sources}
    examples = {}
    for path in sorted({file.path for source in chosen.values() for file in source.files.values()}):
        try:
            examples[path] = digest_of_ends(path)
        except OSError:  # gone since the planning: an outcome of its session says so
            continue
    return examples


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=10):
            return True
    except OSError:
        return False
