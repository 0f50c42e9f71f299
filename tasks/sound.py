"""A recording's sound, decoded as a stream: one block is in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import av
import numpy as np

from tasks.recording import RecordingError, open_container

_AUDIO_GAP_S = 0.05  # a hole in the sound longer than this becomes silence, so that what follows stays in time


class NoAudioError(RecordingError):
    """The file has no sound."""


@dataclass(frozen=True)
class AudioBlock:
    """Consecutive samples of a recording's sound.

    Attributes:
        time: of the first sample, seconds on the container's clock.
        samples: (n,) float32 in [-1, 1].
    """

    time: float
    samples: np.ndarray


def read_audio(path: Path, rate: int) -> Iterator[AudioBlock]:
    """The sound of ``path`` in blocks, all channels mixed to one and resampled; one block is in memory at a time.

    Args:
        path: a video with sound or a sound file.
        rate: samples per second wanted.

    Raises:
        NoAudioError: there is no sound.
        RecordingError: the sound cannot be decoded.
    """
    with open_container(path) as container:
        if not container.streams.audio:
            raise NoAudioError(f"{path.name}: has no audio track")
        resampler = av.AudioResampler(format="flt", layout="mono", rate=rate)
        start_s, samples = None, 0
        try:
            for frame in chain(container.decode(audio=0), [None]):  # None: what the resampler has kept back
                if frame is not None and frame.time is not None:
                    start_s = frame.time if start_s is None else start_s
                    gap = round((frame.time - start_s) * rate) - samples
                    if gap > _AUDIO_GAP_S * rate:
                        yield AudioBlock(start_s + samples / rate, np.zeros(gap, np.float32))
                        samples += gap
                for block in resampler.resample(frame):
                    yield AudioBlock((start_s or 0.0) + samples / rate, block.to_ndarray()[0])
                    samples += block.samples
        except av.FFmpegError as error:
            raise RecordingError(f"{path.name}: the sound cannot be decoded ({error.strerror})") from None
    if not samples:
        raise NoAudioError(f"{path.name}: its audio track is empty")
