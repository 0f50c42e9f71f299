"""Tables as text: Markdown and LaTeX for people (x 100, three decimals), CSV and plain data for others (fractions)."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any

from storyframes_empathy.scores.evaluation import Evaluation, ScoredRun
from storyframes_empathy.scores.tables import METRICS, Cell, Row, Table

HEADINGS = {"r": "r", "rho": "ρ", "acc": "Acc", "f1": "F1", "mse": "MSE", "phi": "φ"}
_TEX_HEADINGS = {"r": "$r$", "rho": r"$\rho$", "acc": "Acc", "f1": "F1", "mse": "MSE", "phi": r"$\varphi$"}
LAST_COLUMNS = ["RMSE", "prevalence", "n", "sessions", "people"]
"""What stands behind the metrics that are compared, where a table is not the paper's own."""
_MARKDOWN = "\\`*_[]|#!~"
_TEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
}
_LEGEND = (
    "x 100. r, ρ: Pearson's and Spearman's correlation of scores and ratings; φ: the correlation of both when they are "
    "cut in two (docs/benchmark.md). RMSE, sessions and people are not x 100: RMSE is on the label's own scale. ±: "
    "standard deviation over seeds. The best is bold and the second underlined, where they are better than every "
    "baseline; a number that is not defined is –."
)


class Format(StrEnum):
    """What a table is written as."""

    MD = "md"
    CSV = "csv"
    TEX = "tex"


def written(tables: Sequence[Table], evaluation: Evaluation, kind: Format) -> str:
    """All tables, with what has to be known of them.

    Args:
        tables: those of the evaluation, and published ones.
        evaluation: of which they are; its notes are written with them, save as CSV.
        kind: as what.
    """
    match kind:
        case Format.MD:
            parts = [*(_markdown(table) for table in tables), _LEGEND]
            parts += ["\n".join(f"- {_escape_markdown(note)}" for note in evaluation.notes)] if evaluation.notes else []
            return "\n\n".join(parts) + "\n"
        case Format.TEX:
            notes = [f"% {' '.join(note.split())}" for note in evaluation.notes]
            return "\n".join([*(_tex(table) for table in tables), *notes, ""])
        case Format.CSV:
            return _csv(tables)


def cell_text(row: Row, metric: str) -> str:
    """``mean ± sd`` times 100; a dash where it is not defined, empty where there are no runs."""
    cell = row.cells.get(metric)
    if cell is None:
        return ""
    if math.isnan(cell.mean):
        return "–"
    write = (lambda value: f"{value:.3g}") if metric == "rmse" else _times_100
    text = write(cell.mean) if math.isnan(cell.sd) else f"{write(cell.mean)} ± {write(cell.sd)}"
    return text if cell.defined == cell.seeds else f"{text} ({cell.defined} of {cell.seeds} seeds)"


def _times_100(value: float) -> str:
    text = f"{100 * value:.3f}"
    return text.removeprefix("-") if float(text) == 0 else text


def _columns(table: Table) -> list[tuple[str, Callable[[Row], str]]]:
    """The columns beside the metrics that a table needs; the level only where rows differ in it."""
    columns: list[tuple[str, Callable[[Row], str]]] = [("model", lambda row: row.model)]
    columns.append(("modalities", lambda row: row.modalities))
    if len(table.levels) > 1:
        columns.append(("level", lambda row: row.level or ""))
    if not table.published:
        columns.append(("seeds", lambda row: str(row.seeds) if row.seeds else ""))
    return columns


def _body(table: Table, bold: str, underlined: str, escape: Callable[[str], str]) -> Iterator[list[str]]:
    places = {metric: table.places(metric) for metric in METRICS}
    about = _columns(table)
    for number, row in enumerate(table.rows):
        line = [escape(get(row)) for _, get in about]
        for metric in shown_metrics(table):
            text = escape(cell_text(row, metric))
            place = places[metric].get(number)
            line.append({1: bold, 2: underlined}.get(place or 0, "{}").replace("{}", text) if text else "")
        if not table.published:
            line += [escape(cell_text(row, name)) for name in ("rmse", "prevalence")]
            line += [count_text(count) for count in (row.n, row.sessions, row.people)]
        yield line


def shown_metrics(table: Table) -> list[str]:
    """The metrics that a table has columns for: the paper prints no φ."""
    return [metric for metric in METRICS if metric != "phi" or not table.published]


def count_text(count: tuple[int, int] | None) -> str:
    """How many: one number, or from the fewest to the most of a seed."""
    return "" if count is None else "–".join(str(one) for one in dict.fromkeys(count))


def _titled(table: Table) -> str:
    levels = sorted(table.levels)
    return f"{table.title}; {levels[0]} level" if len(levels) == 1 else table.title


def _markdown(table: Table) -> str:
    headings = [name for name, _ in _columns(table)] + [HEADINGS[metric] for metric in shown_metrics(table)]
    headings += [] if table.published else LAST_COLUMNS
    lines = [headings, ["---"] * len(headings), *_body(table, "**{}**", "<u>{}</u>", _escape_markdown)]
    return f"### {_escape_markdown(_titled(table))}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escape_markdown(text: str) -> str:
    text = " ".join(text.split())
    for character in _MARKDOWN:
        text = text.replace(character, f"\\{character}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _tex(table: Table) -> str:
    about = [_escape_tex(name) for name, _ in _columns(table)]
    headings = about + [_TEX_HEADINGS[metric] for metric in shown_metrics(table)]
    headings += [] if table.published else LAST_COLUMNS
    body = [f"{' & '.join(line)} \\\\" for line in _body(table, r"\textbf{{}}", r"\underline{{}}", _escape_tex)]
    return "\n".join(
        [
            f"% {_titled(table)}; x 100; needs the package booktabs",
            rf"\begin{{tabular}}{{{'l' * len(about)}{'r' * (len(headings) - len(about))}}}",
            r"\toprule",
            f"{' & '.join(headings)} \\\\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _escape_tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in " ".join(text.split()))


def _csv(tables: Sequence[Table]) -> str:
    """A line for each row; plain fractions, an empty cell where there is not a number."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    about = ["phase", "scheme", "minimum", "maximum", "threshold"]
    metrics = [*METRICS, "rmse", "prevalence"]
    parts = [f"{metric}_{part}" for metric in metrics for part in ("mean", "sd", "defined")]
    writer.writerow(["table", "published", *about, *_CSV_ROW, *parts])
    for table in tables:
        for row in table.rows:
            line = [table.title, table.published, *(table.about.get(key, "") for key in about)]
            line += [row.model, row.modalities, row.level or "", row.seeds, row.is_baseline]
            line += [number for count in (row.n, row.sessions, row.people) for number in count or ("", "")]
            for metric in metrics:
                cell = row.cells.get(metric, Cell(math.nan, math.nan, 0, 0))
                line += ["" if math.isnan(one) else repr(one) for one in (cell.mean, cell.sd)]
                line.append(str(cell.defined) if metric in row.cells else "")
            writer.writerow(line)
    return stream.getvalue()


_COUNTS = [f"{what}_{which}" for what in ("n", "sessions", "people") for which in ("fewest", "most")]
_CSV_ROW = ("model", "modalities", "level", "seeds", "baseline", *_COUNTS)


def content(tables: Sequence[Table], evaluation: Evaluation) -> dict[str, Any]:
    """Everything there is, as plain data: tables, runs with their intervals, notes, faults; NaN where undefined."""
    return {
        "level": evaluation.level,
        "split": evaluation.split,
        "tables": [_table_content(table) for table in tables],
        "runs": [_run_content(run) for run in evaluation.runs],
        "notes": list(evaluation.notes),
        "faults": list(evaluation.faults),
        "leaks": list(evaluation.leaks),
        "off_scale": list(evaluation.off_scale),
    }


def _table_content(table: Table) -> dict[str, Any]:
    places = {metric: table.places(metric) for metric in METRICS}
    rows = []
    for number, row in enumerate(table.rows):
        plain = dataclasses.asdict(row)
        for metric, cell in plain["cells"].items():
            cell["place"] = places.get(metric, {}).get(number)
        rows.append(plain)
    return {"title": table.title, "published": table.published, **table.about, "rows": rows}


def _run_content(one: ScoredRun) -> dict[str, Any]:
    run = one.run
    record = run.model_dump(mode="json", include={"phase", "model", "variant", "modalities", "seed", "scheme", "label"})
    record |= {"level": one.scored.level, "fingerprint": run.fingerprint, "folder": str(one.folder)}
    record["participants"] = len(set(one.scored.participants.tolist()))
    record["metrics"] = dataclasses.asdict(one.metrics)
    if one.intervals is not None:
        record["intervals"] = {name: dataclasses.asdict(interval) for name, interval in one.intervals.items()}
        record["p_permutation"] = one.p
    return record
