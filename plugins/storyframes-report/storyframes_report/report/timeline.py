"""A track's timeline: rows of curves with one time axis, which zoom together."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go

from storyframes import MAIN
from storyframes_report.report.chart import BLUE, COLOURS, GREEN, GREY, ORANGE, TEXT_ON, Chart, label
from storyframes_report.report.downsample import bucket_max, bucket_mean, cell_edges, rows_per_bucket, thin
from storyframes_report.report.packing import deflate_json
from storyframes_report.report.timetable import NUMBERS, Tier, Timetable, Window, in_order, numbers_of, speakers_of
from tasks.inspect import SessionCurves
from tasks.study import Word

_DASHES = ("solid", "dot", "dash")
_SIGNS = ("—", "···", "- -")
_CLEAR_ORANGE = "rgba(213, 94, 0, 0)"
_CLEAR_BLUE = "rgba(31, 120, 180, 0)"
_CLEAR_GREY = "rgba(143, 143, 143, 0)"
_MOST_DEVIATIONS = 3  # of a column from its mean: full colour from there on
_LANES = 8  # overlapping windows are drawn in this many rows
_GAP_S = 1e-3  # between rows of scores
_NAME = 14  # characters of a label beside its band
_GAP_PX, _TOP_PX, _BOTTOM_PX = 30, 34, 44


@dataclass(frozen=True)
class Row:
    """One row of the timeline."""

    title: str  # may contain plotly's tags
    traces: Sequence[go.Bar | go.Heatmap | go.Scatter]
    height: int  # CSS pixels
    axis: dict[str, object]  # plotly's y axis


def timeline(curves: SessionCurves, table: Timetable, key: str = "timeline") -> Chart | None:
    """Everything of a track over time, in seconds of its own recording; None where nothing can be drawn.

    Args:
        table: phases, windows and utterances of the track.
        key: the chart's id on the page.
    """
    rows = [*_spoken_rows(curves, table), *_label_rows(table), *_face_rows(curves), *_sound_rows(curves)]
    rows += [*_change_rows(curves), *_pose_rows(curves), *_score_rows(curves), *_other_rows(curves)]
    rows += _heat_rows(curves)
    times = curves.time if curves.has_frames or curves.sound_time is None else curves.sound_time
    is_main = curves.track == MAIN
    phase_ends = [end_s for *_, end_s in table.phases if is_main]  # another device may end before a phase does
    end = max([curves.length_s, curves.sound_end_s or 0.0, *phase_ends])
    end = end or max((tier.end_s for tier in table.tiers), default=0.0)  # no recording, no phase: labels alone
    if not rows or end <= 0:
        return None
    seconds = "seconds" if is_main else f"seconds of {label(curves.track)}'s own recording"
    figure, height = _stack(rows, (float(min([0.0, *times[:1]])), end), seconds)
    bucket, unit = rows_per_bucket(len(times)), "frames" if curves.has_frames else "rows"
    alt = f"{curves.extent}. Rows from the top: " + ", ".join(
        html.unescape(row.title.split("<")[0]).strip(" :,") for row in rows
    )
    reduced = (
        ""
        if bucket == 1
        else f" Drawn from the smallest and the largest value of each {bucket} {unit}: no peak is lost,"
        " values between them are. 'storyframes view' has every frame."
    )
    change = "" if curves.change is None else " In the change of the picture peaks are cuts and zero is a freeze."
    has_words = any(trace.meta and "words" in trace.meta for row in rows for trace in row.traces)
    words = " Zoomed in, each word is a box, outlined where its times are interpolated." if has_words else ""
    keys = f"{change}{words} Keys: + and − zoom, ← and → move, 0 shows all."
    title = "Timeline" if is_main else f"Timeline of {curves.track}"
    return Chart(key, title, f"{alt}.{reduced}{keys}", figure, NUMBERS, list(numbers_of(curves, table)), height)


def _stack(rows: Sequence[Row], span: tuple[float, float], seconds: str) -> tuple[go.Figure, int]:
    inner = sum(row.height + _GAP_PX for row in rows)
    figure = go.Figure()
    layout: dict[str, object] = {
        "barmode": "overlay",
        "showlegend": False,
        "hovermode": "closest",
        "meta": {"range": list(span)},
        "margin": {"l": 64, "r": 12, "t": _TOP_PX - _GAP_PX, "b": _BOTTOM_PX},
    }
    annotations, below = [], inner
    for number, row in enumerate(rows, start=1):
        suffix = "" if number == 1 else str(number)
        top = (below - _GAP_PX) / inner
        bottom = max((below - _GAP_PX - row.height) / inner, 0.0)
        below -= row.height + _GAP_PX
        layout[f"yaxis{suffix}"] = {"domain": [bottom, top], "anchor": "x", "fixedrange": True, **row.axis}
        annotations.append(
            {
                "text": row.title,
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "y": top,
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
                "align": "left",
            }
        )
        for trace in row.traces:
            trace.update(xaxis="x", yaxis=f"y{suffix}")
            figure.add_trace(trace)
    layout["xaxis"] = {
        "range": list(span),
        "title": {"text": seconds},
        "anchor": f"y{len(rows)}" if len(rows) > 1 else "y",
        "showspikes": True,
        "spikemode": "across",
        "spikethickness": 1,
        "spikecolor": GREY,
        "minallowed": span[0],
        "maxallowed": span[1],
    }
    figure.update_layout(layout, annotations=annotations)
    return figure, inner + _TOP_PX - _GAP_PX + _BOTTOM_PX


# --- speakers, phases, windows ---


def _spoken_rows(curves: SessionCurves, table: Timetable) -> Iterator[Row]:
    traces, names = [], []
    if table.phases:
        names.append("phase")
        traces.append(
            _spans(
                "phase",
                [(start_s, end_s) for _, start_s, end_s in table.phases],
                [label(phase) for phase, *_ in table.phases],
                [label(phase) for phase, *_ in table.phases],
                [COLOURS[number % len(COLOURS)] for number in range(len(table.phases))],
            )
        )
    for number, speech in enumerate(speakers_of(curves, table)):
        name = label(speech.speaker)
        names.append(f"‘{name}’" if name == "phase" else name)
        hover = [label(text or speech.speaker) for text in speech.texts] or [name] * len(speech.spans)
        bars = _spans(names[-1], speech.spans, hover, None, [COLOURS[number % len(COLOURS)]] * len(hover))
        traces.append(bars.update(meta={"words": _packed_words(speech.words)} if speech.words else None))
    if traces:
        axis = {"type": "category", "categoryorder": "array", "categoryarray": names[::-1], "automargin": True}
        yield Row("Phases and utterances", traces, 26 * len(names) + 8, axis)
    if table.windows:
        about = f"click one to see {'its labels' if any(window.labels for window in table.windows) else 'more'}"
        yield Row(f"Windows ({len(table.windows)}, {about})", [_window_bars(table.windows)], 84, {"visible": False})


def _spans(
    name: str,
    spans: Sequence[tuple[float, float]],
    hover: Sequence[str],
    inside: Sequence[str] | None,
    colours: Sequence[str],
) -> go.Bar:
    return go.Bar(
        name=name,
        orientation="h",
        y=[name] * len(spans),
        base=[start for start, _ in spans],
        x=[stop - start for start, stop in spans],
        text=inside,
        textposition="inside",
        insidetextanchor="middle",
        textfont={"color": [TEXT_ON[colour] for colour in colours]} if inside else None,
        customdata=hover,
        marker={"color": colours if len(set(colours)) != 1 else colours[0], "line": {"width": 0}},
        hovertemplate="%{customdata}<br>%{base:.2f} to %{x:.2f} s<extra></extra>",
    )


def _packed_words(words: Sequence[Word]) -> dict[str, str]:
    """Words for the page's script, which draws those in sight; plotly would be slow. Times are hundredths of 1 s."""
    words = in_order(words)
    starts = np.round([100 * word.start_s for word in words]).astype(int)
    return deflate_json(
        {
            "steps": np.diff(starts, prepend=0).tolist(),
            "lengths": [round(100 * (word.end_s - word.start_s)) for word in words],
            "interpolated": [int(not word.timed) for word in words],
            "texts": [word.text for word in words],
        }
    )


def _window_bars(windows: Sequence[Window]) -> go.Bar:
    return go.Bar(
        name="windows",
        meta="windows",
        orientation="h",
        y=-(np.arange(len(windows)) % _LANES).astype(np.int8),
        base=np.array([window.start_s for window in windows], np.float64),
        x=np.array([window.stop_s - window.start_s for window in windows], np.float64),
        width=0.8,
        textposition="none",  # their names are with what the page says of them, and read by its script
        marker={"color": BLUE, "line": {"width": 0}},
        hovertemplate="%{text}<extra></extra>",
    )


# --- labels ---


def _label_rows(table: Timetable) -> Iterator[Row]:
    """Names as bands, a tier for each rater; numbers as steps and curves, a line for each rater, so that their spread
    is seen."""
    schemes = {tier.scheme.name: tier.scheme for tier in table.tiers}
    for name, scheme in schemes.items():
        tiers = [tier for tier in table.tiers if tier.scheme.name == name]
        if scheme.is_numeric:
            names = [label(tier.name) or "labels" for tier in tiers]
            lines = [_steps(tier, names[number], number) for number, tier in enumerate(tiers)]
            bounds = [scheme.minimum, scheme.maximum]
            axis: dict[str, object] = {} if None in bounds else {"range": bounds}
            yield Row(_named(label(name), names) if any(tier.name for tier in tiers) else label(name), lines, 92, axis)
            continue
        values = list(scheme.labels) or sorted({str(value) for tier in tiers for *_, value in tier.spans})
        bars = []
        for tier in tiers:
            texts = [label(value) for *_, value in tier.spans]
            colours = [
                COLOURS[values.index(str(value)) % len(COLOURS)] if str(value) in values else GREY
                for *_, value in tier.spans
            ]
            times = [(start, end) for start, end, _ in tier.spans]
            bars.append(_spans(label(tier.name) or "labels", times, texts, texts, colours))
            bars[-1].marker.line = {"width": 1, "color": colours}  # a moment has no length, and is seen all the same
        axis = {"type": "category", "autorange": "reversed", "automargin": True}
        yield Row(label(name), bars, 26 * len(tiers) + 8, axis)


def _steps(tier: Tier, name: str, number: int) -> go.Scatter:
    if tier.curve is not None:
        return _line(name, tier.curve.time_s, tier.curve.value, number)
    x = [moment for start, end, _ in tier.spans for moment in (start, end, None)]
    y = [height for *_, value in tier.spans for height in (value, value, None)]
    line = _line(name, np.empty(0), np.empty(0), number)
    return line.update(x=x, y=y, mode="lines+markers", marker={"size": 4})


# --- curves ---


def _line(
    name: str, time: np.ndarray, values: np.ndarray, number: int = 0, *, colour: str = "", unit: str = ""
) -> go.Scatter:
    thinned = thin(time, values)
    return go.Scatter(
        name=name,
        x=thinned.x,
        y=thinned.y,
        mode="lines",
        connectgaps=False,
        line={"color": colour or _colour(number), "width": 1.4, "dash": _DASHES[_dash(number)]},
        hovertemplate=f"{name} %{{y:.3~g}} {unit}<br>%{{x:.2f}} s<extra></extra>",
    )


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _dash(number: int) -> int:
    """The dash of a line: lines of one colour have different dashes, and so have neighbours."""
    return (number % len(COLOURS) + number // len(COLOURS)) % len(_DASHES)


def _named(title: str, names: Sequence[str]) -> str:
    """A title with a legend of the lines' colours and dashes."""
    keys = [
        f"<span style='color:{_colour(number)}'>{_SIGNS[_dash(number)]}</span> {name}"
        for number, name in enumerate(names)
    ]
    return f"{title}: {', '.join(keys)}"


def _lines(title: str, names: Sequence[str], time: np.ndarray, values: np.ndarray, unit: str) -> Row:
    traces = [
        _line(name, time, column, number, unit=unit)
        for number, (name, column) in enumerate(zip(names, values.T, strict=True))
    ]
    return Row(_named(title, names), traces, 92, {"zeroline": True})


def _strip(
    name: str, time: np.ndarray, values: np.ndarray, names: Sequence[str], scale: list[Any], top: float
) -> go.Heatmap:
    x, z, rows = bucket_max(time, values)
    note = "" if rows == 1 else f" (largest of {rows} frames)"
    return go.Heatmap(
        name=name,
        x=x,
        y=list(names),
        z=z,
        zmin=0,
        zmax=top,
        colorscale=scale,
        showscale=False,
        hoverongaps=False,
        hovertemplate=f"%{{y}} %{{z:.1f}}{note}<br>%{{x:.2f}} s<extra></extra>",
    )


def _lost_strip(time: np.ndarray, tracked: np.ndarray) -> go.Heatmap:
    """The share of each bucket's frames without a face, above the confidence: transparent is 0, full colour is 1."""
    x, share, rows = bucket_mean(time, np.where(tracked, 0.0, 1.0)[:, None])
    return go.Heatmap(
        name="lost",
        x=x,
        y=[1.06, 1.18],
        z=share,
        zmin=0,
        zmax=1,
        colorscale=[[0, _CLEAR_ORANGE], [1, ORANGE]],
        showscale=False,
        hovertemplate=f"face lost in %{{z:.0%}} of {rows} frame{'s' * (rows > 1)}<br>%{{x:.2f}} s<extra></extra>",
    )


def _face_rows(curves: SessionCurves) -> Iterator[Row]:
    if curves.tracked is not None and curves.confidence is not None:
        strip = _lost_strip(curves.time, curves.tracked)
        line = _line("confidence", curves.time, curves.confidence, colour=BLUE)
        title = f"Face: <span style='color:{BLUE}'>—</span> confidence, <span style='color:{ORANGE}'>■</span> lost"
        yield Row(title, [line, strip], 72, {"range": [-0.05, 1.22], "tickvals": [0, 0.5, 1]})
    if curves.head_pose is not None:
        yield _lines("Head pose, degrees", ("pitch", "yaw", "roll"), curves.time, curves.head_pose, "°")
    if curves.gaze is not None:
        yield _lines("Gaze angle, degrees", ("sideways", "vertical"), curves.time, curves.gaze, "°")
    if curves.action_units is not None:
        names = [name.removesuffix("_r") for name in SessionCurves.CHOSEN_UNITS]
        chosen = curves.action_units[:, [SessionCurves.ACTION_UNITS.index(name) for name in SessionCurves.CHOSEN_UNITS]]
        yield _lines("Action units, 0 to 5", names, curves.time, chosen, "")
        every = [name.removesuffix("_r") for name in SessionCurves.ACTION_UNITS]
        heat = _strip("action units", curves.time, curves.action_units, every, "Viridis", 5)  # type: ignore[arg-type]
        axis = {"autorange": "reversed", "type": "category", "tickfont": {"size": 10}, "showgrid": False}
        yield Row("All action units: dark 0, yellow 5", [heat], 210, axis)


def _sound_rows(curves: SessionCurves) -> Iterator[Row]:
    if curves.sound_time is None:
        return
    if curves.loudness is not None:
        line = _line("loudness", curves.sound_time, curves.loudness, colour=BLUE, unit="dB")
        yield Row("Loudness, dB below full scale", [line], 80, {})
    if curves.f0 is not None:
        line = _line("F0", curves.sound_time, curves.f0, colour=GREEN, unit="Hz")
        yield Row("F0, Hz", [line], 80, {"rangemode": "tozero"})


def _change_rows(curves: SessionCurves) -> Iterator[Row]:
    if curves.change is not None:
        line = _line("change", curves.time, curves.change, colour=ORANGE)
        title = "Change of the picture (ResNet50)"
        yield Row(title, [line], 80, {"rangemode": "tozero"})


def _pose_rows(curves: SessionCurves) -> Iterator[Row]:
    if curves.body is not None and curves.hands is not None:
        counts = np.stack([curves.body, curves.hands / 2], axis=1).astype(np.float32)
        counts[curves.body < 0] = np.nan
        strip = _strip("poses", curves.time, counts, ["body", "hands"], [[0, "#9a9aa0"], [1, GREEN]], 1)
        title = f"Poses: <span style='color:{GREEN}'>■</span> found, ■ not found"
        yield Row(title, [strip], 52, {"type": "category", "autorange": "reversed", "showgrid": False})


def _other_rows(curves: SessionCurves) -> Iterator[Row]:
    """Features without a special view; their names are escaped, also as templates of plotly's."""
    for array in curves.others:
        if array.time is None or not len(array.time) or not np.isfinite(array.values).any():
            continue
        names = [_plain(name) for name in array.names]
        unit = _plain(array.unit)
        title = _plain(array.title) + (f", {unit}" if unit else "")
        if len(names) > 1 or array.names[0] != array.array:
            yield _lines(title, names, array.time, array.values, unit)
        else:
            yield Row(title, [_line(names[0], array.time, array.values[:, 0], unit=unit)], 80, {"zeroline": True})


def _score_rows(curves: SessionCurves) -> Iterator[Row]:
    """A band for each label, the fuller the higher its score, below the names of those with the highest."""
    for scores in curves.scores:
        if not np.isfinite(scores.values).any():
            continue
        gaps = np.flatnonzero(scores.end[:-1] < scores.time[1:] - _GAP_S)
        starts = np.insert(scores.time, gaps + 1, scores.end[gaps])
        x, z, rows = bucket_max(starts, np.insert(scores.values, gaps + 1, np.nan, axis=0))
        x = np.append(x[: z.shape[1]], np.float32(scores.end[-1]))
        names, feature = [_plain(name) for name in scores.names], _plain(scores.title)
        some = f", highest {len(names)} of {scores.of} labels" if len(names) < scores.of else ""
        if not some and scores.activation == "softmax":
            yield Row(f"{feature}, highest label", [_highest(x, z, names)], 28, {"visible": False})
        low, high = float(np.nanmin(z)) if scores.activation == "none" else 0.0, float(np.nanmax(z))
        note = "" if rows == 1 else f" (largest of {rows} rows)"
        bands = go.Heatmap(
            name=feature,
            x=x,
            y=names,
            z=z,
            zmin=low,
            zmax=high if high > low else low + 1,
            colorscale=[[0, _CLEAR_BLUE], [1, BLUE]],
            showscale=False,
            hoverongaps=False,
            hovertemplate=f"%{{y}} %{{z:.3~g}}{note}<br>%{{x:.2f}} s<extra></extra>",
            ygap=2,
        )
        title = f"{feature}{some}, {low:.3g} to {high:.3g} <span style='color:{BLUE}'>■</span>"
        ticks = [_plain(name if len(name) <= _NAME else f"{name[: _NAME - 1]}…") for name in scores.names]
        axis = {"autorange": "reversed", "type": "category", "tickvals": names, "ticktext": ticks, "automargin": True}
        yield Row(title, [bands], 20 * len(names) + 8, axis | {"showgrid": False})


def _highest(x: np.ndarray, z: np.ndarray, names: Sequence[str]) -> go.Bar:
    """Bars with the names of the labels that have the highest scores (labels, m) between the edges ``x`` (m + 1,)."""
    best = np.where(np.isnan(z).all(axis=0), -1, np.nan_to_num(z, nan=-np.inf).argmax(axis=0))
    firsts = np.flatnonzero(np.diff(best, prepend=-2))
    runs = [(best[first], x[first], x[last]) for first, last in pairwise([*firsts, len(best)]) if best[first] >= 0]
    texts = [names[label] for label, *_ in runs]
    colours = [COLOURS[label % len(COLOURS)] for label, *_ in runs]
    return _spans("highest", [(float(start), float(stop)) for _, start, stop in runs], texts, texts, colours)


def _heat_rows(curves: SessionCurves) -> Iterator[Row]:
    for heat_map in curves.heat_maps:
        names = [_plain(name) for name in heat_map.names]
        note = "" if heat_map.rows == 1 else f" (mean of {heat_map.rows} rows)"
        heat = go.Heatmap(
            name=_plain(heat_map.feature),
            x=cell_edges(heat_map.time, heat_map.end_s, heat_map.rows),
            y=names,
            z=heat_map.values.T.astype(np.float32),
            zmin=-_MOST_DEVIATIONS,
            zmax=_MOST_DEVIATIONS,
            colorscale=[[0, BLUE], [0.5, _CLEAR_GREY], [1, ORANGE]],
            showscale=False,
            hoverongaps=False,
            hovertemplate=f"%{{y}} %{{z:.1f}} standard deviations{note}<br>%{{x:.2f}} s<extra></extra>",
        )
        some = f"{len(names)} of {heat_map.of} columns" if len(names) < heat_map.of else "its columns"
        title = (
            f"{_plain(heat_map.feature)}, {some}: <span style='color:{BLUE}'>■</span> below, "
            f"<span style='color:{ORANGE}'>■</span> above the column's mean over the session"
        )
        axis = {"autorange": "reversed", "type": "category", "showticklabels": False, "showgrid": False}
        yield Row(title, [heat], 170, axis)


def _plain(text: str) -> str:
    """``text`` escaped for a label that plotly also reads as a template of a tooltip."""
    return label(text).replace("{", "&#123;")
