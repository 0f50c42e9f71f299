"""What is known how to show well: faces, poses, sound, speech. A view is chosen by what the store says of a feature.

It is the names of arrays and columns that decide, not the feature's own: whoever writes OpenFace's columns is shown as
OpenFace is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from storyframes.features import COMPARE_2016_COLUMNS, OPENFACE_COLUMNS
from storyframes.spec import MAIN_ARRAY, Axis
from tasks.inspect.curves.array_curves import row_change
from tasks.inspect.curves.session_curves import SessionCurves, Utterances
from tasks.inspect.stored_feature import StoredFeature

ACTION_UNITS = tuple(column for column in OPENFACE_COLUMNS if column.startswith("AU") and column.endswith("_r"))
_POSE = ("pose_Rx", "pose_Ry", "pose_Rz")
_GAZE = ("gaze_angle_x", "gaze_angle_y")
_FACE = (*_POSE, *_GAZE, *ACTION_UNITS)
_PICTURE = "resnet50_0000"
_TEXT_VECTORS = ("glove_000", "sbert_000")
_LEVEL, _PITCH = "pcm_RMSenergy_sma", "F0final_sma"
_WINDOW_S = 0.06  # of the sound that a row of openSMILE's is about, from its time on
_QUIETEST_DB = -100.0
_BLOCK = 4096  # rows read at once


@dataclass(frozen=True)
class View:
    """One kind of feature.

    Attributes:
        shows: whether a feature is of this kind.
        read: fills in the curves.
    """

    shows: Callable[[StoredFeature], bool]
    read: Callable[[StoredFeature, SessionCurves], None]


def _has(feature: StoredFeature, axis: Axis, *arrays: str) -> bool:
    there = feature.spec.arrays
    return all(name in there and there[name].axis is axis for name in arrays)


# --- a face, as OpenFace describes it ---


def _is_face(feature: StoredFeature) -> bool:
    masked = bool(feature.spec.mask) and _has(feature, Axis.FRAME, MAIN_ARRAY, "confidence", feature.spec.mask)
    return masked and set(_FACE) <= set(feature.spec.columns)


def _read_face(feature: StoredFeature, curves: SessionCurves) -> None:
    wanted = [feature.spec.columns.index(name) for name in _FACE]
    curves.tracked = feature.read(feature.spec.mask) > 0
    curves.confidence = feature.read("confidence")
    blocks = [block[:, wanted] for block in feature.blocks(MAIN_ARRAY, _BLOCK)]
    values = np.concatenate(blocks) if blocks else np.empty((0, len(wanted)), np.float32)
    values[~curves.tracked] = np.nan  # not measurements
    curves.head_pose = np.degrees(values[:, :3])
    curves.gaze = np.degrees(values[:, 3:5])
    curves.action_units = values[:, 5:]


# --- the picture as a whole ---


def _is_picture(feature: StoredFeature) -> bool:
    return _has(feature, Axis.FRAME, MAIN_ARRAY) and _PICTURE in feature.spec.columns


def _read_picture(feature: StoredFeature, curves: SessionCurves) -> None:
    curves.change = row_change(feature, MAIN_ARRAY).astype(np.float32)


# --- poses, as DOPE finds them ---


def _is_poses(feature: StoredFeature) -> bool:
    mask = feature.spec.mask
    return bool(mask) and _has(feature, Axis.FRAME, "body_score", "hands_score", mask)


def _read_poses(feature: StoredFeature, curves: SessionCurves) -> None:
    looked_at = feature.read(feature.spec.mask) > 0

    def found(array: str) -> np.ndarray:
        there = np.isfinite(feature.read(array))
        return np.where(looked_at, there.reshape(len(there), -1).sum(axis=1), -1).astype(np.int8)

    curves.body, curves.hands = found("body_score"), found("hands_score")


# --- sound, as openSMILE describes it ---


def _is_sound(feature: StoredFeature) -> bool:
    if not _has(feature, Axis.AUDIO_FRAME, MAIN_ARRAY, "time"):
        return False
    return "feature_set" in feature.attributes or feature.spec.columns == COMPARE_2016_COLUMNS


def _read_sound(feature: StoredFeature, curves: SessionCurves) -> None:
    columns = feature.spec.columns
    time = curves.sound_time = feature.read("time")
    if len(time):
        curves.sound_end_s = float(time[-1]) + _WINDOW_S  # the last one ends with the sound
    values = feature.read(MAIN_ARRAY)
    if _LEVEL in columns:
        energy = values[:, columns.index(_LEVEL)]
        curves.loudness = 20 * np.log10(np.maximum(energy, 10 ** (_QUIETEST_DB / 20)))
    if _PITCH in columns:
        pitch = values[:, columns.index(_PITCH)]
        curves.f0 = np.where(pitch > 0, pitch, np.nan)


# --- speech: any feature of words or utterances says who spoke when; the vectors themselves are nothing to look at ---


def read_speech(feature: StoredFeature, curves: SessionCurves) -> None:
    """How many words there are, and whose utterances, if the feature tells and none before it did."""
    if curves.words is None and _has(feature, Axis.WORD, "start", "end"):
        curves.words = feature.rows("start")
    if curves.utterances is None and _has(feature, Axis.UTTERANCE, "start", "end", "speaker"):
        names = list(feature.attributes.get("speakers", ()))
        speaker = feature.read("speaker")
        labels = [str(names[number]) if 0 <= number < len(names) else "speaker ?" for number in speaker]
        curves.utterances = Utterances(feature.read("start"), feature.read("end"), labels)


def is_text_vectors(feature: StoredFeature) -> bool:
    """Vectors that change altogether from row to row, so that a curve of them would say nothing."""
    return not set(_TEXT_VECTORS).isdisjoint(feature.spec.columns)


VIEWS = (
    View(_is_face, _read_face),
    View(_is_picture, _read_picture),
    View(_is_poses, _read_poses),
    View(_is_sound, _read_sound),
)
"""At most one feature of a session is shown by each of these."""
