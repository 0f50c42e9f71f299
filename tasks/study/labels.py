"""Labels: what a person or a program said of a session, a part of it, or a person in it.

A scheme says which values are allowed. The tables ``ratings`` and ``stories`` are the short way to write labels of the
scheme ``empathy``; both ways become the same objects.
"""

from __future__ import annotations

import difflib
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter

from tasks.study.missing_values import is_one_of, possibly_missing

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


class SchemeType(StrEnum):
    """The type of a scheme's values."""

    NOMINAL = "nominal"  # names without an order
    ORDINAL = "ordinal"  # steps in an order, as numbers or as names
    INTERVAL = "interval"  # numbers whose differences have a meaning
    TEXT = "text"  # words
    CURVE = "curve"  # a number at many moments, in a file of its own


class RaterKind(StrEnum):
    """Who rates."""

    HUMAN = "human"
    MACHINE = "machine"
    SELF = "self"  # the person whom the label is about


def folded(text: str) -> str:
    """The text without differences of case and of Unicode form: an é of one or of two characters."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def alike(texts: Iterable[str]) -> list[tuple[str, ...]]:
    """The texts that differ in case or Unicode form alone, those of each group in their order.

    >>> alike(["Happy", "sad", "happy", "sad"])
    [('Happy', 'happy')]
    """
    groups: dict[str, list[str]] = {}
    for text in dict.fromkeys(texts):
        groups.setdefault(folded(text), []).append(text)
    return [tuple(group) for group in groups.values() if len(group) > 1]


@dataclass(frozen=True)
class Scheme:
    """One kind of label."""

    name: str
    type: SchemeType  # of its values
    # minimum, maximum: of an ordinal or interval scheme or a curve; None where the study gives none
    minimum: float | None = None
    maximum: float | None = None
    # the allowed names, of an ordinal scheme in their order; empty where values are numbers or any name
    labels: tuple[str, ...] = ()
    private: bool = False  # its values are never in a log, a problem, or a page
    missing: tuple[str, ...] = ()  # cells that say that there is no label
    not_missing: tuple[str, ...] = ()  # cells that look as if they said so, and are labels

    # of cells and labels of any scheme
    is_one_of = staticmethod(is_one_of)
    possibly_missing = staticmethod(possibly_missing)
    folded = staticmethod(folded)
    alike = staticmethod(alike)

    @property
    def is_numeric(self) -> bool:
        """Whether its values are numbers."""
        return self.type in (SchemeType.INTERVAL, SchemeType.CURVE) or (
            self.type is SchemeType.ORDINAL and not self.labels
        )

    def read(self, text: str) -> float | str:
        """The value of a cell.

        Raises:
            ValueError: it is no value of this scheme; the message names the allowed ones, and never quotes the text.
        """
        if self.is_numeric:
            if not _NUMBER.fullmatch(text) or not math.isfinite(number := float(text)):
                point = "" if "," not in text else " with a decimal point"
                raise ValueError(f"must be a number{point}: the scheme {self.name!r} is {self.type}{self._range()}")
            if (self.minimum is not None and number < self.minimum) or (
                self.maximum is not None and number > self.maximum
            ):
                raise ValueError(f"is outside the scheme {self.name!r}, which is {self.type}{self._range()}")
            return number
        if self.labels and text not in self.labels:
            close = did_you_mean(text, self.labels)
            raise ValueError(f"is not among the labels of the scheme {self.name!r} ({listed(self.labels, 8)}){close}")
        return text

    def undecided(self, values: Iterable[str]) -> tuple[str, ...]:
        """The different values that may say that there is no label, and of which the scheme does not say it."""
        if self.type is SchemeType.TEXT:
            return ()
        decided = (*self.labels, *self.missing, *self.not_missing)
        suspects = possibly_missing(values, self.minimum, self.maximum)
        return tuple(text for text in suspects if not is_one_of(text, decided))

    def _range(self) -> str:
        match self.minimum, self.maximum:
            case None, None:
                return ""
            case _, None:
                return f" from {self.minimum:g}"
            case None, _:
                return f" up to {self.maximum:g}"
        return f" from {self.minimum:g} to {self.maximum:g}"


def undecided_remark(scheme: str, codes: Sequence[str]) -> str:
    """A finding about cells that may say that there is no label, and where the answer is written."""
    named = listed([*map(repr, codes)])
    return (
        f"{named} of the scheme {scheme} may say that a value is missing: write {'|'.join(codes[:5])} into the column "
        "missing of the table schemes, or into not_missing, and run 'storyframes index STUDY STORE'"
    )


EMPATHY = Scheme("empathy", SchemeType.ORDINAL, 1.0, 5.0)


@dataclass(frozen=True)
class Label:
    """One value of one scheme."""

    # session_id, scheme: which
    session_id: str
    scheme: str
    value: float | str  # a number where the scheme's values are numbers, else a text
    # start_s, end_s: the labelled part, start_s <= t < end_s, or a moment where they are the same; None: the whole
    # session. Seconds of the session, or, where ``track`` is given, of that track's recording
    start_s: float | None = None
    end_s: float | None = None
    track: str | None = None  # the recording that was labelled; None for the session itself
    person_id: str | None = None  # the labelled person; None where nobody is named
    target: str | None = None  # what it refers to (of ``empathy`` a story); None where nothing is named
    rater_id: str | None = None  # who gave it; None where nobody is named
    confidence: float | None = None  # of the rater, 0 to 1; None where the table has none

    @property
    def key(self) -> tuple[object, ...]:
        """The values of :data:`LABEL_KEY`; no two labels of a study have the same."""
        key: tuple[object, ...] = attrgetter(*LABEL_KEY)(self)
        return key


LABEL_KEY = ("session_id", "scheme", "target", "rater_id", "start_s", "end_s", "track", "person_id")


def did_you_mean(name: str, names: tuple[str, ...] | set[str]) -> str:
    """A question with the one of these names that is nearly the same; empty where none is."""
    close = difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.75)
    same = [other for other in sorted(names) if _without_zeros(other) == _without_zeros(name)]
    match = (same or close)[:1]
    return f": is {match[0]!r} meant?" if match else ""


def _without_zeros(name: str) -> str:
    """The name in small letters, its numbers without zeros before them: a spreadsheet makes 001 the number 1."""
    return re.sub(r"(?<!\d)0+(?=\d)", "", folded(name))


def listed(names: Sequence[str], most: int = 5, separator: str = ", ") -> str:
    """The first names, the others counted."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more
