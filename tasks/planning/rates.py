"""Measuring what extraction costs on this machine, on the first seconds of one recording of the study itself."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storyframes.features import CLOCK
from storyframes.store.layout import create_store
from storyframes.store.records import Status
from storyframes.store.scratch import scratch_folder
from storyframes.store.shards import CHUNK_ROWS
from tasks.extract import Outcome, Work, extract
from tasks.extractors.base import InputFile, Source
from tasks.extractors.registry import ExtractorsSettings, build_extractor, build_extractors
from tasks.planning.cost import recording_s
from tasks.planning.sample import Sample
from tasks.planning.selection import selected_extractors
from tasks.planning.sources import named_files
from tasks.study.load import Session, Study
from tasks.tools.reaper import reaper


@dataclass(frozen=True)
class Rate:
    """What a feature costs and takes here.

    Attributes:
        feature: the feature.
        start_s: processor-seconds once per worker: imports, loading the model.
        task_s, cpu_s: processor-seconds of a session: so many, and so many for each second of its recording.
        task_bytes, bytes: on the disk: so many, and so many for each second.
        reason: why it could not be measured; everything is 0 then.
    """

    feature: str
    start_s: float = 0.0
    task_s: float = 0.0
    cpu_s: float = 0.0
    task_bytes: float = 0.0
    bytes: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class _Run:
    """One feature of one sample, extracted once."""

    outcome: Outcome
    cpu_s: float


def measure_rates(
    study: Study, session: Session, settings: ExtractorsSettings, seconds: float, progress: Callable[[str], None]
) -> list[Rate]:
    """What each feature costs here, from its first ``seconds`` and a quarter of them.

    The short sample is extracted twice, so that what is paid once per process shows; what the longer one costs more is
    the work itself. Files and values lie in a temporary folder, which is removed.

    Args:
        study: a valid study.
        session: whose recording is measured on.
        settings: of all extractors; what is missing is replaced by what costs the same, where there is such a thing.
        seconds: of the longer sample.
        progress: called with what is being measured.

    Raises:
        SampleError: no sample can be cut of the recording.
        StudyFileError: a file of the session cannot be used.
    """
    settings = settings.for_measuring().resolved()
    with scratch_folder("plan") as folder, reaper(folder):
        length_s = recording_s(Source("", {"video": as_named(study, session)})) or seconds
        long_s = min(seconds, length_s)
        short_s = long_s / 4
        runs = []
        for number, sample_s in enumerate((short_s, short_s, long_s)):
            here = folder / str(number)
            here.mkdir()
            runs.append(_extract_sample(study, session, settings, sample_s, length_s, here, progress))
    return [_rate(feature, [run[feature] for run in runs], short_s, long_s) for feature in runs[0]]


def as_named(study: Study, session: Session) -> InputFile:
    """The session's recording, unread: its digest is not needed.

    Raises:
        StudyFileError: it cannot be used.
    """
    path = study.path(session.video)
    status = path.stat()
    return InputFile(path, session.video, "", status.st_size, status.st_mtime_ns)


def _extract_sample(
    study: Study,
    session: Session,
    settings: ExtractorsSettings,
    seconds: float,
    of_s: float,
    folder: Path,
    progress: Callable[[str], None],
) -> dict[str, _Run]:
    extractors = selected_extractors(build_extractors(settings, session.session_id), settings.features)
    named = dict(named_files(session, extractors.values()))
    sample = Sample(folder, seconds, of_s)
    store = create_store(folder / "features").location
    files: dict[str, InputFile] = {}
    runs: dict[str, _Run] = {}
    for feature, extractor in extractors.items():
        frames = runs[CLOCK].outcome.rows if runs else 0  # the clock is the first
        for kind in named.keys() - files.keys():
            if kind in extractor.inputs:
                files[kind] = sample.cut(kind, study.path(named[kind]), frames)
        progress(f"{feature}, {seconds:.1f} s of {session.session_id}")
        runs[feature] = _measured(Work(store, Source(session.session_id, dict(files)), (feature,), settings))
    return runs


def _measured(work: Work) -> _Run:
    cpu, wall = _cpu_s(), time.monotonic()
    (outcome,) = extract(work)
    cpu, wall = _cpu_s() - cpu, time.monotonic() - wall
    cpus = max(build_extractor(work.settings, work.session_id, one).needs.get("CPU", 0) for one in work.features)
    # A tool in a container is nobody's child here, and keeps its processors for as long as it runs.
    return _Run(outcome, max(cpu, wall * cpus) if cpus > 1 else cpu)


def _cpu_s() -> float:
    """Of this process and of those it has started that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _rate(feature: str, runs: list[_Run], short_s: float, long_s: float) -> Rate:
    cold, warm, longer = runs
    if longer.outcome.status is not Status.DONE:
        return Rate(feature, reason=longer.outcome.reason)
    cpu_s = max(longer.cpu_s - warm.cpu_s, 0.0) / (long_s - short_s)
    size = _bytes_per_s(warm.outcome, longer.outcome, long_s)
    return Rate(
        feature,
        start_s=max(cold.cpu_s - warm.cpu_s, 0.0),
        task_s=max(warm.cpu_s - cpu_s * short_s, 0.0),
        cpu_s=cpu_s,
        task_bytes=max(warm.outcome.bytes - size * short_s, 0.0),
        bytes=size,
    )


def _bytes_per_s(short: Outcome, longer: Outcome, long_s: float) -> float:
    """The bytes of a row, and how many rows a second has; arrays are stored in whole chunks of rows."""
    padded = [-(-outcome.rows // CHUNK_ROWS) * CHUNK_ROWS for outcome in (short, longer)]
    if padded[0] == padded[1]:
        return longer.bytes / long_s
    return (longer.bytes - short.bytes) / (padded[1] - padded[0]) * longer.rows / long_s
