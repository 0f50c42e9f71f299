"""How labels meet clips: the sections ``[labels.<scheme>]`` of a configuration, and what may be said in them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from storyframes.clips.clip_index import COLUMNS, weight_column
from storyframes.label_curves import MOST_CHARACTERS, Between, CurveRule
from storyframes.spec import column_of, of_scheme
from tasks.clip_index.tracks import coverage_columns
from tasks.study.labels import EMPATHY, Label, Scheme, SchemeType, did_you_mean
from tasks.study.load import Study
from tasks.study.rows import Curve

MEAN, ALL = "mean", "all"
_INDEXED = (SchemeType.NOMINAL, SchemeType.ORDINAL, SchemeType.INTERVAL)


class Within(StrEnum):
    """Which value a window has of the labelled parts that it touches."""

    MAJORITY = "majority"  # the value of more than half of the window's time; none where no value has that
    MEAN = "mean"  # the mean, by how long each value holds in the window
    OVERLAP = "overlap"  # the value with the most of the window's time; of equals the one that begins first in it
    LAST = "last"  # the value of the part that began last


@dataclass(frozen=True)
class LabelRule:
    """How the labels of one scheme meet clips."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}  # pydantic reads the section into this class

    # how a window's value comes of labelled parts; None: the mean for intervals, else the majority
    within: Within | None = None
    # "mean" (of numbers and curves; of names the one that most raters give, none where two are as many), "all" (a
    # column, or a curve, for each rater), or one rater's id
    raters: str = MEAN
    person: str | None = None  # whose labels, a person_id or a role; needed where a session has those of several
    between: Between | None = None  # of a curve, what it has between its moments; None is the nearest of them
    # of a curve, the longest gap that this bridges (:class:`storyframes.label_curves.CurveRule`)
    longest_gap_s: float | None = None

    @property
    def curve(self) -> CurveRule:
        """What curves have between their moments."""
        return CurveRule(self.between or Between.NEAREST, self.longest_gap_s)

    def within_of(self, scheme: Scheme) -> Within:
        """How a window's value comes about."""
        return self.within or (Within.MEAN if scheme.type is SchemeType.INTERVAL else Within.MAJORITY)


def indexed_schemes(study: Study) -> dict[str, Scheme]:
    """The schemes of the table ``labels`` that are columns of the clip index; ``ratings`` are one already."""
    return {
        name: scheme
        for name, scheme in sorted(study.schemes.items())
        if scheme.type in _INDEXED and not scheme.private and not (study.ratings and name == EMPATHY.name)
    }


def labels_by_scheme(study: Study) -> dict[str, list[Label]]:
    """The labels of each scheme, in the study's order; an empty list for one that has none.

    For many schemes, call it once: a study may have a label for every second.
    """
    found: dict[str, list[Label]] = defaultdict(list)
    for label in study.labels:
        found[label.scheme].append(label)
    return found


def columns_of(labels: Iterable[Label], scheme: str, rule: LabelRule) -> dict[str, str | None]:
    """The columns of a scheme that has these labels, with the rater that each is of; None: of all raters there are."""
    if rule.raters == MEAN:
        return {scheme: None}
    if rule.raters != ALL:
        return {scheme: rule.raters}
    raters = sorted({label.rater_id for label in labels if label.rater_id})
    return {f"{scheme}_{rater}": rater for rater in raters} or {scheme: None}


def raters_in_names(study: Study, rules: Mapping[str, LabelRule]) -> dict[str, str]:
    """Of the columns of labels, and of the curves, that are of one rater and have the rater's id in their names: whose.

    The name of a curve is what follows the dot of its feature.
    """
    labels = labels_by_scheme(study)
    every = {name: rule for name, rule in rules.items() if rule.raters == ALL}
    indexed = indexed_schemes(study)
    found: dict[str, str] = {}
    for name, rule in every.items():
        if name in indexed:
            found |= {column: rater for column, rater in columns_of(labels[name], name, rule).items() if rater}
        elif name in study.schemes and not study.schemes[name].private:
            curves = curves_by_column(study, name, rule)
            found |= {column: of[0].rater_id for column, of in curves.items() if of[0].rater_id}
    return dict(sorted(found.items()))


def has_weights(labels: Iterable[Label]) -> bool:
    """Whether raters say of any label of a scheme how sure they are, so that its columns have weights beside them."""
    return any(label.confidence is not None for label in labels)


def curves_by_column(study: Study, scheme: str, rule: LabelRule) -> dict[str, list[Curve]]:
    """A scheme's curves by what they are called: of all raters together under its name, or each of them alone.

    As :func:`columns_of`; a curve without a rater has the scheme's name.
    """
    curves = [curve for curve in study.curves if curve.scheme == scheme]
    if rule.raters == MEAN:
        return {scheme: curves}
    if rule.raters != ALL:
        return {scheme: [curve for curve in curves if curve.rater_id == rule.raters]}
    found: dict[str, list[Curve]] = {}
    for curve in curves:
        found.setdefault(f"{scheme}_{curve.rater_id}" if curve.rater_id else scheme, []).append(curve)
    return found


def label_rule_faults(study: Study, rules: Mapping[str, LabelRule]) -> list[str]:
    """Everything for which labels cannot become columns of the clip index; each names the section or the scheme."""
    schemes, labels = indexed_schemes(study), labels_by_scheme(study)
    faults = [fault for name, rule in rules.items() for fault in _faults(study, labels[name], schemes, name, rule)]
    taken: dict[str, str] = {}
    for name in schemes:
        columns = list(columns_of(labels[name], name, rules.get(name, LabelRule())))
        for column in (*columns, *(weight_column(one) for one in columns if has_weights(labels[name]))):
            other = "a column of every clip index" if _is_taken(study, column) else taken.get(column)
            if other:
                faults.append(
                    f"the scheme {name!r} would be the column {column!r} of the clip index, which is {other}: give the "
                    "scheme another name in the tables 'schemes' and 'labels'"
                )
            taken[column] = f"that of the scheme {name!r}"
    return faults + list(_curve_faults(study, rules))


def _curve_faults(study: Study, rules: Mapping[str, LabelRule]) -> Iterator[str]:
    """Schemes whose curves cannot be features: their names are too long, or two are the same."""
    taken: dict[str, str] = {}
    for name in sorted({curve.scheme for curve in study.curves if not study.schemes[curve.scheme].private}):
        for column in curves_by_column(study, name, rules.get(name, LabelRule())):
            cure = "give the scheme another name in the tables 'schemes' and 'curves'"
            feature = of_scheme(column)
            if len(column) > MOST_CHARACTERS:
                yield (
                    f"the scheme {name!r} would be the feature {feature!r}, whose name has more than "
                    f"{MOST_CHARACTERS} characters behind the dot: {cure}"
                )
            elif other := taken.get(column_of(feature)):
                yield f"the scheme {name!r} would be the feature {feature!r}, and {other} would be called alike: {cure}"
            taken[column_of(feature)] = f"the scheme {name!r}"


def _is_taken(study: Study, column: str) -> bool:
    is_empathy = column == EMPATHY.name and not study.ratings
    of_tracks = column in coverage_columns(study)
    of_ratings = column == "reflected" and any(rating.reflected is not None for rating in study.ratings)
    return column.startswith("has_") or of_tracks or of_ratings or (column in COLUMNS and not is_empathy)


def _faults(
    study: Study, labels: Sequence[Label], schemes: Mapping[str, Scheme], name: str, rule: LabelRule
) -> Iterator[str]:
    section = f"[labels.{name}]"
    scheme = schemes.get(name)
    is_curve = name in study.schemes and study.schemes[name].type is SchemeType.CURVE
    for key in ("between", "longest_gap_s"):
        if getattr(rule, key) is not None and name in study.schemes and not is_curve:
            yield f"{section}: {key} is of curves, and this scheme is {study.schemes[name].type}: leave it out"
    if scheme is None:
        if name not in study.schemes:
            yield f"{section}: the study has no scheme {name!r}{did_you_mean(name, set(study.schemes))}"
        elif study.schemes[name].type is SchemeType.CURVE and not study.schemes[name].private:
            yield from _curve_rule_faults(study, name, rule)
        elif study.schemes[name].type not in _INDEXED:
            yield f"{section}: the scheme is {study.schemes[name].type}, so it is no column of the clip index"
        elif study.schemes[name].private:
            yield f"{section}: the scheme is private, so it is no column of the clip index"
        else:
            yield f"{section}: its values are those of the table 'ratings'"
        return
    if rule.within is Within.MEAN and not scheme.is_numeric:
        yield f'{section}: within = "mean" is for numbers, and the values are names: majority, overlap or last'
    raters = {label.rater_id for label in labels if label.rater_id}
    if rule.raters not in (MEAN, ALL, *raters):
        yield f"{section}: raters = {rule.raters!r}: {', '.join((MEAN, ALL, *sorted(raters)))}"
    without_rater = sum(not label.rater_id for label in labels) if raters else 0
    if rule.raters == ALL and without_rater:
        yield (
            f'{section}: raters = "all" would leave out the labels without a rater_id ({without_rater} of '
            "the table 'labels'): give them one"
        )
    persons = {person.person_id for person in study.persons} | {one.role for one in study.persons if one.role}
    if rule.person is not None and rule.person not in persons:
        yield f"{section}: person = {rule.person!r}: neither a person_id nor a role of the table 'persons'"


def _curve_rule_faults(study: Study, name: str, rule: LabelRule) -> Iterator[str]:
    section = f"[labels.{name}]"
    for key in ("within", "person"):
        if getattr(rule, key) is not None:
            yield f"{section}: {key} says how labels meet windows, and this scheme is a curve: leave it out"
    if rule.longest_gap_s is not None and not 0 < rule.longest_gap_s < math.inf:
        yield f"{section}: longest_gap_s = {rule.longest_gap_s:g}: more than 0 seconds"
    if rule.between in (Between.HOLD, Between.LINEAR) and rule.longest_gap_s is None:
        yield f'{section}: between = "{rule.between}" needs longest_gap_s, the longest gap in seconds that it bridges'
    raters = {curve.rater_id for curve in study.curves if curve.scheme == name and curve.rater_id}
    if rule.raters not in (MEAN, ALL, *raters):
        yield f"{section}: raters = {rule.raters!r}: {', '.join((MEAN, ALL, *sorted(raters)))}"
