"""A clip index from tables and signals in memory, without a store or a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from storyframes.clips.clip_index import clip_rows
from storyframes.clips.window_spec import WindowSpec
from storyframes.clips.windows import SessionSignals, windows_of


def build_index(
    sessions: pd.DataFrame,
    phases: pd.DataFrame,
    ratings: pd.DataFrame,
    spec: WindowSpec,
    signals: Mapping[str, SessionSignals] | None = None,
    features: Sequence[str] = (),
) -> pd.DataFrame:
    """The clip index of a study: cuts windows and makes their rows by :func:`clip_rows`, which describes the tables.

    Args:
        phases: columns session_id, phase, start_s, end_s; infinite where a phase is the whole session.
        signals: by session; without them the index is made from the tables alone, at ``spec.fps``.
        features: the features that get a ``has_`` column.
    """
    signals = signals or {}
    windows = windows_of(
        ((phase, signals.get(phase.session_id, SessionSignals())) for phase in phases.itertuples(index=False)), spec
    )
    having = {name: [session for session, signal in signals.items() if name in signal.features] for name in features}
    return clip_rows(windows, sessions, ratings, spec, having)
