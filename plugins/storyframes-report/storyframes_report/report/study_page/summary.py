"""What the study page keeps of a session when its page has been written: a few numbers, however long it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tasks.inspect import QualityFinding, Rule, SessionCurves


@dataclass(frozen=True)
class FindingSummary:
    """A finding of one track, without all of its times."""

    rule: Rule
    track: str
    chart: str  # the id of the track's timeline on the session's page
    seconds: float  # of all its times
    worst: tuple[tuple[float, float], ...]  # at most three

    @classmethod
    def of(cls, finding: QualityFinding, track: str, chart: str) -> FindingSummary:
        return cls(finding.rule, track, chart, finding.seconds, finding.worst)


@dataclass(frozen=True)
class SessionSummary:
    """One session."""

    findings: tuple[FindingSummary, ...] = ()
    not_looked_at: frozenset[Rule] = frozenset()  # in any of its tracks
    unjudged: tuple[str, ...] = ()  # the tracks that no rule could look at: nothing was extracted, or it is damaged
    typical: Mapping[str, float] = field(default_factory=dict)  # by curve of its own files: see typical_values


def typical_values(curves: SessionCurves | None) -> dict[str, float]:
    """The median of each curve by its name with its unit; of a face's curve the share of frames with one."""
    if curves is None:
        return {}
    values: dict[str, float] = {}
    for name, unit, numbers in curves.named():
        finite = numbers[np.isfinite(numbers)]
        if len(finite):
            value = np.mean(finite) if name.startswith("face tracked") else np.median(finite)
            values[f"{name} ({unit})" if unit else name] = float(value)
    return values


def moment(session_id: str, chart: str = "", span: Iterable[float] = ()) -> str:
    """The address of a session's page, of a track's timeline there, and of a stretch of it in its seconds."""
    place = f"#{chart}={','.join(f'{second:.2f}' for second in span)}" if chart and span else ""
    return f"sessions/{session_id}.html{place}"
