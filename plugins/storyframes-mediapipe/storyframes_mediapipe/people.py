"""The faces of several people in pictures, by MediaPipe's face detector: for ``storyframes people``.

It is the detector of the holistic bundle (BlazeFace, short range). It sees a picture scaled to 128 pixels, so pictures
are looked at in overlapping squares too, where a face that is small in the whole picture is large enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from storyframes import ArraySpec, Axis, FeatureSpec
from storyframes_mediapipe.extractor import MediaPipe, MediaPipeSettings
from tasks.extractors import CommonSettings

if TYPE_CHECKING:
    from storyframes_people import Pictures

MOST = 32  # faces of one picture


class Faces(MediaPipe):
    """The plug-in's program, asked for everybody's faces instead of one person's landmarks."""

    spec = FeatureSpec(
        name="mediapipe",
        about="the faces in each picture",
        arrays={
            "count": ArraySpec(Axis.FRAME, "int64", "how many", fill=0),
            "faces": ArraySpec(
                Axis.FRAME, "float32", "left, top, width, height in pixels, and confidence", (MOST, 5), ("face", "box")
            ),
        },
    )
    program = Path(__file__).parent / "find_faces.py"


class MediaPipeFaces:
    """The detector ``mediapipe`` of ``storyframes people``.

    Of 3,488 faces in pictures of 30 real people it gave each 0.75 or more, and what is none 0.74 at most
    (docs/two-people.md).
    """

    min_confidence = 0.75

    def check(self, settings: MediaPipeSettings) -> None:
        """Look for MediaPipe's environment and its models."""
        Faces(settings, CommonSettings()).check_tool()

    def faces(self, pictures: Pictures, settings: MediaPipeSettings) -> Iterator[np.ndarray]:
        """All faces of each picture."""
        program = Faces(settings, CommonSettings())
        arrays: dict[str, Any] = program.results_of(pictures, pictures.time, pictures.width, pictures.height)
        for count, faces in zip(arrays["count"], arrays["faces"], strict=True):
            yield faces[:count]
