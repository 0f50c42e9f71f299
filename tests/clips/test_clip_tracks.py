"""Inputs of other tracks: their rows are found by the device's clock, against what brute force finds."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.messages import missing, naming
from support.stores import local
from support.track_features import (
    DRIFT,
    LENGTH_S,
    OFFSET_S,
    RATES,
    WINDOWS,
    Arrays,
    check_rows,
    clock_of,
    frame_times,
    nearest,
    seconds_of_the_session,
    study_of,
    write_camera,
    write_lapel,
    write_tracks,
)

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.clips.grid import Grid
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from tasks.clip_index.index import build_clip_index, write_clip_index

every_session = pytest.mark.parametrize("session", RATES)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Arrays]:
    root = tmp_path_factory.mktemp("tracks") / "features"
    arrays = write_tracks(root)
    write_clip_index(build_clip_index(study_of(), WINDOWS, FeatureStore(root)).clips, local(root))
    return root, arrays


@pytest.fixture
def store(made: tuple[Path, Arrays]) -> FeatureStore:
    """The store, with a clip index of a right clock."""
    root, _ = made
    write_clip_index(build_clip_index(study_of(), WINDOWS, FeatureStore(root)).clips, local(root))
    return FeatureStore(root)


@pytest.mark.slow
@every_session
@settings(max_examples=8, deadline=None)
@given(
    rate=st.one_of(st.sampled_from([5.0, 15.0, 25.0, 30000 / 1001, 30.0, 60.0]), st.floats(2, 80)),
    offset_s=st.one_of(st.just(OFFSET_S), st.floats(-6, 12)),
    drift=st.one_of(st.just(DRIFT), st.floats(-500e-6, 500e-6)),
)
def test_every_point_has_the_row_that_is_nearest_in_the_sessions_time(
    made: tuple[Path, Arrays], session: str, rate: float, offset_s: float, drift: float
) -> None:
    root, arrays = made
    store = FeatureStore(root)
    clips = store.clips()
    stored = clock_of(offset_s, drift).stored
    clips.attrs["clocks"] = {session: {"cam": stored, "lapel": stored}}
    write_clip_index(clips, local(root))
    inputs = [ClipInput(name, rate=rate, track=track) for name, track in (("openface", "cam"), ("audio", "lapel"))]
    dataset = ClipDataset(store, inputs, f"session_id == '{session}'")
    count = dataset.fields["openface@cam"].shape[0]
    camera = seconds_of_the_session(arrays[session, "frames@cam", "time"], offset_s, drift)
    sound = seconds_of_the_session(arrays[session, "opensmile@lapel", "time"], offset_s, drift)
    valid = arrays[session, "openface@cam", "valid"] == 1
    for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
        points = clip["start_s"] + np.arange(count) / rate
        for name, feature, times, counts in (
            ("openface@cam", "openface@cam", camera, valid),
            ("audio@lapel", "opensmile@lapel", sound, np.ones(len(sound), bool)),
        ):
            rows = nearest(times, points, clip["stop_s"], rate)
            check_rows(sample[name], sample[f"{name}_mask"], arrays[session, feature, "values"], counts, rows)


@every_session
def test_a_line_of_several_pieces_is_followed(made: tuple[Path, Arrays], session: str) -> None:
    """numpy's interpolation between the moments is the reference; beyond them, the pieces at the ends go on."""
    root, arrays = made
    knots_s, device_s = np.array([3.0, 4.5, 6.0]), np.array([-0.1, 1.4003, 2.8998])
    store = FeatureStore(root)
    clips = store.clips()
    clips.attrs["clocks"] = {session: {"cam": [device_s.tolist(), knots_s.tolist()]}}
    write_clip_index(clips, local(root))
    dataset = ClipDataset(store, [ClipInput("resnet50@cam", rate=20)], f"session_id == '{session}'")
    far = 1000.0
    slopes = np.diff(knots_s) / np.diff(device_s)
    x = np.array([device_s[0] - far, *device_s, device_s[-1] + far])
    y = np.array([knots_s[0] - far * slopes[0], *knots_s, knots_s[-1] + far * slopes[-1]])
    times = np.interp(arrays[session, "frames@cam", "time"], x, y)
    for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
        points = clip["start_s"] + np.arange(len(sample["resnet50@cam"])) / 20
        rows = nearest(times, points, clip["stop_s"], 20)
        values, mask = arrays[session, "resnet50@cam", "values"], sample["resnet50@cam_mask"]
        check_rows(sample["resnet50@cam"], mask, values, np.ones(len(times), bool), rows)


def test_windows_beyond_a_tracks_recording_are_masked(store: FeatureStore) -> None:
    inputs = [ClipInput("openface@cam", rate=15), ClipInput("audio@lapel"), ClipInput("words@lapel")]
    before = ClipDataset(store, inputs, "stop_s < 3.2")
    after = ClipDataset(store, inputs, "start_s > 8.3")
    across = ClipDataset(store, inputs, "start_s < 3 and stop_s > 3.5")
    for sample in [*before, *after]:
        assert not sample["openface@cam_mask"].any()
        assert np.isnan(sample["openface@cam"]).all()
        assert not sample["audio@lapel_mask"].any()
        assert sample["words@lapel_length"] == 0
    for sample in across:
        assert sample["openface@cam_mask"].any()
        assert not sample["openface@cam_mask"].all()


@pytest.mark.parametrize("session", ["s25", "vfr"])
def test_cameras_that_are_triggered_together_are_copied_as_they_lie(
    made: tuple[Path, Arrays], store: FeatureStore, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, arrays = made
    monkeypatch.setattr(Grid, "find", None)
    inputs = ["resnet50", "resnet50@twin", ClipInput("vision", ["AU12_r", "resnet50"], track="twin")]
    dataset = ClipDataset(store, inputs, f"session_id == '{session}'")
    assert list(dataset.fields) == [
        *("resnet50", "resnet50_mask", "resnet50@twin", "resnet50@twin_mask", "vision@twin", "vision@twin_mask"),
        "index",
    ]
    for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
        rows = slice(clip["start_frame"], clip["stop_frame"])
        for name in ("resnet50", "resnet50@twin"):
            np.testing.assert_array_equal(sample[name], arrays[session, name, "values"][rows])
        np.testing.assert_array_equal(sample["vision@twin"][:, 1:], sample["resnet50@twin"])
        assert (sample["vision@twin_mask"] == (arrays[session, "openface@twin", "valid"][rows] == 1)).all()


def test_a_grid_at_the_cameras_own_rate_is_copied_as_it_lies(
    store: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An offset and a drift do not scatter the rows: those of a clip inside the recording are neighbours."""
    found: Counter[bool] = Counter()
    find = Grid.find

    def counted(grid: Grid, clip):  # type: ignore[no-untyped-def]
        nearest = find(grid, clip)
        found[nearest.rows is None] += 1
        return nearest

    monkeypatch.setattr(Grid, "find", counted)
    inside = "session_id == 's15' and start_s > 3.3 and stop_s < 7.5"
    dataset = ClipDataset(store, [ClipInput("resnet50", rate=25, track="cam")], inside)
    assert all(sample["resnet50@cam_mask"].all() for sample in dataset)
    assert set(found) == {True}


def test_frames_of_another_camera_are_refused_with_the_rate_to_give(store: FeatureStore) -> None:
    with pytest.raises(ValueError, match=naming("frame 0 of s15", "0.000 s", "3.200 s")) as one:
        ClipDataset(store, ["openface@cam"], "session_id == 's15'")
    assert missing(one.value, "'openface@cam'", "rate=25") == []
    with pytest.raises(ValueError, match=r"rate=29\.97 for about its own"):
        ClipDataset(store, [ClipInput("vision", track="cam")], "session_id == 's30'")
    ClipDataset(store, [ClipInput("openface", rate=25, track="cam")], "session_id == 's15'")


def test_a_camera_that_ends_early_is_refused_without_a_rate(tmp_path: Path) -> None:
    root, arrays = tmp_path / "features", {}
    create_store(root)
    write_camera(root, arrays, "s15", "main", frame_times(15, LENGTH_S))
    write_camera(root, arrays, "s15", "twin", frame_times(15, 5))
    catalogue.compact(local(root))
    write_clip_index(build_clip_index(study_of(sessions=("s15",)), WINDOWS, FeatureStore(root)).clips, local(root))
    with pytest.raises(ValueError, match=naming("s15", "150", "75 frames")):
        ClipDataset(root, ["resnet50@twin"])
    assert len(ClipDataset(root, ["resnet50@twin"], "stop_s < 5")) > 3


@every_session
def test_sound_and_speech_of_a_lapel_are_those_of_the_window(
    made: tuple[Path, Arrays], store: FeatureStore, session: str
) -> None:
    _, arrays = made
    inputs = ["audio@lapel", "words@lapel", ClipInput("sentence", speakers=["participant"], track="lapel")]
    dataset = ClipDataset(store, inputs, f"session_id == '{session}'")

    def times(feature: str, name: str) -> np.ndarray:
        return np.round(seconds_of_the_session(arrays[session, f"{feature}@lapel", name]), 6)

    heard = 0
    for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
        start_s, stop_s = np.round([clip["start_s"], clip["stop_s"]], 6)
        spoken = {
            "words": np.flatnonzero((times("glove", "start") >= start_s) & (times("glove", "start") < stop_s)),
            "sentence": np.flatnonzero(
                (times("sbert", "start") < stop_s)
                & (times("sbert", "end") > start_s)
                & (arrays[session, "sbert@lapel", "speaker"] == 1)
            ),
        }
        for name, rows in spoken.items():
            feature = {"words": "glove", "sentence": "sbert"}[name]
            assert sample[f"{name}@lapel_length"] == len(rows)
            np.testing.assert_array_equal(
                sample[f"{name}@lapel"][: len(rows)], arrays[session, f"{feature}@lapel", "values"][rows]
            )
            heard += len(rows)
        time = times("opensmile", "time")
        rows = np.flatnonzero((time >= start_s) & (time < stop_s))
        length, mask = sample["audio@lapel_length"], sample["audio@lapel_mask"]
        assert mask.sum() == len(rows)
        if len(rows):  # each at its own place, a row being 10 ms
            assert abs((length - len(rows)) * 0.01 - max(time[0] - start_s, 0)) < 0.0101
            np.testing.assert_array_equal(
                sample["audio@lapel"][length - len(rows) : length],
                arrays[session, "opensmile@lapel", "values"][rows],
            )
    assert heard > 20


@every_session
def test_what_is_spoken_at_a_point_is_told_by_times_where_there_are_no_frames(
    made: tuple[Path, Arrays], store: FeatureStore, session: str
) -> None:
    _, arrays = made
    wanted = {
        "words": ClipInput("words", axis="frame", rate=20, track="lapel"),
        "sentence": ClipInput("sentence", axis="frame", rate=20, speakers=["robot"], track="lapel"),
    }
    dataset = ClipDataset(store, list(wanted.values()), f"session_id == '{session}'")
    heard = silent = 0
    for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
        for name, feature in (("words", "glove@lapel"), ("sentence", "sbert@lapel")):
            start, end = (seconds_of_the_session(arrays[session, feature, each]) for each in ("start", "end"))
            values, got = arrays[session, feature, "values"], sample[f"{name}@lapel"]
            for place in range(len(got)):
                point = clip["start_s"] + place / 20
                at_once = [row for row in range(len(start)) if start[row] <= point < end[row]]
                row = max(at_once, key=start.__getitem__, default=None)
                if row is not None and name == "sentence" and arrays[session, feature, "speaker"][row] != 0:
                    row = None
                if point >= clip["stop_s"] - 1e-7:
                    row = None
                assert sample[f"{name}@lapel_mask"][place] == (row is not None)
                np.testing.assert_array_equal(got[place], np.zeros_like(got[place]) if row is None else values[row])
                heard, silent = heard + (row is not None), silent + (row is None)
    assert min(heard, silent) > 50


def test_a_corrected_clock_needs_the_index_again_and_no_extraction(
    made: tuple[Path, Arrays], store: FeatureStore
) -> None:
    root, arrays = made
    before = FeatureStore(root).catalogue
    wanted = [ClipInput("resnet50", rate=25, track="cam")]
    inside = "session_id == 's15' and start_s > 4 and stop_s < 7"
    old = ClipDataset(store, wanted, inside)
    values = arrays["s15", "resnet50@cam", "values"]

    def first_rows(dataset: ClipDataset) -> list[int]:
        return [int(np.flatnonzero((values == sample["resnet50@cam"][0]).all(axis=1))[0]) for sample in dataset]

    rows = first_rows(old)
    corrected = build_clip_index(study_of(clock_of(OFFSET_S - 0.4)), WINDOWS, FeatureStore(root)).clips
    windows = [name for name in corrected if not name.startswith("covered_")]
    pd.testing.assert_frame_equal(corrected[windows], build_clip_index(study_of(), WINDOWS, store).clips[windows])
    write_clip_index(corrected, local(root))
    assert first_rows(ClipDataset(root, wanted, inside)) == [row + 10 for row in rows]
    assert first_rows(old) == rows  # who reads already goes on with what it began with
    pd.testing.assert_frame_equal(FeatureStore(root).catalogue, before)


def test_a_session_without_the_track_can_be_left_out(tmp_path: Path) -> None:
    root, arrays = tmp_path / "features", {}
    create_store(root)
    for session in ("s15", "s25"):
        write_camera(root, arrays, session, "main", frame_times(RATES[session], LENGTH_S))
    write_lapel(root, arrays, "s25")
    catalogue.compact(local(root))
    study = study_of(sessions=("s15", "s25"))
    write_clip_index(build_clip_index(study, WINDOWS, FeatureStore(root)).clips, local(root))
    with pytest.raises(ValueError, match=naming("'audio@lapel'", "s15", "drop_missing")):
        ClipDataset(root, ["audio@lapel"])
    assert set(ClipDataset(root, ["audio@lapel"], drop_missing=True).clips["session_id"]) == {"s25"}


def test_a_dataset_of_tracks_can_be_pickled_and_says_them(store: FeatureStore) -> None:
    dataset = ClipDataset(store, [ClipInput("resnet50", rate=12.5, track="cam"), "audio@lapel"], "session_id == 's25'")
    assert "ClipInput('resnet50', rate=12.5, track='cam'), ClipInput('audio', track='lapel')" in repr(dataset)
    for one, other in zip(dataset, pickle.loads(pickle.dumps(dataset)), strict=True):
        for name in dataset.fields:
            np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (["openface@camm"], "no session has features of a track 'camm'; there are those of 'main', 'cam', 'lapel', 't"),
        (["openface@lapel"], "no session has 'openface' of the track 'lapel', which has opensmile, glove, sbert"),
        (["vision@lapel"], "no session has 'openface' of the track 'lapel'"),
        (["label@cam"], "'label' is one value a clip, which is of no track"),
        (["words@lapel", ClipInput("words", track="lapel")], "input 'words@lapel' is named twice"),
        (
            [ClipInput("words@lapel", axis="frame")],
            "'glove@lapel' has nothing for each frame, only times: give 'word",
        ),
        ([ClipInput("words@lapel", rate=5)], "'words@lapel' has a row for each word, which has no rate: give axis='fr"),
        ([ClipInput("audio", axis="frame", track="lapel")], "axis of 'audio@lapel' cannot be 'frame'"),
        ([ClipInput("words", speakers=["x"], track="lapel")], "no session has a speaker 'x' in 'glove@lapel'"),
    ],
)
def test_what_cannot_be_of_a_track_is_refused(store: FeatureStore, inputs: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClipDataset(store, inputs)


def test_a_name_and_a_track_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match=naming("'openface@a'", "track='b'")):
        ClipInput("openface@a", track="b")
    assert ClipInput("openface@a") == ClipInput("openface", track="a")
