"""Writing a study of synthetic recordings: the layout of a real one, for benchmarks and for trying things.

Nothing in it means anything.

- ``empathicstories``: a robot and its visitor. Moving shapes for video, a tone with pauses for sound, random words, and
  OpenFace tables of smooth random numbers.
- ``dyad``: a listener and a speaker, a camera and a microphone for each, and a curve of how the listener felt.
- ``group``: two children, a camera on both and one on each, no transcripts, and labels on half of the sessions.

The devices of the last two record one room, each with its own clock, so their clocks can be measured by their sound.
"""

from __future__ import annotations

import gzip
import json
import math
import wave
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pandas as pd

from storyframes.features import OPENFACE_COLUMNS
from tasks.media.synthetic_study import Shape, SynthesisError, SyntheticStudy

__all__ = ["Shape", "SynthesisError", "SyntheticStudy", "write_study"]

_WORDS = (
    "the a and I you we they was felt said home friend garden bread rain letter city school mother father walk quiet "
    "first last year night spring door window road bread river song laugh cry listen wait carry leave return".split()
)
_PHASES = (("warm_up", 0.0, 0.08), ("story_share", 0.08, 0.5), ("story_receive", 0.5, 0.54), ("reflection", 0.54, 0.96))
_SAMPLE_RATE = 16_000
_FPS = 15
_SESSIONS_PER_PARTICIPANT = 269 / 41  # of EmpathicStories
_CURVE_HZ = 25
_RAPPORT = ("low", "medium", "high")
_APART_MS = 4  # from one person to the other's microphone


def write_study(folder: Path, plan: SyntheticStudy, progress: Callable[[str], None] = lambda _: None) -> None:
    """Write the study into ``folder``; ``progress`` is called with each session's id.

    Raises:
        SynthesisError: the folder exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SynthesisError(f"{folder} exists and is not empty: give a new folder")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write = {Shape.EMPATHIC_STORIES: _write_stories, Shape.DYAD: _write_dyads, Shape.GROUP: _write_groups}
    write[plan.shape](folder, plan, progress)


def _write_stories(folder: Path, plan: SyntheticStudy, progress: Callable[[str], None]) -> None:
    for name in ("videos", "transcripts", "openface"):
        (folder / name).mkdir(mode=0o700)
    for number, session_id in enumerate(plan.session_ids):
        progress(session_id)
        generator = np.random.default_rng([plan.seed, number])
        video = folder / "videos" / f"{session_id}.avi"
        background = _random_background(plan.size, generator)
        _write_video(video, _frames(plan), _FPS, plan.size, background, _tone(plan, generator))
        _write_transcript(folder / "transcripts" / f"{session_id}.json", session_id, plan, generator)
        _write_openface(folder / "openface" / f"{session_id}.csv.gz", plan, generator)
    _write_story_tables(folder, plan)


def _frames(plan: SyntheticStudy) -> int:
    return round(plan.seconds * _FPS)


def _write_story_tables(folder: Path, plan: SyntheticStudy) -> None:
    generator, ids = np.random.default_rng(plan.seed), plan.session_ids
    count = max(1, math.ceil(plan.sessions / _SESSIONS_PER_PARTICIPANT))
    participants = [f"p{number % count + 1:03d}" for number in range(len(ids))]
    stories = [f"story{number}" for number in range(1, 7)]
    sessions = [
        (
            session_id,
            participant,
            f"videos/{session_id}.avi",
            f"transcripts/{session_id}.json",
            f"openface/{session_id}.csv.gz",
        )
        for session_id, participant in zip(ids, participants, strict=True)
    ]
    phases = [
        (session_id, phase, round(start * plan.seconds, 3), round(end * plan.seconds, 3))
        for session_id in ids
        for phase, start, end in _PHASES
    ]
    ratings = [
        (session_id, story, position, int(generator.integers(1, 6)))
        for session_id in ids
        for position, story in enumerate(generator.permutation(stories)[:3].tolist(), start=1)
    ]
    texts = [(story, " ".join(generator.choice(_WORDS, 40).tolist())) for story in stories]
    surveys = [
        (participant, timepoint, "social_connection", round(float(generator.uniform(1, 5)), 2))
        for participant in sorted(set(participants))
        for timepoint in ("pre", "mid", "post")
    ]
    columns = ["session_id", "participant_id", "video", "transcript", "openface"]
    _write(folder, "sessions", columns, sessions)
    _write(folder, "phases", ["session_id", "phase", "start_s", "end_s"], phases)
    _write(folder, "ratings", ["session_id", "story_id", "position", "empathy"], ratings)
    _write(folder, "stories", ["story_id", "text"], texts)
    _write(folder, "surveys", ["participant_id", "timepoint", "scale", "score"], surveys)


def _tone(plan: SyntheticStudy, generator: np.random.Generator) -> np.ndarray:
    time = np.arange(math.ceil(_frames(plan) / _FPS * _SAMPLE_RATE) + 1) / _SAMPLE_RATE
    voice = sum(np.sin(2 * np.pi * 120 * harmonic * time) / harmonic for harmonic in range(1, 6))
    loud = (np.sin(2 * np.pi * time / 3) > 0) * 0.2
    noise = generator.normal(0, 0.002, len(time))
    return ((voice * loud + noise) * 20_000).clip(-32_768, 32_767).astype(np.int16)


def _write_transcript(path: Path, session_id: str, plan: SyntheticStudy, generator: np.random.Generator) -> None:
    utterances: list[dict[str, object]] = []
    clock, speakers = 0.5, ("robot", "participant")
    while clock + 1 < plan.seconds:
        count = int(generator.integers(3, 12))
        end = min(clock + 0.35 * count, plan.seconds - 0.2)
        words = generator.choice(_WORDS, count).tolist()
        edges = np.linspace(clock, end, count + 1).round(3).tolist()
        utterances.append(
            {
                "speaker": speakers[len(utterances) % 2],
                "start_s": edges[0],
                "end_s": edges[-1],
                "text": " ".join(words),
                "words": [
                    {"word": word, "start_s": start, "end_s": stop}
                    for word, start, stop in zip(words, edges, edges[1:], strict=False)
                ],
            }
        )
        clock = end + 0.5
    path.write_text(json.dumps({"session_id": session_id, "utterances": utterances}))


def _write_openface(path: Path, plan: SyntheticStudy, generator: np.random.Generator) -> None:
    frames = np.arange(1, _frames(plan) + 1)
    phase = generator.uniform(0, 2 * np.pi, len(OPENFACE_COLUMNS))
    values = np.sin(frames[:, None] / _FPS + phase).round(3)
    table = pd.DataFrame(values, columns=list(OPENFACE_COLUMNS))
    table["frame"], table["face_id"], table["success"] = frames, 0, 1
    table["timestamp"] = ((frames - 1) / _FPS).round(3)
    table["confidence"] = 0.98
    intensities = [column for column in OPENFACE_COLUMNS if column.startswith("AU") and column.endswith("_r")]
    table[intensities] = (2.5 + 2.5 * table[intensities]).round(2)  # 0 to 5
    presence = [column for column in OPENFACE_COLUMNS if column.endswith("_c")]
    table[presence] = (table[presence] > 0).astype(int)
    with gzip.open(path, "wt", compresslevel=1) as file:
        table.to_csv(file, index=False)


# --- two people, recorded by several devices ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Device:
    """A camera or a microphone; without a clock it is the session's own."""

    name: str  # of the track; ``main`` for the session's own
    fps: int  # frames per second; 0 for a microphone
    hears: tuple[float, float]  # the loudness of each of the two people in its sound
    person: str | None = None  # whom it records; None for both
    ppm: float = 0.0  # by how many millionths its clock is fast
    start: float = 0.0  # when it begins, as a share of the session's length; negative: before it

    def seconds(self, session_s: float) -> float:
        """The length of its recording, which ends with the session, by its own clock."""
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


def _write_dyads(folder: Path, plan: SyntheticStudy, progress: Callable[[str], None]) -> None:
    ids = plan.session_ids
    _write_devices(folder, _DYAD, plan, progress)
    people = max(1, plan.sessions // 2)
    persons = [
        (session_id, role, f"{role[0]}{number % people + 1:03d}", role)
        for number, session_id in enumerate(ids)
        for role in ("listener", "speaker")
    ]
    _write_persons(folder, ids, persons)
    (folder / "curves").mkdir(mode=0o700)
    for number, session_id in enumerate(ids):
        time = np.arange(round(plan.seconds * _CURVE_HZ)) / _CURVE_HZ
        random = np.random.default_rng([plan.seed, number, 9])
        slow = 2 * np.pi * (time[:, None] / random.uniform(6, 40, 4) + random.uniform(0, 1, 4))
        curve = pd.DataFrame({"time_s": time, "value": np.sin(slow).mean(axis=1).round(3)})
        curve.to_csv(folder / f"curves/{session_id}.csv", index=False)
    _write(folder, "schemes", ["scheme", "type", "min", "max"], [("valence", "curve", -1, 1)])
    _write(folder, "raters", ["rater_id", "kind"], [("listener", "self")])
    rows = [(session_id, "valence", f"curves/{session_id}.csv", "listener") for session_id in ids]
    _write(folder, "curves", ["session_id", "scheme", "path", "rater_id"], rows)


def _write_groups(folder: Path, plan: SyntheticStudy, progress: Callable[[str], None]) -> None:
    ids = plan.session_ids
    _write_devices(folder, _GROUP, plan, progress)
    pairs = max(1, plan.sessions // 2)
    persons = [
        (session_id, f"child_{letter}", f"c{2 * (number % pairs) + position:03d}", "child")
        for number, session_id in enumerate(ids)
        for position, letter in enumerate("ab", start=1)
    ]
    _write_persons(folder, ids, persons)
    random = np.random.default_rng([plan.seed, 8])
    labels = [
        (session_id, "rapport", str(random.choice(_RAPPORT)), rater)
        for session_id in ids[::2]
        for rater in ("rater-1", "rater-2")
    ]
    _write(folder, "schemes", ["scheme", "type", "labels"], [("rapport", "ordinal", "|".join(_RAPPORT))])
    _write(folder, "raters", ["rater_id", "kind"], [("rater-1", "human"), ("rater-2", "human")])
    _write(folder, "labels", ["session_id", "scheme", "value", "rater_id"], labels)


def _write_devices(
    folder: Path, devices: Sequence[_Device], plan: SyntheticStudy, progress: Callable[[str], None]
) -> None:
    """The recordings, and the tables of tracks and clocks."""
    (folder / "media").mkdir(mode=0o700)
    seconds, tracks, clocks = plan.seconds, [], []
    for number, session_id in enumerate(plan.session_ids):
        progress(session_id)
        before_s = 0.1 * seconds  # of the room, so that a device can begin before the session
        voices = [_voice(1.2 * seconds, np.random.default_rng([plan.seed, number, person])) for person in (0, 1)]
        for index, device in enumerate(devices):
            random = np.random.default_rng([plan.seed, number, 2, index])
            samples = _recorded_by(device, voices, before_s, seconds, random)
            path = f"media/{session_id}-{device.name}.{'avi' if device.fps else 'wav'}"
            if device.fps:
                frames = max(1, round(device.seconds(seconds) * device.fps))
                background = _random_background(plan.size, random)
                _write_video(folder / path, frames, device.fps, plan.size, background, samples)
            else:
                _write_sound(folder / path, samples)
            if index:
                files = (path, None) if device.fps else (None, path)
                tracks.append((session_id, device.name, *files, device.person, device.name))
                clocks.append((session_id, device.name, 0.0, round(device.start * seconds, 6)))
                clocks.append((session_id, device.name, round(device.seconds(seconds), 6), round(seconds, 6)))
    _write(folder, "tracks", ["session_id", "track", "video", "audio", "person_id", "clock"], tracks)
    _write(folder, "clocks", ["session_id", "clock", "clock_s", "session_s"], clocks)


def _recorded_by(
    device: _Device, voices: Sequence[np.ndarray], before_s: float, session_s: float, random: np.random.Generator
) -> np.ndarray:
    """(n,) int16 by the device's clock: the two voices, the more distant one later, and noise."""
    own_s = np.arange(round(device.seconds(session_s) * _SAMPLE_RATE)) / _SAMPLE_RATE
    room_s = before_s + device.start * session_s + own_s / (1 + device.ppm * 1e-6)
    mix = random.normal(0, 0.003, len(own_s))
    for sound, loud in zip(voices, device.hears, strict=True):
        later_s = _APART_MS / 1000 * (1 - loud)
        mix += loud * np.interp((room_s - later_s) * _SAMPLE_RATE, np.arange(len(sound)), sound, left=0, right=0)
    return (mix * 12_000).clip(-32_768, 32_767).astype(np.int16)


def _write_persons(folder: Path, ids: Sequence[str], persons: Sequence[tuple[str, str, str, str]]) -> None:
    """The tables of sessions, persons and participants; the first person of a session is its participant."""
    first: Mapping[str, str] = {session_id: participant for session_id, _, participant, _ in reversed(persons)}
    rows = [(session_id, first[session_id], f"media/{session_id}-main.avi") for session_id in ids]
    _write(folder, "sessions", ["session_id", "participant_id", "video"], rows)
    _write(folder, "persons", ["session_id", "person_id", "participant_id", "role"], persons)
    roles = {participant: role for _, _, participant, role in persons}
    _write(folder, "participants", ["participant_id", "role"], sorted(roles.items()))


def _write(folder: Path, table: str, columns: list[str], rows: Sequence[tuple[object, ...]]) -> None:
    pd.DataFrame(rows, columns=columns).to_csv(folder / f"{table}.csv", index=False)


# --- recordings: a moving square in front of noise, and sound that resembles speech --------------------------------


def _random_background(size: tuple[int, int], random: np.random.Generator) -> np.ndarray:
    """(height, width, 3) uint8 of squares of 8 pixels; ``size`` is width and height."""
    width, height = size
    squares = random.integers(0, 120, (height // 8, width // 8, 3), dtype=np.uint8)
    return squares.repeat(8, axis=0).repeat(8, axis=1)


def _write_video(
    path: Path, frames: int, fps: int, size: tuple[int, int], background: np.ndarray, samples: np.ndarray
) -> None:
    """An AVI of ``frames`` frames and the sound of the same time; ``samples`` is (n,) int16 at 16 kHz."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4", rate=fps)
        video.width, video.height, video.pix_fmt = *size, "yuv420p"
        audio = container.add_stream("pcm_s16le", rate=_SAMPLE_RATE, layout="mono")
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(_picture(background, number / fps), format="rgb24")
            container.mux(video.encode(frame))
            first, stop = (round(_SAMPLE_RATE * edge / fps) for edge in (number, number + 1))
            if len(samples) > first:
                sound = av.AudioFrame.from_ndarray(samples[None, first:stop], format="s16", layout="mono")
                sound.sample_rate, sound.pts, sound.time_base = _SAMPLE_RATE, first, Fraction(1, _SAMPLE_RATE)
                container.mux(audio.encode(sound))
        container.mux(video.encode(None))
        container.mux(audio.encode(None))


def _write_sound(path: Path, samples: np.ndarray) -> None:
    """A WAV of (n,) int16 at 16 kHz."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(_SAMPLE_RATE)
        file.writeframes(samples.astype("<i2").tobytes())


def _picture(background: np.ndarray, second: float) -> np.ndarray:
    picture = background.copy()
    height, width = background.shape[:2]
    size = height // 3
    x = round((width - size) * (0.5 + 0.5 * math.sin(second)))
    y = round((height - size) * (0.5 + 0.5 * math.cos(second / 2)))
    picture[y : y + size, x : x + size] = (220, 180, 150)
    return picture


def _voice(seconds: float, random: np.random.Generator) -> np.ndarray:
    """(n,) float32 in [-1, 1]: two to six syllables a second, of changing pitch, and pauses of up to 3 s."""
    sound = np.zeros(round(seconds * _SAMPLE_RATE), np.float32)
    at = random.uniform(0, 0.5)
    while at < seconds:
        length = random.uniform(0.08, 0.3)
        time = np.arange(round(length * _SAMPLE_RATE)) / _SAMPLE_RATE
        pitch, formant = random.uniform(90, 240), random.uniform(300, 3000)
        harmonics = pitch * np.arange(1, int(3600 / pitch))
        loud = np.exp(-(((harmonics - formant) / 400) ** 2)) + 0.1
        tone = loud @ np.sin(2 * np.pi * harmonics[:, None] * time + random.uniform(0, 6.28, (len(harmonics), 1)))
        rise, fall = random.uniform(0.005, 0.05), random.uniform(0.01, 0.08)
        shape = np.clip(np.minimum(time / rise, (length - time) / fall), 0, 1)
        first = round(at * _SAMPLE_RATE)
        part = sound[first : first + len(time)]
        part += (tone * shape * random.uniform(0.2, 1) / loud.sum())[: len(part)]
        at += length + (random.exponential(0.08) if random.random() < 0.8 else random.uniform(0.4, 3))
    return sound
