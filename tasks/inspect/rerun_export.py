"""A session as a rerun.io recording: frames, landmarks, poses and curves on one timeline, to walk through.

Needs rerun-sdk (the extra ``storyframes[view]``). The recording holds pictures of the session.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import rerun as rr

from storyframes.features import FEATURES
from storyframes.store.feature_store import FeatureStore
from tasks.extractors.dope.joints import BODY_BONES, HAND_BONES
from tasks.inspect.curves import ACTION_UNITS, SessionCurves, read_curves
from tasks.media.recording import read_frames

_TIME = "time"
_BATCH = 16
_JPEG = [cv2.IMWRITE_JPEG_QUALITY, 80]
_BODY, _HANDS = (255, 160, 0), ((255, 0, 120), (120, 0, 255))
_LANDMARKS, _LOST = (0, 220, 0), (128, 128, 128)


def export_recording(
    store: FeatureStore,
    session_id: str,
    video: Path | None,
    out: Path,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> int:
    """Write the session's recording to ``out``.

    Args:
        store: its features.
        session_id: which.
        video: for the frames; None leaves them out.
        out: the ``.rrd`` file, replaced when the new one is whole.
        progress: called with (frames done, of how many).

    Returns:
        How many frames it has.

    Raises:
        StoreError: the session has no ``frames``.
        RecordingError: the video cannot be read.
        OSError: ``out`` cannot be written.
    """
    curves = read_curves(store, session_id)
    building = out.with_name(f".{out.name}.tmp")
    recording = rr.RecordingStream("storyframes", recording_id=session_id, send_properties=False)
    try:
        recording.set_log_time_enabled(False)  # when it was exported is nobody's timeline
        recording.save(building)
        _write_curves(recording, curves)
        _write_landmarks(recording, store, curves)
        _write_poses(recording, store, curves)
        if video is not None:
            _write_frames(recording, video, curves, progress)
        recording.flush()
        recording.disconnect()
        building.chmod(0o600)
        building.replace(out)
    finally:
        building.unlink(missing_ok=True)
    return len(curves.time)


def _write_curves(recording: rr.RecordingStream, curves: SessionCurves) -> None:
    def write(name: str, time: np.ndarray, values: np.ndarray) -> None:
        there = np.isfinite(values)
        if there.any():
            column = rr.TimeColumn(_TIME, duration=time[there])
            recording.send_columns(f"curves/{name}", [column], rr.Scalars.columns(scalars=values[there]))

    if curves.confidence is not None:
        write("face/confidence", curves.time, curves.confidence)
    if curves.head_pose is not None:
        for name, values in zip(("pitch", "yaw", "roll"), curves.head_pose.T, strict=True):
            write(f"head/{name}", curves.time, values)
    if curves.gaze is not None:
        for name, values in zip(("sideways", "vertical"), curves.gaze.T, strict=True):
            write(f"gaze/{name}", curves.time, values)
    if curves.action_units is not None:
        for name, values in zip(ACTION_UNITS, curves.action_units.T, strict=True):
            write(f"action_units/{name.removesuffix('_r')}", curves.time, values)
    if curves.change is not None:
        write("picture_change", curves.time, curves.change)
    if curves.sound_time is not None:
        for name, sound in (("loudness_db", curves.loudness), ("f0_hz", curves.f0)):
            if sound is not None:
                write(f"sound/{name}", curves.sound_time, sound)


def _write_landmarks(recording: rr.RecordingStream, store: FeatureStore, curves: SessionCurves) -> None:
    if curves.tracked is None:
        return
    place = FEATURES["openface"].groups["landmarks_2d"]
    for number, time in enumerate(curves.time.tolist()):
        values = store.read(curves.session_id, "openface", number, number + 1)[0]
        points = values[place].reshape(2, 68).T
        recording.set_time(_TIME, duration=time)
        colour = _LANDMARKS if curves.tracked[number] else _LOST
        recording.log("video/landmarks", rr.Points2D(points[np.isfinite(points).all(axis=1)], colors=[colour], radii=1))


def _write_poses(recording: rr.RecordingStream, store: FeatureStore, curves: SessionCurves) -> None:
    if curves.body is None:
        return
    for number, time in enumerate(curves.time.tolist()):
        recording.set_time(_TIME, duration=time)

        def pose(array: str, number: int = number) -> np.ndarray:
            return store.read(curves.session_id, "dope", number, number + 1, array=array)[0]

        recording.log("video/body", rr.LineStrips2D(_bones(pose("body_2d"), BODY_BONES), colors=[_BODY]))
        for side, hand, colour in zip(("left", "right"), pose("hands_2d"), _HANDS, strict=True):
            recording.log(f"video/hands/{side}", rr.LineStrips2D(_bones(hand, HAND_BONES), colors=[colour]))


def _bones(joints: np.ndarray, bones: tuple[tuple[int, int], ...]) -> list[np.ndarray]:
    return [joints[[start, end]] for start, end in bones if np.isfinite(joints[[start, end]]).all()]


def _write_frames(
    recording: rr.RecordingStream, video: Path, curves: SessionCurves, progress: Callable[[int, int], None]
) -> None:
    for batch in read_frames(video, _BATCH, allow_truncated=True):
        for number, picture in enumerate(batch.rgb, start=batch.first):
            if number >= len(curves.time):
                return
            _, content = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), _JPEG)
            recording.set_time(_TIME, duration=float(curves.time[number]))
            recording.log("video/frame", rr.EncodedImage(contents=content.tobytes(), media_type="image/jpeg"))
        progress(batch.first + len(batch), len(curves.time))
