"""Tables of synchrony: one row per session and pair, per window, and per pair of the whole study."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np
import pandas as pd

from storyframes_dyads.circular_null import RankedEstimate
from storyframes_dyads.signals import SignalPair
from storyframes_dyads.synchrony import SessionSynchrony, holm

LEVEL = 0.05
"""The largest p at which a direction is said."""

ClockErrors = Mapping[str, Mapping[str, float]]
"""The standard errors of tracks' clocks, seconds, by session and track."""


def session_table(
    results: Iterable[SessionSynchrony], clock_errors: ClockErrors = MappingProxyType({})
) -> pd.DataFrame:
    """A row per session and pair; Holm's correction is over the pairs of a session.

    ``synchrony`` and its null are means of Fisher's z of the windows' highest correlations. ``lag_uncertainty_s`` is
    half a step of the grid and twice the standard error, of the windows and of the clocks.
    """
    rows = [
        {
            "session_id": result.session_id,
            "first": str(result.pair.first),
            "second": str(result.pair.second),
            "rate": result.rate,
            "shared": result.shared,
            "windows": len(result.start_s),
            "windows_with_peak": int(np.isfinite(result.peaks.height).sum()),
            "synchrony": result.ranked.estimate,
            "null_median": result.ranked.null_median,
            "null_95": result.ranked.null_95,
            "p": result.ranked.p,
            "lag_s": result.lag_s,
            **_uncertainty(result, clock_errors.get(result.session_id, {})),
            **{f"{name}{suffix}": value for name, also in result.also.items() for suffix, value in _also(also)},
        }
        for result in results
    ]
    table = pd.DataFrame(rows)
    if len(table):
        corrected = table.groupby("session_id", sort=False)["p"].transform(lambda p: holm(p.to_numpy()))
        table.insert(table.columns.get_loc("p") + 1, "p_holm", corrected)
    return table


def _uncertainty(result: SessionSynchrony, clock_errors: Mapping[str, float]) -> dict[str, float | str]:
    """How far the lag may be off, and what it says in words."""
    clock = _clock_error(result.pair, clock_errors)
    known = [error for error in (result.lag_spread_s, clock) if math.isfinite(error)]
    uncertainty = 0.5 / result.rate + 2 * math.hypot(*known)
    words = direction(result.pair, result.lag_s, uncertainty, result.ranked.p)
    return {"clock_error_s": clock, "lag_uncertainty_s": uncertainty, "direction": words}


def _clock_error(pair: SignalPair, clock_errors: Mapping[str, float]) -> float:
    """The standard error of one person's clock on the other's; NaN where a track's is not known."""
    tracks = {name.feature.partition("@")[2] for name in (pair.first, pair.second)}
    if len(tracks) == 1:
        return 0.0
    return math.hypot(*(clock_errors.get(track, math.nan) for track in tracks if track))


def _also(estimate: RankedEstimate) -> list[tuple[str, float]]:
    return [
        ("", estimate.estimate),
        ("_null_median", estimate.null_median),
        ("_null_95", estimate.null_95),
        ("_p", estimate.p),
    ]


def window_table(results: Iterable[SessionSynchrony]) -> pd.DataFrame:
    """A row per session, pair and window: its times, the lag of its peak in seconds, and its height."""
    parts = [
        pd.DataFrame(
            {
                "session_id": result.session_id,
                "first": str(result.pair.first),
                "second": str(result.pair.second),
                "start_s": result.start_s,
                "end_s": result.start_s + result.windows.length / result.rate,
                "lag_s": result.peaks.lag / result.rate,
                "height": result.peaks.height,
            }
        )
        for result in results
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def study_table(sessions: pd.DataFrame, ranked: Mapping[SignalPair, RankedEstimate]) -> pd.DataFrame:
    """A row per pair: its mean over sessions beside pseudo-dyads; Holm's correction is over the pairs."""
    rows = []
    for pair, result in ranked.items():
        of_pair = sessions[(sessions["first"] == str(pair.first)) & (sessions["second"] == str(pair.second))]
        rows.append(
            {
                "first": str(pair.first),
                "second": str(pair.second),
                "sessions": len(of_pair),
                "synchrony": result.estimate,
                "null_median": result.null_median,
                "null_95": result.null_95,
                "dealings": result.count,
                "p": result.p,
                "lag_s_median": float(of_pair["lag_s"].median()),
            }
        )
    table = pd.DataFrame(rows)
    if len(table):
        table.insert(table.columns.get_loc("p") + 1, "p_holm", holm(table["p"].to_numpy()))
    return table


def direction(pair: SignalPair, lag_s: float, uncertainty_s: float, p: float) -> str:
    """A lag in words; there is no direction where the two move together no more than chance, or 0 is within reach.

    Example:
        >>> from storyframes_dyads.signals import SignalName
        >>> pair = SignalPair(SignalName.parse("openface@a:AU12_r"), SignalName.parse("openface@b:AU12_r"))
        >>> direction(pair, 0.4, 0.05, p=0.01)
        'openface@a leads openface@b by 0.40 s (± 0.05 s)'
        >>> direction(pair, 0.4, 0.5, p=0.01), direction(pair, 0.4, 0.05, p=0.2)
        ('neither leads for certain (0.40 ± 0.50 s)', 'no more than chance')
    """
    first, second = pair.first.feature, pair.second.feature
    if first == second:
        first, second = str(pair.first), str(pair.second)
    if not p <= LEVEL:
        return "no more than chance"
    if not math.isfinite(lag_s):
        return "no lag within reach"
    if abs(lag_s) <= uncertainty_s:
        return f"neither leads for certain ({lag_s:.2f} ± {uncertainty_s:.2f} s)"
    leader, follower = (first, second) if lag_s > 0 else (second, first)
    return f"{leader} leads {follower} by {abs(lag_s):.2f} s (± {uncertainty_s:.2f} s)"
