"""Runs in MediaPipe's own environment: pictures in, the faces in them out.

MediaPipe's face detector looks at each picture, and at overlapping squares of it. This is a program of its own, since
the files of the feature's program are part of its fingerprint.
"""

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import mediapipe
import numpy as np
from mediapipe.tasks.python import BaseOptions
from mediapipe.tasks.python.vision import FaceDetector, FaceDetectorOptions
from storyframes_outside import job

MOST = 32  # faces of one picture, as ``people`` declares
SAME = 0.3  # boxes that overlap by more (intersection over union) are one face
_LARGEST = 0.6  # of a square's side: a larger face is cut by its edges, and is found in a larger square


class Faces:
    """Finds the faces of pictures.

    Args:
        bundle: path of ``holistic_landmarker.task``, which holds the detector.
        settings: of the plug-in, by name.
    """

    def __init__(self, bundle: str, settings: Mapping[str, Any]) -> None:
        with zipfile.ZipFile(bundle) as models:
            name = next(name for name in models.namelist() if name.endswith("face_detector.tflite"))
            model = models.read(name)
        options = FaceDetectorOptions(
            base_options=BaseOptions(model_asset_buffer=model),
            min_detection_confidence=settings["min_face_detection_confidence"],
        )
        self._detector = FaceDetector.create_from_options(options)

    def find(self, rgb: np.ndarray) -> np.ndarray:
        """The faces of a picture, (height, width, 3) uint8: (k, 5) left, top, width, height, confidence; best first."""
        found = [face for part in squares(*rgb.shape[:2]) for face in self._in(rgb, *part)]
        found.sort(key=lambda face: -face[4])
        kept: list[np.ndarray] = []
        for face in found:
            if all(_overlap(face, other) <= SAME for other in kept):
                kept.append(face)
        return np.array(kept, np.float32).reshape(-1, 5)

    def _in(self, rgb: np.ndarray, top: int, left: int, height: int, width: int) -> Iterator[np.ndarray]:
        part = np.ascontiguousarray(rgb[top : top + height, left : left + width])
        picture = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=part)
        is_whole = part.shape == rgb.shape
        for detection in self._detector.detect(picture).detections:
            box, score = detection.bounding_box, detection.categories[0].score
            if is_whole or max(box.width, box.height) <= _LARGEST * max(height, width):
                yield np.array([left + box.origin_x, top + box.origin_y, box.width, box.height, score])

    def close(self) -> None:
        self._detector.close()


def squares(height: int, width: int) -> Iterator[tuple[int, int, int, int]]:
    """Top, left, height and width: the whole picture, squares of its shorter side, and of half of it; half overlap."""
    yield 0, 0, height, width
    for side in (min(height, width), min(height, width) // 2):
        for top in _starts(height, side):
            for left in _starts(width, side):
                if (side, side) != (height, width):
                    yield top, left, side, side


def _starts(length: int, side: int) -> list[int]:
    count = 1 + -(-2 * (length - side) // side)
    return [round(number * (length - side) / max(count - 1, 1)) for number in range(count)]


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    sides = np.minimum(a[:2] + a[2:4], b[:2] + b[2:4]) - np.maximum(a[:2], b[:2])
    common = float(np.maximum(sides, 0).prod())
    return common / float(a[2:4].prod() + b[2:4].prod() - common)


with closing(Faces(job.inputs["model"], job.settings)) as detector:
    for frames in job.frames():
        found = [detector.find(frame)[:MOST] for frame in frames]
        rows = np.zeros((len(found), MOST, 5), np.float32)
        for row, faces in zip(rows, found, strict=True):
            row[: len(faces)] = faces
        job.append(count=np.array([len(faces) for faces in found]), faces=rows)
