"""What a session's page knows to play a recording beside its timelines: clocks and frame times, nothing recorded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np

from storyframes_report.devices import Device
from storyframes_report.report.packing import deflate
from tasks.inspect import SessionCurves
from tasks.study import Study, UnusableFileError

_TICKS = 10_000  # a second, in the page's units


@dataclass(frozen=True)
class PlayedTrack:
    """One track whose timeline has a cursor."""

    name: str
    chart: str  # the id of its timeline
    device: Device
    curves: SessionCurves
    playable: bool = True  # whether it has a recording of its own
    recording: str = ""  # address of the file from the page; empty where the reader chooses it
    sound: str = ""  # address of a sound file that belongs to the video

    @property
    def data(self) -> dict[str, object]:
        """What the page's script reads; seconds are those of the track's own recording."""
        return {
            "name": self.name,
            "chart": self.chart,
            "clock_s": self.device.clock.clock_s,
            "session_s": self.device.clock.session_s,
            "end_s": round(self.curves.length_s, 4),
            "frames": packed_times(self.curves.time),
            "playable": self.playable,
            "recording": self.recording,
            "sound": self.sound,
        }


def packed_times(time: np.ndarray) -> str:
    """Frame times (T,) in seconds as text: steps of 0.1 ms as little-endian int32, deflated, in Base64.

    >>> packed_times(np.arange(216_000) / 30).__len__() < 3000  # two hours
    True
    """
    ticks = np.round(np.asarray(time, np.float64) * _TICKS).astype(np.int64)
    steps = np.diff(ticks, prepend=0).astype("<i4")
    return deflate(steps)


def study_file(study: Study, name: str | None) -> Path | None:
    """A file of a recording; None where the study names none, or it is not there."""
    try:
        return None if name is None else study.path(name)
    except UnusableFileError:
        return None


def address(file: Path, page_folder: Path) -> str:
    """The relative address of a file, as a page in ``page_folder`` links it."""
    return quote(Path(os.path.relpath(file.absolute(), page_folder.absolute())).as_posix())
