"""openface: 714 columns per frame from OpenFace 2, recorded or run here (Baltrusaitis et al., FG 2018).

OpenFace's licence is academic and forbids redistribution: the project ships nothing of it. Its exit code 0 proves
nothing: ``csv_output`` checks what it wrote.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from storyframes.features import FEATURES, OPENFACE_COLUMNS
from storyframes.spec import MAIN_ARRAY
from storyframes.store.layout import new_version
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat
from storyframes.times import usual_rate
from tasks.extractors.base import (
    Cost,
    ExtractionError,
    Extractor,
    Input,
    InputFile,
    MissingInputError,
    Source,
    Tolerance,
)
from tasks.extractors.frames import FrameClock, note_interlaced
from tasks.extractors.openface.csv_output import (
    CONFIDENCE,
    SUCCESS,
    TIMESTAMP,
    OpenFaceOutputError,
    X,
    Y,
    read_openface_csv,
)
from tasks.extractors.openface.files import ToolFiles, find_tool_files
from tasks.extractors.openface.several_faces import PersonsFace, is_of_one_lost_face
from tasks.extractors.openface.tool import LONG_S, ToolOutput, check_openface, run_binary, run_container
from tasks.extractors.outside.settings import ContainerSettings
from tasks.extractors.regions import note_doubtful, region_view, video_for_tool
from tasks.media.container import RecordingError
from tasks.media.region import RegionView
from tasks.media.video_header import read_header
from tasks.tools.containers import ContainerError, Engine, Image
from tasks.tools.hpc_engines import find_engine

PUBLIC_IMAGE = "docker.io/algebr/openface@sha256:f43ad4e7fa4530143c7a9e0e8eca7e4f2b45599c1ef19680b68ad1eebba05197"
_HOW_TO_RUN = (
    "to run OpenFace set [openface] backend = 'container' or 'binary' (docs/openface.md); faces without OpenFace's "
    "licence: the feature face (docs/mediapipe.md)"
)
_CSV_ALONE = "only from output that OpenFace wrote before (the column openface of a study, --openface-csv of one file)"
_NO_CSV = f"it is made {_CSV_ALONE}, and none was given (backend = 'csv'); {_HOW_TO_RUN}"
# How far two builds of OpenFace on two machines may differ, by the beginning of the column's name; the first match
# counts.
_BY_BEGINNING = {
    "pose_T": Tolerance(1.0),  # mm
    "pose_R": Tolerance(0.01),  # rad
    "gaze": Tolerance(0.01),  # rad, or parts of a unit vector
    "eye_lmk_": Tolerance(0.5),  # pixels or mm
    "x_": Tolerance(0.5),  # pixels
    "y_": Tolerance(0.5),
    "X_": Tolerance(1.0),  # mm
    "Y_": Tolerance(1.0),
    "Z_": Tolerance(1.0),
    "p_t": Tolerance(0.5),  # pixels
    "p_r": Tolerance(0.01),  # rad
    "p_s": Tolerance(0.01),
    "p_": Tolerance(0.5),
    "confidence": Tolerance(0.01),
    "timestamp": Tolerance(0.001),  # s
}


def _tolerance_of(column: str) -> Tolerance:
    if column.startswith("AU"):
        return Tolerance(0.1) if column.endswith("_r") else Tolerance()
    return next((tolerance for start, tolerance in _BY_BEGINNING.items() if column.startswith(start)), Tolerance())


TOLERANCES: Mapping[str, Tolerance] = {column: _tolerance_of(column) for column in OPENFACE_COLUMNS}
"""By column; ``confidence`` is also the array of that name."""


class Backend(StrEnum):
    """Where OpenFace's output comes from."""

    CSV = "csv"  # recorded before; the study names the file
    BINARY = "binary"  # FeatureExtraction of this machine
    CONTAINER = "container"  # FeatureExtraction of an image


class OpenFaceSettings(ContainerSettings):
    """``[openface]``"""

    backend: Backend = Backend.CSV
    # absolute path of FeatureExtraction, on this machine for the binary, inside the image for the container. Through
    # PATH or a symbolic link it does not find its models
    binary: Path | None = None
    # files and folders that decide the binary's values, where they are not beside it or the binary is a script that
    # runs something else; their digests are part of the fingerprint
    loads: tuple[Path, ...] = ()
    image: str = PUBLIC_IMAGE
    cpus: int = Field(default=2, ge=2)  # processors it may use; with one alone it hangs for ever

    @model_validator(mode="after")
    def _binary_is_absolute(self) -> OpenFaceSettings:
        if self.backend is Backend.BINARY and self.binary is None:
            raise ValueError("backend = 'binary' needs binary = the absolute path of FeatureExtraction")
        if self.binary is not None and not self.binary.is_absolute():
            raise ValueError(f"binary = {str(self.binary)!r} must be an absolute path")
        for path in self.loads:
            if not path.is_absolute():
                raise ValueError(f"loads names {str(path)!r}, which must be an absolute path")
        return self


PROGRAM_OF_PUBLIC_IMAGE = "/home/openface-build/build/bin/FeatureExtraction"


class OpenFace(Extractor[OpenFaceSettings]):
    """The ``openface`` extractor."""

    spec = FEATURES["openface"]
    Settings = OpenFaceSettings
    version = 3  # output of no complete run is refused; timestamps that are not the frames' times are a caveat
    libraries = ("pyarrow",)
    tolerance = TOLERANCES
    in_pixels: ClassVar = {
        "x": ("p_tx", *(f"eye_lmk_x_{number}" for number in range(56))),
        "y": ("p_ty", *(f"eye_lmk_y_{number}" for number in range(56))),
        "length": ("p_scale",),
    }

    @property
    def inputs(self) -> tuple[str, ...]:  # type: ignore[override]
        """The video, and with ``backend = "csv"`` OpenFace's output."""
        recorded = self.settings.backend is Backend.CSV
        return (Input.VIDEO, Input.OPENFACE) if recorded else (Input.VIDEO,)

    @property
    def needs(self) -> Mapping[str, float]:
        """The tool's own processors; reading a recorded CSV is as light as any other feature."""
        return {"CPU": 1 if self.settings.backend is Backend.CSV else self.settings.cpus}

    @property
    def tool_memory_gib(self) -> float:
        return 0.0 if self.settings.backend is Backend.CSV else self.settings.memory_gib

    @property
    def cost(self) -> Cost:
        return Cost(0.002 if self.settings.backend is Backend.CSV else 3.0)

    @property
    def sees_pictures(self) -> bool:
        """A recorded CSV is of the whole picture, and so are its pixels; a region says which of its faces is taken."""
        return self.settings.backend is not Backend.CSV

    @property
    def condition(self) -> str:
        return f"{_CSV_ALONE}; {_HOW_TO_RUN}" if self.settings.backend is Backend.CSV else ""

    def file(self, source: Source, kind: str) -> InputFile:
        if kind == Input.OPENFACE and not source.names(kind):
            raise MissingInputError(_NO_CSV)
        return super().file(source, kind)

    def value_settings(self) -> Mapping[str, Any]:
        inside = {"binary": self._binary_inside} if self.settings.backend is Backend.CONTAINER else {}
        return {"backend": self.settings.backend, **inside}

    def models(self) -> Mapping[str, str]:
        match self.settings.backend:
            case Backend.CSV:
                return {}
            case Backend.BINARY:
                return self._tool_files.digests
            case Backend.CONTAINER:
                return {"image": self._container[1].digest}

    def extract(self, source: Source, out: FeatureWriter) -> None:
        clock = FrameClock.read(source, out)
        note_interlaced(clock, out)
        if self.settings.backend is Backend.CSV:
            self._note_other_pictures(source, out)
        view = region_view(source, out, self.common.recording)
        with self._output(source, clock.end_s, out, view) as output:
            try:
                if self.settings.backend is Backend.CSV and (view or is_of_one_lost_face(output.csv)):
                    face = PersonsFace(output.csv, clock.time, view.holds if view else _everywhere)
                    _store_one_of_several(face, source, clock, out)
                else:
                    _store(read_openface_csv(output.csv, len(clock), clock.time), clock, out)
            except OpenFaceOutputError as error:
                raise ExtractionError(f"{error}{output.remark}") from None
        out.attributes["exit_code"] = output.exit_code
        if self.settings.backend is Backend.CONTAINER and (limits := self._container[0].unenforced):
            out.attributes["limits_not_enforced"] = limits

    def _note_other_pictures(self, source: Source, out: FeatureWriter) -> None:
        """Caveats of output from elsewhere, where OpenFace's own decoder may have shown other pictures than ours."""
        try:
            header = read_header(source.file(Input.VIDEO).path, self.common.recording.streams)
        except RecordingError as error:
            raise ExtractionError(str(error)) from None
        if not header.is_upright:
            out.caveat(Caveat.UNKNOWN_ORIENTATION)
        if header.has_wide_colours:
            out.caveat(Caveat.TOOL_COLOURS)

    def check_tool(self) -> None:
        """Find the configured binary or image; see :meth:`Extractor.check_tool`."""
        match self.settings.backend:
            case Backend.BINARY:
                self._tool_files  # noqa: B018 - raises where it is missing
            case Backend.CONTAINER:
                self._container  # noqa: B018 - raises where it is missing

    def try_out(self, video: Path) -> Mapping[str, str]:
        """Run OpenFace three times; see :meth:`Extractor.try_out`.

        Where nothing is configured to be run (``backend = "csv"``), the container is tried.
        """
        if self.settings.backend is Backend.CSV:
            return OpenFace(self.settings.model_copy(update={"backend": Backend.CONTAINER}), self.common).try_out(video)
        checked = check_openface(lambda clip: self.run_tool(clip, LONG_S, new_version()), video)
        return {"backend": self.settings.backend, "runs": self.identity, **checked.in_words()}

    @contextmanager
    def _output(
        self, source: Source, video_s: float, out: FeatureWriter, view: RegionView | None
    ) -> Iterator[ToolOutput]:
        """The CSV of this session: the study's, or one that is written now and removed afterwards."""
        if self.settings.backend is Backend.CSV:
            yield ToolOutput(source.file(Input.OPENFACE).path)
            return
        try:
            with (
                video_for_tool(source.file(Input.VIDEO).path, view, self.common.recording, out) as video,
                self.run_tool(video, video_s, out.version) as output,
            ):
                yield output
        except RecordingError as error:
            raise ExtractionError(str(error)) from None

    @contextmanager
    def run_tool(self, video: Path, video_s: float, attempt: str) -> Iterator[ToolOutput]:
        """Run the configured tool on a video of ``video_s`` seconds; ``attempt`` is the id of this attempt.

        Raises:
            ExtractionError: the tool is not installed, failed, wrote no CSV, or loads files that are not hashed.
        """
        limits = self.settings.limits(video_s)
        if self.settings.backend is Backend.BINARY:
            with run_binary(self._binary(), video, threads=limits.cpus, timeout_s=limits.timeout_s) as output:
                self._tool_files.check_printed(output.printed)
                if find_tool_files(self._binary(), self.settings.loads) != self._tool_files:
                    raise ExtractionError("[openface] binary, or what it loads, was changed while it ran")
                yield output
            return
        engine, image = self._container
        with run_container(
            engine, image, self._binary_inside, video, name=f"storyframes-{attempt}", limits=limits
        ) as output:
            yield output

    @property
    def identity(self) -> str:
        """The tool or the image that runs, and its SHA-256.

        Raises:
            ExtractionError: it is not on this machine.
        """
        if self.settings.backend is Backend.BINARY:
            return f"{self._binary()}, sha256:{self._tool_files.digests['FeatureExtraction']}"
        engine, image = self._container
        return f"{engine.name}, image sha256:{image.digest}"

    @cached_property
    def _tool_files(self) -> ToolFiles:
        return find_tool_files(self._binary(), self.settings.loads)

    @property
    def _binary_inside(self) -> str:
        """An image may contain more than one FeatureExtraction."""
        return str(self.settings.binary or PROGRAM_OF_PUBLIC_IMAGE)

    def _binary(self) -> Path:
        binary = self.settings.binary
        if binary is None or not binary.is_file() or not os.access(binary, os.X_OK):
            raise ExtractionError(f"[openface] binary = {str(binary)!r} is not an executable file")
        return binary

    @cached_property
    def _container(self) -> tuple[Engine, Image]:
        try:
            engine = find_engine(self.settings.engine)
            return engine, engine.resolve(self.settings.image)
        except ContainerError as error:
            raise ExtractionError(str(error)) from None


def _everywhere(frames: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.ones(len(frames), bool)


def _store_one_of_several(face: PersonsFace, source: Source, clock: FrameClock, out: FeatureWriter) -> None:
    _store(face.blocks(), clock, out)
    note_doubtful(source, out, face.jumps_s)
    out.quality["several_faces_in_region"] = face.ambiguous / len(clock)
    if face.is_of_several_faces:
        out.caveat(Caveat.STATIC_ACTION_UNITS)


def _store(blocks: Iterator[np.ndarray], clock: FrameClock, out: FeatureWriter) -> None:
    values, valid, confidence = out.array("values"), out.array("valid"), out.array("confidence")
    tracked, confident, rows, off_s = 0.0, 0.0, 0, 0.0
    positions: list[np.ndarray] = []
    for block in blocks:
        values.append(block)
        valid.append(block[:, SUCCESS].astype(np.uint8))
        confidence.append(block[:, CONFIDENCE])
        stored = out.change_rows(MAIN_ARRAY, rows, block) if out.change_rows else block  # of a region of the picture
        tracked += float(np.nansum(stored[:, SUCCESS]))
        confident += float(np.nansum(stored[:, CONFIDENCE]))
        time = clock.time[rows : rows + len(block)]
        off_s = max(off_s, float(np.abs(block[: len(time), TIMESTAMP] - time).max(initial=0.0)))
        x, y = (stored[stored[:, SUCCESS] == 1, part] for part in (X, Y))
        positions.append(np.stack([x.mean(axis=1), y.mean(axis=1), np.ptp(x, axis=1)], axis=1))
        rows += len(block)
    if tracked:  # where several faces are visible, this shows which one OpenFace followed
        for name, median in zip(("x", "y", "width"), np.median(np.concatenate(positions), axis=0), strict=True):
            out.quality[f"face_{name}_px"] = float(median)
    out.quality["face_tracked"] = tracked / rows
    out.quality["face_confidence"] = confident / rows
    out.quality["timestamp_off_s"] = off_s
    rate = usual_rate(clock.time, 0.0)
    if rate and off_s > 0.5 / rate:
        out.caveat(Caveat.OTHER_TIMESTAMPS)
