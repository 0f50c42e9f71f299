"""The content of a file of annotations, in one form for all programs."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

from tasks.study import SchemeType, as_id


class ImportFaultError(Exception):
    """The file cannot be imported as requested; the message names it, the place and what to do, and quotes no value."""


@dataclass(frozen=True)
class Annotation:
    """One value, with its place.

    Attributes:
        tier: the tier's name (of a table: the column's).
        value: as it is written.
        start_s, end_s: seconds of the file's own clock; None where it is of the whole recording.
        place: in the file.
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
    """One tier of a file.

    Attributes:
        name: its name.
        vocabulary: the allowed values, where the file names them.
        type, minimum, maximum: of its values, where the file says them.
    """

    name: str
    vocabulary: tuple[str, ...] = ()
    type: SchemeType | None = None
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True)
class AnnotationFile:
    """A file of annotations as it was read.

    Attributes:
        name: of the file.
        unit: of its times.
        tiers: in their order; two may have one name.
        annotations: those with a value; of a curve also moments without one, which are gaps.
        remarks: what was left out, or is unusual.
        faults: by tier, why it cannot be imported: it has to be corrected, or skipped.
        origins_s: where the media of the file begin on its clock, if not at 0.
        decimal_commas: whether numbers among the values have a decimal comma, by the other cells of the file.
        columns: of a table, the names in its header.
        names_persons: whether the persons that it names may be new to the study.
        media: the names of the recordings that the file as a whole is of, where it names them.
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
    media: tuple[str, ...] = ()
    names_persons: bool = False
    possible_times: Mapping[str, Collection[str]] = field(default_factory=dict)


class _NoDoctype(ElementTree.TreeBuilder):
    """Refuses a document type, in which alone entities can be declared: they could grow without end."""

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        raise ValueError("a document type")


def read_xml(path: Path, what: str) -> ElementTree.Element:
    """The root of an XML file without a document type.

    Raises:
        ImportFaultError: it is no such XML, so it is not ``what``.
        OSError: it cannot be read.
    """
    try:
        parser = ElementTree.XMLParser(target=_NoDoctype())  # noqa: S314 - see _NoDoctype
        return ElementTree.parse(path, parser).getroot()  # noqa: S314 - by that parser
    except (ElementTree.ParseError, ValueError, LookupError):
        raise ImportFaultError(f"{path.name}: is not XML, so {what}") from None


NO_TIMES = "no times"  # the unit of a file that has none


def without_empty(annotations: Iterable[Annotation]) -> tuple[tuple[Annotation, ...], list[str]]:
    """The annotations with a value, and a remark on each tier that has others."""
    kept, empty = [], Counter[str]()
    for annotation in annotations:
        if annotation.value.strip():
            kept.append(annotation)
        else:
            empty[annotation.tier] += 1
    return tuple(kept), [f"tier {name!r}: {count} without a value, left out" for name, count in empty.items()]


def overlaps(annotations: Sequence[Annotation]) -> list[str]:
    """A remark on each tier with annotations that overlap: they are kept."""
    by_tier: dict[tuple[object, ...], list[Annotation]] = {}
    for annotation in annotations:
        if annotation.start_s is not None:
            owner = annotation.session_id, annotation.rater_id, annotation.person_id
            by_tier.setdefault((annotation.tier, annotation.file, *owner), []).append(annotation)
    overlapping = Counter[str]()
    for (tier, *_), of_tier in by_tier.items():
        of_tier.sort(key=lambda annotation: (annotation.start_s, annotation.end_s))
        last_s = -1.0
        for before, annotation in pairwise(of_tier):
            last_s = max(last_s, before.end_s or 0.0)
            overlapping[str(tier)] += (annotation.start_s or 0.0) < last_s
    return [f"tier {name!r}: {count} overlap the one before, kept" for name, count in overlapping.items() if count]


def backwards(annotations: Iterable[Annotation]) -> dict[str, str]:
    """By tier, the first of its annotations that end before they begin."""
    wrong: dict[str, list[str]] = {}
    for annotation in annotations:
        start_s, end_s = annotation.start_s, annotation.end_s
        if start_s is not None and end_s is not None and start_s > end_s:
            wrong.setdefault(annotation.tier, []).append(annotation.place)
    rule = "ends before it begins: correct it in the file"
    return {tier: f"{places(of_tier)}: {rule}" for tier, of_tier in wrong.items()}


class PersonIds:
    """The ids of the people whom a file names; each id is of one name."""

    def __init__(self, file: str, field: str) -> None:
        self._file, self._field = file, field
        self._names: dict[str, str] = {}

    def id(self, name: str, place: str) -> str | None:
        """The id of a name; None of an empty one.

        Raises:
            ImportFaultError: the name gives no id, or that of another.
        """
        if not (name := unicodedata.normalize("NFC", name.strip())):
            return None
        person = as_id(name)
        if not person or self._names.setdefault(person, name) != name:
            raise ImportFaultError(
                f"{self._file}: {place}: its {self._field} gives no id, or that of another: write ids for people"
            )
        return person


def listed(names: Sequence[str], most: int = 5, separator: str = ", ") -> str:
    """The first names, the others counted."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more


def places(names: Sequence[str]) -> str:
    """The first places by name, the others counted."""
    return listed(names, 3, "; ")
