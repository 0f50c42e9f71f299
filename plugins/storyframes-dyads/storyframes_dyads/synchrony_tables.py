"""Tables of synchrony: one row per session and pair, per window, and per pair of the whole study."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd

from storyframes_dyads.circular_null import RankedEstimate
from storyframes_dyads.signals import SignalPair
from storyframes_dyads.synchrony import SessionSynchrony, holm

LEVEL = 0.05
"""The largest p at which a direction is said."""


class TrackClock(NamedTuple):
    """How a track's clock runs, as the clip index has it, and its standard error in seconds; NaN where not known."""

    moments: Sequence[Sequence[float]]
    error_s: float


SESSIONS_OWN = TrackClock([[0.0], [0.0]], 0.0)
Clocks = Mapping[str, Mapping[str, TrackClock]]
"""By session and track; not of the session's own track."""


def session_table(results: Sequence[SessionSynchrony], clocks: Clocks = MappingProxyType({})) -> pd.DataFrame:
    """A row per session and pair; Holm's correction is over the pairs of a session.

    ``synchrony`` and its null are means of Fisher's z of the windows' highest correlations. ``lag_uncertainty_s`` is
    half a step of the grid and twice the standard error, of the windows and, where they are known, of the clocks.
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
            "clock_error_s": (clock_s := clock_error(result.pair, clocks.get(result.session_id, {}))),
            "lag_uncertainty_s": 0.5 / result.rate + 2 * math.hypot(result.lag_spread_s, _known(clock_s)),
            "direction": "",
            **{f"{name}{suffix}": value for name, also in result.also.items() for suffix, value in _also(also)},
        }
        for result in results
    ]
    table = pd.DataFrame(rows)
    if len(table):
        corrected = table.groupby("session_id", sort=False)["p"].transform(lambda p: holm(p.to_numpy()))
        table.insert(table.columns.get_loc("p") + 1, "p_holm", corrected)
        lags = zip(table["lag_s"], table["lag_uncertainty_s"], table["p_holm"], table["clock_error_s"], strict=True)
        table["direction"] = [
            direction(result.pair, lag_s, uncertainty_s, p, is_clock_known=math.isfinite(clock_s))
            for result, (lag_s, uncertainty_s, p, clock_s) in zip(results, lags, strict=True)
        ]
    return table


def _known(error_s: float) -> float:
    return error_s if math.isfinite(error_s) else 0.0


def clock_error(pair: SignalPair, clocks: Mapping[str, TrackClock]) -> float:
    """The standard error of one person's clock on the other's: 0 of one clock, NaN where a track's is not known."""
    first, second = (name.feature.partition("@")[2] for name in (pair.first, pair.second))
    unknown = TrackClock([], math.nan)
    of_first, of_second = (clocks.get(track, unknown) if track else SESSIONS_OWN for track in (first, second))
    is_one_clock = first == second or (of_first.moments == of_second.moments and of_first.moments)
    return 0.0 if is_one_clock else math.hypot(of_first.error_s, of_second.error_s)


def _also(estimate: RankedEstimate) -> list[tuple[str, float]]:
    return [
        ("", estimate.estimate),
        ("_null_median", estimate.null_median),
        ("_null_95", estimate.null_95),
        ("_p", estimate.p),
    ]


def lacking_pairs(results: Sequence[SessionSynchrony]) -> dict[str, str]:
    """By session, which of the pairs it lacks that others have: of a pattern of columns it can have fewer."""
    everywhere = dict.fromkeys(result.pair for result in results)
    has = {(result.session_id, result.pair) for result in results}
    lacking = {}
    for session in dict.fromkeys(result.session_id for result in results):
        names = [f"{pair.first} and {pair.second}" for pair in everywhere if (session, pair) not in has]
        if names:
            part = f"a part of {session} ({len(names)} of {len(everywhere)} pairs)"
            lacking[part] = f"it has no column for {'; '.join(names)}"
    return lacking


def window_table(results: Sequence[SessionSynchrony]) -> pd.DataFrame:
    """A row per session, pair and window: its times, the lag of its peak in seconds, and its height."""
    windows = [len(result.start_s) for result in results]

    def named(names: Iterable[object]) -> pd.Categorical:
        return pd.Categorical([str(name) for name in names]).repeat(windows)  # millions of rows, few names

    return pd.DataFrame(
        {
            "session_id": named(result.session_id for result in results),
            "first": named(result.pair.first for result in results),
            "second": named(result.pair.second for result in results),
            "start_s": np.concatenate([result.start_s for result in results]),
            "end_s": np.concatenate([result.start_s + result.windows.length / result.rate for result in results]),
            "lag_s": np.concatenate([result.peaks.lag / result.rate for result in results]),
            "height": np.concatenate([result.peaks.height for result in results]),
        }
    )


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


def direction(pair: SignalPair, lag_s: float, uncertainty_s: float, p: float, *, is_clock_known: bool = True) -> str:
    """A lag in words; there is no direction where the two move together no more than chance, or 0 is within reach.

    Args:
        p: corrected for the pairs that were tried.
        uncertainty_s: NaN where it is not known, and then neither leads for certain.

    Example:
        >>> from storyframes_dyads.signals import SignalName
        >>> pair = SignalPair(SignalName.parse("openface@a:AU12_r"), SignalName.parse("openface@b:AU12_r"))
        >>> direction(pair, 0.4, 0.05, p=0.01)
        'openface@a leads openface@b by 0.40 s (± 0.05 s)'
        >>> direction(pair, 0.4, 0.5, p=0.01), direction(pair, 0.4, 0.05, p=0.2)
        ('neither leads for certain (0.40 s ± 0.50 s)', 'no more than chance')
    """
    if not math.isfinite(p):
        return "not tested: too short, or too little measured"
    if p > LEVEL:
        return "no more than chance"
    if not math.isfinite(lag_s):
        return "no lag within reach"
    around = f"± {uncertainty_s:.2f} s" if math.isfinite(uncertainty_s) else "with too few windows to say how exact"
    around += "" if is_clock_known else ", the clocks' error not known"
    if not abs(lag_s) > uncertainty_s:
        return f"neither leads for certain ({lag_s:.2f} s {around})"
    names = pair.first.feature, pair.second.feature
    if names[0] == names[1]:
        names = str(pair.first), str(pair.second)
    leader, follower = names if lag_s > 0 else reversed(names)
    return f"{leader} leads {follower} by {abs(lag_s):.2f} s ({around})"
