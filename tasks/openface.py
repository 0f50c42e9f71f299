"""openface: 714 columns per frame from OpenFace 2, recorded or run here (Baltrusaitis et al., FG 2018).

OpenFace's licence is academic and forbids redistribution: the project ships nothing of it. The exit code is never
believed; ``openface_csv`` decides.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

import numpy as np
from pydantic import Field, model_validator

from storyframes.features import OPENFACE_COLUMNS
from storyframes.publish import FeatureWriter
from tasks.digests import model_digest
from tasks.extractor import ExtractionError, ExtractorSettings, Fingerprint, MissingInputError, Source
from tasks.frames import RecordingSettings, read_clock
from tasks.openface_csv import OpenFaceOutputError, read_openface_csv
from tasks.tool_process import ToolResult, run_tool

FLAGS = ("-2Dfp", "-3Dfp", "-pdmparams", "-pose", "-aus", "-gaze")
_CONFIDENCE = OPENFACE_COLUMNS.index("confidence")
_SUCCESS = OPENFACE_COLUMNS.index("success")


class Backend(StrEnum):
    """Where OpenFace's output comes from."""

    CSV = "csv"  # recorded before; the study names the file
    BINARY = "binary"  # FeatureExtraction on this machine


class OpenFaceSettings(ExtractorSettings):
    """``[openface]``

    Attributes:
        backend: see :class:`Backend`.
        binary: absolute path of FeatureExtraction (through PATH or a symbolic link it does not find its models).
        cpus: threads it may use; with one it hangs for ever.
        timeout_s_per_video_s: how long it may take, in seconds per second of video; at least ``timeout_s``.
        timeout_s: the least time it gets.
    """

    backend: Backend = Backend.CSV
    binary: Path | None = None
    cpus: int = Field(default=2, ge=2)
    timeout_s_per_video_s: float = Field(default=30, gt=0)
    timeout_s: float = Field(default=300, gt=0)

    @model_validator(mode="after")
    def _binary_is_given(self) -> OpenFaceSettings:
        if self.backend is Backend.BINARY and self.binary is None:
            raise ValueError("backend = 'binary' needs binary = the absolute path of FeatureExtraction")
        if self.binary is not None and not self.binary.is_absolute():
            raise ValueError(f"binary = {str(self.binary)!r} must be an absolute path")
        return self


class OpenFace:
    """The ``openface`` extractor."""

    name = "openface"
    libraries = ("pyarrow",)

    def __init__(self, settings: OpenFaceSettings, recording: RecordingSettings) -> None:
        self.settings = settings
        self.recording = recording

    @property
    def needs(self) -> Mapping[str, float]:
        return {}

    def fingerprint(self, source: Source) -> Fingerprint:
        inputs = {"video": source.file("video")}
        models = {}
        if self.settings.backend is Backend.CSV:
            if "openface" not in source.files:
                raise MissingInputError("the study names no OpenFace CSV for this session (backend = 'csv')")
            inputs["openface"] = source.file("openface")
        else:
            models["FeatureExtraction"] = model_digest(self._binary())
        settings = {"backend": self.settings.backend, **self.recording.model_dump()}
        return Fingerprint(self.name, 1, inputs, settings, models)

    def extract(self, source: Source, out: FeatureWriter) -> None:
        clock = read_clock(source, out)
        with self._output(source, clock.end_s) as csv:
            try:
                _store(read_openface_csv(csv, len(clock)), out)
            except OpenFaceOutputError as error:
                raise ExtractionError(str(error)) from None

    @contextmanager
    def _output(self, source: Source, video_s: float) -> Iterator[Path]:
        """The CSV of this session: the recorded one, or one that is written now and removed afterwards."""
        if self.settings.backend is Backend.CSV:
            yield source.file("openface").path
            return
        video = source.file("video").path
        with tempfile.TemporaryDirectory(prefix="storyframes-openface-") as folder:
            result = self._run(video, Path(folder), video_s)
            csv = Path(folder) / f"{video.stem}.csv"
            if result.timed_out or not csv.is_file():
                raise ExtractionError(_explain(result, video.name))
            try:
                yield csv
            except ExtractionError as error:
                raise ExtractionError(f"{error} (FeatureExtraction ended with {result.exit_code})") from None

    def _run(self, video: Path, folder: Path, video_s: float) -> ToolResult:
        if len(os.sched_getaffinity(0)) < 2:
            raise ExtractionError("OpenFace 2.0 hangs for ever on one CPU: give this process at least 2")
        timeout_s = max(self.settings.timeout_s, self.settings.timeout_s_per_video_s * video_s)
        command = [str(self._binary()), "-f", str(video), "-out_dir", str(folder), *FLAGS]
        return run_tool(command, folder=folder, timeout_s=timeout_s, threads=self.settings.cpus)

    def _binary(self) -> Path:
        binary = self.settings.binary
        if binary is None or not os.access(binary, os.X_OK):
            raise ExtractionError(f"[openface] binary = {str(binary)!r} is not an executable file")
        return binary


def _store(blocks: Iterator[np.ndarray], out: FeatureWriter) -> None:
    values, valid, confidence = out.array("values"), out.array("valid"), out.array("confidence")
    tracked, confident, rows = 0.0, 0.0, 0
    for block in blocks:
        values.append(block)
        valid.append(block[:, _SUCCESS].astype(np.uint8))
        confidence.append(block[:, _CONFIDENCE])
        tracked += float(block[:, _SUCCESS].sum())
        confident += float(block[:, _CONFIDENCE].sum())
        rows += len(block)
    out.quality["face_tracked"] = tracked / rows
    out.quality["face_confidence"] = confident / rows


def _explain(result: ToolResult, video: str) -> str:
    ending = "was stopped after its time was up" if result.timed_out else f"ended with {result.exit_code}"
    printed = f"; it printed last: {result.output[-300:]}" if result.output else ""
    return f"{video}: FeatureExtraction {ending} and wrote no CSV{printed}"
