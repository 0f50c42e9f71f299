"""Labels as columns of the clip index: of every scheme one, a value for each window or none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from storyframes.clips.clip_index import COLUMNS, weight_column
from storyframes.times import ticks
from tasks.clip_index.label_rules import (
    LabelRule,
    Within,
    columns_of,
    has_weights,
    indexed_schemes,
    labels_by_scheme,
    raters_in_names,
)
from tasks.study.labels import EMPATHY, LABEL_KEY, Label, SchemeType, listed
from tasks.study.load import Study

_NOBODY = "nobody in particular"  # no person_id: it has spaces

Spans = np.ndarray
"""(labels, 2) int64: where each part begins and ends, in whole microseconds of the session; a moment has both the same.

The end is not in the part; a moment holds for the one microsecond that begins with it.
"""


def clip_targets(study: Study) -> pd.DataFrame:
    """The targets of the labels of each session: its rated stories, then everything else that its labels refer to.

    Columns session_id, story_id, position, empathy, target; missing where there is no such thing.
    """
    rated = study.frame("ratings")[["session_id", "story_id", "position", "empathy"]]
    rated = rated.assign(target=rated["story_id"])
    schemes = indexed_schemes(study)
    known = set(zip(rated["session_id"], rated["story_id"], strict=True))
    others = {
        (label.session_id, label.target) for label in study.labels if label.target and label.scheme in schemes
    } - known
    stories = {story.story_id for story in study.stories}
    rows = [(session, target if target in stories else None, None, None, target) for session, target in sorted(others)]
    more = pd.DataFrame(rows, columns=list(rated)).astype({"position": "Int8", "empathy": "Int8"})
    return (
        pd.concat([rated.astype({"position": "Int8", "empathy": "Int8"}), more], ignore_index=True) if rows else rated
    )


def with_reflected(windows: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The windows with a column ``reflected``, where a rating says it: whether the session reflected on the story.

    A boolean, missing where the rating does not say, or there is none.
    """
    said = {(rating.session_id, rating.story_id): rating.reflected for rating in study.ratings}
    if not any(each is not None for each in said.values()):
        return windows
    rated = zip(windows["session_id"], windows["target"], strict=True)
    return windows.assign(reflected=pd.array([said.get(each) for each in rated], dtype="boolean"))


def sessions_of_several_persons(study: Study, rules: Mapping[str, LabelRule]) -> dict[str, str]:
    """By session, why its labels are ambiguous: they are of several persons, and nothing says which person is meant.

    A label without a person, beside one with a person, may be of any of them.
    """
    roles, schemes = _roles(study), indexed_schemes(study)
    persons: dict[tuple[str, str], set[str]] = defaultdict(set)
    for label in study.labels:
        if label.scheme in schemes and _is_meant(label, rules.get(label.scheme, LabelRule()), roles):
            persons[label.session_id, label.scheme].add(label.person_id or _NOBODY)
    found = {}
    for (session, scheme), who in sorted(persons.items(), reverse=True):
        if len(who) > 1:
            shown = ", ".join(sorted(who, key=lambda one: (one == _NOBODY, one)))
            role = rules.get(scheme, LabelRule()).person
            found[session] = (
                f"labels of the scheme {scheme} are of {shown}: say whose are meant, "
                f'[labels.{scheme}] person = "…" (a person_id or a role)'
                if role is None
                else f"labels of the scheme {scheme} are of {shown}, who all have the role {role!r} that "
                f"[labels.{scheme}] person names: say whose are meant by a person_id"
            )
    return found


def labels_of_others(study: Study, rules: Mapping[str, LabelRule]) -> Iterator[str]:
    """Sessions that have labels of a scheme, and none of the person who is meant."""
    roles, schemes, by_scheme = _roles(study), indexed_schemes(study), labels_by_scheme(study)
    for name, rule in rules.items():
        if rule.person is None or name not in schemes:
            continue
        labels = by_scheme[name]
        meant = {label.session_id for label in labels if _is_meant(label, rule, roles)}
        if others := list(dict.fromkeys(label.session_id for label in labels if label.session_id not in meant)):
            yield (
                f"no label of the scheme {name} in {listed(others)} is of the person {rule.person!r} that "
                f"[labels.{name}] names: their windows have no value"
            )


def _roles(study: Study) -> dict[tuple[str, str | None], str | None]:
    return {(person.session_id, person.person_id): person.role for person in study.persons}


def _is_meant(label: Label, rule: LabelRule, roles: Mapping[tuple[str, str | None], str | None]) -> bool:
    return rule.person is None or rule.person in (label.person_id, roles.get((label.session_id, label.person_id)))


def add_labels(index: pd.DataFrame, study: Study, rules: Mapping[str, LabelRule]) -> pd.DataFrame:
    """The index with the columns of every scheme; ``attrs`` has their types, ``schemes``, and limits, ``ranges``.

    Where columns or curves have a rater's id in their names, ``attrs["raters"]`` says whose, so that no release gives
    it away unasked. Of columns that several raters make together, ``attrs["ratings"]`` has what each of them said.
    Numbers are float32 with NaN for none, names are categories in the scheme's order. A scheme with confidences has the
    weights of its values as well: ``<column>_weight``, float32, 0 where there is no value.

    Args:
        index: windows, with session_id, target, start_s and stop_s.
        rules: by scheme; a scheme without a rule has the defaults.
    """
    index = index.copy(deep=False)
    types = {EMPATHY.name: str(SchemeType.ORDINAL)} if study.ratings else {}
    ranges: dict[str, list[float]] = {}
    ratings: dict[str, dict[str, list[list[float | None]]]] = defaultdict(dict)
    roles, by_scheme = _roles(study), labels_by_scheme(study)
    groups = index.groupby(["session_id", "target"], dropna=False, sort=False).indices
    windows = _Windows(groups, ticks(index["start_s"]), ticks(index["stop_s"]))
    for name, scheme in indexed_schemes(study).items():
        rule = rules.get(name, LabelRule())
        is_numeric, within = scheme.is_numeric, rule.within_of(scheme)
        labels = [label for label in by_scheme[name] if _is_meant(label, rule, roles)]
        weighted = has_weights(by_scheme[name])
        names = scheme.labels or tuple(sorted({str(label.value) for label in labels}))
        codes = {name: place for place, name in enumerate(names)}
        for column, rater in columns_of(by_scheme[name], name, rule).items():
            mine = [label for label in labels if rater is None or label.rater_id == rater]
            coded = _Labels.of(mine, study, codes, is_numeric=is_numeric)
            values, weights = _column(windows, coded, within)
            for session_id, units in coded.by_unit().items():
                ratings[session_id][column] = units
            types[column] = str(scheme.type)
            if scheme.minimum is not None and scheme.maximum is not None and scheme.minimum < scheme.maximum:
                ranges[column] = [scheme.minimum, scheme.maximum]
            if is_numeric:
                index[column] = values.astype(np.float32)
            else:
                places = np.where(np.isnan(values), -1, values).astype(int)
                ordered = scheme.type is SchemeType.ORDINAL
                index[column] = pd.Categorical.from_codes(places, list(names), ordered=ordered)
            if weighted:
                index[weight_column(column)] = np.where(np.isnan(values), 0.0, weights).astype(np.float32)
    index.attrs["schemes"] = types
    if ranges:
        index.attrs["ranges"] = ranges
    if ratings:
        index.attrs["ratings"] = dict(ratings)
    if raters := raters_in_names(study, rules):
        index.attrs["raters"] = raters
    return index


@dataclass(frozen=True)
class _Windows:
    """The windows that labels meet."""

    groups: Mapping[tuple[str, object], np.ndarray]  # by session and target, their rows
    # start, stop: (windows,) ticks
    start: np.ndarray
    stop: np.ndarray


@dataclass(frozen=True)
class _Labels:
    """Labels of one scheme, as arrays in their order."""

    labels: Sequence[Label]
    values: np.ndarray  # numbers, or the places of names
    confidence: np.ndarray  # 1 where the rater gave none
    spans: Spans  # endless where a label is of the whole session
    is_numeric: bool

    @classmethod
    def of(cls, labels: Sequence[Label], study: Study, codes: Mapping[str, int], *, is_numeric: bool) -> Self:
        """Those of these labels; ``codes`` are the places of names."""
        numbers = [float(label.value) if is_numeric else codes[str(label.value)] for label in labels]
        confidence = [1.0 if label.confidence is None else label.confidence for label in labels]
        spans = ticks(_spans(labels, study))
        return cls(labels, np.array(numbers, float), np.array(confidence, float), spans, is_numeric)

    def by_unit(self) -> dict[str, list[list[float | None]]]:
        """By session a row for each unit (the same part, track, person and target) with the value of each rater.

        None where a rater gave none. Empty where fewer than two raters have an id.
        """
        raters = sorted({label.rater_id for label in self.labels if label.rater_id})
        units: dict[tuple[object, ...], list[float | None]] = {}
        for label, value in zip(self.labels, self.values.tolist(), strict=True):
            if label.rater_id and len(raters) > 1:
                key = tuple(part for name, part in zip(LABEL_KEY, label.key, strict=True) if name != "rater_id")
                units.setdefault(key, [None] * len(raters))[raters.index(label.rater_id)] = value
        by_session: dict[str, list[list[float | None]]] = defaultdict(list)
        for key, values in units.items():
            by_session[str(key[0])].append(values)
        return by_session


def _spans(labels: Sequence[Label], study: Study) -> np.ndarray:
    """(labels, 2) the part that each label is of, in seconds of the session."""
    spans = np.full((len(labels), 2), (-np.inf, np.inf))
    of_tracks: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, label in enumerate(labels):
        if label.start_s is not None and label.end_s is not None:
            spans[number] = label.start_s, label.end_s
            if label.track is not None:
                of_tracks[label.session_id, label.track].append(number)
    for (session_id, track), numbers in of_tracks.items():
        spans[numbers] = study.clock(session_id, track).to_session(spans[numbers])
    return spans


def _column(windows: _Windows, labels: _Labels, within: Within) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the value of each window, a number or the place of a name, and its weight; NaN where nothing labels it."""
    by_target: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for number, label in enumerate(labels.labels):
        by_target[label.session_id, label.target].append(number)
    column, weights = np.full(len(windows.start), np.nan), np.full(len(windows.start), np.nan)
    for (session, about), rows in windows.groups.items():
        target = about if isinstance(about, str) else None
        by_rater: dict[str | None, list[int]] = defaultdict(list)
        for number in by_target.get((session, target)) or by_target.get((session, None), []):
            by_rater[labels.labels[number].rater_id].append(number)
        start, stop = windows.start[rows], windows.stop[rows]
        each = [_of_rater(labels, numbers, start, stop, within) for numbers in by_rater.values()]
        if each:
            said, sure = (np.array(some) for some in zip(*each, strict=True))
            column[rows], weights[rows] = _of_raters(said, sure, is_numeric=labels.is_numeric)
    return column, weights


def _of_rater(
    labels: _Labels, numbers: Sequence[int], start: np.ndarray, stop: np.ndarray, within: Within
) -> tuple[np.ndarray, np.ndarray]:
    """What one rater says of each window, of its part of the session, else of the session as a whole; and how sure.

    Args:
        numbers: which of the labels are the rater's.
        start, stop: (windows,) ticks.
    """
    result, weights = np.full(len(start), np.nan), np.full(len(start), np.nan)
    parts = [number for number in numbers if labels.labels[number].start_s is not None]
    for some in (parts, [number for number in numbers if labels.labels[number].start_s is None]):
        if some:
            order = np.array(some)[np.lexsort((labels.spans[some, 1], labels.spans[some, 0]))]
            labelled = labels.values[order], labels.spans[order], start, stop, within
            said = meet(*labelled)
            if (labels.confidence[order] != 1).any():
                sure = confidence_of(said, labels.confidence[order], *labelled)
            else:
                sure = np.where(np.isnan(said), np.nan, 1.0)
            weights = np.where(np.isnan(result), sure, weights)
            result = np.where(np.isnan(result), said, result)
    return result, weights


def meet(values: np.ndarray, spans: Spans, start: np.ndarray, stop: np.ndarray, within: Within) -> np.ndarray:
    """(windows,) the value that one rater's labels give each window, NaN where no part touches it.

    Time that several parts give the same value counts once. Of values that hold equally long a window has the one that
    begins first in it; of those that it begins with, the one that began first.

    Args:
        values: (labels,) in the order in which their parts begin, and of those that begin together, end.
        spans: (labels, 2) their parts.
        start, stop: (windows,) int64 microseconds; the latter is not in the window.
    """
    if within is Within.LAST:
        touches = _held(spans, start, stop) > 0
        return np.where(touches.any(axis=1), values[_latest(touches)], np.nan)
    values, spans = _without_overlaps(values, spans)
    held = _held(spans, start, stop)
    if within is Within.MEAN:
        with np.errstate(invalid="ignore"):
            return (held @ values) / held.sum(axis=1)
    distinct, of_part = np.unique(values, return_inverse=True)
    time = (held @ (of_part[:, None] == np.arange(len(distinct))))[:, of_part]
    best = np.where(held > 0, time, 0).argmax(axis=1)  # the first part of those whose value holds longest
    longest = time[np.arange(len(start)), best]
    too_little = longest * 2 <= stop - start if within is Within.MAJORITY else longest == 0
    return np.where(too_little, np.nan, values[best])


def confidence_of(
    said: np.ndarray,
    confidence: np.ndarray,
    values: np.ndarray,
    spans: Spans,
    start: np.ndarray,
    stop: np.ndarray,
    within: Within,
) -> np.ndarray:
    """(windows,) the mean confidence, by time in the window, of the parts that a window's value comes from; else NaN.

    Args:
        said: (windows,) the value of each window, as :func:`meet` gives it.
        confidence: (labels,) in the order of ``values``.
        values, spans, start, stop, within: as :func:`meet` has them.
    """
    held = _held(spans, start, stop)
    if within is Within.LAST:
        return np.where(np.isnan(said), np.nan, confidence[_latest(held > 0)])
    if within is not Within.MEAN:
        held = held * (values == said[:, None])
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(said), np.nan, (held @ confidence) / held.sum(axis=1))


def _held(spans: Spans, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """(windows, labels) for how many microseconds of a window each part holds: float64, in which products are fast."""
    first, end = spans[:, 0], np.maximum(spans[:, 1], spans[:, 0] + 1)
    held = np.minimum(end, stop[:, None]) - np.maximum(first, start[:, None])
    return np.maximum(held, 0).astype(np.float64)


def _without_overlaps(values: np.ndarray, spans: Spans) -> tuple[np.ndarray, Spans]:
    """The parts with those of one value joined where they touch, in the order in which they begin."""
    newest: dict[float, int] = {}
    joined: list[tuple[float, int, int]] = []
    for value, (first, end) in zip(values.tolist(), spans.tolist(), strict=True):
        end = max(end, first + 1)
        place = newest.get(value)
        if place is not None and first <= joined[place][2]:
            joined[place] = value, joined[place][1], max(joined[place][2], end)
        else:
            newest[value] = len(joined)
            joined.append((value, first, end))
    return np.array([value for value, _, _ in joined]), np.array([part for _, *part in joined], np.int64)


def _latest(touches: np.ndarray) -> np.ndarray:
    """(windows,) the part that began last of those that touch each."""
    return touches.shape[1] - 1 - np.argmax(touches[:, ::-1], axis=1)


def _of_raters(values: np.ndarray, weights: np.ndarray, *, is_numeric: bool) -> tuple[np.ndarray, np.ndarray]:
    """(raters, windows) to (windows,): the mean, or the name that most give, NaN where two are as many.

    The weights are the mean of those raters' whose values these are.
    """
    if len(values) == 1:
        return values[0], weights[0]
    some = ~np.isnan(values)
    if is_numeric:
        return _mean(values, some), _mean(weights, some)
    names = np.unique(values[some])
    votes = (values[:, :, None] == names).sum(axis=0) if len(names) else np.zeros((values.shape[1], 1), int)
    most = votes.max(axis=1)
    is_clear = (most > 0) & ((votes == most[:, None]).sum(axis=1) == 1)
    said = np.where(is_clear, names[votes.argmax(axis=1)] if len(names) else np.nan, np.nan)
    return said, _mean(weights, values == said)


def _mean(values: np.ndarray, some: np.ndarray) -> np.ndarray:
    """(raters, windows) to (windows,): the mean of some of them; NaN of none."""
    with np.errstate(invalid="ignore"):
        return np.where(some, values, 0).sum(axis=0) / some.sum(axis=0)


def is_labelled(index: pd.DataFrame) -> pd.Series:
    """Which clips have a rating, or a value of any scheme."""
    more = [column for column in index.attrs["schemes"] if column in index and column not in COLUMNS]
    return index[[EMPATHY.name, *more]].notna().any(axis=1)
