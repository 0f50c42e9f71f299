"""The texts of story pairs, and their labels beside them; they live in memory only."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from storyframes_empathy.pairs.table import Aspect
from storyframes_empathy.statistics.rating_table import RatingTable, TableFaultError

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
