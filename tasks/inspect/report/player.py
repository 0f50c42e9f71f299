"""What a session's page knows to play a recording beside its timelines: clocks and frame times, nothing recorded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np

from tasks.inspect.devices import Device
from tasks.inspect.report.packing import deflate
from tasks.inspect.session_curves import SessionCurves
from tasks.study.load import Study, StudyFileError

_TICKS = 10_000  # a second, in the page's units


@dataclass(frozen=True)
class PlayedTrack:
    """One track that can be played."""

    name: str
    chart: str  # the id of its timeline
    device: Device
    curves: SessionCurves
    recording: str = ""  # address of the file from the page; empty where the reader chooses it

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
            "recording": self.recording,
        }


def packed_times(time: np.ndarray) -> str:
    """Frame times (T,) in seconds as text: steps of 0.1 ms as little-endian int32, deflated, in Base64.

    >>> packed_times(np.arange(216_000) / 30).__len__() < 3000  # two hours
    True
    """
    ticks = np.round(np.asarray(time, np.float64) * _TICKS).astype(np.int64)
    steps = np.diff(ticks, prepend=0).astype("<i4")
    return deflate(steps)


def played_file(study: Study, device: Device) -> Path | None:
    """The file of a track that a browser may play: its video, else its sound; None where there is none."""
    name = device.files.video or device.files.audio
    try:
        return None if name is None else study.path(name)
    except StudyFileError:
        return None


def address(file: Path, page_folder: Path) -> str:
    """The relative address of a file, as a page in ``page_folder`` links it."""
    return quote(Path(os.path.relpath(file.absolute(), page_folder.absolute())).as_posix())
