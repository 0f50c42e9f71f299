"""``storyframes baseline``: what each feature says of a label in people whom a model has not seen."""

from __future__ import annotations

import dataclasses
import math
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.cli import LOOK, JsonOption, StoreArgument, console, error_console, listed, need, refused_if, show_json
from storyframes_empathy import DISTRIBUTION

if TYPE_CHECKING:
    from rich.table import Table

    from storyframes_empathy.baseline.score import Baseline

_ERRORS = "error", "error, mean\nof the others"

app = typer.Typer(add_completion=False, **LOOK)


@app.command("baseline", rich_help_panel="Analyse")
def baseline(
    store: StoreArgument,
    label: Annotated[str | None, typer.Option(help="A label of the clip index; by default the only one.")] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(help="Only these features, with commas between them; repeat for more. By default all."),
    ] = None,
    where: Annotated[str | None, typer.Option(help="Only these clips: an expression over the clip index.")] = None,
    json: JsonOption = False,
) -> None:
    """Predict a label of each person from the other people, with the means of each feature.

    Ridge or logistic regression, compared with the mean of the others. Exit 0: scored; 2: nothing to score.
    """
    need("sklearn", "", DISTRIBUTION)
    from storyframes import FeatureStore
    from storyframes.store import StorageError, StoreError
    from storyframes_empathy.baseline.labelled_units import BaselineError, feature_means, labelled_units
    from storyframes_empathy.baseline.score import score_baseline

    with refused_if(StoreError, StorageError, BaselineError):
        opened = FeatureStore(store)
        units = labelled_units(opened.clips(), label, where)
        done = score_baseline(units, feature_means(opened, units, listed("--features", features)))
    if json:
        show_json(_content(done))
        return
    shown = console()
    if units.remark:
        error_console().print(f"[yellow]note[/] {escape(units.remark)}")
    shown.print(_table(done))
    shown.print(escape(done.sentence))
    of_classes = "export {} --out clips --format datasets"
    command = of_classes if units.classes else "empathy train {} --label " + shlex.quote(units.label)
    shown.print(f"\nNext:\n  storyframes {escape(command.format(shlex.quote(store)))}", soft_wrap=True)


def _table(done: Baseline) -> Table:
    from rich.table import Table

    units = done.units
    people = len(set(units.people.tolist()))
    counted = f"{len(units.labels)} {units.unit}{'s' if units.unit != 'story' else ''}".replace("story", "stories")
    table = Table(title=f"{units.label}: {counted} of {people} people, each predicted from the others")
    what, others = ("wrong", "wrong, most\nfrequent of\nthe others") if units.classes else _ERRORS
    table.add_column("feature", overflow="fold")
    for heading in ("n", "people", what, others, "saved", "95 %", "p"):
        table.add_column(heading, justify="right")
    digits = ".0%" if units.classes else ".3g"
    for one in done.scores:
        if one.reason:
            table.add_row(escape(one.feature), str(one.n), str(one.people), escape(one.reason), *[""] * 4)
            continue
        saved = _percent(one.saved)
        span = "–" if one.interval.reason else f"{_percent(one.interval.low)} to {_percent(one.interval.high)}"
        numbers = (f"{one.error:{digits}}", f"{one.error_of_others:{digits}}", saved, span, f"{one.p:.3f}")
        table.add_row(escape(one.feature), str(one.n), str(one.people), *numbers)
    return table


def _percent(share: float) -> str:
    if not math.isfinite(share):
        return "–"
    text = f"{share:.0%}"
    return "0%" if text == "-0%" else text


def _content(done: Baseline) -> dict[str, Any]:
    units = done.units
    return {
        "label": units.label,
        "unit": units.unit,
        "n": len(units.labels),
        "people": len(set(units.people.tolist())),
        "classes": list(units.classes),
        "remark": units.remark,
        "sentence": done.sentence,
        "features": [dataclasses.asdict(one) for one in done.scores],
    }
