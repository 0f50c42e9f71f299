"""Whose each piece is: by seats that the user names, or nobody's but its own.

A seat is a part of the picture and the name of who sits there. A piece is that person's if the face is in the seat for
most of its time, if nobody else is there at the same time, and if the person looks like the one who is there for
longest, and more so than like anybody who has another seat. Where two people have one seat for long, which of them has
the name is not known. Otherwise the piece is nobody's, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from tasks.people.detections import look_distance
from tasks.people.pieces import Piece, Rules

_INSIDE = 0.75  # share of a piece's detections that have to be in the seat; the others lean over
_CONTESTED = 0.5  # of the time of the person who has a seat for longest: another who is there for longer contests it
_HALVES = {"left": (0, 0.5), "right": (0.5, 1), "top": (0, 0.5), "bottom": (0.5, 1)}
_THIRDS = {"left": (0, 1 / 3), "middle": (1 / 3, 2 / 3), "right": (2 / 3, 1), "top": (0, 0.5), "bottom": (0.5, 1)}
Area = tuple[float, float, float, float]


class SeatError(Exception):
    """A seat cannot be understood; the message says what it may be."""


@dataclass(frozen=True)
class Person:
    """Somebody with a name, or a piece that nobody was found for."""

    name: str
    pieces: tuple[Piece, ...]  # in order; they do not overlap but in doubtful detections


@dataclass(frozen=True)
class Unattributed:
    """A piece that is nobody's."""

    piece: Piece
    reason: str


def parse_seats(given: Sequence[str]) -> dict[str, Area]:
    """Areas by name, x, y, width and height as shares of the picture, of texts ``SEAT=NAME``.

    A seat is left, right, top, bottom, middle (of three beside each other), two of them (top-left), or ``x,y,w,h``.

    Raises:
        SeatError: a text is no seat, or a name stands twice.
    """
    pairs = [text.rpartition("=") for text in given]
    words = _THIRDS if any("middle" in seat for seat, _, _ in pairs) else _HALVES
    seats: dict[str, Area] = {}
    for (seat, _, name), text in zip(pairs, given, strict=True):
        area = _area(seat.strip(), words)
        if area is None or not name.strip():
            raise SeatError(
                f"--seat {text!r}: write SEAT=NAME, with left, middle, right, top, bottom, a corner (top-left) or "
                "x,y,w,h (shares of the picture, 0 to 1) as the seat, for example left=participant"
            )
        if name.strip() in seats:
            raise SeatError(f"--seat {text!r}: {name.strip()} has two seats; each person has one")
        seats[name.strip()] = area
    return seats


def _area(seat: str, words: Mapping[str, tuple[float, float]]) -> Area | None:
    if re.fullmatch(r"[\d.]+(,[\d.]+){3}", seat):
        try:
            x, y, width, height = map(float, seat.split(","))
        except ValueError:
            return None
        fits = width > 0 and height > 0 and max(x + width, y + height) <= 1 + 1e-9
        return (x, y, width, height) if fits else None
    across, down = (0.0, 1.0), (0.0, 1.0)
    for word in seat.split("-"):
        if word not in words:
            return None
        across, down = (across, words[word]) if word in ("top", "bottom") else (words[word], down)
    return across[0], down[0], across[1] - across[0], down[1] - down[0]


def by_themselves(pieces: Sequence[Piece]) -> list[Person]:
    """Each piece as a person without a name: p1, p2, …"""
    return [Person(f"p{number}", (piece,)) for number, piece in enumerate(pieces, 1)]


def by_seats(
    pieces: Sequence[Piece], seats: Mapping[str, Area], size: tuple[int, int], rules: Rules
) -> tuple[list[Person], list[Unattributed]]:
    """The people who have the seats, and the pieces that are nobody's.

    Args:
        size: width and height of the picture, pixels.
    """
    nobodys: list[Unattributed] = []
    candidates: dict[str, list[Piece]] = {name: [] for name in seats}
    for piece in pieces:
        homes = [name for name, area in seats.items() if _share_inside(piece, area, size) >= _INSIDE]
        if len(homes) == 1:
            candidates[homes[0]].append(piece)
        else:
            nobodys.append(Unattributed(piece, "in several seats" if homes else "in no seat for most of its time"))
    known = {name: max(there, key=lambda piece: piece.sure_s).look for name, there in candidates.items() if there}
    people = []
    for name, there in candidates.items():
        alone: list[Piece] = []
        contested = _is_contested(there, known.get(name), rules)
        for piece in there:
            if contested:
                nobodys.append(Unattributed(piece, f"two people have the seat of {name}, each for long"))
            elif any(are_at_once(piece, other) for other in there if other is not piece):
                nobodys.append(Unattributed(piece, f"two faces are in the seat of {name} at the same time"))
            elif reason := _looks_wrong(piece, name, known, rules):
                nobodys.append(Unattributed(piece, reason))
            else:
                alone.append(piece)
        people.append(Person(name, tuple(alone)))
    return people, sorted(nobodys, key=lambda each: float(each.piece.time[0]))


def with_names_of_seats(
    people: Sequence[Person], seats: Mapping[str, Area], size: tuple[int, int]
) -> tuple[list[Person], list[str]]:
    """People whose pieces a model of faces joined, named by their seats, and why others keep a number.

    Somebody has a seat's name if nobody else is in it, and she in no other, for more than half as long.
    """
    seconds = np.array([[_seconds_inside(each, area, size) for area in seats.values()] for each in people])
    numbers = (name for number in count(1) if (name := f"p{number}") not in seats)
    named, reasons = [], []
    for person, (row, own_s) in zip(people, enumerate(seconds), strict=True):
        seat = int(own_s.argmax())
        rivals = np.concatenate([np.delete(own_s, seat), np.delete(seconds[:, seat], row)])
        if own_s[seat] > 0 and rivals.max(initial=0) <= _CONTESTED * own_s[seat]:
            named.append(replace(person, name=list(seats)[seat]))
        else:
            named.append(replace(person, name=next(numbers)))
            where = f"the seat of {list(seats)[seat]} is not surely this person's" if own_s[seat] else "is in no seat"
            reasons.append(f"{named[-1].name}, from {person.pieces[0].time[0]:.1f} s: {where}")
    return named, reasons


def _seconds_inside(person: Person, area: Area, size: tuple[int, int]) -> float:
    return sum(_share_inside(piece, area, size) * piece.sure_s for piece in person.pieces)


def _share_inside(piece: Piece, area: Area, size: tuple[int, int]) -> float:
    """The share of the piece's sure detections that have their middle in the area."""
    centre = (piece.box[:, :2] + piece.box[:, 2:] / 2) / np.array(size)
    corner, extent = np.array(area[:2]), np.array(area[2:])
    inside = ((centre >= corner) & (centre <= corner + extent)).all(axis=1)
    return float(inside[~piece.doubtful].mean())


def _is_contested(there: Sequence[Piece], known: np.ndarray | None, rules: Rules) -> bool:
    """Whether people of two looks have a seat, the second for nearly as long as the first."""
    if known is None:
        return False
    others = [look_distance(piece.look, known) > rules.look for piece in there]
    seconds = np.array([piece.sure_s for piece in there])
    return bool(seconds[others].sum() > _CONTESTED * seconds[np.logical_not(others)].sum())


def are_at_once(a: Piece, b: Piece) -> bool:
    """Whether both are surely seen at some time."""
    a_time, b_time = a.time[~a.doubtful], b.time[~b.doubtful]
    return bool(a_time[0] <= b_time[-1] and b_time[0] <= a_time[-1])


def _looks_wrong(piece: Piece, name: str, known: Mapping[str, np.ndarray], rules: Rules) -> str:
    """Why what the face looks like speaks against the person; empty where nothing does."""
    distances = {other: look_distance(piece.look, look) for other, look in known.items()}
    if distances[name] > rules.look:
        return f"looks unlike {name}, who is there for longest"
    nearest = min(distances, key=lambda other: distances[other])
    return "" if nearest == name else f"in the seat of {name}, but looks more like {nearest}"
