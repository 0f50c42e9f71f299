"""A session's sound as its features read it, and their rows as they are stored, on the recording's clock.

Both block by block: memory does not grow with the length of the sound.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import ClassVar, Self

import numpy as np

from storyframes.array_roles import PER_FRAME
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from storyframes.times import SOUND_FITS_S, ticks
from tasks.extractors.base import ExtractionError, Extractor, Input, MissingInputError, S, Source
from tasks.extractors.frames import FrameClock, read_clock_if_any
from tasks.media.container import RecordingError, StreamChoice
from tasks.media.sound import AudioBlock, NoAudioError, read_audio
from tasks.media.video_header import read_header

KEPT_SAMPLES = 1 << 25  # 134 MB: 35 minutes at 16 kHz


class SoundExtractor(Extractor[S]):
    """A feature with rows of the session's sound; a subclass says how sound becomes rows."""

    inputs: tuple[str, ...] = (Input.VIDEO, Input.AUDIO)
    needs_frames: ClassVar[bool] = False

    @abstractmethod
    def write_sound(self, source: Source, clock: FrameClock | None, out: FeatureWriter) -> None:
        """Write the feature's arrays; ``clock`` is that of the video's frames, None without a video.

        Raises:
            NoAudioError: there is no sound.
            RecordingError: the sound cannot be decoded.
            ExtractionError: it cannot become this feature.
        """

    def extract(self, source: Source, out: FeatureWriter) -> None:
        clock = read_clock_if_any(source, out)
        try:
            self.write_sound(source, clock, out)
        except NoAudioError as error:
            raise MissingInputError(str(error)) from None
        except RecordingError as error:
            raise ExtractionError(str(error)) from None


def keeping(blocks: Iterable[AudioBlock], kept: list[AudioBlock]) -> Iterator[AudioBlock]:
    """The same blocks; afterwards ``kept`` has them all, or none of a sound that is too long to be kept in memory."""
    samples = 0
    for block in blocks:
        samples += len(block.samples)
        if samples <= KEPT_SAMPLES:
            kept.append(block)
        else:
            kept.clear()
        yield block


class Sound:
    """The sound of a session while it is read, with what was put in for holes in it and left out of it.

    Args:
        blocks: of the sound. The first is read at once, so that a session without sound ends before a model is loaded.

    Attributes:
        start_s: of the first sample, on the recording's clock.
        peak: the largest sample so far of a file that stores floating-point numbers; 1 is full scale.

    Raises:
        NoAudioError: there is no sound.
        RecordingError: the sound cannot be decoded.
    """

    def __init__(self, blocks: Iterator[AudioBlock], rate: int) -> None:
        first = next(blocks)
        self.start_s = first.time
        self._blocks, self._rate = chain([first], blocks), rate
        self._samples, self._silence_s, self._dropped_s, self._damaged = 0, 0.0, 0.0, 0
        self.peak = 0.0

    @staticmethod
    def blocks(source: Source, rate: int, *, streams: StreamChoice) -> Iterator[AudioBlock]:
        """The sound on the recording's clock: a sidecar begins at second 0, the video's own track where the video says.

        Args:
            rate: samples per second of the result.
            streams: which sound, and which picture, of a file that has several (``self.common.recording.streams``).

        Raises:
            NoAudioError: there is no sound.
            RecordingError: the sound cannot be decoded.
        """
        zero_s = None if source.names(Input.AUDIO) else read_header(source.file(Input.VIDEO).path, streams).start_s
        return read_audio(source.file(Input.AUDIO).path, rate, zero_s, streams=streams)

    @classmethod
    def of(cls, source: Source, rate: int, *, streams: StreamChoice) -> Self:
        """That of a session, see :meth:`Sound.blocks`."""
        return cls(Sound.blocks(source, rate, streams=streams), rate)

    def samples(self) -> Iterator[np.ndarray]:
        """The blocks' samples, (n,) float32 each, counted as they pass."""
        for block in self._blocks:
            self._silence_s += block.silence_s
            self._dropped_s += block.dropped_s
            self._damaged += block.damaged
            self.peak = max(self.peak, block.peak)
            self._samples += len(block.samples)
            yield block.samples

    @property
    def duration_s(self) -> float:
        """Of what was read so far."""
        return self._samples / self._rate

    def note_extent(self, clock: FrameClock | None, out: FeatureWriter) -> None:
        """Note when the sound begins and how long it is, with a caveat if it does not fit the picture."""
        start_s, end_s = self.start_s, self.start_s + self.duration_s
        out.quality |= {"audio_s": end_s - start_s, "audio_start_s": start_s}
        if self._silence_s:
            out.quality["audio_holes_s"] = self._silence_s
        if self._dropped_s:
            out.quality["audio_overlap_s"] = self._dropped_s
        if self._damaged:
            out.quality["damaged_sound_packets"] = self._damaged
            out.caveat(Caveat.DAMAGED_SOUND)
        if clock is None:
            return
        if start_s > SOUND_FITS_S or end_s < clock.end_s - SOUND_FITS_S or self._silence_s > SOUND_FITS_S:
            out.caveat(Caveat.SHORT_SOUND)
        if start_s < -SOUND_FITS_S or end_s > clock.end_s + SOUND_FITS_S:
            out.caveat(Caveat.LONG_SOUND)


class FrameMeans:
    """The mean of the rows whose time lies in each frame's interval, returned as soon as it is complete.

    A value that is NaN is none: each column's mean is over the rows that have a value in it.

    Args:
        frame_time: (T,) seconds, ascending; a frame lasts until the next one, the last until ``end_s``.
    """

    def __init__(self, frame_time: np.ndarray, end_s: float, columns: int) -> None:
        self._edges = ticks(np.append(frame_time, end_s))
        self._frames = len(frame_time)
        self._given = 0
        # Of the next frame to be given out, whose rows may go on in the next block.
        self._sum, self._count = np.zeros(columns), np.zeros(columns, np.int64)

    def add(self, time: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Add rows: (n,) seconds, ascending and after those before, and their (n, columns) values.

        Returns:
            (m, columns) float32: the next frames, to which no further row can belong; NaN where no row of a frame has a
            value.
        """
        frame = np.searchsorted(self._edges, ticks(time), side="right") - 1
        inside = (frame >= 0) & (frame < self._frames)
        frame, values = frame[inside], values[inside]
        if len(frame) == 0:
            return self._give_out(self._given)
        first = np.flatnonzero(np.diff(frame, prepend=-1))  # of each frame's rows
        has_value = ~np.isnan(values)
        sums = np.add.reduceat(np.where(has_value, values, 0.0), first, axis=0, dtype=np.float64)
        return self._give_out(frame[-1], frame[first], sums, np.add.reduceat(has_value, first, axis=0, dtype=np.int64))

    def rest(self) -> np.ndarray:
        """The frames that are left, when there are no more rows."""
        return self._give_out(self._frames)

    def _give_out(
        self,
        stop: int,
        frames: np.ndarray | tuple[int, ...] = (),
        sums: np.ndarray | float = 0.0,
        counts: np.ndarray | int = 0,
    ) -> np.ndarray:
        """The means of the frames before ``stop``, after these sums and counts were added to those of ``frames``."""
        first, count = self._given, stop - self._given
        total, number = np.zeros((count + 1, len(self._sum))), np.zeros((count + 1, len(self._sum)), np.int64)
        total[0], number[0] = self._sum, self._count
        rows = np.asarray(frames, np.int64) - first
        total[rows] += sums
        number[rows] += counts
        self._given, self._sum, self._count = stop, total[count].copy(), number[count].copy()
        means = total[:count] / np.maximum(number[:count], 1)
        means[number[:count] == 0] = np.nan
        return means.astype(np.float32)


class FrameRows:
    """An array with a row for each frame: the means of the feature's rows over it; one number without ``columns``."""

    def __init__(self, clock: FrameClock, columns: Sequence[str], out: FeatureWriter, array: str = PER_FRAME) -> None:
        self._means = FrameMeans(clock.time, clock.end_s, max(len(columns), 1))
        self._is_one_number = not columns
        self._rows = out.array(array, columns) if columns else out.array(array)

    def add(self, time: np.ndarray, rows: np.ndarray) -> None:
        """Add rows: (n,) seconds, ascending and after those before, and their (n, columns) or (n,) values."""
        self._append(self._means.add(time, rows.reshape(len(rows), -1)))

    def finish(self) -> None:
        """Write the frames that are left, when there are no more rows."""
        self._append(self._means.rest())

    def _append(self, means: np.ndarray) -> None:
        self._rows.append(means[:, 0] if self._is_one_number else means)
