"""What there is of each track of a study: in how many sessions, of whom, and how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from storyframes.features import CLOCK, STORIES
from storyframes.store.records import Current
from storyframes.tracks import MAIN, feature_and_track
from tasks.study.load import Study


@dataclass(frozen=True)
class TrackFacts:
    """One track.

    Attributes:
        name: the track's; ``main`` are the sessions' own files.
        sessions: of the study or of the store, how many have it.
        roles: of the people it is on, as the study calls them; empty where it does not say.
        pictures_s, sound_s: seconds that were extracted, of all sessions together.
    """

    name: str
    sessions: int
    roles: str
    pictures_s: float
    sound_s: float

    @property
    def pictures(self) -> str:
        """Hours, empty where there are none."""
        return _hours(self.pictures_s)

    @property
    def sound(self) -> str:
        """Hours, empty where there are none."""
        return _hours(self.sound_s)


def track_facts(study: Study, current: Sequence[Current]) -> tuple[TrackFacts, ...]:
    """Every track, ``main`` first; none where there is no other.

    Args:
        study: a valid study.
        current: the versions in the store.
    """
    sessions: dict[str, set[str]] = {MAIN: set(study.sessions)}
    pictures_s: dict[str, float] = {}
    sound_s: dict[tuple[str, str], float] = {}
    for session_id, tracks in study.tracks.items():
        for track in tracks:
            sessions.setdefault(track, set()).add(session_id)
    for one in current:
        if one.session_id == STORIES:
            continue
        feature, track = feature_and_track(one.feature)
        sessions.setdefault(track, set()).add(one.session_id)
        if feature == CLOCK:
            pictures_s[track] = pictures_s.get(track, 0.0) + length_s(one)
        if "audio_s" in one.quality:  # several features may have heard it
            heard = sound_s.get((one.session_id, track), 0.0)
            sound_s[one.session_id, track] = max(heard, one.quality["audio_s"])
    if len(sessions) == 1:
        return ()
    return tuple(
        TrackFacts(
            track,
            len(of),
            _roles(study, track),
            pictures_s.get(track, 0.0),
            sum(seconds for (_, name), seconds in sound_s.items() if name == track),
        )
        for track, of in sorted(sessions.items(), key=lambda item: (item[0] != MAIN, item[0]))
    )


def length_s(frames: Current) -> float:
    """Seconds from the first frame to the end of the last, of a version of ``frames``."""
    fps = frames.quality.get("fps", 0.0)
    return frames.quality.get("duration_s", 0.0) + (1 / fps if fps else 0.0)


def _roles(study: Study, track: str) -> str:
    roles = {(one.session_id, one.person_id): one.role or one.person_id for one in study.persons}
    of = [tracks[track] for tracks in study.tracks.values() if track in tracks]
    named = {roles.get((one.session_id, one.person_id), "") for one in of if one.person_id}
    return ", ".join(sorted(named - {""}))


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.2f}" if seconds else ""
