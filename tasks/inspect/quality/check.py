"""Every rule, applied to the curves of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tasks.inspect.curves.session_curves import SessionCurves
from tasks.inspect.quality.agreement_rules import lengths, misfits, outside_speech
from tasks.inspect.quality.findings import QualityFinding, Thresholds
from tasks.inspect.quality.picture_rules import face_lost, frozen, jump
from tasks.inspect.quality.sound_rules import clipping, silence

_RULES: tuple[Callable[[SessionCurves, Thresholds], Iterator[QualityFinding]], ...] = (
    face_lost,
    silence,
    clipping,
    frozen,
    lengths,
    jump,
    outside_speech,
    misfits,
)


def find_problems(curves: SessionCurves, thresholds: Thresholds | None = None) -> list[QualityFinding]:
    """Every finding of a session, rule by rule.

    Args:
        curves: what the features say.
        thresholds: where a finding begins; the defaults otherwise.
    """
    limits = thresholds or Thresholds()
    return [finding for rule in _RULES for finding in rule(curves, limits)]
