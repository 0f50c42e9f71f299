"""Labels: what somebody, or something, said of a session, a part of it, or a person in it.

A scheme says which values there are. The tables ``ratings`` and ``stories`` are the short way to write labels of the
scheme ``empathy``; both ways end in the same objects.
"""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from enum import StrEnum

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


class SchemeType(StrEnum):
    """What can be done with a scheme's values."""

    NOMINAL = "nominal"  # names without an order
    ORDINAL = "ordinal"  # steps in an order, as numbers or as names
    INTERVAL = "interval"  # numbers whose differences mean something
    TEXT = "text"  # words
    CURVE = "curve"  # a number at every moment, in a file of its own


class RaterKind(StrEnum):
    """Who rates."""

    HUMAN = "human"
    MACHINE = "machine"
    SELF = "self"  # the person whom the label is about


@dataclass(frozen=True)
class Scheme:
    """One kind of label.

    Attributes:
        name: the scheme's.
        type: what its values are.
        minimum, maximum: of an ordinal or interval scheme or a curve; None where nothing is said.
        labels: the names there may be, of an ordinal one in their order; empty where values are numbers or any name.
        private: its values are nobody else's business: never in a log, a problem, or a page.
    """

    name: str
    type: SchemeType
    minimum: float | None = None
    maximum: float | None = None
    labels: tuple[str, ...] = ()
    private: bool = False

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers."""
        return self.type in (SchemeType.INTERVAL, SchemeType.CURVE) or (
            self.type is SchemeType.ORDINAL and not self.labels
        )

    def read(self, text: str) -> float | str:
        """The value that a cell holds.

        Raises:
            ValueError: it is none of this scheme; the message says what is, and never holds the text itself.
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
            raise ValueError(f"is not among the labels of the scheme {self.name!r} ({_some(self.labels)}){close}")
        return text

    def _range(self) -> str:
        match self.minimum, self.maximum:
            case None, None:
                return ""
            case _, None:
                return f" from {self.minimum:g}"
            case None, _:
                return f" up to {self.maximum:g}"
        return f" from {self.minimum:g} to {self.maximum:g}"


EMPATHY = Scheme("empathy", SchemeType.ORDINAL, 1.0, 5.0)


@dataclass(frozen=True)
class Label:
    """One value of one scheme.

    Attributes:
        session_id, scheme: of what, and which.
        value: a number where the scheme's values are numbers, else a text.
        start_s, end_s: the part that is meant, start_s <= t < end_s, or a moment where they are the same; None: the
            session as a whole. Seconds of the session, or, where ``track`` is given, of that track's own recording.
        track: the recording that was labelled; None where it was the session.
        person_id: of whom; None where nobody is named.
        target: what it refers to (of ``empathy`` a story); None where there is nothing.
        rater_id: who says so; None where nobody is named.
        confidence: how sure the rater is, 0 to 1; None where that is not said.
    """

    session_id: str
    scheme: str
    value: float | str
    start_s: float | None = None
    end_s: float | None = None
    track: str | None = None
    person_id: str | None = None
    target: str | None = None
    rater_id: str | None = None
    confidence: float | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What no two labels have in common."""
        return (
            self.session_id,
            self.scheme,
            self.target,
            self.rater_id,
            self.start_s,
            self.end_s,
            self.track,
            self.person_id,
        )


@dataclass(frozen=True)
class Curve:
    """A file with a scheme's value at many moments; ``tasks.study.curve_file`` reads it.

    Attributes:
        session_id, scheme: of what, and which.
        path: CSV or Parquet with time_s and value, in the study.
        rater_id: who drew it; None where nobody is named.
        track: its times are seconds of this track's own recording; None: of the session.
    """

    session_id: str
    scheme: str
    path: str
    rater_id: str | None = None
    track: str | None = None


@dataclass(frozen=True)
class Rater:
    """Who, or what, gives labels; ``kind`` is None where nothing is said of it."""

    rater_id: str
    kind: RaterKind | None = None


def did_you_mean(name: str, known: tuple[str, ...] | set[str]) -> str:
    """A question after the one of these names that is nearly the same; empty where none is."""
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    folded = [one for one in sorted(known) if one.casefold() == name.casefold()]
    found = (folded or close)[:1]
    return f": is {found[0]!r} meant?" if found else ""


def _some(labels: tuple[str, ...]) -> str:
    more = f" and {len(labels) - 8} more" if len(labels) > 8 else ""
    return ", ".join(labels[:8]) + more
