"""What does not agree: picture with sound, transcript with voice, a feature with the clock."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tasks.inspect.curves.session_curves import SessionCurves, Utterances
from tasks.inspect.quality.findings import NothingToLookAtError, QualityFinding, Rule, Span, Thresholds


def lengths(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    """Picture and sound that do not begin or end together; a track with only one of the two cannot break it."""
    if not curves.has_frames or curves.sound_end_s is None or curves.sound_time is None or not len(curves.sound_time):
        raise NothingToLookAtError("not both a picture and openSMILE's rows of the sound")
    start_s = float(curves.sound_time[0])
    if abs(start_s) > limits.lengths_s:
        where = "after" if start_s > 0 else "before"
        yield QualityFinding(
            Rule.LENGTHS,
            f"picture and sound begin within {limits.lengths_s:g} s of each other",
            f"the sound begins {abs(start_s):.2f} s {where} the picture",
            (tuple(sorted((0.0, start_s))),),  # type: ignore[arg-type]
        )
    difference = curves.sound_end_s - curves.end_s
    if abs(difference) > limits.lengths_s:
        longer, shorter = ("sound", "picture") if difference > 0 else ("picture", "sound")
        yield QualityFinding(
            Rule.LENGTHS,
            f"picture and sound end within {limits.lengths_s:g} s of each other",
            f"the {longer} goes on for {abs(difference):.2f} s after the {shorter} has ended",
            (tuple(sorted((curves.end_s, curves.sound_end_s))),),  # type: ignore[arg-type]
        )


def outside_speech(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    """Utterances where hardly a voice is heard: the transcript is shifted, or another session's."""
    if curves.f0 is None or curves.sound_time is None:
        raise NothingToLookAtError("no pitch of the sound, which openSMILE's ComParE 2016 has")
    if curves.utterances is None or not (_lengths_s(curves.utterances) >= limits.utterance_s).any():
        raise NothingToLookAtError(f"no utterance of {limits.utterance_s:g} s and more")
    spans = tuple(_unvoiced(curves.utterances, np.isfinite(curves.f0), curves.sound_time, limits))
    if spans:
        yield QualityFinding(
            Rule.OUTSIDE_SPEECH,
            f"every utterance of {limits.utterance_s:g} s and more has a pitch for at least {limits.voiced:.0%} of it",
            f"{len(spans)} of {len(curves.utterances.start_s)} utterances are where hardly a voice is heard",
            spans,
        )


def _lengths_s(utterances: Utterances) -> np.ndarray:
    return np.asarray(utterances.end_s) - np.asarray(utterances.start_s)


def _unvoiced(of: Utterances, voiced: np.ndarray, time: np.ndarray, limits: Thresholds) -> Iterator[Span]:
    total = np.concatenate([[0], np.cumsum(voiced)])
    for start, end in zip(of.start_s.tolist(), of.end_s.tolist(), strict=True):
        first, stop = np.searchsorted(time, (start, end))
        share = (total[stop] - total[first]) / (stop - first) if stop > first else 0.0
        if end - start >= limits.utterance_s and share < limits.voiced:
            yield start, end


def misfits(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    """Per-frame features with another number of rows than the session has frames."""
    if not curves.frame_features:
        raise NothingToLookAtError("no feature with a row for each frame")
    for trouble in curves.troubles:
        yield QualityFinding(Rule.MISFIT, "every per-frame feature has a row for every frame", trouble)
