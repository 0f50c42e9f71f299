"""Running a program of OpenFace on one video, as a binary of this machine or in its container.

A run whose exit code is not 0 has failed, whatever it wrote: action units are post-processed at the very end. After
exit code 0 the CSV is not checked yet: ``csv_output`` does that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from storyframes.features import OPENFACE_COLUMNS
from storyframes.store.storage.scratch import scratch_folder
from tasks.extractors.base import ExtractionError
from tasks.extractors.openface.csv_output import OpenFaceOutputError, read_openface_csv
from tasks.extractors.tool_folder import tool_folder
from tasks.media.container import open_container
from tasks.media.recording import read_frame_times
from tasks.tools.containers import (
    ENGINE_FAILURES,
    ContainerError,
    ContainerJob,
    Engine,
    Image,
    Limits,
    Mount,
    why_not_started,
)
from tasks.tools.disk_space import is_full, no_room_for_temporary_files
from tasks.tools.tool_process import KILLED, ToolResult, reaper, run_tool, thread_environment

FLAGS = ("-2Dfp", "-3Dfp", "-pdmparams", "-pose", "-aus", "-gaze")
_OUTPUT = "output"  # it may have to belong to the container's user; its parent stays ours


@dataclass(frozen=True)
class ToolOutput:
    """The output of a run."""

    csv: Path  # the file it wrote, which is removed at the end of the context
    exit_code: int | None = None  # None for a CSV of the study, from a run elsewhere
    printed: str = ""  # the beginning of what it printed
    program: str = "FeatureExtraction"  # its name

    @property
    def remark(self) -> str:
        """What may explain an incomplete CSV, to be added to the reason."""
        if self.exit_code is None:
            return ""
        room = f"; {no_room_for_temporary_files()}" if is_full(self.csv.parent) else ""
        return f" ({self.program} ended with {self.exit_code}{room})"


@contextmanager
def run_binary(binary: Path, video: Path, *, threads: int, timeout_s: float) -> Iterator[ToolOutput]:
    """Run a program of this machine in a private folder.

    Raises:
        ExtractionError: it failed, or wrote no CSV.
    """
    if len(os.sched_getaffinity(0)) < 2:
        raise ExtractionError("OpenFace 2.0 hangs for ever on one CPU: give this process at least 2")
    with tool_folder("openface", _OUTPUT) as (scratch, reap):
        folder = scratch / _OUTPUT
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(folder), **thread_environment(threads)}
        command = [str(binary), "-f", str(video), "-out_dir", str(folder), *FLAGS]
        result = run_tool(command, folder=folder, timeout_s=timeout_s, environment=environment, reaper=reap)
        csv = folder / f"{video.stem}.csv"
        if problem := _problem(result, timeout_s) or ("" if csv.is_file() else "ended with 0 and wrote no CSV"):
            raise _failure(f"{binary.name} {problem}", result, folder, video)
        yield ToolOutput(csv, result.exit_code, result.beginning, binary.name)


@contextmanager
def run_container(
    engine: Engine, image: Image, binary: str, video: Path, *, name: str, limits: Limits
) -> Iterator[ToolOutput]:
    """Run a program of an image; inside, the video is called ``video``.

    Raises:
        ExtractionError: the container could not be run, it failed, or it wrote no CSV.
    """
    with tool_folder("openface", _OUTPUT) as (scratch, _):
        folder = scratch / _OUTPUT
        inside = f"/input/video{video.suffix}"
        job = ContainerJob(
            name=name,
            command=(binary, "-f", inside, "-out_dir", "/output", *FLAGS),
            inputs=(Mount(video, inside),),
            output=Mount(folder, "/output"),
            limits=limits,
        )
        try:
            result = engine.run(image, job)
        except ContainerError as error:
            raise ExtractionError(str(error)) from None
        if why := why_not_started(result):
            raise ExtractionError(f"the image has no {binary} that can be run ([openface] binary): {why}")
        if not result.timed_out and result.exit_code in ENGINE_FAILURES:
            raise _failure(f"{engine.name} could not run the container ({result.exit_code})", result, folder, video)
        csv = folder / "video.csv"
        problem = _problem(result, limits.timeout_s, limits)
        if problem := problem or ("" if _is_readable_file(csv) else "ended with 0 and left no CSV"):
            raise _failure(f"{Path(binary).name} {problem}", result, folder, video)
        yield ToolOutput(csv, result.exit_code, result.beginning, Path(binary).name)


def _is_readable_file(path: Path) -> bool:
    # A link could lead out of the container's folder; the tool writes plain files only.
    return path.is_file() and not path.is_symlink() and os.access(path, os.R_OK)


def _problem(result: ToolResult, timeout_s: float, limits: Limits | None = None) -> str:
    """Why the run has failed, by how the tool ended; empty where it has not."""
    if result.timed_out:
        return f"was stopped after {timeout_s:.0f} s, all the time it had ([openface] timeout_s)"
    if result.exit_code == KILLED and limits:
        return (
            f"was killed (137): it ran out of memory if the limit of {limits.memory_gib:g} GiB was too little "
            "([openface] memory_gib)"
        )
    return f"ended with {result.exit_code}" if result.exit_code else ""


def _failure(problem: str, result: ToolResult, folder: Path, video: Path) -> ExtractionError:
    room = f": {no_room_for_temporary_files()}" if is_full(folder) else ""
    return ExtractionError(f"{video.name}: {problem}{room}{result.printed_last(folder, video.parent)}")


# --- trying the tool on a short clip before a study depends on it ---------------------------------------------

CLIP_S = 2.0
LONG_S = 8.0  # a second length, to separate the time of a start from the time of a frame


@dataclass(frozen=True)
class OpenFaceCheck:
    """The results of two runs on the same short clip."""

    version: str  # 2.0.x or 2.2.x, by the separator of its CSV
    frames: int  # number of frames of the clip
    tracked: float  # share of them with a face
    frames_per_s: float  # after the start; 0 where the start takes too long to measure it
    start_s: float  # seconds that every run takes besides: the container, the models
    columns: int  # their number
    largest_difference: float  # between the two runs' values; 0 where they are identical

    def in_words(self) -> dict[str, str]:
        speed = f"{self.frames_per_s:.1f} frames/s" if self.frames_per_s else "too fast to tell"
        difference = self.largest_difference
        return {
            "version": f"{self.version} (by the form of its CSV)",
            "columns": str(self.columns),
            "frames": f"{self.frames}, a face in {self.tracked:.0%}",
            "speed": f"{speed}, after a start of {self.start_s:.1f} s",
            "two runs": "identical" if difference == 0 else f"differ by at most {difference:g}",
        }


def check_openface(run: Callable[[Path], AbstractContextManager[ToolOutput]], video: Path) -> OpenFaceCheck:
    """Run OpenFace twice on the first two seconds of ``video``, which shows a face, and once on its first eight.

    Raises:
        ExtractionError: it wrote nothing, or no complete output.
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
    import av

    with open_container(video) as source, av.open(str(target), "w", options={"fflags": "+bitexact"}) as copy:
        stream = source.streams.video[0]
        target_stream = copy.add_stream_from_template(stream)
        for packet in source.demux(stream):
            if packet.dts is None or packet.pts is None or float(packet.pts * packet.time_base) >= seconds:
                continue
            packet.stream = target_stream
            copy.mux(packet)
    target.chmod(0o644)  # a clip of the demo or of the user's choice; the container's user has to read it
