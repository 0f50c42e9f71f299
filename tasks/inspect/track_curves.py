"""Reading the curves of a track: special views for faces, poses, sound and speech, else a curve for each column.

A view is chosen by the names of a feature's arrays and columns, not by the feature's own: any feature with OpenFace's
columns is shown as OpenFace is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from storyframes.array_roles import LEVEL, loudness_db
from storyframes.face_tracking import face_landmarks, face_rule
from storyframes.features import CLOCK, COMPARE_2016_COLUMNS, in_order
from storyframes.spec import MAIN, MAIN_ARRAY, Axis, of_track
from storyframes.store.feature_store import FeatureStore
from storyframes.store.records import Caveat, Status
from storyframes.times import last_frame_end_s
from tasks.inspect.array_curves import read_array_curves, read_heat_map, read_scores, row_change
from tasks.inspect.session_curves import ACTION_UNITS, FaceCurves, SessionCurves, Utterances
from tasks.inspect.stored_feature import StoredFeature

_POSE = ("pose_Rx", "pose_Ry", "pose_Rz")
_GAZE = ("gaze_angle_x", "gaze_angle_y")
_FACE = (*_POSE, *_GAZE, *ACTION_UNITS)
_PICTURE = "resnet50_0000"
_TEXT_VECTORS = ("glove_000", "sbert_000")
_PITCH = "F0final_sma"
_WINDOW_S = 0.06  # of sound for each row of openSMILE's, from the row's time
_BLOCK = 512  # rows read at once


def read_curves(store: FeatureStore, session_id: str, track: str = MAIN) -> SessionCurves:
    """The curves of one track of a session, in seconds of the track's own recording.

    Raises:
        StoreError: the track has no clock (``frames``; a microphone needs none), or an array cannot be read.
    """
    time = np.empty(0)
    if _has_picture(store, session_id, track):
        time = store.read(session_id, of_track(CLOCK, track), array="time")
    curves = SessionCurves(session_id, time, last_frame_end_s(time), track=track)
    unused = list(VIEWS)
    for name in store.features(session_id, track):
        if name == CLOCK:
            continue
        feature = StoredFeature.of(store, session_id, of_track(name, track))
        if not _fits(feature, curves):
            continue
        _read_speech(feature, curves)
        if {"region", "doubtful_s"} & feature.attributes.keys():
            doubtful = _stretches(feature.attributes.get("doubtful_s", ()))
            curves.doubtful = tuple(sorted({*(curves.doubtful or ()), *doubtful}))
        curves.faces += _faces(feature)
        view = next((view for view in unused if view.shows(feature)), None)
        if view is not None:
            unused.remove(view)  # a second feature of the kind is shown by its own arrays
            view.read(feature, curves)
        elif not _is_text_vectors(feature):
            curves.others += read_array_curves(feature, time)
            curves.scores += read_scores(feature, time)
        if (heat_map := read_heat_map(feature, time)) is not None:
            curves.heat_maps.append(heat_map)
    order = in_order(face.feature for face in curves.faces)
    curves.faces.sort(key=lambda face: order.index(face.feature))
    return curves


def has_curves(store: FeatureStore, session_id: str, track: str = MAIN) -> bool:
    """Whether a track has times for its curves: its frames', or without a picture the sound's."""
    clock = of_track(CLOCK, track)
    return store.has(session_id, clock) or (
        not _has_picture(store, session_id, track) and bool(store.features(session_id, track))
    )


def _has_picture(store: FeatureStore, session_id: str, track: str) -> bool:
    """Whether the track has frames, or should have: a session's own files unless the study names no video of it."""
    clock = of_track(CLOCK, track)
    status = next((entry.status for entry in store.statuses(session_id) if entry.feature == clock), None)
    return track == MAIN if status is None else status is not Status.MISSING


def _stretches(stored: Any) -> tuple[tuple[float, float], ...]:
    """Stretches of seconds from an attribute; none where it has something else."""
    try:
        return tuple((float(start), float(stop)) for start, stop in stored)
    except (TypeError, ValueError):
        return ()


def _faces(feature: StoredFeature) -> list[FaceCurves]:
    """The frames and squares of the face that the feature tracks, if any."""
    rule, landmarks = face_rule(feature.spec), face_landmarks(feature.spec)
    if rule is None:
        return []
    tracked = rule.tracked(feature.read)
    if landmarks is None:
        return [FaceCurves(feature.name, tracked)]
    blocks = [landmarks.squares(block) for block in feature.blocks(landmarks.array, _BLOCK)]
    squares = np.concatenate(blocks) if blocks else np.empty((0, 3), np.float32)
    squares[tracked != 1] = np.nan  # after a face is lost, its last landmarks remain
    return [FaceCurves(feature.name, tracked, squares)]


def _fits(feature: StoredFeature, curves: SessionCurves) -> bool:
    """Whether the per-frame arrays have the clock's length; others are of an older recording."""
    rows = feature.frame_rows()
    if rows is None:
        return True
    curves.frame_features += 1
    if rows == len(curves.time):
        return True
    curves.troubles.append(f"{feature.name} has {rows} rows, but there are {len(curves.time)} frames: extract it again")
    return False


@dataclass(frozen=True)
class View:
    """One kind of feature."""

    shows: Callable[[StoredFeature], bool]  # whether a feature is of this kind
    read: Callable[[StoredFeature, SessionCurves], None]  # fills in the curves


def _has(feature: StoredFeature, axis: Axis, *arrays: str) -> bool:
    specs = feature.spec.arrays
    return all(name in specs and specs[name].axis is axis for name in arrays)


# --- a face, with OpenFace's columns ---


def _is_face(feature: StoredFeature) -> bool:
    masked = bool(feature.spec.mask) and _has(feature, Axis.FRAME, MAIN_ARRAY, "confidence", feature.spec.mask)
    return masked and set(_FACE) <= set(feature.spec.columns)


def _read_face(feature: StoredFeature, curves: SessionCurves) -> None:
    columns = [feature.spec.columns.index(name) for name in _FACE]
    curves.tracked = feature.read(feature.spec.mask) > 0
    curves.confidence = feature.read("confidence")
    blocks = [block[:, columns] for block in feature.blocks(MAIN_ARRAY, _BLOCK)]
    values = np.concatenate(blocks) if blocks else np.empty((0, len(columns)), np.float32)
    values[~curves.tracked] = np.nan  # not measurements
    curves.head_pose = np.degrees(values[:, :3])
    curves.gaze = np.degrees(values[:, 3:5])
    curves.action_units = values[:, 5:]


# --- the picture as a whole ---


def _is_picture(feature: StoredFeature) -> bool:
    return _has(feature, Axis.FRAME, MAIN_ARRAY) and _PICTURE in feature.spec.columns


def _read_picture(feature: StoredFeature, curves: SessionCurves) -> None:
    curves.change = row_change(feature, MAIN_ARRAY).astype(np.float32)


# --- poses, with DOPE's arrays ---


def _is_poses(feature: StoredFeature) -> bool:
    mask = feature.spec.mask
    return bool(mask) and _has(feature, Axis.FRAME, "body_score", "hands_score", mask)


def _read_poses(feature: StoredFeature, curves: SessionCurves) -> None:
    is_sampled = feature.read(feature.spec.mask) > 0

    def detected(array: str) -> np.ndarray:
        has_score = np.isfinite(feature.read(array))
        return np.where(is_sampled, has_score.reshape(len(has_score), -1).sum(axis=1), -1).astype(np.int8)

    curves.body, curves.hands = detected("body_score"), detected("hands_score")


# --- sound, with openSMILE's columns ---


def _is_sound(feature: StoredFeature) -> bool:
    if not _has(feature, Axis.AUDIO_FRAME, MAIN_ARRAY, "time"):
        return False
    return "feature_set" in feature.attributes or feature.spec.columns == COMPARE_2016_COLUMNS


def _read_sound(feature: StoredFeature, curves: SessionCurves) -> None:
    columns = feature.spec.columns
    time = curves.sound_time = feature.read("time")
    if len(time):
        curves.sound_end_s = float(time[-1]) + _WINDOW_S  # the last one ends with the sound
    drawn = [columns.index(name) for name in (LEVEL, _PITCH) if name in columns]
    blocks = [block[:, drawn] for block in feature.blocks(MAIN_ARRAY, _BLOCK)]
    values = dict(zip(drawn, np.concatenate([np.empty((0, len(drawn)), np.float32), *blocks]).T, strict=True))
    if LEVEL in columns:
        curves.loudness = loudness_db(values[columns.index(LEVEL)])
    if _PITCH in columns:
        pitch = values[columns.index(_PITCH)]
        curves.f0 = np.where(pitch > 0, pitch, np.nan)


# --- speech: the times of any feature of words or utterances; its vectors are not drawn ---


def _read_speech(feature: StoredFeature, curves: SessionCurves) -> None:
    """The words and the utterances, from the first feature that has them."""
    if curves.words is None and _has(feature, Axis.WORD, "start", "end"):
        curves.words = _read_spans(feature, _has(feature, Axis.WORD, "speaker"))
    if curves.utterances is None and _has(feature, Axis.UTTERANCE, "start", "end", "speaker"):
        curves.utterances = _read_spans(feature)


def _read_spans(feature: StoredFeature, has_speakers: bool = True) -> Utterances:
    names = list(feature.attributes.get("speakers", ()))
    speaker = feature.read("speaker") if has_speakers else [-1] * feature.rows("start")
    labels = [str(names[number]) if 0 <= number < len(names) else "speaker ?" for number in speaker]
    interpolated = Caveat.INTERPOLATED_WORD_TIMES in feature.attributes.get("stamps", ())
    return Utterances(feature.read("start"), feature.read("end"), labels, interpolated)


def _is_text_vectors(feature: StoredFeature) -> bool:
    """Vectors that change completely from row to row, so that a curve of them has no meaning."""
    return not set(_TEXT_VECTORS).isdisjoint(feature.spec.columns)


VIEWS = (
    View(_is_face, _read_face),
    View(_is_picture, _read_picture),
    View(_is_poses, _read_poses),
    View(_is_sound, _read_sound),
)
"""Each shows at most one feature of a session."""
