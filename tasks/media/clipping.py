"""Where a recording's sound is cut off at full scale: the one finding that needs the samples themselves."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np

from tasks.media.container import RecordingError, open_container
from tasks.media.full_scale import FULL, RUN
from tasks.media.sound import NoAudioError

_JOIN_S = 0.2


def find_clipped(path: Path, zero_s: float | None = None) -> tuple[tuple[float, float], ...]:
    """The times at which any channel has :data:`RUN` samples in a row at full scale.

    The sound is decoded as it was recorded, neither mixed nor resampled, in one pass with flat memory.

    Args:
        path: a video with sound or a sound file.
        zero_s: the container's time of second 0 of the recording, as for :func:`tasks.media.sound.read_audio`; None
            for a sound file, whose first sample it is.

    Returns:
        (start, stop) seconds of the recording; less than .2 s apart they are one.

    Raises:
        NoAudioError: there is no sound.
        RecordingError: it cannot be decoded.
    """
    spans: list[tuple[float, float]] = []
    try:
        with open_container(path) as container:
            if not container.streams.audio:
                raise NoAudioError(f"{path.name}: has no audio track")
            as_whole_numbers = av.AudioResampler(format="s16p")
            before: np.ndarray = np.empty((0, 0), np.int16)
            for frame in container.decode(audio=0):
                for block in as_whole_numbers.resample(frame):
                    samples: np.ndarray = block.to_ndarray()
                    if before.shape[0] != samples.shape[0]:
                        before = samples[:, :0]
                    joined = np.concatenate([before, samples], axis=1)  # a run may begin in the block before
                    zero_s = frame.time or 0.0 if zero_s is None else zero_s
                    start = (frame.time or 0.0) - zero_s - before.shape[1] / block.sample_rate
                    _add_runs(spans, joined, start, block.sample_rate)
                    before = samples[:, 1 - RUN :]
    except av.FFmpegError as error:
        raise RecordingError(f"{path.name}: the sound cannot be decoded ({error.strerror})") from None
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
