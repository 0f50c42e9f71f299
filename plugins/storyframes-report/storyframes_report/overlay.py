"""Landmarks and joints in pixels of a track's frames, and frames with these points drawn on them.

Boxes with names are drawn on one frame likewise.

Points are any per-frame array with columns x and y in pixels, of any feature, and columns that have the names of
OpenFace's landmarks.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path

import cv2
import numpy as np

from storyframes import CLOCK, MAIN, Axis, FeatureName, FeatureStore
from storyframes.store import write_atomically
from storyframes_report.devices import stored_streams
from tasks.inspect import StoredFeature
from tasks.media import StreamChoice, read_frames

Colour = tuple[int, int, int]

_COLOURS: tuple[Colour, ...] = ((255, 160, 0), (255, 0, 120), (120, 0, 255), (0, 200, 255), (240, 228, 66))
_LANDMARKS: Colour = (0, 220, 0)
LOST: Colour = (128, 128, 128)
_SIDES = ("left", "right")
_LIMBS = (  # joints that lines connect; the spine and the neck run between midpoints of joints
    ("right_ankle", "right_knee", "right_hip", "left_hip", "left_knee", "left_ankle"),
    ("right_wrist", "right_elbow", "right_shoulder", "left_shoulder", "left_elbow", "left_wrist"),
    *(
        ("wrist", *(f"{finger}_{joint}" for joint in ("mcp", "pip", "dip", "tip")))
        for finger in ("thumb", "index", "middle", "ring", "little")
    ),
)


@dataclass(frozen=True)
class PicturePoints:
    """Points that belong together: the landmarks of a face, the joints of a body or of one hand."""

    name: str  # a path: ``landmarks``, ``hands/left``
    feature: StoredFeature
    array: str
    entries: np.ndarray  # (k, 2) indices of x and y in a flattened row
    bones: tuple[tuple[int, int], ...]  # pairs of points that are connected by a line
    colour: Colour  # RGB

    def at(self, frame: int) -> np.ndarray:
        """The points of one frame, (k, 2) pixels; NaN where a point is missing."""
        return self.feature.read(self.array, frame, frame + 1).reshape(-1)[self.entries]

    def colour_at(self, frame: int) -> Colour:
        """``colour``, or grey where the row is no measurement."""
        mask = self.feature.mask_of(self.array)
        lost = mask is not None and not self.feature.read(mask, frame, frame + 1)[0]
        return LOST if lost else self.colour


def picture_points(store: FeatureStore, session_id: str, track: str = MAIN) -> list[PicturePoints]:
    """Everything of a track that can be drawn on its frames.

    Raises:
        StoreError: a feature's description is damaged.
    """
    names = [name for name in store.features(session_id, track) if name != CLOCK]
    features = [StoredFeature.of(store, session_id, FeatureName.of_track(name, track)) for name in names]
    colours = (_COLOURS[number % len(_COLOURS)] for number in count())
    points = [points for feature in features for points in (*_landmarks(feature), *_joints(feature, colours))]
    names = [each.name for each in points]
    return [
        each if names.count(each.name) == 1 else replace(each, name=f"{each.feature.name}/{each.name}")
        for each in points
    ]


def _landmarks(feature: StoredFeature) -> Iterator[PicturePoints]:
    """Columns ``x_0``, ``x_1``, …, ``y_0``, …, OpenFace's names."""
    if "values" not in feature.spec.arrays or feature.spec.arrays["values"].axis is not Axis.FRAME:
        return
    column = {name: number for number, name in enumerate(feature.spec.columns) if re.fullmatch(r"[xy]_\d+", name)}
    numbers = range(len(column) // 2)
    pairs = [(column[f"x_{n}"], column[f"y_{n}"]) for n in numbers if {f"x_{n}", f"y_{n}"} <= set(column)]
    if pairs:
        yield PicturePoints("landmarks", feature, "values", np.array(pairs), (), _LANDMARKS)


def _joints(feature: StoredFeature, colours: Iterator[Colour]) -> Iterator[PicturePoints]:
    """Arrays of (…, joints, 2) in pixels: one set of points for each entry of the dimensions before the joints."""
    for name, spec in feature.spec.arrays.items():
        of_frames = spec.axis is Axis.FRAME and len(spec.shape) > 1 and spec.columns == ("x", "y")
        if not of_frames or not spec.units.startswith("pixels"):
            continue
        part = name.removesuffix("_2d")
        sets = np.arange(int(np.prod(spec.shape))).reshape(-1, *spec.shape[-2:])
        for number, entries in enumerate(sets):
            side = _SIDES[number] if spec.dims[:1] == ("side",) and len(sets) == len(_SIDES) else str(number)
            path = part if len(sets) == 1 else f"{part}/{side}"
            yield PicturePoints(path, feature, name, entries, bones_of(spec.joints), next(colours))


def bones_of(joints: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """The pairs of joints, by their numbers, that a line connects."""
    pairs = (pair for limb in _LIMBS for pair in pairwise(limb))
    return tuple((joints.index(start), joints.index(end)) for start, end in pairs if {start, end} <= {*joints})


class OverlayError(Exception):
    """Nothing can be drawn; the message says why."""


def draw_overlay(video: Path, store: FeatureStore, session_id: str, frame: int, track: str = MAIN) -> np.ndarray:
    """A frame of a track, counted from 0, with its landmarks and joints: (height, width, 3) uint8 RGB.

    Raises:
        OverlayError: the video has no such frame, or the store has no points of the track.
    """
    return next(draw_overlays(video, store, session_id, [frame], track))


def draw_overlays(
    video: Path, store: FeatureStore, session_id: str, frames: Sequence[int], track: str = MAIN
) -> Iterator[np.ndarray]:
    """The same for several frames in ascending order, in one pass over the video.

    Raises:
        OverlayError: the video lacks some of the frames, or the store has no points of the track.
    """
    points = picture_points(store, session_id, track)
    if not points:
        stored = ", ".join(FeatureName.of_track(name, track) for name in store.features(session_id, track)) or "nothing"
        subject = session_id if track == MAIN else f"{session_id}, track {track},"
        raise OverlayError(f"{subject} has no landmarks and no joints in pixels to draw; it has {stored}")
    for frame, picture in _decode(video, frames, stored_streams(store, session_id, track)):
        for each in points:
            _draw(picture, each.at(frame), each.bones, each.colour_at(frame))
        yield picture


def write_picture(picture: np.ndarray, path: Path) -> None:
    """Write an RGB picture as PNG with mode 0600."""
    _, content = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    write_atomically(path, content.tobytes())


def _decode(video: Path, frames: Sequence[int], streams: StreamChoice) -> Iterator[tuple[int, np.ndarray]]:
    remaining, decoded = deque(frames), 0
    for batch in read_frames(video, 16, allow_truncated=True, streams=streams):
        decoded += len(batch)
        while remaining and remaining[0] < decoded:
            frame = remaining.popleft()
            yield frame, batch.rgb[frame - batch.first].copy()
        if not remaining:
            return
    raise OverlayError(f"{video.name} has frames 0 to {decoded - 1}; frame {remaining[0]} was requested")


def _draw(picture: np.ndarray, points: np.ndarray, bones: tuple[tuple[int, int], ...], colour: Colour) -> None:
    for start, end in bones:
        if np.isfinite(points[[start, end]]).all():
            cv2.line(picture, _pixel(points[start]), _pixel(points[end]), colour, 2, cv2.LINE_AA)
    for point in points[np.isfinite(points).all(axis=1)]:
        cv2.circle(picture, _pixel(point), 3 if bones else 1, colour, -1, cv2.LINE_AA)


def _pixel(point: np.ndarray) -> tuple[int, int]:
    # OpenCV's coordinates are 32-bit; a joint far outside the frame is not visible either way.
    x, y = np.clip(point, -10_000, 10_000)
    return round(float(x)), round(float(y))
