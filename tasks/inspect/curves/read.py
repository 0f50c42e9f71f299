"""Reading the curves of a track: special views where there are some, the arrays' own curves otherwise."""

from __future__ import annotations

import numpy as np

from storyframes.face_tracking import face_landmarks, face_rule
from storyframes.features import CLOCK, in_order
from storyframes.store.feature_store import FeatureStore
from storyframes.times import last_frame_end_s
from storyframes.tracks import MAIN, of_track
from tasks.inspect.curves.array_curves import read_array_curves
from tasks.inspect.curves.heat_map import read_heat_map
from tasks.inspect.curves.session_curves import FaceCurves, SessionCurves
from tasks.inspect.curves.views import VIEWS, is_text_vectors, read_speech
from tasks.inspect.stored_feature import StoredFeature

_BLOCK = 2048  # rows of landmarks read at once


def read_curves(store: FeatureStore, session_id: str, track: str = MAIN) -> SessionCurves:
    """The curves of one track of a session, in seconds of the track's own recording.

    Raises:
        StoreError: the track has no clock (``frames``), or an array cannot be read. A microphone needs no clock.
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
        read_speech(feature, curves)
        curves.faces += _faces(feature)
        view = next((view for view in unused if view.shows(feature)), None)
        if view is not None:
            unused.remove(view)  # one face, one sound: a second feature of the kind is shown by its own arrays
            view.read(feature, curves)
        elif not is_text_vectors(feature):
            curves.others += read_array_curves(feature, time)
        if (heat_map := read_heat_map(feature, time)) is not None:
            curves.heat_maps.append(heat_map)
    order = in_order(face.feature for face in curves.faces)
    curves.faces.sort(key=lambda face: order.index(face.feature))
    return curves


def has_curves(store: FeatureStore, session_id: str, track: str = MAIN) -> bool:
    """Whether there is a clock to draw a track's curves by: its frames', or without a picture the sound's."""
    clock = of_track(CLOCK, track)
    return store.has(session_id, clock) or (
        not _has_picture(store, session_id, track) and bool(store.features(session_id, track))
    )


def _has_picture(store: FeatureStore, session_id: str, track: str) -> bool:
    """Whether frames of the track are there, or should be; a session's own files always have some."""
    return track == MAIN or of_track(CLOCK, track) in set(store.catalogue_of(session_id)["feature"])


def _faces(feature: StoredFeature) -> list[FaceCurves]:
    """Where the feature tracks a face, if it does."""
    rule, landmarks = face_rule(feature.spec), face_landmarks(feature.spec)
    if rule is None:
        return []
    tracked = rule.tracked(feature.read)
    if landmarks is None:
        return [FaceCurves(feature.name, tracked)]
    blocks = [landmarks.squares(block) for block in feature.blocks(landmarks.array, _BLOCK)]
    squares = np.concatenate(blocks) if blocks else np.empty((0, 3), np.float32)
    squares[tracked != 1] = np.nan  # a face that was lost leaves its last landmarks behind
    return [FaceCurves(feature.name, tracked, squares)]


def _fits(feature: StoredFeature, curves: SessionCurves) -> bool:
    """Whether the per-frame arrays have the clock's length; others belong to an older recording."""
    rows = feature.frame_rows()
    if rows is None:
        return True
    curves.frame_features += 1
    if rows == len(curves.time):
        return True
    curves.troubles.append(f"{feature.name} has {rows} rows, but there are {len(curves.time)} frames: extract it again")
    return False
