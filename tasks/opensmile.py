"""opensmile: low-level descriptors of the sound every 10 ms (ComParE 2016, Schuller et al., Interspeech 2016)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from storyframes.publish import FeatureWriter
from tasks.extractor import (
    ExtractionError,
    ExtractorSettings,
    Fingerprint,
    InputFile,
    MissingInputError,
    Source,
    distribution_version,
)
from tasks.frames import RecordingSettings, read_clock
from tasks.recording import NoAudioError, RecordingError, read_audio

SAMPLE_RATE = 16_000
_HOP_S = 0.01


class FeatureSet(StrEnum):
    """openSMILE's feature sets; their low-level descriptors are taken."""

    COMPARE_2016 = "ComParE_2016"  # 65 descriptors
    EGEMAPS_V02 = "eGeMAPSv02"  # 25 descriptors


class OpenSmileSettings(ExtractorSettings):
    """``[opensmile]``

    Attributes:
        feature_set: see :class:`FeatureSet`.
    """

    feature_set: FeatureSet = FeatureSet.COMPARE_2016


class OpenSmile:
    """The ``opensmile`` extractor."""

    name = "opensmile"
    needs: Mapping[str, float] = {"CPU": 1}
    libraries = ("av",)

    def __init__(self, settings: OpenSmileSettings, recording: RecordingSettings) -> None:
        self.settings = settings
        self.recording = recording

    def fingerprint(self, source: Source) -> Fingerprint:
        inputs = {"video": source.file("video"), "audio": _sound(source)}
        settings = {"feature_set": self.settings.feature_set, "rate": SAMPLE_RATE, **self.recording.model_dump()}
        return Fingerprint(self.name, 1, inputs, settings, tools={"opensmile": distribution_version("opensmile")})

    def extract(self, source: Source, out: FeatureWriter) -> None:
        clock = read_clock(source, out)
        try:
            samples, start_s = read_audio(_sound(source).path, SAMPLE_RATE)
        except NoAudioError as error:
            raise MissingInputError(str(error)) from None
        except RecordingError as error:
            raise ExtractionError(str(error)) from None
        values, columns = describe(samples, self.settings.feature_set)
        time = start_s + _HOP_S * np.arange(len(values))
        out.write("values", values, columns)
        out.write("time", time)
        out.write("per_frame", mean_per_frame(values, time, clock.time, clock.end_s), columns)
        out.attributes["feature_set"] = str(self.settings.feature_set)
        out.quality["audio_s"] = len(samples) / SAMPLE_RATE


def _sound(source: Source) -> InputFile:
    """The sidecar sound file where the study names one, else the video's own track."""
    return source.files.get("audio") or source.file("video")


def describe(samples: np.ndarray, feature_set: FeatureSet) -> tuple[np.ndarray, list[str]]:
    """The low-level descriptors of a mono signal at 16 kHz.

    Args:
        samples: (n,) float32 in [-1, 1].
        feature_set: which descriptors.

    Returns:
        (A, descriptors) float32, one row per 10 ms, and the descriptors' names.

    Raises:
        ExtractionError: the signal is shorter than one analysis window.
    """
    import opensmile

    smile = opensmile.Smile(
        feature_set=opensmile.FeatureSet[str(feature_set)],
        feature_level=opensmile.FeatureLevel.LowLevelDescriptors,
    )
    if len(samples) < SAMPLE_RATE * 0.06:
        raise ExtractionError(
            f"the sound is {len(samples) / SAMPLE_RATE:.3f} s long, shorter than openSMILE's window of 0.06 s"
        )
    table = smile.process_signal(samples, SAMPLE_RATE)
    return table.to_numpy(np.float32), list(table.columns)


def mean_per_frame(values: np.ndarray, time: np.ndarray, frame_time: np.ndarray, end_s: float) -> np.ndarray:
    """The mean of the rows whose time lies in each frame's interval.

    Args:
        values: (A, d) float32, of the rows at ``time``.
        time: (A,) seconds, ascending.
        frame_time: (T,) seconds, ascending; a frame lasts until the next one, the last until ``end_s``.
        end_s: seconds.

    Returns:
        (T, d) float32, NaN where no row lies in the frame's interval.
    """
    edges = np.searchsorted(time, np.append(frame_time, end_s))
    counts = np.diff(edges)
    # A row of zeros behind the last one lets an empty interval at the end have an index of its own.
    padded = np.vstack([values[: edges[-1]], np.zeros((1, values.shape[1]))]).astype(np.float64)
    means = np.add.reduceat(padded, edges[:-1], axis=0) / np.maximum(counts, 1)[:, None]
    means[counts == 0] = np.nan
    return means.astype(np.float32)
