"""Windows counted in seconds, and frames at the rates that cameras have, against counting one frame at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clip_indexes import build_index
from support.messages import missing, naming
from support.stores import local
from support.synthetic_features import publish, study_of

from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput
from storyframes.clips.window_spec import WindowSpec
from storyframes.clips.windows import SessionSignals
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.times import ticks, usual_rate
from tasks.clip_index.index import build_clip_index, write_clip_index

NTSC = 30000 / 1001
NO_RATINGS = pd.DataFrame(columns=["session_id", "story_id", "position", "empathy"])


def windows(time: np.ndarray | None, spec: WindowSpec, start_s: float, end_s: float, **signals: float) -> pd.DataFrame:
    phases = pd.DataFrame({"session_id": ["s"], "phase": ["p"], "start_s": [start_s], "end_s": [end_s]})
    sessions = pd.DataFrame({"session_id": ["s"], "participant_id": ["a"]})
    return build_index(sessions, phases, NO_RATINGS, spec, {"s": SessionSignals(time=time, **signals)})


def frame_times(fps: float, seconds: float, kind: str, generator: np.random.Generator) -> np.ndarray:
    time = np.arange(round(seconds * fps)) / fps
    if kind == "milliseconds":
        return np.round(time, 3)
    if kind == "jitter":
        return time + generator.uniform(0, 0.3 / fps, len(time))
    if kind == "gaps":
        return time[np.sort(generator.choice(len(time), round(len(time) * 0.9), replace=False))]
    return time


def check_windows_of_their_seconds(
    time: np.ndarray, spec: WindowSpec, phase: tuple[float, float], index: pd.DataFrame
) -> None:
    """Of a rate that varies: a window begins with a frame and has all frames of its seconds, one frame at a time."""
    expected = []
    number, at = 0, ticks(time).tolist()
    while phase[0] + number * spec.stride_s < phase[1]:
        begins = ticks(phase[0] + number * spec.stride_s)
        after = [i for i, tick in enumerate(at) if begins <= tick]
        number += 1
        if not after or ticks(time[after[0]] + spec.window_s) > ticks(min(phase[1], time[time >= phase[1]].min())):
            continue
        ends = ticks(time[after[0]] + spec.window_s)
        inside = [i for i in after if at[i] < ends and time[i] < phase[1]]
        if (inside[0], inside[-1] + 1) not in expected:
            expected.append((inside[0], inside[-1] + 1))
    assert list(zip(index["start_frame"], index["stop_frame"], strict=True)) == expected
    assert index["start_s"].tolist() == [time[start] for start, _ in expected]
    assert (index["stop_s"] - index["start_s"]).to_numpy() == pytest.approx(spec.window_s, abs=1e-9)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    fps=st.sampled_from([15, 25, NTSC, 30]),
    kind=st.sampled_from(["even", "milliseconds", "jitter", "gaps"]),
    window_s=st.sampled_from([0.5, 2.0, 3.2, 8.0]),
    stride_s=st.sampled_from([0.25, 1.0, 1 / 3, 5.0]),
    start_s=st.sampled_from([0.0, 1.0, 2.345]),
    seed=st.integers(0, 1000),
)
def test_windows_in_seconds_are_those_that_counting_gives(
    fps: float, kind: str, window_s: float, stride_s: float, start_s: float, seed: int
) -> None:
    time = frame_times(fps, 20, kind, np.random.default_rng(seed))
    spec = WindowSpec(window_s=window_s, stride_s=stride_s)
    end_s = 17.5
    index = windows(time, spec, start_s, end_s)

    rate = usual_rate(time, 1)
    if abs((len(time) - 1) / (time[-1] - time[0]) / rate - 1) > 0.05:
        check_windows_of_their_seconds(time, spec, (start_s, end_s), index)
        return
    length = spec.frames(rate)
    at = ticks(time).tolist()
    in_phase = [i for i, tick in enumerate(at) if ticks(start_s) <= tick < ticks(end_s)]
    expected, number = [], 0
    while start_s + number * stride_s < end_s:
        begins = ticks(start_s + number * stride_s)
        after = [i for i in in_phase if at[i] >= begins]
        if len(after) >= length and after[0] not in expected:
            expected.append(after[0])
        number += 1
    assert index["start_frame"].tolist() == expected
    assert set(index["stop_frame"] - index["start_frame"]) <= {length}
    for clip in index.itertuples():
        assert clip.start_s == time[clip.start_frame]
        assert clip.stop_s >= time[clip.stop_frame - 1]
        if clip.stop_frame < len(time):
            assert clip.stop_s == time[clip.stop_frame]
        to_next = np.diff(np.append(time[clip.start_frame : clip.stop_frame], clip.stop_s))
        assert clip.longest_gap_s == pytest.approx(to_next.max())
        assert clip.frames_expected == round((clip.stop_s - clip.start_s) * usual_rate(time, 1))


@pytest.mark.parametrize("fps", [15, 25, NTSC, 30])
@pytest.mark.parametrize("kind", ["even", "milliseconds", "jitter"])
def test_a_camera_has_clips_of_one_length_whatever_its_times_look_like(fps: float, kind: str) -> None:
    """8 s at 29.97 are 239.76 frames: 240, also where jitter or rounding makes the rate 29.96 or 29.98."""
    time = frame_times(fps, 40, kind, np.random.default_rng(3))
    index = windows(time, WindowSpec(window_s=8), 0, 40)
    assert set(index["stop_frame"] - index["start_frame"]) == {round(8 * fps)}
    assert (index["stop_s"] - index["start_s"]).to_numpy() == pytest.approx(8, rel=0.01)
    assert index["start_s"].diff().dropna().to_numpy() == pytest.approx(1, abs=1.3 / fps)
    assert len(index) in (32, 33)  # the last one may end a frame too late


@pytest.mark.parametrize("fps", [15, 25, NTSC, 30])
def test_without_frame_times_windows_in_seconds_go_by_the_rate_of_the_header(fps: float) -> None:
    time = np.arange(round(20 * fps)) / fps
    for start_s, spec in ((0.0, WindowSpec(window_s=8)), (1.5, WindowSpec(window_s=2.0, stride_s=0.1))):
        by_time, by_header = windows(time, spec, start_s, 19), windows(None, spec, start_s, 19, header_fps=fps)
        for column in ("start_frame", "stop_frame"):
            assert by_header[column].tolist() == by_time[column].tolist()
        assert by_header["start_s"].to_numpy() == pytest.approx(by_time["start_s"].to_numpy())
        assert by_header["frames_expected"].isna().all()


def test_gaps_lower_no_rate_and_are_told() -> None:
    time = np.arange(600) / 15
    time[300:] += 4.0
    assert usual_rate(time, 1) == pytest.approx(15)
    index = windows(time, WindowSpec(), 0, 1000).set_index("start_frame")
    assert index.loc[0, "frames_expected"] == 120
    assert index.loc[0, "longest_gap_s"] == pytest.approx(1 / 15)
    assert index.loc[240, "frames_expected"] == 180  # 8 s and 4 s of nothing
    assert index.loc[240, "longest_gap_s"] == pytest.approx(4 + 1 / 15)
    assert index.loc[240, "stop_s"] - index.loc[240, "start_s"] == pytest.approx(12)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"window": 120, "window_s": 8.0}, "window counts frames and window_s seconds: give window and stride, or"),
        ({"stride": 15, "window_s": 8.0}, "stride counts frames and window_s seconds"),
        ({"window": 120, "stride_s": 1.0}, "window counts frames and stride_s seconds"),
        ({"stride_s": 1.0}, "stride_s = 1.0 is given without window_s"),
        ({"window_s": 0.0}, "window_s = 0.0: more than 0 seconds"),
        ({"window_s": float("inf")}, "window_s = inf"),
        ({"window_s": 8.0, "stride_s": -1.0}, "stride_s = -1.0"),
        ({"unlabelled": "leave"}, 'unlabelled = \'leave\': "keep" or "drop"'),
    ],
)
def test_windows_are_counted_in_frames_or_in_seconds(values: dict[str, object], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        WindowSpec(**values)  # type: ignore[arg-type]


def test_the_default_is_120_frames_and_a_second_between_windows_in_seconds() -> None:
    assert (WindowSpec().window, WindowSpec().stride, WindowSpec().window_s) == (120, 15, None)
    assert (WindowSpec(window=60).stride, WindowSpec(stride=5).window) == (15, 120)
    spec = WindowSpec(window_s=8)
    assert (spec.window, spec.stride, spec.stride_s) == (None, None, 1.0)
    assert [spec.frames(fps) for fps in (15, 25, NTSC, 30, 29.9, 14.95, 17.3)] == [120, 200, 240, 240, 240, 120, 138]


def store_of(root: Path, rates: dict[str, float], seconds: float = 12) -> FeatureStore:
    create_store(root)
    for session, fps in rates.items():
        publish(root, session, "frames", {"time": np.arange(round(seconds * fps)) / fps})
    catalogue.compact(local(root))
    return FeatureStore(root)


def study(sessions: list[str]):
    return study_of(
        {
            "sessions": pd.DataFrame({"session_id": sessions, "participant_id": sessions}),
            "phases": pd.DataFrame(columns=["session_id", "phase", "start_s", "end_s"]),
            "ratings": NO_RATINGS,
        }
    )


def test_windows_in_frames_over_other_rates_name_the_sessions(tmp_path: Path) -> None:
    rates = {"a": 15.0, "b": 15.1, "c": 30.0, "d": 15.0, "e": 14.5}
    store = store_of(tmp_path / "store", rates)
    built = build_clip_index(study(list(rates)), WindowSpec(), store)
    assert set(built.excluded) == {"c", "e"}
    assert set(built.clips["session_id"]) == {"a", "b", "d"}
    said = ("30.00 frames", "15.00", "[clips] window = 120", "4.00 s", "8.00 s", "window_s = 8 and stride_s = 1")
    assert missing(built.excluded["c"], *said) == []
    in_seconds = build_clip_index(study(list(rates)), WindowSpec(window_s=8), store)
    assert in_seconds.excluded == {}
    lengths = (in_seconds.clips["stop_frame"] - in_seconds.clips["start_frame"]).groupby(in_seconds.clips["session_id"])
    assert lengths.first().to_dict() == {"a": 120, "b": 120, "c": 240, "d": 120, "e": 116}


def phone_times(seconds: float) -> np.ndarray:
    """A phone of 30 frames a second that gets dark: it leaves out two of seven."""
    every = np.arange(round(30 * seconds))
    return every[(every % 7 != 3) & (every % 7 != 5)] / 30


def screen_times(seconds: float) -> np.ndarray:
    """A shared screen: frames only while something moves, and one in a while otherwise."""
    every = np.arange(round(30 * seconds))
    return every[(every % 150 < 60) | (every % 150 == 100)] / 30


def test_every_window_of_any_rate_is_read_on_one_grid(tmp_path: Path) -> None:
    """What is read is the row's own number: the row nearest to each point, of what the recording has there."""
    times = {
        "even": np.arange(600) / 30,
        "slow": np.arange(100) / 5,
        "fast": np.arange(960) / 48,
        "gap": np.delete(np.arange(600) / 30, slice(200, 225)),
        "phone": phone_times(20),
        "screen": screen_times(20),
    }
    root = tmp_path / "store"
    create_store(root)
    for session, time in times.items():
        rows = np.repeat(np.arange(len(time), dtype=np.float16)[:, None], 2048, axis=1)
        publish(root, session, "frames", {"time": time})
        publish(root, session, "resnet50", {"values": rows})
    catalogue.compact(local(root))
    for window_s in (8.0, 0.5):
        spec = WindowSpec(window_s=window_s, stride_s=1.0)
        built = build_clip_index(study(list(times)), spec, FeatureStore(root))
        assert built.excluded == {}
        write_clip_index(built.clips, local(root))
        dataset = ClipDataset(root, [ClipInput("resnet50", rate=10.0)])
        assert set(dataset.clips["session_id"]) == set(times)
        assert dataset.fields["resnet50"].shape == (round(10 * window_s), 2048)
        lengths = dataset.clips["stop_s"] - dataset.clips["start_s"]
        varying = dataset.clips["session_id"].isin(["phone", "screen"])
        assert lengths[varying].to_numpy() == pytest.approx(window_s, abs=1e-9)
        for number, clip in enumerate(dataset.clips.itertuples()):
            read, time = dataset[number], times[clip.session_id]
            for point, (row, has_row) in enumerate(zip(read["resnet50"][:, 0], read["resnet50_mask"], strict=True)):
                at = clip.start_s + point / 10
                if has_row:
                    assert abs(time[int(row)] - at) <= np.abs(time - at).min() + 1e-6
                    assert at < clip.stop_s
                else:
                    assert at >= clip.stop_s - 1e-6 or np.abs(time - at).min() > 0.5 / 10


def test_clips_of_several_lengths_are_not_put_into_one_batch(tmp_path: Path) -> None:
    store = store_of(tmp_path / "store", {"a": 15.0, "b": 30.0})
    built = build_clip_index(study(["a", "b"]), WindowSpec(window_s=8), store)
    write_clip_index(built.clips, local(tmp_path / "store"))
    with pytest.raises(ValueError, match=naming("[120, 240] frames", "rate=")):
        ClipDataset(store, ["frames"])
    assert ClipDataset(store, ["frames"], "stop_frame - start_frame == 240").fields["frames_time"].shape == (240,)
