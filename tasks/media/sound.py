"""A recording's sound as one channel, decoded as a stream: one block is in memory at a time.

Channels are averaged, each with the same weight: a voice in one of two channels is half as loud as the same voice in
both, and mono and "dual mono" are equally loud. FFmpeg's own downmix would make dual mono 3 dB louder and 5.1 up to
11 dB, and would clip what then is too loud. Averaging comes before resampling, which is linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tasks.media.container import (
    FIRST_STREAMS,
    JoinedFiles,
    OpenRecording,
    RecordingError,
    StreamChoice,
    open_container,
)
from tasks.media.video_header import check_parts

if TYPE_CHECKING:
    import av
    from av.audio.stream import AudioStream

_GAP_S = 0.05  # a longer gap in the sound becomes silence, so that what follows stays in time
_BACKWARDS_S = 1.0  # sound that overlaps by less is left out; more is no overlap but a clock that starts anew
_FORWARDS_S = 3600.0  # no gap in a session's sound is longer: the timestamp means nothing
# swresample's own 32 taps let through a sixth of what is just above the new highest frequency. This filter is flat
# (0.1 dB) to 94 % of that frequency, and 90 dB down from 103 % on.
_FILTER = "filter_size=128:cutoff=0.97"
RUN = 3  # clipping is so many samples in a row at full scale: a single one can be a peak that just fits
FULL = 32_766  # full scale, of 32,767: a resampler or a gain may take one away
_JOIN_S = 0.2  # spans of clipping less far apart are one
_BLOCK_S = 0.25  # resampled at once; beside a video sound lies in pieces as short as its frames


class NoAudioError(RecordingError):
    """The file has no sound."""


@dataclass(frozen=True)
class AudioBlock:
    """Consecutive samples of a recording's sound."""

    time: float  # of the first sample, seconds of the recording
    samples: np.ndarray  # (n,) float32 in [-1, 1], the mean of the channels
    silence_s: float = 0.0  # seconds of silence put into this block for a gap in the sound
    dropped_s: float = 0.0  # seconds of sound left out of this block because their timestamps overlap the sound before
    damaged: int = 0  # packets right before this block that do not decode; silence is in their place
    # the largest value, as a number, of these samples in a file whose samples are floating-point numbers, which may
    # exceed full scale, 1.0; 0.0 in any other file
    peak: float = 0.0


def read_audio(
    path: Path, rate: int, zero_s: float | None = 0.0, *, streams: StreamChoice = FIRST_STREAMS
) -> Iterator[AudioBlock]:
    """The sound of ``path`` in blocks, all channels averaged and resampled; one block is in memory at a time.

    Args:
        rate: samples per second of the result.
        zero_s: the container's time of second 0 of the recording: for a video's own sound that of the first frame
            shown (:attr:`~tasks.media.video_header.VideoHeader.start_s`). None for a sound file, whose first sample is
            second 0.
        streams: which sound of a file that has several.

    Raises:
        NoAudioError: there is no sound.
        RecordingError: the sound cannot be decoded, its sampling rate changes, its timestamps run backwards, there is
            no such stream, or a file that another one follows is truncated.
    """
    resampler, start_s, samples = None, 0.0, 0
    for piece in _joined(_pieces(path, streams)):
        if resampler is None:
            resampler = _Resampler(piece.rate, rate)
            start_s = 0.0 if zero_s is None else piece.time - zero_s
        mixed = resampler.resample(piece.samples)
        yield AudioBlock(start_s + samples / rate, mixed, piece.silence_s, piece.dropped_s, piece.damaged, piece.peak)
        samples += len(mixed)
    if resampler is not None:
        yield AudioBlock(start_s + samples / rate, resampler.flush())


def sound_length_s(path: Path) -> float:
    """How long a sound file should be by its header, seconds; 0 where it does not say.

    Raises:
        RecordingError: FFmpeg cannot read it.
    """
    import av

    with open_container(path) as container:
        return (container.duration or 0) / av.time_base


def sound_s(path: Path, streams: StreamChoice = FIRST_STREAMS) -> float:
    """The length of the sound that decodes, seconds, with the silence of its gaps; headers may promise another.

    Raises:
        NoAudioError: there is no sound.
        RecordingError: see :func:`read_audio`.
    """
    return sum(len(piece.samples) / piece.rate for piece in _pieces(path, streams))


@dataclass(frozen=True)
class _Piece:
    """One channel at the file's own rate; pieces follow each other without a gap."""

    time: float
    rate: int
    samples: np.ndarray
    silence_s: float
    dropped_s: float
    damaged: int = 0
    peak: float = 0.0


def chosen_sound(sounds: Sequence[AudioStream], name: str, streams: StreamChoice) -> AudioStream:
    """The sound that is read of a file.

    Raises:
        NoAudioError: there is no sound.
        RecordingError: of several there is none with this number.
    """
    if not sounds:
        raise NoAudioError(f"{name}: has no audio track")
    if len(sounds) > 1 and streams.sound >= len(sounds):
        raise RecordingError(
            f"{name}: has the sound streams 0 to {len(sounds) - 1}, and [recording] sound_stream = {streams.sound}: "
            "'storyframes check' names them"
        )
    return sounds[streams.sound if len(sounds) > 1 else 0]


class _DecodedSound:
    """The decoded frames of a file's sound, without the packets that do not decode.

    Args:
        name: of the file, for messages.
        streams: which sound of a file that has several.

    Attributes:
        stream: PyAV's sound stream.
        damaged: packets so far that do not decode.

    Raises:
        NoAudioError: there is no sound.
        RecordingError: there is no such stream; while iterating: the file cannot be read, or fewer packets decode than
            do not.
    """

    def __init__(self, container: OpenRecording, name: str, streams: StreamChoice) -> None:
        self._container, self._name = container, name
        self.stream = chosen_sound(container.streams.audio, name, streams)
        self.damaged = 0

    def __iter__(self) -> Iterator[av.AudioFrame]:
        import av

        decoded, reason = 0, ""
        try:
            for packet in self._container.demux(self.stream):
                try:
                    frames = packet.decode()
                except av.FFmpegError as error:
                    self.damaged += 1
                    reason = error.strerror or ""
                    continue
                decoded += packet.size > 0
                yield from frames
        except (av.InvalidDataError, av.EOFError) as error:  # damaged from here on
            self.damaged += 1
            reason = error.strerror or ""
        except av.FFmpegError as error:
            raise RecordingError(f"{self._name}: the sound cannot be decoded ({error.strerror})") from None
        if self.damaged > decoded:
            raise RecordingError(
                f"{self._name}: the sound cannot be decoded: {self.damaged} of its {self.damaged + decoded} packets "
                f"are damaged ({reason})"
            )

    @property
    def part(self) -> int:
        """The number of the file that is being read, of a recording of several files."""
        return self._container.part if isinstance(self._container, JoinedFiles) else 0

    @property
    def start_s(self) -> float | None:
        """When its first sample is due on the container's clock; None where the container does not say."""
        start, base = self.stream.start_time, self.stream.time_base
        return None if start is None or base is None else float(start * base)

    @property
    def may_exceed_full_scale(self) -> bool:
        """Whether its samples are stored as floating-point numbers, which may be larger than full scale.

        Lossy decoders return such numbers too; what they have beyond full scale is an error of the coding.
        """
        is_exact = self.stream.codec_context.name.startswith(("pcm_f", "wavpack"))
        return is_exact and self.stream.format.name.startswith(("flt", "dbl"))


def _pieces(path: Path, streams: StreamChoice) -> Iterator[_Piece]:
    check_parts(path)
    with open_container(path) as container:
        sound = _DecodedSound(container, path.name, streams)
        rate, start_s, count, damaged, is_float = 0, 0.0, 0, 0, False
        part = overlap = 0
        for frame in sound:
            samples = mean_of_channels(frame)
            lost = sound.damaged - damaged
            damaged = sound.damaged
            if not rate:
                rate, start_s, is_float = frame.sample_rate, frame.time or 0.0, sound.may_exceed_full_scale
                start_s = start_s if not lost or sound.start_s is None else min(start_s, sound.start_s)
            elif frame.sample_rate != rate:
                raise RecordingError(
                    f"{path.name}: the sampling rate changes from {rate} to {frame.sample_rate} Hz within the "
                    "sound; convert it with FFmpeg (-ar)"
                )
            behind = 0 if frame.time is None else round((frame.time - start_s) * rate) - count
            if behind < -_BACKWARDS_S * rate or behind > _FORWARDS_S * rate:
                way = "run backwards" if behind < 0 else "jump"
                raise RecordingError(
                    f"{path.name}: the sound's timestamps {way}: {frame.time:.3f} s after "
                    f"{start_s + count / rate:.3f} s; remux it with FFmpeg"
                )
            # Where a file follows another, less than a packet is where a camera cut: sound goes on without a gap.
            is_seam, part = sound.part != part, sound.part
            gap = min(_GAP_S * rate, len(samples)) if is_seam else _GAP_S * rate
            for silence in _parts(behind if lost or behind > gap else 0, rate):
                yield _Piece(start_s + count / rate, rate, np.zeros(silence, np.float32), silence / rate, 0.0)
                count += silence
            excess = -behind if behind < -gap else 0
            overlap = excess if is_seam else overlap  # of a file with the one before it, also over several packets
            dropped = min(overlap or excess, len(samples))
            overlap = max(overlap - dropped, 0)
            peak = float(np.abs(samples).max(initial=0.0)) if is_float else 0.0
            yield _Piece(start_s + count / rate, rate, samples[dropped:], 0.0, dropped / rate, lost, peak)
            count += len(samples) - dropped
        if not count:
            raise NoAudioError(f"{path.name}: its audio track is empty")
        if sound.damaged > damaged:  # after the last sample
            nothing = np.empty(0, np.float32)
            yield _Piece(start_s + count / rate, rate, nothing, 0.0, 0.0, sound.damaged - damaged)


def _joined(pieces: Iterator[_Piece]) -> Iterator[_Piece]:
    """The same sound in fewer pieces, for each costs as much as a long one; silence and what overlaps stay apart."""
    waiting: list[_Piece] = []
    count = 0
    for piece in pieces:
        is_plain = not piece.silence_s and not piece.dropped_s and not piece.damaged
        if waiting and (not is_plain or count >= _BLOCK_S * piece.rate):
            yield _one(waiting)
            waiting, count = [], 0
        if is_plain:
            waiting.append(piece)
            count += len(piece.samples)
        else:
            yield piece
    if waiting:
        yield _one(waiting)


def _one(pieces: list[_Piece]) -> _Piece:
    samples = np.concatenate([piece.samples for piece in pieces])
    return replace(pieces[0], samples=samples, peak=max(piece.peak for piece in pieces))


def _parts(count: int, most: int) -> list[int]:
    """``count`` in parts of at most ``most``."""
    return [min(most, count - done) for done in range(0, count, most)]


def mean_of_channels(frame: av.AudioFrame) -> np.ndarray:
    """The mean of the channels of a decoded frame: (n,) float32 in [-1, 1]."""
    channels, full = _channels(frame)
    return (channels.mean(axis=0, dtype=np.float64) / full).astype(np.float32)


def peak_of_channels(frame: av.AudioFrame) -> list[float]:
    """The largest sample of each channel of a decoded frame; 1 is full scale."""
    channels, full = _channels(frame)
    return [float(peak) for peak in np.abs(channels.astype(np.float64)).max(axis=1, initial=0.0) / full]


def _channels(frame: av.AudioFrame) -> tuple[np.ndarray, float]:
    """The samples of a decoded frame, (channels, n), and what full scale is in them."""
    stored = frame.to_ndarray()
    channels = stored if frame.format.is_planar else stored.reshape(-1, frame.layout.nb_channels).T
    if channels.dtype == np.uint8:  # the only unsigned one: 128 is its zero
        return channels.astype(np.int16) - 128, 128.0
    return channels, float(2 ** (8 * stored.dtype.itemsize - 1)) if stored.dtype.kind == "i" else 1.0


class _Resampler:
    """Resampling of one channel by FFmpeg's swresample; at the same rate samples pass unchanged."""

    def __init__(self, rate_in: int, rate_out: int) -> None:
        import av

        self._rate, self._pushed = rate_in, 0
        graph = self._graph = av.filter.Graph()
        graph.threads = 1
        source = graph.add_abuffer(sample_rate=rate_in, format="flt", layout="mono", time_base=Fraction(1, rate_in))
        resample = graph.add("aresample", f"{rate_out}:{_FILTER}")
        result = graph.add("aformat", f"sample_fmts=flt:channel_layouts=mono:sample_rates={rate_out}")
        sink = graph.add("abuffersink")
        graph.link_nodes(source, resample, result, sink).configure()

    def resample(self, samples: np.ndarray) -> np.ndarray:
        """What these samples add to the result; the filter keeps back a few."""
        if len(samples) == 0:
            return samples
        import av

        frame = av.AudioFrame.from_ndarray(samples[None], format="flt", layout="mono")
        frame.sample_rate, frame.pts = self._rate, self._pushed
        self._pushed += len(samples)
        self._graph.push(frame)
        return self._taken()

    def flush(self) -> np.ndarray:
        """What the filter has kept back."""
        self._graph.push(None)
        return self._taken()

    def _taken(self) -> np.ndarray:
        import av

        blocks: list[np.ndarray] = [np.empty(0, np.float32)]
        while True:
            try:
                pulled = self._graph.pull()
            except (av.BlockingIOError, av.EOFError):
                return np.concatenate(blocks)
            if isinstance(pulled, av.AudioFrame):
                blocks.append(pulled.to_ndarray()[0])


def find_clipped(
    path: Path, zero_s: float | None = None, *, streams: StreamChoice = FIRST_STREAMS
) -> tuple[tuple[float, float], ...]:
    """The times at which any channel has :data:`RUN` samples in a row at full scale.

    The only finding that needs the samples themselves: they are decoded as they were recorded, neither mixed nor
    resampled, in one pass with flat memory.

    Args:
        zero_s, streams: as of :func:`read_audio`.

    Returns:
        (start, stop) seconds of the recording; spans less than 0.2 s apart are joined.

    Raises:
        NoAudioError: there is no sound.
        RecordingError: it cannot be decoded.
    """
    import av

    check_parts(path)
    spans: list[tuple[float, float]] = []
    with open_container(path) as container:
        to_int16, channels = av.AudioResampler(format="s16p"), 0
        before: np.ndarray = np.empty((0, 0), np.int16)
        for frame in _DecodedSound(container, path.name, streams):
            if channels != frame.layout.nb_channels:  # of joined files; the resampler refuses it
                to_int16, channels = av.AudioResampler(format="s16p"), frame.layout.nb_channels
            for block in to_int16.resample(frame):
                samples: np.ndarray = block.to_ndarray()
                if before.shape[0] != samples.shape[0]:
                    before = samples[:, :0]
                joined = np.concatenate([before, samples], axis=1)  # a run may begin in the block before
                zero_s = frame.time or 0.0 if zero_s is None else zero_s
                start = (frame.time or 0.0) - zero_s - before.shape[1] / block.sample_rate
                _add_runs(spans, joined, start, block.sample_rate)
                before = samples[:, 1 - RUN :]
    return tuple(spans)


def _add_runs(spans: list[tuple[float, float]], samples: np.ndarray, start_s: float, rate: int) -> None:
    """Add the runs in ``samples`` (channels, n), the first of which is at ``start_s``."""
    full = (samples >= FULL) | (samples <= -FULL)
    if samples.shape[1] < RUN or not full.any():
        return
    runs = np.lib.stride_tricks.sliding_window_view(full, RUN, axis=1).all(axis=2).any(axis=0)
    for first in np.flatnonzero(runs).tolist():
        start, stop = start_s + first / rate, start_s + (first + RUN) / rate
        if spans and start - spans[-1][1] < _JOIN_S:
            spans[-1] = (spans[-1][0], max(stop, spans[-1][1]))
        else:
            spans.append((start, stop))
