"""mediapipe: body pose, face mesh and hands of one person in every frame (Lugaresi et al., 2019).

One feature, because MediaPipe's Holistic Landmarker computes all of it in one pass: the body first, and from it where
the face and the hands are. Version 2 runs on MediaPipe's Tasks; version 1 ran on its solutions, which newer releases
do not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from storyframes import ArraySpec, Axis, FeatureSpec
from storyframes.store import FeatureWriter
from storyframes_mediapipe.faceless import note_faceless
from storyframes_mediapipe.landmarks import BODY, FACE, HAND, PARTS, SIDES
from tasks.extractors import Cost, ExtractionError, OutsideFrameExtractor, Requirements, Run, Source, VenvSettings
from tasks.models import ModelFile

_HERE = Path(__file__).parent
HOLISTIC = ModelFile(
    name="mediapipe-holistic",
    filename="holistic_landmarker.task",
    url="https://storage.googleapis.com/mediapipe-models/holistic_landmarker/holistic_landmarker/float16/latest/"
    "holistic_landmarker.task",
    sha256="",
    bytes=0,
    license="Apache-2.0 (Google)",
    about="mediapipe; get it by hand (no checksum is published)",
)
_PIXELS: Mapping[str, Any] = {"columns": ("x", "y"), "units": "pixels"}
_MASK = "1 where {} was found, 0 elsewhere"


def _frames(about: str, shape: tuple[int, ...], dims: tuple[str, ...], **more: Any) -> ArraySpec:
    return ArraySpec(Axis.FRAME, "float32", about, shape, dims, **more)


SPEC = FeatureSpec(
    name="mediapipe",
    about="MediaPipe's Holistic Landmarker: body pose, face mesh and hands of one person, followed from frame to frame",
    arrays={
        "found": ArraySpec(Axis.FRAME, "uint8", _MASK.format("anything of a person"), fill=0),
        "parts": ArraySpec(
            Axis.FRAME, "uint8", _MASK.format("the part"), (len(PARTS),), ("part",), fill=0, columns=PARTS
        ),
        "body_2d": _frames("the body in the picture", (33, 2), ("body_joint", "xy"), joints=BODY, **_PIXELS),
        "body_3d": _frames(
            "the body in space, as the model guesses it from one picture: from the middle of the hips, x to the "
            "picture's right, y down, z away from the camera",
            (33, 3),
            ("body_joint", "xyz"),
            joints=BODY,
            columns=("x", "y", "z"),
            units="metres",
        ),
        "body_visibility": _frames("0..1, whether the joint can be seen", (33,), ("body_joint",), columns=BODY),
        "face_2d": _frames("the face mesh in the picture", (478, 2), ("face_landmark", "xy"), joints=FACE, **_PIXELS),
        "face_z": _frames(
            "how far behind the head's centre, in widths of the picture", (478,), ("face_landmark",), columns=FACE
        ),
        "hands_2d": _frames(
            "the hands in the picture, the person's left one first",
            (len(SIDES), 21, 2),
            ("hand", "hand_joint", "xy"),
            joints=HAND,
            **_PIXELS,
        ),
        "hands_z": _frames(
            "how far behind the wrist, in widths of the picture",
            (len(SIDES), 21),
            ("hand", "hand_joint"),
            columns=HAND,
        ),
    },
    mask="found",
    face="parts",
)


class MediaPipeSettings(VenvSettings):
    """``[mediapipe]``

    Attributes:
        model: path of the bundle of models, where it is not in this user's cache ("storyframes models list").
        static_image_mode: look for the person anew in every frame, instead of following and smoothing.
        min_face_detection_confidence, min_pose_detection_confidence: 0..1, from where on one is believed to be there.
        min_face_presence_confidence, min_pose_presence_confidence: 0..1, below which one who is followed is looked for
            anew.
        min_hand_landmarks_confidence: 0..1, from where on a hand is believed to be there.
    """

    model: Path | None = None
    static_image_mode: bool = False
    min_face_detection_confidence: float = Field(default=0.5, ge=0, le=1)
    min_face_presence_confidence: float = Field(default=0.5, ge=0, le=1)
    min_pose_detection_confidence: float = Field(default=0.5, ge=0, le=1)
    min_pose_presence_confidence: float = Field(default=0.5, ge=0, le=1)
    min_hand_landmarks_confidence: float = Field(default=0.5, ge=0, le=1)


class MediaPipe(OutsideFrameExtractor[MediaPipeSettings]):
    """The ``mediapipe`` extractor."""

    spec = SPEC
    Settings = MediaPipeSettings
    version = 2
    run = Run.VENV
    program = _HERE / "program"
    requirements = Requirements(
        name="mediapipe",
        pins=_HERE / "requirements.txt",
        pythons=("3.11", "3.12", "3.13"),
        probe="from mediapipe.tasks.python.vision import HolisticLandmarker",
    )
    libraries: ClassVar[tuple[str, ...]] = ("opencv-python-headless", "av")
    published = (HOLISTIC,)

    @property
    def cost(self) -> Cost:
        """As measured (docs/performance.md), with some to spare for larger frames and decoding."""
        return Cost(cpu_s_per_s=0.5, start_s=2.0)

    @contextmanager
    def session(self, source: Source, out: FeatureWriter, *given: Any) -> Iterator[Any]:
        """The program at work on a session; a body that never has a face becomes a caveat."""
        with super().session(source, out, *given) as work:
            note_faceless(out, len(given[0]))
            yield work

    def value_settings(self) -> Mapping[str, Any]:
        """The section without the model's path: its digest decides values."""
        return {name: value for name, value in super().value_settings().items() if name != "model"}

    def model_files(self) -> Mapping[str, Path]:
        """The bundle of models."""
        path = self.settings.model or HOLISTIC.path_here
        if path is None:
            raise ExtractionError(
                f"{HOLISTIC.filename} is not on this machine: its makers publish no checksum, so it is not downloaded "
                f"here; get {HOLISTIC.url} and put it at {HOLISTIC.path}, or set [mediapipe] model = its path"
            )
        if not path.is_file():
            raise ExtractionError(f"[mediapipe] model = {str(path)!r} does not exist")
        return {"model": path}
