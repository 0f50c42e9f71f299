"""Measuring what extraction costs on this machine, on the first seconds of one recording of the study itself."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from storyframes.features import CLOCK
from storyframes.spec import MAIN, Axis, FeatureSpec, feature_and_track, of_track
from storyframes.store.layout import create_store, current_path, open_storage
from storyframes.store.records import Current, Status, StoredArray
from storyframes.store.shards import ShardLayout
from storyframes.store.storage.scratch import scratch_folder
from tasks.extract import ExtractionUnit, Outcome, extract
from tasks.extractors.base import Extractor, Input, InputFile, Source
from tasks.extractors.frame_pass import FrameExtractor
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.planning.sample import Sample
from tasks.planning.selection import Selection, selected_extractors, track_extractors
from tasks.planning.sources import named_files, track_length_s, track_region
from tasks.planning.units import price_of
from tasks.study.load import Study
from tasks.study.rows import Track
from tasks.tools.tool_process import reaper

_SAMPLES = 3  # the short one twice, then the longer one


@dataclass(frozen=True)
class ArrayRate:
    """What an array takes on the disk, where rows lie in whole chunks; recordings differ in frame rate and length."""

    row_bytes: int
    chunk_rows: int
    per_second: float = 0.0  # rows for each second of the recording
    per_frame: float = 0.0  # rows for each of its frames

    @classmethod
    def of_sample(cls, stored: StoredArray, axis: Axis, length_s: float, frames: int) -> Self:
        """As measured on a sample of so many seconds and frames; a row stands for ``axis``."""
        rows, row_bytes = stored.shape[0], _layout(stored).row_bytes
        if frames and axis in (Axis.FRAME, Axis.FRAME_EDGE):
            return cls(row_bytes, stored.chunk_rows, per_frame=rows / frames)
        return cls(row_bytes, stored.chunk_rows, per_second=rows / length_s)

    def stored_bytes(self, length_s: float, frames: float) -> int:
        """The size of its file."""
        rows = round(self.per_second * length_s + self.per_frame * frames)
        return _file_bytes(StoredArray((rows, self.row_bytes), "uint8", self.chunk_rows))


def _layout(stored: StoredArray) -> ShardLayout:
    return ShardLayout(stored.shape, np.dtype(stored.dtype), stored.chunk_rows)


def _file_bytes(stored: StoredArray) -> int:
    return _layout(stored).file_bytes if stored.shape[0] else 0  # an array without rows has no file


@dataclass(frozen=True)
class Rate:
    """What a feature costs and takes here."""

    feature: str  # as it is called in the store: of another track than the session's own, ``<feature>@<track>``
    start_s: float = 0.0  # processor-seconds once per worker: imports, loading the model
    # task_s, cpu_s: processor-seconds of a session: so many, and so many for each second of its recording
    task_s: float = 0.0
    cpu_s: float = 0.0
    decoding_s: float = 0.0  # of ``cpu_s``, decoding: what the features of a pass, and a video's tracks, pay once
    after: tuple[str, ...] = ()  # the features that are extracted before it
    is_of_pass: bool = False  # it is made by a pass over the frames, together with those that begin after the same
    needs_clock: bool = False  # such a pass needs the published clock to begin
    task_bytes: float = 0.0  # of a session's files that hold no rows: metadata
    arrays: tuple[ArrayRate, ...] = ()
    reason: str = ""  # why it could not be measured; everything is 0 then

    def seconds(self, length_s: float, *, is_decoded: bool = True) -> float:
        """Processor-seconds of a recording; of one that is not ``is_decoded``, another track pays for the decoding."""
        return self.task_s + (self.cpu_s - (0.0 if is_decoded else self.decoding_s)) * length_s

    def stored_bytes(self, length_s: float, frames: float) -> float:
        """What a recording of so many seconds and frames takes on the disk."""
        return self.task_bytes + sum(array.stored_bytes(length_s, frames) for array in self.arrays)


@dataclass(frozen=True)
class _Run:
    """One feature of one sample, extracted once."""

    outcome: Outcome
    cpu_s: float
    array_bytes: int
    arrays: tuple[ArrayRate, ...]


def measure_rates(
    study: Study,
    session_id: str,
    settings: ExtractorsSettings,
    seconds: float,
    progress: Callable[[str, int, int], None],
    track: str = MAIN,
) -> list[Rate]:
    """What each feature costs here, from its first ``seconds`` and a quarter of them.

    The short sample is extracted twice, so that what is paid once per process shows; what the longer one costs more is
    the work itself. Files and values lie in a temporary folder, which is removed.

    Args:
        progress: called with (what is measured, number, how many) before each.
        settings: of all extractors; what is missing is replaced by what costs the same, where there is such a thing.

    Raises:
        SampleError: no sample can be cut of the recording.
        StudyFileError: a file of the session cannot be used.
    """
    settings = settings.for_measuring().resolved()
    files = study.tracks[session_id][track]
    with scratch_folder("plan") as folder, reaper(folder):
        length_s = track_length_s(study, files, settings.recording.streams) or seconds
        long_s = min(seconds, length_s)
        short_s = long_s / 4
        runs = []
        for number, sample_s in enumerate((short_s, short_s, long_s)):
            here = folder / str(number)
            here.mkdir()
            runs.append(
                _extract_sample(
                    study,
                    files,
                    settings,
                    Sample(here, sample_s, length_s, settings.recording.streams),
                    progress,
                    number,
                )
            )
    rates = [_rate(of_track(feature, track), [run[feature] for run in runs], short_s, long_s) for feature in runs[0]]
    # The clock is what decoding costs. A region's is its video's clock, and its pictures are of its video's pass.
    extractors = build_extractors(settings, session_id)
    decoding_s = next((rate.cpu_s for rate in rates if rate.feature == of_track(CLOCK, track)), 0.0)
    return [with_pass(rate, extractors[feature_and_track(rate.feature)[0]], decoding_s) for rate in rates]


def with_pass(rate: Rate, extractor: Extractor[Any], decoding_s: float) -> Rate:
    """The rate with how the feature shares the decoding of pictures with others."""
    if isinstance(extractor, FrameExtractor):
        rate = replace(rate, is_of_pass=True, needs_clock=extractor.needs_clock)
    decodes = rate.is_of_pass or extractor.name == CLOCK
    return replace(rate, after=extractor.after, decoding_s=min(decoding_s, rate.cpu_s) if decodes else 0.0)


def _extract_sample(
    study: Study,
    track: Track,
    settings: ExtractorsSettings,
    sample: Sample,
    progress: Callable[[str, int, int], None],
    number: int,
) -> dict[str, _Run]:
    session_id, name = track.session_id, track.name
    of_session = selected_extractors(build_extractors(settings, session_id), settings.features)
    extractors = track_extractors(of_session, study, session_id, name, Selection())
    named = dict(named_files(track, extractors.values()))
    store = create_store(sample.folder / "features").location
    files: dict[str, InputFile] = {}
    runs: dict[str, _Run] = {}
    spoken_s = sample.seconds
    for place, (feature, extractor) in enumerate(extractors.items(), start=1 + number * len(extractors)):
        frames = runs[CLOCK].outcome.rows if CLOCK in runs else 0  # the clock is the first
        for kind in named.keys() - files.keys():
            if kind in (*extractor.inputs, Input.REGION):
                files[kind], stands_for_s = sample.cut(kind, study.path(named[kind]), frames)
                spoken_s = stands_for_s if kind == Input.TRANSCRIPT else spoken_s
        whose = session_id if name == MAIN else f"{session_id}, track {name}"
        progress(f"{feature}, {sample.seconds:.1f} s of {whose}", place, _SAMPLES * len(extractors))
        source = Source(session_id, dict(files), track=name, frameless=track.video is None, region=track_region(track))
        unit = ExtractionUnit(store, source, (feature,), settings)
        lengths_s = {axis: spoken_s if axis in (Axis.WORD, Axis.UTTERANCE) else sample.seconds for axis in Axis}
        runs[feature] = _measured(unit, extractor.spec, lengths_s, frames)
    return runs


def _measured(unit: ExtractionUnit, spec: FeatureSpec, lengths_s: Mapping[Axis, float], frames: int) -> _Run:
    """Extract the unit; ``lengths_s`` are the seconds of a recording that have as many rows, by what a row is."""
    cpu, wall = _cpu_s(), time.monotonic()
    (outcome,) = extract(unit)
    cpu, wall = _cpu_s() - cpu, time.monotonic() - wall
    cpus = price_of(unit.features, unit.settings, unit.session_id).needs.get("CPU", 0)
    frames = outcome.rows if outcome.feature == of_track(CLOCK, unit.track) else frames
    path = current_path(outcome.session_id, outcome.feature)
    current = Current.parse(open_storage(unit.store).read(path), path)
    stored = current.arrays if current else {}
    axes = {name: array.axis for name, array in spec.arrays.items()}
    rates = tuple(
        ArrayRate.of_sample(array, axes[name], lengths_s[axes[name]], frames) for name, array in stored.items()
    )
    size = sum(map(_file_bytes, stored.values()))
    # A tool in a container is no child process here, and keeps its processors for as long as it runs.
    return _Run(outcome, max(cpu, wall * cpus) if cpus > 1 else cpu, size, rates)


def _cpu_s() -> float:
    """Of this process and of those it has started that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _rate(feature: str, runs: list[_Run], short_s: float, long_s: float) -> Rate:
    cold, warm, longer = runs
    if longer.outcome.status is not Status.DONE:
        return Rate(feature, reason=longer.outcome.reason)
    cpu_s = max(longer.cpu_s - warm.cpu_s, 0.0) / (long_s - short_s)
    return Rate(
        feature,
        start_s=max(cold.cpu_s - warm.cpu_s, 0.0),
        task_s=max(warm.cpu_s - cpu_s * short_s, 0.0),
        cpu_s=cpu_s,
        task_bytes=longer.outcome.bytes - longer.array_bytes,
        arrays=longer.arrays,
    )
