"""Tables 2 and 3, and any like them: a row for each model and what it was given, mean ± s.d. over its seeds.

Everything here is a fraction; how a number is written is ``table_formats``'.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from storyframes_empathy.scores.evaluation import Evaluation, ScoredRun, row_key, table_key
from storyframes_empathy.scores.metrics import Metrics, score
from storyframes_empathy.scores.run_record import Level, Run, ScoreScale

METRICS = ("r", "rho", "acc", "f1", "mse", "phi")
"""Those that compare rows; of ``mse`` the lowest is the best."""
PHASES = {"story_share": "T2", "reflection": "T3"}
"""Which published table is of which phase."""
_NAMES = {
    "amer": "AMER",
    "tfn": "TFN",
    "ef_lstm": "EF-LSTM",
    "lf_lstm": "LF-LSTM",
    "bart": "EmpathicStoriesBART",
    "llm": "LLM",
}
_MODALITIES = ("t", "v+a", "v+t", "a+t", "v+a+t")
_SHOWN = 5  # decimals of a fraction to which numbers that are printed alike are alike


@dataclass(frozen=True)
class Cell:
    """One number over the seeds of a row.

    Attributes:
        mean: of the seeds in which it is defined; NaN where there is none.
        sd: standard deviation of those (ddof 1); NaN where there are fewer than two.
        defined, seeds: in how many it is defined, and of how many.
    """

    mean: float
    sd: float
    defined: int
    seeds: int


@dataclass(frozen=True)
class Row:
    """What one model, given some modalities, is worth.

    Attributes:
        model, modalities: as shown.
        level: of what it was scored; None where nobody says.
        seeds: how many runs.
        cells: by metric, and "rmse" (on the label's own scale) and "prevalence".
        n: of how many clips or stories: the fewest and the most of a seed; None where nobody says.
        sessions, people: of how many these are, likewise.
        is_baseline: it is compared with nothing.
    """

    model: str
    modalities: str
    level: Level | None
    seeds: int
    cells: Mapping[str, Cell] = field(default_factory=dict)
    n: tuple[int, int] | None = None
    sessions: tuple[int, int] | None = None
    people: tuple[int, int] | None = None
    is_baseline: bool = False


@dataclass(frozen=True)
class Table:
    """Rows that compare.

    Attributes:
        title: of what they are.
        rows: in the order in which they are shown.
        published: whether these are the paper's numbers, which are compared with no others.
        about: phase, scheme, minimum, maximum, threshold; empty where published.
    """

    title: str
    rows: Sequence[Row]
    published: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def levels(self) -> set[Level]:
        """Of what rows were scored."""
        return {row.level for row in self.rows if row.level}

    def places(self, metric: str) -> dict[int, int]:
        """By the number of a row, 1 where it is the best of its level, 2 where it is the second; equals share.

        Of runs, only those that are better than every baseline of their level have a place, and their correlations
        are above 0, which is what a constant knows.
        """
        found: dict[int, int] = {}
        sign = -1 if metric == "mse" else 1
        for level in {row.level for row in self.rows}:
            means = {
                number: round(sign * row.cells[metric].mean, _SHOWN)
                for number, row in enumerate(self.rows)
                if row.level == level and not row.is_baseline and metric in row.cells
            }
            least = self._baseline(metric, level)
            means = {number: mean for number, mean in means.items() if mean > least}
            order = sorted(set(means.values()), reverse=True)[:2]
            found |= {number: order.index(mean) + 1 for number, mean in means.items() if mean in order}
        return found

    def _baseline(self, metric: str, level: Level | None) -> float:
        """What a row of this level has to exceed; of ``mse`` with the sign turned."""
        if self.published:
            return -math.inf
        rows = [row for row in self.rows if row.is_baseline and row.level == level and metric in row.cells]
        means = [-row.cells[metric].mean if metric == "mse" else row.cells[metric].mean for row in rows]
        known = [round(mean, _SHOWN) for mean in means if not math.isnan(mean)]
        return max([*known, 0.0 if metric in ("r", "rho", "phi") else -math.inf])


def build_tables(evaluation: Evaluation) -> list[Table]:
    """A table for each phase, scheme and threshold, in the order of the paper."""
    by_table: dict[tuple[Any, ...], list[ScoredRun]] = defaultdict(list)
    for run in evaluation.runs:
        by_table[table_key(run.run)].append(run)
    return [_table(by_table[key], evaluation.split) for key in sorted(by_table, key=table_order)]


def table_order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Where the table of a ``table_key`` stands: the paper's phases first, in the paper's order."""
    phase = key[0]
    return list(PHASES).index(phase) if phase in PHASES else len(PHASES), key


def model_name(run: Run) -> str:
    """How a table calls the model of a run."""
    more = [run.variant] if run.variant else []
    more += [f"label {run.label}"] if run.label is not ScoreScale.SCALED else []
    return f"{_NAMES.get(run.model, run.model)} ({', '.join(more)})" if more else _NAMES.get(run.model, run.model)


def published_tables(phases: Iterable[str] = tuple(PHASES)) -> list[Table]:
    """The paper's Tables 2 and 3 for phases that they have, as printed."""
    tables = []
    for phase, name in PHASES.items():
        if phase in phases:
            rows = [
                Row(
                    row["model"],
                    row["modalities"],
                    None,
                    1,
                    {metric: Cell(row[metric][0] / 100, row[metric][1] / 100, 1, 1) for metric in METRICS[:-1]},
                )
                for row in _published()[name]
            ]
            tables.append(Table(f"{phase}: the paper's Table {name[1]} as printed", rows, published=True))
    return tables


@cache
def _published() -> Any:
    return json.loads((files("storyframes_empathy.scores") / "published_tables.json").read_text(encoding="utf-8"))


def _table(runs: Sequence[ScoredRun], split: str) -> Table:
    run = runs[0].run
    by_row: dict[tuple[Any, ...], list[ScoredRun]] = defaultdict(list)
    for one in runs:
        by_row[row_key(one.run)].append(one)
    rows = [(row_order(some[0].run), _row(some)) for some in by_row.values()]
    shown = [row for _, row in sorted(rows, key=lambda one: one[0])]
    title = f"{run.phase}: {run.scheme} {run.minimum:g} to {run.maximum:g}, positive above {run.threshold:g}; {split}"
    about = {"phase": run.phase, "scheme": run.scheme, "minimum": run.minimum, "maximum": run.maximum}
    return Table(title, [*shown, *_constants(runs)], about=about | {"threshold": run.threshold})


def row_order(run: Run) -> tuple[Any, ...]:
    """Where a row stands: baselines last; the paper's models first, in the paper's order."""
    known = list(_NAMES).index(run.model) if run.model in _NAMES else len(_NAMES)
    given = _MODALITIES.index(run.modalities) if run.modalities in _MODALITIES else len(_MODALITIES)
    return run.is_baseline, known, run.model, run.variant, run.label, run.level, given, run.modalities


def _row(runs: Sequence[ScoredRun]) -> Row:
    run = runs[0].run
    row = _of_metrics([one.metrics for one in runs], runs)
    return replace(
        row,
        model=model_name(run),
        modalities=run.modalities,
        level=runs[0].scored.level,
        is_baseline=run.is_baseline,
    )


def _of_metrics(metrics: Sequence[Metrics], runs: Sequence[ScoredRun]) -> Row:
    names = (*METRICS, "rmse", "prevalence")
    cells = {name: _cell([float(getattr(one, name)) for one in metrics]) for name in names}
    there = [~np.isnan(one.scored.scores) for one in runs]
    return Row(
        *("", "", None, len(metrics), cells, _span([metric.n for metric in metrics])),
        sessions=_span([len(np.unique(one.scored.sessions[own])) for one, own in zip(runs, there, strict=True)]),
        people=_span([len(np.unique(one.scored.participants[own])) for one, own in zip(runs, there, strict=True)]),
    )


def _span(counts: Sequence[int]) -> tuple[int, int]:
    return min(counts), max(counts)


def _cell(values: Sequence[float]) -> Cell:
    there = [value for value in values if not math.isnan(value)]
    mean = statistics.fmean(there) if there else math.nan
    sd = statistics.stdev(there) if len(there) > 1 else math.nan
    return Cell(mean, sd, len(there), len(values))


def _constants(runs: Sequence[ScoredRun]) -> list[Row]:
    """What is reached by saying the same of everything: what most of the training clips are, or their mean."""
    rows = []
    for level in sorted({run.scored.level for run in runs}):
        by_seed: dict[int, ScoredRun] = {}
        for one in runs:
            if one.scored.level is level and one.train:
                by_seed.setdefault(one.run.seed, one)
        for name in ("majority of train", "mean of train") if by_seed else ():
            row = _of_metrics([_constant(one, name) for one in by_seed.values()], list(by_seed.values()))
            rows.append(replace(row, model=name, level=level, is_baseline=True))
    return rows


def _constant(one: ScoredRun, name: str) -> Metrics:
    run, train = one.run, one.train
    assert train is not None
    span = run.maximum - run.minimum
    if name == "majority of train":
        value, threshold = float(train.prevalence > 0.5), 0.5
    else:
        value, threshold = (train.mean - run.minimum) / span, (run.threshold - run.minimum) / span
    return score(
        np.full(len(one.scored.ratings), value),
        one.scored.ratings,
        threshold=run.threshold,
        score_threshold=threshold,
        minimum=run.minimum,
        maximum=run.maximum,
        copies=one.scored.copies,
    )
