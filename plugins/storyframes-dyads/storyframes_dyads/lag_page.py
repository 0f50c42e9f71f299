"""The report's page of synchrony: of each session and pair, correlation by lag and time, and who leads when."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from storyframes.store import SessionTimes, StoreError
from storyframes_dyads.lagged_correlation import peaks
from storyframes_dyads.signals import SignalError
from storyframes_dyads.synchrony import CorrelatedPair, correlated_pairs
from storyframes_dyads.window_feature import PREFIX, derivation, is_ours, made_of
from storyframes_report import COLOURS, Chart, ReportContext, ReportPage, ReportTable, label

MOST_PICTURES = 24
"""More would make a page that opens slowly."""
MOST_TIMES, MOST_LAGS = 240, 61
"""Cells of a picture; of more windows or lags evenly spaced ones are drawn."""
_INTRODUCTION = (
    "Each column of a picture is a window, each row a lag: orange where the two move alike, blue where they move "
    "oppositely. Above 0 the first person leads. Dots are the windows' peaks. A picture does not say what chance "
    "gives; 'storyframes dyads synchrony' does."
)


def lag_page(context: ReportContext) -> ReportPage | None:
    """Pictures of the pairs that the store's features ``synchrony_<name>`` are of; None where it has none."""
    store = context.store
    made = [(session, name) for session in store.sessions for name in store.features(session) if is_ours(name)]
    if not made:
        return None
    clocks = SessionTimes.stored_clocks(store)
    charts: list[Chart] = []
    rows: list[tuple[object, ...]] = []
    old = []
    for session_id, feature in made:
        try:
            asked, settings = made_of(store, session_id, feature)
            if not derivation(feature.removeprefix(PREFIX), asked, settings).is_current(store, session_id, clocks):
                old.append(f"{session_id}/{feature}")
            for of_pair in correlated_pairs(store, session_id, asked, settings):
                found = peaks(of_pair.correlations, of_pair.windows)
                leads, follows = float((found.lag > 0).mean()), float((found.lag < 0).mean())
                shares = [f"{share:.0%}" for share in (leads, follows, 1 - leads - follows)]
                rows.append((session_id, of_pair.pair.first, of_pair.pair.second, *shares))
                charts += [_picture(session_id, of_pair, found.lag, shares)] if len(charts) < MOST_PICTURES else []
        except (StoreError, SignalError) as error:
            rows.append((session_id, feature, f"cannot be shown: {error}", "", "", ""))
        store.let_go(session_id)
    parts: list[str | ReportTable | Chart] = [_INTRODUCTION]
    if old:
        parts.append(f"Out of date, until 'storyframes dyads store' makes them anew: {', '.join(old)}.")
    if len(rows) > len(charts):
        parts.append(f"There are pictures of {len(charts)} of {len(rows)} pairs.")
    headings = ("session", "first", "second", "first leads", "second leads", "neither, or no peak")
    return ReportPage("Synchrony", [*parts, ReportTable("Who leads, by share of windows", headings, rows), *charts])


def _picture(session_id: str, of_pair: CorrelatedPair, peak_lag: np.ndarray, shares: Sequence[str]) -> Chart:
    pair, rate, middles, windows = of_pair.pair, of_pair.rate, of_pair.middle_s, of_pair.windows
    at, lags = _spaced(len(middles), MOST_TIMES), _spaced(len(windows.lags), MOST_LAGS)
    cells = of_pair.correlations[np.ix_(at, lags)]
    figure = go.Figure(
        [
            go.Heatmap(
                x=middles[at],
                y=windows.lags[lags] / rate,
                z=cells.T.astype(np.float32),
                zmin=-1,
                zmax=1,
                colorscale=[[0, COLOURS[0]], [0.5, "rgba(128, 128, 128, 0)"], [1, COLOURS[1]]],
                hoverongaps=False,
                hovertemplate="r %{z:.2f}<br>lag %{y:.2f} s<br>at %{x:.1f} s<extra></extra>",
            ),
            go.Scatter(
                x=middles[at],
                y=peak_lag[at] / rate,
                mode="markers",
                marker={"size": 4, "color": COLOURS[2]},
                hovertemplate="peak at %{x:.1f} s<br>lag %{y:.2f} s<extra></extra>",
            ),
        ]
    )
    figure.update_layout(
        showlegend=False,
        xaxis_title="middle of the window, s",
        yaxis_title=label("lag, s; above 0 the first leads"),
    )
    alt = f"{pair.first} leads in {shares[0]} of {len(middles)} windows, {pair.second} in {shares[1]}."
    return Chart("lag", f"{session_id}: {pair.first} and {pair.second}", alt, figure)


def _spaced(count: int, most: int) -> np.ndarray:
    """(k,) at most ``most`` evenly spaced numbers below ``count``, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))
