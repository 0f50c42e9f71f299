"""A session's sound as its features read it: on the recording's clock, with what was missing noted beside values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from storyframes.times import SOUND_FITS_S
from tasks.extractors.base import Input, Source
from tasks.extractors.frames import Clock
from tasks.media.sound import AudioBlock, read_audio
from tasks.media.video_header import read_header


def read_sound(source: Source, rate: int) -> Iterator[AudioBlock]:
    """The sound on the recording's clock: a sidecar begins at second 0, the video's own track where the video says.

    Args:
        source: the session's files.
        rate: samples per second wanted.

    Raises:
        NoAudioError: there is no sound.
        RecordingError: the sound cannot be decoded.
    """
    zero_s = None if source.names(Input.AUDIO) else read_header(source.file(Input.VIDEO).path).start_s
    return read_audio(source.file(Input.AUDIO).path, rate, zero_s)


@dataclass
class HeardSound:
    """What was put in for holes in the sound, and left out where it overlaps, seconds."""

    silence_s: float = 0.0
    dropped_s: float = 0.0

    def samples(self, blocks: Iterable[AudioBlock]) -> Iterator[np.ndarray]:
        """The blocks' samples, counting as they pass."""
        for block in blocks:
            self.silence_s += block.silence_s
            self.dropped_s += block.dropped_s
            yield block.samples


def note_extent(start_s: float, end_s: float, heard: HeardSound, clock: Clock | None, out: FeatureWriter) -> None:
    """Note where the sound lies on the recording's clock, with a caveat where it does not fit the picture."""
    out.quality |= {"audio_s": end_s - start_s, "audio_start_s": start_s}
    if heard.silence_s:
        out.quality["audio_holes_s"] = heard.silence_s
    if heard.dropped_s:
        out.quality["audio_overlap_s"] = heard.dropped_s
    if clock is None:
        return
    if start_s > SOUND_FITS_S or end_s < clock.end_s - SOUND_FITS_S or heard.silence_s > SOUND_FITS_S:
        out.caveat(Caveat.SHORT_SOUND)
    if start_s < -SOUND_FITS_S or end_s > clock.end_s + SOUND_FITS_S:
        out.caveat(Caveat.LONG_SOUND)
