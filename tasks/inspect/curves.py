"""One session's features as a few curves over time: what a person looks at, and what quality is judged by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from storyframes.features import FEATURES
from storyframes.recording_times import last_frame_end_s
from storyframes.store.feature_store import FeatureStore

_BLOCK = 4096  # rows read at once: a long session's 2048 columns never lie in memory together
_OPENFACE = FEATURES["openface"].columns
ACTION_UNITS = tuple(column for column in _OPENFACE if column.startswith("AU") and column.endswith("_r"))
_POSE = tuple(_OPENFACE.index(name) for name in ("pose_Rx", "pose_Ry", "pose_Rz"))
_GAZE = tuple(_OPENFACE.index(name) for name in ("gaze_angle_x", "gaze_angle_y"))
_UNITS = tuple(_OPENFACE.index(name) for name in ACTION_UNITS)
_QUIETEST_DB = -100.0


@dataclass(frozen=True)
class Utterances:
    """Who spoke when: (U,) seconds, and each one's speaker as the store labels it."""

    start_s: np.ndarray
    end_s: np.ndarray
    speakers: Sequence[str]


@dataclass
class SessionCurves:
    """The curves of a session; None where the store has not the feature.

    Attributes:
        time: (T,) float64 seconds, the frames' times.
        end_s: when the last frame ends.
        tracked: (T,) bool, a face was tracked.
        confidence: (T,) float32 0..1.
        head_pose: (T, 3) float32 degrees: pitch, yaw, roll; NaN where no face was tracked, as in the next two.
        gaze: (T, 2) float32 degrees: to the side, up and down.
        action_units: (T, 17) float32 0..5, in the order of :data:`ACTION_UNITS`.
        change: (T,) float32, the distance between the frame's ResNet50 vector and the one before, relative to the
            vectors' mean norm; NaN for the first.
        body, hands: (T,) int8, how many of the participant's DOPE found; -1 in frames it did not look at.
        sound_time: (A,) float64 seconds, one row per 10 ms.
        loudness: (A,) float32, dB below full scale.
        f0: (A,) float32 Hz, NaN where the voice has no pitch.
        sound_end_s: when the sound ends.
        utterances: of the transcript.
        words: how many.
        clipped: (start, stop) seconds at which samples are at full scale; None where the samples were not looked at.
        troubles: what does not fit together, for a person.
    """

    session_id: str
    time: np.ndarray
    end_s: float
    tracked: np.ndarray | None = None
    confidence: np.ndarray | None = None
    head_pose: np.ndarray | None = None
    gaze: np.ndarray | None = None
    action_units: np.ndarray | None = None
    change: np.ndarray | None = None
    body: np.ndarray | None = None
    hands: np.ndarray | None = None
    sound_time: np.ndarray | None = None
    loudness: np.ndarray | None = None
    f0: np.ndarray | None = None
    sound_end_s: float | None = None
    utterances: Utterances | None = None
    words: int | None = None
    clipped: tuple[tuple[float, float], ...] | None = None
    troubles: list[str] = field(default_factory=list)


def read_curves(store: FeatureStore, session_id: str) -> SessionCurves:
    """The session's curves.

    Raises:
        StoreError: the session has no ``frames``, or an array cannot be read.
    """
    time = store.read(session_id, "frames", array="time")
    curves = SessionCurves(session_id, time, last_frame_end_s(time))
    readers = {
        "openface": _read_openface,
        "resnet50": _read_resnet50,
        "dope": _read_dope,
        "opensmile": _read_opensmile,
        "glove": _read_glove,
        "sbert": _read_sbert,
    }
    for feature in store.features(session_id):
        if feature in readers and _fits(store, curves, feature):
            readers[feature](store, curves)
    return curves


def _fits(store: FeatureStore, curves: SessionCurves, feature: str) -> bool:
    """Whether a per-frame feature has the clock's length; another one belongs to an older recording."""
    array = {"dope": "sampled", "opensmile": "per_frame", "glove": "frame_word", "sbert": "frame_utterance"}
    rows = store.array(curves.session_id, feature, array.get(feature, "values")).shape[0]
    if rows != len(curves.time):
        trouble = f"{feature} has {rows} rows, but there are {len(curves.time)} frames: extract it again"
        curves.troubles.append(trouble)
    return rows == len(curves.time)


def _blocks(store: FeatureStore, session_id: str, feature: str, rows: int, *, overlap: int = 0) -> Iterator[np.ndarray]:
    for start in range(0, rows, _BLOCK):
        yield store.read(session_id, feature, max(start - overlap, 0), min(start + _BLOCK, rows))


def _read_openface(store: FeatureStore, curves: SessionCurves) -> None:
    session_id = curves.session_id
    curves.tracked = store.read(session_id, "openface", array="valid") > 0
    curves.confidence = store.read(session_id, "openface", array="confidence")
    wanted = [*_POSE, *_GAZE, *_UNITS]
    blocks = [block[:, wanted] for block in _blocks(store, session_id, "openface", len(curves.time))]
    values = np.concatenate(blocks) if blocks else np.empty((0, len(wanted)), np.float32)
    values[~curves.tracked] = np.nan  # not measurements
    curves.head_pose = np.degrees(values[:, :3])
    curves.gaze = np.degrees(values[:, 3:5])
    curves.action_units = values[:, 5:]


def _read_resnet50(store: FeatureStore, curves: SessionCurves) -> None:
    rows = len(curves.time)
    change = np.full(rows, np.nan, np.float32)
    norms, position = 0.0, 0
    for block in _blocks(store, curves.session_id, "resnet50", rows, overlap=1):
        values = block.astype(np.float32)
        steps = np.linalg.norm(np.diff(values, axis=0), axis=1)
        first = position if position else 1  # the row before the block came with it, save for the first block
        change[first : first + len(steps)] = steps
        fresh = values[1:] if position else values
        norms += float(np.linalg.norm(fresh, axis=1).sum())
        position += len(fresh)
    curves.change = change / (norms / rows) if norms else change


def _read_dope(store: FeatureStore, curves: SessionCurves) -> None:
    sampled = store.read(curves.session_id, "dope", array="sampled") > 0

    def found(array: str) -> np.ndarray:
        there = np.isfinite(store.read(curves.session_id, "dope", array=array))
        return np.where(sampled, there.reshape(len(there), -1).sum(axis=1), -1).astype(np.int8)

    curves.body, curves.hands = found("body_score"), found("hands_score")


def _read_opensmile(store: FeatureStore, curves: SessionCurves) -> None:
    session_id = curves.session_id
    named: Any = store.open_group(session_id, "opensmile")["values"].attrs.get("columns", ())
    columns = list(named)
    values = store.read(session_id, "opensmile")
    time = curves.sound_time = store.read(session_id, "opensmile", array="time")
    if len(time):
        # A row's window is 60 ms long and starts at its time; the last one ends with the sound.
        curves.sound_end_s = float(time[-1]) + 0.06
    if "pcm_RMSenergy_sma" in columns:
        energy = values[:, columns.index("pcm_RMSenergy_sma")]
        curves.loudness = 20 * np.log10(np.maximum(energy, 10 ** (_QUIETEST_DB / 20)))
    if "F0final_sma" in columns:
        pitch = values[:, columns.index("F0final_sma")]
        curves.f0 = np.where(pitch > 0, pitch, np.nan)


def _read_glove(store: FeatureStore, curves: SessionCurves) -> None:
    curves.words = store.array(curves.session_id, "glove", "start").shape[0]


def _read_sbert(store: FeatureStore, curves: SessionCurves) -> None:
    def read(array: str) -> np.ndarray:
        return store.read(curves.session_id, "sbert", array=array)

    names = list(store.attributes(curves.session_id, "sbert").get("speakers", ()))
    labels = [str(names[number]) if 0 <= number < len(names) else "speaker ?" for number in read("speaker")]
    curves.utterances = Utterances(read("start"), read("end"), labels)
