"""What can be wrong with the picture: no face, frames that stand still, times that jump."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from storyframes.recording_times import usual_rate
from tasks.inspect.curves.session_curves import SessionCurves
from tasks.inspect.quality.findings import QualityFinding, Rule, Thresholds
from tasks.inspect.quality.spans import merged, spans_where, total_s


def face_lost(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    """Too many frames without a face."""
    if curves.tracked is None or not len(curves.tracked):
        return
    lost = ~curves.tracked
    share = float(lost.mean())
    if share > limits.face_lost:
        yield QualityFinding(
            Rule.FACE_LOST,
            f"a face is tracked in at least {1 - limits.face_lost:.0%} of the frames",
            f"no face in {share:.1%} of the frames; times: gaps of {limits.face_gap_s:g} s and more",
            spans_where(lost, curves.time, curves.end_s, limits.face_gap_s),
        )


def frozen(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    """The picture stands still, or too many frames repeat the one before: the camera or the recorder dropped some."""
    if curves.change is None:
        return
    same = curves.change <= limits.frozen_change  # NaN, the first frame's, is not
    spans = spans_where(same, curves.time, curves.end_s, limits.frozen_s)
    if spans:
        yield QualityFinding(
            Rule.FROZEN,
            f"the picture changes at least every {limits.frozen_s:g} s (ResNet50, by more than "
            f"{limits.frozen_change:.1%} of the vectors' norm)",
            f"the picture stands still for {total_s(spans):.1f} s in all",
            spans,
        )
    share = float(same.mean()) if len(same) else 0.0
    if share > limits.duplicated:
        yield QualityFinding(
            Rule.DUPLICATED,
            f"at most {limits.duplicated:.0%} of the frames are the same as the one before",
            f"{share:.1%} of the frames are the same as the one before",
            merged(spans_where(same, curves.time, curves.end_s, 0.0), 1.0),
        )


def jump(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    """Frame times that do not rise, or leave a gap."""
    if len(curves.time) < 3:
        return
    steps = np.diff(curves.time)
    usual = 1 / usual_rate(curves.time, np.inf)
    jumps = np.flatnonzero((steps > limits.jump * usual) | (steps <= 0))
    if len(jumps):
        yield QualityFinding(
            Rule.JUMP,
            f"frame times rise, and never by more than {limits.jump:g} times the usual step ({usual * 1000:.1f} ms)",
            f"{len(jumps)} jumps, the largest step is {steps.max():.3f} s",
            tuple((float(curves.time[at]), float(curves.time[at + 1])) for at in jumps),
        )
