"""Facts about labels, from the study's tables and from the clip index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from tasks.inspect import counted
from tasks.study import Scheme, SchemeType, Study

NO_LABEL = "no label"
_NAMED = 6  # values in a cell
_COUNTED = 20  # an ordinal column with more values (means over raters) is drawn as an interval column


@dataclass(frozen=True)
class SchemeFacts:
    """One scheme of the study's tables."""

    name: str
    type: str
    labels: int  # their number; of a scheme of curves, the number of files
    sessions: int  # the number of sessions with a label
    raters: int  # the number of people or machines who rated; 0 where the study names nobody
    is_numeric: bool = False
    private: bool = False  # its values are shown nowhere
    # how often each value was given, in the scheme's order; empty for numbers without steps, and where private
    counts: Mapping[str, int] = field(default_factory=dict)
    values: tuple[float, ...] = ()  # of an interval scheme


@dataclass(frozen=True)
class LabelColumn:
    """One column of labels of the clip index."""

    name: str
    type: str
    # labelled, unlabelled: clips with a value, and without
    labelled: int
    unlabelled: int
    # index the values in order (last :data:`NO_LABEL`, if any), columns the splits; None where numbers have no steps
    counts: pd.DataFrame | None = None
    made_of: str = ""  # of how many raters a value is made; empty where one rater or nobody is named
    # by split, the numbers; empty where there are counts
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


def scheme_facts(study: Study) -> tuple[SchemeFacts, ...]:
    """Every scheme that the study's tables declare or use."""
    return tuple(_scheme(study, scheme) for _, scheme in sorted(study.schemes.items()))


def _scheme(study: Study, scheme: Scheme) -> SchemeFacts:
    labels = [(label.session_id, label.rater_id) for label in study.labels if label.scheme == scheme.name]
    labels += [(curve.session_id, curve.rater_id) for curve in study.curves if curve.scheme == scheme.name]
    values = [] if scheme.private else [label.value for label in study.labels if label.scheme == scheme.name]
    counts: Mapping[str, int] = {}
    if scheme.type in (SchemeType.NOMINAL, SchemeType.ORDINAL):
        counts = _in_order(Counter(value_text(value) for value in values), scheme)
    return SchemeFacts(
        name=scheme.name,
        type=str(scheme.type),
        labels=len(labels),
        sessions=len({session for session, _ in labels}),
        raters=len({rater for _, rater in labels} - {None}),
        is_numeric=scheme.is_numeric,
        private=scheme.private,
        counts=counts,
        values=tuple(float(value) for value in values) if scheme.type is SchemeType.INTERVAL else (),
    )


def _in_order(counts: Counter[str], scheme: Scheme) -> dict[str, int]:
    """Every value that was given and every step of the scheme: a step that nobody gave is information too."""
    if scheme.labels or not scheme.is_numeric:
        names = list(scheme.labels) or sorted(counts)
    else:
        numbers = {float(text) for text in counts}
        steps = _steps(scheme) if all(number.is_integer() for number in numbers) else []
        names = [value_text(number) for number in sorted({*numbers, *steps})]
    return {name: counts[name] for name in names} if counts else {}


def _steps(scheme: Scheme) -> list[float]:
    if scheme.minimum is None or scheme.maximum is None or scheme.maximum - scheme.minimum > _COUNTED:
        return []
    first, last = int(scheme.minimum), int(scheme.maximum)
    return [float(step) for step in range(first, last + 1)] if first == scheme.minimum else []


def label_columns(clips: pd.DataFrame | None) -> tuple[LabelColumn, ...]:
    """The columns of labels of a clip index, which its ``attrs["schemes"]`` names; none without an index."""
    if clips is None or clips.empty:
        return ()
    columns = [_column(clips, name, kind) for name, kind in clips.attrs.get("schemes", {}).items() if name in clips]
    return tuple(replace(column, made_of=_made_of(clips, column.name)) for column in columns)


def _made_of(clips: pd.DataFrame, column: str) -> str:
    by_session = clips.attrs.get("ratings", {}).values()
    counts = [sum(value is not None for value in unit) for units in by_session for unit in units.get(column, ())]
    if not counts:
        return ""
    fewest, most = min(counts), max(counts)
    raters = counted(most, "rater") if fewest == most else f"{fewest} to {most} raters"
    is_mean = pd.api.types.is_numeric_dtype(clips[column].dtype)
    return f"{'the mean' if is_mean else 'the name that most give'} of {raters}"


def _column(clips: pd.DataFrame, name: str, kind: str) -> LabelColumn:
    values, has_value = clips[name], clips[name].notna()
    labelled = int(has_value.sum())
    unlabelled = len(clips) - labelled
    numeric = pd.api.types.is_numeric_dtype(values.dtype)
    if kind == SchemeType.INTERVAL or (numeric and values.nunique() > _COUNTED):
        groups = values[has_value].groupby(clips["split"][has_value])
        by_split = {str(split): tuple(numbers.astype(float)) for split, numbers in groups}
        return LabelColumn(name, kind, labelled, unlabelled, values=by_split)
    texts = values.map(value_text, na_action="ignore").astype(object).where(has_value, NO_LABEL)
    counts = pd.crosstab(texts, clips["split"])
    rows = [value_text(value) for value in _distinct(values)] + ([NO_LABEL] if unlabelled else [])
    return LabelColumn(name, kind, labelled, unlabelled, counts.reindex(list(dict.fromkeys(rows)), fill_value=0))


def _distinct(values: pd.Series) -> Iterator[object]:
    if isinstance(values.dtype, pd.CategoricalDtype):
        yield from values.cat.categories
    else:
        yield from sorted(values.dropna().unique())


def value_text(value: object) -> str:
    """A value as text: ``3``, ``3.5``, ``low``."""
    return value if isinstance(value, str) else f"{value:.4g}"


@dataclass(frozen=True)
class SessionRatings:
    """What each rater said of a session: a row for each scheme, track, person and target."""

    raters: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]  # scheme, what it is about, a cell for each rater


def session_ratings(study: Study, session_id: str, *, with_text: bool) -> SessionRatings:
    """The labels of a session, of the whole and of its parts, those of private schemes left out; empty without any.

    Args:
        with_text: whether labels that are texts may be on the page; else they are counted.
    """
    raters: dict[str, None] = {}
    cells: dict[tuple[str, str], dict[str, list[float | str]]] = {}
    for label in study.labels:
        if label.session_id == session_id and not study.schemes[label.scheme].private:
            rater = label.rater_id or "nobody named"
            raters.setdefault(rater)
            about = ", ".join(filter(None, (label.target, label.person_id, label.track)))
            cells.setdefault((label.scheme, about), {}).setdefault(rater, []).append(label.value)
    names = tuple(sorted(raters))
    rows = [
        (*key, *(_in_short(study.schemes[key[0]], by_rater.get(rater, []), with_text) for rater in names))
        for key, by_rater in sorted(cells.items())
    ]
    return SessionRatings(names, tuple(rows))


def _in_short(scheme: Scheme, values: Sequence[float | str], with_text: bool) -> str:
    """The only value; of several numbers the mean, of names how often each was given."""
    if scheme.type is SchemeType.TEXT and not with_text:
        return counted(len(values), "text") if values else ""
    if len(values) < 2:
        return "".join(map(value_text, values))
    if scheme.is_numeric:
        return f"{value_text(sum(map(float, values)) / len(values))} (mean of {len(values)})"
    most = Counter(map(value_text, values)).most_common(_NAMED)
    return ", ".join(f"{name}: {count}" for name, count in most) + ", …" * (len(set(values)) > _NAMED)
