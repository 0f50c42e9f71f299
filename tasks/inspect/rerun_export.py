"""A session as a rerun.io recording: frames, landmarks, poses and curves of every track on one timeline.

Needs rerun-sdk (the extra ``storyframes[view]``). The recording holds pictures of the session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import rerun as rr

from storyframes.store.feature_store import FeatureStore
from storyframes.times import SESSION_CLOCK, Clock
from storyframes.tracks import MAIN
from tasks.inspect.overlay import picture_points
from tasks.inspect.read_curves import read_curves
from tasks.inspect.session_curves import ACTION_UNITS, SessionCurves
from tasks.media.recording import read_frames

_TIME = "time"
_BATCH = 16
_JPEG = [cv2.IMWRITE_JPEG_QUALITY, 80]


@dataclass(frozen=True)
class ExportedTrack:
    """One track of the recording.

    Attributes:
        name: ``main`` lies at the top, another track below its own name.
        video: for the frames; None leaves them out.
        clock: how its seconds become those of the timeline, which are the session's.
    """

    name: str = MAIN
    video: Path | None = None
    clock: Clock = SESSION_CLOCK


def export_recording(
    store: FeatureStore,
    session_id: str,
    tracks: Sequence[ExportedTrack],
    out: Path,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, int]:
    """Write the session's recording to ``out``.

    Args:
        store: its features.
        session_id: which.
        tracks: what goes in.
        out: the ``.rrd`` file, replaced when the new one is whole.
        progress: called with (frames done, of how many) of a track.

    Returns:
        How many frames each track has.

    Raises:
        StoreError: a track has no ``frames``, or an array cannot be read.
        RecordingError: a video cannot be read.
        OSError: ``out`` cannot be written.
    """
    of_tracks = [_Exported(read_curves(store, session_id, track.name), track) for track in tracks]
    building = out.with_name(f".{out.name}.tmp")
    recording = rr.RecordingStream("storyframes", recording_id=session_id, send_properties=False)
    try:
        recording.set_log_time_enabled(False)  # when it was exported is nobody's timeline
        recording.save(building)
        for one in of_tracks:
            _write_curves(recording, one)
            _write_points(recording, store, one)
            if one.track.video is not None:
                _write_frames(recording, one.track.video, one, progress)
        recording.flush()
        recording.disconnect()
        building.chmod(0o600)
        building.replace(out)
    finally:
        building.unlink(missing_ok=True)
    return {one.track.name: len(one.curves.time) for one in of_tracks}


@dataclass(frozen=True)
class _Exported:
    """The curves of a track, and where and when the recording has them."""

    curves: SessionCurves
    track: ExportedTrack

    def path(self, *parts: str) -> str:
        return rr.new_entity_path([*([] if self.track.name == MAIN else [self.track.name]), *parts])

    @property
    def frame_times(self) -> list[float]:
        """Seconds of the session, of each frame."""
        return self.track.clock.to_session(self.curves.time).tolist()


def _write_curves(recording: rr.RecordingStream, one_track: _Exported) -> None:
    curves = one_track.curves

    def write(names: list[str], time: np.ndarray, values: np.ndarray) -> None:
        there = np.isfinite(values)
        if there.any():
            path = one_track.path("curves", *names)
            column = rr.TimeColumn(_TIME, duration=one_track.track.clock.to_session(time[there]))
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


def _write_points(recording: rr.RecordingStream, store: FeatureStore, one_track: _Exported) -> None:
    times = one_track.frame_times
    for one in picture_points(store, one_track.curves.session_id, one_track.track.name):
        if one.feature.frame_rows() != len(times):
            continue  # of an older recording
        path = one_track.path("video", *one.name.split("/"))
        for number, time in enumerate(times):
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
    recording: rr.RecordingStream, video: Path, one_track: _Exported, progress: Callable[[int, int], None]
) -> None:
    times = one_track.frame_times
    path = one_track.path("video", "frame")
    for batch in read_frames(video, _BATCH, allow_truncated=True):
        for number, picture in enumerate(batch.rgb, start=batch.first):
            if number >= len(times):
                return
            _, content = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), _JPEG)
            recording.set_time(_TIME, duration=times[number])
            recording.log(path, rr.EncodedImage(contents=content.tobytes(), media_type="image/jpeg"))
        progress(batch.first + len(batch), len(times))
