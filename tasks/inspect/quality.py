"""Data quality: rules about the picture, the sound and their agreement, applied to the curves of a session.

Each finding has its rule and its times, and a rule without data to judge says so. The rules are few and simple, so that
a person can check each by eye on the session's page. None of them changes a feature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from storyframes.times import usual_rate
from tasks.inspect.session_curves import SessionCurves, Utterances

Span = tuple[float, float]

# Values beyond which there is a finding.
FACE_LOST = 0.2  # share of the frames without a face
FACE_GAP_S = 1.0  # gaps of so many seconds without a face are listed
FACE_JUMP = 1.0  # movement of a face's centre between two frames, in sides of the square around it
FACE_RESIZE = 1.6  # how many times larger or smaller it becomes
FACE_JUMP_S = 0.25  # frames further apart than this are not compared: people move
SILENCE_DB = -60.0  # dB below full scale; quieter is silence
SILENCE_S = 10.0  # seconds of silence in a row
# Mean level of a 60 ms window, where the samples were not decoded. A voice whose peaks just reach full scale is
# below it.
CLIPPING_DB = -6.0
FROZEN_CHANGE = 0.001  # change between two equal frames, relative to the vectors' norm
FROZEN_S = 1.0  # seconds without change in a row
DUPLICATED = 0.05  # share of the frames that are equal to the one before
LENGTHS_S = 0.5  # seconds between the end of the picture and the end of the sound
JUMP = 1.75  # a step between two frames' times, as a multiple of the usual step
VOICED = 0.1  # share of an utterance's time that has a pitch
UTTERANCE_S = 0.5  # shorter utterances are not judged: a short word may have no voiced sound


class NothingToLookAtError(Exception):
    """The session has no data for a rule; the message says what is missing."""


class Rule(StrEnum):
    """The rules; a finding breaks one."""

    FACE_LOST = "face lost"
    FACE_JUMP = "face jumps"
    SILENCE = "silence"
    CLIPPING = "clipping"
    FROZEN = "frozen frames"
    DUPLICATED = "duplicated frames"
    LENGTHS = "lengths differ"
    JUMP = "timestamps jump"
    OUTSIDE_SPEECH = "transcript outside speech"
    MISFIT = "features do not fit"
    DOUBTFUL_REGION = "doubtful region"


@dataclass(frozen=True)
class QualityFinding:
    """A broken rule, for a person to look at."""

    rule: Rule
    rule_text: str  # the rule in words, with its numbers
    message: str
    spans: tuple[Span, ...] = ()  # (start, stop) seconds, in order; empty where it concerns the whole session

    @property
    def seconds(self) -> float:
        """How long the spans are together."""
        return total_s(self.spans)

    @property
    def worst(self) -> tuple[Span, ...]:
        """The longest three spans, in order."""
        return tuple(sorted(sorted(self.spans, key=lambda span: span[0] - span[1])[:3]))


def spans_where(flags: np.ndarray, time: np.ndarray, end_s: float, at_least_s: float) -> tuple[Span, ...]:
    """The spans of consecutive rows with ``flags`` set; a row lasts until the next one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    times = np.append(time, end_s)
    spans = [(float(times[start]), float(times[stop])) for start, stop in edges.reshape(-1, 2)]
    return tuple(span for span in spans if span[1] - span[0] >= at_least_s - 1e-9)


def merged(spans: tuple[Span, ...], gap_s: float) -> tuple[Span, ...]:
    """Spans with less than ``gap_s`` between them become one."""
    merged: list[Span] = []
    for start, stop in spans:
        if merged and start - merged[-1][1] < gap_s:
            merged[-1] = (merged[-1][0], stop)
        else:
            merged.append((start, stop))
    return tuple(merged)


def total_s(spans: tuple[Span, ...]) -> float:
    return sum(stop - start for start, stop in spans)


def face_lost(curves: SessionCurves) -> Iterator[QualityFinding]:
    """Too many frames without a face, by each feature that tracks one."""
    faces = [face for face in curves.faces if face.share is not None]
    if not faces:
        raise NothingToLookAtError("no feature tracks a face")
    for face in faces:
        frames = np.flatnonzero(~np.isnan(face.tracked))
        lost = face.tracked[frames] == 0
        share = float(lost.mean())
        if share > FACE_LOST:
            some = " that were looked at" if len(frames) < len(face.tracked) else ""
            yield QualityFinding(
                Rule.FACE_LOST,
                f"a face is tracked in at least {1 - FACE_LOST:.0%} of the frames",
                f"{face.feature}: no face in {share:.1%} of the frames{some}; times: gaps of {FACE_GAP_S:g} s and more",
                spans_where(lost, curves.time[frames], curves.end_s, FACE_GAP_S),
            )


def face_jump(curves: SessionCurves) -> Iterator[QualityFinding]:
    """A face that has another position or size in the next frame: another person's, or one in a picture."""
    lacking, is_judged = "no feature has a face's landmarks in pixels", False
    for face in curves.faces:
        if face.squares is None:
            continue
        frames = np.flatnonzero(~np.isnan(face.squares).any(axis=1) & (face.tracked == 1))
        time, squares = curves.time[frames], face.squares[frames].astype(np.float64)
        near = np.diff(time) <= FACE_JUMP_S + 1e-9
        if not near.any():
            lacking = f"no face is tracked in two frames at most {FACE_JUMP_S:g} s apart"
            continue
        is_judged = True
        before, after = squares[:-1], squares[1:]
        sides = np.maximum((before[:, 2] + after[:, 2]) / 2, 1.0)
        moved = np.hypot(*(after - before)[:, :2].T) / sides
        resized = np.maximum(before[:, 2], after[:, 2]) / np.maximum(np.minimum(before[:, 2], after[:, 2]), 1.0)
        jumps = np.flatnonzero(near & ((moved > FACE_JUMP) | (resized > FACE_RESIZE)))
        if len(jumps):
            yield QualityFinding(
                Rule.FACE_JUMP,
                f"from one frame to the next a face moves by at most {FACE_JUMP:g} of its side and grows or "
                f"shrinks at most {FACE_RESIZE:g} times",
                f"{face.feature}: the face jumps {len(jumps)} times, by up to {moved[jumps].max():.1f} of its side: it "
                "may be another person's",
                tuple((float(time[at]), float(time[at + 1])) for at in jumps),
            )
    if not is_judged:
        raise NothingToLookAtError(lacking)


def frozen(curves: SessionCurves) -> Iterator[QualityFinding]:
    """The picture freezes, or too many frames repeat the one before: the camera or the recorder dropped some."""
    if curves.change is None:
        raise NothingToLookAtError("no ResNet-50 vectors of the picture")
    same = curves.change <= FROZEN_CHANGE  # NaN, the first frame's, is not
    spans = spans_where(same, curves.time, curves.end_s, FROZEN_S)
    if spans:
        yield QualityFinding(
            Rule.FROZEN,
            f"the picture changes at least every {FROZEN_S:g} s (ResNet50, by more than "
            f"{FROZEN_CHANGE:.1%} of the vectors' norm)",
            f"the picture stands still for {total_s(spans):.1f} s in all",
            spans,
        )
    share = float(same.mean()) if len(same) else 0.0
    if share > DUPLICATED:
        yield QualityFinding(
            Rule.DUPLICATED,
            f"at most {DUPLICATED:.0%} of the frames are the same as the one before",
            f"{share:.1%} of the frames are the same as the one before",
            merged(spans_where(same, curves.time, curves.end_s, 0.0), 1.0),
        )


def jump(curves: SessionCurves) -> Iterator[QualityFinding]:
    """Frame times that do not rise, or leave a gap."""
    if len(curves.time) < 3:
        raise NothingToLookAtError("fewer than 3 frames")
    steps = np.diff(curves.time)
    usual = 1 / usual_rate(curves.time, np.inf)
    jumps = np.flatnonzero((steps > JUMP * usual) | (steps <= 0))
    if len(jumps):
        yield QualityFinding(
            Rule.JUMP,
            f"frame times rise, and never by more than {JUMP:g} times the usual step ({usual * 1000:.1f} ms)",
            f"{len(jumps)} jumps, the largest step is {steps.max():.3f} s",
            tuple((float(curves.time[at]), float(curves.time[at + 1])) for at in jumps),
        )


NO_LEVEL = "no level of the sound, which openSMILE's ComParE 2016 has"


def silence(curves: SessionCurves) -> Iterator[QualityFinding]:
    """Long silence: a microphone that was off, or muted."""
    if curves.loudness is None or curves.sound_time is None:
        raise NothingToLookAtError(NO_LEVEL)
    spans = spans_where(curves.loudness < SILENCE_DB, curves.sound_time, _sound_end(curves), SILENCE_S)
    if spans:
        yield QualityFinding(
            Rule.SILENCE,
            f"no {SILENCE_S:g} s in a row are quieter than {SILENCE_DB:g} dB of full scale",
            f"silent for {total_s(spans):.1f} s in all",
            spans,
        )


def clipping(curves: SessionCurves) -> Iterator[QualityFinding]:
    """Sound at full scale: judged by its samples where they were decoded, otherwise by its level."""
    if curves.clipped is not None:
        if curves.clipped:
            # As counted in tasks.media.sound, which needs PyAV: commands that only show features run without it.
            rule = "no channel has 3 samples in a row at full scale (judged by the samples)"
            message = f"cut off at full scale at {len(curves.clipped)} places"
            yield QualityFinding(Rule.CLIPPING, rule, message, curves.clipped)
        return
    if curves.loudness is None or curves.sound_time is None:
        raise NothingToLookAtError(NO_LEVEL)
    spans = merged(spans_where(curves.loudness > CLIPPING_DB, curves.sound_time, _sound_end(curves), 0.0), 0.2)
    if spans:
        yield QualityFinding(
            Rule.CLIPPING,
            f"no 60 ms have a mean level above {CLIPPING_DB:g} dB of full scale: a voice that loud is cut off "
            "at its peaks (judged by the level, not by the samples)",
            f"too loud for {total_s(spans):.2f} s in all",
            spans,
        )


def _sound_end(curves: SessionCurves) -> float:
    return curves.end_s if curves.sound_end_s is None else curves.sound_end_s


def lengths(curves: SessionCurves) -> Iterator[QualityFinding]:
    """Picture and sound that do not begin or end together; for tracks that have both."""
    if not curves.has_frames or curves.sound_end_s is None or curves.sound_time is None or not len(curves.sound_time):
        raise NothingToLookAtError("not both a picture and openSMILE's rows of the sound")
    start_s = float(curves.sound_time[0])
    if abs(start_s) > LENGTHS_S:
        where = "after" if start_s > 0 else "before"
        yield QualityFinding(
            Rule.LENGTHS,
            f"picture and sound begin within {LENGTHS_S:g} s of each other",
            f"the sound begins {abs(start_s):.2f} s {where} the picture",
            (tuple(sorted((0.0, start_s))),),  # type: ignore[arg-type]
        )
    difference = curves.sound_end_s - curves.end_s
    if abs(difference) > LENGTHS_S:
        longer, shorter = ("sound", "picture") if difference > 0 else ("picture", "sound")
        yield QualityFinding(
            Rule.LENGTHS,
            f"picture and sound end within {LENGTHS_S:g} s of each other",
            f"the {longer} goes on for {abs(difference):.2f} s after the {shorter} has ended",
            (tuple(sorted((curves.end_s, curves.sound_end_s))),),  # type: ignore[arg-type]
        )


def outside_speech(curves: SessionCurves) -> Iterator[QualityFinding]:
    """Utterances at times almost without voice: the transcript is shifted, or another session's."""
    if curves.f0 is None or curves.sound_time is None:
        raise NothingToLookAtError("no pitch of the sound, which openSMILE's ComParE 2016 has")
    if curves.utterances is None or not (_lengths_s(curves.utterances) >= UTTERANCE_S).any():
        raise NothingToLookAtError(f"no utterance of {UTTERANCE_S:g} s and more")
    spans = tuple(_unvoiced(curves.utterances, np.isfinite(curves.f0), curves.sound_time))
    if spans:
        yield QualityFinding(
            Rule.OUTSIDE_SPEECH,
            f"every utterance of {UTTERANCE_S:g} s and more has a pitch for at least {VOICED:.0%} of it",
            f"{len(spans)} of {len(curves.utterances.start_s)} utterances are at times almost without voice",
            spans,
        )


def _lengths_s(utterances: Utterances) -> np.ndarray:
    return np.asarray(utterances.end_s) - np.asarray(utterances.start_s)


def _unvoiced(utterances: Utterances, voiced: np.ndarray, time: np.ndarray) -> Iterator[Span]:
    total = np.concatenate([[0], np.cumsum(voiced)])
    for start, end in zip(utterances.start_s.tolist(), utterances.end_s.tolist(), strict=True):
        first, stop = np.searchsorted(time, (start, end))
        share = (total[stop] - total[first]) / (stop - first) if stop > first else 0.0
        if end - start >= UTTERANCE_S and share < VOICED:
            yield start, end


def misfits(curves: SessionCurves) -> Iterator[QualityFinding]:
    """Per-frame features whose number of rows is not the session's number of frames."""
    if not curves.frame_features:
        raise NothingToLookAtError("no feature with a row for each frame")
    for trouble in curves.troubles:
        yield QualityFinding(Rule.MISFIT, "every per-frame feature has a row for every frame", trouble)


def doubtful_region(curves: SessionCurves) -> Iterator[QualityFinding]:
    """Stretches in which the region that the track is may show somebody else, as its table of boxes says."""
    if curves.doubtful:
        yield QualityFinding(
            Rule.DOUBTFUL_REGION,
            "the table of boxes of a region calls no box doubtful",
            f"the region may show somebody else for {total_s(curves.doubtful):.1f} s in all",
            curves.doubtful,
        )


_RULES: Mapping[tuple[Rule, ...], Callable[[SessionCurves], Iterator[QualityFinding]]] = {
    (Rule.FACE_LOST,): face_lost,
    (Rule.FACE_JUMP,): face_jump,
    (Rule.SILENCE,): silence,
    (Rule.CLIPPING,): clipping,
    (Rule.FROZEN, Rule.DUPLICATED): frozen,
    (Rule.LENGTHS,): lengths,
    (Rule.JUMP,): jump,
    (Rule.OUTSIDE_SPEECH,): outside_speech,
    (Rule.MISFIT,): misfits,
    (Rule.DOUBTFUL_REGION,): doubtful_region,
}


@dataclass
class Quality:
    """The findings of a session, rule by rule."""

    findings: list[QualityFinding] = field(default_factory=list)
    not_looked_at: dict[Rule, str] = field(default_factory=dict)  # rules without data to judge, with what is missing
    inapplicable: frozenset[Rule] = frozenset()  # rules of regions, where the track is none

    @property
    def looked_at(self) -> list[Rule]:
        """The rules that were applied."""
        return [rule for rule in Rule if rule not in self.not_looked_at and rule not in self.inapplicable]

    @property
    def unjudged(self) -> str:
        """Why rules were not applied, in words: each reason with its rules; empty where all were."""
        reasons: dict[str, list[Rule]] = {}
        for rule, reason in self.not_looked_at.items():
            reasons.setdefault(reason, []).append(rule)
        return "; ".join(f"{', '.join(rules)} ({reason})" for reason, rules in reasons.items())

    @classmethod
    def of(cls, curves: SessionCurves) -> Quality:
        """Apply every rule to a session's curves."""
        quality = cls(inapplicable=frozenset({Rule.DOUBTFUL_REGION} if curves.doubtful is None else ()))
        for rules, find in _RULES.items():
            try:
                quality.findings += find(curves)
            except NothingToLookAtError as error:
                quality.not_looked_at |= dict.fromkeys(rules, str(error))
        return quality
