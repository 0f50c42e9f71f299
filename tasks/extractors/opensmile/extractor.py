"""opensmile: low-level descriptors of the sound every 10 ms (ComParE 2016, Schuller et al., Interspeech 2016)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from storyframes.features import AUDIO_HOP_S, FEATURES
from storyframes.store.publish import FeatureWriter
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
from tasks.extractors.frame_means import FrameRows
from tasks.extractors.frames import Clock, read_clock_if_any
from tasks.extractors.heard_sound import HeardSound, note_extent, read_sound
from tasks.extractors.opensmile.settings import SAMPLE_RATE, OpenSmileSettings
from tasks.extractors.opensmile.undefined import UNDEFINED
from tasks.media.container import RecordingError
from tasks.media.sound import AudioBlock, NoAudioError


class OpenSmile(Extractor[OpenSmileSettings]):
    """The ``opensmile`` extractor."""

    spec = FEATURES["opensmile"]
    Settings = OpenSmileSettings
    version = 4
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
            self._store(read_sound(source, SAMPLE_RATE), clock, out)
        except NoAudioError as error:
            raise MissingInputError(str(error)) from None
        except RecordingError as error:
            raise ExtractionError(str(error)) from None

    def _store(self, sound: Iterator[AudioBlock], clock: Clock | None, out: FeatureWriter) -> None:
        """Describe the sound as it is decoded; memory does not grow with its length."""
        from tasks.extractors.opensmile.stream import DescriptorStream

        stream = DescriptorStream(self.settings.feature_set)
        values, time = out.array("values", stream.columns), out.array("time")
        means = FrameRows(clock, stream.columns, out) if clock else None
        voiced_share = FrameRows(clock, (), out, "voiced_share") if clock else None
        undefined = UNDEFINED[self.settings.feature_set]
        pitch = stream.columns.index(undefined.pitch)
        heard = HeardSound()
        first = next(sound)
        for rows in undefined.blank(stream.describe(heard.samples(chain([first], sound))), stream.columns):
            row_time = first.time + AUDIO_HOP_S * np.arange(values.rows, values.rows + len(rows))
            values.append(rows)
            time.append(row_time)
            if means and voiced_share:
                means.add(row_time, rows)
                voiced_share.add(row_time, ~np.isnan(rows[:, pitch]))
        note_extent(first.time, first.time + stream.samples / SAMPLE_RATE, heard, clock, out)
        if values.rows == 0:
            raise ExtractionError(
                f"the sound is {stream.samples / SAMPLE_RATE:.3f} s long, shorter than openSMILE's window of 0.06 s"
            )
        if means and voiced_share:
            means.finish()
            voiced_share.finish()
        out.attributes["feature_set"] = str(self.settings.feature_set)
