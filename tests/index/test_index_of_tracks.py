"""The clip index of sessions with several devices: their clocks, what each recorded, windows of another's frames."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.messages import missing, naming
from support.stores import local
from support.track_features import (
    CAMERA_RATES,
    DRIFT,
    LENGTH_S,
    OFFSET_S,
    WINDOWS,
    Arrays,
    check_rows,
    clock_of,
    frame_times,
    nearest,
    seconds_of_the_session,
    study_of,
    write_camera,
    write_tracks,
)

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.clips.grid import Grid
from storyframes.clips.window_spec import WindowSpec
from storyframes.label_curves import curve_spec
from storyframes.store import catalogue
from storyframes.store.layout import CLIPS, create_store
from storyframes.store.publish import FeatureWriter
from storyframes.times import Clock
from tasks.clip_index.index import build_clip_index, update_clip_index, write_clip_index

SESSIONS = ("s15", "s25", "s30")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Arrays]:
    root = tmp_path_factory.mktemp("tracks") / "features"
    return root, write_tracks(root, SESSIONS)


@pytest.fixture
def store(made: tuple[Path, Arrays]) -> FeatureStore:
    """The store, with a clip index of a right clock."""
    root, _ = made
    write_clip_index(build_clip_index(study_of(sessions=SESSIONS), WINDOWS, FeatureStore(root)).clips, local(root))
    return FeatureStore(root)


@pytest.mark.slow
def test_the_index_tells_how_much_of_a_clip_each_track_recorded(store: FeatureStore) -> None:
    study = study_of(sessions=SESSIONS)
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


def test_an_index_that_does_not_know_a_track_is_refused(made: tuple[Path, Arrays], store: FeatureStore) -> None:
    """The index of before there was the track says nothing of its clock, which may be any."""
    root, _ = made
    study = study_of(sessions=SESSIONS)
    without = replace(study, tracks={one: {"main": tracks["main"]} for one, tracks in study.tracks.items()})
    clips = build_clip_index(without, WINDOWS, store).clips
    assert "clocks" not in clips.attrs
    write_clip_index(clips, local(root))
    with pytest.raises(ValueError, match=naming("'lapel'", "3 of 3 sessions", "'storyframes i")):
        ClipDataset(root, ["audio@lapel"])
    ClipDataset(root, ["resnet50"], "session_id == 's15'")


@pytest.mark.parametrize(("offset_s", "until"), [(10.51, "10.51 to 15.01"), (-4.6, "-4.60 to -0.10")])
def test_a_session_whose_tracks_share_nothing_in_time_gives_no_clips(
    store: FeatureStore, offset_s: float, until: str
) -> None:
    study = study_of(sessions=SESSIONS)
    clocks = {**study.clocks, "s25": {"c": clock_of(offset_s, 0)}}
    built = build_clip_index(replace(study, clocks=clocks), WINDOWS, store)
    assert list(built.excluded) == ["s25"]
    assert missing(built.excluded["s25"], "'cam'", f"from {until} s", "from 0.00 to 10.48 s", "clock") == []
    assert set(built.clips["session_id"]) == set(SESSIONS) - {"s25"}
    clocks["s25"] = {"c": clock_of(offset_s - 1.5 * np.sign(offset_s), 0)}
    assert not build_clip_index(replace(study, clocks=clocks), WINDOWS, store).excluded


def test_a_lapel_that_shares_nothing_in_time_is_told_by_its_sound(store: FeatureStore) -> None:
    study = study_of(clock_of(11, 0), SESSIONS)
    only = {one: {name: tracks[name] for name in ("main", "lapel")} for one, tracks in study.tracks.items()}
    built = build_clip_index(replace(study, tracks=only), WINDOWS, store)
    assert set(built.excluded) == set(SESSIONS)
    assert missing(built.excluded["s30"], "'lapel'", "from 11.00 to 16.00 s") == []
    assert "every session" in built.remarks[0]


OF_CAMERA = replace(WINDOWS, track="cam")


@pytest.mark.parametrize("session", SESSIONS)
def test_windows_of_another_cameras_frames_are_in_the_sessions_seconds(
    made: tuple[Path, Arrays], store: FeatureStore, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, arrays = made
    built = build_clip_index(study_of(sessions=SESSIONS), OF_CAMERA, store)
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


@pytest.mark.parametrize(("clock_s", "session_s"), [(0.0, 1.73), (1.0, 0.51)], ids=["later", "earlier"])
def test_a_clock_that_is_an_offset_alone_moves_windows_and_rows(
    made: tuple[Path, Arrays], store: FeatureStore, clock_s: float, session_s: float
) -> None:
    root, arrays = made
    study = study_of(Clock("c", (clock_s,), (session_s,)), ("s15",))
    time = {"": arrays["s15", "frames", "time"], "@cam": arrays["s15", "frames@cam", "time"] + (session_s - clock_s)}
    built = build_clip_index(study, OF_CAMERA, store).clips
    strides = np.arange(0, time["@cam"][-40] + 1e-6, 0.7)
    starts = sorted({int(np.argmax(time["@cam"] >= stride - 5e-7)) for stride in strides})
    assert built["start_frame"].tolist() == starts
    np.testing.assert_allclose(built["start_s"], time["@cam"][starts], atol=1e-9)
    np.testing.assert_allclose(built["stop_s"], time["@cam"][starts] + 1.6, atol=1e-9)
    for windows, other, rate in ((OF_CAMERA, "", 15), (WINDOWS, "@cam", 25)):
        write_clip_index(build_clip_index(study, windows, store).clips, local(root))
        dataset = ClipDataset(root, [ClipInput(f"resnet50{other}", rate=rate)])
        values = arrays["s15", f"resnet50{other}", "values"]
        masked = []
        for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
            points = clip["start_s"] + np.arange(round(1.6 * rate)) / rate
            rows = nearest(time[other], points, clip["stop_s"], rate)
            got, mask = sample[f"resnet50{other}"], sample[f"resnet50{other}_mask"]
            check_rows(got, mask, values, np.ones(len(values), bool), rows)
            masked.append(not mask.all())
        assert masked.count(False) >= 3


@pytest.mark.parametrize("windows", [WINDOWS, OF_CAMERA], ids=["main", "cam"])
def test_a_clock_that_changed_changes_the_index_that_is_updated(tmp_path: Path, windows: WindowSpec) -> None:
    root, arrays = tmp_path / "features", {}
    create_store(root)
    write_camera(root, arrays, "s15", "main", frame_times(15, 6))
    write_camera(root, arrays, "s15", "cam", frame_times(25, 3))
    catalogue.compact(local(root))
    before, after = (study_of(clock_of(offset_s, 0), ("s15",)) for offset_s in (0.5, 1.25))
    known = update_clip_index(before, windows, FeatureStore(root)).clips
    updated = update_clip_index(after, windows, FeatureStore(root)).clips
    assert not known.equals(updated)
    pd.testing.assert_frame_equal(updated, build_clip_index(after, windows, FeatureStore(root)).clips)


def test_the_sessions_own_camera_is_then_wanted_with_a_rate(made: tuple[Path, Arrays], store: FeatureStore) -> None:
    root, arrays = made
    write_clip_index(build_clip_index(study_of(sessions=SESSIONS), OF_CAMERA, store).clips, local(root))
    with pytest.raises(ValueError, match=naming("track 'main'", "'resnet50'", "rate=15")):
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
    write_clip_index(build_clip_index(study_of(sessions=SESSIONS), OF_CAMERA, store).clips, local(root))
    assert stored_format() == 3


def test_sessions_without_the_camera_give_no_clips_by_name(store: FeatureStore) -> None:
    study = study_of(sessions=SESSIONS)
    tracks = {**study.tracks, "s25": {"main": study.tracks["s25"]["main"]}}
    built = build_clip_index(replace(study, tracks=tracks), OF_CAMERA, store)
    assert list(built.excluded) == ["s25"]
    assert missing(built.excluded["s25"], "no track 'cam'", "[clips] track = 'cam'", "it has main") == []
    for built in (
        build_clip_index(study, replace(WINDOWS, track="lapel"), store),
        build_clip_index(study, OF_CAMERA, None),
    ):
        assert set(built.excluded) == set(SESSIONS)
        assert built.excluded["s30"].endswith("extract 'frames' of it")
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
