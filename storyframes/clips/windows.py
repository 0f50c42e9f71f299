"""Clips: the sliding windows inside the phases of a study, one row per window and rating.

A clip is a range of rows, never a copy. ``k`` frames with a stride of ``s`` frames give
``floor((F - k) / s) + 1`` windows in a phase of ``F`` frames.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from storyframes.clips.window_spec import WindowSpec
from storyframes.features import AUDIO_HOP_S
from storyframes.recording_times import last_frame_end_s
from storyframes.ticks import ticks

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class SessionSignals:
    """What a clip's row tells beyond the tables, where the store has it.

    Attributes:
        time: (T,) seconds, the frames' true times.
        tracked: (T,) 1 where a face was tracked.
        confidence: (T,) OpenFace's confidence.
        audio_time: (A,) seconds, of the openSMILE rows.
        word_start: (W,) seconds.
        features: the features that the session has.
    """

    time: np.ndarray | None = None
    tracked: np.ndarray | None = None
    confidence: np.ndarray | None = None
    audio_time: np.ndarray | None = None
    word_start: np.ndarray | None = None
    features: frozenset[str] = field(default_factory=frozenset)


def count_windows(frames: int, spec: WindowSpec) -> int:
    """How many clips a phase of ``frames`` frames holds."""
    return 0 if frames < spec.window else (frames - spec.window) // spec.stride + 1


def phase_frames(start_s: float, end_s: float, time: np.ndarray | None, fps: float) -> tuple[int, int]:
    """The frames [first, stop) whose time t has ``start_s <= t < end_s``."""
    if time is not None:
        first, stop = np.searchsorted(ticks(time), ticks((start_s, end_s)), side="left")
        return int(first), int(stop)
    nudge = 1e-6  # 2.0 s x 15 frames/s is frame 30, whatever binary fractions make of it
    return math.ceil(start_s * fps - nudge), math.ceil(end_s * fps - nudge)


def assign_splits(participants: Sequence[str], spec: WindowSpec) -> dict[str, str]:
    """Each participant's split: shares as asked to the nearest participant, the same for the same seed and names."""

    def draw(participant: str) -> bytes:
        return hashlib.sha256(f"{spec.split_seed}:{participant}".encode()).digest()

    ordered = sorted(set(participants), key=draw)
    exact = np.array(spec.split_shares) / sum(spec.split_shares) * len(ordered)
    counts = np.floor(exact + 1e-9).astype(int)
    owed = np.round(exact - counts, 9)
    for split in np.lexsort((counts, -owed))[: len(ordered) - counts.sum()]:  # among equals the emptier split first
        counts[split] += 1
    names = np.repeat(SPLITS, counts)
    return dict(zip(ordered, names.tolist(), strict=True))


def build_index(
    sessions: pd.DataFrame,
    phases: pd.DataFrame,
    ratings: pd.DataFrame,
    spec: WindowSpec,
    signals: Mapping[str, SessionSignals] | None = None,
    features: Sequence[str] = (),
) -> pd.DataFrame:
    """The clip index of a study.

    Args:
        sessions: columns session_id, participant_id.
        phases: columns session_id, phase, start_s, end_s.
        ratings: columns session_id, story_id, position, empathy.
        spec: how clips are cut.
        signals: by session, what the store knows; without it the index comes from the tables alone, at ``spec.fps``.
        features: the features that get a ``has_`` column.

    Returns:
        One row per window and rating, sorted by session, phase, start frame and position. Columns that need signals
        are missing values (NA) where those are absent.
    """
    signals = signals or {}
    windows = [
        _phase_windows(phase, spec, signals.get(phase.session_id, SessionSignals()))
        for phase in phases.itertuples(index=False)
        if spec.phases is None or phase.phase in spec.phases
    ]
    index = pd.concat(windows, ignore_index=True) if windows else _no_windows()
    index = index.merge(ratings[["session_id", "story_id", "position", "empathy"]], on="session_id", how="inner")
    participant = sessions.set_index("session_id")["participant_id"]
    index["participant_id"] = index["session_id"].map(participant)
    index["split"] = index["participant_id"].map(assign_splits(list(participant), spec))
    index = index.sort_values(["session_id", "phase", "start_frame", "position"], kind="stable", ignore_index=True)
    index["clip_id"] = (
        index["session_id"]
        + ":"
        + index["phase"]
        + ":"
        + index["start_frame"].astype(str).str.zfill(6)
        + ":"
        + index["position"].astype(str)
    )
    for feature in features:
        having = {session for session, signal in signals.items() if feature in signal.features}
        index[f"has_{feature}"] = index["session_id"].isin(having)
    return index[[*_COLUMNS, *(f"has_{feature}" for feature in features)]].astype(_COLUMNS)


_COLUMNS = {
    "clip_id": "str",
    "session_id": "str",
    "participant_id": "str",
    "phase": "str",
    "story_id": "str",
    "position": "int8",
    "empathy": "int8",
    "split": "str",
    "start_frame": "int32",
    "stop_frame": "int32",
    "start_s": "float64",
    "stop_s": "float64",
    "audio_start": "Int32",
    "audio_stop": "Int32",
    "sound_covered": "Float32",
    "face_tracked": "Float32",
    "face_confidence": "Float32",
    "words": "Int32",
}


def _no_windows() -> pd.DataFrame:
    empty = SessionSignals()
    phase = pd.DataFrame({"session_id": [""], "phase": [""], "start_s": [0.0], "end_s": [0.0]})
    return _phase_windows(next(phase.itertuples(index=False)), WindowSpec(), empty)


def _phase_windows(phase, spec: WindowSpec, signal: SessionSignals) -> pd.DataFrame:  # type: ignore[no-untyped-def]
    first, stop = phase_frames(phase.start_s, phase.end_s, signal.time, spec.fps)
    starts = first + spec.stride * np.arange(count_windows(stop - first, spec))
    stops = starts + spec.window
    start_s, stop_s = _times(starts, signal.time, spec.fps), _times(stops, signal.time, spec.fps)
    audio_start, audio_stop = _positions(signal.audio_time, start_s), _positions(signal.audio_time, stop_s)
    return pd.DataFrame(
        {
            "session_id": phase.session_id,
            "phase": phase.phase,
            "start_frame": starts,
            "stop_frame": stops,
            "start_s": start_s,
            "stop_s": stop_s,
            "audio_start": audio_start,
            "audio_stop": audio_stop,
            "sound_covered": np.minimum((audio_stop - audio_start) * AUDIO_HOP_S / (stop_s - start_s), 1),
            "face_tracked": _window_mean(signal.tracked, starts, stops),
            "face_confidence": _window_mean(signal.confidence, starts, stops),
            "words": _count_between(signal.word_start, start_s, stop_s),
        }
    )


def _times(frames: np.ndarray, time: np.ndarray | None, fps: float) -> np.ndarray:
    """Start time of each frame; the frame after the last starts where the last one ends."""
    if time is None:
        return frames / fps
    if len(time) == 0:
        return np.empty(0)
    return np.append(time, last_frame_end_s(time, 1 / fps))[frames]


def _missing(count: int):  # type: ignore[no-untyped-def]
    return pd.array([pd.NA] * count, dtype="Float64")


def _positions(times: np.ndarray | None, at: np.ndarray):  # type: ignore[no-untyped-def]
    return _missing(len(at)) if times is None else np.searchsorted(ticks(times), ticks(at), side="left")


def _count_between(times: np.ndarray | None, start: np.ndarray, stop: np.ndarray):  # type: ignore[no-untyped-def]
    if times is None:
        return _missing(len(start))
    ordered = np.sort(ticks(times))
    return np.searchsorted(ordered, ticks(stop), side="left") - np.searchsorted(ordered, ticks(start), side="left")


def _window_mean(values: np.ndarray | None, starts: np.ndarray, stops: np.ndarray):  # type: ignore[no-untyped-def]
    if values is None:
        return _missing(len(starts))
    total = np.concatenate([[0.0], np.cumsum(np.nan_to_num(values.astype(np.float64)))])
    return (total[stops] - total[starts]) / (stops - starts)
