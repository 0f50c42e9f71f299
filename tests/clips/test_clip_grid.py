"""Inputs on a grid of one rate, against what brute force finds."""

from __future__ import annotations

import pickle
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.messages import naming
from support.stores import local
from support.synthetic_features import STORY_IDS, publish, random_features, study_of

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.clips.grid import Grid
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import STORIES, Axis
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from storyframes.store.session_times import SessionTimes
from storyframes.times import nearest_rows, spoken_rows, ticks
from tasks.clip_index.index import build_clip_index, write_clip_index

FRAMES, WINDOW = 90, 20
RATES = {"s15": 15.0, "s25": 25.0, "s29": 30000 / 1001, "s30": 30.0}
SESSIONS = [*RATES, "vfr", "gap", "ms"]
every_session = pytest.mark.parametrize("session", SESSIONS)


def frame_times(session: str) -> np.ndarray:
    """Of constant rate; irregular; with half a second missing; in whole milliseconds."""
    if session in RATES:
        return np.arange(FRAMES) / RATES[session]
    generator = np.random.default_rng(5)
    if session == "vfr":
        return np.cumsum(generator.uniform(0.055, 0.078, FRAMES)) - 0.05
    if session == "gap":
        return np.arange(FRAMES) / 15 + 0.5 * (np.arange(FRAMES) >= 33)
    return np.round(np.arange(FRAMES) / 15, 3)


Arrays = dict[tuple[str, str, str], np.ndarray]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Arrays]:
    root = tmp_path_factory.mktemp("study") / "features"
    create_store(root)
    arrays: Arrays = {}
    for number, session in enumerate(SESSIONS):
        time = frame_times(session)
        for feature, values in random_features(np.random.default_rng(number), FRAMES).items():
            if feature == "frames":
                values["time"] = time
            if feature == "opensmile":
                values["time"] = values["time"] * (time[-1] / 6) + 0.2  # sound begins late, and has its own step
            publish(root, session, feature, values, {"speakers": ["participant"]})
            arrays |= {(session, feature, name): rows for name, rows in values.items()}
    publish(root, STORIES, "sbert", {"values": np.zeros((5, 384), np.float32)}, {"story_ids": STORY_IDS})
    catalogue.compact(local(root))
    write_clip_index(index_of(root), local(root))
    return root, arrays


def index_of(root: Path):
    import pandas as pd

    ends = {session: frame_times(session)[-1] + 1 for session in SESSIONS}
    tables = {
        "sessions": pd.DataFrame({"session_id": SESSIONS, "participant_id": SESSIONS}),
        "phases": pd.DataFrame(
            [(session, "share", 0.0, ends[session]) for session in SESSIONS],
            columns=["session_id", "phase", "start_s", "end_s"],
        ),
        "ratings": pd.DataFrame(
            [(session, STORY_IDS[0], 1, 3) for session in SESSIONS],
            columns=["session_id", "story_id", "position", "empathy"],
        ),
    }
    windows = WindowSpec(window=WINDOW, stride=7, split_shares=(1, 0, 0))  # as many frames at every rate
    store = FeatureStore(root)
    each = [
        study_of({name: rows[rows["session_id"] == session] for name, rows in tables.items()}) for session in SESSIONS
    ]
    return pd.concat([build_clip_index(study, windows, store).clips for study in each], ignore_index=True)


def open_one(root: Path, session: str, *inputs: str | ClipInput) -> ClipDataset:
    near = "" if session != "gap" else " and stop_s - start_s < 1.4"
    return ClipDataset(root, inputs, f"session_id == '{session}'{near}")


def points_of(clip, rate: float, count: int) -> list[float]:
    return [clip["start_s"] + number / rate for number in range(count)]


def brute_force(time: np.ndarray, clip, rate: float, count: int) -> list[int]:
    """Of each point the nearest row, -1 where it is too far off or the clip is over."""
    points = np.array(points_of(clip, rate, count))
    distances = np.abs(time - points[:, None])
    rows = np.argmin(np.round(distances, 6), axis=1)
    over = ticks(points) >= ticks(clip["stop_s"])
    return np.where(over | (distances[np.arange(count), rows] > farthest(time, rate)), -1, rows).tolist()


def farthest(time: np.ndarray, rate: float) -> float:
    """Seconds from a point to a row that it still has."""
    return max(1 / rate, float(np.median(np.diff(time)))) / 2 + 0.001


def by_rounding(time: np.ndarray, points: np.ndarray, rate: float) -> np.ndarray:
    """Of each point whether microseconds, in which times are compared, decide that it has a row, or none."""
    return np.abs(np.abs(time - points[:, None]).min(axis=1) - farthest(time, rate)) < 3e-6


def same(got: np.ndarray, expected: np.ndarray, rows: list[int], time: np.ndarray, points: list[float]) -> None:
    """Equal, row for row; of two rows that are equally far but for rounding either will do."""
    wanted = expected[rows]
    is_equal = ((got == wanted) | ((got != got) & (wanted != wanted))).reshape(len(rows), -1).all(axis=1)
    for place in np.flatnonzero(~is_equal):
        row = rows[place]
        candidates = [row]
        if row >= 0:
            off = abs(time[row] - points[place])
            candidates = [
                n
                for n in (row - 1, row, row + 1)
                if 0 <= n < len(time) and abs(abs(time[n] - points[place]) - off) < 3e-6
            ]
        assert any(np.array_equal(got[place], expected[n], equal_nan=True) for n in candidates), (place, row)


RATES_ASKED = st.one_of(st.sampled_from([5.0, 7.5, 15.0, 25.0, 30000 / 1001, 30.0, 60.0]), st.floats(2, 80))


@pytest.mark.slow
@pytest.mark.parametrize("session", SESSIONS)
@settings(max_examples=6, deadline=None)
@given(rate=RATES_ASKED)
@example(rate=79.52548403039755)  # a point of vfr lies as far from a row as it may, but for 0.1 microseconds
def test_every_point_has_the_row_nearest_to_it(study, session: str, rate: float) -> None:
    root, arrays = study
    dataset = open_one(root, session, *(ClipInput(name, rate=rate) for name in ("openface", "vision", "audio", "dope")))
    frame_time, sound_time = (arrays[session, feature, "time"] for feature in ("frames", "opensmile"))
    seconds = float(np.median(dataset.clips["stop_s"] - dataset.clips["start_s"]))
    count = dataset.fields["openface"].shape[0]
    assert abs(count - seconds * rate) <= 0.5 + 0.06 * seconds * rate
    for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
        points = np.array(points_of(clip, rate, count))
        nearest = {id(time): brute_force(time, clip, rate, count) for time in (frame_time, sound_time)}
        for name, feature, array, mask, time in (
            ("openface", "openface", "values", "valid", frame_time),
            ("dope_hands_3d", "dope", "hands_3d", "sampled", frame_time),
            ("dope_n_detected", "dope", "n_detected", "sampled", frame_time),
            ("audio", "opensmile", "values", None, sound_time),
        ):
            rows = np.array(nearest[id(time)])
            values = arrays[session, feature, array]
            decided = ~by_rounding(time, points, rate)
            near, far = (rows >= 0) & decided, (rows < 0) & decided
            same(sample[name][near], values, rows[near].tolist(), time, points[near].tolist())
            fill = -1 if array == "n_detected" else np.nan
            assert np.array_equal(sample[name][far], np.full_like(sample[name][far], fill), equal_nan=True)
            of_mask = sample[f"{name.split('_')[0]}_mask"]
            assert not of_mask[far].any()
            counts = np.ones(len(time), bool) if mask is None else arrays[session, feature, mask] == 1
            same(of_mask[near], counts, rows[near].tolist(), time, points[near].tolist())
        np.testing.assert_array_equal(sample["vision"][:, :714], sample["openface"])
        np.testing.assert_array_equal(sample["vision_mask"], sample["openface_mask"])


@pytest.mark.parametrize(
    ("session", "rate"), [*RATES.items(), ("ms", 15), ("s29", 30), ("s30", 30000 / 1001), ("s25", 25.02)]
)
def test_the_recordings_own_frames_are_read_as_they_lie(study, session: str, rate: float, monkeypatch) -> None:
    root, _ = study
    found: Counter[bool] = Counter()
    find = Grid.find

    def counted(grid, clip):
        nearest = find(grid, clip)
        found[nearest.rows is None and nearest.has_row is None] += 1
        assert nearest.span == slice(clip.start_frame, clip.stop_frame)
        return nearest

    monkeypatch.setattr(Grid, "find", counted)
    names = ["vision", "resnet50", "dope"]
    dataset = open_one(root, session, *(ClipInput(name, rate=rate) for name in names))
    plain = open_one(root, session, *names)
    assert dataset.fields == plain.fields
    for one, other in zip(dataset, plain, strict=True):
        for name in plain.fields:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    assert found[True]
    assert not found[False]


def test_of_two_rows_that_are_equally_near_a_point_has_the_earlier_one(study) -> None:
    """25 frames a second at 50 points: every second point lies in the middle, in clips and in tables alike."""
    root, arrays = study
    dataset = open_one(root, "s25", ClipInput("resnet50", rate=50))
    values = arrays["s25", "resnet50", "values"]
    for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
        rows = clip["start_frame"] + np.arange(len(sample["resnet50"])) // 2
        np.testing.assert_array_equal(sample["resnet50"], values[rows])
    rows = SessionTimes(dataset.store, "s25").rows_at("resnet50", Axis.FRAME, 50)
    np.testing.assert_array_equal(rows, np.arange(2 * len(values)) // 2)


def test_a_clip_in_a_gap_is_masked_and_another_is_whole(study) -> None:
    root, _ = study
    dataset = ClipDataset(root, [ClipInput("resnet50", rate=15)], "session_id == 'gap' and stop_s - start_s < 1.4")
    assert all(sample["resnet50_mask"].all() for sample in dataset)
    with_gap = "session_id == 'gap' and stop_s - start_s > 1.4"
    for sample in ClipDataset(root, [ClipInput("resnet50", rate=15)], with_gap):
        masked = ~sample["resnet50_mask"]
        assert 6 <= masked.sum() <= 8  # half a second
        assert np.isnan(sample["resnet50"][masked]).all()


def test_a_point_at_the_very_end_of_a_clip_is_not_of_it(study, tmp_path: Path) -> None:
    """A clip of 1.3 s among clips of 1.333 s has a point at 1.3 s, where the next may begin."""
    root = Path(shutil.copytree(study[0], tmp_path / "features"))
    clips = FeatureStore(root).clips()
    shortened = clips.index[clips["session_id"] == "s15"][1]
    clips.loc[shortened, "stop_s"] = clips.loc[shortened, "start_s"] + 1.3
    write_clip_index(clips, local(root))
    dataset = open_one(root, "s15", ClipInput("resnet50", rate=30))
    masks = np.array([sample["resnet50_mask"] for sample in dataset])
    expected = np.ones((len(dataset), 40), bool)
    expected[1, 39:] = False
    np.testing.assert_array_equal(masks, expected)


@every_session
def test_words_at_the_points_are_those_of_the_nearest_frames(study, session: str) -> None:
    root, arrays = study
    wanted = [ClipInput("words", axis=Axis.FRAME, rate=10), ClipInput("audio", axis=Axis.FRAME, rate=10)]
    dataset = open_one(root, session, *wanted)
    time, known = arrays[session, "frames", "time"], arrays[session, "glove", "known"]
    for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
        starts = ticks(clip["start_s"]) + np.rint(np.arange(len(sample["words"])) * 1e5).astype(int)
        frames, there = nearest_rows(ticks(time), starts, 10**9)
        frames = np.where(there & (starts < ticks(clip["stop_s"])), frames, -1)
        near = np.array(brute_force(time, clip, 10, len(frames))) >= 0
        word = np.where(near, arrays[session, "glove", "frame_word"][frames], -1)
        np.testing.assert_array_equal(sample["words_mask"], (word >= 0) & (known[word] == 1))
        np.testing.assert_array_equal(sample["words"][word >= 0], arrays[session, "glove", "values"][word[word >= 0]])
        assert not sample["words"][word < 0].any()
        np.testing.assert_array_equal(sample["audio"][near], arrays[session, "opensmile", "per_frame"][frames[near]])


def test_sessions_of_several_rates_are_read_on_one_grid(study) -> None:
    root, _ = study
    clips = FeatureStore(root).clips()
    both = clips["session_id"].isin(["s15", "ms"])
    dataset = ClipDataset(root, [ClipInput("openface", rate=30)], "session_id in ['s15', 'ms']")
    assert len(dataset) == both.sum()
    assert dataset.fields["openface"].shape == (40, 714)
    assert all(not np.isnan(sample["openface"][:, 0]).any() for sample in dataset)


def test_clips_of_several_lengths_are_refused_with_the_filter_that_helps(study) -> None:
    root, _ = study
    with pytest.raises(ValueError, match=naming("'openface'", "0.667 s", "s30:", "1.8")) as caught:
        ClipDataset(root, [ClipInput("openface", rate=15)])
    where = str(caught.value).split("where='")[1].split("'")[0]
    assert len(ClipDataset(root, [ClipInput("openface", rate=15)], where))


@pytest.mark.parametrize("session", [*RATES, "ms"])
def test_windows_of_one_rate_share_few_patterns(study, session: str) -> None:
    root, _ = study
    dataset = open_one(root, session, ClipInput("resnet50", rate=20))
    grid = dataset._readers[0].grid
    assert len(grid.first[session]) == len(dataset) > 8
    assert len(grid.patterns) <= 5  # times are whole microseconds, or milliseconds, so there are some
    assert {pattern.rows.dtype.name for pattern in grid.patterns} == {"int16"}


def test_a_grid_can_be_pickled_and_is_in_the_repr(study) -> None:
    root, _ = study
    dataset = open_one(root, "vfr", ClipInput("resnet50", rate=12.5))
    assert "ClipInput('resnet50', rate=12.5)" in repr(dataset)
    for one, other in zip(dataset, pickle.loads(pickle.dumps(dataset)), strict=True):
        np.testing.assert_array_equal(one["resnet50"], other["resnet50"])


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            {"name": "words", "rate": 15},
            "'words' has a row for each word, which has no rate: give axis='frame' as well",
        ),
        ({"name": "sentence", "rate": 15}, "give axis='frame' as well"),
        ({"name": "story", "rate": 15}, "'story' is one value a clip, which has no rate"),
        ({"name": "label", "rate": 15}, "'label' is one value a clip, which has no rate"),
        ({"name": "openface", "rate": 0}, "rate=0 has to be more than 0 rows a second"),
        ({"name": "openface", "rate": float("nan")}, "rate=nan has to be more than 0"),
        ({"name": "openface", "rate": 0.3}, "rate=0.3 of 'openface' gives no point in a clip of 1.333 s"),
    ],
)
def test_rates_that_cannot_be_are_refused(study, wanted, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClipDataset(study[0], [ClipInput(**wanted)], "session_id == 's15'")


@given(
    gaps=st.lists(st.integers(0, 50), min_size=1, max_size=30),
    points=st.lists(st.integers(-60, 900), max_size=40),
    tolerance=st.integers(0, 60),
)
@example(gaps=[0, 10, 10], points=[5, 15, 25], tolerance=5)
def test_nearest_rows_are_the_nearest(gaps: list[int], points: list[int], tolerance: int) -> None:
    time = np.cumsum(gaps)
    rows, near = nearest_rows(time, np.array(points, int), tolerance)
    for point, row, there in zip(points, rows, near, strict=True):
        distances = np.abs(time - point)
        assert row == np.argmin(distances)  # of equals the first
        assert there == (distances.min() <= tolerance)


@given(
    spans=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=8),
    points=st.lists(st.integers(0, 18), max_size=12).map(sorted),
)
@example(spans=[(4, 2)], points=[4])  # begins at the last point
@example(spans=[(2, 2)], points=[4, 5])  # ends at the first point
@example(spans=[(0, 4), (4, 2)], points=[4])  # one begins where another ends
def test_what_is_spoken_at_a_point_has_begun_and_has_not_ended(spans: list[tuple[int, int]], points: list[int]) -> None:
    start = np.array([start for start, _ in spans], int)
    end = start + np.array([length for _, length in spans], int)
    found = spoken_rows(start, end, np.array(points, int))
    for point, row in zip(points, found, strict=True):
        spoken = [number for number in range(len(spans)) if start[number] <= point < end[number]]
        assert row == max(spoken, key=lambda number: (start[number], number), default=-1)  # the one that began last
