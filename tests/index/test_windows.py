from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clip_indexes import build_index

from storyframes.clips.clip_index import SPLITS, assign_splits
from storyframes.clips.window_spec import WindowSpec
from storyframes.clips.windows import SessionFrames, SessionSignals, count_windows
from storyframes.times import ticks


def tables(phase_lengths: list[list[tuple[str, int]]], fps: float = 15) -> tuple[pd.DataFrame, ...]:
    """Sessions whose phases have so many frames each, three ratings each."""
    sessions, phases, ratings = [], [], []
    for number, lengths in enumerate(phase_lengths):
        session_id, clock = f"s{number:03d}", 0
        sessions.append((session_id, f"p{number % 41:02d}"))
        for name, frames in lengths:
            phases.append((session_id, name, clock / fps, (clock + frames) / fps))
            clock += frames
        ratings += [(session_id, f"st{position}", position, position + 1) for position in (1, 2, 3)]
    return (
        pd.DataFrame(sessions, columns=["session_id", "participant_id"]),
        pd.DataFrame(phases, columns=["session_id", "phase", "start_s", "end_s"]),
        pd.DataFrame(ratings, columns=["session_id", "story_id", "position", "empathy"]),
    )


@given(frames=st.integers(0, 5000), window=st.integers(1, 300), stride=st.integers(1, 60))
def test_the_number_of_windows_is_the_formula_and_a_count(frames: int, window: int, stride: int) -> None:
    starts = [start for start in range(0, max(frames, 1), stride) if start + window <= frames]
    assert count_windows(frames, window, stride) == len(starts)
    if frames >= window:
        assert count_windows(frames, window, stride) == (frames - window) // stride + 1


@given(start=st.integers(0, 20_000), length=st.integers(0, 20_000), fps=st.sampled_from([10, 15, 25, 29.97, 30]))
def test_whole_frame_times_give_whole_frames(start: int, length: int, fps: float) -> None:
    spans = [(start / fps, (start + length) / fps)]
    assert SessionFrames(None, fps).between(spans) == [(start, start + length)]


@given(
    gaps=st.lists(st.floats(0.001, 0.5), min_size=1, max_size=200), start=st.floats(0, 30), length=st.floats(0.001, 30)
)
def test_frames_of_a_phase_are_those_whose_time_lies_in_it(gaps: list[float], start: float, length: float) -> None:
    time = np.cumsum(gaps)
    ((first, stop),) = SessionFrames(time, 15).between([(start, start + length)])
    inside = [i for i, t in enumerate(ticks(time)) if ticks(start) <= t < ticks(start + length)]
    assert list(range(first, stop)) == inside


def test_the_papers_study_gives_184062_rows() -> None:
    """269 sessions of 41 participants whose phases hold 33,119 and 28,235 windows."""
    spec = WindowSpec()

    def frames(windows: int) -> int:
        return spec.window + spec.stride * (windows - 1) + 7

    def shares(total: int) -> list[int]:
        return [total // 269 + (number < total % 269) for number in range(269)]

    lengths = [
        [("story_share", frames(share)), ("reflection", frames(reflection))]
        for share, reflection in zip(shares(33_119), shares(28_235), strict=True)
    ]
    index = build_index(*tables(lengths), spec)
    assert len(index) == 184_062
    per_phase = index[index["position"] == 1].groupby("phase").size()
    assert per_phase.to_dict() == {"reflection": 28_235, "story_share": 33_119}
    assert index["clip_id"].is_unique
    assert index.groupby("participant_id")["split"].nunique().max() == 1


def test_one_row_in_full() -> None:
    index = build_index(*tables([[("warm_up", 30), ("story_share", 150)]]), WindowSpec())
    signals = ["audio_start", "audio_stop", "sound_covered", "face_tracked", "face_confidence", "words"]
    signals += ["frames_expected", "longest_gap_s"]
    assert index.iloc[0].drop(signals).to_dict() == {
        "clip_id": "s000:story_share:000030:1",
        "session_id": "s000",
        "participant_id": "p00",
        "phase": "story_share",
        "story_id": "st1",
        "target": "st1",
        "position": 1,
        "empathy": 2,
        "split": "train",
        "split_group": 0,
        "start_frame": 30,
        "stop_frame": 150,
        "start_s": 2.0,
        "stop_s": 10.0,
    }
    assert index.iloc[0][signals].isna().all()
    assert list(index["start_frame"]) == [30, 30, 30, 45, 45, 45, 60, 60, 60]


def test_rows_are_sorted_by_session_phase_start_and_position() -> None:
    index = build_index(*tables([[("b", 200), ("a", 300)]] * 12), WindowSpec())
    key = ["session_id", "phase", "start_frame", "position"]
    pd.testing.assert_frame_equal(index[key], index[key].sort_values(key, ignore_index=True))


def test_only_the_phases_asked_for() -> None:
    lengths = [[("warm_up", 200), ("story_share", 200)]]
    assert set(build_index(*tables(lengths), WindowSpec(phases=("story_share",)))["phase"]) == {"story_share"}


def test_a_phase_shorter_than_a_window_gives_no_clip() -> None:
    index = build_index(*tables([[("story_share", 119)]]), WindowSpec())
    assert len(index) == 0
    assert list(index.columns)[:3] == ["clip_id", "session_id", "participant_id"]


def test_no_phases_at_all_give_an_empty_index_of_the_same_columns() -> None:
    sessions, phases, ratings = tables([[("a", 200)]])
    assert list(build_index(sessions, phases[:0], ratings, WindowSpec()).columns) == list(
        build_index(sessions, phases, ratings, WindowSpec()).columns
    )


def test_what_the_store_knows_is_in_the_row() -> None:
    time = np.arange(200) / 15 + 0.5  # the recording's clock starts late
    tracked = np.ones(200, np.uint8)
    tracked[30:60] = 0
    signals = SessionSignals(
        time=time,
        tracked=tracked,
        confidence=np.where(tracked, 0.9, 0.1),
        audio_time=np.arange(2000) / 100,
        word_start=np.array([9.0, 0.6, 3.0, 8.4999]),
        features=frozenset({"frames", "openface"}),
    )
    sessions, phases, ratings = tables([[("story_share", 200)]])
    index = build_index(sessions, phases, ratings, WindowSpec(), {"s000": signals}, ["openface", "glove"])
    row = index.iloc[0]
    assert (row["start_frame"], row["stop_frame"]) == (0, 120)
    assert (row["start_s"], row["stop_s"]) == pytest.approx((0.5, 8.5))
    assert (row["audio_start"], row["audio_stop"]) == (50, 850)
    assert row["sound_covered"] == 1
    assert row["face_tracked"] == pytest.approx(0.75)
    assert row["face_confidence"] == pytest.approx((90 * 0.9 + 30 * 0.1) / 120)
    assert row["words"] == 3
    assert row["has_openface"]
    assert not row["has_glove"]
    assert index["stop_frame"].max() <= 200


@given(count=st.integers(1, 200), seed=st.integers(0, 5))
def test_splits_have_the_shares_asked_for_and_do_not_depend_on_order(count: int, seed: int) -> None:
    participants = [f"p{i}" for i in range(count)]
    spec = WindowSpec(split_seed=seed)
    splits = assign_splits(participants, spec)
    assert splits == assign_splits(participants[::-1], spec)
    counts = [list(splits.values()).count(split) for split in SPLITS]
    assert sum(counts) == count
    for got, share in zip(counts, spec.split_shares, strict=True):
        assert abs(got - share * count) < 1


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"window": 0}, "window = 0: a whole number of frames, at least 1"),
        ({"window": 7.5}, r"window = 7\.5"),
        ({"window": float("nan")}, "window = nan"),
        ({"window": "120"}, "window = '120'"),
        ({"stride": -1}, "stride = -1"),
        ({"fps": 0}, "fps = 0: more than 0"),
        ({"fps": float("nan")}, "fps = nan"),
        ({"fps": float("inf")}, "fps = inf"),
        ({"phases": "reflection"}, "phases = 'reflection': a list"),  # "flection" would be in it
        ({"split_shares": (0.5, 0.5)}, "three shares"),
        ({"split_shares": (1.2, -0.1, -0.1)}, "none negative"),
        ({"split_shares": (0.7, 0.2, float("nan"))}, "three shares, of train, val and test"),
        ({"split_shares": (0, 0, 0)}, "not all of them zero"),
        ({"window": 0, "stride": 0, "fps": -1}, "window = 0.*stride = 0.*fps = -1"),
    ],
)
def test_no_clips_are_cut_by_what_makes_no_sense(values: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        WindowSpec(**values)


def test_two_participants_are_not_both_in_train() -> None:
    assert sorted(assign_splits(["p01", "p02"], WindowSpec()).values()) == ["train", "val"]


def test_another_seed_gives_another_split() -> None:
    participants = [f"p{i}" for i in range(41)]
    assert assign_splits(participants, WindowSpec()) != assign_splits(participants, WindowSpec(split_seed=1))


def test_the_index_of_the_demo_study(demo_study: Path) -> None:
    from tasks.clip_index.index import build_clip_index
    from tasks.study.load import load_study

    index = build_clip_index(load_study(demo_study), WindowSpec(), None).clips
    before = pd.read_csv(Path(__file__).parents[1] / "data/demo_clips.csv")  # of the index in its first format
    pd.testing.assert_frame_equal(index[list(before)], before, check_dtype=False)
    assert index["clip_id"].tolist() == before["clip_id"].tolist()
    assert len(index) == 3 * (3 + 3) * 3
    assert index[["story_id", "position", "empathy"]].iloc[0].to_dict() == {
        "story_id": "st-garden",
        "position": 1,
        "empathy": 4,
    }
