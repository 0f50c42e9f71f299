"""When the last frame ends, wherever it is asked, and how many frames a camera takes a second, whatever it loses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clip_indexes import build_index
from support.stores import local

from storyframes.clips.window_spec import WindowSpec
from storyframes.clips.windows import SessionSignals
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter
from storyframes.times import last_frame_end_s, usual_rate, usual_step_s
from tasks.extractors.frames import FrameClock
from tasks.inspect.track_curves import read_curves

TIMES = [
    ([0.0, 0.1, 0.2, 0.3], 0.4),
    ([0.5, 0.6, 0.7, 2.0, 2.1], 2.2),  # a gap: the usual step
    ([0.0, 0.1], 0.2),
    ([3.0], 3.0),
]


@pytest.mark.parametrize(("time", "end_s"), TIMES)
def test_the_last_frame_ends_when_the_next_would_begin(store_root: Path, time: list[float], end_s: float) -> None:
    assert last_frame_end_s(np.array(time)) == pytest.approx(end_s)
    assert FrameClock(np.array(time), truncated=False).end_s == pytest.approx(end_s)
    with FeatureWriter(local(store_root), "s", FEATURES["frames"]) as out:
        out.write("time", np.array(time))
        out.publish("f" * 64, {"inputs": {}})
    catalogue.compact(local(store_root))
    assert read_curves(FeatureStore(store_root), "s").end_s == pytest.approx(end_s)
    phases = pd.DataFrame({"session_id": ["s"], "phase": ["a"], "start_s": [time[0]], "end_s": [time[-1] + 1]})
    ratings = pd.DataFrame({"session_id": ["s"], "story_id": ["t"], "position": [1], "empathy": [1]})
    sessions = pd.DataFrame({"session_id": ["s"], "participant_id": ["p"]})
    signals = {"s": SessionSignals(time=np.array(time))}
    clips = build_index(sessions, phases, ratings, WindowSpec(window=1, stride=1, fps=10), signals)
    shown_s = 0.1 if len(time) == 1 else 0.0  # a clip of a single frame has a length all the same: the assumed one
    assert clips["stop_s"].max() == pytest.approx(end_s + shown_s)


def test_no_frames_and_one_frame() -> None:
    assert last_frame_end_s(np.empty(0)) == 0.0
    assert usual_step_s(np.empty(0)) == 0.0
    assert usual_step_s(np.array([4.0]), 0.04) == 0.04
    assert last_frame_end_s(np.array([4.0]), 0.04) == pytest.approx(4.04)


# --- the usual rate --------------------------------------------------------------------------------------------------

LOSSES = ("none", "every 3rd", "every 4th", "every 40th", "two of four", "at random", "in rows", "pauses")
JITTER = {"none": 0.0, "milliseconds": 0.0, "tenths": 0.1, "thirds": 0.3}  # of a step, at most


def taken(fps: float, count: int, jitter: str, loss: str, generator: np.random.Generator) -> np.ndarray:
    """When the frames of a camera that loses some are shown, seconds."""
    number = np.arange(count)
    time = (number + generator.uniform(0, JITTER[jitter], count)) / fps
    if jitter == "milliseconds":
        time = np.round(time, 3)
    first = int(generator.integers(0, 3))
    is_lost = np.zeros(count, bool)
    if loss.startswith("every"):
        is_lost = (number + first) % int(loss.removeprefix("every ")[:-2]) == 0
    elif loss == "two of four":
        is_lost = (number + first) % 4 < 2
    elif loss == "at random":
        is_lost = generator.random(count) < generator.uniform(0, 0.35)
    elif loss == "in rows":
        for begin in generator.integers(0, count, count // 30):
            is_lost[begin : begin + int(generator.integers(1, 9))] = True
    elif loss == "pauses":
        for begin in generator.integers(1, count, int(generator.integers(1, 4))):
            steps = fps * generator.uniform(0.05, 30)
            # Shorter ones end between two frames: of others nobody can say whether they are lost frames.
            time[begin:] += (max(np.floor(steps), 1) + 0.5 if steps < 10 else steps) / fps
    return time[~is_lost]


@settings(max_examples=300, deadline=None)
@given(
    fps=st.sampled_from([10, 15, 25, 30000 / 1001, 30, 50, 60]),
    count=st.integers(80, 700),
    jitter=st.sampled_from(sorted(JITTER)),
    loss=st.sampled_from(LOSSES),
    seed=st.integers(0, 2**32),
)
def test_no_loss_lowers_the_usual_rate(fps: float, count: int, jitter: str, loss: str, seed: int) -> None:
    time = taken(fps, count, jitter, loss, np.random.default_rng(seed))
    assert usual_rate(time, 1) == pytest.approx(fps, rel=0.02 if jitter == "thirds" else 0.005)


@given(
    st.sampled_from([10, 15, 25, 30000 / 1001, 30, 50, 60]),
    st.integers(2, 10),
    st.floats(-0.4, 0.4),
    st.integers(40, 200),
    st.integers(40, 200),
)
def test_a_pause_of_nearly_whole_steps_shifts_the_rate_by_less_than_a_step_in_thirty_frames(
    fps: float, steps: int, off: float, before: int, after: int
) -> None:
    time = np.cumsum([0, *[1] * before, steps + off, *[1] * after]) / fps
    assert usual_rate(time, 1) == pytest.approx(fps, rel=abs(off) / 29 + 0.001)


@pytest.mark.parametrize(
    ("steps", "fps"),
    [
        ([0.04], 25),
        ([0.04, 0.9], 25),
        ([0.9, 0.04], 25),
        ([0.04, 0.04, 0.9, 0.04], 25),
        ([0.04, 0.08, 0.04, 0.08, 0.08], 25),
        ([0.04] * 24 + [0.94] + [0.04] * 24, 25),
        ([0.04] * 24 + [0.94] * 3 + [0.04] * 24, 25),
        ([0.1] * 10 + [3600] + [0.1] * 5, 10),
        ([0.04] * 3 + [0.892] + [0.04] * 3, 25),
        ([0.04] * 15 + [0.098] + [0.04] * 15, 25),  # a pause that is no whole number of steps
        ([0.04, 0.078, 0.002] * 40, 25),  # every third frame is late, and none is lost
        # What has no single step keeps the rate over 30 frames, whatever is between them.
        ([1 / 30, 1 / 20] * 100, 24),  # film in 60 fields a second
        ([0, 1 / 15] * 100, 30),  # two frames under one time
        ([0.01, 0.07] * 100, 25),  # in pairs
        ([0.001] * 29 + [1.171] + ([0.001] * 29 + [1.171]) * 20, 25),  # thirty at once
        ([0.01] * 4 + [0.16] + ([0.01] * 4 + [0.16]) * 40, 25),  # five soon after each other
        ([0.001] * 4 + [0.196] + ([0.001] * 4 + [0.196]) * 40, 25),  # frames that arrive in bursts
    ],
)
def test_the_usual_rate_of_few_frames_and_of_odd_ones(steps: list[float], fps: float) -> None:
    assert usual_rate(np.cumsum([0.5, *steps]), 1) == pytest.approx(fps, rel=0.002)


def test_no_rate_is_told_by_frames_of_one_moment() -> None:
    assert [usual_rate(np.array(time), 12.5) for time in ([], [4.0], [4.0, 4.0, 4.0])] == [12.5] * 3


def test_late_frames_are_no_lost_ones() -> None:
    """The times of a camera that loses nothing, each of them off by a fifth of a step and more."""
    generator = np.random.default_rng(6)
    for _ in range(10):
        time = np.sort(np.arange(700) + generator.normal(0, 0.2, 700)) / 25
        assert usual_rate(time, 1) == pytest.approx(25, rel=0.01)


def test_frames_that_arrive_at_random_keep_their_mean_rate() -> None:
    generator = np.random.default_rng(4)
    for steps in (generator.exponential(0.04, 3000), generator.gamma(5, 0.008, 3000)):
        assert usual_rate(np.cumsum(steps), 1) == pytest.approx(25, rel=0.05)


def test_clips_of_a_camera_that_loses_every_40th_frame_say_so() -> None:
    time = (np.arange(1200) / 30)[np.arange(1200) % 40 != 39]
    phases = pd.DataFrame({"session_id": ["s"], "phase": ["a"], "start_s": [0.0], "end_s": [40.0]})
    sessions = pd.DataFrame({"session_id": ["s"], "participant_id": ["p"]})
    ratings = pd.DataFrame(columns=["session_id", "story_id", "position", "empathy"])
    clips = build_index(sessions, phases, ratings, WindowSpec(window_s=4), {"s": SessionSignals(time=time)})
    assert set(clips["stop_frame"] - clips["start_frame"]) == {120}
    assert set(clips["frames_expected"]) == {123}
    assert clips["longest_gap_s"].to_numpy() == pytest.approx(2 / 30)
