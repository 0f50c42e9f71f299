"""Reading the curves of a session: special views where there are some, the arrays' own curves otherwise."""

from __future__ import annotations

from storyframes.features import CLOCK
from storyframes.recording_times import last_frame_end_s
from storyframes.store.feature_store import FeatureStore
from tasks.inspect.curves.array_curves import read_array_curves
from tasks.inspect.curves.session_curves import SessionCurves
from tasks.inspect.curves.views import VIEWS, is_text_vectors, read_speech
from tasks.inspect.stored_feature import StoredFeature


def read_curves(store: FeatureStore, session_id: str) -> SessionCurves:
    """The session's curves.

    Raises:
        StoreError: the session has no clock (``frames``), or an array cannot be read.
    """
    time = store.read(session_id, CLOCK, array="time")
    curves = SessionCurves(session_id, time, last_frame_end_s(time))
    unused = list(VIEWS)
    for name in store.features(session_id):
        if name == CLOCK:
            continue
        feature = StoredFeature.of(store, session_id, name)
        if not _fits(feature, curves):
            continue
        read_speech(feature, curves)
        view = next((view for view in unused if view.shows(feature)), None)
        if view is not None:
            unused.remove(view)  # one face, one sound: a second feature of the kind is shown by its own arrays
            view.read(feature, curves)
        elif not is_text_vectors(feature):
            curves.others += read_array_curves(feature, time)
    return curves


def _fits(feature: StoredFeature, curves: SessionCurves) -> bool:
    """Whether the per-frame arrays have the clock's length; others belong to an older recording."""
    rows = feature.frame_rows()
    if rows is None or rows == len(curves.time):
        return True
    curves.troubles.append(f"{feature.name} has {rows} rows, but there are {len(curves.time)} frames: extract it again")
    return False
