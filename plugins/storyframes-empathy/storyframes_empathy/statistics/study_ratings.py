"""The ratings of a study's own labels: what is one unit, and which labels have nobody to be compared with.

A unit is one session, track, person and target, and one part of the recording (the same beginning and end), or the
session as a whole. Parts that overlap without being the same are no unit: which of them mean the same would be a guess,
so they are counted and left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from storyframes_empathy.statistics.agreement import Agreement, agreement
from storyframes_empathy.statistics.choices import Categories
from storyframes_empathy.statistics.ratings import Level, Ratings
from tasks.inspect import counted
from tasks.study import Label, Scheme, SchemeType, Study

_WITH_UNITS = (SchemeType.NOMINAL, SchemeType.ORDINAL, SchemeType.INTERVAL)

_Thing = tuple[str, str | None, str | None, str | None]  # session, track, person, target
_Span = tuple[float | None, float | None]


@dataclass(frozen=True)
class LeftOut:
    """Labels of a scheme that are compared with none.

    Attributes:
        overlapping: their part overlaps one that another rater labelled, and is not the same.
        alone: nobody else labelled the same.
        nameless: nobody says whose they are.
    """

    overlapping: int = 0
    alone: int = 0
    nameless: int = 0


@dataclass(frozen=True)
class SchemeAgreement:
    """How far the raters of one scheme agree.

    Attributes:
        agreement: None where no two raters labelled the same unit.
        left_out: labels that are compared with none.
        private: the scheme's values are nobody else's business.
    """

    agreement: Agreement | None
    left_out: LeftOut
    private: bool


def study_agreement(
    study: Study, raters: Sequence[str] = (), categories: Categories | None = None, threshold: float = 2.5
) -> dict[str, SchemeAgreement]:
    """How far raters agree, for each nominal, ordinal and interval scheme that has labels.

    Args:
        study: a valid study.
        raters: those that are meant; empty: all.
        categories: what kappa makes of numbers; None: the floor of ordinal ones, no kappa of intervals.
        threshold: of ``Categories.ABOVE``.
    """
    by_scheme: dict[str, list[Label]] = defaultdict(list)
    for label in study.labels:
        if not raters or label.rater_id in raters:
            by_scheme[label.scheme].append(label)
    found = {}
    for name, labels in sorted(by_scheme.items()):
        scheme = study.schemes[name]
        if scheme.type not in _WITH_UNITS:
            continue
        ratings, left_out = ratings_of(scheme, labels)
        is_interval = scheme.type is SchemeType.INTERVAL
        chosen = categories or (Categories.NONE if is_interval else Categories.FLOOR)
        compared = agreement(ratings, chosen, threshold) if ratings else None
        found[name] = SchemeAgreement(compared, left_out, scheme.private)
    return found


def ratings_of(scheme: Scheme, labels: Iterable[Label]) -> tuple[Ratings | None, LeftOut]:
    """A scheme's labels as ratings of units; None where no unit has two raters."""
    units: dict[_Thing, dict[_Span, dict[str, Label]]] = defaultdict(lambda: defaultdict(dict))
    nameless = 0
    for label in labels:
        if label.rater_id is None:
            nameless += 1
        else:
            thing = (label.session_id, label.track, label.person_id, label.target)
            units[thing][label.start_s, label.end_s][label.rater_id] = label
    compared = [by_rater for spans in units.values() for by_rater in spans.values() if len(by_rater) > 1]
    overlapping = sum(map(_overlapping, units.values()))
    alone = sum(len(by_rater) == 1 for spans in units.values() for by_rater in spans.values()) - overlapping
    left_out = LeftOut(overlapping, alone, nameless)
    if not compared:
        return None, left_out
    raters = tuple(sorted({rater for by_rater in compared for rater in by_rater}))
    numbers = _as_numbers(scheme, (label for by_rater in compared for label in by_rater.values()))
    values = np.full((len(compared), len(raters)), np.nan)
    for place, by_rater in enumerate(compared):
        for rater, label in by_rater.items():
            values[place, raters.index(rater)] = numbers[label.value]
    return Ratings(raters, values, _level(scheme)), left_out


def rated_together(index: pd.DataFrame, column: str) -> Iterator[str]:
    """A sentence on how many raters a label of a clip index is the mean of, and how far they agree.

    Nothing where the column is of one rater, of a curve, or of an index that an older storyframes wrote.
    """
    by_session = index.attrs.get("ratings", {})
    units = [unit for session in index["session_id"].unique() for unit in by_session.get(session, {}).get(column, ())]
    if not units:
        return
    values = np.array(units, np.float64)
    counts = np.isfinite(values).sum(axis=1)
    fewest, most = int(counts.min()), int(counts.max())
    are_steps = isinstance(index[column].dtype, pd.CategoricalDtype)
    what = "the name that most give" if are_steps else "the mean"
    said = f"{column} is {what} of {counted(most, 'rater') if fewest == most else f'{fewest} to {most} raters'}"
    if most < 2:
        yield f"{said}: no two of {values.shape[1]} labelled the same, so nobody knows how far they agree"
        return
    kind = index.attrs["schemes"][column]
    raters = tuple(map(str, range(values.shape[1])))
    compared = agreement(Ratings(raters, values, Level.STEPS if are_steps else Level.NUMBERS), Categories.NONE)
    alpha = compared.alpha[kind]
    measured = "not defined" if alpha is None else f"{alpha:.3f}"
    icc = f", {compared.icc}" if kind == SchemeType.INTERVAL and compared.icc else ""
    yield (
        f"{said}; over {counted(compared.units_compared, 'unit')} that two or more rated, Krippendorff's alpha "
        f"({kind}) is {measured}{icc}"
    )


def _overlapping(spans: dict[_Span, dict[str, Label]]) -> int:
    """How many parts that one rater alone labelled have time in common with a part of another rater."""
    parts = [
        (start, end, rater, len(by_rater) == 1)
        for (start, end), by_rater in spans.items()
        for rater in by_rater
        if start is not None and end is not None
    ]
    if not parts:
        return 0
    starts, ends = np.array([part[:2] for part in parts]).T
    raters = np.array([rater for *_, rater, _ in parts])
    return sum(
        bool(np.any((starts < end) & (start < ends) & (raters != rater)))
        for start, end, rater, is_single in parts
        if is_single
    )


def _level(scheme: Scheme) -> Level:
    if scheme.is_numeric:
        return Level.NUMBERS
    return Level.STEPS if scheme.type is SchemeType.ORDINAL else Level.NAMES


def _as_numbers(scheme: Scheme, labels: Iterable[Label]) -> dict[float | str, float]:
    values = {label.value for label in labels}
    if scheme.is_numeric:
        return {value: float(value) for value in values}
    return {value: float(place) for place, value in enumerate(scheme.labels or sorted(map(str, values)))}
