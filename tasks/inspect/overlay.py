"""A frame with what the features say drawn on it: to look at, and only on request."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np

from storyframes.store.feature_store import FeatureStore
from storyframes.store.storage.durable import write_atomically
from storyframes.tracks import MAIN, of_track
from tasks.inspect.picture_points import Colour, picture_points
from tasks.media.recording import read_frames


class OverlayError(Exception):
    """There is nothing to draw; the message says why."""


def draw_overlay(video: Path, store: FeatureStore, session_id: str, frame: int, track: str = MAIN) -> np.ndarray:
    """The frame with every landmark and joint that the features have of it; grey where they are no measurements.

    Args:
        video: the track's.
        store: its features.
        session_id: which.
        frame: counted from 0.
        track: which of the session's cameras.

    Returns:
        (height, width, 3) uint8 RGB.

    Raises:
        OverlayError: the video has no such frame, or the store has no points of the track.
    """
    return next(draw_overlays(video, store, session_id, [frame], track))


def draw_overlays(
    video: Path, store: FeatureStore, session_id: str, frames: Sequence[int], track: str = MAIN
) -> Iterator[np.ndarray]:
    """The same for several frames, in one pass over the video.

    Args:
        video, store, session_id, track: as above.
        frames: ascending, counted from 0.

    Raises:
        OverlayError: the video has not all of the frames, or the store has no points of the track.
    """
    points = picture_points(store, session_id, track)
    if not points:
        there = ", ".join(of_track(name, track) for name in store.features(session_id, track)) or "nothing"
        whose = session_id if track == MAIN else f"{session_id}, track {track},"
        raise OverlayError(f"{whose} has no landmarks and no joints in pixels to draw; it has {there}")
    for frame, picture in _decode(video, frames):
        for one in points:
            _draw(picture, one.at(frame), one.bones, one.colour_at(frame))
        yield picture


def write_picture(picture: np.ndarray, path: Path) -> None:
    """Write an RGB picture as PNG, private to the owner."""
    _, content = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    write_atomically(path, content.tobytes())


def _decode(video: Path, frames: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
    wanted, seen = deque(frames), 0
    for batch in read_frames(video, 16, allow_truncated=True):
        seen += len(batch)
        while wanted and wanted[0] < seen:
            frame = wanted.popleft()
            yield frame, batch.rgb[frame - batch.first].copy()
        if not wanted:
            return
    raise OverlayError(f"{video.name} has frames 0 to {seen - 1}; frame {wanted[0]} was asked for")


def _draw(picture: np.ndarray, points: np.ndarray, bones: tuple[tuple[int, int], ...], colour: Colour) -> None:
    for start, end in bones:
        if np.isfinite(points[[start, end]]).all():
            cv2.line(picture, _pixel(points[start]), _pixel(points[end]), colour, 2, cv2.LINE_AA)
    for point in points[np.isfinite(points).all(axis=1)]:
        cv2.circle(picture, _pixel(point), 3 if bones else 1, colour, -1, cv2.LINE_AA)


def _pixel(point: np.ndarray) -> tuple[int, int]:
    # OpenCV's coordinates are 32-bit; a joint far outside the frame is drawn nowhere either way.
    x, y = np.clip(point, -10_000, 10_000)
    return round(float(x)), round(float(y))
