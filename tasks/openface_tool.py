"""Running OpenFace's FeatureExtraction on one video: as a binary of this machine, or in its container.

Both give back the path of a CSV that nobody has believed yet; ``openface_csv`` decides about it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tasks.containers import ContainerError, ContainerJob, Engine, Image, Limits, Mount
from tasks.extractor import ExtractionError
from tasks.tool_process import ToolResult, run_tool, thread_environment

FLAGS = ("-2Dfp", "-3Dfp", "-pdmparams", "-pose", "-aus", "-gaze")
_SHOWN_CHARACTERS = 400
_KILLED = 137


@dataclass(frozen=True)
class ToolOutput:
    """What a run left behind.

    Attributes:
        csv: the file it wrote; gone when the context is left.
        ending: how it ended, for an error message about the CSV.
    """

    csv: Path
    ending: str


@contextmanager
def run_binary(binary: Path, video: Path, *, threads: int, timeout_s: float) -> Iterator[ToolOutput]:
    """Run the FeatureExtraction of this machine in a private folder.

    Raises:
        ExtractionError: it wrote no CSV.
    """
    if len(os.sched_getaffinity(0)) < 2:
        raise ExtractionError("OpenFace 2.0 hangs for ever on one CPU: give this process at least 2")
    with tempfile.TemporaryDirectory(prefix="storyframes-openface-") as folder:
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": folder, **thread_environment(threads)}
        command = [str(binary), "-f", str(video), "-out_dir", folder, *FLAGS]
        result = run_tool(command, folder=Path(folder), timeout_s=timeout_s, environment=environment)
        ending = _ending(result, timeout_s, None)
        csv = Path(folder) / f"{video.stem}.csv"
        if result.timed_out or not csv.is_file():
            raise ExtractionError(f"{video.name}: {ending} and wrote no CSV{_printed(result, Path(folder), video)}")
        yield ToolOutput(csv, ending)


@contextmanager
def run_container(
    engine: Engine, image: Image, binary: str, video: Path, *, name: str, limits: Limits
) -> Iterator[ToolOutput]:
    """Run the FeatureExtraction of an image; the video has the name ``video`` inside, whatever its name is here.

    Raises:
        ExtractionError: the container could not be run, or it wrote no CSV.
    """
    with tempfile.TemporaryDirectory(prefix="storyframes-openface-") as folder:
        inside = f"/input/video{video.suffix}"
        job = ContainerJob(
            name=name,
            command=(binary, "-f", inside, "-out_dir", "/output", *FLAGS),
            inputs=(Mount(video, inside),),
            output=Mount(Path(folder), "/output"),
            limits=limits,
        )
        try:
            result = engine.run(image, job)
        except ContainerError as error:
            raise ExtractionError(str(error)) from None
        ending = _ending(result, limits.timeout_s, limits)
        csv = Path(folder) / "video.csv"
        if result.timed_out or not _is_readable_file(csv):
            raise ExtractionError(f"{video.name}: {ending} and left no CSV{_printed(result, Path(folder), video)}")
        yield ToolOutput(csv, ending)


def _is_readable_file(path: Path) -> bool:
    # A link could lead out of the container's folder; the tool writes plain files only.
    return path.is_file() and not path.is_symlink() and os.access(path, os.R_OK)


def _ending(result: ToolResult, timeout_s: float, limits: Limits | None) -> str:
    if result.timed_out:
        return f"FeatureExtraction was stopped after {timeout_s:.0f} s, all the time it had ([openface] timeout_s)"
    if result.exit_code == _KILLED and limits:
        return (
            f"FeatureExtraction was killed (137): it ran out of memory if the limit of {limits.memory_gib:g} GiB was "
            "too little ([openface] memory_gib)"
        )
    return f"FeatureExtraction ended with {result.exit_code}"


def _printed(result: ToolResult, folder: Path, video: Path) -> str:
    """The end of what the tool printed, without a path of this machine."""
    text = result.output.replace(str(folder), "…").replace(str(video.parent), "…")
    return f"; it printed last: {text[-_SHOWN_CHARACTERS:]}" if text else ""
