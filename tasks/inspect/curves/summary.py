"""A session's curves in a line each, for a terminal: the range of the values and their course in a sparkline."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tasks.inspect.curves.session_curves import SessionCurves
from tasks.inspect.curves.views import ACTION_UNITS

_BARS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 38


@dataclass(frozen=True)
class CurveSummary:
    """One curve.

    Attributes:
        name, unit: what it is.
        low, median, high: of the values that are there; None where none is.
        present: share of the rows that have a value.
        spark: its course, a character for each equal part of the rows; a space where nothing is there.
    """

    name: str
    unit: str
    low: float | None
    median: float | None
    high: float | None
    present: float
    spark: str


def summarize_curves(curves: SessionCurves) -> list[CurveSummary]:
    """Every curve that the session has, in the order of the report's timeline."""
    return [_summary(name, unit, values) for name, unit, values in _named(curves) if len(values)]


def _named(curves: SessionCurves) -> Iterator[tuple[str, str, np.ndarray]]:
    for face in curves.faces:
        yield "face tracked" if len(curves.faces) == 1 else f"face tracked, {face.feature}", "", face.tracked
    if curves.confidence is not None:
        yield "confidence", "0..1", curves.confidence
    if curves.head_pose is not None:
        for name, values in zip(("pitch", "yaw", "roll"), curves.head_pose.T, strict=True):
            yield f"head {name}", "°", values
    if curves.gaze is not None:
        for name, values in zip(("sideways", "vertical"), curves.gaze.T, strict=True):
            yield f"gaze {name}", "°", values
    if curves.action_units is not None:
        for unit in ("AU04_r", "AU06_r", "AU12_r"):
            yield unit.removesuffix("_r"), "0..5", curves.action_units[:, ACTION_UNITS.index(unit)]
    if curves.loudness is not None:
        yield "loudness", "dB", curves.loudness
    if curves.f0 is not None:
        yield "F0", "Hz", curves.f0
    if curves.change is not None:
        yield "picture change", "", curves.change
    for name, found in (("body", curves.body), ("hands", curves.hands)):
        if found is not None:
            yield f"{name} found", "", np.where(found < 0, np.nan, found)
    for one in curves.others:
        for name, values in zip(one.names, one.values.T, strict=True):
            yield one.title if name == one.array else f"{one.title} {name}", one.unit, values


def _summary(name: str, unit: str, values: np.ndarray) -> CurveSummary:
    there = values[np.isfinite(values)].astype(np.float64)
    low, median, high = (float(value) for value in np.percentile(there, (0, 50, 100))) if len(there) else (None,) * 3
    return CurveSummary(name, unit, low, median, high, len(there) / len(values), sparkline(values))


def sparkline(values: np.ndarray, width: int = SPARK_WIDTH) -> str:
    """The course of ``values`` (n,): means of ``width`` equal parts, from the smallest mean to the largest."""
    parts = np.array_split(np.where(np.isfinite(values), values, np.nan).astype(np.float64), min(width, len(values)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a part without a value has no mean: a space
        means = np.array([np.nanmean(part) for part in parts])
        low, high = np.nanmin(means), np.nanmax(means)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if np.isnan(mean) else _BARS[round((mean - low) * scale)] for mean in means)
