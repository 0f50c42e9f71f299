"""What the commands show, and the same as JSON: statistics of ratings, scores of pairs, runs of training."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from flows.cli import finite_json
from storyframes_empathy.statistics.agreement import Agreement
from storyframes_empathy.statistics.study_ratings import SchemeAgreement
from tasks.inspect import counted

if TYPE_CHECKING:
    from storyframes_empathy.pairs.metrics import Evaluation
    from storyframes_empathy.statistics.comparison import ComparedTable  # needs scipy
    from storyframes_empathy.statistics.mixed import MixedFit, MixedTable
    from storyframes_empathy.training.runs import Outcome

_PAIRS = 20
_KAPPA_OF = {"floor": "the floor", "round": "the nearest whole number"}


def agreement_tables(compared: Agreement, title: str = "") -> Iterator[Table | str]:
    """Alpha over all raters, and the statistics of each pair of raters."""
    raters = counted(len(compared.raters), "rater")
    units = f"{compared.units_compared} of {counted(compared.units, 'unit')} have two ratings or more"
    yield f"{f'[bold]{escape(title)}[/]: ' if title else ''}{raters}, {units}"
    alphas = ", ".join(f"{metric} {_shown(value)}" for metric, value in compared.alpha.items())
    icc = f"; {compared.icc} (of an interval)" if compared.icc else ""
    yield f"Krippendorff's alpha over all raters: {alphas}{icc}"
    names = list(compared.means)
    table = Table()
    for heading in ("raters", "units", *(name.replace("_", "\n") for name in names)):
        table.add_column(heading, justify="left" if heading == "raters" else "right", overflow="fold")
    for pair in compared.pairs[:_PAIRS]:
        statistics = (_shown(pair.statistics[name]) for name in names)
        table.add_row(escape(f"{pair.a}, {pair.b}"), str(pair.units), *statistics)
    if len(compared.pairs) > _PAIRS:
        table.add_row(f"and {len(compared.pairs) - _PAIRS} more (--json)", *[""] * (len(names) + 1))
    table.add_section()
    table.add_row("mean", "", *(_shown(compared.means[name].mean) for name in names))
    if any(mean.undefined for mean in compared.means.values()):
        table.add_row("pairs without", "", *(str(compared.means[name].undefined) for name in names))
    yield table
    if compared.kappa_of:
        made = _KAPPA_OF.get(compared.kappa_of, compared.kappa_of)
        yield f"kappa knows categories alone: of each number it has {made}"
    for remark in compared.remarks:
        yield f"[yellow]look at[/] {escape(remark)}"


def agreement_json(compared: Agreement) -> str:
    """The same for scripts, with every pair."""
    return finite_json(_content(compared))


def study_agreement_tables(schemes: Mapping[str, SchemeAgreement]) -> Iterator[Table | str]:
    """How far raters agree, scheme by scheme, and which labels are compared with none."""
    for name, one in schemes.items():
        if one.agreement:
            yield from agreement_tables(one.agreement, name)
        else:
            yield f"[bold]{escape(name)}[/]: no two raters labelled the same"
        for count, why in (
            (one.left_out.overlapping, "overlap another rater's part without being the same"),
            (one.left_out.alone, "nobody else gave"),
            (one.left_out.nameless, "name no rater"),
        ):
            if count:
                yield f"[yellow]left out[/] {counted(count, 'label')} that {why}"


def study_agreement_json(schemes: Mapping[str, SchemeAgreement]) -> str:
    """The same for scripts."""
    content = {
        name: {
            "agreement": _content(one.agreement) if one.agreement else None,
            "left_out": dataclasses.asdict(one.left_out),
        }
        for name, one in schemes.items()
    }
    return finite_json({"schemes": content})


def ratings_compared_tables(compared: ComparedTable) -> Iterator[Table | str]:
    """Models beside people, a row for each comparison."""
    table = Table()
    by = list(dict.fromkeys(name for row in compared.rows for name in row.group))
    headings = (
        "pairs",
        "mean\nhuman",
        "mean\nmodel",
        "mean\ndiff.",
        "sd",
        "RMSE",
        "Wasser-\nstein",
        "t",
        "p\nHolm",
    )
    for heading in (*map(escape, by), "model"):
        table.add_column(heading, overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in compared.rows:
        numbers = (row.mean_human, row.mean_model, row.mean_difference, row.sd_difference, row.rmse, row.wasserstein)
        table.add_row(
            *(escape(row.group[name]) for name in by),
            escape(row.model),
            str(row.pairs),
            *map(_shown, numbers),
            _shown(row.t, 2),
            _p(row.p_holm),
        )
    yield table
    for row in compared.rows:
        where = escape(" ".join([*row.group.values(), row.model]))
        if row.remark:
            yield f"[yellow]look at[/] {where}: {row.remark}"
        if row.missing:
            yield f"[yellow]left out[/] {where}: {counted(row.missing, 'row')} without both ratings"
    for remark in compared.remarks:
        yield f"[yellow]look at[/] {escape(remark)}"


def ratings_compared_json(compared: ComparedTable) -> str:
    """The same for scripts."""
    return finite_json(dataclasses.asdict(compared))


def mixed_tables(fitted: MixedTable) -> Iterator[Table | str]:
    """A row for each predictor, and what is to be known of each model."""
    table = Table()
    headings = ("beta", "se", "z", "p", "95 % interval", "sigma²", "tau²", "rows", "stories")
    table.add_column("predictor", overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right")
    for fit in (model.fit for model in fitted.models if model.fit):
        for estimate in fit.estimates:
            interval = f"{_shown(estimate.low)} to {_shown(estimate.high)}"
            numbers = (_shown(estimate.beta), _shown(estimate.se), _shown(estimate.z, 2), _p(estimate.p), interval)
            variances = (_shown(fit.sigma2), _shown(fit.tau2))
            table.add_row(escape(estimate.predictor), *numbers, *variances, str(fit.rows), str(fit.stories))
    if table.row_count:
        yield table
    for model in fitted.models:
        name = escape(", ".join(model.predictors))
        if model.fit is None:
            yield f"[bold red]no model[/] of {name}: {escape(model.reason)}"
        else:
            yield from (f"[yellow]look at[/] {name}: {remark}" for remark in _about(model.fit))
    units = "in the columns' own units" if fitted.raw else "standardised"
    yield f"{escape(fitted.outcome)}, {units}; predictors centred at their story's mean"
    for remark in fitted.remarks:
        yield f"[yellow]look at[/] {escape(remark)}"


def _about(fit: MixedFit) -> Iterator[str]:
    tried = ", ".join(fit.optimisers)
    if not fit.converged:
        yield f"no optimiser found the maximum of the likelihood ({tried}): there are no estimates"
    elif len(fit.optimisers) > 1:
        yield f"took several optimisers ({tried})"
    if fit.boundary:
        yield "tau² is 0, on the boundary: stories differ no more than chance would have it"
    if fit.single_rows:
        yield f"{fit.single_rows} of {fit.stories} stories have one row: they say nothing of beta"
    if fit.missing:
        yield f"{counted(fit.missing, 'row')} left out: without one of the columns"


def mixed_json(fitted: MixedTable) -> str:
    """The same for scripts."""
    return finite_json(dataclasses.asdict(fitted))


def _content(compared: Agreement) -> dict[str, Any]:
    return dataclasses.asdict(compared)


def _shown(value: float | None, digits: int = 3) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else _shown(value)


_HEADINGS = {
    **{name: name for name in ("r", "rho", "mse", "acc")},
    "precision": "P",
    "recall": "R",
    "f1": "F1",
    "order_gap": "order\ngap",
}


def pairs_tables(evaluated: Evaluation) -> Iterator[Table | str]:
    """A row for each column of scores and aspect."""
    table = Table()
    has_orders = any(row.order_gap is not None for row in evaluated.rows)
    numbers = [name for name in _HEADINGS if has_orders or name != "order_gap"]
    for heading in ("scores", "aspect"):
        table.add_column(heading, overflow="fold")
    for heading in ("pairs", "missing", *(_HEADINGS[name] for name in numbers)):
        table.add_column(heading, justify="right")
    for row in evaluated.rows:
        values = (getattr(row, name) for name in numbers)
        shown = ("–" if value is None else f"{value:.3f}" for value in values)
        table.add_row(escape(row.scores), row.aspect, str(row.pairs), str(row.missing), *shown)
    yield table
    yield f"acc, and P, R and F1 (macro), of what is above {evaluated.threshold:g}"
    for aspect, counts in evaluated.labels.items():
        yield f"labels of {aspect}, by their floor: {', '.join(f'{step}: {count}' for step, count in counts.items())}"
    for remark in evaluated.remarks:
        yield f"[yellow]look at[/] {escape(remark)}"


def pairs_json(evaluated: Evaluation) -> str:
    """The same for scripts."""
    return finite_json(dataclasses.asdict(evaluated))


def outcomes_table(outcomes: Sequence[Outcome]) -> Table:
    """A row for each run."""
    table = Table("run", "status", "epoch kept", "val_mse", "folder")
    for outcome in outcomes:
        status = outcome.status.value if outcome.is_new or outcome.reason else f"{outcome.status.value} before"
        epoch, epochs, mse = (outcome.weights.get(key) for key in ("epoch", "epochs", "val_mse"))
        kept = f"{epoch} of {epochs}" if epoch else ""
        row = (
            str(outcome.name),
            outcome.reason or status,
            kept,
            "" if mse is None else f"{mse:.4f}",
            str(outcome.folder),
        )
        table.add_row(*map(escape, row))
    return table


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """A run for scripts."""
    return {
        "phase": outcome.name.phase,
        "model": outcome.name.model.value,
        "modalities": "+".join(outcome.name.modalities),
        "seed": outcome.name.seed,
        "status": outcome.status.value,
        "trained_now": outcome.is_new,
        "reason": outcome.reason,
        "weights": dict(outcome.weights),
        "dropped_clips": outcome.dropped,
        "no_untrained_baseline": outcome.untrained,
        "folder": str(outcome.folder),
    }
