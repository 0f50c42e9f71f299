"""What a notebook shows of features, stores and datasets: small tables in HTML, with drawings in SVG; and plots.

Everything is escaped. No value of a feature and no text of a study is shown: names, numbers of rows, which rows are
measurements, and how many clips there are.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from storyframes.installation import install_line
from storyframes.spec import Axis

if TYPE_CHECKING:
    import pandas as pd

WIDTH, HEIGHT = 160, 14  # of a drawing, pixels
KEYS = {*map(str, Axis), "point", "end", "device_end"}  # columns that say which row it is
MOST = 12  # columns that are plotted where none are named


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
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ModuleNotFoundError(f"plot needs matplotlib: {install_line('explore')}", name="matplotlib") from None
    numbers = [name for name in frame.columns if frame[name].dtype.kind in "fiu" and name not in KEYS]
    if absent := [name for name in columns or () if name not in numbers]:
        near = difflib.get_close_matches(absent[0], numbers) or [*numbers[:MOST], "…"]
        raise ValueError(f"{frame.attrs['feature']} has no column {absent[0]!r} of numbers; it has {', '.join(near)}")
    chosen = list(columns or numbers[:MOST])
    if axes is None:
        axes = Figure(figsize=(8, 3), layout="constrained").subplots()
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
