"""Files as extractors are given them: of a study's sessions, and of one recording by itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from storyframes.features import STORIES
from storyframes.label_curves import NEAREST, CurveRule
from storyframes.spec import MAIN, of_scheme
from storyframes.store.storage import reason_of
from storyframes.store.storage.files import sha256_file
from tasks.clip_index.label_rules import LabelRule, curves_by_column
from tasks.extractors.base import Extractor, Input, InputFile, MissingInputError, Source
from tasks.extractors.registry import ExtractorsSettings, build_extractor, build_extractors
from tasks.extractors.source import CurveFiles, Microphone, Microphones, Region
from tasks.media.container import (
    RecordingError,
    StreamChoice,
    check_joined_names,
    open_container,
    recording_digest,
    recording_files,
    recording_state,
    video_streams,
)
from tasks.models.digests import DigestCache
from tasks.planning.selection import Selection, selected_extractors, selected_tracks, track_extractors
from tasks.planning.units import recording_s
from tasks.study.labels import Scheme
from tasks.study.load import Session, Study, StudyFileError
from tasks.study.rows import PATH_COLUMNS, Track
from tasks.study.transcript import TranscriptError, read_transcript


@dataclass(frozen=True)
class CurvePaths:
    """The files of one curve of a session."""

    scheme: Scheme  # what its values are
    rule: CurveRule = NEAREST  # what they have between their moments
    paths: tuple[str, ...] = ()  # in the study, in the order of the raters


class StudySources:
    """The files of every session and track of a study, with the extractors that are asked for of them.

    Args:
        rules: by scheme, of which raters its curves are features.
        digests: SHA-256 of files that have not changed.
        may_download: whether an extractor may download the model that its fingerprint needs.
    """

    def __init__(
        self,
        study: Study,
        settings: ExtractorsSettings,
        selection: Selection,
        rules: Mapping[str, LabelRule],
        digests: DigestCache,
        *,
        may_download: bool = True,
    ) -> None:
        only = settings.features if selection.only is None else selection.only
        self._study = study
        self._settings = settings
        self._selection = selection
        self._digests = digests
        self._curves = curves_by_track(study, rules)
        self._of_sessions = selected_extractors(build_extractors(settings, "", may_download=may_download), only)
        self._of_stories = selected_extractors(build_extractors(settings, STORIES, may_download=may_download), only)

    def of_session(
        self, session_id: str, stored_curves: Callable[[str, str], Iterable[str]] = lambda *_: ()
    ) -> Iterator[tuple[Source, dict[str, Extractor[Any]]]]:
        """The files of each track that is asked for, and the extractors by feature, in the order in which they run.

        Args:
            stored_curves: by session and track, the curves of labels that the store has: the outcome of one that the
                study does not have any more says so.
        """
        of_session = self._of_stories if session_id == STORIES else self._of_sessions
        only = self._selection.only
        for track in selected_tracks(self._study, session_id, self._selection):
            extractors = dict(track_extractors(of_session, self._study, session_id, track, self._selection))
            curves = self._curves.get((session_id, track), {})
            for feature in (*curves, *sorted(set(stored_curves(session_id, track)) - curves.keys())):
                if only is None or feature in only:
                    extractors[feature] = build_extractor(self._settings, session_id, feature)
            source = session_source(self._study, session_id, extractors.values(), self._digests, track, curves)
            yield source, extractors


def curve_features(study: Study, rules: Mapping[str, LabelRule]) -> dict[str, Scheme]:
    """The features that the study's curves are, without the track in their names; private schemes are none."""
    return {
        of_scheme(column): study.schemes[name]
        for name in sorted({curve.scheme for curve in study.curves})
        if not study.schemes[name].private
        for column in curves_by_column(study, name, rules.get(name, LabelRule()))
    }


def curves_by_track(study: Study, rules: Mapping[str, LabelRule]) -> dict[tuple[str, str], dict[str, CurvePaths]]:
    """By session and the track whose times they are in, and by feature, the files of the study's curves."""
    by_track: dict[tuple[str, str], dict[str, CurvePaths]] = {}
    for name in sorted({curve.scheme for curve in study.curves}):
        scheme = study.schemes[name]
        if scheme.private:
            continue
        rule = rules.get(name, LabelRule())
        for column, curves in curves_by_column(study, name, rule).items():
            for curve in sorted(curves, key=lambda curve: curve.rater_id or ""):
                of_track = by_track.setdefault((curve.session_id, curve.track or MAIN), {})
                before = of_track.get(of_scheme(column), CurvePaths(scheme, rule.curve))
                of_track[of_scheme(column)] = replace(before, paths=(*before.paths, curve.path))
    return by_track


def session_source(
    study: Study,
    session_id: str,
    extractors: Iterable[Extractor[Any]],
    digests: DigestCache,
    track: str = MAIN,
    curves: Mapping[str, CurvePaths] = MappingProxyType({}),
) -> Source:
    """The files of a session (or of a track of it), or of the stories, that these extractors read; no other is opened.

    One that cannot be used costs the features that need it, and nothing else.
    """
    extractors = list(extractors)
    if session_id == STORIES:
        named = [(str(Input.STORIES), study.table_path("stories").name)]
    else:
        named = named_files(_files_of(study, session_id, track), extractors)
    features = {extractor.name for extractor in extractors}
    kinds = {
        feature: tuple((f"{feature}/{number}", path) for number, path in enumerate(curve.paths))
        for feature, curve in curves.items()
        if feature in features
    }
    named += [pair for pairs in kinds.values() for pair in pairs]
    microphones = None
    if any(Input.MICROPHONES in extractor.inputs for extractor in extractors) and session_id != STORIES:
        paths, microphones = session_microphones(study, session_id, track)
        if not any(Input.TURNS in extractor.inputs for extractor in extractors):
            paths.pop(Input.TURNS, None)
        named += paths.items()
    files, unusable = {}, {}
    for kind, relative in named:
        try:
            path = study.path(relative)
            files[kind] = input_file(path, PurePosixPath(relative).as_posix(), digests.sha256)
        except StudyFileError as error:
            unusable[kind] = str(error)
        except OSError as error:
            unusable[kind] = f"{relative}: cannot be read: {reason_of(error)}"
    frameless = session_id != STORIES and _files_of(study, session_id, track).video is None
    made_of = {
        name: CurveFiles(curves[name].scheme, tuple(kind for kind, _ in pairs), curves[name].rule)
        for name, pairs in kinds.items()
    }
    if microphones is not None:
        microphones = _sharing_copies(microphones, files)
    speakers = study.speakers.get(session_id, {})
    region = track_region(study.tracks[session_id][track]) if track != MAIN else None
    return Source(session_id, files, unusable, track, frameless, made_of, speakers, microphones, region)


def session_microphones(study: Study, session_id: str, track: str) -> tuple[dict[str, str], Microphones | None]:
    """By kind, the sound of a track's person and of the others, and which of them is what; None without any sound.

    With the transcript of the person's microphone, by which the voices of several people can be told apart.

    A person's microphone is a track of that person that names ``audio``, or else a video: before the session's own
    files, and before what other persons' tracks name as well. The session's own files are the participant's. A track
    that names nobody is somebody's of its own. The sound of a region is that of its whole picture.
    """
    tracks = dict(study.tracks[session_id])
    for name, region in study.tracks[session_id].items():
        if region.of is not None and not region.audio:
            tracks[name] = replace(region, audio=tracks[region.of].audio)
    participant = (session_id, study.sessions[session_id].participant_id)
    own = next((one.person_id for one in study.persons if (one.session_id, one.participant_id) == participant), None)
    owner = {name: of.person_id or (own if name == MAIN else None) or f"@{name}" for name, of in tracks.items()}

    devices = study.tracks[session_id]
    with_own = {owner[name] for name, device in devices.items() if device.of is None and _sound_path(device)}

    def is_shared(microphone: Track) -> bool:
        """Whether others have the sound, but not through a region whose person has another microphone."""
        path, sharing = _sound_path(microphone), set[str]()
        for name, of in tracks.items():
            is_picture_only = devices[name].of is not None and not devices[name].audio and owner[name] in with_own
            if _sound_path(of) == path and not is_picture_only:
                sharing.add(owner[name])
        return len(sharing) > 1

    def rank(microphone: Track) -> tuple[bool, bool, bool]:
        is_of_session = _sound_path(microphone) == _sound_path(tracks[MAIN])
        return not microphone.audio, is_of_session, is_shared(microphone)

    of_owner: dict[str, Track] = {}
    for microphone in sorted(filter(_sound_path, tracks.values()), key=rank):
        of_owner.setdefault(owner[microphone.name], microphone)
    heard = of_owner.pop(owner[track], None)
    if heard is None:
        return {}, None
    if tracks[track].audio and rank(tracks[track]) == rank(heard):
        heard = tracks[track]  # the track of another microphone of the same person
    paths = {_sound_path(mic): mic for mic in (heard, *of_owner.values(), heard)}  # of devices with one file the own
    kinds = {f"microphone/{number}": path for number, path in enumerate(paths)}
    microphones = [
        Microphone(kind, paths[path].audio is not None, study.clock(session_id, paths[path].name))
        for kind, path in kinds.items()
    ]
    clock, person = study.clock(session_id, track), tracks[track].person_id or (own if track == MAIN else None)
    devices_of_own = [device for name, device in devices.items() if _seconds_of(tracks[name]) == _seconds_of(heard)]
    if transcript := next((device.transcript for device in devices_of_own if device.transcript), None):
        kinds[Input.TURNS] = transcript
    others = tuple(microphones[1:])
    return kinds, Microphones(microphones[0], others, is_shared(heard), clock, person or "")


def _sharing_copies(microphones: Microphones, files: Mapping[str, InputFile]) -> Microphones:
    """The same, with the own one shared where the file of another person has the same content under another name."""
    own = files.get(microphones.own.kind)
    if own is None:
        return microphones
    copies = {kind for kind, file in files.items() if file.sha256 == own.sha256}
    others = tuple(other for other in microphones.others if other.kind not in copies)
    return replace(microphones, others=others, is_shared=microphones.is_shared or len(others) < len(microphones.others))


def _sound_path(track: Track) -> str:
    return track.audio or track.video or ""


def _seconds_of(track: Track) -> tuple[str, bool]:
    """The sound whose seconds a transcript has: those of a video count from its first frame, not its first sample."""
    return _sound_path(track), track.audio is None


def track_region(track: Track) -> Region | None:
    """The region of another track's picture that a track is, if it is one."""
    if track.of is None or track.region is None:
        return None
    return Region(track.of, track.box)


def input_file(path: Path, name: str = "", digest: Callable[[Path], str] = sha256_file) -> InputFile:
    """A file as an extractor is given it; messages call it by ``name``, its own where that is empty.

    Raises:
        OSError: it cannot be read.
    """
    state = recording_state(path)  # before it is read: what is replaced from here on is not what the extraction finds
    return InputFile(path, name or path.name, recording_digest(path, digest), *state)


def _files_of(study: Study, session_id: str, track: str) -> Session | Track:
    return study.sessions[session_id] if track == MAIN else study.tracks[session_id][track]


def named_files(session: Session | Track, extractors: Iterable[Extractor[Any]]) -> list[tuple[str, str]]:
    """The files of a session, or of a track of it, that these extractors read: kind, and path in the study."""
    asked = {kind for extractor in extractors for kind in extractor.inputs}
    if Input.AUDIO in asked and not session.audio and not getattr(session, "of", None):
        asked.add(Input.VIDEO)  # its own sound
    if Input.VIDEO in asked and not session.video:
        asked.add(Input.AUDIO)  # it says when the track ends
    named = {kind: getattr(session, kind) for kind in PATH_COLUMNS if kind in asked}
    if isinstance(session, Track) and Input.VIDEO in asked:
        named[Input.REGION] = session.box_file
    return [(kind, relative) for kind, relative in named.items() if relative]


def unusable_files(study: Study, session_id: str, track: str, extractors: Iterable[Extractor[Any]]) -> dict[str, str]:
    """By kind, why a file of the session (or of a track of it) that these extractors read cannot be used."""
    unusable = {}
    for kind, relative in named_files(_files_of(study, session_id, track), extractors):
        try:
            study.path(relative)
        except StudyFileError as error:
            unusable[kind] = str(error)
    return unusable


def track_length_s(study: Study, track: Track, streams: StreamChoice) -> float:
    """How long a track is: by its video's header, else its sound's, else as long as its session; 0 if unknown.

    A session that is a transcript alone is as long as its transcript.

    Args:
        streams: which video of a file that has several.

    Raises:
        StudyFileError: that file cannot be used.
    """
    for kind, relative in ((Input.VIDEO, track.video), (Input.AUDIO, track.audio)):
        if relative is not None:
            file = input_file(study.path(relative), relative, lambda _: "")  # its digest is not needed
            return recording_s(Source(track.session_id, {kind: file}), streams)
    if track.name != MAIN:
        return track_length_s(study, study.tracks[track.session_id][MAIN], streams)
    try:
        return read_transcript(study.path(track.transcript), allow_malformed=True).end_s if track.transcript else 0.0
    except TranscriptError:
        return 0.0  # its extraction says what is wrong


RECORDING = "file"
"""The session id of a recording by itself in its store: its own name may say who is in it."""


@dataclass(frozen=True)
class FileSource(Source):
    """The recording and what was given with it, as an extractor sees it."""

    name: str = ""

    def file(self, kind: str) -> InputFile:
        try:
            return super().file(kind)
        except MissingInputError:
            if kind == Input.VIDEO:
                raise MissingInputError(f"{self.name} has no picture") from None
            raise MissingInputError(
                f"it is made of a {kind}, and none was given: {kind}=PATH, or --{kind} PATH on the command line"
            ) from None


def file_source(recording: Path, others: Mapping[str, Path], digests: DigestCache) -> FileSource:
    """The recording as extractors are given it.

    Args:
        others: by kind of input, what comes with it: a transcript, say.

    Raises:
        RecordingError: it is no recording.
        OSError: a file is not there, or cannot be read.
    """
    try:
        check_joined_names(recording.as_posix())
    except ValueError as error:
        raise RecordingError(str(error)) from None
    for path in (*recording_files(recording), *others.values()):
        path.open("rb").close()  # a file that is not there is its caller's mistake, no fault of a recording
        try:
            str(path.absolute()).encode()
        except UnicodeEncodeError:  # the cache notes in JSON which files it knows
            raise RecordingError(f"{ascii(os.fsencode(path.name))[1:]}: its path is not UTF-8: rename it") from None
    frameless = not _has_picture(recording)
    paths = {str(Input.AUDIO if frameless else Input.VIDEO): recording, **others}
    files = {kind: input_file(path.absolute(), digest=digests.sha256) for kind, path in paths.items()}
    return FileSource(RECORDING, files, frameless=frameless, name=recording.name)


def _has_picture(path: Path) -> bool:
    """Whether it is a video; the cover of a record is none."""
    with open_container(path) as container:
        return bool(video_streams(container))
