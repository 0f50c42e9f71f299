"""The devices that recorded a session: files, clock and person of each track."""

from __future__ import annotations

from dataclasses import dataclass

from storyframes import CLOCK, MAIN, Clock, FeatureName, FeatureStore
from tasks.media import StreamChoice
from tasks.study import Study, Track


@dataclass(frozen=True)
class Device:
    """One track of a session."""

    files: Track
    clock: Clock = Clock.SESSION  # from its seconds to the session's
    about_person: str = ""  # the id and the role of the person whom it records; empty where the study names nobody

    @property
    def track(self) -> str:
        return self.files.name

    @property
    def about_clock(self) -> str:
        """The clock in words."""
        if self.clock.is_the_sessions:
            return "its seconds are the session's"
        start = f"its second 0 is at {float(self.clock.to_session(0.0)):.2f} s of the session"
        drifts = self.clock.drifts_ppm
        if not drifts:
            return start
        if len(drifts) == 1:
            return f"{start}, its clock is {abs(drifts[0]):.0f} ppm {'fast' if drifts[0] > 0 else 'slow'}"
        return f"{start}, its clock drifts between {min(drifts):.0f} and {max(drifts):.0f} ppm"


def devices_of(study: Study, session_id: str) -> dict[str, Device]:
    """The session's tracks by name, ``main`` first; empty where the study has no such session."""
    if session_id not in study.sessions:
        return {}
    session = study.sessions[session_id]
    main = Track(session_id, MAIN, session.video, session.audio, session.transcript, session.openface)
    persons = {
        person.person_id: person.person_id + (f" ({person.role})" if person.role else "")
        for person in study.persons
        if person.session_id == session_id
    }
    return {
        track: Device(files, study.clock(session_id, track), persons.get(files.person_id or "", ""))
        for track, files in {MAIN: main, **study.tracks.get(session_id, {})}.items()
    }


def stored_streams(
    store: FeatureStore, session_id: str, track: str = MAIN, default: StreamChoice = StreamChoice.FIRST
) -> StreamChoice:
    """The picture and the sound of a track's recording of which its features in the store were made.

    Args:
        default: for what no feature of the track was made of.

    Raises:
        StoreError: a feature's metadata cannot be read.
    """
    video, sound = default.video, default.sound
    for name in store.features(session_id, track):
        made = store.attributes(session_id, FeatureName.of_track(name, track)).get("provenance", {})
        settings = made.get("settings", {})
        if name == CLOCK:
            video = settings.get("video_stream", 0)
        if "audio" in made.get("inputs", {}) or "sound_stream" in settings:
            sound = settings.get("sound_stream", 0)
    return StreamChoice(video, sound)
