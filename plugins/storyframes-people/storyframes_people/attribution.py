"""Whose each piece is: by seats that the user names, or nobody's but its own.

A seat is a part of the picture and the name of who sits there. The pieces of a seat are one person's if they are in it
for most of their time, never at once, and if they look like the longest of them, and like nobody who has another seat.
Where two people have one seat for long, neither has its name, but each a number. Other pieces are nobody's, with the
reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from storyframes_people.detections import LOOK, look_distance
from storyframes_people.pieces import Piece

_INSIDE = 0.75  # share of a piece's detections that have to be in the seat; the others lean over
_CONTESTED = 0.5  # of the time of who has a seat for longest: another who is there for longer contests its name
_HALVES = {"left": (0, 0.5), "right": (0.5, 1), "top": (0, 0.5), "bottom": (0.5, 1)}
_THIRDS = {"left": (0, 1 / 3), "middle": (1 / 3, 2 / 3), "right": (2 / 3, 1), "top": (0, 0.5), "bottom": (0.5, 1)}
Area = tuple[float, float, float, float]


class SeatError(Exception):
    """A seat cannot be understood; the message says what it may be."""


@dataclass(frozen=True)
class Person:
    """Somebody with a name, or a number."""

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
    pieces: Sequence[Piece], seats: Mapping[str, Area], size: tuple[int, int]
) -> tuple[list[Person], list[Unattributed], list[str]]:
    """The people who have the seats, the pieces that are nobody's, and why people have a number in place of a name.

    Args:
        size: width and height of the picture, pixels.
    """
    nobodys: list[Unattributed] = []
    of_seat: dict[str, list[Piece]] = {name: [] for name in seats}
    for piece in sorted(pieces, key=lambda piece: -piece.sure_s):
        homes = [name for name, area in seats.items() if _share_inside(piece, area, size) >= _INSIDE]
        if len(homes) == 1:
            of_seat[homes[0]].append(piece)
        else:
            nobodys.append(Unattributed(piece, "in several seats" if homes else "in no seat for most of its time"))
    longest = {name: there[0] for name, there in of_seat.items() if there}
    people: list[Person] = []
    unsure: set[int] = set()  # pieces by identity; they count for who has the seat, but are nobody's
    for name, there in of_seat.items():
        looks: list[list[Piece]] = []  # the pieces of each who is in the seat
        for piece in there:
            alike = [known for known in looks if look_distance(piece.look, known[0].look) <= LOOK]
            if reason := _why_unsure(piece, name, there, [known[0] for known in alike], longest):
                nobodys.append(Unattributed(piece, reason))
                unsure.add(id(piece))
            if not alike:
                looks.append([piece])
            elif not reason or len(alike) == 1:
                alike[0].append(piece)
        seconds = [sum(piece.sure_s for piece in known) for known in looks]
        for known, known_s in zip(looks, seconds, strict=True):
            if known_s > _CONTESTED * max(seconds):
                people.append(Person(name, tuple(sorted(known, key=lambda piece: float(piece.time[0])))))
            else:
                reason = f"looks unlike {name}, who is there for longest"
                nobodys += [Unattributed(piece, reason) for piece in known if id(piece) not in unsure]
    people.sort(key=lambda person: all(id(piece) in unsure for piece in person.pieces))  # the last numbers are dropped
    named, reasons = with_names_of_seats(people, seats, size)
    sure = [tuple(piece for piece in person.pieces if id(piece) not in unsure) for person in named]
    named = [replace(person, pieces=pieces) for person, pieces in zip(named, sure, strict=True) if pieces]
    numbers = {person.name for person in named}
    reasons = [reason for reason in reasons if reason.partition(",")[0] in numbers]
    return named, sorted(nobodys, key=lambda each: float(each.piece.time[0])), reasons


def with_names_of_seats(
    people: Sequence[Person], seats: Mapping[str, Area], size: tuple[int, int]
) -> tuple[list[Person], list[str]]:
    """People with the names of their seats, and why others have a number.

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


def are_at_once(a: Piece, b: Piece) -> bool:
    """Whether both are surely seen at some time."""
    a_time, b_time = a.time[~a.doubtful], b.time[~b.doubtful]
    return bool(a_time[0] <= b_time[-1] and b_time[0] <= a_time[-1])


def _why_unsure(
    piece: Piece, name: str, there: Sequence[Piece], alike: Sequence[Piece], longest: Mapping[str, Piece]
) -> str:
    """Why a piece in a seat is not surely of one of those whom it is like; empty where it is, or is like none.

    Args:
        there: all pieces in the seat.
        alike: the longest of each person in the seat whom it is like.
        longest: of each seat.
    """
    if any(are_at_once(piece, other) for other in there if other is not piece):
        return f"two faces are in the seat of {name} at the same time"
    if len(alike) > 1:
        return f"looks like two people who are in the seat of {name}"
    for known in alike:
        own = look_distance(piece.look, known.look)
        for other, elsewhere in longest.items():
            if other != name and look_distance(piece.look, elsewhere.look) < own:
                return f"in the seat of {name}, but looks more like {other}"
    return ""
