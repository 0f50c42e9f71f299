"""Landmarks, joints and the boxes of people, which the player draws over the picture: a script beside the page.

They are features and boxes, never pixels. The browser reads the script when the reader asks for them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storyframes import MAIN, FeatureStore, last_frame_end_s
from storyframes_report.devices import Device, stored_streams
from storyframes_report.overlay import PicturePoints, picture_points
from storyframes_report.report.packing import deflate, deflate_blocks
from storyframes_report.report.player import PlayedTrack
from tasks.media import read_header
from tasks.study import Boxes, Study, UnusableFileError

_MISSING = -(2**15)  # in place of a coordinate
_BLOCK = 2048  # rows read at once
_BOX = ((0, 1), (1, 2), (2, 3), (3, 0))
_BOX_COLOUR = (86, 180, 233)


@dataclass(frozen=True)
class PointSet:
    """Points that belong together, in every frame of a recording."""

    track: str  # in whose picture
    name: str
    points: int  # their number, k
    xy: str  # (T, k, 2) int16, whole pixels, -32768 where a point is missing, packed as differences between frames
    measured: NDArray[np.bool_]  # (T,) whether the frame is a measurement; else it is drawn in grey
    bones: tuple[tuple[int, int], ...]
    colour: tuple[int, int, int]

    @property
    def data(self) -> dict[str, object]:
        """For the page's script."""
        return {
            "track": self.track,
            "name": self.name,
            "points": self.points,
            "xy": self.xy,
            "measured": deflate(self.measured.astype("<i2")),
            "bones": self.bones,
            "colour": "#{:02x}{:02x}{:02x}".format(*self.colour),
        }


def write_points(
    path: Path,
    study: Study,
    store: FeatureStore,
    session_id: str,
    devices: dict[str, Device],
    tracks: list[PlayedTrack],
) -> bool:
    """Write the script of a session's page.

    Args:
        devices: all of the session; a region's points are drawn in the picture that it is cut from.
        tracks: those that can be played.

    Returns:
        Whether there is anything to draw; without, no file is written.

    Raises:
        RecordingError: a video's size cannot be read.
        StoreError: a feature's description is damaged.
    """
    sets, sizes = [], {}
    for played in tracks:
        files = played.device.files
        if not played.playable or files.video is None or files.of or not len(played.curves.time):
            continue
        header = read_header(study.path(files.video), stored_streams(store, session_id, played.name))
        sizes[played.name] = header.width, header.height
        regions = {name: one for name, one in devices.items() if one.files.of == played.name}
        for name in (played.name, *regions):
            sets += list(_of_features(store, session_id, name, played))
        sets += list(_of_regions(study, regions, played, sizes[played.name]))
    if sets:
        content = json.dumps({"sizes": sizes, "sets": [one.data for one in sets]})
        path.write_text(f"storyframesPoints({content});\n", encoding="ascii")
    return bool(sets)


def _of_features(store: FeatureStore, session_id: str, name: str, played: PlayedTrack) -> Iterator[PointSet]:
    frames = len(played.curves.time)
    for points in picture_points(store, session_id, name):
        if points.feature.rows(points.array) != frames:
            continue  # of an older recording
        mask = points.feature.mask_of(points.array)
        measured = np.ones(frames, bool) if mask is None else points.feature.read(mask) > 0
        title = points.name if name == MAIN else f"{name}: {points.name}"
        xy = _packed_steps(_pixels(points))
        yield PointSet(played.name, title, len(points.entries), xy, measured, points.bones, points.colour)


def _pixels(points: PicturePoints) -> Iterator[NDArray[np.int16]]:
    for block in points.feature.blocks(points.array, _BLOCK):
        yield _whole(block.reshape(len(block), -1)[:, points.entries])


def _whole(xy: np.ndarray) -> NDArray[np.int16]:
    missing = ~np.isfinite(xy).all(axis=-1, keepdims=True)
    return np.where(missing, _MISSING, np.clip(np.round(np.nan_to_num(xy)), -10_000, 30_000)).astype(np.int16)


def _of_regions(
    study: Study, regions: dict[str, Device], played: PlayedTrack, size: tuple[int, int]
) -> Iterator[PointSet]:
    """The box of each region in each frame, under the name of its track; grey where it is doubtful whose it is."""
    time = played.curves.time
    frame_s = (last_frame_end_s(time) - float(time[0])) / len(time)
    for name, device in regions.items():
        doubtful = np.zeros(len(time), bool)
        if device.files.box_file:
            try:
                boxes = Boxes.read(study.path(device.files.box_file))
            except UnusableFileError:
                continue  # the page says so beside the chart of people
            box = boxes.at(time, frame_s)
            for start, stop in boxes.doubtful_s:
                doubtful |= (time >= start) & (time < stop)
        elif device.files.box:
            box = np.tile(device.files.box, (len(time), 1))
        else:
            continue
        left, top, width, height = (box * np.tile(size, 2)).T
        corners = [(left, top), (left + width, top), (left + width, top + height), (left, top + height)]
        xy = np.stack([np.stack(corner, axis=-1) for corner in corners], axis=1)
        yield PointSet(played.name, name, 4, _packed_steps([_whole(xy)]), ~doubtful, _BOX, _BOX_COLOUR)


def _packed_steps(blocks: Iterable[NDArray[np.int16]]) -> str:
    """Points (n, k, 2) as differences from frame to frame, which wrap, as the script's sum does."""

    def differences() -> Iterator[np.ndarray]:
        before: NDArray[np.int16] | None = None
        for block in blocks:
            steps = np.diff(block, axis=0, prepend=np.zeros_like(block[:1]) if before is None else before)
            yield steps.astype("<i2")
            before = block[-1:]

    return deflate_blocks(differences())
