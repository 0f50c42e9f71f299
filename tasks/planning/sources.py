"""The files of a session, as its extractors are given them, and why one of them cannot be used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from storyframes.features import STORIES
from storyframes.tracks import MAIN
from tasks.extractors.base import Extractor, Input, InputFile, Source
from tasks.extractors.source import CurveFiles
from tasks.models.digests import DigestCache
from tasks.planning.cost import recording_s
from tasks.planning.label_curves import CurvePaths
from tasks.study.load import Session, Study, StudyFileError
from tasks.study.rows import PATH_COLUMNS, Track


def session_source(
    study: Study,
    session_id: str,
    extractors: Iterable[Extractor],
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
    kinds = {
        feature: tuple((f"{feature}/{place}", path) for place, path in enumerate(of.paths))
        for feature, of in curves.items()
        if feature in {extractor.name for extractor in extractors}
    }
    named += [pair for pairs in kinds.values() for pair in pairs]
    files, unusable = {}, {}
    for kind, relative in named:
        try:
            files[kind] = _input(study.path(relative), study.root, digests)
        except StudyFileError as error:
            unusable[kind] = str(error)
        except OSError as error:
            unusable[kind] = f"{relative}: cannot be read: {error.strerror or type(error).__name__}"
    frameless = track != MAIN and study.tracks[session_id][track].video is None
    made_of = {
        name: CurveFiles(curves[name].scheme, tuple(kind for kind, _ in pairs), curves[name].rule)
        for name, pairs in kinds.items()
    }
    return Source(session_id, files, unusable, track, frameless, made_of, study.speakers.get(session_id, {}))


def _files_of(study: Study, session_id: str, track: str) -> Session | Track:
    return study.sessions[session_id] if track == MAIN else study.tracks[session_id][track]


def named_files(session: Session | Track, extractors: Iterable[Extractor]) -> list[tuple[str, str]]:
    """The files of a session, or of a track of it, that these extractors read: kind, and path in the study."""
    asked = {kind for extractor in extractors for kind in extractor.inputs}
    if Input.AUDIO in asked and not session.audio:
        asked.add(Input.VIDEO)  # its own sound
    if Input.VIDEO in asked and not session.video:
        asked.add(Input.AUDIO)  # it says when the track ends
    named = {kind: getattr(session, kind) for kind in PATH_COLUMNS if kind in asked}
    return [(kind, relative) for kind, relative in named.items() if relative]


def unusable_files(study: Study, session_id: str, track: str, extractors: Iterable[Extractor]) -> dict[str, str]:
    """By kind, why a file of the session (or of a track of it) that these extractors read cannot be used."""
    unusable = {}
    for kind, relative in named_files(_files_of(study, session_id, track), extractors):
        try:
            study.path(relative)
        except StudyFileError as error:
            unusable[kind] = str(error)
    return unusable


def track_length_s(study: Study, track: Track) -> float:
    """How long a track is by its video's header, else its sound's, else as long as its session; 0 where none says.

    Raises:
        StudyFileError: that file cannot be used.
    """
    for kind, relative in ((Input.VIDEO, track.video), (Input.AUDIO, track.audio)):
        if relative is not None:
            path = study.path(relative)
            status = path.stat()  # its digest is not needed
            file = InputFile(path, relative, "", status.st_size, status.st_mtime_ns)
            return recording_s(Source(track.session_id, {kind: file}))
    return 0.0 if track.name == MAIN else track_length_s(study, study.tracks[track.session_id][MAIN])


def _input(path: Path, root: Path, digests: DigestCache) -> InputFile:
    status = path.stat()  # before it is read: a file that is replaced from here on is not what the extraction finds
    digest = digests.sha256(path)
    return InputFile(path, path.relative_to(root).as_posix(), digest, status.st_size, status.st_mtime_ns)
