"""Who and what recorded a session: its devices, and the people in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from storyframes.tracks import MAIN

__all__ = ["MAIN", "Person", "Track", "spoken_name"]


@dataclass(frozen=True)
class Track:
    """The files of one device.

    Attributes:
        session_id, name: which.
        video, audio, transcript, openface: paths in the study; None where there is no such file.
        person_id: who is recorded; None where nobody is named.
        clock: the name of its clock; None where its seconds are the session's.
    """

    session_id: str
    name: str
    video: str | None = None
    audio: str | None = None
    transcript: str | None = None
    openface: str | None = None
    person_id: str | None = None
    clock: str | None = None


@dataclass(frozen=True)
class Person:
    """Somebody in a session.

    Attributes:
        session_id, person_id: which.
        participant_id: the participant of the study; None for whoever is none (a robot, an experimenter).
        role: what the person does there; None where that is not said.
        transcript_name: what the session's transcripts call the person, often a real name, so it is never shown or
            stored; None where that is not said.
    """

    session_id: str
    person_id: str
    participant_id: str | None = None
    role: str | None = None
    transcript_name: str | None = field(default=None, repr=False)


def spoken_name(name: str) -> str:
    """A speaker's name as it is compared: capitals and spaces are written in many ways."""
    return " ".join(name.split()).casefold()
