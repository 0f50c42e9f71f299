"""Made-up studies of two people each, with several cameras and microphones, each on a clock of its own.

``dyad``: a listener and a speaker, a camera and a microphone for each, and how the listener felt at every moment.
``group``: two children, a camera on both and one on each, no transcripts, and labels on half of the sessions.
What the devices hear is one room, so their clocks can be told from their sound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tasks.media.synthetic_files import SAMPLE_RATE, random_background, write_sound, write_video
from tasks.media.synthetic_voice import voice

_CURVE_HZ = 25
_RAPPORT = ("low", "medium", "high")
_APART_MS = 4  # from one person to the other's microphone


@dataclass(frozen=True)
class _Device:
    """A camera or a microphone; without a clock it is the session's own.

    Attributes:
        name: the track's; ``main`` for the session's own.
        fps: frames per second; 0 for a microphone.
        hears: how loud it hears the two people.
        person: whom it is on; None for both.
        ppm: by how many millionths its clock is fast.
        start: when it begins, in shares of the session's length; negative: before it.
    """

    name: str
    fps: int
    hears: tuple[float, float]
    person: str | None = None
    ppm: float = 0.0
    start: float = 0.0

    def seconds(self, session_s: float) -> float:
        """How long it records, by its own clock: to the session's end."""
        return session_s * (1 - self.start) * (1 + self.ppm * 1e-6)


_DYAD = (
    _Device("main", 25, (0.7, 0.7)),
    _Device("speaker_camera", 25, (0.4, 0.9), "speaker", 40, 0.08),
    _Device("listener_mic", 0, (1.0, 0.1), "listener", -120, -0.05),
    _Device("speaker_mic", 0, (0.1, 1.0), "speaker", 15, 0.02),
)
_GROUP = (
    _Device("main", 30, (0.7, 0.7)),
    _Device("child_a", 25, (1.0, 0.5), "child_a", -30, 0.05),
    _Device("child_b", 25, (0.5, 1.0), "child_b", 60, 0.1),
)


def write_dyads(
    folder: Path, sessions: int, seconds: float, seed: int, size: tuple[int, int], progress: Callable[[str], None]
) -> None:
    """Write a study of the shape ``dyad`` into a folder that is there; ``size`` is the pictures' width and height."""
    ids = _write_devices(folder, _DYAD, sessions, seconds, seed, size, progress)
    people = max(1, sessions // 2)
    persons = [
        (session_id, role, f"{role[0]}{number % people + 1:03d}", role)
        for number, session_id in enumerate(ids)
        for role in ("listener", "speaker")
    ]
    _write_persons(folder, ids, persons)
    (folder / "curves").mkdir(mode=0o700)
    for number, session_id in enumerate(ids):
        time = np.arange(round(seconds * _CURVE_HZ)) / _CURVE_HZ
        random = np.random.default_rng([seed, number, 9])
        slow = 2 * np.pi * (time[:, None] / random.uniform(6, 40, 4) + random.uniform(0, 1, 4))
        curve = pd.DataFrame({"time_s": time, "value": np.sin(slow).mean(axis=1).round(3)})
        curve.to_csv(folder / f"curves/{session_id}.csv", index=False)
    _write(folder, "schemes", ["scheme", "type", "min", "max"], [("valence", "curve", -1, 1)])
    _write(folder, "raters", ["rater_id", "kind"], [("listener", "self")])
    rows = [(session_id, "valence", f"curves/{session_id}.csv", "listener") for session_id in ids]
    _write(folder, "curves", ["session_id", "scheme", "path", "rater_id"], rows)


def write_groups(
    folder: Path, sessions: int, seconds: float, seed: int, size: tuple[int, int], progress: Callable[[str], None]
) -> None:
    """Write a study of the shape ``group`` into a folder that is there; ``size`` is the pictures' width and height."""
    ids = _write_devices(folder, _GROUP, sessions, seconds, seed, size, progress)
    pairs = max(1, sessions // 2)
    persons = [
        (session_id, f"child_{letter}", f"c{2 * (number % pairs) + place:03d}", "child")
        for number, session_id in enumerate(ids)
        for place, letter in enumerate("ab", start=1)
    ]
    _write_persons(folder, ids, persons)
    random = np.random.default_rng([seed, 8])
    labels = [
        (session_id, "rapport", str(random.choice(_RAPPORT)), rater)
        for session_id in ids[::2]
        for rater in ("rater-1", "rater-2")
    ]
    _write(folder, "schemes", ["scheme", "type", "labels"], [("rapport", "ordinal", "|".join(_RAPPORT))])
    _write(folder, "raters", ["rater_id", "kind"], [("rater-1", "human"), ("rater-2", "human")])
    _write(folder, "labels", ["session_id", "scheme", "value", "rater_id"], labels)


def _write_devices(
    folder: Path,
    devices: Sequence[_Device],
    sessions: int,
    seconds: float,
    seed: int,
    size: tuple[int, int],
    progress: Callable[[str], None],
) -> list[str]:
    """The recordings, and the tables of tracks and clocks; the sessions' names."""
    (folder / "media").mkdir(mode=0o700)
    ids = [f"s{number:04d}" for number in range(1, sessions + 1)]
    tracks, clocks = [], []
    for number, session_id in enumerate(ids):
        progress(session_id)
        before_s = 0.1 * seconds  # of the room, so that a device can begin before the session
        voices = [voice(1.2 * seconds, np.random.default_rng([seed, number, person])) for person in (0, 1)]
        for place, device in enumerate(devices):
            random = np.random.default_rng([seed, number, 2, place])
            samples = _heard(device, voices, before_s, seconds, random)
            path = f"media/{session_id}-{device.name}.{'avi' if device.fps else 'wav'}"
            if device.fps:
                frames = max(1, round(device.seconds(seconds) * device.fps))
                write_video(folder / path, frames, device.fps, size, random_background(size, random), samples)
            else:
                write_sound(folder / path, samples)
            if place:
                files = (path, None) if device.fps else (None, path)
                tracks.append((session_id, device.name, *files, device.person, device.name))
                last_s = device.seconds(seconds)
                first_session_s = device.start * seconds
                clocks.append((session_id, device.name, 0.0, round(first_session_s, 6)))
                clocks.append((session_id, device.name, round(last_s, 6), round(seconds, 6)))
    _write(folder, "tracks", ["session_id", "track", "video", "audio", "person_id", "clock"], tracks)
    _write(folder, "clocks", ["session_id", "clock", "clock_s", "session_s"], clocks)
    return ids


def _heard(
    device: _Device, voices: Sequence[np.ndarray], before_s: float, session_s: float, random: np.random.Generator
) -> np.ndarray:
    """(n,) int16: the two voices by the device's clock, each later where it is further away, and noise."""
    own_s = np.arange(round(device.seconds(session_s) * SAMPLE_RATE)) / SAMPLE_RATE
    room_s = before_s + device.start * session_s + own_s / (1 + device.ppm * 1e-6)
    heard = random.normal(0, 0.003, len(own_s))
    for sound, loud in zip(voices, device.hears, strict=True):
        later_s = _APART_MS / 1000 * (1 - loud)
        heard += loud * np.interp((room_s - later_s) * SAMPLE_RATE, np.arange(len(sound)), sound, left=0, right=0)
    return (heard * 12_000).clip(-32_768, 32_767).astype(np.int16)


def _write_persons(folder: Path, ids: Sequence[str], persons: Sequence[tuple[str, str, str, str]]) -> None:
    """The tables of sessions, persons and participants; a session is of the first person in it."""
    first: Mapping[str, str] = {session_id: participant for session_id, _, participant, _ in reversed(persons)}
    rows = [(session_id, first[session_id], f"media/{session_id}-main.avi") for session_id in ids]
    _write(folder, "sessions", ["session_id", "participant_id", "video"], rows)
    _write(folder, "persons", ["session_id", "person_id", "participant_id", "role"], persons)
    roles = {participant: role for _, _, participant, role in persons}
    _write(folder, "participants", ["participant_id", "role"], sorted(roles.items()))


def _write(folder: Path, table: str, columns: list[str], rows: Sequence[tuple[object, ...]]) -> None:
    pd.DataFrame(rows, columns=columns).to_csv(folder / f"{table}.csv", index=False)
