"""A filter written as text, made into a pyarrow expression.

The text is parsed as Python is, but nothing of it is run: what a filter may hold (columns, values, comparisons, ``in``,
``and``, ``or``, ``not``, arithmetic) is translated, and anything else is an error.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import pyarrow.compute as pc

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
    """The pyarrow expression that ``text`` writes out.

    Args:
        text: ``split == "train" and face_tracked >= .9``, ``empathy in [1, 2]``, ``not has_dope``,
            ``stop_s - start_s > 7``, ``valence is not null``.
        columns: the names that it may use.

    Raises:
        ValueError: it names something else than a column, or holds something else than a filter may.
        SyntaxError: it cannot be parsed.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(f"it has {len(text)} characters, more than {_MOST_CHARACTERS}")
    try:
        return _truth(ast.parse(text.strip(), mode="eval").body, frozenset(columns))
    except (RecursionError, MemoryError):
        raise ValueError("it is nested too deeply") from None


def _truth(node: ast.expr, columns: frozenset[str]) -> pc.Expression:
    """What is true or false of a clip; a value alone is neither."""
    expression = _expression(node, columns)
    if not any(isinstance(part, ast.Name) for part in ast.walk(node)):
        raise ValueError(f"{ast.unparse(node)!r} names no column")
    return expression


def _expression(node: ast.expr, columns: frozenset[str]) -> pc.Expression:
    match node:
        case ast.Name(id=name):
            if name not in columns:
                raise ValueError(f"{name!r} is no column; text goes into quotes")
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
    raise ValueError(f"{ast.unparse(node)!r} is nothing that a filter may hold")


def _comparison(left: ast.expr, op: ast.cmpop, right: ast.expr, columns: frozenset[str]) -> pc.Expression:
    if isinstance(op, ast.In | ast.NotIn):
        if not isinstance(right, ast.List | ast.Tuple | ast.Set):
            raise ValueError(f"{ast.unparse(right)!r} is no list: write [1, 2] behind 'in'")
        column = _truth(left, columns)
        chosen = column.isin([_value(each) for each in right.elts])
        # A missing value is in no list. As in every other comparison, it is not "not in" one either.
        return (chosen if isinstance(op, ast.In) else ~chosen) & column.is_valid()
    if isinstance(op, ast.Is | ast.IsNot):
        if not (isinstance(right, ast.Name) and right.id == "null" and isinstance(left, ast.Name)):
            raise ValueError(
                "'is' asks for a missing value alone, 'column is null' or 'column is not null': else write =="
            )
        missing = _expression(left, columns).is_null()
        return ~missing if isinstance(op, ast.IsNot) else missing
    if type(op) not in _OPERATORS:
        raise ValueError(f"{type(op).__name__} is nothing that a filter may hold")
    return _OPERATORS[type(op)](_expression(left, columns), _expression(right, columns))


def _value(node: ast.expr) -> bool | int | float | str:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
    raise ValueError(f"{ast.unparse(node)!r} is no text, number, True or False")
