"""A session's features as data frames: the values that are stored, and on a grid those that clips have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.messages import naming
from support.stores import local
from support.synthetic_features import StudySpec, write_features
from support.track_features import OFFSET_S, SPEAKERS, WINDOWS, seconds_of_the_session, study_of, write_tracks

from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.features import FEATURES
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue
from storyframes.store.layout import StoreError
from storyframes.store.publish import FeatureWriter
from tasks.clip_index.index import build_clip_index, write_clip_index


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    root = tmp_path_factory.mktemp("tables") / "features"
    write_features(root, StudySpec(sessions=1))
    return FeatureStore(root)


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    root = tmp_path_factory.mktemp("tracks") / "features"
    write_tracks(root, ("s15", "s29"))
    study = study_of(sessions=("s15", "s29"))
    write_clip_index(build_clip_index(study, WINDOWS, FeatureStore(root)).clips, local(root))
    return FeatureStore(root)


def same(left: object, right: object) -> None:
    np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


def test_values_are_those_that_are_stored(store: FeatureStore) -> None:
    face = store.to_pandas("s00", "openface")
    same(face.index, store.read("s00", "frames", array="time"))
    names = shown(face, FEATURES["openface"].columns)
    assert [name for name in names if "." in name] == ["values.frame", "values.confidence"]
    same(face[names], store.read("s00", "openface"))
    same(face["mask"], store.read("s00", "openface", array="valid") == 1)
    same(face["confidence"], store.read("s00", "openface", array="confidence"))
    assert np.isnan(face.loc[~face["mask"], "AU12_r"]).all()

    words = store.session("s00").to_pandas("glove")
    assert words.index.name == "time"
    same(words.index, store.read("s00", "glove", array="start"))
    same(words["end"], store.read("s00", "glove", array="end"))
    same(words.loc[:, "glove_000":"glove_299"], store.read("s00", "glove"))
    frames = store.to_pandas("s00", "glove", rows="frame")
    same(frames["frame_word"], store.read("s00", "glove", array="frame_word"))

    poses = store.to_pandas("s00", "dope")
    joint = FEATURES["dope"].arrays["body_3d"].joints.index("left_wrist")
    same(poses["body_3d.left_wrist.Z"], store.read("s00", "dope", array="body_3d")[:, joint, 2])
    assert poses.attrs["units"]["body_2d.left_wrist.x"].startswith("pixels")
    assert list(store.to_pandas("stories", "sbert").index) == list(store.story_ids("sbert"))
    assert set(store.to_xarray("s00").children) == set(store.features("s00"))


@pytest.mark.slow
def test_polars_has_the_same_columns(store: FeatureStore) -> None:
    for feature in ("openface", "glove", "resnet50"):
        pandas, polars = store.to_pandas("s00", feature).reset_index(), store.to_polars("s00", feature)
        assert set(polars.columns) == set(pandas.columns)
        for name in polars.columns:
            same(polars[name].to_numpy(), pandas[name])


def shown(frame: pd.DataFrame, columns: tuple[str, ...]) -> list[str]:
    """What columns of values are called in a frame."""
    return [f"values.{name}" if f"values.{name}" in frame else name for name in columns]


@pytest.mark.slow
@pytest.mark.parametrize("rate", [15.0, 7.0, 30000 / 1001, 40.0])
def test_a_grid_has_what_clips_have(tracked: FeatureStore, rate: float) -> None:
    inputs = ["openface", "resnet50", "openface@cam", "openface@twin", "glove@lapel", "sbert@lapel", "opensmile@lapel"]
    axes = {"glove@lapel": "frame", "sbert@lapel": "frame"}
    wanted = [ClipInput(name, rate=rate, axis=axes.get(name)) for name in inputs]
    for session in ("s15", "s29"):
        dataset = ClipDataset(tracked, wanted, f"session_id == '{session}'")
        place = int(dataset.clips["start_s"].to_numpy().argmin())
        assert dataset.clips["start_s"].iloc[place] == 0
        clip = dataset[place]
        for name in inputs:
            table = tracked.to_pandas(session, name, rate=rate)
            same(table["point"], np.arange(len(table)))
            same(table.index, np.rint(np.arange(len(table)) / rate * 1e6) / 1e6)
            assert len(table) > len(clip[name])
            part = table.iloc[: len(clip[name])]
            same(part["mask"], clip[f"{name}_mask"])
            feature = FEATURES[name.partition("@")[0]]
            columns = shown(part, feature.columns)
            absent = part[str(feature.arrays["values"].axis)].to_numpy() == -1
            same(part.loc[~absent, columns], clip[name][~absent])
            assert np.isnan(part.loc[absent, columns].to_numpy()).all()


def test_of_another_track_there_are_both_clocks(tracked: FeatureStore, tmp_path: Path) -> None:
    words = tracked.to_pandas("s15", "glove@lapel")
    start = tracked.read("s15", "glove@lapel", array="start")
    same(words["device_time"], start)
    np.testing.assert_allclose(words.index, seconds_of_the_session(start), rtol=0, atol=1e-9)
    assert words.index.min() > OFFSET_S
    speaker = tracked.read("s15", "glove@lapel", array="speaker")
    assert list(words["speaker"]) == [SPEAKERS[number] for number in speaker]

    root = tmp_path / "features"
    write_tracks(root, ("s15",))
    unknown = FeatureStore(root)  # no clip index
    assert unknown.to_pandas("s15", "glove@lapel").index.name == "device_time"
    assert "time" not in unknown.to_pandas("s15", "glove@lapel")
    with pytest.raises(StoreError, match=naming("s15/glove@lapel", "'lapel'")):
        unknown.to_pandas("s15", "glove@lapel", rate=15)


def test_columns_that_are_called_like_keys_keep_apart(store_root: Path) -> None:
    names = ("time", "mask", "frame", "values.time", "score", "point")
    arrays = {
        "values": ArraySpec(Axis.FRAME, "float32", "odd", shape=(6,), dims=("column",), columns=names),
        "score": ArraySpec(Axis.FRAME, "float32", "odd"),
        "mask": ArraySpec(Axis.FRAME, "int16", "odd", fill=-1),
    }
    with FeatureWriter(local(store_root), "a", FeatureSpec("odd", "odd", arrays)) as out:
        rows = np.arange(18, dtype=np.float32).reshape(3, 6)
        out.write("values", rows)
        out.write("score", np.full(3, 100, np.float32))
        out.write("mask", np.full(3, 200, np.int16))
        out.publish("f", {})
    catalogue.compact(local(store_root))
    store = FeatureStore(store_root)
    frame = store.to_pandas("a", "odd")
    assert len(set(frame.columns)) == 10
    assert "time" not in frame.columns or frame["time"].iloc[0] == 0
    assert set(frame["score"]) == {100}
    assert frame["mask"].dtype == bool
    assert set(frame["mask.mask"]) == {200}
    for value in rows[0]:
        assert sum(column.iloc[0] == value for _, column in frame.items() if column.dtype == np.float32) == 1
    with pytest.raises(StoreError, match=naming("a/odd", "has a row for each")):
        store.to_pandas("a", "odd", rate=15)
    with pytest.raises(StoreError, match=naming("a/odd", "'word'")):
        store.to_pandas("a", "odd", rows="word")


def test_frames_of_another_recording_are_refused(store_root: Path) -> None:
    for feature, array, rows in (("frames", "time", np.arange(5) / 15), ("resnet50", "values", None)):
        with FeatureWriter(local(store_root), "a", FEATURES[feature]) as out:
            out.write(array, np.zeros((4, 2048), np.float16) if rows is None else rows)
            out.publish("f", {})
    catalogue.compact(local(store_root))
    with pytest.raises(StoreError, match=naming("a/resnet50 has 4 frames", "but frames says when")):
        FeatureStore(store_root).to_pandas("a", "resnet50")


def test_a_session_that_nothing_times_is_empty_on_a_grid(store_root: Path) -> None:
    with FeatureWriter(local(store_root), "a", FEATURES["frames"]) as out:
        out.write("time", np.zeros(0))
        out.publish("f", {})
    catalogue.compact(local(store_root))
    assert isinstance(frame := FeatureStore(store_root).to_pandas("a", "frames", rate=15), pd.DataFrame)
    assert len(frame) == 0
