"""Answers to natural mistakes: names that are nearly right, wrong arguments, attributes of other libraries."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def unknown(where: str, what: str, name: object, names: Iterable[str], *, so: str = "", most: int = 12) -> str:
    """A sentence: nothing of a kind has this name; which names are nearest, and which there are.

    Args:
        where: what has no such thing; or " in" a place; or empty.
        most: how many names are listed.

    Example:
        >>> unknown("s00", "feature", "opensmil", ["opensmile", "glove"])
        "s00 has no feature 'opensmil': is 'opensmile' meant? it has opensmile, glove"
    """
    is_owner = where and not where.startswith(" ")
    start = f"{where} has no {what} {name!r}" if is_owner else f"there is no {what} {name!r}{where}"
    every = list(dict.fromkeys(names))
    by_letters = {other.lower(): other for other in reversed(every)}
    near = difflib.get_close_matches(str(name).lower(), by_letters, n=3)
    meant = f": is {' or '.join(repr(by_letters[other]) for other in near)} meant? " if near else "; "
    more = f", … ({len(every)} in all)" if len(every) > most else ""
    return f"{start}{meant}{so or ('it has' if is_owner else 'there are')} {', '.join(every[:most]) or 'none'}{more}"


def explained(example: str, **instead: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have a call with wrong arguments end with an example, instead of Python's own words alone.

    Args:
        example: a call that is right.
        **instead: by an argument that the function does not have, what to write instead.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> R:
            try:
                return function(*arguments, **named)
            except TypeError as error:
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise  # from inside the function
                what = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
                if missing := re.search(r"missing \d+ required .*?: (.*)", str(error)):
                    why = f"{what} needs {missing[1]}"
                elif unexpected := re.search(r"unexpected keyword argument (.*)", str(error)):
                    why = f"{what} has no argument {unexpected[1]}"
                else:
                    why = f"{what} was called with too many arguments, or with one of them twice"
                advice = [f"instead of {name}, {instead[name]}" for name in named if name in instead]
                raise TypeError("; ".join([f"{why}: write {example}", *advice])) from None

        return call

    return decorate


class Names(list[str]):
    """A list that may be called as well, for a property that is taken for a method."""

    def __call__(self) -> list[str]:
        return list(self)


def no_attribute(instance: object, name: str, instead: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that an object does not have, with what to write instead."""
    kind = type(instance).__name__
    if name.startswith("_"):  # Python asks for many
        return AttributeError(f"{kind} has no attribute {name!r}", name=name)
    if name in instead:
        return AttributeError(f"{kind} has no {name!r}: write {instead[name]}", name=name)
    public = [other for other in dir(type(instance)) if not other.startswith("_")]
    return AttributeError(unknown(kind, "attribute", name, public), name=name)
