"""When the last frame ends, wherever it is asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.stores import local

from storyframes.clips.clip_rows import build_index
from storyframes.clips.window_spec import WindowSpec
from storyframes.clips.windows import SessionSignals
from storyframes.features import FEATURES
from storyframes.recording_times import last_frame_end_s, usual_step_s
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter
from tasks.extractors.frames import Clock
from tasks.inspect.curves.read import read_curves

TIMES = [
    ([0.0, 0.1, 0.2, 0.3], 0.4),
    ([0.5, 0.6, 0.7, 2.0, 2.1], 2.2),  # a gap: the usual step
    ([0.0, 0.1], 0.2),
    ([3.0], 3.0),
]


@pytest.mark.parametrize(("time", "end_s"), TIMES)
def test_the_last_frame_ends_when_the_next_would_begin(store_root: Path, time: list[float], end_s: float) -> None:
    assert last_frame_end_s(np.array(time)) == pytest.approx(end_s)
    assert Clock(np.array(time), truncated=False).end_s == pytest.approx(end_s)
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
