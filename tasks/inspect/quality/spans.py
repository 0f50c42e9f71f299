"""Spans of time in which something holds throughout."""

from __future__ import annotations

import numpy as np

from tasks.inspect.quality.findings import Span


def spans_where(flags: np.ndarray, time: np.ndarray, end_s: float, at_least_s: float) -> tuple[Span, ...]:
    """The spans in which ``flags`` is set throughout; a row lasts until the next one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    times = np.append(time, end_s)
    spans = [(float(times[start]), float(times[stop])) for start, stop in edges.reshape(-1, 2)]
    return tuple(span for span in spans if span[1] - span[0] >= at_least_s - 1e-9)


def merged(spans: tuple[Span, ...], gap_s: float) -> tuple[Span, ...]:
    """Spans with less than ``gap_s`` between them become one."""
    merged: list[Span] = []
    for start, stop in spans:
        if merged and start - merged[-1][1] < gap_s:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return tuple(merged)


def total_s(spans: tuple[Span, ...]) -> float:
    return sum(stop - start for start, stop in spans)
