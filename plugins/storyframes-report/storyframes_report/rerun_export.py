"""A session as a rerun.io recording: frames, sound, landmarks, poses and curves of every track on one timeline.

Needs rerun-sdk (the extra ``storyframes-report[view]``). The recording contains pictures and sound of the session.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import av
import cv2
import numpy as np
import rerun as rr

from storyframes import MAIN, Clock, FeatureStore
from storyframes_report.devices import stored_streams
from storyframes_report.overlay import picture_points
from tasks.inspect import SessionCurves, read_curves
from tasks.media import NoAudioError, StreamChoice, read_audio, read_frames, read_header

_TIME = "time"
_BATCH = 16
_JPEG = [cv2.IMWRITE_JPEG_QUALITY, 80]
_SOUND_RATE = 16_000  # samples a second: speech


@dataclass(frozen=True)
class ExportedTrack:
    """One track of the recording."""

    name: str = MAIN  # paths of other tracks than main start with their names
    video: Path | None = None  # for the frames and the sound; None leaves them out
    sound: Path | None = None  # a file with the sound; None takes the video's own
    clock: Clock = Clock.SESSION  # from its seconds to those of the timeline, which are the session's


def export_recording(
    store: FeatureStore,
    session_id: str,
    tracks: Sequence[ExportedTrack],
    out: Path,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> dict[str, int]:
    """Write the session's recording to ``out``.

    Args:
        out: the ``.rrd`` file, replaced when the new one is complete.
        progress: called with (frames done, number of frames) of a track.

    Returns:
        The number of frames of each track.

    Raises:
        StoreError: a track has no ``frames``, or an array cannot be read.
        RecordingError: a video or its sound cannot be read.
        OSError: ``out`` cannot be written.
    """
    exported = [_Exported(read_curves(store, session_id, track.name), track) for track in tracks]
    building = out.with_name(f".{out.name}.tmp")
    recording = rr.RecordingStream("storyframes", recording_id=session_id, send_properties=False)
    try:
        recording.set_log_time_enabled(False)  # no timeline of the export itself
        recording.save(building)
        for each in exported:
            _write_curves(recording, each)
            _write_points(recording, store, each)
            streams = stored_streams(store, session_id, each.track.name)
            _write_sound(recording, each, streams)
            if each.track.video is not None:
                _write_frames(recording, each.track.video, each, streams, progress)
        recording.flush()
        recording.disconnect()
        building.chmod(0o600)
        building.replace(out)
    finally:
        building.unlink(missing_ok=True)
    return {each.track.name: len(each.curves.time) for each in exported}


@dataclass(frozen=True)
class _Exported:
    """The curves of a track, with their paths and times in the recording."""

    curves: SessionCurves
    track: ExportedTrack

    def path(self, *parts: str) -> str:
        return rr.new_entity_path([*([] if self.track.name == MAIN else [self.track.name]), *parts])

    @property
    def frame_times(self) -> list[float]:
        """The time of each frame in seconds of the session."""
        return self.track.clock.to_session(self.curves.time).tolist()


def _write_curves(recording: rr.RecordingStream, exported: _Exported) -> None:
    for path, time, values in _curves_by_path(exported.curves):
        is_finite = np.isfinite(values)
        if is_finite.any():
            column = rr.TimeColumn(_TIME, duration=exported.track.clock.to_session(time[is_finite]))
            scalars = rr.Scalars.columns(scalars=values[is_finite])
            recording.send_columns(exported.path("curves", *path), [column], scalars)


def _curves_by_path(curves: SessionCurves) -> Iterator[tuple[tuple[str, ...], np.ndarray, np.ndarray]]:
    """The path of each curve, with its times and values."""
    action_units = [name.removesuffix("_r") for name in SessionCurves.ACTION_UNITS]
    groups = (
        ("head", ("pitch", "yaw", "roll"), curves.head_pose),
        ("gaze", ("sideways", "vertical"), curves.gaze),
        ("action_units", action_units, curves.action_units),
    )
    if curves.confidence is not None:
        yield ("face", "confidence"), curves.time, curves.confidence
    for group, names, columns in groups:
        if columns is not None:
            for name, values in zip(names, columns.T, strict=True):
                yield (group, name), curves.time, values
    if curves.change is not None:
        yield ("picture_change",), curves.time, curves.change
    for name, sound in (("loudness_db", curves.loudness), ("f0_hz", curves.f0)):
        if sound is not None and curves.sound_time is not None:
            yield ("sound", name), curves.sound_time, sound
    for array in curves.others:
        if array.time is not None:
            for name, values in zip(array.names, array.values.T, strict=True):
                yield (array.feature, array.array, name), array.time, values


def _write_points(recording: rr.RecordingStream, store: FeatureStore, exported: _Exported) -> None:
    times = exported.frame_times
    for each in picture_points(store, exported.curves.session_id, exported.track.name):
        if each.feature.frame_rows() != len(times):
            continue  # of an older recording
        path = exported.path("video", *each.name.split("/"))
        for number, time in enumerate(times):
            recording.set_time(_TIME, duration=time)
            points, colour = each.at(number), each.colour_at(number)
            if each.bones:
                recording.log(path, rr.LineStrips2D(_lines(points, each.bones), colors=[colour]))
            else:
                finite = points[np.isfinite(points).all(axis=1)]
                recording.log(path, rr.Points2D(finite, colors=[colour], radii=1))


def _lines(points: np.ndarray, bones: tuple[tuple[int, int], ...]) -> list[np.ndarray]:
    return [points[[start, end]] for start, end in bones if np.isfinite(points[[start, end]]).all()]


def _write_sound(recording: rr.RecordingStream, exported: _Exported, streams: StreamChoice) -> None:
    """The sound as FLAC, mono; it plays at its own speed from its beginning on, whatever the drift of its clock."""
    track, source = exported.track, exported.track.sound or exported.track.video
    if source is None:
        return
    zero_s = None if track.sound or track.video is None else read_header(track.video, streams).start_s
    content = io.BytesIO()
    begin_s: float | None = None
    try:
        with av.open(content, "w", format="flac") as container:
            stream = container.add_stream("flac", rate=_SOUND_RATE, layout="mono")
            for block in read_audio(source, _SOUND_RATE, zero_s, streams=streams):
                begin_s = block.time if begin_s is None else begin_s
                samples = np.round(np.clip(block.samples, -1, 1) * 32767).astype(np.int16)
                if len(samples):
                    frame = av.AudioFrame.from_ndarray(samples[None], "s16", "mono")
                    frame.sample_rate = _SOUND_RATE
                    container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
    except NoAudioError:
        return
    recording.set_time(_TIME, duration=float(track.clock.to_session(begin_s or 0.0)))
    recording.log(exported.path("sound"), rr.AssetAudio(contents=content.getvalue(), media_type="audio/flac"))


def _write_frames(
    recording: rr.RecordingStream,
    video: Path,
    exported: _Exported,
    streams: StreamChoice,
    progress: Callable[[int, int], None],
) -> None:
    times = exported.frame_times
    path = exported.path("video", "frame")
    for batch in read_frames(video, _BATCH, allow_truncated=True, streams=streams):
        for number, picture in enumerate(batch.rgb, start=batch.first):
            if number >= len(times):
                return
            _, content = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), _JPEG)
            recording.set_time(_TIME, duration=times[number])
            recording.log(path, rr.EncodedImage(contents=content.tobytes(), media_type="image/jpeg"))
        progress(batch.first + len(batch), len(times))
