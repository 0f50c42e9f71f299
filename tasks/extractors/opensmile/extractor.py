"""opensmile: low-level descriptors of the sound every 10 ms (ComParE 2016, Schuller et al., Interspeech 2016)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from storyframes.features import AUDIO_HOP_S, FEATURES
from storyframes.recording_times import SOUND_FITS_S
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from tasks.extractors.base import (
    ALL,
    ExtractionError,
    Extractor,
    Input,
    MissingInputError,
    Source,
    Tolerance,
    distribution_version,
)
from tasks.extractors.frames import Clock, read_clock_if_any
from tasks.extractors.opensmile.frame_means import FrameMeans
from tasks.extractors.opensmile.settings import SAMPLE_RATE, OpenSmileSettings
from tasks.media.container import RecordingError
from tasks.media.sound import AudioBlock, NoAudioError, read_audio
from tasks.media.video_header import read_header


class OpenSmile(Extractor[OpenSmileSettings]):
    """The ``opensmile`` extractor."""

    spec = FEATURES["opensmile"]
    Settings = OpenSmileSettings
    version = 3
    inputs = (Input.VIDEO, Input.AUDIO)
    needs_frames = False
    libraries = ("av",)
    tolerance: ClassVar = {ALL: Tolerance(1e-4, 1e-3)}

    def value_settings(self) -> Mapping[str, Any]:
        return {"feature_set": self.settings.feature_set, "rate": SAMPLE_RATE}

    def tools(self) -> Mapping[str, str]:
        return {"opensmile": distribution_version("opensmile")}

    def extract(self, source: Source, out: FeatureWriter) -> None:
        clock = read_clock_if_any(source, out)
        try:
            self._store(_read_sound(source), clock, out)
        except NoAudioError as error:
            raise MissingInputError(str(error)) from None
        except RecordingError as error:
            raise ExtractionError(str(error)) from None

    def _store(self, sound: Iterator[AudioBlock], clock: Clock | None, out: FeatureWriter) -> None:
        """Describe the sound as it is decoded; memory does not grow with its length."""
        from tasks.extractors.opensmile.stream import DescriptorStream

        stream = DescriptorStream(self.settings.feature_set)
        values, time = out.array("values", stream.columns), out.array("time")
        means = _FrameRows(clock, stream.columns, out) if clock else None
        heard = _Heard()
        first = next(sound)
        for rows in stream.describe(heard.samples(chain([first], sound))):
            row_time = first.time + AUDIO_HOP_S * np.arange(values.rows, values.rows + len(rows))
            values.append(rows)
            time.append(row_time)
            if means:
                means.add(row_time, rows)
        _note_extent(first.time, first.time + stream.samples / SAMPLE_RATE, heard, clock, out)
        if values.rows == 0:
            raise ExtractionError(
                f"the sound is {stream.samples / SAMPLE_RATE:.3f} s long, shorter than openSMILE's window of 0.06 s"
            )
        if means:
            means.finish()
        out.attributes["feature_set"] = str(self.settings.feature_set)


class _FrameRows:
    """The array ``per_frame``."""

    def __init__(self, clock: Clock, columns: Sequence[str], out: FeatureWriter) -> None:
        self._means = FrameMeans(clock.time, clock.end_s, len(columns))
        self._rows = out.array("per_frame", columns)

    def add(self, time: np.ndarray, rows: np.ndarray) -> None:
        self._rows.append(self._means.add(time, rows))

    def finish(self) -> None:
        self._rows.append(self._means.rest())


@dataclass
class _Heard:
    """What was put in for holes in the sound, and left out where it overlaps, seconds."""

    silence_s: float = 0.0
    dropped_s: float = 0.0

    def samples(self, blocks: Iterable[AudioBlock]) -> Iterator[np.ndarray]:
        """The blocks' samples, counting as they pass."""
        for block in blocks:
            self.silence_s += block.silence_s
            self.dropped_s += block.dropped_s
            yield block.samples


def _note_extent(start_s: float, end_s: float, heard: _Heard, clock: Clock | None, out: FeatureWriter) -> None:
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


def _read_sound(source: Source) -> Iterator[AudioBlock]:
    """The sound on the recording's clock: a sidecar begins at second 0, the video's own track where the video says."""
    zero_s = None if source.names(Input.AUDIO) else read_header(source.file(Input.VIDEO).path).start_s
    return read_audio(source.file(Input.AUDIO).path, SAMPLE_RATE, zero_s)
