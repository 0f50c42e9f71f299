"""Why a study, or some of its sessions, give no clips, and the shortest change that would give some."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from storyframes.clips.window_spec import WindowSpec
from storyframes.clips.windows import PhaseRow, SessionFrames, SessionSignals
from tasks.study.labels import listed


def why_none(
    sessions: Sequence[str],
    phases: Sequence[PhaseRow],
    windows: int,
    spec: WindowSpec,
    signals: Callable[[str], SessionSignals],
) -> str:
    """Why there is no clip, and the shortest change that would give some.

    Args:
        sessions: those that are not excluded.
        phases: of these sessions; all of a session where the study has no phases.
        windows: how many were found, labelled or not.
        signals: says what is known of a session's recording.
    """
    if not sessions:
        return "0 clips: every session has something wrong with it; mend one of them"
    if not phases:
        return (
            "0 clips: the study has no phases, so that every session is one, but how long the sessions are is known of "
            "none: extract 'frames', or give phases"
        )
    asked = [phase for phase in phases if spec.phases is None or phase.phase in spec.phases]
    if not asked:
        there = listed(sorted({phase.phase for phase in phases}))
        return f"0 clips: [clips] phases = {list(spec.phases or ())} are none of the study's, which are {there}"
    if windows:
        return (
            f"0 clips: nothing labels any of the {windows:,} windows, and windows without a label are left out: "
            'keep them with [clips] unlabelled = "keep"'
        )
    best, (frames, rate) = max(
        ((phase, _frames(phase, signals(phase.session_id), spec)) for phase in asked), key=lambda one: one[1][0]
    )
    if frames <= 0:
        return (
            f"0 clips: no phase has a frame of its recording (the first, {best.phase!r} of {best.session_id}, is from "
            f"{best.start_s:g} s to {best.end_s:g} s): phases are in seconds from the recording's beginning"
        )
    change = f"window_s = {np.floor(frames / rate * 100) / 100:g}" if spec.in_seconds else f"window = {frames}"
    return (
        f"0 clips: no phase is as long as a clip, {spec.frames(rate)} frames; the longest, {best.phase!r} of "
        f"{best.session_id}, has {frames} ({frames / rate:.2f} s): make clips shorter, [clips] {change}"
    )


def _frames(phase: PhaseRow, signal: SessionSignals, spec: WindowSpec) -> tuple[int, float]:
    end_s = min(phase.end_s, math.inf if signal.end_s is None else signal.end_s)
    ((first, stop),) = SessionFrames(signal.time, signal.header_fps or spec.fps).between([(phase.start_s, end_s)])
    if signal.end_s is not None:  # its frames are steps of time, and the last one is not whole
        stop = math.floor(end_s * spec.fps + 1e-6)
    return stop - first, signal.rate(spec.fps)


def other_rates(
    rates: Mapping[str, float], spec: WindowSpec, *, usual: float, without: Collection[str]
) -> dict[str, str]:
    """By session, that clips counted in frames are of another length there than in most sessions, or are none.

    Args:
        rates: frames per second of the sessions that have another rate.
        usual: the rate that most sessions have.
        without: sessions without a video.
    """
    window_s, window, cure = (spec.window or 0) / usual, _counts_frames(spec), _in_seconds(spec, usual)
    return dict.fromkeys(without, f"it has no video, and {window}: {cure}") | {
        session: f"its {rate:.2f} frames per second are not the {usual:.2f} of other sessions, and {window}, so its "
        f"clips would last {(spec.window or 0) / rate:.2f} s instead of {window_s:.2f} s: {cure}"
        for session, rate in rates.items()
    }


def no_frames(clips: int, without: Sequence[str], spec: WindowSpec) -> str:
    """That sessions of a study without any video give no clips that are counted in frames; nothing is wrong with them.

    Args:
        clips: of other sessions, whose frames the store has.
        without: these sessions.
    """
    whose = "0 clips" if not clips else f"no clips of {listed(without)}"
    return f"{whose}: no session has a video, and {_counts_frames(spec)}: {_in_seconds(spec, spec.fps)}"


def _counts_frames(spec: WindowSpec) -> str:
    return f"[clips] window = {spec.window} counts frames"


def _in_seconds(spec: WindowSpec, rate: float) -> str:
    """How clips of the same length are asked for in seconds."""
    return (
        "cut clips in seconds, by two lines under [clips] in place of window and stride: "
        f"window_s = {(spec.window or 0) / rate:.4g} and stride_s = {(spec.stride or 0) / rate:.4g}"
    )
