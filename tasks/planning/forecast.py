"""How long a whole study will take and how much disk it needs, from rates measured on a recording of each track."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from storyframes.features import CLOCK
from storyframes.spec import MAIN, of_track
from tasks.extractors.base import Input
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.planning.rates import Rate, measure_rates
from tasks.planning.sample import SampleError
from tasks.planning.selection import Selection, selected_extractors, selected_tracks, track_extractors
from tasks.planning.sources import track_length_s, unusable_files
from tasks.study.load import Study, StudyFileError

_TASK_S = 0.2  # of a processor: what Prefect and Dask take for each task


@dataclass(frozen=True)
class Recording:
    """One track of a session."""

    track: str  # its name
    length_s: float  # how long it is; 0 where that is not known, which counts as the mean of all others
    features: frozenset[str]  # that can be made of it, as they are called in the store

    @property
    def has_frames(self) -> bool:
        return of_track(CLOCK, self.track) in self.features


@dataclass(frozen=True)
class FeatureForecast:
    """One feature of all sessions."""

    feature: str  # as it is called in the store: of another track than the sessions' own, ``<feature>@<track>``
    cpu_s_per_minute: float  # processor-seconds for a minute of recording
    cpu_s: float  # processor-seconds for all of them
    bytes: int  # on the disk
    reason: str = ""  # why it could not be measured, so that nothing of it is in the sums


@dataclass(frozen=True)
class Forecast:
    """A whole study."""

    sessions: int  # how many
    tracks: int  # how many there are besides the sessions' own files
    recorded_s: float  # length of all recordings, those of tracks as well
    workers: int  # processors that extract
    wall_s: float  # from the first task to the last, with nothing else running
    cpu_s: float  # processor-seconds of all work
    bytes: int  # of the feature store
    features: tuple[FeatureForecast, ...]  # one by one


def forecast(rates: Sequence[Rate], recordings: Sequence[Recording], workers: int) -> Forecast:
    """What the rates come to for these recordings on so many processors."""
    known = [one.length_s for one in recordings if one.length_s > 0]
    mean = sum(known) / len(known) if known else 0.0
    lengths = {
        rate.feature: [one.length_s or mean for one in recordings if rate.feature in one.features] for rate in rates
    }
    features = tuple(_of_feature(rate, lengths[rate.feature]) for rate in rates)
    units = [
        rate.task_s + _TASK_S + rate.cpu_s * length
        for rate in rates
        if not rate.reason
        for length in lengths[rate.feature]
    ]
    pictures = sum(one.has_frames for one in recordings)
    if pictures < workers:  # then a recording's network gets several processors (tasks/planning/units.py)
        share = workers // max(pictures, 1)
        units = [unit / share for unit in units for _ in range(share)]
    start_s = sum(rate.start_s for rate in rates)
    sessions = sum(one.track == MAIN for one in recordings)
    return Forecast(
        sessions=sessions,
        tracks=len(recordings) - sessions,
        recorded_s=sum(one.length_s or mean for one in recordings),
        workers=workers,
        wall_s=start_s + longest_worker(units, workers),
        cpu_s=sum(units) + start_s * min(workers, max(len(units), 1)),
        bytes=sum(feature.bytes for feature in features),
        features=features,
    )


def longest_worker(units: Iterable[float], workers: int) -> float:
    """When the last of ``workers`` ends that take the longest unit left whenever they are free."""
    busy = [0.0] * workers
    for unit in sorted(units, reverse=True):
        heapq.heappush(busy, heapq.heappop(busy) + unit)
    return max(busy)


def _of_feature(rate: Rate, lengths: Sequence[float]) -> FeatureForecast:
    return FeatureForecast(
        rate.feature,
        60 * rate.cpu_s,
        sum(rate.task_s + rate.cpu_s * length for length in lengths),
        round(sum(rate.task_bytes + rate.bytes * length for length in lengths)),
        rate.reason,
    )


@dataclass(frozen=True)
class MeasuredStudy:
    """A study, measured."""

    rates: list[Rate]  # of each feature, of the sessions' own files first
    recordings: list[Recording]  # of every track of every session


@dataclass(frozen=True)
class _Candidate:
    """A track of a session: what can be made of it, and the files of it that cannot be used."""

    session_id: str
    track: str
    features: tuple[str, ...]
    unusable: tuple[str, ...]


def measure_study(
    study: Study,
    settings: ExtractorsSettings,
    seconds: float,
    progress: Callable[[str], None],
    fault: Callable[[str, str], None],
) -> MeasuredStudy:
    """Measure every track's features on the first session whose files of it are all there.

    Args:
        study: a valid study with a session.
        fault: called with whose file cannot be used, and why.

    Raises:
        SampleError: of the sessions' own files no sample can be measured. What cannot be measured of another track has
            a rate with the reason.
        StudyFileError: a file of the session that is measured cannot be used.
    """
    by_track: dict[str, list[_Candidate]] = {}
    for one in _candidates(study, settings, fault):
        by_track.setdefault(one.track, []).append(one)
    rates = []
    for track, candidates in by_track.items():
        wanted = dict.fromkeys(feature for one in candidates for feature in one.features)
        whole = [one for one in candidates if not one.unusable]
        reason = "no session has all its files of this track"
        measured: list[Rate] = []
        if whole:
            best = max(whole, key=lambda one: len(one.features))  # of equal ones the first
            try:
                measured = measure_rates(study, best.session_id, settings, seconds, progress, track)
                reason = f"not of the track as {best.session_id} has it, on which it was measured"
            except (SampleError, StudyFileError) as error:
                if track == MAIN:
                    raise
                reason = str(error)
        elif track == MAIN:
            raise SampleError("no session has all its files: there is nothing to measure on")
        there = {rate.feature for rate in measured}
        absent = [of_track(feature, track) for feature in wanted if of_track(feature, track) not in there]
        rates += [*measured, *(Rate(name, reason=reason) for name in absent)]
    recordings = [recording for candidates in by_track.values() for recording in _recordings(study, candidates)]
    return MeasuredStudy(rates, recordings)


def _candidates(study: Study, settings: ExtractorsSettings, fault: Callable[[str, str], None]) -> Iterator[_Candidate]:
    extractors = selected_extractors(build_extractors(settings, ""), settings.features)
    for session_id in study.sessions:
        for track in selected_tracks(study, session_id, Selection()):
            of_it = track_extractors(extractors, study, session_id, track, Selection())
            if not of_it:
                continue
            unusable = unusable_files(study, session_id, track, of_it.values())
            for reason in unusable.values():
                fault(session_id if track == MAIN else f"{session_id}, track {track}", reason)
            yield _Candidate(session_id, track, tuple(of_it), tuple(unusable))


def _recordings(study: Study, candidates: list[_Candidate]) -> Iterator[Recording]:
    """The recordings of one track, but those of which nothing can be made."""
    for one in candidates:
        track = study.tracks[one.session_id][one.track]
        if (Input.VIDEO if track.video else Input.AUDIO) in one.unusable:
            continue
        try:
            length_s = track_length_s(study, track)
        except StudyFileError:
            length_s = 0.0
        yield Recording(one.track, length_s, frozenset(of_track(feature, one.track) for feature in one.features))
