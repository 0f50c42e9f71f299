"""What a file of annotations holds, whatever program wrote it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

_NAMED = 3  # places that a sentence lists


class ImportFaultError(Exception):
    """The file cannot be imported as asked; the message names it, the place and what to do, and quotes no value."""


@dataclass(frozen=True)
class Annotation:
    """One value, with where it stands.

    Attributes:
        tier: the tier's name (of a table: the column's).
        value: as it is written.
        start_s, end_s: seconds of the file's own clock; None where it is about all of the recording.
        place: where in the file.
        file: the recording that the file names for it; empty where it names none.
        session_id, rater_id, person_id, confidence: where the file has such columns; else None.
    """

    tier: str
    value: str
    start_s: float | None
    end_s: float | None
    place: str
    file: str = ""
    session_id: str | None = None
    rater_id: str | None = None
    person_id: str | None = None
    confidence: str | None = None


@dataclass(frozen=True)
class Tier:
    """One tier of a file; ``vocabulary`` holds what its annotations may be, where the file says so."""

    name: str
    vocabulary: tuple[str, ...] = ()


@dataclass(frozen=True)
class AnnotationFile:
    """A file of annotations as it was read.

    Attributes:
        name: the file's.
        unit: how its times are written.
        tiers: in its order; two may have one name.
        annotations: those with a value.
        remarks: what was left out, or is odd.
        faults: by tier, why it cannot be imported: it has to be mended, or left out.
        origins_s: where the media of the file begin on its clock, if not at 0.
        decimal_commas: a value that is a number has a decimal comma, by what else is in the file.
        columns: of a table, the names in its header.
        possible_times: columns of a table without known times that may be times: by each, the columns that it is a
            start or an end to, itself where its cells are times, and the empty name where its own name says so.
    """

    name: str
    unit: str
    tiers: tuple[Tier, ...]
    annotations: tuple[Annotation, ...]
    remarks: tuple[str, ...] = ()
    faults: Mapping[str, str] = field(default_factory=dict)
    origins_s: tuple[float, ...] = ()
    decimal_commas: bool = False
    columns: tuple[str, ...] = ()
    possible_times: Mapping[str, Collection[str]] = field(default_factory=dict)


NO_TIMES = "no times"  # the unit of a file that has none


def without_empty(annotations: Iterable[Annotation]) -> tuple[tuple[Annotation, ...], list[str]]:
    """The annotations that say something, and a remark on each tier with others."""
    kept, empty = [], Counter[str]()
    for one in annotations:
        if one.value.strip():
            kept.append(one)
        else:
            empty[one.tier] += 1
    return tuple(kept), [f"tier {name!r}: {count} without a value, left out" for name, count in empty.items()]


def overlaps(annotations: Sequence[Annotation]) -> list[str]:
    """A remark on each tier with annotations that overlap: they are kept."""
    by_tier: dict[tuple[object, ...], list[Annotation]] = {}
    for one in annotations:
        if one.start_s is not None:
            by_tier.setdefault((one.tier, one.file, one.session_id, one.rater_id, one.person_id), []).append(one)
    found = Counter[str]()
    for (tier, *_), of_tier in by_tier.items():
        of_tier.sort(key=lambda one: (one.start_s, one.end_s))
        last_s = -1.0
        for before, one in pairwise(of_tier):
            last_s = max(last_s, before.end_s or 0.0)
            found[str(tier)] += (one.start_s or 0.0) < last_s
    return [f"tier {name!r}: {count} overlap the one before, kept" for name, count in found.items() if count]


def backwards(annotations: Iterable[Annotation]) -> dict[str, str]:
    """By tier, the first of its annotations that end before they begin, or begin before the recording."""
    wrong: dict[str, list[str]] = {}
    for one in annotations:
        if one.start_s is not None and one.end_s is not None and not 0 <= one.start_s <= one.end_s:
            wrong.setdefault(one.tier, []).append(one.place)
    rule = "ends before it begins, or begins before 0 s: mend it there"
    return {tier: f"{places(found)}: {rule}" for tier, found in wrong.items()}


def places(found: Sequence[str]) -> str:
    """The first places, the others counted."""
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return "; ".join(found[:_NAMED]) + more
