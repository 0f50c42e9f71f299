"""How long a whole study will take and how much disk it needs, from rates measured on a recording of each track."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from storyframes.features import CLOCK
from storyframes.spec import MAIN, feature_and_track, of_track
from tasks.extractors.base import Extractor, Input
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.media.container import RecordingError, StreamChoice
from tasks.media.video_header import estimated_frames, has_sound
from tasks.planning.rates import Rate, measure_rates
from tasks.planning.sample import SampleError
from tasks.planning.selection import (
    Selection,
    possible_extractors,
    selected_extractors,
    selected_tracks,
    track_extractors,
)
from tasks.planning.sources import track_length_s, unusable_files
from tasks.study.load import Study, StudyFileError
from tasks.study.rows import Track

_EVERYTHING = Selection()
_TASK_S = 0.2  # of a processor: what Prefect and Dask take for each task


@dataclass(frozen=True)
class Recording:
    """One track of a session."""

    track: str
    length_s: float  # how long it is; 0 where that is not known, which counts as the mean of all others
    features: frozenset[str]  # that can be made of it, as they are called in the store
    frames: float = 0.0  # how many; 0 where that is not known, which counts as the mean rate of all others
    is_decoded: bool = True  # False of a region whose video is decoded for another track of the session
    has_regions: bool = False  # other tracks of the session are regions of its picture

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

    sessions: int
    tracks: int  # how many there are besides the sessions' own files
    recorded_s: float  # length of all recordings, those of tracks as well
    workers: int  # processors that extract
    wall_s: float  # from the first task to the last, with nothing else running
    cpu_s: float  # processor-seconds of all work
    bytes: int  # of the feature store
    features: tuple[FeatureForecast, ...]


def forecast(rates: Sequence[Rate], recordings: Sequence[Recording], workers: int) -> Forecast:
    """What the rates come to for these recordings on so many processors."""
    lengths_s = [recording.length_s for recording in recordings if recording.length_s > 0]
    mean = sum(lengths_s) / len(lengths_s) if lengths_s else 0.0
    with_rate = [recording for recording in recordings if recording.frames and recording.length_s]
    fps = (
        sum(recording.frames for recording in with_rate) / sum(recording.length_s for recording in with_rate)
        if with_rate
        else 0.0
    )
    recordings = [replace(recording, length_s=recording.length_s or mean) for recording in recordings]
    recordings = [
        replace(recording, frames=recording.frames or fps * recording.length_s * recording.has_frames)
        for recording in recordings
    ]
    units: list[float] = []
    cpu_s, stored = (dict.fromkeys([rate.feature for rate in rates], 0.0) for _ in range(2))
    for recording in recordings:
        of_recording = [rate for rate in rates if rate.feature in recording.features]
        for rate in of_recording:
            stored[rate.feature] += rate.stored_bytes(recording.length_s, recording.frames)
        for together in _in_one_go([rate for rate in of_recording if not rate.reason], recording):
            seconds = {
                rate.feature: rate.seconds(
                    recording.length_s, is_decoded=recording.is_decoded and (rate is together[0] or not rate.is_of_pass)
                )
                for rate in together
            }
            for feature, its_s in seconds.items():
                cpu_s[feature] += its_s
            units.append(_TASK_S + sum(seconds.values()))
    features = tuple(
        FeatureForecast(rate.feature, 60 * rate.cpu_s, cpu_s[rate.feature], round(stored[rate.feature]), rate.reason)
        for rate in rates
    )
    pictures = sum(recording.has_frames for recording in recordings)
    if pictures < workers:  # then a recording's network gets several processors (tasks/planning/units.py)
        share = workers // max(pictures, 1)
        units = [unit / share for unit in units for _ in range(share)]
    start_s = sum(rate.start_s for rate in rates)
    sessions = sum(recording.track == MAIN for recording in recordings)
    return Forecast(
        sessions=sessions,
        tracks=len(recordings) - sessions,
        recorded_s=sum(recording.length_s for recording in recordings),
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


def _in_one_go(rates: Sequence[Rate], recording: Recording) -> list[list[Rate]]:
    """The features of a recording, those together that one pass over its frames makes (tasks/planning/units.py).

    The pass makes the clock as well where nothing else waits for the clock.
    """
    passes: dict[tuple[str, ...], list[Rate]] = {}
    others = []
    for rate in rates:
        if rate.is_of_pass:
            passes.setdefault(rate.after, []).append(rate)
        else:
            others.append(rate)
    clock = next((rate for rate in others if feature_and_track(rate.feature)[0] == CLOCK), None)
    with_clock = passes.get((CLOCK,), [])
    if clock and with_clock and not recording.has_regions and recording.is_decoded:
        made = {feature_and_track(rate.feature)[0] for rate in with_clock}
        waiting = [rate for rate in rates if CLOCK in rate.after and rate not in with_clock]
        if not any(rate.needs_clock for rate in with_clock) and all(made & {*rate.after} for rate in waiting):
            others.remove(clock)
            with_clock.insert(0, clock)
    return [*([rate] for rate in others), *passes.values()]


@dataclass(frozen=True)
class MeasuredStudy:
    """A study, measured."""

    rates: list[Rate]  # of each feature, of the sessions' own files first
    recordings: list[Recording]  # of every track of every session


@dataclass(frozen=True)
class _Candidate:
    """A track of a session: the features that are asked for, and the files of it that cannot be used."""

    session_id: str
    features: tuple[str, ...]
    unusable: tuple[str, ...]
    recording: Recording | None  # None where nothing can be made of it


def measure_study(
    study: Study,
    settings: ExtractorsSettings,
    seconds: float,
    progress: Callable[[str, int, int], None],
    fault: Callable[[str, str], None],
    selection: Selection = _EVERYTHING,
) -> MeasuredStudy:
    """Measure every track's features on a session whose files of it are all there: the first with the most inputs.

    A feature for which it has no input is measured on another session, which has.

    Args:
        study: a valid study with a session.
        seconds: of a recording's beginning that are measured.
        progress: called with (what is done, number, how many) before each recording's header and each measurement.
        fault: called with whose file cannot be used, and why.
        selection: what is asked for; features that others need are measured as well.

    Raises:
        SampleError: of the sessions' own files no sample can be measured. What cannot be measured of another track has
            a rate with the reason.
        SelectionError: a session, track or feature does not exist.
        StudyFileError: a file of the session that is measured cannot be used.
    """
    selection.check(study, settings)
    if selection.only is not None:
        settings = settings.model_copy(update={"features": selection.only})
    by_track: dict[str, list[_Candidate]] = {}
    for track, candidate in _candidates(study, settings, selection, progress, fault):
        by_track.setdefault(track, []).append(candidate)
    rates = []
    for track, candidates in by_track.items():
        names = dict.fromkeys(of_track(feature, track) for candidate in candidates for feature in candidate.features)
        whole = [candidate for candidate in candidates if candidate.recording and not candidate.unusable]
        reason = "no session has all its files of this track"
        if track == MAIN and not whole:
            raise SampleError("no session has all its files: there is nothing to measure on")
        measured: dict[str, Rate] = {}
        reasons: dict[str, str] = {}
        while whole:
            best = max(
                whole, key=lambda candidate: len(_features(candidate) - measured.keys())
            )  # of equal ones the first
            lacking = _features(best) - measured.keys()
            if measured and not lacking:
                break
            of_these = settings.model_copy(update={"features": tuple(feature_and_track(name)[0] for name in lacking)})
            try:
                found = measure_rates(
                    study, best.session_id, of_these if measured else settings, seconds, progress, track
                )
            except (SampleError, StudyFileError) as error:
                if track == MAIN:
                    raise
                reason = str(error)
                break
            reason = f"not of the track as {best.session_id} has it, on which it was measured"
            reasons |= {rate.feature: rate.reason for rate in found}  # of what this session has no input for as well
            measured |= {rate.feature: rate for rate in found if not rate.reason or rate.feature in lacking}
            whole.remove(best)
        rates += [measured.get(name, Rate(name, reason=reasons.get(name, reason))) for name in names]
    recordings = [
        candidate.recording for candidates in by_track.values() for candidate in candidates if candidate.recording
    ]
    return MeasuredStudy(rates, recordings)


def _features(candidate: _Candidate) -> frozenset[str]:
    return candidate.recording.features if candidate.recording else frozenset()


def _candidates(
    study: Study,
    settings: ExtractorsSettings,
    selection: Selection,
    progress: Callable[[str, int, int], None],
    fault: Callable[[str, str], None],
) -> Iterator[tuple[str, _Candidate]]:
    extractors = selected_extractors(build_extractors(settings, ""), settings.features)
    session_ids = [session for session in selection.session_ids or study.sessions if session in study.sessions]
    for number, session_id in enumerate(session_ids, start=1):
        progress(f"the header of {session_id}", number, len(session_ids))
        decoded: set[str] = set()  # the videos that an earlier track of the session pays for
        for track in selected_tracks(study, session_id, selection):
            of_track_ = track_extractors(extractors, study, session_id, track, selection)
            if not of_track_:
                continue
            unusable = unusable_files(study, session_id, track, of_track_.values())
            for reason in unusable.values():
                fault(session_id if track == MAIN else f"{session_id}, track {track}", reason)
            files = study.tracks[session_id][track]
            recording = _recording(study, files, extractors, unusable, settings.recording.streams)
            if recording and recording.has_frames:
                tracks = study.tracks[session_id].values()
                recording = replace(
                    recording,
                    is_decoded=(files.of or track) not in decoded,
                    has_regions=any(each.of == track for each in tracks),
                )
                decoded.add(files.of or track)
            yield track, _Candidate(session_id, tuple(of_track_), tuple(unusable), recording)


def _recording(
    study: Study,
    track: Track,
    extractors: dict[str, Extractor[Any]],
    unusable: Container[str],
    streams: StreamChoice,
) -> Recording | None:
    """The recording of a track by its header, with the features for which it has the inputs."""
    if (Input.VIDEO if track.video else Input.AUDIO) in unusable:
        return None
    possible = possible_extractors(extractors, track)
    length_s = frames = 0.0
    try:
        length_s = track_length_s(study, track, streams)
        if track.video:
            path = study.path(track.video)
            frames = estimated_frames(path, length_s, streams)
            if not track.audio and not has_sound(path):
                possible = {
                    name: extractor for name, extractor in possible.items() if Input.AUDIO not in extractor.inputs
                }
    except (StudyFileError, RecordingError):
        pass  # its extraction says what is wrong
    return Recording(track.name, length_s, frozenset(of_track(name, track.name) for name in possible), frames)
