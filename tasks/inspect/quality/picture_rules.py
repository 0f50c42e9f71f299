"""What can be wrong with the picture: no face, frames that stand still, times that jump."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from storyframes.times import usual_rate
from tasks.inspect.curves.session_curves import SessionCurves
from tasks.inspect.quality.findings import NothingToLookAtError, QualityFinding, Rule, Thresholds
from tasks.inspect.quality.spans import merged, spans_where, total_s


def face_lost(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    """Too many frames without a face, by each feature that tracks one."""
    faces = [face for face in curves.faces if face.share is not None]
    if not faces:
        raise NothingToLookAtError("no feature tracks a face")
    for face in faces:
        looked_at = np.flatnonzero(~np.isnan(face.tracked))
        lost = face.tracked[looked_at] == 0
        share = float(lost.mean())
        if share > limits.face_lost:
            some = " that were looked at" if len(looked_at) < len(face.tracked) else ""
            yield QualityFinding(
                Rule.FACE_LOST,
                f"a face is tracked in at least {1 - limits.face_lost:.0%} of the frames",
                f"{face.feature}: no face in {share:.1%} of the frames{some}; times: gaps of {limits.face_gap_s:g} s "
                "and more",
                spans_where(lost, curves.time[looked_at], curves.end_s, limits.face_gap_s),
            )


def face_jump(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    """A face that is at another place in the next frame, or of another size: another person's, or a picture's."""
    lacking, is_judged = "no feature has a face's landmarks in pixels", False
    for face in curves.faces:
        if face.squares is None:
            continue
        frames = np.flatnonzero(~np.isnan(face.squares).any(axis=1) & (face.tracked == 1))
        time, squares = curves.time[frames], face.squares[frames].astype(np.float64)
        near = np.diff(time) <= limits.face_jump_s + 1e-9
        if not near.any():
            lacking = f"no face is tracked in two frames at most {limits.face_jump_s:g} s apart"
            continue
        is_judged = True
        before, after = squares[:-1], squares[1:]
        sides = np.maximum((before[:, 2] + after[:, 2]) / 2, 1.0)
        moved = np.hypot(*(after - before)[:, :2].T) / sides
        resized = np.maximum(before[:, 2], after[:, 2]) / np.maximum(np.minimum(before[:, 2], after[:, 2]), 1.0)
        jumps = np.flatnonzero(near & ((moved > limits.face_jump) | (resized > limits.face_resize)))
        if len(jumps):
            yield QualityFinding(
                Rule.FACE_JUMP,
                f"from one frame to the next a face moves by at most {limits.face_jump:g} of its side and grows or "
                f"shrinks at most {limits.face_resize:g} times",
                f"{face.feature}: the face jumps {len(jumps)} times, by up to {moved[jumps].max():.1f} of its side: it "
                "may be another person's",
                tuple((float(time[at]), float(time[at + 1])) for at in jumps),
            )
    if not is_judged:
        raise NothingToLookAtError(lacking)


def frozen(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    """The picture stands still, or too many frames repeat the one before: the camera or the recorder dropped some."""
    if curves.change is None:
        raise NothingToLookAtError("no ResNet-50 vectors of the picture")
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
        raise NothingToLookAtError("fewer than 3 frames")
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
