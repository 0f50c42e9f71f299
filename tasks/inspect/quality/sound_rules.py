"""What can be wrong with the sound: silence, and levels beyond full scale."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.inspect.curves.session_curves import SessionCurves
from tasks.inspect.quality.findings import NothingToLookAtError, QualityFinding, Rule, Thresholds
from tasks.inspect.quality.spans import merged, spans_where, total_s

NO_LEVEL = "no level of the sound, which openSMILE's ComParE 2016 has"


def silence(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    """Long silence: a microphone that was off, or muted."""
    if curves.loudness is None or curves.sound_time is None:
        raise NothingToLookAtError(NO_LEVEL)
    spans = spans_where(curves.loudness < limits.silence_db, curves.sound_time, _sound_end(curves), limits.silence_s)
    if spans:
        yield QualityFinding(
            Rule.SILENCE,
            f"no {limits.silence_s:g} s in a row are quieter than {limits.silence_db:g} dB of full scale",
            f"silent for {total_s(spans):.1f} s in all",
            spans,
        )


def clipping(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    """Sound at full scale: by its samples where they were looked at, otherwise by its level."""
    by = _clipped_samples if curves.clipped is not None else _clipped_level
    yield from by(curves, limits)


def _clipped_samples(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    if curves.clipped:
        # As tasks.media.sound counts them, which needs PyAV: a command that only shows features runs without it.
        rule = "no channel has 3 samples in a row at full scale (judged by the samples)"
        message = f"cut off at full scale at {len(curves.clipped)} places"
        yield QualityFinding(Rule.CLIPPING, rule, message, curves.clipped)


def _clipped_level(curves: SessionCurves, limits: Thresholds) -> Iterator[QualityFinding]:
    if curves.loudness is None or curves.sound_time is None:
        raise NothingToLookAtError(NO_LEVEL)
    spans = merged(spans_where(curves.loudness > limits.clipping_db, curves.sound_time, _sound_end(curves), 0.0), 0.2)
    if spans:
        yield QualityFinding(
            Rule.CLIPPING,
            f"no 60 ms have a mean level above {limits.clipping_db:g} dB of full scale: a voice that loud is cut off "
            "at its peaks (judged by the level, not by the samples)",
            f"too loud for {total_s(spans):.2f} s in all",
            spans,
        )


def _sound_end(curves: SessionCurves) -> float:
    return curves.end_s if curves.sound_end_s is None else curves.sound_end_s
