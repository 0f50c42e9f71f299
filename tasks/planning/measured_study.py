"""What there is to extract of a study, track by track, and what it costs here, measured on one recording of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from storyframes.tracks import MAIN, of_track
from tasks.extractors.base import Input
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.planning.forecast import Recording
from tasks.planning.rates import Rate, measure_rates
from tasks.planning.sample import SampleError
from tasks.planning.selection import Selection, selected_extractors, selected_tracks, track_extractors
from tasks.planning.sources import track_length_s, unusable_files
from tasks.study.load import Study, StudyFileError


@dataclass(frozen=True)
class MeasuredStudy:
    """A study, measured.

    Attributes:
        rates: of each feature, of the sessions' own files first.
        recordings: of every track of every session.
    """

    rates: list[Rate]
    recordings: list[Recording]


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
        settings: of all extractors.
        seconds: of each sample.
        progress: called with what is being measured.
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
