"""pyfeat: facial action units and more of one face in every frame, by py-feat 2 (Cheong et al., 2023).

One feature, because py-feat's Detectorv2 computes all of it in one pass over the face: a RetinaFace finds it, and one
multitask network says the rest. Of py-feat's detectors this is the one whose weights are tensors alone
(``.safetensors``); the others need files that can run code when they are opened (pickle, skops), so they are not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from storyframes import ArraySpec, Axis, FeatureSpec
from storyframes_pyfeat.program.columns import AFFECT, AU, BLENDSHAPES, BOX, EMOTION, GAZE, LANDMARKS, POSE
from tasks.extractors import Cost, ExtractionError, OutsideFrameExtractor, Requirements, Run, VenvSettings
from tasks.models import ModelFile

_HERE = Path(__file__).parent
_HUB = "https://huggingface.co/py-feat"
FACE_DETECTOR = ModelFile(
    name="pyfeat-retinaface",
    filename="retinaface_r34.safetensors",
    url=f"{_HUB}/retinaface_r34/resolve/main/model.safetensors",
    sha256="",
    bytes=0,
    license="MIT (yakhyo, py-feat); trained on WIDER FACE, whose terms are for non-commercial research",
    about="pyfeat, finds the face; get it by hand (no checksum is known here)",
)
MULTITASK = ModelFile(
    name="pyfeat-multitask",
    filename="face_multitask_v28.safetensors",
    url=f"{_HUB}/face_multitask_v2/resolve/main/face_multitask_v28.safetensors",
    sha256="",
    bytes=0,
    license="non-commercial research (py-feat's notice; its backbone is CC BY-NC 4.0)",
    about="pyfeat, action units and all the rest; get it by hand (no checksum is known here)",
)
_PIXELS = "pixels of the frame, x to the right, y down; may lie outside the frame"


def _values(about: str, columns: tuple[str, ...], dim: str, units: str = "") -> ArraySpec:
    return ArraySpec(Axis.FRAME, "float32", about, (len(columns),), (dim,), columns=columns, units=units)


SPEC = FeatureSpec(
    name="pyfeat",
    about="py-feat's Detectorv2: action units, emotions, gaze and head pose of the largest face in the frame",
    arrays={
        "found": ArraySpec(Axis.FRAME, "uint8", "1 where a face was found, 0 elsewhere", fill=0),
        "faces": ArraySpec(
            Axis.FRAME, "int16", "how many faces were found; the other arrays are of the largest", fill=0
        ),
        "au": _values(
            "0..1, evidence for the action unit; no intensity, and no calibrated probability", AU, "action_unit"
        ),
        "emotion": _values("0..1, probability of each expression; they add up to 1", EMOTION, "expression"),
        "affect": _values("-1..1, of the expression", AFFECT, "dimension"),
        "head_pose": _values(
            "up, tilted to and turned to the person's right are positive", POSE, "head_angle", "radians"
        ),
        "gaze": _values(
            "where the eyes look: up and to the person's right are positive", GAZE, "gaze_angle", "radians"
        ),
        "blendshapes": _values("0..1, MediaPipe's coefficients of the face's movements", BLENDSHAPES, "blendshape"),
        "landmarks_2d": ArraySpec(
            Axis.FRAME,
            "float32",
            "68 points of the face",
            (68, 2),
            ("landmark", "xy"),
            columns=("x", "y"),
            joints=LANDMARKS,
            units=_PIXELS,
        ),
        "box": _values("the square that the network looked at: left, top, width, height", BOX, "xywh", _PIXELS),
        "score": ArraySpec(Axis.FRAME, "float32", "0..1, the face detector's confidence"),
    },
    mask="found",
    face="found",
)


class PyFeatSettings(VenvSettings):
    """``[pyfeat]``

    Attributes:
        face_detector: path of RetinaFace's weights, where they are not in this user's cache ("storyframes models
            list").
        multitask: the same of the multitask network.
        min_face_detection_confidence: 0..1, from where on something is taken for a face.
        timeout_s_per_video_s: as everywhere, but more: a frame takes seconds where it is large.
    """

    face_detector: Path | None = None
    multitask: Path | None = None
    timeout_s_per_video_s: float = Field(default=300, gt=0)
    min_face_detection_confidence: float = Field(default=0.5, ge=0.02, le=1)


class PyFeat(OutsideFrameExtractor[PyFeatSettings]):
    """The ``pyfeat`` extractor."""

    spec = SPEC
    Settings = PyFeatSettings
    version = 1
    run = Run.VENV
    program = _HERE / "program"
    requirements = Requirements(
        name="pyfeat",
        pins=_HERE / "requirements.txt",
        pythons=("3.11", "3.12", "3.13"),
        probe=f"import sys; sys.path.insert(0, {str(_HERE / 'program')!r}); import faces",
    )
    libraries: ClassVar[tuple[str, ...]] = ("opencv-python-headless", "av")
    published = (FACE_DETECTOR, MULTITASK)
    in_pixels: ClassVar = {"x": BOX[:1], "y": BOX[1:2], "length": BOX[2:]}

    @property
    def cost(self) -> Cost:
        """As measured (docs/performance.md), with some to spare for larger frames and decoding."""
        return Cost(cpu_s_per_s=13.0, start_s=6.0)

    def value_settings(self) -> Mapping[str, Any]:
        """The section without the weights' paths: their digests decide values."""
        paths = ("face_detector", "multitask")
        return {name: value for name, value in super().value_settings().items() if name not in paths}

    def model_files(self) -> Mapping[str, Path]:
        """The weights."""
        return {
            "face_detector": _weights(FACE_DETECTOR, "face_detector", self.settings.face_detector),
            "multitask": _weights(MULTITASK, "multitask", self.settings.multitask),
        }


def _weights(model: ModelFile, key: str, given: Path | None) -> Path:
    path = given or model.path_here
    if path is None:
        raise ExtractionError(
            f"{model.filename} is not on this machine: read its licence ({model.license}), get {model.url} and put it "
            f"at {model.path}, or set [pyfeat] {key} = its path"
        )
    if path.suffix != ".safetensors":
        raise ExtractionError(
            f"[pyfeat] {key} = {str(path)!r} is no .safetensors file: other formats of weights can run code when they "
            "are opened, and are not read"
        )
    if not path.is_file():
        raise ExtractionError(f"[pyfeat] {key} = {str(path)!r} does not exist")
    return path
