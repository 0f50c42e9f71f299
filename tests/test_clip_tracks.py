"""Inputs of other tracks: their rows are found by the device's clock, against what brute force finds."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stores import local

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.clips.grid import Grid
from storyframes.clips.window_spec import WindowSpec
from storyframes.clocks import Clock, stored_clock
from storyframes.features import FEATURES
from storyframes.label_curves import curve_spec
from storyframes.store import catalogue
from storyframes.store.layout import CLIPS, create_store
from storyframes.store.publish import FeatureWriter
from tasks.index import build_clip_index, write_clip_index
from tasks.study.load import Phase, Session, Study
from tasks.study.tracks import Person, Track

LENGTH_S = 10.5
RATES = {"s15": 15.0, "s25": 25.0, "s29": 30000 / 1001, "s30": 30.0, "vfr": 15.0}
CAMERA_RATES = {"s15": 25.0, "s25": 30.0, "s29": 15.0, "s30": 30000 / 1001, "vfr": 30.0}
OFFSET_S, DRIFT = 3.2, 40e-6  # the device's second 0 is the session's 3.2; it counts 40 millionths too many
WINDOWS = WindowSpec(window_s=1.6, stride_s=0.7, split_shares=(1, 0, 0))
SPEAKERS = ["robot", "participant"]
every_session = pytest.mark.parametrize("session", RATES)

Arrays = dict[tuple[str, str, str], np.ndarray]


def frame_times(rate: float, seconds: float, irregular: int | None = None) -> np.ndarray:
    if irregular is None:
        return np.arange(round(seconds * rate)) / rate
    return np.cumsum(np.random.default_rng(irregular).uniform(0.8 / rate, 1.2 / rate, round(seconds * rate)))


def seconds_of_the_session(device_s: np.ndarray, offset_s: float = OFFSET_S, drift: float = DRIFT) -> np.ndarray:
    return np.asarray(device_s) / (1 + drift) + offset_s


def clock_of(offset_s: float = OFFSET_S, drift: float = DRIFT) -> Clock:
    return Clock("c", (0.0, 3600 * (1 + drift)), (offset_s, 3600 + offset_s))


def write(root: Path, arrays: Arrays, session: str, feature: str, track: str, rows: dict[str, np.ndarray]) -> None:
    with FeatureWriter(local(root), session, FEATURES[feature], track=track, frames=track != "lapel") as out:
        for name, values in rows.items():
            out.write(name, values)
            arrays[session, f"{feature}@{track}" if track != "main" else feature, name] = values
        out.attributes |= {"speakers": SPEAKERS} if "speaker" in rows else {}
        out.publish("f", {})


def write_camera(root: Path, arrays: Arrays, session: str, track: str, time: np.ndarray) -> None:
    generator = np.random.default_rng([len(session), len(track), len(time)])
    count = len(time)
    write(root, arrays, session, "frames", track, {"time": time})
    rows = generator.normal(size=(count, 2048)).astype(np.float16)
    write(root, arrays, session, "resnet50", track, {"values": rows})
    valid = (generator.random(count) < 0.9).astype(np.uint8)
    face = generator.normal(size=(count, 714)).astype(np.float32)
    face[valid == 0, 5:] = np.nan
    confidence = generator.random(count).astype(np.float32)
    write(root, arrays, session, "openface", track, {"values": face, "valid": valid, "confidence": confidence})


def write_lapel(root: Path, arrays: Arrays, session: str) -> None:
    """Sound and words, and no frames."""
    generator = np.random.default_rng(7)
    sound = {"values": generator.normal(size=(500, 65)).astype(np.float32), "time": np.arange(500) / 100}
    write(root, arrays, session, "opensmile", "lapel", sound)
    for feature, width, count in (("glove", 300, 30), ("sbert", 384, 6)):
        start = np.sort(generator.uniform(0, 5, count))
        spoken = {
            "values": generator.normal(size=(count, width)).astype(np.float32),
            "start": start,
            "end": start + generator.uniform(0.05, 0.8, count),
            "speaker": generator.integers(0, 2, count).astype(np.int16),
        }
        if feature == "glove":
            spoken["known"] = np.ones(count, np.uint8)
        write(root, arrays, session, feature, "lapel", spoken)


def study_of(clock: Clock | None = None, sessions: tuple[str, ...] = tuple(RATES)) -> Study:
    """A camera that is triggered with the session's, one that begins later and drifts, and a lapel of its clock."""
    tracks = {
        session: {
            "main": Track(session, "main", video="no.mp4"),
            "twin": Track(session, "twin", video="twin.mp4"),
            "cam": Track(session, "cam", video="cam.mp4", clock="c"),
            "lapel": Track(session, "lapel", audio="lapel.wav", clock="c"),
        }
        for session in sessions
    }
    return Study(
        Path("/nowhere"),
        {one: Session(session_id=one, participant_id=one, video="no.mp4") for one in sessions},
        phases=tuple(Phase(session_id=one, phase="all", start_s=0, end_s=LENGTH_S) for one in sessions),
        tracks=tracks,
        clocks={session: {"c": clock or clock_of()} for session in sessions},
        persons=tuple(Person(session, "child_b") for session in sessions),
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Arrays]:
    root = tmp_path_factory.mktemp("tracks") / "features"
    create_store(root)
    arrays: Arrays = {}
    for session, rate in RATES.items():
        time = frame_times(rate, LENGTH_S, 5 if session == "vfr" else None)
        write_camera(root, arrays, session, "main", time)
        write_camera(root, arrays, session, "twin", time + 0.0004)  # another container rounds otherwise
        camera = frame_times(CAMERA_RATES[session], 4.5, 6 if session == "vfr" else None)
        write_camera(root, arrays, session, "cam", camera)
        write_lapel(root, arrays, session)
    catalogue.compact(local(root))
    write_clip_index(build_clip_index(study_of(), WINDOWS, FeatureStore(root)).clips, local(root))
    return root, arrays


@pytest.fixture
def store(made: tuple[Path, Arrays]) -> FeatureStore:
    """The store, with a clip index of a right clock."""
    root, _ = made
    write_clip_index(build_clip_index(study_of(), WINDOWS, FeatureStore(root)).clips, local(root))
    return FeatureStore(root)


def nearest(row_times: np.ndarray, points: np.ndarray, stop_s: float, rate: float) -> list[set[int]]:
    """Of each point the rows that may stand for it, as the session's seconds have them: none, one, or equals."""
    step = max(1 / rate, float(np.median(np.diff(row_times))))
    found: list[set[int]] = []
    for point in points:
        off = np.abs(row_times - point)
        best = off.min()
        rows = set(np.flatnonzero(off <= best + 3e-6).tolist())
        if best > step / 2 + 0.001 + 3e-6 or point >= stop_s - 3e-7:
            rows = set()
        elif best > step / 2 + 0.001 - 3e-6:
            rows |= {-1}  # on the edge of the tolerance: either will do
        found.append(rows or {-1})
    return found


def check_rows(got: np.ndarray, mask: np.ndarray, values: np.ndarray, counts: np.ndarray, rows: list[set[int]]) -> None:
    for place, candidates in enumerate(rows):
        fits = [
            (row == -1 and not mask[place] and np.isnan(got[place]).all())
            or (row >= 0 and mask[place] == counts[row] and np.array_equal(got[place], values[row], equal_nan=True))
            for row in candidates
        ]
        assert any(fits), (place, candidates)


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
    stored = stored_clock(clock_of(offset_s, drift))
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


def test_the_index_tells_how_much_of_a_clip_each_track_recorded(store: FeatureStore) -> None:
    study = study_of()
    tracks = {**study.tracks, "s30": {"main": study.tracks["s30"]["main"]}}
    clips = build_clip_index(replace(study, tracks=tracks), WINDOWS, store).clips
    assert [name for name in clips if name.startswith("covered")] == ["covered_cam", "covered_lapel", "covered_twin"]
    assert clips[clips["session_id"] == "s30"][["covered_cam", "covered_lapel", "covered_twin"]].isna().all(axis=None)
    of_one = clips[clips["session_id"] == "s25"]
    points = of_one["start_s"].to_numpy()[:, None] + np.linspace(0, 1.6, 1601)[:-1]
    for track, seconds in (("cam", 4.5), ("lapel", 5.0)):
        first, end = seconds_of_the_session(np.array([0, seconds]))
        expected = ((points >= first) & (points < end)).mean(axis=1)
        np.testing.assert_allclose(of_one[f"covered_{track}"].astype(float), expected, atol=2e-3)
    whole = ClipDataset(store, [ClipInput("openface@cam", rate=15)], "covered_cam == 1")
    assert len(whole) > 10
    counts = [sample["openface@cam_mask"].sum() for sample in whole]
    assert min(counts) > 15  # all but lost faces


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

    def counted(grid: Grid, opened: FeatureStore, clip):  # type: ignore[no-untyped-def]
        nearest = find(grid, opened, clip)
        found[nearest.rows is None] += 1
        return nearest

    monkeypatch.setattr(Grid, "find", counted)
    inside = "session_id == 's15' and start_s > 3.3 and stop_s < 7.5"
    dataset = ClipDataset(store, [ClipInput("resnet50", rate=25, track="cam")], inside)
    assert all(sample["resnet50@cam_mask"].all() for sample in dataset)
    assert found == {True: 2 * len(dataset)}


def test_frames_of_another_camera_are_refused_with_the_rate_to_give(store: FeatureStore) -> None:
    with pytest.raises(ValueError, match="frame 0 of s15 is at 0.000 s, the track's at 3.200 s of the session") as one:
        ClipDataset(store, ["openface@cam"], "session_id == 's15'")
    assert "say how many rows a second 'openface@cam' is wanted with, rate=25 for about its own" in str(one.value)
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
    with pytest.raises(ValueError, match="s15 has clips to frame 150, and the track 75 frames"):
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


def test_an_index_that_does_not_know_a_track_is_refused(made: tuple[Path, Arrays], store: FeatureStore) -> None:
    """The index of before there was the track says nothing of its clock, which may be any."""
    root, _ = made
    study = study_of()
    without = replace(study, tracks={one: {"main": tracks["main"]} for one, tracks in study.tracks.items()})
    clips = build_clip_index(without, WINDOWS, store).clips
    assert "clocks" not in clips.attrs
    write_clip_index(clips, local(root))
    with pytest.raises(
        ValueError, match="how the clock of the track 'lapel' runs in 5 of 5 sessions .* 'storyframes i"
    ):
        ClipDataset(root, ["audio@lapel"])
    ClipDataset(root, ["resnet50"], "session_id == 's15'")


def test_a_session_without_the_track_can_be_left_out(tmp_path: Path) -> None:
    root, arrays = tmp_path / "features", {}
    create_store(root)
    for session in ("s15", "s25"):
        write_camera(root, arrays, session, "main", frame_times(RATES[session], LENGTH_S))
    write_lapel(root, arrays, "s25")
    catalogue.compact(local(root))
    study = study_of(sessions=("s15", "s25"))
    write_clip_index(build_clip_index(study, WINDOWS, FeatureStore(root)).clips, local(root))
    with pytest.raises(ValueError, match=r"lack the input 'audio@lapel' \(of s15\): leave them out with drop_missing"):
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
    with pytest.raises(ValueError, match="'openface@a' is of the track 'a', and track='b' is another one"):
        ClipInput("openface@a", track="b")
    assert ClipInput("openface@a") == ClipInput("openface", track="a")


@pytest.mark.parametrize(("offset_s", "until"), [(10.51, "10.51 to 15.01"), (-4.6, "-4.60 to -0.10")])
def test_a_session_whose_tracks_share_nothing_in_time_gives_no_clips(
    store: FeatureStore, offset_s: float, until: str
) -> None:
    study = study_of()
    clocks = {**study.clocks, "s25": {"c": clock_of(offset_s, 0)}}
    built = build_clip_index(replace(study, clocks=clocks), WINDOWS, store)
    assert list(built.excluded) == ["s25"]
    assert built.excluded["s25"].startswith(
        f"its track 'cam' was by its clock recorded from {until} s of the session, which is from 0.00 to 10.48 s: they "
        "share nothing in time. Is the clock right?"
    )
    assert set(built.clips["session_id"]) == set(RATES) - {"s25"}
    clocks["s25"] = {"c": clock_of(offset_s - 1.5 * np.sign(offset_s), 0)}
    assert not build_clip_index(replace(study, clocks=clocks), WINDOWS, store).excluded


def test_a_lapel_that_shares_nothing_in_time_is_told_by_its_sound(store: FeatureStore) -> None:
    study = study_of(clock_of(11, 0))
    only = {one: {name: tracks[name] for name in ("main", "lapel")} for one, tracks in study.tracks.items()}
    built = build_clip_index(replace(study, tracks=only), WINDOWS, store)
    assert set(built.excluded) == set(RATES)
    assert "its track 'lapel' was by its clock recorded from 11.00 to 16.00 s" in built.excluded["s30"]
    assert "every session has something wrong with it" in built.remarks[0]


OF_CAMERA = replace(WINDOWS, track="cam")


@every_session
def test_windows_of_another_cameras_frames_are_in_the_sessions_seconds(
    made: tuple[Path, Arrays], store: FeatureStore, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, arrays = made
    built = build_clip_index(study_of(), OF_CAMERA, store)
    assert (dict(built.excluded), built.clips.attrs["track"]) == ({}, "cam")
    write_clip_index(built.clips, local(root))
    times = seconds_of_the_session(arrays[session, "frames@cam", "time"])
    with monkeypatch.context() as patched:
        patched.setattr(Grid, "find", None)  # its own rows are copied as they lie
        dataset = ClipDataset(root, ["resnet50@cam"], f"session_id == '{session}'")
        samples = list(dataset)
    rate = {"s29": 15.0, "s30": 30000 / 1001}.get(session, CAMERA_RATES[session])
    stride = 0.7
    first, expected = times[0], []
    for number in range(100):  # brute force: the first frame at or after every stride from the phase's start
        at = stride * number
        frame = next((n for n, time in enumerate(times) if time >= at - 5e-7), None)
        if frame is not None and frame + round(1.6 * rate) <= len(times) and frame not in expected:
            expected.append(frame)
    assert dataset.clips["start_frame"].tolist() == expected
    assert first > 3
    valid = arrays[session, "openface@cam", "valid"]
    for sample, (_, clip) in zip(samples, dataset.clips.iterrows(), strict=True):
        rows = slice(clip["start_frame"], clip["stop_frame"])
        np.testing.assert_array_equal(sample["resnet50@cam"], arrays[session, "resnet50@cam", "values"][rows])
        assert clip["start_s"] == pytest.approx(times[rows.start], abs=1e-6)
        assert clip["face_tracked"] == pytest.approx(valid[rows].mean(), abs=1e-6)


def test_the_sessions_own_camera_is_then_wanted_with_a_rate(made: tuple[Path, Arrays], store: FeatureStore) -> None:
    root, arrays = made
    write_clip_index(build_clip_index(study_of(), OF_CAMERA, store).clips, local(root))
    with pytest.raises(ValueError, match=r"track 'main' are not those of the clips .* 'resnet50' .* rate=15 for"):
        ClipDataset(root, ["resnet50"], "session_id == 's15'")
    dataset = ClipDataset(root, [ClipInput("resnet50", rate=15)], "session_id == 's15'")
    times = arrays["s15", "frames", "time"]
    for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
        rows = nearest(times, clip["start_s"] + np.arange(24) / 15, clip["stop_s"], 15)
        values = arrays["s15", "resnet50", "values"]
        check_rows(sample["resnet50"], sample["resnet50_mask"], values, np.ones(len(times), bool), rows)


def test_an_index_of_another_cameras_frames_is_no_index_for_older_code(
    made: tuple[Path, Arrays], store: FeatureStore
) -> None:
    root, _ = made

    def stored_format() -> int:
        return int(json.loads(pq.read_schema(root / CLIPS).metadata[b"storyframes"])["format"])

    assert stored_format() == 2
    write_clip_index(build_clip_index(study_of(), OF_CAMERA, store).clips, local(root))
    assert stored_format() == 3


def test_sessions_without_the_camera_give_no_clips_by_name(store: FeatureStore) -> None:
    study = study_of()
    tracks = {**study.tracks, "s25": {"main": study.tracks["s25"]["main"]}}
    built = build_clip_index(replace(study, tracks=tracks), OF_CAMERA, store)
    assert built.excluded == {
        "s25": "it has no track 'cam', and [clips] track = 'cam' cuts its frames into clips; it has main"
    }
    for built in (
        build_clip_index(study, replace(WINDOWS, track="lapel"), store),
        build_clip_index(study, OF_CAMERA, None),
    ):
        assert set(built.excluded) == set(RATES)
        assert built.excluded["s30"].endswith("but when they are is not known: extract 'frames' of it")
        assert len(built.clips) == 0


def test_a_curve_meets_the_frames_of_the_camera_that_the_clips_are_of(tmp_path: Path) -> None:
    """Its value is the session's second, so that a frame's target is when the frame is shown."""
    root, arrays = tmp_path / "features", {}
    create_store(root)
    write_camera(root, arrays, "s15", "main", frame_times(15, LENGTH_S))
    write_camera(root, arrays, "s15", "cam", frame_times(25, 4.5))
    time = np.arange(0, LENGTH_S, 0.02)
    device_s = (time - OFFSET_S) * (1 + DRIFT)
    for track, own in (("main", time), ("lapel", device_s[device_s >= 0])):
        with FeatureWriter(local(root), "s15", curve_spec("label.when"), track=track, frames=track == "main") as out:
            for name, rows in (("values", time[-len(own) :]), ("time", own), ("raters", np.ones(len(own), np.int16))):
                out.write(name, rows.astype(np.float32) if name == "values" else rows)
            out.publish("f", {})
    catalogue.compact(local(root))
    write_clip_index(build_clip_index(study_of(sessions=("s15",)), OF_CAMERA, FeatureStore(root)).clips, local(root))
    dataset = ClipDataset(root, ["resnet50@cam", "label.when", "label.when@lapel"])
    assert len(dataset) > 3
    for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
        shown = seconds_of_the_session(arrays["s15", "frames@cam", "time"][clip["start_frame"] : clip["stop_frame"]])
        for name in ("label.when", "label.when@lapel"):
            np.testing.assert_allclose(sample[name], shown, atol=0.0101)
            assert sample[f"{name}_mask"].all()
