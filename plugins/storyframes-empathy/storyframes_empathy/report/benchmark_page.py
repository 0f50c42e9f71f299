"""The page of a benchmark: its tables, how its runs learned, how true their scores are, and for whom."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path

import plotly.graph_objects as go

from storyframes_empathy.scores.evaluation import Evaluation, ScoredRun, table_key
from storyframes_empathy.scores.run_diagnostics import by_participant, calibration, read_epochs
from storyframes_empathy.scores.table_formats import HEADINGS, LAST_COLUMNS, cell_text, count_text, shown_metrics
from storyframes_empathy.scores.tables import Table, model_name, row_order, table_order
from storyframes_report import COLOURS, Chart, label, new_site, render

_SYMBOLS = ("circle", "square", "diamond", "x", "triangle-up")

# The runs of one model of one table, by what they were given.
Given = Mapping[str, Sequence[ScoredRun]]


def write_benchmark(evaluation: Evaluation, tables: Sequence[Table], root: Path, out: Path) -> None:
    """Write the page of a benchmark as a site into ``out``. It holds ids and numbers, and no text of a session.

    Args:
        evaluation: of all runs.
        tables: of them, and published ones.
        root: the folder of the runs; the page says its name, and not where on a machine it lies.
        out: a new or empty folder, or an older report.

    Raises:
        ReportError: ``out`` holds something else.
        OSError: it cannot be written.
    """
    notes = list(evaluation.notes)
    charts = list(_charts(evaluation, notes.append))

    def inside(text: str) -> str:
        return text.replace(f"{root}/", "")

    with new_site(out) as site:
        page = render(
            "benchmark.html",
            "storyframes_empathy.report",
            root="",
            name=root.absolute().name,
            evaluation=evaluation,
            tables=tables,
            notes=[inside(note) for note in notes],
            faults=[inside(fault) for fault in evaluation.faults],
            charts=charts,
            headings=HEADINGS,
            metrics=shown_metrics,
            cell=cell_text,
            count_of=count_text,
            last=LAST_COLUMNS,
        )
        (site / "index.html").write_text(page, encoding="utf-8")


def _charts(evaluation: Evaluation, note: Callable[[str], object]) -> Iterator[tuple[str, list[Chart]]]:
    """By model and table a heading and its charts."""
    models: dict[tuple[object, ...], dict[str, list[ScoredRun]]] = defaultdict(lambda: defaultdict(list))
    ordered = sorted(
        evaluation.runs, key=lambda one: (table_order(table_key(one.run)), row_order(one.run), one.run.seed)
    )
    for one in ordered:
        key = (*table_key(one.run), model_name(one.run), one.scored.level)
        models[key][one.run.modalities].append(one)
    for number, given in enumerate(models.values()):
        run = next(iter(given.values()))[0].run
        found = (
            _curves(given, f"curves-{number}", note),
            _calibration(given, f"calibration-{number}"),
            _spread(given, f"participants-{number}"),
        )
        title = f"{run.phase}: {model_name(run)}"
        if run.scheme != "empathy" or run.threshold != 3:
            title += f", {run.scheme} above {run.threshold:g}"
        yield title, [chart for chart in found if chart]


def _curves(given: Given, key: str, note: Callable[[str], object]) -> Chart | None:
    figure, rows, best = go.Figure(), [], []
    for (modalities, runs), colour in zip(given.items(), cycle(COLOURS), strict=False):
        for run in runs:
            try:
                epochs = read_epochs(run.folder)
            except (OSError, ValueError) as error:
                note(f"{run.run.name}: no curve: {error}")
                continue
            x = [epoch.epoch for epoch in epochs]
            for what, dash in (("val_mse", "solid"), ("train_mse", "dot")):
                y = [getattr(epoch, what) for epoch in epochs]
                if all(math.isnan(value) for value in y):
                    continue
                figure.add_scatter(
                    x=x,
                    y=y,
                    mode="lines",
                    name=label(modalities),
                    legendgroup=f"{modalities} {what}",
                    showlegend=run is runs[0] and what == "val_mse",
                    line={"color": colour, "dash": dash},
                    hovertemplate=f"{label(modalities)}, seed {run.run.seed}, epoch %{{x}}: %{{y:.4f}}<extra></extra>",
                )
            known = [epoch for epoch in epochs if not math.isnan(epoch.val_mse)]
            if known:
                lowest = min(known, key=lambda epoch: epoch.val_mse)
                best.append(lowest.epoch)
                rows.append((modalities, run.run.seed, len(epochs), lowest.epoch, f"{lowest.val_mse:.4f}"))
    if not figure.data:
        return None
    figure.update_layout(xaxis={"title": "epoch"}, yaxis={"title": "MSE"}, showlegend=True)
    alt = "MSE of every seed, epoch by epoch: validation as lines, training dotted."
    if best:
        span = " to ".join(str(epoch) for epoch in dict.fromkeys((min(best), max(best))))
        alt += f" The lowest on validation is at epoch {span}."
    headings = ("modalities", "seed", "epochs", "lowest at", "validation MSE")
    return Chart(key, "How it learned", alt, figure, headings, rows, height=320)


def _calibration(given: Given, key: str) -> Chart | None:
    figure = go.Figure(
        go.Scatter(
            x=[0, 1], y=[0, 1], mode="lines", name="true scores", line={"color": COLOURS[-1], "dash": "dash"},
            hoverinfo="skip",
        )
    )  # fmt: skip
    rows, widest = [], 0.0
    for (modalities, runs), colour, symbol in zip(given.items(), cycle(COLOURS), cycle(_SYMBOLS), strict=False):
        bins = [(run.run.seed, each) for run in runs for each in calibration(run.scored)]
        widest = max([widest, *(abs(each.score - each.rating) for _, each in bins)])
        rows += [(modalities, seed, f"{each.score:.3f}", f"{each.rating:.3f}", each.n) for seed, each in bins]
        figure.add_scatter(
            x=[each.score for _, each in bins],
            y=[each.rating for _, each in bins],
            customdata=[(seed, each.n) for seed, each in bins],
            mode="markers",
            name=label(modalities),
            marker={"color": colour, "symbol": symbol, "size": 8},
            hovertemplate=f"{label(modalities)}, seed %{{customdata[0]}}: score %{{x:.3f}}, rating %{{y:.3f}}, "
            "n %{customdata[1]}<extra></extra>",
        )
    if not rows:
        return None
    figure.update_layout(
        xaxis={"title": "mean score"}, yaxis={"title": "mean rating, 0 to 1", "range": [-0.05, 1.05]}, showlegend=True
    )
    alt = (
        "The mean rating of scores that lie beside each other, ten groups for each seed; true scores lie on the dashed "
        f"line. The farthest group is off by {widest:.2f}."
    )
    headings = ("modalities", "seed", "mean score", "mean rating", "n")
    return Chart(key, "How true its scores are", alt, figure, headings, rows, height=320)


def _spread(given: Given, key: str) -> Chart | None:
    figure, rows, means = go.Figure(), [], []
    for (modalities, runs), colour, symbol in zip(given.items(), cycle(COLOURS), cycle(_SYMBOLS), strict=False):
        people = [(run.run.seed, each) for run in runs for each in by_participant(run.scored)]
        people = [(seed, each) for seed, each in people if each.n]
        means += [each.mse for _, each in people]
        rows += [
            (
                modalities,
                seed,
                each.participant,
                each.n,
                "–" if math.isnan(each.r) else f"{each.r:.3f}",
                f"{each.mse:.4f}",
            )
            for seed, each in people
        ]
        figure.add_scatter(
            x=[label(modalities)] * len(people),
            y=[each.mse for _, each in people],
            customdata=[(label(each.participant), seed, each.n) for seed, each in people],
            mode="markers",
            name=label(modalities),
            marker={"color": colour, "symbol": symbol, "size": 8},
            hovertemplate="%{customdata[0]}, seed %{customdata[1]}: MSE %{y:.4f}, n %{customdata[2]}<extra></extra>",
        )
    if not means:
        return None
    figure.update_layout(
        xaxis={"type": "category"}, yaxis={"title": "MSE of one participant", "rangemode": "tozero"}, showlegend=False
    )
    alt = (
        f"One mark for each participant and seed: MSE from {min(means):.3f} to {max(means):.3f}, "
        f"median {statistics.median(means):.3f}."
    )
    headings = ("modalities", "seed", "participant", "n", "r", "MSE")
    return Chart(key, "For whom", alt, figure, headings, rows, height=320)
