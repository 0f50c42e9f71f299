"""Landmarks and joints on frames."""

from __future__ import annotations

import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from support.media.turned import record_turned
from support.messages import missing, naming
from support.stores import local, publish_arrays
from support.studies import make_study, run
from typer.testing import CliRunner, Result

from flows.cli.app import app
from storyframes.features import BODY_JOINTS, FEATURES, HAND_JOINTS
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter
from storyframes_report.overlay import OverlayError, bones_of, draw_overlay, write_picture
from storyframes_report.report.session_page import write_thumbnails
from tasks.media.recording import read_frames
from tasks.planning.selection import Selection
from tasks.study.load import load_study
from tasks.study.study_identity import remember_study


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write_landmarks(root: Path, session: str, frames: int, x: float, y: float, track: str = "main") -> None:
    """OpenFace's values with all landmarks at one place."""
    values = np.zeros((frames, 714), np.float32)
    names = FEATURES["openface"].columns
    values[:, [names.index(f"x_{number}") for number in range(68)]] = x
    values[:, [names.index(f"y_{number}") for number in range(68)]] = y
    with FeatureWriter(local(root), session, FEATURES["openface"], track=track) as out:
        out.write("values", values)
        out.write("valid", np.ones(frames, np.uint8))
        out.write("confidence", np.ones(frames, np.float32))
        out.publish("f" * 64, {"inputs": {}})
    catalogue.compact(local(root))


@pytest.mark.slow
def test_an_overlay_shows_the_landmarks_where_they_are(demo_study: Path, store_root: Path, tmp_path: Path) -> None:
    run(demo_study, store_root, Selection(("p01-s01",), ("openface",)))
    video, store = demo_study / "videos/p01-s01.avi", FeatureStore(store_root)
    picture = draw_overlay(video, store, "p01-s01", 100)
    plain = next(batch for batch in read_frames(video, 50) if batch.first == 100).rgb[0]
    landmarks = store.read("p01-s01", "openface", 100, 101)[0][FEATURES["openface"].groups["landmarks_2d"]]
    changed = (picture != plain).any(axis=2)
    for x, y in landmarks.reshape(2, 68).T.round().astype(int):
        assert changed[y, x]
    assert changed.mean() < 0.02
    write_picture(picture, tmp_path / "frame.png")
    assert (tmp_path / "frame.png").stat().st_mode & 0o077 == 0
    np.testing.assert_array_equal(cv2.imread(str(tmp_path / "frame.png"))[..., ::-1], picture)
    with pytest.raises(OverlayError, match=naming(359, 360)):
        draw_overlay(video, store, "p01-s01", 360)
    with pytest.raises(OverlayError, match=naming("p09", "landmarks", "joints")):
        draw_overlay(video, store, "p09", 0)


def test_an_overlay_of_poses(demo_study: Path, store_root: Path) -> None:
    described = {name: spec for name, spec in FEATURES["dope"].arrays.items() if not spec.optional}
    arrays = {
        name: np.full((3, *spec.shape), 20 * number, spec.dtype)
        for number, (name, spec) in enumerate(described.items(), 1)
    }
    arrays["sampled"] = np.array([1, 0, 0], np.uint8)
    for rows in arrays.values():
        if rows.dtype.kind == "f":
            rows[1:] = np.nan
    publish_arrays(store_root, "p01-s01", "dope", arrays)
    video, store = demo_study / "videos/p01-s01.avi", FeatureStore(store_root)
    assert (draw_overlay(video, store, "p01-s01", 0) == (255, 160, 0)).all(axis=2).any()
    assert not (draw_overlay(video, store, "p01-s01", 1) == (255, 160, 0)).all(axis=2).any()  # nothing to draw


def test_landmarks_of_a_region_are_drawn_on_the_whole_picture(demo_study: Path, store_root: Path) -> None:
    write_landmarks(store_root, "p01-s01", 3, 200, 120, "moving")
    video = demo_study / "videos/p01-s01.avi"
    picture = draw_overlay(video, FeatureStore(store_root), "p01-s01", 2, "moving")
    plain = next(read_frames(video, 16)).rgb[2]
    assert picture.shape == plain.shape
    y, x = (places.mean() for places in np.nonzero((picture != plain).any(axis=2)))
    assert np.hypot(x - 200, y - 120) < 1


@pytest.mark.slow
def test_what_people_look_at_is_upright(tmp_path: Path, store_root: Path) -> None:
    shown = {}
    for name in ("as it is", "270"):
        study = make_study(tmp_path / name, video="v.mp4")
        video = record_turned(study / "v.mp4", name, seconds=0.4)
        root = tmp_path / f"{name} store"
        shutil.copytree(store_root, root)
        publish_arrays(root, "s", "frames", {"time": np.arange(10) / 25})
        write_landmarks(root, "s", 10, 20, 20)
        store = FeatureStore(root)
        drawn = draw_overlay(video, store, "s", 7)
        assert drawn.shape == (48, 64, 3)
        small = write_thumbnails(video, store, "s", study / "frames", "main")[0]
        shown[name] = drawn, (study / small.name).read_bytes()
    for upright, turned in zip(shown["as it is"], shown["270"], strict=True):
        np.testing.assert_array_equal(np.asarray(turned), np.asarray(upright))


def test_a_video_that_is_missing_is_named(study_copy: Path, store_root: Path, tmp_path: Path) -> None:
    video = "videos/p01-s01.avi"
    (study_copy / video).unlink()
    for session in ("p01-s01", "p02-s01"):
        write_landmarks(store_root, session, 1, 20, 20)
    refused = command("overlay", study_copy, store_root, "p01-s01", "--out", tmp_path / "x.png")
    assert (refused.exit_code, refused.stderr) == (2, f"error {video}: the file does not exist\n")
    assert command("overlay", study_copy, store_root, "p02-s01", "--out", tmp_path / "x.png").exit_code == 0


def test_features_of_another_study_are_not_drawn_over_this_one(
    study_copy: Path, store_root: Path, tmp_path: Path
) -> None:
    remember_study(local(store_root), load_study(study_copy))
    for video in (study_copy / "videos").iterdir():
        video.write_bytes(b"another film")
    for refused in (
        ("overlay", study_copy, store_root, "p01-s01", "--out", tmp_path / "x.png"),
        ("report", study_copy, store_root, "--out", tmp_path / "site"),
    ):
        result = command(*refused)
        assert result.exit_code == 2, refused
        assert not missing(result.stderr, "feature store", "3 sessions")


def test_bones_connect_the_joints_of_limbs_and_fingers() -> None:
    limbs = {(0, 2), (2, 4), (1, 3), (3, 5), (4, 5), (10, 11), (6, 8), (8, 10), (7, 9), (9, 11)}
    assert {tuple(sorted(bone)) for bone in bones_of(BODY_JOINTS)} == limbs
    chains = {(0, n + 1) for n in range(5)} | {(n + 1, 6 + 3 * n) for n in range(5)}
    chains |= {(6 + 3 * n + i, 7 + 3 * n + i) for n in range(5) for i in (0, 1)}
    assert set(bones_of(HAND_JOINTS)) == chains
    assert bones_of(("a", "wrist")) == ()
