"""Trying OpenFace out on a short clip before a study depends on it: version, speed, columns, determinism."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np

from storyframes.features import OPENFACE_COLUMNS
from storyframes.store.storage.scratch import scratch_folder
from tasks.extractors.base import ExtractionError
from tasks.extractors.openface.csv_output import OpenFaceOutputError, read_openface_csv
from tasks.extractors.openface.tool import ToolOutput
from tasks.media.container import open_container
from tasks.media.recording import read_frame_times
from tasks.tools.reaper import reaper

CLIP_S = 2.0
LONG_S = 8.0  # so that what a start takes can be told from what a frame takes


@dataclass(frozen=True)
class OpenFaceCheck:
    """What two runs on the same short clip showed.

    Attributes:
        version: 2.0.x or 2.2.x, as the separator of its CSV tells.
        frames: of the clip.
        tracked: share of them with a face.
        frames_per_s: once the tool has started; 0 where its start takes so much longer that it cannot be told.
        start_s: what every run takes besides: the container, the models.
        columns: how many.
        largest_difference: between the two runs' values; 0 where they are identical.
    """

    version: str
    frames: int
    tracked: float
    frames_per_s: float
    start_s: float
    columns: int
    largest_difference: float

    def told(self) -> dict[str, str]:
        """The same in words."""
        speed = f"{self.frames_per_s:.1f} frames/s" if self.frames_per_s else "too fast to tell"
        difference = self.largest_difference
        return {
            "version": f"{self.version} (as the form of its CSV tells)",
            "columns": str(self.columns),
            "frames": f"{self.frames}, a face in {self.tracked:.0%}",
            "speed": f"{speed}, after a start of {self.start_s:.1f} s",
            "two runs": "identical" if difference == 0 else f"differ by at most {difference:g}",
        }


def check_openface(run: Callable[[Path], AbstractContextManager[ToolOutput]], video: Path) -> OpenFaceCheck:
    """Run OpenFace twice on the first two seconds of ``video``, and once on its first eight.

    Args:
        run: runs it on a clip, as the settings say.
        video: with a face in it.

    Raises:
        ExtractionError: it wrote nothing, or not the whole and sound output of the clip.
    """
    with scratch_folder("check") as folder, reaper(folder):
        clip = folder / "clip.avi"
        cut_clip(video, clip, CLIP_S)
        frames = len(read_frame_times(clip).time)
        first, first_s, version = _measure(run, clip, frames)
        second, second_s, _ = _measure(run, clip, frames)
        long_clip = folder / "long.avi"
        cut_clip(video, long_clip, LONG_S)
        long_frames = len(read_frame_times(long_clip).time)
        _, long_s, _ = _measure(run, long_clip, long_frames)
    short_s = min(first_s, second_s)
    frame_s = max(0.0, (long_s - short_s) / (long_frames - frames))
    difference = np.nan_to_num(np.abs(first - second))
    return OpenFaceCheck(
        version=version,
        frames=frames,
        tracked=float(first[:, OPENFACE_COLUMNS.index("success")].mean()),
        frames_per_s=1 / frame_s if frame_s else 0.0,
        start_s=max(0.0, short_s - frames * frame_s),
        columns=first.shape[1],
        largest_difference=float(difference.max()),
    )


def _measure(
    run: Callable[[Path], AbstractContextManager[ToolOutput]], clip: Path, frames: int
) -> tuple[np.ndarray, float, str]:
    started = time.monotonic()
    with run(clip) as output:
        seconds = time.monotonic() - started
        try:
            values = np.concatenate(list(read_openface_csv(output.csv, frames)))
        except OpenFaceOutputError as error:
            raise ExtractionError(f"{error}{output.remark}") from None
        with output.csv.open("rb") as file:
            version = "2.0.x" if b", " in file.read(64) else "2.2.x"
    return values, seconds, version


def cut_clip(video: Path, target: Path, seconds: float) -> None:
    """Copy the first seconds of a video's picture, without decoding it; the same bytes every time."""
    with open_container(video) as source, av.open(str(target), "w", options={"fflags": "+bitexact"}) as copy:
        stream = source.streams.video[0]
        target_stream = copy.add_stream_from_template(stream)
        for packet in source.demux(stream):
            if packet.dts is None or packet.pts is None or float(packet.pts * packet.time_base) >= seconds:
                continue
            packet.stream = target_stream
            copy.mux(packet)
    target.chmod(0o644)  # nobody's recording; the container's user has to read it
