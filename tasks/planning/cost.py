"""What work will cost, roughly: enough to begin with the longest, so that no worker is left alone with it at the end.

The figures are of one processor, measured with ``make bench``; only their order matters here. What a whole study takes
on this machine is measured, not looked up: see ``tasks/planning/forecast.py``.
"""

from __future__ import annotations

from pathlib import Path

import av

from tasks.extractors.base import Cost, Input, Source
from tasks.extractors.registry import ExtractorsSettings, build_extractor
from tasks.media.container import RecordingError, open_container
from tasks.media.video_header import VideoHeader, length_s, promised_length_s


def recording_s(source: Source) -> float:
    """How long the recording should be by its video's header, else its sound's, seconds; 0 where that does not say."""
    try:
        if Input.VIDEO in source.files:
            return promised_length_s(source.files[Input.VIDEO].path)
        if Input.AUDIO in source.files:
            return sound_length_s(source.files[Input.AUDIO].path)
    except (RecordingError, OSError):  # the extractor will say so
        pass
    return 0.0


def sound_length_s(path: Path) -> float:
    """How long a sound file should be by its header, seconds; 0 where it does not say.

    Raises:
        RecordingError: FFmpeg cannot read it.
    """
    with open_container(path) as container:
        return (container.duration or 0) / av.time_base


def header_length_s(header: VideoHeader) -> float:
    """How long a recording should be by its header, seconds; 0 where it does not say."""
    return length_s(header.fps, header.promised_frames, header.promised_s)


def cost_together(features: tuple[str, ...], settings: ExtractorsSettings, session_id: str = "") -> Cost:
    """What extracting these features in one go costs."""
    costs = [build_extractor(settings, session_id, feature).cost for feature in features]
    return Cost(sum(cost.cpu_s_per_s for cost in costs), max(cost.start_s for cost in costs))
