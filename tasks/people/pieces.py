"""Faces associated over time: pieces, each of one person, that end where it could become another's.

Norfair (Tryolabs; the maintained fork norfair-enough) predicts where each face is next, and gives it the detection that
is nearest. What it gives is cut here, since a tracker goes on where it cannot know:

- where two faces come so near to each other that one could be taken for the other: the piece ends there, and what
  follows is another piece. The seconds of the contact stay with the piece before as doubtful ones;
- where the face is unseen for longer than :attr:`Rules.bridge_s`;
- where what the person looks like changes from one picture to the next: a cut of the video, a gallery that is laid out
  anew, somebody who takes another's place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np

from tasks.people.detections import Detections, look_distance

_GATE = 0.7  # a detection is that of a face which was expected at most so far away, in sizes of the face
_UNITS = 100.0  # of the median face's size: what the Kalman filter's variances are of
_MEASURED, _CHANGES = 4.0, 10.0  # its variances: of a detection's edge, and of the speed from one picture to the next
_INEXACT = 0.15  # of a face's size: how inexact its place is
_SPEED = 5.0  # sizes of the face a second by which a face that is followed steadily may be elsewhere than expected
_STEADY = 0.25  # of its size, from where it was going: nearer is steady
_FEW = 5  # detections whose median look is compared
_ESTABLISHED = 3  # detections from which on a face that comes near another is a contact, and no false alarm


@dataclass(frozen=True)
class Rules:
    """When a face is no longer surely the same person's.

    Attributes:
        bridge_s: seconds that a face may be unseen, and is taken to be where it was; at least two pictures.
        contact: distance of two faces' centres, in their mean size, below which they could be confused; faces that
            are both followed steadily, only where they are nearer.
        look: difference of two looks (``detections.look_distance``) from which on they are two persons'.
        at_least_s: pieces that are shorter are left out: false alarms, passers-by.
    """

    bridge_s: float = 0.5
    contact: float = 1.0
    look: float = 0.06
    at_least_s: float = 1.0


@dataclass(frozen=True)
class Piece:
    """A face, seen without a longer gap: n detections of one person, as far as they are not doubtful."""

    time: np.ndarray  # (n,) float64 seconds
    box: np.ndarray  # (n, 4) float64, left, top, width, height, pixels
    confidence: np.ndarray  # (n,) float64, the detector's, 0 to 1
    looks: np.ndarray  # (n, d) float32
    doubtful: np.ndarray  # (n,) bool: the detection may be of another person

    @cached_property
    def look(self) -> np.ndarray:
        """(d,) what the person looks like: the median of the detections that are not doubtful."""
        return np.median(self.looks[~self.doubtful], axis=0)

    @property
    def sure_s(self) -> float:
        """Seconds from the first detection that is not doubtful to the last."""
        sure = self.time[~self.doubtful]
        return float(sure[-1] - sure[0]) if len(sure) else 0.0


@dataclass(frozen=True)
class _Trail:
    """What the tracker took for one face: n detections."""

    picture: np.ndarray  # (n,) int64, numbers of the pictures
    face: np.ndarray  # (n,) int64, numbers of the faces in them


def find_pieces(detections: Detections, rules: Rules) -> list[Piece]:
    """The pieces of a recording, by when they begin and then from left to right."""
    trails = list(_associated(detections, rules))
    contacts = _contacts(detections, trails, rules)
    pieces = [
        piece for trail, near in zip(trails, contacts, strict=True) for piece in _cut(detections, trail, near, rules)
    ]
    pieces = [piece for piece in pieces if piece.sure_s >= rules.at_least_s]
    return sorted(pieces, key=lambda piece: (piece.time[0], piece.box[0, 0]))


def _interval_s(detections: Detections) -> float:
    return float(np.median(np.diff(detections.time))) if len(detections) > 1 else 1.0


def _associated(detections: Detections, rules: Rules) -> Iterator[_Trail]:
    from norfair import Detection, OptimizedKalmanFilterFactory, Tracker  # of the extra storyframes[people]
    from norfair.distances import VectorizedDistance

    sizes = [np.sqrt(box[2] * box[3]) for boxes in detections.boxes for box in boxes]
    if not sizes:
        return
    scale = _UNITS / float(np.median(sizes))
    patience = max(2, round(rules.bridge_s / _interval_s(detections)))
    tracker = Tracker(
        "iou",
        distance_threshold=_GATE,
        hit_counter_max=patience,
        initialization_delay=0,
        filter_factory=OptimizedKalmanFilterFactory(R=_MEASURED, Q=_CHANGES),
    )
    tracker.distance_function = VectorizedDistance(_distances)  # its constructor takes only names and slow functions
    trails: dict[int | None, list[tuple[int, int]]] = defaultdict(list)
    for picture, boxes in enumerate(detections.boxes):
        corners = [np.array([box[:2], box[:2] + box[2:]]) * scale for box in boxes]
        tracker.update([Detection(points, data=(picture, face)) for face, points in enumerate(corners)])
        for tracked in tracker.tracked_objects:
            if tracked.last_detection.data[0] == picture:
                trails[tracked.global_id].append(tracked.last_detection.data)
    for entries in trails.values():
        picture, face = np.array(entries).T
        yield _Trail(picture, face)


def _distances(candidates: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """(n, m): how far detections (n, 4) are from expected faces (m, 4), corners each: distance and change of size."""

    def centres_and_sizes(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sides = np.maximum(corners[:, 2:] - corners[:, :2], 1e-6)
        return corners[:, :2] + sides / 2, np.sqrt(sides.prod(1))

    (a, size_a), (b, size_b) = centres_and_sizes(candidates), centres_and_sizes(expected)
    between = np.linalg.norm(a[:, None] - b[None], axis=2) / ((size_a[:, None] + size_b[None]) / 2)
    return between + np.abs(np.log(size_a[:, None] / size_b[None]))


def _contacts(detections: Detections, trails: list[_Trail], rules: Rules) -> list[np.ndarray]:
    """Of each trail (N,) int: in which pictures another face is so near that one could be taken for the other.

    Faces that are both followed steadily may come nearer to each other (1) than those of which one is not seen, or
    moves unlike before (2). What is seen for a few pictures only, mostly a false alarm, counts where the face moves
    unlike before.
    """
    near = [np.zeros(len(detections), np.int8) for _ in trails]
    lasting = [len(trail.picture) >= _ESTABLISHED for trail in trails]
    lingers_s = np.where(lasting, rules.bridge_s, 1.01 * _interval_s(detections))
    places = [_places(detections, trail, s) for trail, s in zip(trails, lingers_s.tolist(), strict=True)]
    steady, strays = zip(*(_steadiness(detections, trail) for trail in trails), strict=True) if trails else ((), ())
    close = min(rules.contact, _INEXACT + _SPEED * _interval_s(detections))
    for a, b in combinations(range(len(trails)), 2):
        both = steady[a] & steady[b]
        reach = np.where(both, close, rules.contact) * (places[a][:, 2] + places[b][:, 2]) / 2
        with np.errstate(invalid="ignore"):
            touch = np.hypot(*(places[a] - places[b])[:, :2].T) < reach
        for one, other in ((a, b), (b, a)):
            counts = touch & (lasting[other] | strays[one])
            near[one] = np.maximum(near[one], np.where(counts, 2 - both, 0))
    return near


def _centres_and_sizes(detections: Detections, trail: _Trail) -> np.ndarray:
    """(n, 3) of a trail's detections, pixels."""
    boxes = np.array([detections.boxes[p][f] for p, f in zip(trail.picture, trail.face, strict=True)])
    return np.column_stack([boxes[:, :2] + boxes[:, 2:] / 2, np.sqrt(boxes[:, 2:].prod(1))])


def _steadiness(detections: Detections, trail: _Trail) -> tuple[np.ndarray, np.ndarray]:
    """(N,) bool each: the face is seen in a picture and in the one before it, where it was going; it is elsewhere."""
    known, time = _centres_and_sizes(detections, trail), detections.time[trail.picture]
    speed = np.diff(known[:, :2], axis=0) / np.diff(time)[:, None]
    expected = known[:-1, :2].copy()
    expected[1:] += speed[:-1] * np.diff(time)[1:, None]
    deviates = np.append(False, np.hypot(*(known[1:, :2] - expected).T) > _STEADY * known[1:, 2])
    steady, strays = np.zeros((2, len(detections)), bool)
    steady[trail.picture] = ~deviates & (np.diff(trail.picture, prepend=trail.picture[0] - 1) == 1)
    strays[trail.picture] = deviates
    return steady, strays


def _places(detections: Detections, trail: _Trail, lingers_s: float) -> np.ndarray:
    """(N, 3): centre and size of a trail's face in each picture, pixels; NaN before it was seen and after it left.

    A face that is not seen any more is taken to be near where it was last for as long as it may be unseen.
    """
    time, seen = detections.time, detections.time[trail.picture]
    places = np.column_stack([np.interp(time, seen, values) for values in _centres_and_sizes(detections, trail).T])
    places[(time < seen[0] - lingers_s) | (time > seen[-1] + lingers_s)] = np.nan
    return places


def _cut(detections: Detections, trail: _Trail, near: np.ndarray, rules: Rules) -> Iterator[Piece]:
    """The pieces of a trail."""
    pairs = list(zip(trail.picture, trail.face, strict=True))
    time = detections.time[trail.picture]
    looks = np.array([detections.looks[p][f] for p, f in pairs])
    contact, steady = near[trail.picture], _steadiness(detections, trail)[0][trail.picture]
    doubtful = _without_short_gaps(time, contact > 0, rules.bridge_s)
    doubtful[:-1] |= doubtful[1:] & ~steady[:-1]
    patience_s = max(rules.bridge_s, 2 * _interval_s(detections)) + 1e-6
    begins = np.diff(time, prepend=-np.inf) > patience_s
    is_over = np.flatnonzero(doubtful[:-1] & ~doubtful[1:] & ~begins[1:])
    is_clear = (contact[is_over] == 1) & steady[is_over + 1]  # not surely the one before, but surely the one after
    begins[is_over + ~is_clear] = True
    doubtful[is_over[is_clear]] = False
    for number in range(1, len(pairs)):
        if _looks_change(looks, number, rules.look):
            doubtful[number - 1 : number + 1] = True
            begins[number] = True
    starts = np.flatnonzero(begins).tolist()
    for first, last in zip(starts, [*starts[1:], len(pairs)], strict=True):
        rows = pairs[first:last]
        yield Piece(
            time[first:last],
            np.array([detections.boxes[p][f] for p, f in rows]),
            np.array([detections.confidence[p][f] for p, f in rows]),
            looks[first:last],
            doubtful[first:last].copy(),
        )


def _looks_change(looks: np.ndarray, number: int, limit: float) -> bool:
    """Whether somebody else is seen from this detection on: one is unlike the one before it, a few unlike a few."""
    if look_distance(looks[number - 1], looks[number]) <= limit:
        return False
    before, after = looks[max(number - _FEW, 0) : number], looks[number : number + _FEW]
    return look_distance(np.median(before, axis=0), np.median(after, axis=0)) > limit


def _without_short_gaps(time: np.ndarray, flags: np.ndarray, shortest_s: float) -> np.ndarray:
    """Flags (n,) that are also set where they are not for less than ``shortest_s``, between two that are."""
    flags = flags.copy()
    set_ = np.flatnonzero(flags)
    for before, after in pairwise(set_):
        if time[after] - time[before] < shortest_s:
            flags[before:after] = True
    return flags
