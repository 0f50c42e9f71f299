"""Tables of story pairs: labels and scores, and the texts, which live in memory only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from storyframes_empathy.statistics.rating_table import RatingTable, TableFaultError

LOWEST, HIGHEST = 1.0, 4.0

Vector = NDArray[np.float64]


class Aspect(StrEnum):
    """In what two stories are similar."""

    EVENT = "event"
    EMOTION = "emotion"
    MORAL = "moral"
    EMPATHY = "empathy"

    @property
    def published(self) -> str:
        """The aspect's column in the published EmpathicStories files."""
        return f"similarity_{self}_human_AGG"


class CosineScale(StrEnum):
    """How a cosine becomes a score."""

    CLIPPED = "clipped"  # 1 + 3 max(0, cos): from 1 to 4
    TIMES4 = "times4"  # 4 cos, as published: from -4 to 4

    def score(self, cosines: Vector) -> Vector:
        """The scores of these cosines."""
        if self is CosineScale.TIMES4:
            return 4 * cosines
        return 1 + 3 * np.maximum(0, cosines)


@dataclass(frozen=True)
class Scores:
    """Scores of pairs.

    Attributes:
        name: of the column they come from.
        values: (pairs,), NaN where one is missing.
        order_gap: (pairs,) the difference between the scores of the two orders; None where one order was asked.
    """

    name: str
    values: Vector = field(repr=False)
    order_gap: Vector | None = field(default=None, repr=False)


@dataclass(frozen=True)
class PairTable:
    """Pairs with their labels and scores.

    Attributes:
        labels: by aspect, (pairs,), NaN where nothing was said.
        scores: one or several.
        remarks: how the table was read where that is unusual.
    """

    labels: dict[Aspect, Vector] = field(repr=False)
    scores: tuple[Scores, ...]
    remarks: tuple[str, ...] = ()


def both_orders(ab: Vector, ba: Vector, name: str) -> Scores:
    """The mean of the scores of A with B and of B with A; missing where either is."""
    return Scores(name, (ab + ba) / 2, np.abs(ab - ba))


def read_pairs(
    path: Path,
    *,
    scores: Sequence[str] = (),
    cosines: Sequence[str] = (),
    orders: tuple[str, str] | None = None,
    scale: CosineScale = CosineScale.CLIPPED,
) -> PairTable:
    """Read a table with a row for each pair.

    Args:
        path: CSV or Parquet. Labels are the columns event, emotion, moral and empathy, as many as there are, or those
            of the published files.
        scores: columns of scores from 1 to 4.
        cosines: columns of cosines.
        orders: the columns of the scores of A with B, and of B with A.
        scale: what becomes of cosines.

    Raises:
        TableFaultError: with everything that is wrong: no labels, labels outside 1 to 4, cosines outside -1 to 1, cells
            that are no numbers.
        OSError: it cannot be read.
    """
    table = RatingTable(path)
    columns = {aspect: _column(table, aspect) for aspect in Aspect}
    there = {aspect: column for aspect, column in columns.items() if column}
    if not there:
        names = f"{', '.join(Aspect)} (or {Aspect.EMPATHY.published} and so on)"
        raise TableFaultError(table.name, [f"has no labels: one of the columns {names}"])
    asked = [*scores, *cosines, *(orders or ())]
    if twice := [name for name in asked if [*asked, *there.values()].count(name) > 1]:
        raise TableFaultError(table.name, [f"the column {twice[0]!r} is asked for twice, or is a label"])
    table.need(asked)
    read = dict(zip([*there.values(), *asked], table.numbers([*there.values(), *asked]).T, strict=True))
    for column in there.values():
        _check_range(table, column, read[column], LOWEST, HIGHEST)
    for column in cosines:
        _check_range(table, column, read[column], -1 - 1e-6, 1 + 1e-6)
    for column in scores:
        if np.nanmax(np.abs(read[column]), initial=0) <= 1:
            table.refuse(f"the scores in {column!r} are nowhere above 1: name cosines with --cosine, not --score")
    table.check()
    found = [Scores(name, read[name]) for name in scores]
    found += [Scores(name, scale.score(read[name])) for name in cosines]
    if orders:
        found.append(both_orders(read[orders[0]], read[orders[1]], " + ".join(orders)))
    remarks = list(table.remarks)
    for one in found:
        outside = int(((one.values < LOWEST) | (one.values > HIGHEST)).sum())
        if outside:
            remarks.append(f"{one.name}: {outside} scores are outside {LOWEST:g} to {HIGHEST:g}")
    return PairTable({aspect: read[column] for aspect, column in there.items()}, tuple(found), tuple(remarks))


def _column(table: RatingTable, aspect: Aspect) -> str:
    names = [name for name in (str(aspect), aspect.published) if name in table.columns]
    if len(names) > 1:
        raise TableFaultError(table.name, [f"has the columns {names[0]!r} and {names[1]!r}: keep one of them"])
    return names[0] if names else ""


def _check_range(table: RatingTable, column: str, values: Vector, low: float, high: float) -> None:
    for place in np.flatnonzero((values < low) | (values > high)):
        rule = f"{column} = {values[place]:g} is outside {low:.0f} to {high:.0f}"
        table.refuse_row(int(place), rule)


_TEXTS = (("story_a", "story_b"), ("story_A", "story_B"))
_SUMMARIES = (("summary_a", "summary_b"), ("story_A_summary", "story_B_summary"))


@dataclass(frozen=True)
class PairTexts:
    """Both texts of each pair.

    Attributes:
        labels: ``row`` (of the file, as a spreadsheet shows it), and the labels that there are by aspect, NaN where
            nothing was said. No text.
        a, b: the texts; never logged.
    """

    labels: pd.DataFrame
    a: tuple[str, ...] = field(repr=False)
    b: tuple[str, ...] = field(repr=False)


def read_texts(path: Path, *, summaries: bool = False) -> PairTexts:
    """Read the pairs of a table.

    Args:
        path: CSV or Parquet with the columns story_a and story_b, or those of the published EmpathicStories files.
        summaries: read the columns summary_a and summary_b instead.

    Raises:
        TableFaultError: with everything that is wrong: no such columns, rows without a text, labels that are no
            numbers.
        OSError: the table cannot be read.
    """
    table = RatingTable(path)
    wanted = _SUMMARIES if summaries else _TEXTS
    columns = next((names for names in wanted if set(names) <= set(table.columns)), None)
    if columns is None:
        ways = " or ".join(" and ".join(names) for names in wanted)
        raise TableFaultError(table.name, [f"has no columns {ways}"])
    sides = [table.texts(name) for name in columns]
    for name, texts in zip(columns, sides, strict=True):
        for place, text in enumerate(texts):
            if not text:
                table.refuse_row(place, f"has no {name}")
    labels = [(aspect, name) for aspect in Aspect for name in (str(aspect), aspect.published) if name in table.columns]
    numbers = table.numbers([name for _, name in labels])
    table.check()
    read = pd.DataFrame({"row": table.row_numbers})
    for at, (aspect, _) in enumerate(labels):
        read[str(aspect)] = numbers[:, at]
    return PairTexts(read, tuple(sides[0]), tuple(sides[1]))
