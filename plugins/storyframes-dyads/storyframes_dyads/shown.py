"""What the commands show in a terminal."""

from __future__ import annotations

import math

import pandas as pd
from rich.table import Table


def session_lines(table: pd.DataFrame) -> list[Table]:
    """A table of sessions and pairs."""
    shown = Table(
        "session", "signals", "shared", "synchrony", "chance (median, 95 %)", "p", "p (Holm)", "lag", box=None
    )
    for row in table.itertuples():
        shown.add_row(
            str(row.session_id),
            _signals(str(row.first), str(row.second)),
            f"{row.shared:.0%}",
            _number(row.synchrony),
            f"{_number(row.null_median)}, {_number(row.null_95)}",
            _number(row.p, 3),
            _number(row.p_holm, 3),
            str(row.direction),
        )
    return [shown]


def study_lines(table: pd.DataFrame) -> list[Table]:
    """A table of pairs over all sessions; none without pseudo-dyads."""
    if not len(table):
        return []
    shown = Table("all sessions", "sessions", "synchrony", "pseudo-dyads (median, 95 %)", "p", "p (Holm)", box=None)
    for row in table.itertuples():
        shown.add_row(
            _signals(str(row.first), str(row.second)),
            str(row.sessions),
            _number(row.synchrony),
            f"{_number(row.null_median)}, {_number(row.null_95)}",
            _number(row.p, 3),
            _number(row.p_holm, 3),
        )
    return [shown]


def person_lines(table: pd.DataFrame) -> Table:
    """A table of what each person of each session did."""
    shown = Table(
        "session", "person", "speech", "share", "turns", "turn (median)", "latency (median)", "interruptions",
        "backchannels", "not known", box=None,
    )  # fmt: skip
    for row in table.itertuples():
        shown.add_row(
            str(row.session_id),
            str(row.person),
            f"{row.speech_s:.1f} s",
            f"{row.speech_share:.0%}" if row.speech_share == row.speech_share else "–",
            str(row.turns),
            f"{_number(row.turn_s_median)} s",
            f"{_number(row.latency_s_median)} s",
            str(row.interruptions),
            str(row.backchannels),
            f"{row.unknown_s:.1f} s",
        )
    return shown


def comparison_lines(table: pd.DataFrame, value: str) -> Table:
    """A table of differences between two groups."""
    first, second = table["group_1"][0], table["group_2"][0]
    headings = (value, str(first), str(second), "difference (95 %)", "p", "p (Holm)", "clusters", "sessions")
    shown = Table(*headings, box=None)
    for row in table.itertuples():
        shown.add_row(
            str(row.signals),
            _number(row.mean_1),
            _number(row.mean_2),
            f"{_number(row.difference)} ({_number(row.low_95)} to {_number(row.high_95)})",
            _number(row.p, 3),
            _number(row.p_holm, 3),
            f"{row.clusters_1} and {row.clusters_2}"
            if row.design == "between clusters"
            else f"{row.clusters_1} (both)",
            f"{row.sessions}" + (f" ({row.sessions_left_out} left out)" if row.sessions_left_out else ""),
        )
    return shown


def _signals(first: str, second: str) -> str:
    return f"{first} and {second}"


def _number(value: object, digits: int = 2) -> str:
    return f"{value:.{digits}f}" if isinstance(value, float) and math.isfinite(value) else "–"
