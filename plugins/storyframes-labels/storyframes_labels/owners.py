"""Of which session and track an annotation is, and by whom: as the file, the user, or the names of files say it."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import PurePosixPath

from storyframes import MAIN
from storyframes.store import ID_PATTERN
from storyframes_labels.annotation_file import Annotation, AnnotationFile, ImportFaultError, listed
from tasks.media import StreamChoice
from tasks.study import Study, UnusableFileError, as_id, session_in_name

_KINDS = ("video", "audio", "transcript", "openface")


@dataclass(frozen=True)
class Said:
    """What the user says of all labels.

    Attributes:
        session_id, session_from: which session; at most one of them. Without them the files say it.
        rater_id, person_id, track: None where the files name them, or nobody does.
        leave_out_unknown: labels of recordings and sessions that the study does not have are left out.
    """

    session_id: str | None = None
    session_from: str | None = None
    rater_id: str | None = None
    person_id: str | None = None
    track: str | None = None
    leave_out_unknown: bool = False


def _shared_folders(one: PurePosixPath, other: PurePosixPath) -> int:
    """How many folders two paths have in common, from the last one on."""
    pairs = zip(reversed(one.parts), reversed(other.parts), strict=False)
    return len(list(takewhile(lambda pair: pair[0].casefold() == pair[1].casefold(), pairs)))


def _last(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name


def _in_words(recordings: Collection[tuple[str, str]]) -> str:
    tracks = sorted(f"{session}, track {track}" if track else session for session, track in recordings)
    return f"is of session {' or '.join(tracks)}"


class Owners:
    """Of which session and track an annotation is, and by whom; sessions that are not known are reported together."""

    def __init__(self, study: Study, said: Said) -> None:
        self.remarks: list[str] = []
        self._study, self._said = study, said
        self._unknown: dict[str, None] = {}
        self._absent: dict[str, int] = {}  # by recording or session that the study does not have, its labels
        self._ids: dict[str, str] = {}
        self._checked: set[str] = set()
        self._by_pattern: dict[str, str] = {}
        self._files: dict[str, set[tuple[str, str, PurePosixPath]]] = {}  # session, track and folder, by name and stem
        # session, track and name of files that another file of their recording comes before
        self._later: set[tuple[str, str, str]] = set()
        self._folders: dict[tuple[str, str, str], PurePosixPath] = {}  # of the files that annotations name
        for session_id, tracks in study.tracks.items():
            for track in tracks.values():
                for path in map(PurePosixPath, filter(None, (getattr(track, kind) for kind in _KINDS))):
                    owner = session_id, "" if track.name == MAIN else track.name, path.parent
                    parts = StreamChoice.files(study.folder_of(str(path)) / path)
                    names = [name.casefold() for part in parts[1:] for name in (part.name, part.stem)]
                    self._later |= {(*owner[:2], name) for name in names}
                    for named in (path, *parts):
                        for name in (named.name, named.stem):
                            self._files.setdefault(name.casefold(), set()).add(owner)

    def of(self, file: AnnotationFile, annotation: Annotation) -> tuple[str, str, str]:
        """The session, the track (empty: the session's own) and the rater (empty: nobody is named)."""
        said, session_id, track = self._said, annotation.session_id or self._said.session_id, ""
        if annotation.session_id and said.session_id not in (None, annotation.session_id):
            raise ImportFaultError(
                f"{file.name}: {annotation.place}: is of another session than --session {said.session_id}"
            )
        if said.session_from and not annotation.session_id:
            name = annotation.file or file.name
            if name not in self._by_pattern:
                try:
                    self._by_pattern[name] = session_in_name(said.session_from, name, self._study.sessions)
                except UnusableFileError as error:
                    raise ImportFaultError(str(error)) from None
            session_id = self._by_pattern[name]
            if not annotation.file:
                self._check_media(file, session_id)
        if session_id and not annotation.file:
            track = self._track_in(file.name, session_id)
        if not session_id:
            session_id, track = self._by_name(file, annotation)
        elif said.leave_out_unknown and session_id not in self._study.sessions:
            self._absent[session_id] = self._absent.get(session_id, 0) + 1
            session_id = ""
        where = f"{file.name}: {annotation.place}"
        return session_id, said.track or track, self._rater(annotation.rater_id or said.rater_id or "", where)

    def named_by_user(self, file: AnnotationFile, annotations: Sequence[Annotation]) -> list[Annotation]:
        """The annotations, with the user's rater and person in place of the single one that the file names.

        Raises:
            ImportFaultError: the file names several.
        """
        for word, field in (("rater", "rater_id"), ("person", "person_id")):
            said, names = getattr(self._said, field), {getattr(annotation, field) for annotation in annotations}
            if said is None or names <= {None, said}:
                continue
            if len(names) > 1:
                raise ImportFaultError(f"{file.name}: names {word}s for its labels, or some: leave --{word} out")
            annotations = [replace(annotation, **{field: said}) for annotation in annotations]
            self.remarks.append(f"{file.name}: names another {word} than --{word} {said}, which is taken")
        return list(annotations)

    def check(self) -> None:
        """Refuse the import if a session is not known; say what is left out.

        Raises:
            ImportFaultError: naming the files.
        """
        if self._absent:
            self.remarks.append(
                f"{sum(self._absent.values())} labels left out: the study has no recording "
                f"{listed([*map(repr, self._absent)], 10)}"
            )
        if self._unknown:
            raise ImportFaultError(
                f"{listed(list(self._unknown), 10)}: of which session is it? Say --session ID or --session-from "
                "PATTERN: no file of the study has that name (--leave-out-unknown leaves such rows out), or several "
                "have it in other folders"
            )

    def _recordings(self, name: str) -> set[tuple[str, str]]:
        """The recordings of the study with a file's name, by session and track; of several folders the nearest."""
        path = PurePosixPath(name.replace("\\", "/"))
        stem = path.name if path.suffix[1:].isdecimal() else path.stem  # p01.2 is no file p01
        owners = self._files.get(path.name.casefold()) or self._files.get(stem.casefold()) or set()
        shared = {owner: _shared_folders(path.parent, owner[2]) for owner in owners}
        return {owner[:2] for owner, count in shared.items() if count == max(shared.values())}

    def _check_media(self, file: AnnotationFile, by_pattern: str = "") -> None:
        """Refuse a file whose media are other recordings than its name says, or of several sessions.

        Args:
            by_pattern: the session that ``--session-from`` finds in the name.
        """
        if file.name in self._checked:
            return
        self._checked.add(file.name)
        of_media = {name: found for name in file.media if (found := self._recordings(name))}
        if not of_media:
            return
        named = set() if by_pattern else self._recordings(file.name)
        stem = PurePosixPath(file.name).stem
        sessions = {by_pattern} if by_pattern else {session for session, _ in named} or {stem} & {*self._study.sessions}
        every = set[tuple[str, str]]().union(*of_media.values())
        is_other_track = bool(named) and self._said.track is None and not named & every
        is_other = bool(sessions) and not sessions & {session for session, _ in every}
        are_apart = not set.intersection(*({session for session, _ in found} for found in of_media.values()))
        if is_other_track or is_other or are_apart:
            of_name = {file.name: named or {(session, "") for session in sessions}} if sessions else {}
            said = "; ".join(f"{_last(name)} {_in_words(found)}" for name, found in (of_name | of_media).items())
            raise ImportFaultError(
                f"{file.name}: its name and its media are of different recordings ({said}): link the right media in "
                "the program that wrote it, or import it by itself with --session ID"
            )

    def _by_name(self, file: AnnotationFile, annotation: Annotation) -> tuple[str, str]:
        if not annotation.file:
            self._check_media(file)
        names = [annotation.file] if annotation.file else [*file.media, file.name]
        for name in names:
            path = PurePosixPath(name.replace("\\", "/"))
            nearest = self._recordings(name)
            if len({session for session, _ in nearest}) == 1:
                session_id, track = min(nearest)  # the session's own recording before its tracks
                first = self._folders.setdefault((session_id, track, path.name.casefold()), path.parent)
                if annotation.start_s is not None and self._later.intersection(
                    (session_id, track, one.casefold()) for one in (path.name, path.stem)
                ):
                    raise ImportFaultError(
                        f"{file.name}: {annotation.place}: its times count from the beginning of {path.name}, which "
                        f"follows another file of session {session_id}: --offset S --session {session_id} adds the "
                        "seconds of the files before it"
                    )
                if annotation.file and first != path.parent:  # one of the two recordings is not the study's
                    break
            else:
                of_track = path.stem.partition("@")[0]  # exports name the file of a track so
                names_of = (name, path.stem, of_track if self._track_in(name, of_track) else "", *path.parts[:-1])
                ids = [session for session in names_of if session in self._study.sessions]
                if not ids:
                    continue
                session_id, track = ids[0], self._track_in(name, ids[0])
            if not annotation.file:
                of = f", track {track}" if track else ""
                self.remarks.append(f"{file.name}: is of session {session_id}{of}, by the name {path.name}")
            return session_id, track
        if self._said.leave_out_unknown and not any(map(self._recordings, names)):
            self._absent[names[0]] = self._absent.get(names[0], 0) + 1
        else:
            self._unknown.setdefault(f"{file.name}: {names[0]}" if annotation.file else file.name)
        return "", ""

    def _track_in(self, name: str, session_id: str) -> str:
        """The track in a file name SESSION@TRACK, as an export names the file of a track; empty for none."""
        session, _, track = _last(name).rpartition(".")[0].partition("@")
        return track if session == session_id and track in self._study.tracks.get(session_id, {}) else ""

    def _rater(self, name: str, where: str) -> str:
        normal = unicodedata.normalize("NFC", name)
        rater_id = name if not name or ID_PATTERN.fullmatch(name) else as_id(name)
        if name and (not rater_id or self._ids.setdefault(rater_id, normal) != normal):
            raise ImportFaultError(f"{where}: its rater's name gives no id, or that of another: write ids for raters")
        if rater_id != name:
            self.remarks.append("raters' names are written as ids")
        return rater_id
