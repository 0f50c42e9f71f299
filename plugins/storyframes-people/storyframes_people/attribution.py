"""Whose each piece is: by seats that the user names, or nobody's, with a number.

A seat is a part of the picture, or a place in the order from left to right, and the name of who sits there. Its name is
given where nothing that was seen speaks against it: nobody else is in the seat for long. Pieces are never joined across
a moment at which two faces could have been swapped. Those which nothing but the seat joins, such as before and after
somebody was away, are doubtful.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, pairwise

import numpy as np

from storyframes_people.detections import LOOK, look_distance
from storyframes_people.pieces import AT_LEAST_S, BRIDGE_S, Piece

_INSIDE = 0.75  # share of a piece's detections that have to be in the seat; the others lean over
_CONTESTED = 0.2  # of the time that somebody has a seat: if others have it for longer, its name is nobody's
_SITS_S = 1.0  # who is in a seat for so long does not pass through it
_MORE = 0.05  # of the pictures: in so many there may be more faces than seats, where the order divides these
_NAMED = 5  # others in a seat of whom a message says who they are
_HALVES = {"left": (0, 0.5), "right": (0.5, 1), "top": (0, 0.5), "bottom": (0.5, 1)}
_THIRDS = {"left": (0, 1 / 3), "middle": (1 / 3, 2 / 3), "right": (2 / 3, 1), "top": (0, 0.5), "bottom": (0.5, 1)}
Area = tuple[float, float, float, float]


class SeatError(Exception):
    """A seat cannot be understood; the message says what it may be."""


@dataclass(frozen=True)
class Strip:
    """A part of the picture from top to bottom, between two lines that move with the people beside them."""

    time: np.ndarray  # (n,) seconds
    left: np.ndarray  # (n,) shares of the picture's width
    right: np.ndarray  # (n,)


class SeatsInARow(dict[str, "Area | Strip"]):
    """All seats from the left to the right, in this order: halves, thirds and so on, until people are seen in them."""

    def between(self, pieces: Sequence[Piece], size: tuple[int, int]) -> SeatsInARow:
        """The seats, divided half way between people where as many are seen at once as there are seats, hardly more."""
        time = np.unique(np.concatenate([np.zeros(0), *(piece.time[~piece.doubtful] for piece in pieces)]))
        shown = np.full((max(len(pieces), len(self)), len(time)), np.nan)  # where the middle of each face is
        for row, piece in zip(shown, pieces, strict=False):
            middle = (piece.box[:, 0] + piece.box[:, 2] / 2) / size[0]
            row[:] = np.interp(time, piece.time, middle, left=np.nan, right=np.nan)
        count = np.isfinite(shown).sum(axis=0)
        is_full = count == len(self)
        interval_s = float(np.median(np.diff(time))) if len(time) > 1 else 0.0
        if is_full.sum() * interval_s < _SITS_S or (count > len(self)).mean() > _MORE:
            return self
        places = np.sort(shown[:, is_full], axis=0)[: len(self)]  # NaN is last
        edge = np.ones((1, places.shape[1]))
        lines = np.concatenate([-edge, (places[:-1] + places[1:]) / 2, 2 * edge])
        strips = (Strip(time[is_full], left, right) for left, right in pairwise(lines))
        return SeatsInARow(zip(self, strips, strict=True))


Seats = Mapping[str, Area | Strip]


@dataclass(frozen=True)
class Person:
    """Somebody with a name, or a number."""

    name: str
    pieces: tuple[Piece, ...]  # in order; they do not overlap but in doubtful detections


def parse_seats(given: Sequence[str]) -> Seats:
    """Areas by name, x, y, width and height as shares of the picture, of texts ``SEAT=NAME``.

    A seat is left, right, top, bottom, middle (of three beside each other), two of them (top-left), ``x,y,w,h``, or a
    number from the left. Seats that are left and right, with or without middle, or 1 to k, are :class:`SeatsInARow`.

    Raises:
        SeatError: a text is no seat, or a name stands twice.
    """
    pairs = [text.rpartition("=") for text in given]
    words = _THIRDS if any("middle" in seat for seat, _, _ in pairs) else _HALVES
    most = max((int(seat) for seat, _, _ in pairs if re.fullmatch("[1-9]", seat.strip())), default=0)
    words = words | {str(number + 1): (number / most, (number + 1) / most) for number in range(most)}
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
    rows = {"left", "right"}, {"left", "middle", "right"}, {str(number + 1) for number in range(most)}
    if seats and {seat.strip() for seat, _, _ in pairs} in rows and len({*seats.values()}) == len(seats):
        from_left = sorted(seats.items(), key=lambda named: named[1][0])
        return SeatsInARow(from_left)
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


def free_numbers(taken: Collection[str]) -> Iterator[str]:
    """p1, p2, … without those that are somebody's name."""
    return (name for number in count(1) if (name := f"p{number}") not in taken)


def by_themselves(pieces: Sequence[Piece]) -> list[Person]:
    """Each piece as a person without a name: p1, p2, …"""
    return [Person(f"p{number}", (piece,)) for number, piece in enumerate(pieces, 1)]


def by_seats(pieces: Sequence[Piece], seats: Seats, size: tuple[int, int]) -> tuple[list[Person], list[str]]:
    """People with the names of their seats, each other piece with a number, and what is not sure of them.

    Args:
        pieces: those of less than :data:`AT_LEAST_S` are nobody's; but one in a seat may be of whom its name means.
        size: width and height of the picture, pixels.
    """
    seats = _divided(seats, [piece for piece in pieces if piece.sure_s >= AT_LEAST_S], size)
    short = [Person("", (piece,)) for piece in pieces if piece.sure_s < AT_LEAST_S]
    pieces = [piece for piece in pieces if piece.sure_s >= AT_LEAST_S]
    homes = [[name for name, area in seats.items() if _share_inside(each, area, size) >= _INSIDE] for each in pieces]
    runs = [[piece] for piece, home in zip(pieces, homes, strict=True) if len(home) != 1]
    for name in seats:
        runs += _runs([piece for piece, home in zip(pieces, homes, strict=True) if home == [name]], pieces)
    by_run, _ = _named([Person("", tuple(run)) for run in runs], seats, size)
    parts = [[each.pieces] if each.name in seats else [(piece,) for piece in each.pieces] for each in by_run]
    apart = sorted(chain(*parts), key=lambda part: (part[0].time[0], part[0].box[0, 0]))
    named, reasons = with_names_of_seats([Person("", part) for part in apart], seats, size, short)
    people = []
    for person in named:
        longest = max(person.pieces, key=lambda piece: piece.sure_s)
        shorter = [piece for piece in person.pieces if piece is not longest]
        is_clear = sum(piece.sure_s for piece in shorter) <= _CONTESTED * longest.sure_s and all(
            _is_seen_between(other, piece, longest) for piece in shorter for other in named if other is not person
        )
        marked = [piece if piece is longest and is_clear else _doubted(piece) for piece in person.pieces]
        for piece in person.pieces:
            if piece is not longest or not is_clear:
                when = f"{piece.time[0]:.1f} to {piece.time[-1]:.1f} s"
                reasons.append(f"{person.name}, {when}: doubtful, since only the seat says who it is")
        people.append(replace(person, pieces=tuple(marked)))
    return people, reasons


def _divided(seats: Seats, pieces: Sequence[Piece], size: tuple[int, int]) -> Seats:
    is_divided = any(isinstance(area, Strip) for area in seats.values())
    return seats.between(pieces, size) if isinstance(seats, SeatsInARow) and not is_divided else seats


def _is_seen_between(person: Person, a: Piece, b: Piece) -> bool:
    """Whether the person is seen from the end of one piece to the begin of the other, and so is in neither."""
    end, begin = min(a.time[-1], b.time[-1]), max(a.time[0], b.time[0])
    return any(own.time[0] <= end and begin <= own.time[-1] for own in person.pieces)


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
    people: Sequence[Person], seats: Seats, size: tuple[int, int], passing: Sequence[Person] = ()
) -> tuple[list[Person], list[str]]:
    """People with the names of their seats, in the seats' order, then others, and why these have a number.

    Somebody has a seat's name if others are in it, and she in other seats, for at most a fifth as long in all. She is
    doubtful if somebody without a name was there: the name may be hers. So are both where somebody with another seat's
    name was there before all of her time in her own seat, or after it: who leans over comes back.

    Args:
        size: width and height of the picture, pixels.
        passing: others, who get no name.
    """
    seats = _divided(seats, [piece for person in people for piece in person.pieces], size)
    named, reasons = _named(people, seats, size)
    passing = [replace(person, name=f"somebody at {person.pieces[0].time[0]:.1f} s") for person in passing]
    others = {
        seat: [person.name for person in (*named, *passing) if _sat_in(person, seat, named, seats, size)]
        for seat in seats
    }
    for number, person in enumerate(named):
        if person.name not in seats:
            continue
        names = others[person.name]
        if len(names) > _NAMED:
            names = [*names[:_NAMED], f"{len(names) - _NAMED} more"]
        why = [f"{', '.join(names)} had this seat as well"] if names else []
        why += [f"it had the seat of {seat} as well" for seat, sitters in others.items() if person.name in sitters]
        if why:
            named[number] = replace(person, pieces=tuple(map(_doubted, person.pieces)))
            reasons.append(f"{person.name}: doubtful, since {' and '.join(why)}")
    return named, reasons


def _sat_in(person: Person, seat: str, people: Sequence[Person], seats: Seats, size: tuple[int, int]) -> bool:
    """Whether it may be this person, who has another name or none, whom the seat's name means.

    Who comes from her own seat and goes back to it has leant over. Others may pass through for less than a second, but
    not come from the seat or end there while whoever has its name is away.
    """
    if person.name == seat:
        return False
    inside = _times_inside(person, seats[seat], size)
    if person.name in seats:
        own_s = _times_inside(person, seats[person.name], size)[:, 0]
        inside = inside[(inside[:, 0] < own_s.min()) | (inside[:, 0] > own_s.max())]
    ends = np.array([piece.time[~piece.doubtful][row] for piece in person.pieces for row in (0, -1)])
    owner_s = [piece.time for other in people if other.name == seat for piece in other.pieces]
    away = np.abs(ends[:, None] - np.concatenate([[-np.inf], *owner_s])).min(axis=1) > BRIDGE_S
    return bool(np.isin(ends[away], inside[:, 0]).any()) or float(inside[:, 1].sum()) >= _SITS_S


def _named(people: Sequence[Person], seats: Seats, size: tuple[int, int]) -> tuple[list[Person], list[str]]:
    seconds = np.array([[_seconds_inside(each, area, size) for area in seats.values()] for each in people])
    numbers = free_numbers(seats)
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


def _seconds_inside(person: Person, area: Area | Strip, size: tuple[int, int]) -> float:
    return float(_times_inside(person, area, size)[:, 1].sum())


def _share_inside(piece: Piece, area: Area | Strip, size: tuple[int, int]) -> float:
    """The share of the piece's sure detections that have their middle in the area."""
    return float(_is_inside(piece, area, size)[~piece.doubtful].mean())


def _times_inside(person: Person, area: Area | Strip, size: tuple[int, int]) -> np.ndarray:
    """(n, 2): when the person is surely in the area, seconds, and how long since the detection before."""
    times = []
    for piece in person.pieces:
        rows = np.column_stack([piece.time, np.diff(piece.time, prepend=piece.time[0])])
        times.append(rows[_is_inside(piece, area, size) & ~piece.doubtful])
    return np.concatenate(times)


def _is_inside(piece: Piece, area: Area | Strip, size: tuple[int, int]) -> np.ndarray:
    """(n,) bool: the detection has its middle in the area."""
    if isinstance(area, Strip):
        middle = (piece.box[:, 0] + piece.box[:, 2] / 2) / size[0]
        left, right = (np.interp(piece.time, area.time, line) for line in (area.left, area.right))
        between: np.ndarray = (middle >= left) & (middle <= right)
        return between
    centre = (piece.box[:, :2] + piece.box[:, 2:] / 2) / np.array(size)
    corner, extent = np.array(area[:2]), np.array(area[2:])
    inside: np.ndarray = ((centre >= corner) & (centre <= corner + extent)).all(axis=1)
    return inside


def are_at_once(a: Piece, b: Piece) -> bool:
    """Whether both are surely seen at some time."""
    a_time, b_time = a.time[~a.doubtful], b.time[~b.doubtful]
    return bool(a_time[0] <= b_time[-1] and b_time[0] <= a_time[-1])
