"""A store of sessions with several devices, made of random values: cameras of other rates and clocks, and a lapel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from storyframes.clips.window_spec import WindowSpec
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.times import Clock
from support.stores import local
from tasks.study.load import Phase, Session, Study
from tasks.study.rows import Person, Track

LENGTH_S = 10.5
RATES = {"s15": 15.0, "s25": 25.0, "s29": 30000 / 1001, "s30": 30.0, "vfr": 15.0}
CAMERA_RATES = {"s15": 25.0, "s25": 30.0, "s29": 15.0, "s30": 30000 / 1001, "vfr": 30.0}
OFFSET_S, DRIFT = 3.2, 40e-6  # the device's second 0 is the session's 3.2; it counts 40 millionths too many
WINDOWS = WindowSpec(window_s=1.6, stride_s=0.7, split_shares=(1, 0, 0))
SPEAKERS = ["robot", "participant"]

Arrays = dict[tuple[str, str, str], np.ndarray]


def frame_times(rate: float, seconds: float, irregular: int | None = None) -> np.ndarray:
    if irregular is None:
        return np.arange(round(seconds * rate)) / rate
    return np.cumsum(np.random.default_rng(irregular).uniform(0.8 / rate, 1.2 / rate, round(seconds * rate)))


def seconds_of_the_session(device_s: np.ndarray, offset_s: float = OFFSET_S, drift: float = DRIFT) -> np.ndarray:
    return np.asarray(device_s) / (1 + drift) + offset_s


def clock_of(offset_s: float = OFFSET_S, drift: float = DRIFT) -> Clock:
    return Clock("c", (0.0, 3600 * (1 + drift)), (offset_s, 3600 + offset_s))


def write(root: Path, arrays: Arrays, session: str, feature: str, track: str, rows: Mapping[str, Any]) -> None:
    with FeatureWriter(local(root), session, FEATURES[feature], track=track, frames=track != "lapel") as out:
        for name, values in rows.items():
            out.write(name, values)
            arrays[session, f"{feature}@{track}" if track != "main" else feature, name] = values
        out.attributes |= {"speakers": SPEAKERS} if "speaker" in rows else {}
        out.publish("f", {})


def write_camera(root: Path, arrays: Arrays, session: str, track: str, time: np.ndarray) -> None:
    generator = np.random.default_rng([len(session), len(track), len(time)])
    count = len(time)
    write(root, arrays, session, "frames", track, {"time": time})
    rows = generator.normal(size=(count, 2048)).astype(np.float16)
    write(root, arrays, session, "resnet50", track, {"values": rows})
    valid = (generator.random(count) < 0.9).astype(np.uint8)
    face = generator.normal(size=(count, 714)).astype(np.float32)
    face[valid == 0, 5:] = np.nan
    confidence = generator.random(count).astype(np.float32)
    write(root, arrays, session, "openface", track, {"values": face, "valid": valid, "confidence": confidence})


def write_lapel(root: Path, arrays: Arrays, session: str) -> None:
    """Sound and words, and no frames."""
    generator = np.random.default_rng(7)
    sound = {"values": generator.normal(size=(500, 65)).astype(np.float32), "time": np.arange(500) / 100}
    write(root, arrays, session, "opensmile", "lapel", sound)
    for feature, width, count in (("glove", 300, 30), ("sbert", 384, 6)):
        start = np.sort(generator.uniform(0, 5, count))
        spoken: dict[str, Any] = {
            "values": generator.normal(size=(count, width)).astype(np.float32),
            "start": start,
            "end": start + generator.uniform(0.05, 0.8, count),
            "speaker": generator.integers(0, 2, count).astype(np.int16),
        }
        if feature == "glove":
            spoken["known"] = np.ones(count, np.uint8)
        write(root, arrays, session, feature, "lapel", spoken)


def study_of(clock: Clock | None = None, sessions: tuple[str, ...] = tuple(RATES)) -> Study:
    """A camera that is triggered with the session's, one that begins later and drifts, and a lapel of its clock."""
    tracks = {
        session: {
            "main": Track(session, "main", video=f"{session}.mp4"),
            "twin": Track(session, "twin", video=f"{session}_twin.mp4"),
            "cam": Track(session, "cam", video=f"{session}_cam.mp4", clock="c"),
            "lapel": Track(session, "lapel", audio=f"{session}_lapel.wav", clock="c"),
        }
        for session in sessions
    }
    return Study(
        Path("/nowhere"),
        {one: Session(session_id=one, participant_id=one, video=f"{one}.mp4") for one in sessions},
        phases=tuple(Phase(session_id=one, phase="all", start_s=0, end_s=LENGTH_S) for one in sessions),
        tracks=tracks,
        clocks={session: {"c": clock or clock_of()} for session in sessions},
        persons=tuple(Person(session_id=session, person_id="child_b", transcript_name=None) for session in sessions),
    )


def write_tracks(root: Path, sessions: tuple[str, ...] = tuple(RATES)) -> Arrays:
    """Make the store; what is in it by session, feature and array."""
    create_store(root)
    arrays: Arrays = {}
    for session in sessions:
        time = frame_times(RATES[session], LENGTH_S, 5 if session == "vfr" else None)
        write_camera(root, arrays, session, "main", time)
        write_camera(root, arrays, session, "twin", time + 0.0004)  # another container rounds otherwise
        camera = frame_times(CAMERA_RATES[session], 4.5, 6 if session == "vfr" else None)
        write_camera(root, arrays, session, "cam", camera)
        write_lapel(root, arrays, session)
    catalogue.compact(local(root))
    return arrays


def nearest(row_times: np.ndarray, points: np.ndarray, stop_s: float, rate: float) -> list[set[int]]:
    """Of each point the rows that may stand for it, as the session's seconds have them: none, one, or equals."""
    step = max(1 / rate, float(np.median(np.diff(row_times))))
    off = np.abs(row_times - points[:, None])
    best = off.min(axis=1)
    found: list[set[int]] = []
    for point, distance, is_near in zip(points, best, off <= best[:, None] + 3e-6, strict=True):
        rows = set(np.flatnonzero(is_near).tolist())
        if distance > step / 2 + 0.001 + 3e-6 or point >= stop_s - 3e-7:
            rows = set()
        elif distance > step / 2 + 0.001 - 3e-6:
            rows |= {-1}  # on the edge of the tolerance: either will do
        found.append(rows or {-1})
    return found


def check_rows(got: np.ndarray, mask: np.ndarray, values: np.ndarray, counts: np.ndarray, rows: list[set[int]]) -> None:
    likely = np.array([max(candidates) for candidates in rows])
    picked = values[np.maximum(likely, 0)]
    is_equal = ((got == picked) | (np.isnan(got) & np.isnan(picked))).reshape(len(rows), -1).all(axis=1)
    fits_at_once = (likely >= 0) & is_equal & (mask == counts[np.maximum(likely, 0)])
    for place in np.flatnonzero(~fits_at_once):
        candidates = rows[place]
        fits = [
            (row == -1 and not mask[place] and np.isnan(got[place]).all())
            or (row >= 0 and mask[place] == counts[row] and np.array_equal(got[place], values[row], equal_nan=True))
            for row in candidates
        ]
        assert any(fits), (place, candidates)
