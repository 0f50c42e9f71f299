"""Which recordings of a study are transcribed, and where their transcripts go."""

from __future__ import annotations

import filecmp
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from storyframes import MAIN
from storyframes_transcribe.transcript_file import FOLDER, SoundFile
from tasks.media import RecordingError, StreamChoice, promised_length_s, read_streams, sound_s
from tasks.study import Study, UnusableFileError


class SelectionError(Exception):
    """There is no such session or track, or its transcript is somebody's own; the message says which."""


@dataclass(frozen=True)
class Recording:
    """One recording with sound.

    Attributes:
        session_id, track: whose; ``main`` is the session's own.
        relative: its path in the study.
        is_video: the sound is a video's own.
        video: the path of its video in the study, also where the sound is a file of its own; None without one.
        person_id, speaker: whose microphone it is, and what its speaker is called: the person's role, or the
            id where it has none or others have the same.
        language: the code of the language that is spoken, by the tables.
    """

    session_id: str
    track: str
    relative: str
    is_video: bool
    video: str | None
    person_id: str | None = None
    speaker: str | None = None
    language: str | None = None

    @property
    def name(self) -> str:
        """For messages, and in the name of its transcript."""
        return self.session_id if self.track == MAIN else f"{self.session_id}@{self.track}"

    def end_s(self, study: Study, streams: StreamChoice) -> float:
        """When it ends, seconds. Of a video: its picture by the header, infinity where that does not say.

        Headers of sound files may be guesses (raw AAC, MP3 without a Xing header), so the sound is decoded.
        """
        if self.video is None:
            return sound_s(study.path(self.relative), streams)
        return promised_length_s(study.path(self.video), streams) or float("inf")

    def length_s(self, study: Study, streams: StreamChoice) -> float:
        """Its length by its header, for a bar of progress: 0 where that does not say or the file cannot be opened."""
        try:
            path = study.path(self.video or self.relative)
            return promised_length_s(path, streams) if self.video else read_streams(path).seconds or 0.0
        except (RecordingError, OSError):
            return 0.0


@dataclass(frozen=True)
class SessionPlan:
    """What is to be done of one session.

    Attributes:
        recordings: to be transcribed.
        microphones: of persons, one each, where at least two have one: among them crosstalk is removed, and the
            session's own transcript is joined from them. A part of them may not be among ``recordings``.
        joins: whether the session's own transcript is made of them.
        cannot_join: microphones that have a handed-in transcript, so that the session's own is not made of them.
        handed_in: tracks whose transcripts are the study's own.
        own: the session's own recording, where it has sound.
    """

    session_id: str
    recordings: tuple[Recording, ...]
    microphones: tuple[Recording, ...]
    joins: bool
    handed_in: tuple[str, ...]
    own: Recording | None
    cannot_join: tuple[str, ...] = ()


def transcript_path(session_id: str, track: str) -> str:
    """Where a recording's transcript goes, relative to the study."""
    return f"{FOLDER}/{session_id if track == MAIN else f'{session_id}@{track}'}.json"


def plan_sessions(study: Study, sessions: Sequence[str] = (), tracks: Sequence[str] = ()) -> list[SessionPlan]:
    """What is to be transcribed.

    Args:
        sessions: only these; all without any.
        tracks: only these. Without any, of each session the microphones of its persons, one each, those that several
            persons share, and unless two persons have one of their own its own sound.

    Raises:
        SelectionError: there is no such session or track.
    """
    if unknown := [name for name in sessions if name not in study.sessions]:
        raise SelectionError(f"the study has no session {', '.join(unknown)}")
    every = {track for of_session in study.tracks.values() for track in of_session}
    if unknown := [name for name in tracks if name not in every]:
        raise SelectionError(f"the study has no track {', '.join(unknown)}; it has {', '.join(sorted(every))}")
    return [_plan(study, session_id, tracks) for session_id in sessions or study.sessions]


def refuse_handed_in(
    study: Study, plans: Sequence[SessionPlan], sessions: Sequence[str], tracks: Sequence[str]
) -> None:
    """Refuse to replace a transcript that was handed in, where just this session or track was asked for.

    Raises:
        SelectionError: the tables name it.
    """
    for plan in plans:
        named = [track for track in plan.handed_in if track in tracks or (sessions and track == MAIN and not tracks)]
        if named:
            path = study.tracks[plan.session_id][named[0]].transcript
            raise SelectionError(
                f"{plan.session_id}, {named[0]}: the tables name its transcript, {path}, which is not replaced: "
                "empty that cell to have another made"
            )


def _plan(study: Study, session_id: str, tracks: Sequence[str]) -> SessionPlan:
    of_session = study.tracks[session_id]
    everything = {track: one for track in of_session if (one := _recording(study, session_id, track))}
    own = everything.get(MAIN)
    microphones: dict[str, Recording] = {}
    shared: dict[str, str] = {}  # by file, a track of several persons' sound that is not the session's own
    for one in sorted(everything.values(), key=lambda one: one.video is not None):  # a lapel before a camera
        if one.person_id and one.track != MAIN and _has_sound(study, one):
            microphones.setdefault(one.person_id, one)
        elif not one.person_id and of_session[one.track].person_id:
            has_same_seconds = own is not None and own.is_video == one.is_video
            transcribed = [*shared, *([own.relative] if own and has_same_seconds else [])]
            is_new = not any(_is_same(study, one.relative, path) for path in transcribed)
            shared |= {one.relative: one.track} if is_new else {}
    is_joint = len(microphones) > 1
    persons = [one.track for one in microphones.values()]
    chosen: Iterable[str] = tracks or [*(() if is_joint else (MAIN,)), *persons, *shared.values()]
    if is_joint and MAIN in tracks:
        chosen = [*(track for track in tracks if track != MAIN), *persons]
    handed_in = tuple(
        track
        for track, files in of_session.items()
        if files.transcript and files.transcript != transcript_path(session_id, track)
    )
    cannot_join = tuple(one.track for one in microphones.values() if is_joint and one.track in handed_in)
    return SessionPlan(
        session_id=session_id,
        recordings=tuple(
            everything[track] for track in dict.fromkeys(chosen) if track in everything and track not in handed_in
        ),
        microphones=tuple(one for one in microphones.values() if one.track not in handed_in) if is_joint else (),
        joins=is_joint and MAIN not in handed_in and not cannot_join,
        handed_in=handed_in,
        own=own,
        cannot_join=() if MAIN in handed_in else cannot_join,
    )


def _has_sound(study: Study, recording: Recording) -> bool:
    """Whether its header names sound; a camera without any is no microphone."""
    try:
        return read_streams(study.path(recording.relative)).has_sound
    except (RecordingError, OSError):
        return True  # transcribing it fails, and says why


def _recording(study: Study, session_id: str, track: str) -> Recording | None:
    files = study.tracks[session_id][track]
    relative = files.audio or (files.video if files.of is None else None)  # a region has its video's sound, not its own
    if relative is None:
        return None
    person_id = person_of_sound(study, session_id, track)
    speaker = speaker_of(study, session_id, person_id)
    language = files.language or study.tracks[session_id][MAIN].language
    return Recording(session_id, track, relative, files.audio is None, files.video, person_id, speaker, language)


def person_of_track(study: Study, session_id: str, track: str) -> str | None:
    """The person whom a track records; the session's own is its participant's."""
    if track != MAIN:
        return study.tracks[session_id][track].person_id
    own = (session_id, study.sessions[session_id].participant_id)
    return next((one.person_id for one in study.persons if (one.session_id, one.participant_id) == own), None)


def person_of_sound(study: Study, session_id: str, track: str) -> str | None:
    """Whose microphone a track's is; None of the session's own, and of a file (or copies) of several persons' sound."""
    sounds = {name: files.audio or files.video or "" for name, files in study.tracks[session_id].items()}
    same = [name for name, path in sounds.items() if _is_same(study, path, sounds[track])]
    owners = {person_of_track(study, session_id, name) for name in same}
    return study.tracks[session_id][track].person_id if len(owners - {None}) == 1 else None


def _is_same(study: Study, relative: str, other: str) -> bool:
    """Whether two files are one recording: the same, or with the same content."""
    if relative == other or not (relative and other):
        return relative == other
    try:
        files, others = (StreamChoice.files(study.path(path)) for path in (relative, other))
        return len(files) == len(others) and all(map(partial(filecmp.cmp, shallow=False), files, others))
    except (UnusableFileError, OSError):
        return False  # reading it says why


def speaker_of(study: Study, session_id: str, person_id: str | None) -> str | None:
    """What a person is called as a speaker: the role, or the id without one or where others have the same."""
    roles = {one.person_id: one.role for one in study.persons if one.session_id == session_id}
    role = roles.get(person_id or "")
    return role if role and [*roles.values()].count(role) == 1 else person_id


def sound_file(study: Study, recording: Recording, before: SoundFile | None) -> SoundFile:
    """The recording as it is now. Files of the same size and time as ``before`` are not read again.

    Raises:
        UnusableFileError: it does not exist, or leaves the study.
        OSError: it cannot be read.
    """
    path: Path = study.path(recording.relative)
    size, changed_ns = StreamChoice.state(path)
    if before and (before.path, before.bytes, before.mtime_ns) == (recording.relative, size, changed_ns):
        return before
    return SoundFile(path=recording.relative, sha256=digest_of(path), bytes=size, mtime_ns=changed_ns)


def digest_of(path: Path) -> str:
    """SHA-256 of a file, or of the files of a recording in several, one after the other.

    Raises:
        OSError: one cannot be read.
    """
    digest = hashlib.sha256()
    for part in StreamChoice.files(path):
        with part.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()
