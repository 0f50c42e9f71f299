"""Whose each piece is: by seats that the user names, or nobody's, with a number.

A seat is a part of the picture and the name of who sits there. Its name is given where nothing that was seen speaks
against it: nobody else is in the seat for long. Pieces are never joined across a moment at which two faces could have
been swapped. Those which nothing but the seat joins, such as before and after somebody was away, are doubtful.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count

import numpy as np

from storyframes_people.detections import LOOK, look_distance
from storyframes_people.pieces import Piece

_INSIDE = 0.75  # share of a piece's detections that have to be in the seat; the others lean over
_CONTESTED = 0.2  # of the time that somebody has a seat: if others have it for longer, its name is nobody's
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
) -> tuple[list[Person], list[str]]:
    """People with the names of their seats, each other piece with a number, and what is not sure of them.

    Args:
        size: width and height of the picture, pixels.
    """
    homes = [[name for name, area in seats.items() if _share_inside(each, area, size) >= _INSIDE] for each in pieces]
    runs = [[piece] for piece, home in zip(pieces, homes, strict=True) if len(home) != 1]
    for name in seats:
        runs += _runs([piece for piece, home in zip(pieces, homes, strict=True) if home == [name]], pieces)
    by_run, _ = _named([Person("", tuple(run)) for run in runs], seats, size)
    parts = [[each.pieces] if each.name in seats else [(piece,) for piece in each.pieces] for each in by_run]
    apart = sorted(chain(*parts), key=lambda part: (part[0].time[0], part[0].box[0, 0]))
    named, reasons = with_names_of_seats([Person("", part) for part in apart], seats, size)
    people = []
    for person in named:
        longest_s = max(piece.sure_s for piece in person.pieces)
        others_s = sum(piece.sure_s for piece in person.pieces) - longest_s
        marked = []
        for piece in person.pieces:
            is_sure = piece.sure_s == longest_s and others_s <= _CONTESTED * longest_s
            marked.append(piece if is_sure else _doubted(piece))
            when = f"{piece.time[0]:.1f} to {piece.time[-1]:.1f} s"
            reasons += [] if is_sure else [f"{person.name}, {when}: doubtful, since only the seat says who it is"]
        people.append(replace(person, pieces=tuple(marked)))
    return people, reasons


def _doubted(piece: Piece) -> Piece:
    return replace(piece, doubtful=np.ones_like(piece.doubtful))


def _runs(inside: Sequence[Piece], pieces: Sequence[Piece]) -> list[list[Piece]]:
    """The pieces in a seat, in order of time, in runs of one face after the other between which none was swapped.

    A run ends where any face of the recording is doubtful, where two are in the seat, and where the colours change.
    """
    doubtful = np.concatenate([np.zeros(0), *(piece.time[piece.doubtful] for piece in pieces)])
    runs: list[list[Piece]] = []
    over = -np.inf  # when the pieces before the last one have ended
    for piece in inside:
        last = runs[-1][-1] if runs else None
        if (
            last is not None
            and over < last.time[0] <= last.time[-1] < piece.time[0]
            and not ((doubtful >= last.time[0]) & (doubtful <= piece.time[-1])).any()
            and look_distance(last.look, piece.look) <= LOOK
        ):
            runs[-1].append(piece)
        else:
            runs.append([piece])
        over = max(over, last.time[-1]) if last is not None else over
    return runs


def with_names_of_seats(
    people: Sequence[Person], seats: Mapping[str, Area], size: tuple[int, int]
) -> tuple[list[Person], list[str]]:
    """People with the names of their seats, in the seats' order, then others, and why these have a number.

    Somebody has a seat's name if others are in it, and she in other seats, for at most a fifth as long in all. She is
    doubtful if somebody without a name sat there: the name may be hers.
    """
    named, reasons = _named(people, seats, size)
    for number, person in enumerate(named):
        others = [
            other.name
            for other in named
            if person.name in seats and other.name not in seats
            if any(_share_inside(piece, seats[person.name], size) >= _INSIDE for piece in other.pieces)
        ]
        if others:
            named[number] = replace(person, pieces=tuple(map(_doubted, person.pieces)))
            reasons.append(f"{person.name}: doubtful, since {', '.join(others)} had this seat as well")
    return named, reasons


def _named(
    people: Sequence[Person], seats: Mapping[str, Area], size: tuple[int, int]
) -> tuple[list[Person], list[str]]:
    seconds = np.array([[_seconds_inside(each, area, size) for area in seats.values()] for each in people])
    numbers = (name for number in count(1) if (name := f"p{number}") not in seats)
    named, reasons = [], []
    for person, own_s in zip(people, seconds, strict=True):
        seat = int(own_s.argmax())
        rivals_s = own_s.sum() + seconds[:, seat].sum() - 2 * own_s[seat]
        if own_s[seat] > 0 and rivals_s <= _CONTESTED * own_s[seat]:
            named.append(replace(person, name=list(seats)[seat]))
        else:
            named.append(replace(person, name=next(numbers)))
            first, last = person.pieces[0].time[0], person.pieces[-1].time[-1]
            where = f"the seat of {list(seats)[seat]} is not surely this person's" if own_s[seat] else "is in no seat"
            reasons.append(f"{named[-1].name}, {first:.1f} to {last:.1f} s: {where}")
    in_order = {name: number for number, name in enumerate(seats)}
    return sorted(named, key=lambda person: in_order.get(person.name, len(seats))), reasons


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
