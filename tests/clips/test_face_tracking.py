"""Which frames have a face, whichever feature tracks it: in the clip index, in ``show`` and in ``status``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from support.messages import missing
from support.stores import local
from support.synthetic_features import study_of

from flows.cli.status_tables import status_tables
from storyframes import ClipDataset, FeatureStore
from storyframes.clips.window_spec import WindowSpec
from storyframes.face_tracking import face_rule
from storyframes.features import FEATURES
from storyframes.spec import ArraySpec, Axis, FeatureSpec, SpecError
from storyframes.store import catalogue, record_status
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from tasks.clip_index.index import update_clip_index
from tasks.inspect.quality import Quality, Rule
from tasks.inspect.track_curves import read_curves

FRAMES, FPS = 60, 15
POINTS = ArraySpec(
    Axis.FRAME, "float32", "the face", (3, 2), ("face_landmark", "xy"), columns=("x", "y"), units="pixels"
)
MASK = ArraySpec(Axis.FRAME, "uint8", "1 where found", fill=0)
PARTS = ArraySpec(Axis.FRAME, "uint8", "which parts", (2,), ("part",), fill=0, columns=("body", "face"))
UNITS = ArraySpec(Axis.FRAME, "float32", "action units", (2,), ("unit",), columns=("AU01", "AU12"))
DECLARED = FeatureSpec(
    "holistic", "whole persons", {"found": MASK, "parts": PARTS, "face_2d": POINTS}, {}, "found", "parts"
)
UNDECLARED = dataclasses.replace(DECLARED, face="")  # as versions of before it was declared
WITHOUT_PICTURE = FeatureSpec("units", "action units", {"values": UNITS, "valid": MASK}, {}, "valid", "valid")
NO_FACE = FeatureSpec("bodies", "of bodies", {"values": UNITS, "valid": MASK}, {}, "valid")
HAS_FACE = (np.arange(FRAMES) >= 20) & (np.arange(FRAMES) != 47)
"""No face in the first window of 20 frames, one in the second, and one that is lost for a frame in the third."""


def arrays(spec: FeatureSpec, has_face: np.ndarray) -> dict[str, np.ndarray]:
    """A face that is at one place; somebody's body is found in every frame but the last."""
    body = np.arange(FRAMES) < FRAMES - 1
    points = np.tile(np.float32([[100, 100], [140, 100], [120, 150]]), (FRAMES, 1, 1))
    points[~has_face] = np.nan
    found = {"found": body | has_face, "parts": np.stack([body, has_face], axis=1), "valid": has_face}
    floats = {"face_2d": points, "values": np.ones((FRAMES, 2), np.float32)}
    there: Mapping[str, np.ndarray] = {name: rows.astype(np.uint8) for name, rows in found.items()} | floats
    return {name: there[name] for name in spec.arrays}


def publish(root: Path, spec: FeatureSpec, rows: Mapping[str, np.ndarray]) -> None:
    with FeatureWriter(local(root), "s", spec) as out:
        for name, values in rows.items():
            out.write(name, values)
        out.publish("f", {})


def dope(sampled: np.ndarray, has_face: np.ndarray) -> dict[str, np.ndarray]:
    rows = {
        name: np.zeros((FRAMES, *spec.shape), spec.dtype)
        for name, spec in FEATURES["dope"].arrays.items()
        if not spec.optional
    }
    rows["sampled"] = sampled.astype(np.uint8)
    rows["face_2d"] += np.random.default_rng(0).uniform(100, 200, rows["face_2d"].shape[1:]).astype(np.float32)
    rows["face_2d"][~(sampled & has_face)] = np.nan
    return rows


def made(root: Path, *features: tuple[FeatureSpec, Mapping[str, np.ndarray]]) -> FeatureStore:
    """A store of one session of four seconds, with these features and a clip index."""
    create_store(root)
    publish(root, FEATURES["frames"], {"time": np.arange(FRAMES) / FPS})
    for spec, rows in features:
        publish(root, spec, rows)
    catalogue.compact(local(root))
    return indexed(root)


def indexed(root: Path) -> FeatureStore:
    phases = pd.DataFrame({"session_id": ["s"], "phase": ["talk"], "start_s": [0.0], "end_s": [FRAMES / FPS]})
    tables = {
        "sessions": pd.DataFrame({"session_id": ["s"], "participant_id": ["p"]}),
        "phases": phases,
        "ratings": pd.DataFrame(columns=["session_id", "story_id", "position", "empathy"]),
    }
    update_clip_index(study_of(tables), WindowSpec(window=20, stride=20), FeatureStore(root))
    return FeatureStore(root)


@pytest.mark.parametrize("spec", [DECLARED, UNDECLARED, WITHOUT_PICTURE], ids=["declared", "landmarks", "no landmarks"])
def test_a_face_is_one_whoever_tracks_it(spec: FeatureSpec, tmp_path: Path) -> None:
    store = made(tmp_path / "features", (spec, arrays(spec, HAS_FACE)))
    np.testing.assert_allclose(store.clips()["face_tracked"].astype(float), [0, 1, 0.95])
    assert store.clips()["face_confidence"].isna().all()
    kept = ClipDataset(store, [spec.name], "face_tracked >= 0.9")
    assert kept.clips["start_frame"].tolist() == [20, 40]
    curves = read_curves(store, "s")
    np.testing.assert_array_equal(curves.faces[0].tracked, HAS_FACE)
    quality = Quality.of(curves)
    (lost,) = quality.findings
    assert lost.rule is Rule.FACE_LOST
    assert missing(lost.message, f"{spec.name}: no face", "35.0%") == []
    assert (Rule.FACE_JUMP in quality.not_looked_at) == (spec is WITHOUT_PICTURE)


def test_a_feature_of_no_face_says_nothing_of_one(tmp_path: Path) -> None:
    store = made(tmp_path / "features", (NO_FACE, arrays(NO_FACE, HAS_FACE)))
    assert store.clips()["face_tracked"].isna().all()
    assert Rule.FACE_LOST in Quality.of(read_curves(store, "s")).not_looked_at


def test_frames_that_dope_skipped_are_neither_with_a_face_nor_without(tmp_path: Path) -> None:
    sampled = np.arange(FRAMES) % 4 == 0
    store = made(tmp_path / "features", (FEATURES["dope"], dope(sampled, HAS_FACE)))
    np.testing.assert_allclose(store.clips()["face_tracked"].astype(float), [0, 1, 1])  # frame 47 was not looked at
    (face,) = read_curves(store, "s").faces
    np.testing.assert_array_equal(np.isnan(face.tracked), ~sampled)
    assert face.share == pytest.approx(10 / 15)


def test_the_first_feature_that_tracks_a_face_counts_and_every_one_is_judged(tmp_path: Path) -> None:
    everywhere = np.ones(FRAMES, bool)
    others = [(DECLARED, arrays(DECLARED, HAS_FACE)), (FEATURES["dope"], dope(everywhere, everywhere))]
    store = made(tmp_path / "features", *others)
    np.testing.assert_allclose(store.clips()["face_tracked"].astype(float), 1)  # built-in features come first
    curves = read_curves(store, "s")
    assert [face.feature for face in curves.faces] == ["dope", "holistic"]
    assert [finding.message.split(":")[0] for finding in Quality.of(curves).findings] == ["holistic"]


def test_an_index_sees_that_a_face_was_tracked_again(tmp_path: Path) -> None:
    """What was kept of a session is made of the version of every feature that may track a face."""
    root = tmp_path / "features"
    made(root, (DECLARED, arrays(DECLARED, HAS_FACE)))
    publish(root, DECLARED, arrays(DECLARED, ~HAS_FACE))
    catalogue.compact(local(root))
    np.testing.assert_allclose(indexed(root).clips()["face_tracked"].astype(float), [1, 0, 0.05])


def test_status_never_shows_rows_that_are_no_measurements_as_rows(tmp_path: Path) -> None:
    nobody, hardly = np.zeros(FRAMES, bool), np.arange(FRAMES) < 12
    few = dataclasses.replace(WITHOUT_PICTURE, name="few")
    store = made(tmp_path / "features", (WITHOUT_PICTURE, arrays(WITHOUT_PICTURE, nobody)), (few, arrays(few, hardly)))
    console = Console(record=True, width=200)
    for part in status_tables(record_status.scan(store.storage)):
        console.print(part)
    shown = " ".join(console.export_text().split())
    assert "│ s │ 60 │ 12 of 60 │ 0 of 60* │" in shown
    assert missing(shown, "caveat of units", "(s)") == []
    (finding,) = [one for one in Quality.of(read_curves(store, "s")).findings if one.message.startswith("units")]
    assert missing(finding.message, "no face", "100.0%") == []


def test_openface_says_where_its_face_is() -> None:
    rule = face_rule(FEATURES["openface"])
    assert rule is not None
    assert (rule.array, rule.lost_where, rule.skipped_where) == ("valid", "", "")


@pytest.mark.parametrize(
    ("face", "problem"), [("nose", "is none of its arrays"), ("parts", "has a row for each frame")]
)
def test_what_cannot_say_where_a_face_is_tracked(face: str, problem: str) -> None:
    parts = dataclasses.replace(PARTS, columns=("body", "hand"))
    with pytest.raises(SpecError, match=problem):
        dataclasses.replace(DECLARED, arrays={**DECLARED.arrays, "parts": parts}, face=face)
