"""What a notebook shows of features, stores and datasets: small tables in HTML, with drawings in SVG; and plots.

Everything is escaped. No value of a feature and no text of a study is shown: names, numbers of rows, which rows are
measurements, and how many clips there are.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from storyframes.array_roles import Curve
from storyframes.installation import install_line
from storyframes.spec import MAIN, Axis

WIDTH, HEIGHT = 160, 14  # of a drawing, pixels
# columns that say which row it is
KEYS = {*map(str, Axis), "point", "start", "end", "device_time", "device_start", "device_end"}
MOST = 12  # columns that are plotted where none are named
ToSession = Callable[[str, Any], np.ndarray]  # (track, seconds) to seconds of the session


class Drawing(str):
    """A cell that is SVG already; every other cell is escaped."""


def html_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()) -> str:
    """A table below a title, with a line for each note."""
    head = "".join(f"<th style='text-align:left'>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return f"<div><b>{escape(title)}</b><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}</div>"


def percent(share: float) -> str:
    """A share, 0 to 1, as "25%"; what is not none or all of it is not rounded to that."""
    if 0 < share < 0.01:
        return "under 1%"
    return "over 99%" if 0.99 < share < 1 else f"{share:.0%}"


def _cell(value: object) -> str:
    return str(value) if isinstance(value, Drawing) else escape(str(value))


def strip(shares: np.ndarray) -> Drawing:
    """A line from left to right that is as high as the shares.

    Args:
        shares: (n,), each 0 to 1; of many the means of 80 parts are drawn.
    """
    if not len(shares):
        return Drawing("")
    parts = np.array_split(np.asarray(shares, float), min(len(shares), 80))
    width = WIDTH / len(parts)
    bars = (
        f"<rect x='{place * width:.1f}' y='{HEIGHT - high:.1f}' width='{width:.1f}' height='{high:.1f}'/>"
        for place, high in enumerate(HEIGHT * part.mean() for part in parts)
        if high > 0
    )
    frame = f"<rect width='{WIDTH}' height='{HEIGHT}' fill='#8884'/>"
    return Drawing(f"<svg width='{WIDTH}' height='{HEIGHT}'>{frame}<g fill='#3b7dd8'>{''.join(bars)}</g></svg>")


def plot_columns(frame: pd.DataFrame, columns: Sequence[str] | None, axes: Any) -> Any:
    """Draw columns of a feature's data frame against its times; see :meth:`SessionView.plot`.

    Raises:
        ValueError: a column is not there.
        ModuleNotFoundError: matplotlib is not installed; the message says how to get it.
    """
    figure = _figure_class()
    numbers = [name for name in frame.columns if frame[name].dtype.kind in "fiu" and name not in KEYS]
    if absent := [name for name in columns or () if name not in numbers]:
        near = difflib.get_close_matches(absent[0], numbers) or [*numbers[:MOST], "…"]
        raise ValueError(f"{frame.attrs['feature']} has no column {absent[0]!r} of numbers; it has {', '.join(near)}")
    chosen = list(columns or numbers[:MOST])
    if axes is None:
        axes = figure(figsize=(8, 3), layout="constrained").subplots()
    measured = frame["mask"].to_numpy(bool) if "mask" in frame else np.ones(len(frame), bool)
    times = frame.index.to_numpy()
    for name in chosen:  # a gap where a row is no measurement
        axes.plot(times, np.where(measured, frame[name].to_numpy(float), np.nan), label=name, linewidth=0.8)
    of_all = f" ({len(chosen)} of {len(numbers)} columns)" if len(chosen) < len(numbers) else ""
    axes.set_title(f"{frame.attrs['session_id']}: {frame.attrs['feature']}{of_all}")
    units = {frame.attrs["units"].get(name, "") for name in chosen}
    axes.set(xlabel="s" if frame.index.name else "row", ylabel=units.pop() if len(units) == 1 else "")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="x-small")
    return axes


def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ModuleNotFoundError(f"plot needs matplotlib: {install_line('explore')}", name="matplotlib") from None
    return Figure


# --- curves of any feature over one time axis ---


class Band(NamedTuple):
    """A label that holds from one second of the session to another."""

    lane: str  # whose, or what about: lanes lie above each other
    start_s: float
    end_s: float
    value: Any


def draw_curves(title: str, curves: Sequence[Curve], bands: Sequence[Band], axes: Any) -> Any:
    """Curves over one time axis, each unit in axes of its own, with bands behind them; see :meth:`SessionView.plot`.

    Raises:
        ValueError: one axes is given for curves of several units.
        ModuleNotFoundError: matplotlib is not installed; the message says how to get it.
    """
    figure = _figure_class()
    units = list(dict.fromkeys(curve.unit for curve in curves))
    if axes is None:
        drawing = figure(figsize=(8, 1 + 2 * len(units)), layout="constrained")
        axes = drawing.subplots(len(units), sharex=True, squeeze=False)[:, 0]
    elif len(units) > 1:
        raise ValueError(f"one axes cannot show several units ({', '.join(map(repr, units))}): leave ax out")
    every = np.atleast_1d(axes)
    for panel, unit in zip(every, units, strict=False):
        for curve in curves:
            if curve.unit == unit:
                panel.plot(curve.time, curve.values, label=curve.name, linewidth=0.8)
        panel.set_ylabel(unit)
        _draw_bands(panel, bands)
        panel.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="x-small")
    every[0].set_title(title)
    every[-1].set_xlabel("s")
    return axes


def label_bands(labels: pd.DataFrame, session_id: str, to_session: ToSession) -> list[Band]:
    """The labelled parts of a session, of rows as the study's table ``labels`` has them.

    Args:
        to_session: gives the session's seconds for a track and seconds of it.

    Raises:
        ValueError: a column is missing, the rows are of several schemes, or a track's clock is not known.
    """
    if absent := [name for name in ("start_s", "end_s", "value") if name not in labels]:
        raise ValueError(f"labels has no column {absent[0]!r}; it needs start_s, end_s and value")
    rows = labels[labels["session_id"] == session_id] if "session_id" in labels else labels
    if "scheme" in rows and rows["scheme"].nunique() > 1:
        raise ValueError(f"labels are of several schemes ({', '.join(sorted(set(rows['scheme'])))}): choose one")
    bands = []
    for row in rows.dropna(subset=["start_s", "end_s"]).to_dict("records"):
        lane = ", ".join(str(row[key]) for key in ("rater_id", "person_id", "target") if pd.notna(row.get(key)))
        track = row["track"] if pd.notna(row.get("track")) else MAIN
        start, end = to_session(track, [row["start_s"], row["end_s"]])
        bands.append(Band(lane, start, end, row["value"]))
    return bands


def clip_bands(index: pd.DataFrame, session_id: str, scheme: str, to_session: ToSession) -> list[Band]:
    """The labels of a session's windows, of the clip index: a moment has that of the window with the nearest middle.

    Raises:
        ValueError: the index has no such labels, or the clock of its track is not known.
    """
    schemes = index.attrs.get("schemes", {})
    if scheme not in schemes:
        raise ValueError(f"the clip index has no labels {scheme!r}; it has {', '.join(schemes) or 'none'}")
    rows = index[index["session_id"] == session_id].sort_values("start_s")
    bands: list[Band] = []
    targets = rows["target"] if "target" in rows else rows["story_id"]  # format 1 had no target
    for target, windows in rows.groupby(targets.astype("string").fillna("")):
        seconds = windows[["start_s", "stop_s"]].to_numpy(float)
        start, stop = to_session(index.attrs.get("track", MAIN), seconds).T
        between = (start + stop)[:-1] / 4 + (start + stop)[1:] / 4  # halfway from a middle to the next
        start[1:], stop[:-1] = np.maximum(start[1:], between), np.minimum(stop[:-1], between)
        for value, first, last in zip(windows[scheme], start, stop, strict=True):
            if pd.notna(value):
                bands.append(Band(str(target), first, last, value))
    return bands


def _draw_bands(panel: Any, bands: Sequence[Band]) -> None:
    """Bands behind the curves, a colour for each value and a lane for each rater or target."""
    from matplotlib import colormaps

    lanes = list(dict.fromkeys(band.lane for band in bands))
    values = sorted({band.value for band in bands}, key=lambda value: (isinstance(value, str), value))
    palette = colormaps["tab10" if any(isinstance(value, str) for value in values) else "viridis"]
    for number, value in enumerate(values):
        colour = palette(number % 10 if palette.N == 10 else number / max(len(values) - 1, 1))
        for at, lane in enumerate(lanes):
            spans = [
                (band.start_s, band.end_s - band.start_s) for band in bands if (band.value, band.lane) == (value, lane)
            ]
            panel.broken_barh(
                spans,
                (at / len(lanes), 1 / len(lanes)),
                transform=panel.get_xaxis_transform(),
                color=colour,
                alpha=0.25,
                linewidth=0.5,  # a moment has no length, and is seen all the same
                zorder=0,
                label=str(value) if lane == lanes[0] else None,
            )
