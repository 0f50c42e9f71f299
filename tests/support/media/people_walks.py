"""Simulated detections of faces of people who walk, cross and change seats: no pictures, so hundreds take seconds.

What may go wrong is what is in them: noise, lost faces, false alarms, and people who look alike.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from storyframes_people.detections import LOOK_SIZE, Detections
from storyframes_people.pieces import Piece

RATE, SIZE, SECONDS = 10.0, 60.0, 12.0
LOOKS = np.random.default_rng(0).uniform(0.7, 1.3, (3, LOOK_SIZE)).astype(np.float32)
Walk = Callable[[float], tuple[float, float] | None]
Whose = dict[tuple[float, float], int]  # by time and left edge


def detected(
    walks: Mapping[int, Walk],
    seconds: float,
    rng: np.random.Generator,
    *,
    lost: float = 0.0,
    false: float = 0.0,
    rate: float = RATE,
    looks: np.ndarray = LOOKS,
) -> tuple[Detections, Whose]:
    """Noisy detections of people who walk so, each with a look of its own, and whose each is; -1 of false alarms."""
    time = np.arange(round(seconds * rate)) / rate
    detections, whose = Detections(time, [], []), {}
    for t in time:
        boxes, seen = [], []
        for person, walk in walks.items():
            place = walk(float(t))
            if place is not None and rng.random() >= lost:
                box = np.array([place[0] - SIZE / 2, place[1] - SIZE / 2, SIZE, SIZE]) + rng.normal(0, 1.5, 4)
                whose[float(t), float(box[0])] = person
                boxes.append(box)
                seen.append(looks[person] + rng.normal(0, 0.01, LOOK_SIZE))
        if rng.random() < false:
            boxes.append(np.array([rng.uniform(0, 600), rng.uniform(0, 300), SIZE, SIZE]))
            seen.append(rng.uniform(0.7, 1.3, LOOK_SIZE))
            whose[float(t), float(boxes[-1][0])] = -1
        detections.boxes.append(np.array(boxes).reshape(-1, 4))
        detections.looks.append(np.array(seen, np.float32).reshape(-1, LOOK_SIZE))
    return detections, whose


def people_of(piece: Piece, whose: Mapping[tuple[float, float], int], *, sure: bool = True) -> Counter[int]:
    """How many detections of a piece, those that are not doubtful, are of whom; rows without a look are none."""
    rows = zip(piece.time, piece.box[:, 0], piece.doubtful, piece.looks[:, 0], strict=True)
    return Counter(
        whose[float(t), float(x)] for t, x, doubtful, look in rows if not (math.isnan(look) or (sure and doubtful))
    )


@dataclass(frozen=True)
class Simulated:
    """A recording of two or three people: 0 sits on the left when it begins, 1 on the right, 2 comes later."""

    kind: str
    detections: Detections
    whose: Whose


def _way(*points: tuple[float, float, float]) -> Walk:
    """Through (second, x, y), straight; nowhere before the first and after the last."""
    times, xs, ys = zip(*points, strict=True)
    return lambda t: (
        (float(np.interp(t, times, xs)), float(np.interp(t, times, ys))) if times[0] <= t <= times[-1] else None
    )


def _cross_and_stay(rng: np.random.Generator) -> dict[int, Walk]:
    start, y = rng.uniform(2, 9), rng.uniform(-25, 25)
    ends = start + rng.uniform(1, 2.5, 2)
    right, left = (480.0, 150.0 + y), (160.0, 150.0)
    return {
        0: _way((0, *left), (start, *left), (ends[0], *right), (SECONDS, *right)),
        1: _way((0, *right), (start, *right), (ends[1], *left), (SECONDS, *left)),
    }


def _come_back(rng: np.random.Generator) -> dict[int, Walk]:
    """Both leave through the sides of the picture, and come back to their own seats or to each other's."""
    leave, away = rng.uniform(2, 7), rng.uniform(1, 3)
    places = [(160.0, -60.0), (480.0, 700.0)]
    back = places[::-1] if rng.random() < 0.5 else places
    walks: dict[int, Walk] = {}
    for person, ((seat, side), (new_seat, new_side)) in enumerate(zip(places, back, strict=True)):
        going = _way((0, seat, 150), (leave, seat, 150), (leave + 1, side, 150))
        coming = _way((leave + 1 + away, new_side, 150), (leave + 2 + away, new_seat, 150), (SECONDS, new_seat, 150))
        walks[person] = _one_after_another(going, coming)
    return walks


def _takes_the_seat(rng: np.random.Generator) -> dict[int, Walk]:
    """Who is on the left goes, and the third comes in; or who is on the right moves over, and the third comes there."""
    leave, wait = rng.uniform(2, 8), rng.uniform(0.6, 3)
    comes = leave + 0.5 + wait
    gone = _way((0, 160, 150), (leave, 160, 150), (leave + 0.5, 160, 290))  # down: she stands up before the camera
    right, left = (480.0, 150.0), (160.0, 150.0)
    if rng.random() < 0.5:
        return {0: gone, 1: _way((0, *right), (SECONDS, *right)), 2: _way((comes, *left), (SECONDS, *left))}
    over = _way((0, *right), (comes, *right), (comes + 1, *left), (SECONDS, *left))
    return {0: gone, 1: over, 2: _way((comes + 2, *right), (SECONDS, *right))}


def _moves_on(rng: np.random.Generator) -> dict[int, Walk]:
    """Who is on the left goes on to another place, in one piece, and the third takes the seat for long."""
    leave, place = rng.uniform(0.9, 1.3), (rng.uniform(400, 460), 290.0)
    comes = leave + rng.uniform(1.2, 2)
    return {
        0: _way((0, 160, 120), (leave, 160, 120), (leave + 1, *place), (SECONDS, *place)),
        1: _way((0, 560, 100), (SECONDS, 560, 100)),
        2: _way((comes, 0, 120), (comes + 0.5, 160, 120), (SECONDS, 160, 120)),
    }


def _passes_behind(rng: np.random.Generator) -> dict[int, Walk]:
    """The first walks behind the second, where she is hidden, and stays or goes on; the second leaves meanwhile."""
    start, y = rng.uniform(2, 4), 150 + rng.uniform(-25, 25)
    behind = start + 260 / (SIZE * rng.uniform(1, 3))
    leave = behind + rng.uniform(-0.6, 0.6)
    leaves_s = rng.uniform(0.3, 2)
    gone = ((leave + leaves_s, 320, 430),) if rng.random() < 0.5 else ()  # otherwise between two frames
    onward = 580 if rng.random() < 0.5 else 320
    comes = _way((0, 60, y), (start, 60, y), (behind, 320, y), (2 * behind - start, onward, y), (30, onward, y))
    front = _way((0, 320, 150), (leave, 320, 150), *gone)

    def shown(t: float) -> tuple[float, float] | None:
        place, other = comes(t), front(t)
        is_hidden = place and other and math.dist(place, other) < 0.7 * SIZE
        return None if is_hidden else place

    return {0: shown, 1: front}


def _one_after_another(first: Walk, second: Walk) -> Walk:
    return lambda t: _inside(first(t) or second(t))


def _inside(place: tuple[float, float] | None) -> tuple[float, float] | None:
    return place if place is not None and 0 <= place[0] <= 640 else None


KINDS: dict[str, Callable[[np.random.Generator], dict[int, Walk]]] = {
    "two cross and stay": _cross_and_stay,
    "both leave and come back": _come_back,
    "another takes the seat": _takes_the_seat,
    "one moves on": _moves_on,
    "one passes behind": _passes_behind,
}


def _pass_each_other(rng: np.random.Generator, fastest: float) -> dict[int, Walk]:
    """Two or three, of whom some turn round on their way, at up to so many sizes of the face a second."""
    walks: dict[int, Walk] = {}
    for person in range(int(rng.integers(2, 4))):
        y, end_y = 150 + rng.uniform(-60, 60, 2)
        ends = (60.0, 580.0) if rng.random() < 0.5 else (580.0, 60.0)
        start = rng.uniform(2, 4)
        lasts = 520 / (SIZE * rng.uniform(fastest / 3, fastest))
        turns = (start + lasts / 2, 320.0, (y + end_y) / 2)
        last = ends[int(rng.random() < 0.7)]
        walks[person] = _way(
            (0, ends[0], y), (start, ends[0], y), turns, (start + lasts, last, end_y), (30, last, end_y)
        )
    return walks


def simulated(kind: str, seed: int, *, rate: float = RATE, equal: bool = True) -> Simulated:
    """A recording of 12 s of a kind, of which up to 15 % of the faces are lost.

    Args:
        equal: all have the same colours; otherwise they differ by chance, from hardly to clearly.
    """
    rng = np.random.default_rng(seed)
    walks = KINDS[kind](rng) if kind in KINDS else _pass_each_other(rng, {"walk": 3.0, "hurry": 8.0}[kind])
    differ = np.zeros(3) if equal else rng.uniform(0, 0.3, 3)
    looks = (1 + differ[:, None] * rng.uniform(-1, 1, (3, LOOK_SIZE))).astype(np.float32)
    lost = float(rng.uniform(0, 0.15))
    return Simulated(kind, *detected(walks, SECONDS, rng, lost=lost, false=0.02, rate=rate, looks=looks))
