"""Faces associated over time: pieces, each of one person, that end where it could become another's.

Norfair (Tryolabs; the maintained fork norfair-enough) predicts where each face is next, and gives it the detection that
is nearest. What it gives is cut here, since a tracker goes on where it cannot know:

- where two faces come so near to each other that one could be taken for the other: the piece ends there, and what
  follows is another piece. The seconds of the contact stay with the piece before as doubtful ones;
- where the face is unseen for longer than :data:`BRIDGE_S`;
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

from storyframes_people.detections import LOOK, Detections, look_distance

BRIDGE_S = 0.5  # from one detection to the next: for longer a face is not taken to be between its two places
_CONTACT = 1.0  # distance of two faces' centres, in their mean size, below which one could be taken for the other
AT_LEAST_S = 1.0  # pieces that are shorter are left out: false alarms, passers-by
_GATE = 0.7  # a detection is that of a face which was expected at most so far away, in sizes of the face
_UNITS = 100.0  # of the median face's size: what the Kalman filter's variances are of
_MEASURED, _CHANGES = 4.0, 10.0  # its variances: of a detection's edge, and of the speed from one picture to the next
_INEXACT = 0.15  # of a face's size: how inexact its place is
_SPEED = 5.0  # sizes of the face a second by which a face that is followed steadily may be elsewhere than expected
_STEADY = 0.25  # of its size, from where it was going: nearer is steady
_HIDES_S = 2.0  # for so long a face that was lost next to another may be behind it
_FEW = 5  # detections whose median look is compared
_ESTABLISHED = 3  # detections from which on a face that comes near another is a contact, and no false alarm


@dataclass(frozen=True)
class Piece:
    """A face, seen without a longer gap: n detections of one person, as far as they are not doubtful."""

    time: np.ndarray  # (n,) float64 seconds
    box: np.ndarray  # (n, 4) float64, left, top, width, height, pixels
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
    """What the tracker took for one face: n detections, of N pictures."""

    picture: np.ndarray  # (n,) int64, numbers of the pictures
    time: np.ndarray  # (n,) their seconds
    box: np.ndarray  # (n, 4)
    looks: np.ndarray  # (n, d)

    @cached_property
    def place(self) -> np.ndarray:
        """(n, 3) centre and size, pixels."""
        return np.column_stack([self.box[:, :2] + self.box[:, 2:] / 2, np.sqrt(self.box[:, 2:].prod(1))])

    @cached_property
    def strays(self) -> np.ndarray:
        """(n,) bool: the face is elsewhere than where it was going."""
        step_s, places = np.diff(self.time)[:, None], self.place[:, :2]
        expected = places[:-1].copy()
        expected[1:] += (np.diff(places, axis=0) / step_s)[:-1] * step_s[1:]
        return np.append(False, np.hypot(*(places[1:] - expected).T) > _STEADY * self.place[1:, 2])

    @cached_property
    def steady(self) -> np.ndarray:
        """(n,) bool: the face is where it was going, and was seen in the picture before this one."""
        return ~self.strays & (np.diff(self.picture, prepend=self.picture[0] - 1) == 1)

    def in_pictures(self, flags: np.ndarray, pictures: int) -> np.ndarray:
        """(N,) bool of flags of the detections."""
        of_all = np.zeros(pictures, bool)
        of_all[self.picture] = flags
        return of_all

    def places(self, time: np.ndarray, lingers_s: float) -> np.ndarray:
        """(N, 4): centre, size and how far from there it may be, pixels; NaN long before it was seen and after it left.

        A face that is not seen any more is taken to be near where it was last for as long as it may be unseen: as near
        as its speed allows.
        """
        places = np.column_stack([np.interp(time, self.time, values) for values in self.place.T])
        unseen_s = np.maximum(self.time[0] - time, time - self.time[-1])
        steps = np.hypot(*np.diff(self.place[:, :2], axis=0).T) / np.diff(self.time)
        first, last = (float(np.median(part)) if len(part) else 0.0 for part in (steps[:_FEW], steps[-_FEW:]))
        drift = np.maximum(unseen_s, 0) * np.where(time < self.time[0], first, last)
        places[unseen_s > lingers_s] = np.nan
        return np.column_stack([places, drift])


def find_pieces(detections: Detections, *, also_short: bool = False) -> list[Piece]:
    """The pieces of a recording, by when they begin and then from left to right.

    Args:
        also_short: also those of less than :data:`AT_LEAST_S`, which may be false alarms.
    """
    interval_s = float(np.median(np.diff(detections.time))) if len(detections) > 1 else 1.0
    trails = list(_associated(detections, interval_s))
    pieces: list[Piece] = []
    for trail, contact in zip(trails, _contacts(detections, trails, interval_s), strict=True):
        found = _cut(trail, contact, _unseen_s(interval_s))
        pieces += (piece for piece in found if piece.sure_s >= AT_LEAST_S or (also_short and piece.sure_s > 0))
    return sorted(pieces, key=lambda piece: (piece.time[0], piece.box[0, 0]))


def _unseen_s(interval_s: float) -> float:
    """How far two detections of one face may be apart: not at all but by :data:`BRIDGE_S`, and the next picture."""
    return max(BRIDGE_S, 1.01 * interval_s) + 1e-6


def _associated(detections: Detections, interval_s: float) -> Iterator[_Trail]:
    from norfair import Detection, OptimizedKalmanFilterFactory, Tracker
    from norfair.distances import VectorizedDistance

    sizes = [np.sqrt(box[2] * box[3]) for boxes in detections.boxes for box in boxes]
    if not sizes:
        return
    scale = _UNITS / float(np.median(sizes))
    tracker = Tracker(
        "iou",
        distance_threshold=_GATE,
        hit_counter_max=max(2, round(BRIDGE_S / interval_s)),
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
    for faces in trails.values():
        box, looks = (np.array([of[p][face] for p, face in faces]) for of in (detections.boxes, detections.looks))
        pictures = np.array([p for p, _ in faces])
        yield _Trail(pictures, detections.time[pictures], box, looks)


def _distances(candidates: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """(n, m): how far detections (n, 4) are from expected faces (m, 4), corners each: distance and change of size."""

    def centres_and_sizes(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sides = np.maximum(corners[:, 2:] - corners[:, :2], 1e-6)
        return corners[:, :2] + sides / 2, np.sqrt(sides.prod(1))

    (a, size_a), (b, size_b) = centres_and_sizes(candidates), centres_and_sizes(expected)
    between = np.linalg.norm(a[:, None] - b[None], axis=2) / ((size_a[:, None] + size_b[None]) / 2)
    return between + np.abs(np.log(size_a[:, None] / size_b[None]))


def _contacts(detections: Detections, trails: list[_Trail], interval_s: float) -> list[np.ndarray]:
    """Of each trail (n,) int: at which detections another face is so near that one could be taken for the other.

    Faces that are both followed steadily may come nearer to each other (1) than those of which one is not seen, or
    moves unlike before (2). What is seen for a few pictures only, mostly a false alarm, counts where the face moves
    unlike before.
    """
    count = len(detections)
    near = [np.zeros(count, np.int8) for _ in trails]
    lasting = [len(trail.picture) >= _ESTABLISHED for trail in trails]
    unseen_s = [_unseen_s(interval_s) if lasts else 1.01 * interval_s for lasts in lasting]
    places = [trail.places(detections.time, lingers_s) for trail, lingers_s in zip(trails, unseen_s, strict=True)]
    steady = [trail.in_pictures(trail.steady, count) for trail in trails]
    strays = [trail.in_pictures(trail.strays, count) for trail in trails]
    moved = _INEXACT + _SPEED * interval_s
    for a, b in combinations(range(len(trails)), 2):
        both = steady[a] & steady[b]
        reach = np.where(both, min(_CONTACT, moved), max(_CONTACT, moved)) * (places[a][:, 2] + places[b][:, 2]) / 2
        reach += places[a][:, 3] + places[b][:, 3]
        with np.errstate(invalid="ignore"):
            touch = np.hypot(*(places[a] - places[b])[:, :2].T) < reach
        for one, other in ((a, b), (b, a)):
            counts = touch & (lasting[other] | strays[one])
            near[one] = np.maximum(near[one], np.where(counts, 2 - both, 0))
            if lasting[other]:
                near[one] = np.maximum(near[one], 2 * _may_hide(trails[other], trails[one], touch, detections.time))
    return [_at_detections(each, trail.picture) for each, trail in zip(near, trails, strict=True)]


def _may_hide(trail: _Trail, other: _Trail, touch: np.ndarray, time: np.ndarray) -> np.ndarray:
    """(N,) bool: a face that was lost where it touched another may be behind it, and be seen when this has left."""
    end_s = trail.time[-1]
    after = (time >= end_s) & (time <= end_s + _HIDES_S)
    is_behind = other.time[0] < end_s < other.time[-1] and touch[after & (time <= end_s + BRIDGE_S)].any()
    return after & is_behind


def _at_detections(near: np.ndarray, picture: np.ndarray) -> np.ndarray:
    """What holds in each picture (N,) at the detections in these (n,): also what holds in between, at both ends."""
    at = near[picture]
    for row in np.flatnonzero(np.diff(picture) > 1):
        hidden = near[picture[row] + 1 : picture[row + 1]].max()
        at[row : row + 2] = np.maximum(at[row : row + 2], hidden)
    return at


def _cut(trail: _Trail, contact: np.ndarray, unseen_s: float) -> Iterator[Piece]:
    """The pieces of a trail; of each detection (n,) int its contact, see :func:`_contacts`."""
    time, looks, steady = trail.time, trail.looks, trail.steady
    doubtful = _without_short_gaps(time, contact > 0)
    doubtful[:-1] |= doubtful[1:] & ~steady[:-1]
    begins = np.diff(time, prepend=-np.inf) > unseen_s
    is_over = np.flatnonzero(doubtful[:-1] & ~doubtful[1:] & ~begins[1:])
    is_clear = (contact[is_over] == 1) & steady[is_over + 1]  # not surely the one before, but surely the one after
    begins[is_over + ~is_clear] = True
    doubtful[is_over[is_clear]] = False
    first = 0  # of the piece
    for number in range(1, len(time)):
        if not begins[number] and _looks_change(looks, first, number):
            doubtful[number - 1 : number + 1] = True
            begins[number] = True
        first = number if begins[number] else first
    starts = np.flatnonzero(begins).tolist()
    for first, last in pairwise([*starts, len(time)]):
        rows = slice(first, last)
        yield Piece(time[rows], trail.box[rows], looks[rows], doubtful[rows].copy())


def _looks_change(looks: np.ndarray, first: int, number: int) -> bool:
    """Whether somebody else is seen from this detection on: one is unlike the one before it, a few unlike a few.

    Args:
        first: detection of the piece.
    """
    if look_distance(looks[number - 1], looks[number]) <= LOOK:
        return False
    before, after = looks[max(number - _FEW, first) : number], looks[number : number + _FEW]
    return look_distance(np.median(before, axis=0), np.median(after, axis=0)) > LOOK


def _without_short_gaps(time: np.ndarray, flags: np.ndarray) -> np.ndarray:
    """Flags (n,) that are also set where they are not for less than :data:`BRIDGE_S`, between two that are."""
    flags = flags.copy()
    for before, after in pairwise(np.flatnonzero(flags)):
        if time[after] - time[before] < BRIDGE_S:
            flags[before:after] = True
    return flags
