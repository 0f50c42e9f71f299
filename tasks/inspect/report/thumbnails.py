"""Frames of a recording with what was found drawn on them: only where somebody asked for pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from storyframes.features import CLOCK
from storyframes.store.feature_store import FeatureStore
from storyframes.tracks import MAIN, of_track
from tasks.inspect.overlay import OverlayError, draw_overlays

_WIDTH = 320


@dataclass(frozen=True)
class Picture:
    """A thumbnail: its file beside the page, and which frame it shows."""

    name: str
    frame: int
    time_s: float
    width: int
    height: int


def write_thumbnails(
    video: Path, store: FeatureStore, session_id: str, folder: Path, track: str = MAIN, count: int = 8
) -> list[Picture]:
    """Write frames spread evenly over the recording as JPEG files into ``folder``, which is made.

    Args:
        video: the track's.
        store: its features.
        session_id: which.
        folder: where the files go.
        track: which of the session's cameras.
        count: how many at most.

    Raises:
        OverlayError: the store has no landmarks and no poses of the track.
        RecordingError: the video cannot be read.
    """
    time = store.read(session_id, of_track(CLOCK, track), array="time")
    if not len(time):
        raise OverlayError(f"{session_id} has no frames")
    chosen = np.unique(np.linspace(0, len(time) - 1, min(count, len(time)) + 2)[1:-1].round().astype(int))
    folder.mkdir(parents=True, mode=0o700)
    pictures = []
    drawn = draw_overlays(video, store, session_id, chosen.tolist(), track)
    for frame, picture in zip(chosen.tolist(), drawn, strict=True):
        height = round(picture.shape[0] * _WIDTH / picture.shape[1])
        small = cv2.resize(picture, (_WIDTH, height), interpolation=cv2.INTER_AREA)
        _, content = cv2.imencode(".jpg", cv2.cvtColor(small, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 80])
        name = f"frame-{frame:06d}.jpg"
        (folder / name).write_bytes(content.tobytes())
        pictures.append(Picture(f"{folder.name}/{name}", frame, float(time[frame]), _WIDTH, height))
    return pictures
