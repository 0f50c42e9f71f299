"""dlib's network of faces (King, 2017), by which ``people --same-face dlib=DISTANCE`` joins pieces.

It runs in an environment of its own. Its weights are in a source package that cannot be installed there, so the program
reads them from the package's file. No session has it as a feature: what tells people apart is kept nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import cv2
import numpy as np
from pydantic import Field

from storyframes import ArraySpec, Axis, FeatureSpec
from tasks.extractors import ExtractionError, ImageEmbedding, OutsideFrameExtractor, Requirements, Run, VenvSettings
from tasks.models import ModelFile, model_digest

_HERE = Path(__file__).parent
WEIGHTS = ModelFile(
    name="dlib-faces",
    filename="face_recognition_models-0.3.0.tar.gz",
    url="https://github.com/ageitgey/face_recognition_models",
    sha256="",
    bytes=0,
    license="CC0-1.0",
    about="people --same-face dlib=DISTANCE (docs/two-people.md says how to get it)",
)
_SHA256 = "b79bd200a88c87c9a9d446c990ae71c5a626d1f3730174e6d570157ff1d896cf"
_SIDE = 256  # of a face's picture, pixels
_AT_ONCE = 500  # faces that the program is given


class DlibSettings(VenvSettings):
    """``[dlib]``

    Attributes:
        model: path of the weights' package, where it is not in this user's cache.
        margin: around the face on each side, in sides of it.
    """

    model: Path | None = None
    margin: float = Field(default=0.3, ge=0, le=2)


class DlibFaces(OutsideFrameExtractor[DlibSettings]):
    """The model ``dlib`` of ``--same-face``."""

    spec = FeatureSpec(
        name="dlib",
        about="dlib's vectors of faces: for 'storyframes people --same-face' alone",
        arrays={"values": ArraySpec(Axis.FRAME, "float32", "the vector of the face", (128,), ("column",))},
    )
    Settings = DlibSettings
    version = 1
    run = Run.VENV
    program = _HERE / "face_vectors.py"
    requirements = Requirements(
        name="dlib", pins=_HERE / "dlib.txt", pythons=("3.11", "3.12", "3.13"), probe="import dlib"
    )
    published = (WEIGHTS,)
    face_in = staticmethod(ImageEmbedding.face_in)

    def value_settings(self) -> Mapping[str, Any]:
        return {"margin": self.settings.margin}

    def model_files(self) -> Mapping[str, Path]:
        """The package of the weights."""
        path = self.settings.model or WEIGHTS.path
        if not path.is_file() or model_digest(path) != _SHA256:
            raise ExtractionError(
                f"[dlib] model = {str(path)!r} is not there or is another file: 'pip download --no-deps --no-binary "
                f":all: --dest {path.parent} face_recognition_models==0.3.0' gets it"
            )
        return {"model": path}

    def embed(self, pictures: Iterable[np.ndarray]) -> np.ndarray:
        """The vectors of square pictures of faces, see :meth:`ImageEmbedding.embed`."""
        squares = (cv2.resize(rgb, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA) for rgb in pictures)
        rows = [
            self.results_of(some, np.arange(len(some), dtype=float), _SIDE, _SIDE)["values"]
            for some in iter(lambda: list(islice(squares, _AT_ONCE)), [])
        ]
        return np.concatenate(rows).astype(np.float64) if rows else np.zeros((0, 0))

    def open(self, *_: object) -> NoReturn:
        """Refuse to be a feature of a session."""
        raise ExtractionError("dlib tells people apart for 'storyframes people --same-face' alone, and is not stored")
