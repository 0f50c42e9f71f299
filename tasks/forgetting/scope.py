"""What is to be forgotten: sessions, single tracks of sessions of several people, and ids of people."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from storyframes.features import STORIES
from storyframes.spec import MAIN
from storyframes.store.study import StudyRecord
from tasks.study.forgotten_ids import ForgottenIds
from tasks.study.labels import listed
from tasks.study.load import Study


class ForgetError(Exception):
    """What is asked for cannot be forgotten; the message says why and what to do."""


@dataclass(frozen=True)
class Scope:
    """What is to be forgotten.

    Attributes:
        ids: sessions, people and tracks.
        remarks: what of these people remains in the sessions of others, a sentence each.
    """

    ids: ForgottenIds
    remarks: tuple[str, ...] = field(default=())

    def has_session(self, session_id: str) -> bool:
        """Whether all of the session is to be forgotten."""
        return session_id in self.ids.sessions

    def has(self, session_id: str, track: str) -> bool:
        """Whether the track is to be forgotten, alone or with its session."""
        return session_id in self.ids.sessions or (session_id, track) in self.ids.tracks

    def names_file(self, path: str) -> bool:
        """Whether a file is named after a forgotten session, alone or with a track: SESSION.avi, SESSION@TRACK.json."""
        session, _, track = PurePath(path).name.split(".")[0].partition("@")
        return self.has(session, track) if track else self.has_session(session)


def resolve(
    study: Study,
    records: Iterable[StudyRecord | None],
    stored: Collection[str],
    earlier: ForgottenIds,
    *,
    sessions: Collection[str] = (),
    participant: str = "",
    whole_sessions: bool = False,
    only_tracks: bool = False,
) -> Scope:
    """What is to be forgotten, with everything that was to be forgotten before.

    Args:
        records: the records of the study in the stores, which know sessions that the tables have no longer.
        stored: sessions that the stores have.
        earlier: the study's list of the forgotten.
        sessions, participant: as asked for.
        whole_sessions: of sessions with other people, forget all.
        only_tracks: of sessions with other people, forget the participant's tracks alone.

    Raises:
        ForgetError: nobody has such a session or participant, or others are in a session and neither choice is made.
    """
    known = [record for record in records if record]
    owners = _owners(study, known)
    for session_id in sessions:
        if session_id not in owners and session_id not in stored and session_id not in earlier.sessions:
            raise ForgetError(
                f"there is no session {session_id!r}: neither the study nor a store has it; 'storyframes status STORE' "
                "lists those of a store"
            )
    if not participant:
        return Scope(earlier.with_ids(sessions, (), ()))
    people = _ids_of(study, participant)
    own = [name for name, owner in owners.items() if owner == participant]
    with_row = [row.session_id for row in study.persons if row.participant_id == participant]
    having = list(dict.fromkeys([*own, *with_row]))
    of_nobody = sorted(name for name in {*stored} - {STORIES, *sessions, *earlier.sessions} if not owners.get(name))
    if not having and participant not in earlier.people and participant not in _everybody(study):
        if participant not in {name for record in known for name in (*(record.people or ()), *record.left)}:
            raise ForgetError(
                f"there is no participant {participant!r} in the study's tables or in a store's record of them"
            )
        if of_nobody and not sessions:
            raise ForgetError(
                f"which sessions were of {participant!r} is not known: the tables have none any more, and the stores "
                f"have {listed(of_nobody)} without a participant. Name the sessions to forget before --participant"
            )
    shared = {name: others for name in having if (others := _others(study, owners, name, participant))}
    if shared and not (whole_sessions or only_tracks):
        raise ForgetError(
            f"other people are in {listed(list(shared))}: --whole-sessions forgets these sessions as a whole, "
            "--only-tracks only the tracks that record this participant"
        )
    alone = [name for name in having if name not in shared or whole_sessions]
    tracks = [track for name in shared if not whole_sessions for track in _tracks_of(study, name, participant)]
    remarks = [_remaining(study, name, tracks) for name in shared if not whole_sessions]
    if of_nobody:
        remarks.append(
            f"{listed(of_nobody)}: in a store and not in the study, and whose they are is not known. If one is of this "
            "participant, name it in the same command"
        )
    return Scope(earlier.with_ids([*sessions, *alone], people, tracks), tuple(remarks))


def _owners(study: Study, records: Iterable[StudyRecord]) -> dict[str, str]:
    """The participant of each session that the study has, or a store knows from its tables of before."""
    owners: dict[str, str] = {}
    for record in records:
        of_sessions = {name: str(fields.get("participant_id", "")) for name, fields in record.sessions.items()}
        for session_id, participant in {**record.left_participants, **of_sessions}.items():
            owners[session_id] = owners.get(session_id) or participant
    return owners | {name: session.participant_id for name, session in study.sessions.items()}


def _everybody(study: Study) -> set[str]:
    known = {row.participant_id for row in study.participants} | {row.participant_id for row in study.surveys}
    return known | {row.participant_id for row in study.persons if row.participant_id}


def _ids_of(study: Study, participant: str) -> set[str]:
    """The participant, and the ids of persons that are this participant alone."""
    participants_of: dict[str, set[str | None]] = {}
    for row in study.persons:  # a row without a participant may be of anybody
        participants_of.setdefault(row.person_id, set()).add(row.participant_id)
    return {participant, *(person for person, of in participants_of.items() if of == {participant})}


def _others(study: Study, owners: Mapping[str, str], session_id: str, participant: str) -> set[str]:
    """The other participants who are in a session."""
    present = {row.participant_id for row in study.persons if row.session_id == session_id and row.participant_id}
    return ({owners.get(session_id, ""), *present} - {participant, ""}) & ({*owners.values()} | present)


def _tracks_of(study: Study, session_id: str, participant: str) -> list[tuple[str, str]]:
    persons = {
        row.person_id for row in study.persons if (row.session_id, row.participant_id) == (session_id, participant)
    }
    tracks = [name for name, track in study.tracks.get(session_id, {}).items() if track.person_id in persons]
    if not tracks or MAIN in tracks:
        raise ForgetError(
            f"--only-tracks: the table of tracks names no track of {session_id} that records this participant alone: "
            "--whole-sessions forgets the session as a whole"
        )
    regions = [name for name, track in study.tracks[session_id].items() if track.of in tracks and name not in tracks]
    return [(session_id, name) for name in (*tracks, *regions)]


def _remaining(study: Study, session_id: str, tracks: Collection[tuple[str, str]]) -> str:
    kept = [name for name in study.tracks.get(session_id, {}) if (session_id, name) not in tracks]
    return (
        f"{session_id}: the tracks {', '.join(kept)} remain with everything that is made of them. They may show or "
        "hear this participant, and the session's transcript, its features of words, turns and synchrony, and labels "
        "may be about them: look at these recordings, or use --whole-sessions"
    )
