"""One session's work by an external program: its manifest, its frames, its end, and its checked results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from storyframes.features import FeatureSpec
from tasks.extractors.base import ExtractionError
from tasks.extractors.outside.client import FORMAT
from tasks.extractors.outside.results import ResultsError, RowsByArray, store_results
from tasks.extractors.outside.runtime import Runtime, VenvRuntime, WorkFolder
from tasks.extractors.tool_folder import room_for_temporary_files, tool_folder
from tasks.tools.containers import ENGINE_FAILURES, ContainerError, why_not_started
from tasks.tools.disk_space import is_full, no_room_for_temporary_files
from tasks.tools.tool_process import KILLED, RunningTool, ToolResult


@dataclass(frozen=True)
class FrameStream:
    """The frames on the program's standard input: ``count`` times height x width x 3 bytes, RGB, without gaps."""

    count: int
    width: int
    height: int


@dataclass(frozen=True)
class Assignment:
    """What a program has to do."""

    spec: FeatureSpec  # of the feature
    session_id: str  # of which session
    inputs: Mapping[str, Path]  # the session's files that it may read, by kind
    settings: Mapping[str, Any]  # of the plug-in
    frame_times: np.ndarray  # (T,) float64 seconds, the session's clock
    patience_s: float  # seconds that it may take
    threads: int  # how many it may use
    private: bool  # what it prints may be somebody's words, and goes nowhere

    def manifest(self, frames: FrameStream | None) -> dict[str, Any]:
        """The program's manifest (``client`` reads it), without the paths, which depend on where it runs."""
        return {
            "format": FORMAT,
            "feature": self.spec.name,
            "session": self.session_id,
            "settings": dict(self.settings),
            "frames": frames and {**vars(frames), "format": "rgb24"},
            "threads": self.threads,
            "arrays": {
                name: {
                    "dtype": np.dtype(array.dtype).newbyteorder("<").str,
                    "shape": list(array.shape),
                    "axis": str(array.axis),
                    "optional": array.optional,
                }
                for name, array in self.spec.arrays.items()
            },
        }


class OutsideSession:
    """A program at work on one session; made by :func:`outside_session`."""

    def __init__(
        self, assignment: Assignment, runtime: Runtime, folder: WorkFolder, tool: RunningTool, *, streamed: bool
    ) -> None:
        self._assignment = assignment
        self._runtime = runtime
        self._folder = folder
        self._tool = tool
        self._streamed = streamed
        self._sent = 0

    def send(self, rgb: np.ndarray) -> None:
        """Send the next frames, (n, height, width, 3) uint8, as fast as the program reads them.

        Raises:
            ExtractionError: it takes no more.
        """
        if not self._tool.send(np.ascontiguousarray(rgb).data):
            self._check_ending(self._tool.end())
            frames = f"frame {self._sent} of {len(self._assignment.frame_times)}"
            raise ExtractionError(f"its program ended, as if all were well, at {frames}")
        self._sent += len(rgb)

    def finish(self, out: RowsByArray) -> None:
        """Wait for the end of the program and store what it wrote.

        Raises:
            ExtractionError: it failed, or what it wrote is not whole and sound.
        """
        result = self._tool.end()
        self._check_ending(result)
        python = self._runtime.environment.python if isinstance(self._runtime, VenvRuntime) else ""
        assignment = self._assignment
        try:
            store_results(
                self._folder.output,
                assignment.spec,
                len(assignment.frame_times),
                out,
                streamed=self._streamed,
                python=python,
            )
        except ResultsError as error:
            message = self._said(result)
            raise ExtractionError(
                f"its program ended with 0, but its results cannot be used: {error}{message}"
            ) from None

    def _check_ending(self, result: ToolResult) -> None:
        if problem := self._problem(result):
            room = f": {no_room_for_temporary_files()}" if is_full(self._folder.output) else ""
            raise ExtractionError(f"{problem}{room}{self._said(result)}")

    def _problem(self, result: ToolResult) -> str:
        """What was wrong with how the program ended."""
        section = f"[{self._assignment.spec.name}]"
        if result.timed_out:
            return (
                f"its program was stopped after it had kept us waiting for {self._assignment.patience_s:.0f} s, all "
                f"the time it had ({section} timeout_s)"
            )
        if not isinstance(self._runtime, VenvRuntime):
            if why := why_not_started(result):
                return "its program cannot be run in the image" + ("" if self._assignment.private else f": {why}")
            if result.exit_code in ENGINE_FAILURES:
                return f"the container could not be run ({result.exit_code})"
        if result.exit_code == KILLED:
            return f"its program was killed (137): out of memory, perhaps ({section} memory_gib, of a container)"
        return f"its program ended with {result.exit_code}" if result.exit_code else ""

    def _said(self, result: ToolResult) -> str:
        """The end of what the program printed, without a path of this machine."""
        folders = (self._folder.root, *(path.parent for path in self._assignment.inputs.values()))
        return "" if self._assignment.private else result.printed_last(*folders)


@contextmanager
def outside_session(
    assignment: Assignment, runtime: Runtime, attempt: str, frames: FrameStream | None
) -> Iterator[OutsideSession]:
    """A program at work on one session; it, and all it wrote, is gone at the end of the block.

    Args:
        assignment: what it has to do.
        runtime: where it runs.
        attempt: a name that is this attempt's alone.
        frames: what it will be sent; None where it reads files only.

    Raises:
        ExtractionError: its container cannot be run, or the disk is full.
    """
    with room_for_temporary_files(), tool_folder("outside", "output", "temporary") as (root, reap):
        folder = WorkFolder(root, reap)
        inputs, frame_times, output = runtime.seen(folder, assignment.inputs)
        np.save(folder.frame_times, np.asarray(assignment.frame_times, "<f8"))
        folder.frame_times.chmod(0o644)  # a container's user has to read it; the folder around it is ours alone
        paths = {"inputs": inputs, "frame_times": frame_times, "output": output}
        folder.manifest.write_text(json.dumps(assignment.manifest(frames) | paths))
        folder.manifest.chmod(0o644)
        try:
            with runtime.running(
                folder, assignment.inputs, f"storyframes-{attempt}", assignment.patience_s, takes_input=bool(frames)
            ) as tool:
                yield OutsideSession(assignment, runtime, folder, tool, streamed=frames is not None)
        except ContainerError as error:
            raise ExtractionError(str(error)) from None
