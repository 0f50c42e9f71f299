"""frames: the clock of a session, one time for every decoded frame. Every per-frame array has its length.

Second 0 is the moment the first frame is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from storyframes.features import FEATURES
from storyframes.spec import of_track
from storyframes.store.description import open_array, read_attributes
from storyframes.store.publish import FeatureWriter
from storyframes.store.record_status import read_status
from storyframes.store.records import Caveat
from storyframes.times import last_frame_end_s, ticks, usual_rate
from tasks.extractors.base import ALL, ExtractionError, Extractor, ExtractorSettings, Input, Source, Tolerance
from tasks.media.container import RecordingError
from tasks.media.recording import FrameTimes, read_frame_times


class Frames(Extractor[ExtractorSettings]):
    """The ``frames`` extractor."""

    spec = FEATURES["frames"]
    version = 3  # a clock of another one may count damaged frames or from another moment, and is not used with this one
    after = ()
    libraries = ("av",)
    tolerance: ClassVar = {ALL: Tolerance(1e-4)}  # s
    decoded: FrameTimes | Exception | None = None
    """What a pass over the frames found, where one makes the clock together with features of pictures."""

    def extract(self, source: Source, out: FeatureWriter) -> None:
        if source.region and self._copy(source, source.region.of, out):
            return
        if isinstance(self.decoded, Exception):
            raise self.decoded
        frames = self.decoded or self._decode(source)
        if frames.truncated:
            out.caveat(Caveat.TRUNCATED_VIDEO)
        if frames.interlaced:
            out.caveat(Caveat.INTERLACED_VIDEO)
            out.attributes["interlaced_frames"] = frames.interlaced
        if frames.longer_s:
            out.caveat(Caveat.LONGER_FRAMES)
            out.quality["longer_frames_s"] = frames.longer_s
        out.write("time", frames.time)
        out.quality["duration_s"] = float(frames.time[-1] - frames.time[0])
        if rate := usual_rate(frames.time, 0.0):
            out.quality["fps"] = rate

    def _decode(self, source: Source) -> FrameTimes:
        recording = self.common.recording
        path = source.file(Input.VIDEO).path
        try:
            return read_frame_times(path, allow_truncated=recording.allow_truncated, streams=recording.streams)
        except RecordingError as error:
            raise ExtractionError(str(error)) from None

    def _copy(self, source: Source, track: str, out: FeatureWriter) -> bool:
        """Write what the track that has the video has already, if that is of this very video."""
        feature = of_track(self.name, track)
        entry = read_status(out.storage, source.session_id, feature)
        current = entry.record if entry else None
        if current is None or current.fingerprint != self.fingerprint(source).digest:
            return False
        path = f"{source.session_id}/{feature}/{current.version}"
        out.write("time", np.asarray(open_array(out.storage, f"{path}/time", current.arrays["time"])[:]))
        out.quality |= current.quality
        of_video = {Caveat.TRUNCATED_VIDEO, Caveat.INTERLACED_VIDEO, Caveat.LONGER_FRAMES}
        out.caveats |= set(current.caveats) & of_video
        attributes = read_attributes(out.storage, source.session_id, feature, path)
        out.attributes |= {name: attributes[name] for name in ("interlaced_frames",) if name in attributes}
        return True


@dataclass(frozen=True)
class FrameClock:
    """The published frame times of a session."""

    time: np.ndarray  # (T,) float64 seconds
    truncated: bool  # whether the video ends before its header says
    interlaced: bool = False  # whether frames of the video are interlaced

    @staticmethod
    def read(source: Source, out: FeatureWriter) -> FrameClock:
        """The clock of the session, or of its track, as published by ``frames``; notes a truncated video in ``out``.

        Raises:
            ExtractionError: there is none, or it is another video's, or an older version of ``frames`` made it.
        """
        session_id, video = source.session_id, source.file(Input.VIDEO)
        feature = of_track(Frames.spec.name, source.track)
        entry = read_status(out.storage, session_id, feature)
        current = entry.record if entry else None
        if current is None or current.provenance["inputs"]["video"]["sha256"] != video.sha256:
            reason = entry.reason if entry else ""
            raise ExtractionError(
                f"needs the frame times: {reason or 'frames has not been extracted from this video: extract it first'}"
            )
        if current.provenance["extractor"] != Frames.version:
            raise ExtractionError(
                f"the frame times are those of version {current.provenance['extractor']} of frames, this one is "
                f"{Frames.version}: extract frames again, and what was made with them"
            )
        path = f"{session_id}/{feature}/{current.version}/time"
        time = np.asarray(open_array(out.storage, path, current.arrays["time"])[:])
        clock = FrameClock(time, Caveat.TRUNCATED_VIDEO in current.caveats, Caveat.INTERLACED_VIDEO in current.caveats)
        if clock.truncated:
            out.caveat(Caveat.TRUNCATED_VIDEO)
        return clock

    def __len__(self) -> int:
        return len(self.time)

    @property
    def end_s(self) -> float:
        """When the last frame ends."""
        return last_frame_end_s(self.time)

    def rows_at(self, start_s: np.ndarray, end_s: np.ndarray) -> np.ndarray:
        """For each frame, the last-starting span [start, end) that holds its time, -1 where none does.

        Args:
            start_s, end_s: (n,) seconds, in the order of their start.

        Returns:
            (T,) int32.
        """
        rows = np.full(len(self.time), -1, np.int32)
        time = ticks(self.time)
        first, stop = np.searchsorted(time, ticks(start_s)), np.searchsorted(time, ticks(end_s))
        for row, (begin, end) in enumerate(zip(first, stop, strict=True)):
            rows[begin:end] = row
        return rows


def read_clock_if_any(source: Source, out: FeatureWriter) -> FrameClock | None:
    """:meth:`FrameClock.read`; None where the track has no video."""
    return None if source.frameless else FrameClock.read(source, out)


def note_interlaced(clock: FrameClock, out: FeatureWriter) -> None:
    """A caveat of what was made of the pictures of an interlaced video; its sound and its words are as any other's."""
    if clock.interlaced:
        out.caveat(Caveat.INTERLACED_VIDEO)
