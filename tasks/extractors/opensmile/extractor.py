"""opensmile: low-level descriptors of the sound every 10 ms (ComParE 2016, Schuller et al., Interspeech 2016)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from storyframes.features import AUDIO_HOP_S, FEATURES
from storyframes.store.publish import FeatureWriter
from tasks.extractors.audio.sound import FrameRows, Sound, SoundExtractor
from tasks.extractors.base import ALL, ExtractionError, Input, Source, Tolerance, distribution_version
from tasks.extractors.frames import FrameClock
from tasks.extractors.opensmile.feature_sets import SAMPLE_RATE, UNDEFINED, OpenSmileSettings

_FULL_SCALE = 1.0001  # with what rounding adds, where numbers of 16 bits were divided by 32,767


class OpenSmile(SoundExtractor[OpenSmileSettings]):
    """The ``opensmile`` extractor."""

    spec = FEATURES["opensmile"]
    Settings = OpenSmileSettings
    version = 5  # sound beyond full scale is refused
    libraries = ("av",)
    imports = ("opensmile",)
    tolerance: ClassVar = {ALL: Tolerance(1e-4, 1e-3)}

    def value_settings(self) -> Mapping[str, Any]:
        return {"feature_set": self.settings.feature_set, "rate": SAMPLE_RATE}

    def tools(self) -> Mapping[str, str]:
        return {"opensmile": distribution_version("opensmile")}

    def write_sound(self, source: Source, clock: FrameClock | None, out: FeatureWriter) -> None:
        """Describe the sound as it is decoded."""
        from tasks.extractors.opensmile.stream import DescriptorStream

        stream = DescriptorStream(self.settings.feature_set)
        values, time = out.array("values", stream.columns), out.array("time")
        means = FrameRows(clock, stream.columns, out) if clock else None
        voiced_share = FrameRows(clock, (), out, "voiced_share") if clock else None
        undefined = UNDEFINED[self.settings.feature_set]
        pitch = stream.columns.index(undefined.pitch)
        streams = self.common.recording.streams
        sound = Sound(Sound.blocks(source, SAMPLE_RATE, streams=streams), SAMPLE_RATE)
        samples = _within_full_scale(sound, source.file(Input.AUDIO).path.name)
        for rows in undefined.blank(stream.describe(samples), stream.columns):
            row_time = sound.start_s + AUDIO_HOP_S * np.arange(values.rows, values.rows + len(rows))
            values.append(rows)
            time.append(row_time)
            if means and voiced_share:
                means.add(row_time, rows)
                voiced_share.add(row_time, ~np.isnan(rows[:, pitch]))
        sound.note_extent(clock, out)
        if stream.clipped:
            out.quality["clipped_samples"] = stream.clipped
        if values.rows == 0:
            raise ExtractionError(
                f"the sound is {sound.duration_s:.3f} s long, shorter than openSMILE's window of 0.06 s"
            )
        if means and voiced_share:
            means.finish()
            voiced_share.finish()
        out.attributes["feature_set"] = str(self.settings.feature_set)


def _within_full_scale(sound: Sound, name: str) -> Iterator[np.ndarray]:
    """The samples of the sound.

    Raises:
        ExtractionError: the file stores numbers beyond full scale, which openSMILE's 16 bits would clip.
    """
    for samples in sound.samples():
        if sound.peak > _FULL_SCALE:
            for _ in sound.samples():
                pass  # for the largest sample of all
            decibels = math.floor(-200 * math.log10(sound.peak)) / 10
            raise ExtractionError(
                f"{name}: its samples are floating-point numbers up to {sound.peak:.3g}, and openSMILE reads 16 bits, "
                "which have at most 1: they would be clipped. Name a copy that is less loud as the session's audio: "
                f"ffmpeg -i {name} -vn -af volume={decibels}dB -c:a pcm_f32le OTHER.wav"
            )
        yield samples
