"""Running OpenFace's FeatureExtraction on one video: as a binary of this machine, or in its container.

A run that ended with anything but 0 is a failure, whatever it left behind: action units are post-processed at the very
end. One that ended with 0 gives back the path of a CSV that is not checked yet: ``csv_output`` does that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from storyframes.store.storage.scratch import scratch_folder
from tasks.extractors.base import ExtractionError
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
from tasks.tools.disk_space import NO_ROOM, is_full, no_room_for_temporary_files
from tasks.tools.reaper import Reaper, reaper
from tasks.tools.tool_process import ToolResult, run_tool, thread_environment

FLAGS = ("-2Dfp", "-3Dfp", "-pdmparams", "-pose", "-aus", "-gaze")
_SHOWN_CHARACTERS = 400
_KILLED = 137


@dataclass(frozen=True)
class ToolOutput:
    """What a run left behind.

    Attributes:
        csv: the file it wrote; gone when the context is left.
        exit_code: how it ended; None where it ran elsewhere, before.
        printed: the beginning of what it printed.
    """

    csv: Path
    exit_code: int | None = None
    printed: str = ""

    @property
    def remark(self) -> str:
        """What may explain a CSV that is not whole, to be put behind the reason."""
        if self.exit_code is None:
            return ""
        room = f"; {no_room_for_temporary_files()}" if is_full(self.csv.parent) else ""
        return f" (FeatureExtraction ended with {self.exit_code}{room})"


@contextmanager
def run_binary(binary: Path, video: Path, *, threads: int, timeout_s: float) -> Iterator[ToolOutput]:
    """Run the FeatureExtraction of this machine in a private folder.

    Raises:
        ExtractionError: it failed, or wrote no CSV.
    """
    if len(os.sched_getaffinity(0)) < 2:
        raise ExtractionError("OpenFace 2.0 hangs for ever on one CPU: give this process at least 2")
    with _output_folder() as (folder, reap):
        environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(folder), **thread_environment(threads)}
        command = [str(binary), "-f", str(video), "-out_dir", str(folder), *FLAGS]
        result = run_tool(command, folder=folder, timeout_s=timeout_s, environment=environment, reaper=reap)
        csv = folder / f"{video.stem}.csv"
        if problem := _problem(result, timeout_s) or ("" if csv.is_file() else "ended with 0 and wrote no CSV"):
            raise _failure(f"FeatureExtraction {problem}", result, folder, video)
        yield ToolOutput(csv, result.exit_code, result.beginning)


@contextmanager
def run_container(
    engine: Engine, image: Image, binary: str, video: Path, *, name: str, limits: Limits
) -> Iterator[ToolOutput]:
    """Run the FeatureExtraction of an image; the video has the name ``video`` inside, whatever its name is here.

    Raises:
        ExtractionError: the container could not be run, it failed, or it wrote no CSV.
    """
    with _output_folder() as (folder, _):
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
            raise _failure(f"FeatureExtraction {problem}", result, folder, video)
        yield ToolOutput(csv, result.exit_code, result.beginning)


@contextmanager
def _output_folder() -> Iterator[tuple[Path, Reaper]]:
    """An empty folder for the tool's output, which is gone afterwards, also when this process is killed."""
    with ExitStack() as stack:
        try:
            scratch = stack.enter_context(scratch_folder("openface"))
            # It may have to belong to the container's user; the folder around it stays ours.
            output = scratch / "output"
            output.mkdir()
        except OSError as error:
            if error.errno in NO_ROOM:
                raise ExtractionError(no_room_for_temporary_files()) from None
            raise
        yield output, stack.enter_context(reaper(scratch))


def _is_readable_file(path: Path) -> bool:
    # A link could lead out of the container's folder; the tool writes plain files only.
    return path.is_file() and not path.is_symlink() and os.access(path, os.R_OK)


def _problem(result: ToolResult, timeout_s: float, limits: Limits | None = None) -> str:
    """What was wrong with how the tool ended."""
    if result.timed_out:
        return f"was stopped after {timeout_s:.0f} s, all the time it had ([openface] timeout_s)"
    if result.exit_code == _KILLED and limits:
        return (
            f"was killed (137): it ran out of memory if the limit of {limits.memory_gib:g} GiB was too little "
            "([openface] memory_gib)"
        )
    return f"ended with {result.exit_code}" if result.exit_code else ""


def _failure(problem: str, result: ToolResult, folder: Path, video: Path) -> ExtractionError:
    room = f": {no_room_for_temporary_files()}" if is_full(folder) else ""
    return ExtractionError(f"{video.name}: {problem}{room}{_printed(result, folder, video)}")


def _printed(result: ToolResult, folder: Path, video: Path) -> str:
    """The end of what the tool printed, from a word's beginning, without a path of this machine."""
    text = result.output.replace(str(folder), "…").replace(str(video.parent), "…")
    if len(text) > _SHOWN_CHARACTERS:
        text = "… " + re.sub(r"^\S*\s+", "", text[-_SHOWN_CHARACTERS:])
    return f"; it printed last: {text}" if text else ""
