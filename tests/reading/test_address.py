"""One spelling for a feature, a part of one and several side by side: the values, times and masks that are stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from support.clip_indexes import put_curve
from support.messages import naming
from support.stores import local
from support.synthetic_features import StudySpec, write_features
from support.track_features import SPEAKERS, WINDOWS, seconds_of_the_session, study_of, write_tracks
from typer.testing import CliRunner

import storyframes
from flows.cli.app import app
from storyframes import FEATURES, ArraySpec, Axis, ClipDataset, ClipInput, ClipLoader, FeatureSpec, FeatureStore
from storyframes.store import catalogue
from storyframes.store.layout import StoreError, create_store
from storyframes.store.named.address import AddressError
from storyframes.store.publish import FeatureWriter
from storyframes.times import ticks
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.inspect.session_curves import summarize_columns

GAZE = FEATURES["openface"].groups["gaze"]
AU12 = FEATURES["openface"].columns.index("AU12_r")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    root = tmp_path_factory.mktemp("address") / "features"
    write_features(root, StudySpec(sessions=2))
    return FeatureStore(root)


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    root = tmp_path_factory.mktemp("tracks") / "features"
    write_tracks(root, ("s15", "vfr"))
    study = study_of(sessions=("s15", "vfr"))
    write_clip_index(build_clip_index(study, WINDOWS, FeatureStore(root)).clips, local(root))
    return FeatureStore(root)


def same(left: object, right: object) -> None:
    np.testing.assert_array_equal(np.asarray(left), np.asarray(right))


def test_a_store_is_like_a_mapping_of_its_sessions(store: FeatureStore, tmp_path: Path) -> None:
    assert (len(store), list(store), "s00" in store, "s99" in store) == (2, store.sessions, True, False)
    assert store["s01"].session_id == "s01"
    create_store(tmp_path / "empty")
    empty = FeatureStore(tmp_path / "empty")
    assert (len(empty), bool(empty)) == (0, True)
    with pytest.raises(AddressError, match=naming("s0", "s00")):
        store["s0"]


def write(root: Path, spec: FeatureSpec, arrays: Mapping[str, np.ndarray]) -> None:
    with FeatureWriter(local(root), "s00", spec) as out:
        for name, values in arrays.items():
            out.write(name, values)
        out.publish("f", {})


NAMES = {
    "openface": slice(None),
    "openface.gaze": GAZE,
    "openface.AU12_r": AU12,
    "openface.values.AU12_r": AU12,
    "openface.measurements": slice(5, 714),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_gives_the_stored_columns(store: FeatureStore, name: str) -> None:
    stored = store.read("s01", "openface")[:, NAMES[name]]
    selection = store["s01"][name]
    assert (selection.shape, selection.dtype) == (stored.shape, stored.dtype)
    same(selection[:], stored)
    same(store.read("s01", name, 7, 31), stored[7:31])
    frame = store.to_pandas("s01", name)
    same(frame["mask"], store.read("s01", "openface", array="valid") == 1)
    same(selection.mask, frame["mask"])
    same(frame.index, store.read("s01", "frames", array="time"))
    same(selection.time, frame.index)
    columns = np.atleast_1d(np.array(FEATURES["openface"].columns)[NAMES[name]])
    assert selection.columns == tuple(columns)
    values = [column for column in frame if column.removeprefix("values.") in set(columns) and column != "frame"]
    if name != "openface":  # which has the array confidence as well
        same(frame[values], stored.reshape(len(stored), -1))
    array = selection.to_xarray()
    same(array, stored)
    same(array["time"], frame.index)
    same(array["mask"], frame["mask"])


KEYS = [
    slice(0, 12), slice(-5, None), slice(50, 10_000), slice(None, None, -7), slice(9, 3), 3, -1, [4, 0, 4],
    (slice(2, 9), 3), (slice(2, 9), slice(1, 3)), (-2, 1), (), ..., (..., 1), ([4, 0], [1, 3]),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_rows_are_chosen_as_numpy_does(store: FeatureStore, key: object) -> None:
    same(store["s00"]["openface.gaze"][key], store.read("s00", "openface")[:, GAZE][key])
    same(store["s00"]["dope.body_2d"][key], store.read("s00", "dope", array="body_2d")[key])


def test_side_by_side_names_are_their_features_columns(store: FeatureStore) -> None:
    face, picture = store.read("s00", "openface"), store.read("s00", "resnet50")
    vision = store["s00"]["vision"]
    same(vision[3:40], np.concatenate([face, picture.astype(np.float32)], axis=1)[3:40])
    same(store["s00"]["vision.AU12_r"][:], face[:, AU12])
    same(store["s00"]["vision.resnet50"][:], picture)
    same(store["s00"]["audio"][:], store.read("s00", "opensmile"))
    frame = store.to_pandas("s00", "vision")
    names = [name for name in frame if name not in ("frame", "mask")]
    same(frame[names], vision[:])
    same(store["s00"]["vision.confidence"][:], face[:, FEATURES["openface"].columns.index("confidence")])
    for name in ("vision.values", "vision.measured.values", "vision.measured.frame", "vision.measured.confidence"):
        with pytest.raises(AddressError, match=naming(name.rpartition(".")[2])):
            store["s00"][name]
    filled = np.empty((10, 2762), np.float64)
    assert store.read("s00", "vision", 5, 15, out=filled) is filled
    same(filled, vision[5:15])


def test_arrays_joints_and_kinds_of_row(store: FeatureStore) -> None:
    body = store.read("s00", "dope", array="body_2d")
    session = store["s00"]
    same(session["dope.body_2d"][2:9], body[2:9])
    same(session["dope.body_2d.head.x"][:], body[:, -1, 0])
    same(session["dope.body_2d.head"][:], body[:, -1])
    same(session["opensmile.per_frame"][:], store.read("s00", "opensmile", array="per_frame"))
    same(session["frames.time"][:], store.read("s00", "frames", array="time"))
    same(session["openface"]["gaze"]["gaze_0_x"][:4], store.read("s00", "openface", 0, 4)[:, GAZE.start])
    with pytest.raises(AddressError, match=naming("s00/dope", "dope.body_2d")):
        session["dope"][0:3]


def test_a_part_has_the_chosen_rows_or_is_refused(store: FeatureStore) -> None:
    session = store["s00"]
    same(session["openface"].between(1.0, 2.0)["gaze"][:], session["openface.gaze"].between(1.0, 2.0)[:])
    for name, part in (("opensmile", "per_frame"), ("words", "frame")):
        assert len(session[name][part]) == len(store.read("s00", "openface"))
        with pytest.raises(AddressError, match=naming(f"'{name}.{part}'", "frame")):
            session[name].between(1.0, 2.0)[part]


def test_names_that_are_the_beginning_of_others(tmp_path: Path) -> None:
    create_store(tmp_path / "features")
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    array = ArraySpec(Axis.FRAME, "float32", "two", (2,), ("column",), columns=("mouth.open", "mouth"))
    single = ArraySpec(Axis.FRAME, "float32", "one")
    specs = [FeatureSpec("odd", "made up", {"values": array}), FeatureSpec("loudness", "made up", {"values": single})]
    for spec, values in ((specs[0], rows), (specs[1], rows[:, 0]), (FEATURES["frames"], np.arange(3) / 2)):
        write(tmp_path / "features", spec, {next(iter(spec.arrays)): values})
    put_curve(tmp_path / "features", "s00", "label.valence", np.array([0.0, 1.0]), np.array([0.25, 0.5]))
    catalogue.compact(local(tmp_path / "features"))
    session = FeatureStore(tmp_path / "features")["s00"]
    same(session["odd.mouth"][:], rows[:, 1])
    same(session.to_pandas("odd.mouth")["mouth"], rows[:, 1])
    same(session["odd"]["mouth"].to_xarray(), rows[:, 1])
    same(session["label.valence"][:], [0.25, 0.5])
    same(session["label.valence"].between(0.5, np.inf)[:], [0.5])
    (panel,) = session.plot(["loudness"])  # the feature, and not a level in dB
    same(panel.lines[0].get_ydata(), rows[:, 0])


@pytest.mark.parametrize(("axis", "rows"), [(Axis.WINDOW, [1, 2]), (Axis.UTTERANCE, [1, 2, 3]), (Axis.WORD, [1, 2, 3])])
def test_seconds_choose_spans_by_their_kind(tmp_path: Path, axis: Axis, rows: list[int]) -> None:
    create_store(tmp_path / "features")
    start = np.array([0.0, 1.0, 2.0, 2.5, 3.0])  # the first ends with second 1, the last begins with second 3
    times = {"start": start, "end": start + 1} | ({"time": start + 0.5} if axis is Axis.WINDOW else {})
    clocks = {name: ArraySpec(axis, "float64", "when", units="s") for name in times}
    spec = FeatureSpec("spans", "made up", {"values": ArraySpec(axis, "float32", "one"), **clocks})
    write(tmp_path / "features", spec, {"values": np.arange(5, dtype=np.float32), **times})
    timeless = FeatureSpec("pictures", "made up", {"values": ArraySpec(Axis.FRAME, "float32", "one")})
    write(tmp_path / "features", timeless, {"values": np.ones(3, np.float32)})
    catalogue.compact(local(tmp_path / "features"))
    session = FeatureStore(tmp_path / "features")["s00"]
    same(session["spans"].between(1.0, 3.0)[:], rows)
    with pytest.raises(StoreError, match=naming("s00/pictures", "[0:120]")):
        session["pictures"].between(1.0, 3.0)


def test_seconds_choose_the_rows_of_a_clip(store: FeatureStore) -> None:
    time = store.read("s00", "frames", array="time")
    start, stop = float(time[10]), float(time[25])  # row 10 belongs to it, row 25 to the next
    same(store["s00"]["openface.gaze"].between(start, stop)[:], store.read("s00", "openface", 10, 25)[:, GAZE])
    same(store["s00"]["openface.gaze"].between(np.float32(1), np.int64(2)).time, time[(time >= 1) & (time < 2)])
    frame = store["s00"]["openface.gaze"].between(start, stop).to_pandas()
    same(frame.index, time[10:25])
    sound = store["s00"]["opensmile"].between(0.35, 0.45)  # 35 * 0.01 is slightly more than 0.35
    same(sound[:], store.read("s00", "opensmile", 35, 45))
    clip = ClipDataset(store, ["openface", "audio", "words", "sentence"])
    row, batch = clip.clips.iloc[0], clip[0]
    session = store[row["session_id"]]
    assert len(session["openface"].between(row["start_s"], row["stop_s"])) == row["stop_frame"] - row["start_frame"]
    for name in ("audio", "words", "sentence"):
        some = session[name].between(row["start_s"], row["stop_s"])
        rows = some[:][np.argsort(some.time, kind="stable")]  # a clip has words in the order of their starts
        assert len(rows) > 0
        same(rows, batch[name][: batch[f"{name}_length"]][-len(rows) :])
    assert len(store["s00"]["openface"].between(90.0, 95.0).to_pandas()) == 0
    with pytest.raises(ValueError, match=naming("5.0", "3.0")):
        store["s00"]["openface"].between(5.0, 3.0)


@pytest.mark.parametrize("session_id", ["s15", "vfr"])
@pytest.mark.parametrize("name", ["openface@cam.gaze", "openface.gaze@cam"])
def test_another_track_is_cut_by_the_sessions_seconds(tracked: FeatureStore, session_id: str, name: str) -> None:
    device = tracked.read(session_id, "frames@cam", array="time")
    stored = tracked.read(session_id, "openface@cam")[:, GAZE]
    seconds = seconds_of_the_session(device)
    selection = tracked[session_id][name]
    some = selection.between(4.0, 6.0)
    inside = (ticks(seconds) >= 4_000_000) & (ticks(seconds) < 6_000_000)
    assert 0 < inside.sum() < len(inside)
    same(some[:], stored[inside])
    np.testing.assert_allclose(some.time, seconds[inside], atol=1e-6)
    same(some.mask, tracked.read(session_id, "openface@cam", array="valid")[inside] == 1)
    frame = tracked.to_pandas(session_id, name)
    same(frame.iloc[:, -8:], stored)
    assert np.isnan(frame.loc[~frame["mask"]].iloc[:, -8:]).all(axis=None)


def test_words_of_another_track(tracked: FeatureStore) -> None:
    start, end = (tracked.read("s15", "sbert@lapel", array=name) for name in ("start", "end"))
    start, end = seconds_of_the_session(start), seconds_of_the_session(end)
    some = tracked["s15"]["sbert@lapel"].between(4.5, 5.5)
    inside = (start < 5.5) & (end > 4.5)
    assert 0 < inside.sum() < len(inside)
    same(some[:], tracked.read("s15", "sbert@lapel")[inside])
    speakers = np.array(SPEAKERS)[tracked.read("s15", "sbert@lapel", array="speaker")]
    same(some.to_pandas()["speaker"], speakers[inside])


WRONG = {
    "opensmil": "opensmile",
    "openface.gazee": "gaze",
    "openface.au12_r": "AU12_r",
    "vision.AU12": "AU12_r",
    "openface/gaze": "openface.gaze",
    "dope.body2d": "body_2d",
}


@pytest.mark.parametrize("name", WRONG)
def test_every_reader_refuses_a_wrong_name_with_the_nearest(store: FeatureStore, name: str) -> None:
    readers = [
        lambda: store["s00"][name],
        lambda: store.read("s00", name),
        lambda: store.to_pandas("s00", name),
        lambda: store["s00"].to_xarray(name),
    ]
    for read in readers:
        with pytest.raises(AddressError, match=naming(WRONG[name])):
            read()
    assert name not in store["s00"]
    with pytest.raises(AddressError, match=naming("'glov'", "'glove'")):
        store.read("s00", "glov", array="start")


def test_show_gives_the_columns_of_a_name(store: FeatureStore) -> None:
    summaries = summarize_columns(store["s00"], "openface.gaze")
    stored = store.read("s00", "openface.gaze")[store.read("s00", "openface", array="valid") == 1]
    assert [one.name for one in summaries] == list(store["s00"]["openface.gaze"].columns)
    np.testing.assert_allclose([one.high for one in summaries], stored.max(axis=0), rtol=1e-6)
    result = CliRunner().invoke(app, ["show", store.storage.location, "s00", "openface.gaze_0_x", "--json"])
    assert json.loads(result.stdout)[0]["median"] == pytest.approx(float(np.median(stored[:, 0])))
    refused = CliRunner().invoke(app, ["show", store.storage.location, "s00", "openface.gazee"])
    assert (refused.exit_code, "'gaze'" in refused.output) == (2, True)


def test_an_input_has_the_columns_of_its_name(store: FeatureStore) -> None:
    names = ["openface.gaze", "vision.measured.AU12_r", "openface.confidence", "dope.body_2d", "glove.frame"]
    dataset = ClipDataset(store, names)
    whole = ClipDataset(store, ["openface", "dope", ClipInput("glove", axis="frame")])
    for number in (0, len(dataset) - 1):
        clip, all_columns = dataset[number], whole[number]
        same(clip["openface.gaze"], all_columns["openface"][:, GAZE])
        same(clip["openface.gaze_mask"], all_columns["openface_mask"])
        same(clip["vision.measured.AU12_r"], all_columns["openface"][:, [AU12]])
        row = dataset.clips.iloc[number]
        some = store[row["session_id"]]["openface.confidence"].between(row["start_s"], row["stop_s"])
        same(clip["openface.confidence"], some[:])
        same(clip["dope.body_2d"], all_columns["dope_body_2d"])
        same(clip["glove.frame"], all_columns["glove"])
    for wrong, near in {"openface.gazee": "gaze", "openfac": "openface", "openface.valid": "openface_mask"}.items():
        with pytest.raises(AddressError, match=naming(near)):
            ClipDataset(store, [wrong])
    with pytest.raises(ValueError, match=naming("openface.gaze", "AU12_r")):
        ClipDataset(store, [ClipInput("openface.gaze", ["AU12_r"])])


@pytest.mark.parametrize("name", ["openface@cam.gaze", "openface.gaze@cam"])
def test_an_input_of_another_track_has_the_columns_of_its_name(tracked: FeatureStore, name: str) -> None:
    dataset = ClipDataset(tracked, [ClipInput(name, rate=10)])
    whole = ClipDataset(tracked, [ClipInput("openface", track="cam", rate=10)])
    for number in range(len(dataset)):
        same(dataset[number]["openface.gaze@cam"], whole[number]["openface@cam"][:, GAZE])


def test_clips_are_chosen_as_users_type_it(store: FeatureStore) -> None:
    dataset = ClipDataset(store, ["openface.AU12_r", "label"])
    batch = dataset.read([1, 2, 3])
    for chosen in (dataset[1:4], dataset[[1, 2, 3]], dataset[np.arange(len(dataset)) == 2]):
        places = chosen["index"] - 1
        same(chosen["openface.AU12_r"], batch["openface.AU12_r"][places])
    high = dataset.clips["empathy"].astype("Int8").mask(dataset.clips["empathy"] == 1) > 3
    same(dataset[high]["index"], np.flatnonzero(dataset.clips["empathy"] > 3))
    with pytest.raises(IndexError, match=naming(str(len(dataset) - 1), str(len(dataset)))):
        dataset[np.ones(len(dataset) - 1, bool)]
    identity = dataset.clips["clip_id"].iloc[2]
    assert dataset[identity]["index"] == 2
    assert len(dataset[5:5]["index"]) == 0
    for wrong in (len(dataset), "p99", 1.5):
        with pytest.raises(IndexError, match=naming(wrong)):
            dataset[wrong]
    empathic = dataset.filter("empathy > 3")
    assert empathic.to_pandas()["clip_id"].tolist() == dataset.clips["clip_id"][dataset.clips["empathy"] > 3].tolist()
    train = empathic.split("train")
    assert set(train.clips["split"]) == {"train"}
    assert train.clips["empathy"].min() > 3
    numbers = dataset.describe()
    assert numbers.loc["clips", "all"] == len(dataset)
    assert numbers.loc["empathy: mean", "train"] == pytest.approx(dataset.split("train").clips["empathy"].mean())


CALLS = {
    "read needs 'feature'": lambda store, _: store.read("s00"),
    "between": lambda store, _: store.read("s00", "openface", t0=0, t1=4),
    "openface.AU12_r": lambda store, _: store.read("s00", "openface", columns=["AU12_r"]),
    "array='time'": lambda store, _: store.read("s00", "frames", "time", array="time"),
    "one text": lambda store, _: store.to_pandas("s00", ["openface", "opensmile"]),
    "UniformSampler": lambda _, dataset: ClipLoader(dataset, 4, shuffle=True),
    "threads": lambda _, dataset: ClipLoader(dataset, 4, num_workers=2),
    "ClipDataset needs 'inputs'": lambda store, _: ClipDataset(store),
    "extract needs 'features'": lambda *_: storyframes.extract("talk.mp4"),
    "FeatureStore": lambda *_: storyframes.open("STORE"),
    "dataset.clips": lambda _, dataset: dataset.index,
    "session['openface']": lambda store, _: store["s00"].openface,
}


@pytest.mark.parametrize("told", CALLS)
def test_a_natural_mistake_is_answered_in_our_words(store: FeatureStore, told: str) -> None:
    dataset = ClipDataset(store, ["openface.AU12_r"])
    with pytest.raises((TypeError, AttributeError, StoreError), match=naming(told)) as error:
        CALLS[told](store, dataset)
    assert "positional argument" not in str(error.value)
