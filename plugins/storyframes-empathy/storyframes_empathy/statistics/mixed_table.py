"""Mixed models of a table that is handed in: one for each predictor, or all predictors in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from storyframes_empathy.statistics.mixed import CannotFitError, MixedFit, fit_mixed
from storyframes_empathy.statistics.rating_table import RatingTable, TableFaultError

STORY = "story"


@dataclass(frozen=True)
class MixedModel:
    """One model of a table.

    Attributes:
        predictors: of it.
        fit: None where there is no such model of these values.
        reason: why not; else empty.
    """

    predictors: tuple[str, ...]
    fit: MixedFit | None
    reason: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether there are numbers that can be used."""
        return self.fit is not None and self.fit.converged


@dataclass(frozen=True)
class MixedTable:
    """Every model of a table, and how it was read where that is unusual."""

    outcome: str
    raw: bool
    models: tuple[MixedModel, ...]
    remarks: tuple[str, ...] = ()


def fit_table(
    path: Path, outcome: str, predictors: Sequence[str], *, story: str = STORY, joint: bool = False, raw: bool = False
) -> MixedTable:
    """Fit the models of a table.

    Args:
        path: CSV or Parquet; a row is one rating of one story.
        outcome: the column of the ratings.
        predictors: columns.
        story: the column of the stories.
        joint: all predictors in one model, on the rows that have them all; else one model for each.
        raw: keep the units; else everything is standardised.

    Raises:
        TableFaultError: with everything that is wrong: cells that are no numbers, a column that is not there.
        OSError: it cannot be read.
    """
    table = RatingTable(path)
    table.need([outcome, story, *predictors])
    columns = [outcome, story, *predictors]
    if twice := [name for name in columns if columns.count(name) > 1]:
        raise TableFaultError(table.name, [f"the column {twice[0]!r} is asked for twice: each has one place"])
    stories = table.texts(story)
    for place, name in enumerate(stories):
        if not name:
            table.refuse_row(place, f"has no {story}")
    values = table.numbers([outcome, *predictors])
    table.check()
    together = [tuple(predictors)] if joint else [(name,) for name in predictors]
    models = []
    for names in together:
        x = values[:, [1 + predictors.index(name) for name in names]]
        try:
            models.append(MixedModel(names, fit_mixed(values[:, 0], x, stories, names, raw=raw)))
        except CannotFitError as error:
            models.append(MixedModel(names, None, str(error)))
    return MixedTable(outcome, raw, tuple(models), tuple(table.remarks))
