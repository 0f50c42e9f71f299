"""face: the landmarks of one face in every frame, by MediaPipe's Face Mesh.

Its models are in the wheel of mediapipe 0.10.14, so one command installs all it needs. Newer wheels have none.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from storyframes import ArraySpec, Axis, FeatureSpec
from storyframes_mediapipe.extractor import SPEC
from tasks.extractors import Cost, OutsideFrameExtractor, Requirements, Run, VenvSettings

_HERE = Path(__file__).parent


class FaceSettings(VenvSettings):
    """``[face]``

    Attributes:
        static_image_mode: look for the face anew in every frame, instead of near the last frame's.
        min_detection_confidence: 0..1, from where on a face is believed to be there.
        min_tracking_confidence: 0..1, below which a face that is followed is looked for anew.
    """

    static_image_mode: bool = False
    min_detection_confidence: float = Field(default=0.5, ge=0, le=1)
    min_tracking_confidence: float = Field(default=0.5, ge=0, le=1)


class Face(OutsideFrameExtractor[FaceSettings]):
    """The ``face`` extractor."""

    spec = FeatureSpec(
        name="face",
        about="MediaPipe's Face Mesh: 478 landmarks of one face, followed from frame to frame",
        arrays={
            "found": ArraySpec(Axis.FRAME, "uint8", "1 where a face was found, 0 elsewhere", fill=0),
            "face_2d": SPEC.arrays["face_2d"],
            "face_z": SPEC.arrays["face_z"],
        },
        mask="found",
    )
    Settings = FaceSettings
    version = 1
    run = Run.VENV
    program = _HERE / "find_landmarks.py"
    requirements = Requirements(
        name="faces",
        pins=_HERE / "faces.txt",
        pythons=("3.11", "3.12"),
        probe="from mediapipe.python.solutions.face_mesh import FaceMesh",
    )
    libraries: ClassVar[tuple[str, ...]] = ("opencv-python-headless", "av")

    @property
    def cost(self) -> Cost:
        """As measured (docs/performance.md), with some to spare for larger frames and decoding."""
        return Cost(cpu_s_per_s=0.15, start_s=2.0)
