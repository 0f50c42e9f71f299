"""Planted scenes: people made of one portrait, who move in a picture as a scene says, with the truth of each frame.

The portrait is the demo's: the public-domain NASA picture that scikit-image ships. Three identities are made of it by
warping and colouring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import cv2
import numpy as np

from storyframes_people.detections import LOOK_SIZE, Detections, look
from storyframes_people.detectors import evenly
from storyframes_people.joining import Embeddings, in_pieces, rows_to_embed
from storyframes_people.pieces import Piece
from tasks.media.recording import read_frames

PORTRAIT = Path(__file__).parents[3] / "demo/study/videos/p01-s01.avi"
WIDTH, HEIGHT = 640, 360
NAMES = ("ada", "ben", "cem")
_FACE = (160, 62, 165, 185)  # in the portrait: left, top, width, height of the face, hairline to chin
_SHOWN = (100, 0, 300, 360)  # of the portrait: head and shoulders


@dataclass(frozen=True)
class Place:
    """Where somebody's face is: its centre and width in pixels, and how far the head is tilted, degrees."""

    x: float
    y: float
    width: float = 70.0
    tilt: float = 0.0


Path_ = Callable[[float], Place | None]


@dataclass(frozen=True)
class Scene:
    """Who is where at each second; of two in one place the one who is named later is in front."""

    kind: str
    people: dict[str, Path_]
    seconds: float = 12.0
    fps: float = 15.0
    seats: tuple[str, ...] = ()
    hidden: Callable[[str, float], bool] = field(default=lambda name, t: False)  # behind somebody: no detection

    @property
    def size(self) -> tuple[int, int]:
        return WIDTH, HEIGHT

    @property
    def time(self) -> np.ndarray:
        return np.arange(round(self.seconds * self.fps)) / self.fps

    def truth(self, name: str, t: float) -> np.ndarray | None:
        """(4,) the face's box, if the face can be seen: inside the picture, and not behind another."""
        box = _box(self.people[name](t))
        if box is None or self.hidden(name, t):
            return None
        centre = box[:2] + box[2:] / 2
        if not ((centre >= 0) & (centre <= (WIDTH, HEIGHT))).all():
            return None
        after = list(self.people)[list(self.people).index(name) + 1 :]
        for other in after:
            front = _box(self.people[other](t))
            if front is not None and _covered(box, front) > 0.5:
                return None
        return box


def _box(place: Place | None) -> np.ndarray | None:
    if place is None:
        return None
    height = place.width * _FACE[3] / _FACE[2]
    return np.array([place.x - place.width / 2, place.y - height / 2, place.width, height])


def _covered(box: np.ndarray, front: np.ndarray) -> float:
    sides = np.minimum(box[:2] + box[2:], front[:2] + front[2:]) - np.maximum(box[:2], front[:2])
    return float(np.maximum(sides, 0).prod() / box[2:].prod())


@cache
def portrait(name: str) -> np.ndarray:
    """(360, 300, 3) uint8 of one identity."""
    rgb = next(read_frames(PORTRAIT, 1)).rgb[0]
    left, top, width, height = _SHOWN
    rgb = rgb[top : top + height, left : left + width].astype(np.float32)
    if name == "ada":
        return rgb.astype(np.uint8)
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float32)
    x, y = (columns - width / 2) / width, (rows - height / 2) / height
    bend = 0.12 if name == "ben" else -0.10
    warped = cv2.remap(
        rgb[:, ::-1] if name == "ben" else rgb,
        columns + width * bend * x * (1 - 4 * y * y),
        rows + height * bend * 0.6 * y * (1 - 4 * x * x),
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )
    tint = np.array([0.55, 0.75, 1.1] if name == "ben" else [0.75, 0.62, 0.5], np.float32)
    return np.clip(warped * tint, 0, 255).astype(np.uint8)


@cache
def _mask() -> np.ndarray:
    mask = np.zeros((_SHOWN[3], _SHOWN[2]), np.float32)
    cv2.ellipse(mask, (150, 145), (138, 150), 0, 0, 360, 1, -1)
    cv2.rectangle(mask, (20, 230), (280, 360), 1, -1)
    return cv2.GaussianBlur(mask, (0, 0), 6)


def picture(scene: Scene, t: float) -> np.ndarray:
    """(HEIGHT, WIDTH, 3) uint8 RGB."""
    rows, columns = np.mgrid[0:HEIGHT, 0:WIDTH].astype(np.float32)
    canvas = np.stack([110 + 60 * columns / WIDTH, 120 + 50 * rows / HEIGHT, np.full_like(rows, 130)], -1)
    for name, path in scene.people.items():
        place = path(t)
        if place is None:
            continue
        scale = place.width / _FACE[2]
        centre = _FACE[0] - _SHOWN[0] + _FACE[2] / 2, _FACE[1] - _SHOWN[1] + _FACE[3] / 2
        turn = cv2.getRotationMatrix2D(centre, place.tilt, scale)
        turn[:, 2] = turn[:, 2] + [place.x - centre[0], place.y - centre[1]]
        size = (WIDTH, HEIGHT)
        alpha = cv2.warpAffine(_mask(), turn, size)[..., None]
        canvas = canvas * (1 - alpha) + cv2.warpAffine(portrait(name), turn, size, flags=cv2.INTER_AREA) * alpha
    return np.clip(canvas, 0, 255).astype(np.uint8)


def pictures(scene: Scene) -> Iterator[np.ndarray]:
    """All frames of a scene."""
    return (picture(scene, float(t)) for t in scene.time)


def planted(
    scene: Scene,
    rng: np.random.Generator,
    *,
    noise: float = 0.03,
    lost: float = 0.05,
    false: float = 0.02,
    rate: float | None = None,
) -> tuple[Detections, list[list[str]]]:
    """What an imperfect detector says of a scene, and by picture whose each detection is ("" of a false alarm).

    Args:
        noise: standard deviation of a box's edges, in widths of the face.
        lost: share of the faces that are not found.
        false: share of the pictures with a false alarm.
        rate: pictures a second.
    """
    shown = evenly(len(scene.time), 1 / scene.fps, rate or scene.fps)
    detections, names = Detections(scene.time[shown], [], []), []
    for t in detections.time:
        rgb = picture(scene, float(t))
        found = [(name, box) for name in scene.people if (box := scene.truth(name, float(t))) is not None]
        found = [(name, box + rng.normal(0, noise * box[2], 4)) for name, box in found if rng.random() > lost]
        if rng.random() < false:
            found.append(("", np.array([rng.uniform(0, WIDTH - 60), rng.uniform(0, HEIGHT - 60), 50, 55])))
        detections.boxes.append(np.array([box for _, box in found]).reshape(-1, 4))
        rng.uniform(size=len(found))  # what a confidence once took: the scenes stay the same
        detections.looks.append(
            np.array([look(rgb, box) for _, box in found], np.float32).reshape(len(found), LOOK_SIZE)
        )
        names.append([name for name, _ in found])
    return detections, names


def planted_embeddings(scene: Scene, pieces: list[Piece]) -> Embeddings:
    """What a model that knows the three identities says of the pieces' faces: how alike their colours are to each."""
    left, top, width, height = _FACE
    shown = slice(top, top + height), slice(left - _SHOWN[0], left - _SHOWN[0] + width)
    known = np.array([_colours(portrait(name)[shown]) for name in NAMES])
    places = [(number, row) for number, piece in enumerate(pieces) for row in rows_to_embed(piece)]
    vectors = []
    for number, row in places:
        x, y, w, h = np.maximum(pieces[number].box[row].astype(int), 0)
        face = picture(scene, float(pieces[number].time[row]))[y : y + h, x : x + w]
        vectors.append(1 / ((_colours(face) - known) ** 2).sum(axis=1))
    rows = np.array(vectors)
    return in_pieces(pieces, places, rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _colours(face: np.ndarray) -> np.ndarray:
    cells = cv2.resize(face, (6, 6), interpolation=cv2.INTER_AREA).astype(float) + 1
    return (cells / cells.sum(axis=2, keepdims=True)).ravel()


# --- the kinds of scenes ---------------------------------------------------------------------------------------------


def _sway(x: float, y: float, width: float, rng: np.random.Generator, tilt: float = 6.0) -> Callable[[float], Place]:
    phases, speeds = rng.uniform(0, 6, 4), rng.uniform(0.5, 2.0, 4)

    def path(t: float) -> Place:
        a, b, c, d = np.sin(phases + speeds * t)
        return Place(x + 0.25 * width * a, y + 0.12 * width * b, width * (1 + 0.06 * c), tilt * d)

    return path


def _until(path: Path_, leaves: float, returns: float = 1e9) -> Path_:
    return lambda t: path(t) if t < leaves or t >= returns else None


def _line(a: tuple[float, float], b: tuple[float, float], start: float, end: float, width: float) -> Path_:
    def path(t: float) -> Place:
        share = min(max((t - start) / (end - start), 0), 1)
        return Place(a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1]), width, 4 * np.sin(2 * t))

    return path


LEFT_RIGHT = ("left=ada", "right=ben")


def scenes(seed: int) -> list[Scene]:
    """One scene of each kind."""
    rng = np.random.default_rng(seed)
    fps = float(rng.choice([15, 24, 30]))
    w = float(rng.uniform(55, 85))
    left, middle, right = (_sway(x, 170, w, rng) for x in (160, 320, 480))
    change = float(rng.uniform(5, 7))
    names = LEFT_RIGHT
    corner_seats = ("top-left=ada", "top-right=ben", "bottom-left=cem")
    three = ("left=ada", "middle=ben", "right=cem")
    tiles = [(160, 90), (480, 90), (160, 270)]
    small = w * 0.7
    corners = [_sway(x, y, small, rng) for x, y in tiles]
    cross_a = _line((150, 165), (490, 165), change, change + rng.uniform(1.0, 2.5), w)
    cross_b = _line((490, 180), (150, 180), change, change + rng.uniform(1.0, 2.5), w)

    def lean(t: float) -> Place:
        place = left(t)
        share = float(np.exp(-(((t - change) / 0.7) ** 2)))
        return Place(place.x + share * (480 - 0.8 * w - place.x), place.y, place.width, place.tilt)

    def takes(wait: float) -> Path_:
        return lambda t: left(t) if t > change + wait else None

    def relayout(name: int) -> Path_:
        return lambda t: corners[name](t) if t < change else corners[(name + 1) % 3](t)

    def runs(t: float) -> Place:
        return Place(320 + 230 * np.sin(1.1 * t), 130 + 40 * np.sin(0.7 * t), w, 10 * np.sin(t))

    def below(t: float) -> Place:
        return Place(320 + 200 * np.sin(0.8 * t + 2), 290, w * 0.8, 8 * np.cos(t))

    return [
        Scene("two seated", {"ada": left, "ben": right}, fps=fps, seats=names),
        Scene("three seated", {"ada": left, "ben": middle, "cem": right}, fps=fps, seats=three),
        Scene(
            "gallery",
            dict(zip(NAMES, corners, strict=True)),
            fps=fps,
            seats=corner_seats,
        ),
        Scene("two moving", {"ada": runs, "ben": below}, fps=fps),
        Scene(
            "tilted heads",
            {"ada": _sway(160, 170, w, rng, 25), "ben": _sway(480, 170, w, rng, 25)},
            fps=fps,
            seats=names,
        ),
        Scene("leaves and returns", {"ada": _until(left, change, change + 3), "ben": right}, fps=fps, seats=names),
        Scene(
            "another takes the seat",
            {"ada": _until(left, change), "cem": takes(1.5), "ben": right},
            fps=fps,
            seats=names,
        ),
        Scene(
            "another at once",
            {"ada": _until(left, change), "cem": takes(0.2), "ben": right},
            fps=fps,
            seats=names,
        ),
        Scene("leans over", {"ada": lean, "ben": right}, fps=fps, seats=names),
        Scene("crossing", {"ada": cross_a, "ben": cross_b}, fps=fps),
        Scene("crossing, with seats", {"ada": cross_a, "ben": cross_b}, fps=fps, seats=names),
        Scene(
            "gallery laid out anew",
            {name: relayout(i) for i, name in enumerate(NAMES)},
            fps=fps,
            seats=corner_seats,
        ),
    ]
