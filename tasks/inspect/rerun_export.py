"""A session as a rerun.io recording: frames, landmarks, poses and curves on one timeline, to walk through.

Needs rerun-sdk (the extra ``storyframes[view]``). The recording holds pictures of the session.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import rerun as rr

from storyframes.store.feature_store import FeatureStore
from tasks.inspect.curves.read import read_curves
from tasks.inspect.curves.session_curves import SessionCurves
from tasks.inspect.curves.views import ACTION_UNITS
from tasks.inspect.picture_points import picture_points
from tasks.media.recording import read_frames

_TIME = "time"
_BATCH = 16
_JPEG = [cv2.IMWRITE_JPEG_QUALITY, 80]


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
        _write_points(recording, store, curves)
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
    def write(names: list[str], time: np.ndarray, values: np.ndarray) -> None:
        there = np.isfinite(values)
        if there.any():
            path = rr.new_entity_path(["curves", *names])
            column = rr.TimeColumn(_TIME, duration=time[there])
            recording.send_columns(path, [column], rr.Scalars.columns(scalars=values[there]))

    if curves.confidence is not None:
        write(["face", "confidence"], curves.time, curves.confidence)
    if curves.head_pose is not None:
        for name, values in zip(("pitch", "yaw", "roll"), curves.head_pose.T, strict=True):
            write(["head", name], curves.time, values)
    if curves.gaze is not None:
        for name, values in zip(("sideways", "vertical"), curves.gaze.T, strict=True):
            write(["gaze", name], curves.time, values)
    if curves.action_units is not None:
        for name, values in zip(ACTION_UNITS, curves.action_units.T, strict=True):
            write(["action_units", name.removesuffix("_r")], curves.time, values)
    if curves.change is not None:
        write(["picture_change"], curves.time, curves.change)
    if curves.sound_time is not None:
        for name, sound in (("loudness_db", curves.loudness), ("f0_hz", curves.f0)):
            if sound is not None:
                write(["sound", name], curves.sound_time, sound)
    for one in curves.others:
        for name, values in zip(one.names, one.values.T, strict=True):
            if one.time is not None:
                write([one.feature, one.array, name], one.time, values)


def _write_points(recording: rr.RecordingStream, store: FeatureStore, curves: SessionCurves) -> None:
    for one in picture_points(store, curves.session_id):
        if one.feature.frame_rows() != len(curves.time):
            continue  # of an older recording
        path = rr.new_entity_path(["video", *one.name.split("/")])
        for number, time in enumerate(curves.time.tolist()):
            recording.set_time(_TIME, duration=time)
            points, colour = one.at(number), one.colour_at(number)
            if one.bones:
                recording.log(path, rr.LineStrips2D(_lines(points, one.bones), colors=[colour]))
            else:
                there = points[np.isfinite(points).all(axis=1)]
                recording.log(path, rr.Points2D(there, colors=[colour], radii=1))


def _lines(points: np.ndarray, bones: tuple[tuple[int, int], ...]) -> list[np.ndarray]:
    return [points[[start, end]] for start, end in bones if np.isfinite(points[[start, end]]).all()]


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
