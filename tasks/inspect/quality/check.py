"""Every rule, applied to the curves of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tasks.inspect.curves.session_curves import SessionCurves
from tasks.inspect.quality.agreement_rules import lengths, misfits, outside_speech
from tasks.inspect.quality.findings import NothingToLookAtError, QualityFinding, Rule, Thresholds
from tasks.inspect.quality.picture_rules import face_jump, face_lost, frozen, jump
from tasks.inspect.quality.sound_rules import clipping, silence

_RULES: Mapping[tuple[Rule, ...], Callable[[SessionCurves, Thresholds], Iterator[QualityFinding]]] = {
    (Rule.FACE_LOST,): face_lost,
    (Rule.FACE_JUMP,): face_jump,
    (Rule.SILENCE,): silence,
    (Rule.CLIPPING,): clipping,
    (Rule.FROZEN, Rule.DUPLICATED): frozen,
    (Rule.LENGTHS,): lengths,
    (Rule.JUMP,): jump,
    (Rule.OUTSIDE_SPEECH,): outside_speech,
    (Rule.MISFIT,): misfits,
}


@dataclass
class Quality:
    """What the rules say of a session.

    Attributes:
        findings: every finding, rule by rule.
        not_looked_at: the rules that had nothing to look at, and what is lacking.
    """

    findings: list[QualityFinding] = field(default_factory=list)
    not_looked_at: dict[Rule, str] = field(default_factory=dict)

    @property
    def looked_at(self) -> list[Rule]:
        """The rules that were applied."""
        return [rule for rule in Rule if rule not in self.not_looked_at]

    @property
    def unjudged(self) -> str:
        """What was not looked at and why, in words: each reason with its rules; empty where everything was."""
        reasons: dict[str, list[Rule]] = {}
        for rule, reason in self.not_looked_at.items():
            reasons.setdefault(reason, []).append(rule)
        return "; ".join(f"{', '.join(rules)} ({reason})" for reason, rules in reasons.items())


def check_quality(curves: SessionCurves, thresholds: Thresholds | None = None) -> Quality:
    """Apply every rule to a session.

    Args:
        curves: what the features say.
        thresholds: where a finding begins; the defaults otherwise.
    """
    quality = Quality()
    for rules, find in _RULES.items():
        try:
            quality.findings += find(curves, thresholds or Thresholds())
        except NothingToLookAtError as lacking:
            quality.not_looked_at |= dict.fromkeys(rules, str(lacking))
    return quality
