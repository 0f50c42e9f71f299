"""mediapipe: body pose, face mesh and hands of one person in every frame (Lugaresi et al., 2019).

One feature, because MediaPipe Holistic computes all of it in one pass: the body first, and from it where the face and
the hands are.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from storyframes.features import ArraySpec, Axis, FeatureSpec
from storyframes_mediapipe.landmarks import BODY, FACE, HAND, PARTS, SIDES
from tasks.extractors.base import Cost, Run
from tasks.extractors.outside.environment import Requirements
from tasks.extractors.outside.extractor import OutsideFrameExtractor
from tasks.extractors.outside.settings import OutsideSettings

_HERE = Path(__file__).parent
_PIXELS = {"columns": ("x", "y"), "units": "pixels"}
_MASK = "1 where {} was found, 0 elsewhere"


def _frames(about: str, shape: tuple[int, ...], dims: tuple[str, ...], **more) -> ArraySpec:  # type: ignore[no-untyped-def]
    return ArraySpec(Axis.FRAME, "float32", about, shape, dims, **more)


SPEC = FeatureSpec(
    name="mediapipe",
    about="MediaPipe Holistic: body pose, face mesh and hands of one person, followed and smoothed from frame to frame",
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


class MediaPipeSettings(OutsideSettings):
    """``[mediapipe]``

    Attributes:
        model_complexity: 1, the body model that comes with mediapipe; it would fetch the others from the network.
        static_image_mode: look for the person anew in every frame, instead of following.
        smooth_landmarks: smooth the body over time, as if the video had 30 frames a second; not with static_image_mode.
        min_detection_confidence: 0..1, from where on a person is believed to be there.
        min_tracking_confidence: 0..1, below which a person who is followed is looked for anew.
    """

    model_complexity: Literal[1] = 1
    static_image_mode: bool = False
    smooth_landmarks: bool = True
    min_detection_confidence: float = Field(default=0.5, ge=0, le=1)
    min_tracking_confidence: float = Field(default=0.5, ge=0, le=1)


class MediaPipe(OutsideFrameExtractor[MediaPipeSettings]):
    """The ``mediapipe`` extractor."""

    spec = SPEC
    Settings = MediaPipeSettings
    version = 1
    run = Run.VENV
    program = _HERE / "program"
    requirements = Requirements(
        name="mediapipe",
        pins=_HERE / "requirements.txt",
        pythons=("3.11", "3.12"),
        probe="from mediapipe.python.solutions.holistic import Holistic; Holistic().close()",
    )
    libraries: ClassVar[tuple[str, ...]] = ("opencv-python-headless", "av")

    @property
    def cost(self) -> Cost:
        """As measured (docs/mediapipe.md): 28 ms of a processor for each frame of 640 x 480."""
        return Cost(cpu_s_per_s=0.5, start_s=2.0)
