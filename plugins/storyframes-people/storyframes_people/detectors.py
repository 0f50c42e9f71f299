"""Finding the faces in pictures: what a detector is, which there are here, and which of them is used.

A detector is a class under the entry points ``storyframes.detectors`` (docs/extending.md). DOPE's and OpenFace's come
with this plug-in, others with others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from storyframes import PlugInError, PlugIns
from tasks.extractors import (
    CommonSettings,
    Dope,
    ExtractionError,
    ExtractorsSettings,
    OpenFaceBoxes,
)
from tasks.media import StreamChoice, read_frame_times, read_frames, read_header

DETECTORS = "storyframes.detectors"
MIN_CONFIDENCE = 0.5  # of a face, where its detector declares no other
_BATCH = 8  # frames that are decoded at once


class DetectorError(Exception):
    """No detector can be used, or several could; the message says what to do."""


@dataclass(frozen=True)
class Pictures:
    """Those frames of a recording in which faces are looked for: upright RGB, in order.

    Iterating gives (height, width, 3) uint8 pictures, and decodes the recording once.
    """

    path: Path
    clock: np.ndarray  # (T,) float64 seconds of all frames of the recording
    frames: np.ndarray  # (N,) int64, numbers of the chosen ones, from 0, ascending
    width: int
    height: int
    streams: StreamChoice = StreamChoice.FIRST  # which picture of a file that has several

    @property
    def time(self) -> np.ndarray:
        """(N,) float64 seconds of the chosen frames."""
        return self.clock[self.frames]

    @property
    def frame_s(self) -> float:
        """Seconds from one frame of the recording to the next."""
        return float(np.median(np.diff(self.clock))) if len(self.clock) > 1 else 0.04

    def __len__(self) -> int:
        return len(self.frames)

    def __iter__(self) -> Iterator[np.ndarray]:
        chosen = set(self.frames.tolist())
        for batch in read_frames(self.path, _BATCH, allow_truncated=True, streams=self.streams):
            yield from (rgb for number, rgb in enumerate(batch.rgb, batch.first) if number in chosen)


def evenly(frames: int, frame_s: float, rate: float) -> np.ndarray:
    """About ``rate`` of each second's frames, and the last one, after which no box holds."""
    return np.unique(np.append(np.arange(0, frames, max(1, round(1 / (rate * frame_s)))), frames - 1))


def choose_pictures(path: Path, rate: float, streams: StreamChoice = StreamChoice.FIRST) -> Pictures:
    """About ``rate`` pictures of each second of a recording, evenly; every frame where it has no more.

    Args:
        streams: which picture of a file that has several.

    Raises:
        RecordingError: it does not decode.
    """
    header = read_header(path, streams)
    clock = read_frame_times(path, allow_truncated=True, streams=streams).time
    every = Pictures(path, clock, np.arange(len(clock)), header.width, header.height, streams)
    return replace(every, frames=evenly(len(clock), every.frame_s, rate))


@runtime_checkable
class FaceDetector(Protocol):
    """Finds the faces in pictures.

    A class may set ``min_confidence``, how sure it is of a face at least; without it that is :data:`MIN_CONFIDENCE`.

    Example:
        >>> class TopLeft(FaceDetector):
        ...     def faces(self, pictures, settings):
        ...         for rgb in pictures:
        ...             yield np.array([[0, 0, 20, 20, 1.0]])
    """

    def check(self, settings: Any) -> None:
        """Make sure that its tool and its model are on this machine.

        Raises:
            ExtractionError: one is not; the message says how to get it.
        """

    @abstractmethod
    def faces(self, pictures: Pictures, settings: Any) -> Iterator[np.ndarray]:
        """The faces of each picture, in order.

        Args:
            pictures: see :class:`Pictures`.
            settings: the configuration's section with the name of the detector's entry point; None if there is none.

        Yields:
            For each picture (k, 5) float: left, top, width and height of each face, from the hairline to the chin, in
            pixels of the picture, and how sure the detector is, 0 to 1.

        Raises:
            ExtractionError: the faces cannot be found.
        """


class DopeFaces(FaceDetector):
    """The faces that DOPE finds: everybody's, as with ``people = "all"``."""

    def check(self, settings: Any) -> None:
        Dope(settings, CommonSettings()).model_file()

    def faces(self, pictures: Pictures, settings: Any) -> Iterator[np.ndarray]:
        return Dope(settings, CommonSettings()).face_boxes(pictures)


class OpenFaceFaces(FaceDetector):
    """The faces that OpenFace's FaceLandmarkVidMulti follows, at most four: a program beside FeatureExtraction.

    It reads the whole video. With ``backend = "csv"``, which runs nothing, the container's is run.
    """

    def check(self, settings: Any) -> None:
        OpenFaceBoxes(settings).check_tool()

    def faces(self, pictures: Pictures, settings: Any) -> Iterator[np.ndarray]:
        boxes = OpenFaceBoxes(settings).boxes(pictures.path, pictures.clock, pictures.streams)
        for frame in pictures.frames:
            yield boxes[slice(*np.searchsorted(boxes[:, 0], [frame, frame + 1])), 1:]


def _load(name: str) -> FaceDetector:
    cls = PlugIns(DETECTORS)[name]
    if not (isinstance(cls, type) and issubclass(cls, FaceDetector)):
        raise PlugInError(f"{cls!r} is no class with the methods check and faces (docs/extending.md)")
    return cls()


def least_confidence(detector: FaceDetector) -> float:
    """How sure the detector is of a face, 0 to 1; what it is less sure of may be a shirt or a door."""
    return float(getattr(detector, "min_confidence", MIN_CONFIDENCE))


def choose_detector(settings: ExtractorsSettings, name: str | None = None) -> tuple[str, FaceDetector]:
    """The detector with this name; without a name, the only one that can be used here.

    Raises:
        DetectorError: it cannot be used; or there is no name, and none or several can be used.
    """
    names = [*PlugIns(DETECTORS)]
    if name is not None and name not in names:
        raise DetectorError(f"there is no detector {name!r}; there are {', '.join(names)}")
    usable: dict[str, FaceDetector] = {}
    unusable: dict[str, str] = {}
    for candidate in [name] if name else names:
        try:
            detector = _load(candidate)
            detector.check(getattr(settings, candidate, None))
            usable[candidate] = detector
        except (ExtractionError, PlugInError, ValueError) as error:
            unusable[candidate] = str(error)
    if len(usable) == 1:
        return next(iter(usable.items()))
    if usable:
        raise DetectorError(f"several face detectors are here: choose with --detector {'|'.join(usable)}")
    if name:
        raise DetectorError(f"the detector {name} cannot be used: {unusable[name]}")
    raise DetectorError(
        f"no face detector can be used here ({'; '.join(f'{each}: {why}' for each, why in unusable.items())})"
    )
