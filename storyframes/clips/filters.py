"""Which clips of the index a training job reads: filters as text, and clips that lack an input.

A filter's text is parsed as Python, but none of it is run: what a filter may contain (columns, values, comparisons,
``in``, ``and``, ``or``, ``not``, arithmetic) is translated into a pyarrow expression; anything else is an error.
"""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from storyframes.clips.inputs import MASK, ClipInput, has_frame_rows
from storyframes.clips.named_inputs import RATING, STORY_FEATURE, needed_features
from storyframes.features import CLOCK
from storyframes.spec import MAIN, Axis, column_of, is_label_curve
from storyframes.store.feature_store import FeatureStore

_PLACE = "\0place"  # no filter can name this column


def filter_clips(index: pd.DataFrame, where: str | pc.Expression | None) -> pd.DataFrame:
    """The clips for which ``where`` is true; a comparison with a missing value and its negation are both not true.

    Args:
        where: an expression over its columns: as text, see :func:`parse_filter`, or pyarrow's. None takes all clips.

    Raises:
        ValueError: the expression is not one over the clip index, or leaves no clip.
    """
    if where is None:
        clips = index
    else:
        try:
            expression = parse_filter(where, index.columns) if isinstance(where, str) else where
            clips = index.iloc[_rows(index, expression)]
        except (pa.ArrowException, SyntaxError, TypeError, ValueError, OverflowError) as error:
            columns = ", ".join(index.columns)
            raise ValueError(f"where={where!r} cannot be applied ({error}); the clip index has {columns}") from None
    if len(index) == 0:
        raise ValueError("the clip index has no clips: 'storyframes index STUDY STORE' says why, and what would help")
    if len(clips) == 0:
        raise ValueError(f"no clip is left: none of the {len(index)} in the clip index has {where!r}")
    return clips.reset_index(drop=True)


def _rows(index: pd.DataFrame, expression: pc.Expression) -> np.ndarray:
    """The places of the rows for which the expression is true. Categories are compared by their names."""
    table = pa.Table.from_pandas(index, preserve_index=False)
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(place, field.name, table.column(place).cast(field.type.value_type))
    table = table.append_column(_PLACE, pa.array(np.arange(len(index))))
    return table.filter(expression).column(_PLACE).to_numpy()


def complete_clips(
    clips: pd.DataFrame, store: FeatureStore, inputs: Iterable[ClipInput], *, drop_missing: bool
) -> pd.DataFrame:
    """The clips that have all inputs, except those whose lack is masked.

    Raises:
        ValueError: a clip lacks an input and ``drop_missing`` is not set, or all clips lack one.
    """
    for requested in inputs:
        if requested.missing == MASK:
            continue
        lacking = lacking_clips(clips, store, requested)
        if lacking.any() and not drop_missing:
            raise ValueError(_complaint(clips[lacking], len(clips), requested, store))
        if lacking.all():
            raise ValueError(f"no clip is left: none of the {len(clips)} clips has the input {requested.field!r}")
        clips = clips[~lacking]
    return clips.reset_index(drop=True)


def lacking_clips(clips: pd.DataFrame, store: FeatureStore, requested: ClipInput) -> pd.Series:
    """Which clips lack the input.

    Raises:
        ValueError: no session has it.
    """
    needs = needed_features(requested, store)
    if requested.feature == "story":
        return ~clips["story_id"].isin(store.story_ids(STORY_FEATURE))
    if requested.feature == "label":
        return clips[RATING].isna() if requested.columns is None else pd.Series(False, index=clips.index)
    sessions = clips["session_id"].unique()
    complete = [session for session in sessions if all(store.has(session, feature) for feature in needs)]
    if requested.axis is Axis.FRAME and complete:
        with_rows = _with_frame_rows(complete, store, needs[0], requested)
        if with_rows or _with_frame_rows(store.sessions, store, needs[0], requested):  # else no session has any
            complete = with_rows
    lacking = ~clips["session_id"].isin(complete)
    return (
        lacking | clips["audio_start"].isna() if requested.feature == "audio" and requested.track == MAIN else lacking
    )


def _with_frame_rows(sessions: Iterable[str], store: FeatureStore, feature: str, requested: ClipInput) -> list[str]:
    """Those of the sessions whose feature has rows for frames, or for the points of the input's rate."""
    specs = store.specs([session for session in sessions if store.has(session, feature)], feature)
    return [session for session, spec in specs.items() if has_frame_rows(spec, requested.rate)]


def _complaint(lacking: pd.DataFrame, count: int, requested: ClipInput, store: FeatureStore) -> str:
    stories = lacking["story_id"].dropna().unique() if requested.feature == "story" else []
    names = stories if len(stories) else lacking["session_id"].unique()
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    needs = needed_features(requested, store)
    columns = [column_of(feature) for feature in needs]
    has_columns = columns and all(column in lacking for column in columns)  # an index may be older than a feature
    advice = f"filter with where={' and '.join(columns)!r}, or " if has_columns else ""
    if requested.feature == "label":
        others = [name for name in lacking.attrs.get("schemes", {}) if name != RATING]
        ask = f"ask for other labels with ClipInput('label', {others[:3]}), " if others else ""
        if len(lacking) == count:
            cure = ask.removesuffix(", ") or "leave it out, or index a study that has ratings or labels"
            return f"none of the {count} clips has a rating, which is the input {requested.field!r}: {cure}"
        advice = f"{ask}filter with where='{RATING} is not null', or "
    if requested.rate is None and (requested.axis is Axis.FRAME or is_label_curve(requested.feature)):
        has_frames = any(store.has(session, CLOCK) for session in names)
        has_rows = all(store.has(session, feature) for session in names for feature in needs if feature != CLOCK)
        advice = advice if has_frames or not has_rows else "give it a rate=, which needs no frames, or "
    return (
        f"{len(lacking)} of {count} clips lack the input {requested.field!r} (of {shown}): {advice}"
        f"leave them out with drop_missing=True{_or_mask(requested)}"
    )


def _or_mask(requested: ClipInput) -> str:
    """Another way than to leave clips out, where there is one."""
    return "" if requested.feature in ("label", "story") else ", or mask it there with ClipInput(..., missing='mask')"


_OPERATORS: Mapping[type, Callable[[Any, Any], pc.Expression]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.And: operator.and_,
    ast.Or: operator.or_,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_MOST_CHARACTERS = 10_000  # deeper nesting than that many characters can hold would exhaust the stack


def parse_filter(text: str, columns: Iterable[str]) -> pc.Expression:
    """The pyarrow expression of a filter written as text.

    Args:
        text: ``split == "train" and face_tracked >= 0.9``, ``empathy in [1, 2]``, ``not has_dope``,
            ``stop_s - start_s > 7``, ``valence is not null``.
        columns: the names that it may use.

    Raises:
        ValueError: a name is not a column, or something is not allowed in a filter.
        SyntaxError: it cannot be parsed.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"it has {len(text)} characters, more than {_MOST_CHARACTERS}")
    try:
        return _truth(ast.parse(text.strip(), mode="eval").body, frozenset(columns))
    except (RecursionError, MemoryError):
        raise ValueError("it is nested too deeply") from None


def _truth(node: ast.expr, columns: frozenset[str]) -> pc.Expression:
    """An expression that is true or false of a clip; a value alone is neither."""
    expression = _expression(node, columns)
    if not any(isinstance(part, ast.Name) for part in ast.walk(node)):
        raise ValueError(f"{ast.unparse(node)!r} names no column")
    return expression


def _expression(node: ast.expr, columns: frozenset[str]) -> pc.Expression:
    match node:
        case ast.Name(id=name):
            if name not in columns:
                near = difflib.get_close_matches(name, columns, n=1)
                meant = f"; is {near[0]!r} meant?" if near else ""
                raise ValueError(f"{name!r} is no column; text goes into quotes{meant}")
            return pc.field(name)
        case ast.Constant():
            return pc.scalar(_value(node))
        case ast.BoolOp(op=op, values=values):
            return reduce(_OPERATORS[type(op)], (_truth(value, columns) for value in values))
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() as op, right=right):
            return _OPERATORS[type(op)](_truth(left, columns), _truth(right, columns))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_expression(left, columns), _expression(right, columns))
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            return ~_truth(operand, columns)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return pc.negate(_expression(operand, columns))
        case ast.Compare(left=left, ops=ops, comparators=others):
            parts = zip([left, *others[:-1]], ops, others, strict=True)
            return reduce(operator.and_, (_comparison(*part, columns) for part in parts))
    raise ValueError(f"{ast.unparse(node)!r} is not allowed in a filter")


def _comparison(left: ast.expr, op: ast.cmpop, right: ast.expr, columns: frozenset[str]) -> pc.Expression:
    if isinstance(op, ast.In | ast.NotIn):
        if not isinstance(right, ast.List | ast.Tuple | ast.Set):
            raise ValueError(f"{ast.unparse(right)!r} is no list: write [1, 2] behind 'in'")
        column = _truth(left, columns)
        chosen = column.isin([_value(value) for value in right.elts])
        # A missing value is in no list, and as in every other comparison not "not in" one either.
        return (chosen if isinstance(op, ast.In) else ~chosen) & column.is_valid()
    if isinstance(op, ast.Is | ast.IsNot):
        if not (isinstance(right, ast.Name) and right.id == "null" and isinstance(left, ast.Name)):
            raise ValueError(
                "'is' asks for a missing value alone, 'column is null' or 'column is not null': else write =="
            )
        missing = _expression(left, columns).is_null()
        return ~missing if isinstance(op, ast.IsNot) else missing
    if type(op) not in _OPERATORS:
        raise ValueError(f"{type(op).__name__} is not allowed in a filter")
    return _OPERATORS[type(op)](_expression(left, columns), _expression(right, columns))


def _value(node: ast.expr) -> bool | int | float | str:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
    raise ValueError(f"{ast.unparse(node)!r} is no text, number, True or False")
