"""What work will cost, roughly: enough to begin with the longest, so that no worker is left alone with it at the end.

The figures are of one processor, measured with ``make bench``; only their order matters here. What a whole study takes
on this machine is measured, not looked up: see ``tasks/planning/forecast.py``.
"""

from __future__ import annotations

from tasks.extractors.base import Source
from tasks.extractors.dope.settings import DopeSettings
from tasks.extractors.openface.extractor import Backend
from tasks.extractors.registry import ExtractorsSettings
from tasks.extractors.resnet50.settings import Precision
from tasks.media.container import RecordingError
from tasks.media.video_header import VideoHeader, read_header

_FIXED_S = 1.0  # starting a task, publishing; all there is where no recording says how long it will take
_OF_TEXT = ("glove", "sbert")


def recording_s(source: Source) -> float:
    """How long the session's recording should be by its header, seconds; 0 where it does not say."""
    if "video" not in source.files:
        return 0.0
    try:
        header = read_header(source.files["video"].path)
    except RecordingError:  # the extractor will say so
        return 0.0
    return header_length_s(header)


def header_length_s(header: VideoHeader) -> float:
    """How long a recording should be by its header, seconds; 0 where it does not say."""
    if header.promised_frames and header.fps:
        return header.promised_frames / header.fps
    return header.promised_s or 0.0


def expected_cost(features: tuple[str, ...], settings: ExtractorsSettings, length_s: float) -> float:
    """CPU-seconds, in order of magnitude, of extracting these features of a recording of this length."""
    return _FIXED_S + length_s * sum(_rate(feature, settings) for feature in features)


def _rate(feature: str, settings: ExtractorsSettings) -> float:
    """CPU-seconds per second of a recording with 15 frames a second."""
    if feature in _OF_TEXT:
        return 0.005
    match feature:
        case "resnet50":
            return 0.9 if settings.resnet50.precision is Precision.FLOAT32 else 0.4
        case "dope":
            return _dope_rate(settings.dope)
        case "openface":
            return 0.002 if settings.openface.backend is Backend.CSV else 3.0
        case _:
            return 0.03


def _dope_rate(settings: DopeSettings) -> float:
    return 75.0 / settings.every_n_frames
