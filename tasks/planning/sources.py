"""The files of a session, as its extractors are given them, and why one of them cannot be used."""

from __future__ import annotations

from pathlib import Path

from storyframes.features import STORIES
from tasks.extractors.base import InputFile, Source
from tasks.extractors.openface.extractor import Backend
from tasks.extractors.registry import ExtractorsSettings
from tasks.models.digests import DigestCache
from tasks.study.load import Session, Study, StudyFileError


def session_source(study: Study, session_id: str, settings: ExtractorsSettings, digests: DigestCache) -> Source:
    """The session's files; one that cannot be used costs the features that need it, and nothing else."""
    if session_id == STORIES:
        named = [(STORIES, study.table_path("stories").name)]
    else:
        named = named_files(study.sessions[session_id], settings)
    files, unusable = {}, {}
    for kind, relative in named:
        try:
            files[kind] = _input(study.path(relative), study.root, digests)
        except StudyFileError as error:
            unusable[kind] = str(error)
        except OSError as error:
            unusable[kind] = f"{relative}: cannot be read: {error.strerror or type(error).__name__}"
    return Source(session_id, files, unusable)


def named_files(session: Session, settings: ExtractorsSettings) -> list[tuple[str, str]]:
    """The session's files that these settings ask for: kind, and path in the study."""
    named = [("video", session.video), ("audio", session.audio), ("transcript", session.transcript)]
    if settings.openface.backend is Backend.CSV:
        named.append(("openface", session.openface))
    return [(kind, relative) for kind, relative in named if relative]


def unusable_files(study: Study, session: Session, settings: ExtractorsSettings) -> dict[str, str]:
    """By kind, why a file of the session that these settings ask for cannot be used."""
    unusable = {}
    for kind, relative in named_files(session, settings):
        try:
            study.path(relative)
        except StudyFileError as error:
            unusable[kind] = str(error)
    return unusable


def _input(path: Path, root: Path, digests: DigestCache) -> InputFile:
    digest = digests.sha256(path)
    status = path.stat()
    return InputFile(path, path.relative_to(root).as_posix(), digest, status.st_size, status.st_mtime_ns)
