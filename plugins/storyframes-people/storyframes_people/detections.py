"""The faces that a detector found in a recording, each once, with what they look like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np

from storyframes_people.detectors import FaceDetector, Pictures
from tasks.extractors import ExtractionError
from tasks.media import RecordingError

LOOK = 0.06  # difference of two looks (:func:`look_distance`) from which on they are two persons'
_LOOK_CELLS = 4  # a look has so many cells on each side
LOOK_SIZE = _LOOK_CELLS**2 * 3
_SAME_FACE = 0.4  # two boxes of one picture that overlap by more (intersection over union) are one face


@dataclass(frozen=True)
class Detections:
    """The faces of N pictures."""

    time: np.ndarray  # (N,) float64 seconds of the recording, ascending
    boxes: list[np.ndarray]  # of each picture (k, 4) float64: left, top, width, height, pixels
    looks: list[np.ndarray]  # of each picture (k, d) float32, see :func:`look`
    confidence: list[np.ndarray] = field(default_factory=list)  # of each picture (k,), how sure the detector is

    def within(self, least: float, below: float = np.inf) -> Detections:
        """The faces with a confidence of at least ``least`` and less than ``below``."""
        kept = [(values >= least) & (values < below) for values in self.confidence]
        parts = [
            [rows[of_picture] for rows, of_picture in zip(part, kept, strict=True)]
            for part in (self.boxes, self.looks, self.confidence)
        ]
        return Detections(self.time, *parts)

    def __len__(self) -> int:
        return len(self.time)


def detect_faces(
    pictures: Pictures,
    detector: FaceDetector,
    settings: Any,
    min_confidence: float,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Detections:
    """Run a detector on the pictures of a recording.

    Args:
        min_confidence: faces of which the detector is less sure are left out.
        progress: called with the number of pictures done, and of all.

    Raises:
        ExtractionError: the detector failed, or its boxes are no boxes.
        RecordingError: the recording does not decode.
    """
    found = Detections(pictures.time, [], [])
    for rgb, faces in zip(pictures, _answers(detector, pictures, settings), strict=True):
        number = len(found.boxes)
        faces = np.asarray(faces, float)
        if faces.ndim != 2 or faces.shape[1] != 5 or not np.isfinite(faces).all() or (faces[:, 2:4] <= 0).any():
            raise ExtractionError(
                f"{type(detector).__name__} gave faces of frame {pictures.frames[number]} that are no boxes: (k, 5) "
                f"finite numbers with positive widths and heights are needed, these have shape {faces.shape}"
            )
        faces = faces[faces[:, 4] >= min_confidence]
        faces = faces[_distinct(faces)]
        found.boxes.append(faces[:, :4])
        found.confidence.append(faces[:, 4])
        found.looks.append(
            np.array([look(rgb, box) for box in faces[:, :4]], np.float32).reshape(len(faces), LOOK_SIZE)
        )
        progress(number + 1, len(pictures))
    return found


def _answers(detector: FaceDetector, pictures: Pictures, settings: Any) -> Iterator[Any]:
    """The detector's answer for each picture; whatever a plug-in's raises is the end of this recording alone."""
    name, given = type(detector).__name__, 0
    try:
        for faces in detector.faces(pictures, settings):
            given += 1
            if given > len(pictures):
                break
            yield faces
    except (ExtractionError, RecordingError):
        raise
    except Exception as error:
        raise ExtractionError(f"{name} ended with {type(error).__name__} after {given} pictures") from error
    if given != len(pictures):
        raise ExtractionError(f"{name} gave faces of other than {len(pictures)} pictures")


def _distinct(faces: np.ndarray) -> list[int]:
    """The faces (k, 5) without those that overlap one of which the detector is surer."""
    kept: list[int] = []
    for number in np.argsort(-faces[:, 4], kind="stable"):
        if all(overlap(faces[number, :4], faces[other, :4]) <= _SAME_FACE for other in kept):
            kept.append(int(number))
    return sorted(kept)


def overlap(box: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union of two boxes, (4,) each: left, top, width, height."""
    sides = np.minimum(box[:2] + box[2:], other[:2] + other[2:]) - np.maximum(box[:2], other[:2])
    common = float(np.maximum(sides, 0).prod())
    return common / (float(box[2:].prod()) + float(other[2:].prod()) - common)


def look(rgb: np.ndarray, box: np.ndarray) -> np.ndarray:
    """The colours of a person's face, hair and shoulders, without their brightness, which changes with the light.

    Args:
        rgb: (height, width, 3) uint8.
        box: (4,) left, top, width, height of the face, pixels.

    Returns:
        (d,) float32: red, green and blue of each cell, with the mean 1; NaN where the box is outside the picture.
    """
    left, top, width, height = box
    x, y = left - 0.25 * width, top - 0.25 * height
    rows = slice(max(int(y), 0), max(int(y + 2 * height), 0))
    columns = slice(max(int(x), 0), max(int(x + 1.5 * width), 0))
    patch = rgb[rows, columns]
    if not patch.size:
        return np.full(LOOK_SIZE, np.nan, np.float32)
    cells = cv2.resize(patch, (_LOOK_CELLS, _LOOK_CELLS), interpolation=cv2.INTER_AREA).astype(np.float32) + 1
    return (3 * cells / cells.sum(axis=2, keepdims=True)).reshape(-1)


def look_distance(a: np.ndarray, b: np.ndarray) -> float:
    """How different two looks are: the mean absolute difference, 0 for the same; NaN where one is unknown."""
    return float(np.abs(a - b).mean())
