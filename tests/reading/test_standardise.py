"""Standardised inputs of clips: by the session, by all sessions of the person, by the training clips."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.messages import naming
from support.stores import local
from support.synthetic_features import StudySpec, SyntheticStudy, write_features

from storyframes.clips.clip_index import SplitSpec
from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput
from storyframes.clips.standardise import Scale
from storyframes.features import FEATURES
from storyframes.spec import Axis, FeatureSpec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter

UNITS = FEATURES["openface"].groups["action_units"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SyntheticStudy:
    return write_features(tmp_path_factory.mktemp("standardise") / "features", StudySpec(lacking={"s03": ["glove"]}))


def action_units(standardise: str | None) -> ClipInput:
    return ClipInput("openface", ["action_units"], standardise=standardise)


def measured(study: SyntheticStudy, *sessions: str) -> np.ndarray:
    """The action units of the frames in which a face was tracked."""
    of = [(study.arrays[one, "openface", "values"], study.arrays[one, "openface", "valid"]) for one in sessions]
    return np.concatenate([values[valid != 0][:, UNITS] for values, valid in of]).astype(np.float64)


def test_by_the_session(study: SyntheticStudy) -> None:
    plain, scaled = (ClipDataset(study.root, [action_units(by), "label"]) for by in (None, "session"))
    for number in (0, len(plain) - 1):
        session = plain.clips["session_id"].iloc[number]
        rows = measured(study, session)
        expected = (plain[number]["openface"] - np.median(rows, axis=0)) / rows.std(axis=0)
        np.testing.assert_allclose(scaled[number]["openface"], expected, rtol=1e-4, atol=1e-5)
        assert scaled[number]["label"] == plain[number]["label"]
    several = list(range(0, len(plain), 7))
    np.testing.assert_array_equal(
        scaled.read(several)["openface"], np.stack([scaled[number]["openface"] for number in several])
    )
    assert np.isnan(plain[0]["openface"]).sum() == np.isnan(scaled[0]["openface"]).sum()


@pytest.fixture
def one_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two sessions of a clip index are of one person."""
    read = FeatureStore.clips

    def clips(store: FeatureStore) -> pd.DataFrame:
        index = read(store)
        first, second = index["session_id"].unique()[:2]
        who = index.loc[index["session_id"] == first, "participant_id"].iloc[0]
        index.loc[index["session_id"] == second, "participant_id"] = who
        return index

    monkeypatch.setattr(FeatureStore, "clips", clips)


def extracted_again(
    study: SyntheticStudy, session: str, feature: str, changed: Callable[[FeatureSpec], FeatureSpec]
) -> None:
    """Publish a feature of a session once more, under another specification."""
    spec = changed(FEATURES[feature])
    with FeatureWriter(local(study.root), session, spec) as out:
        for name in spec.arrays:
            if (session, feature, name) in study.arrays:
                out.write(name, study.arrays[session, feature, name])
        out.publish("f", {})
    catalogue.compact(local(study.root))


def in_another_order(spec: FeatureSpec) -> FeatureSpec:
    values = spec.arrays["values"]
    names = list(values.columns)
    first = UNITS.start
    names[first], names[first + 1] = names[first + 1], names[first]
    return replace(spec, arrays={**spec.arrays, "values": replace(values, columns=tuple(names))})


def without_frames(spec: FeatureSpec) -> FeatureSpec:
    return replace(spec, arrays={name: each for name, each in spec.arrays.items() if each.axis is not Axis.FRAME})


@pytest.mark.usefixtures("one_person")
def test_another_session_of_the_person_with_another_order_of_columns_is_refused(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=3))
    extracted_again(study, "s01", "openface", in_another_order)
    with pytest.raises(ValueError, match=naming("openface", "s00", "s01", "columns")):
        ClipDataset(study.root, [action_units("person")], 'session_id == "s00"')
    assert len(ClipDataset(study.root, [action_units("person")], 'session_id == "s02"'))  # somebody else


@pytest.mark.usefixtures("one_person")
def test_another_session_of_the_person_without_rows_of_frames_does_not_count(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=3))
    extracted_again(study, "s01", "opensmile", without_frames)
    of_person, of_session = (
        ClipDataset(study.root, [ClipInput("audio", axis=Axis.FRAME, standardise=by)], 'session_id == "s00"')
        for by in ("person", "session")
    )
    np.testing.assert_array_equal(of_person[0]["audio"], of_session[0]["audio"])


@pytest.mark.usefixtures("one_person")
def test_another_session_of_the_person_without_an_array_that_is_asked_for_is_refused(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=3))
    study.arrays["s00", "glove", "confidence"] = np.ones(len(study.arrays["s00", "glove", "known"]), np.float32)
    extracted_again(study, "s00", "glove", lambda spec: spec)
    confidence, vectors = (ClipInput("words", columns, standardise="person") for columns in (["confidence"], None))
    with pytest.raises(ValueError, match=naming("glove", "s00", "s01", "confidence")):
        ClipDataset(study.root, [confidence], 'session_id == "s00"')
    assert len(ClipDataset(study.root, [vectors], 'session_id == "s00"'))  # nobody reads it


@pytest.mark.slow
def test_training_clips_with_another_order_of_columns_are_refused(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=3))
    split = SplitSpec(shares=(0.5, 0.5, 0.0))
    index = split.applied(FeatureStore(study.root).clips())
    session = index.loc[index["split"] == "val", "session_id"].iloc[0]
    extracted_again(study, session, "openface", in_another_order)
    with pytest.raises(ValueError, match=naming("training", "openface", "columns")):
        ClipDataset(study.root, [action_units("training")], f'session_id == "{session}"', split=split)


@pytest.mark.slow
def test_by_training_clips_of_a_name_with_its_columns_some_of_which_lack_it(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=3, lacking={"s02": ["openface"]}))
    all_train = SplitSpec(shares=(1.0, 0.0, 0.0))
    by_name, by_columns = (
        ClipDataset(study.root, [clip_input], 'session_id == "s00"', split=all_train)
        for clip_input in (ClipInput("openface.action_units", standardise="training"), action_units("training"))
    )
    np.testing.assert_array_equal(by_name[0]["openface.action_units"], by_columns[0]["openface"])


@pytest.mark.usefixtures("one_person")
def test_by_all_sessions_of_the_person(study: SyntheticStudy) -> None:
    plain, scaled = (ClipDataset(study.root, [action_units(by)]) for by in (None, "person"))
    first, second, third = plain.clips["session_id"].unique()[:3]
    for session, of in ((first, (first, second)), (second, (first, second)), (third, (third,))):
        number = int(np.flatnonzero(plain.clips["session_id"] == session)[0])
        rows = measured(study, *of)
        expected = (plain[number]["openface"] - np.median(rows, axis=0)) / rows.std(axis=0)
        np.testing.assert_allclose(scaled[number]["openface"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_by_the_training_clips(study: SyntheticStudy) -> None:
    """Mean 0 and deviation 1 over the windows of training, each once, and the same numbers for the others."""
    plain, scaled = (ClipDataset(study.root, [action_units(by)]) for by in (None, "training"))
    train = np.flatnonzero(plain.clips["split"] == "train")
    windows = {(plain.clips["session_id"][one], plain.clips["start_frame"][one]): one for one in train}
    rows = np.concatenate([plain[int(one)]["openface"][plain[int(one)]["openface_mask"]] for one in windows.values()])
    (test, *_) = np.flatnonzero(plain.clips["split"] == "test")
    for number in (int(train[0]), int(test)):
        expected = (plain[number]["openface"] - rows.mean(axis=0, dtype=float)) / rows.std(axis=0, dtype=float)
        np.testing.assert_allclose(scaled[number]["openface"], expected, rtol=1e-3, atol=1e-4)
    of_test = ClipDataset(study.root, [action_units("training")], 'split == "test"')
    np.testing.assert_array_equal(of_test[0]["openface"], scaled[int(test)]["openface"])


@pytest.mark.slow
def test_padding_stays_0_and_several_arrays_keep_their_places(study: SyntheticStudy) -> None:
    inputs = [ClipInput("vision", ["gaze", "resnet50"]), ClipInput("audio"), ClipInput("words")]
    plain = ClipDataset(study.root, inputs, drop_missing=True)
    scaled = ClipDataset(
        study.root,
        [ClipInput(one.name, one.columns, standardise="session") for one in inputs],
        drop_missing=True,
    )
    a, b, session = plain[0], scaled[0], plain.clips["session_id"].iloc[0]
    embeddings = study.arrays[session, "resnet50", "values"].astype(np.float64)
    valid = study.arrays[session, "openface", "valid"] != 0
    expected = (a["vision"][:, 8:] - np.median(embeddings[valid], axis=0)) / embeddings[valid].std(axis=0)
    np.testing.assert_allclose(b["vision"][:, 8:], expected, rtol=1e-3, atol=1e-3)
    a, b = plain.read(range(0, len(plain), 5)), scaled.read(range(0, len(plain), 5))
    for name in ("audio", "words"):
        length = b[f"{name}_length"]
        shortest = int(length.argmin())
        assert length[shortest] < b[name].shape[1]
        assert not b[name][shortest, length[shortest] :].any()
        assert not np.allclose(a[name], b[name], equal_nan=True)


def test_a_column_without_a_spread_is_only_centred() -> None:
    scale = Scale.of_rows(np.array([[3.0, np.nan, 1.0], [3.0, np.nan, 5.0], [3.0, np.nan, np.nan]], np.float32))
    np.testing.assert_array_equal(scale.centre, [3, 0, 3])
    np.testing.assert_array_equal(scale.spread, [1, 1, 2])


def test_clips_that_lack_the_input_stay_masked(study: SyntheticStudy) -> None:
    dataset = ClipDataset(study.root, [ClipInput("words", standardise="person", missing="mask")])
    lacking = int(np.flatnonzero(dataset.clips["session_id"] == "s03")[0])
    assert not dataset[lacking]["words_mask"].any()
    assert not dataset[lacking]["words"].any()


def test_it_is_in_the_repr_and_survives_a_pickle(study: SyntheticStudy) -> None:
    dataset = ClipDataset(study.root, [action_units("session")])
    assert "standardise='session'" in repr(dataset)
    again = pickle.loads(pickle.dumps(dataset))
    np.testing.assert_array_equal(again[3]["openface"], dataset[3]["openface"])
    np.testing.assert_array_equal(
        dataset.split("test")[0]["openface"],
        ClipDataset(study.root, [action_units("session")], 'split == "test"')[0]["openface"],
    )


@pytest.mark.parametrize(
    ("name", "more", "named"),
    [
        ("openface", {"standardise": "mean"}, ("'mean'", "session", "person", "training")),
        ("label", {"standardise": "session"}, ("label",)),
        ("words", {"standardise": "session", "speakers": ["robot"]}, ("words",)),
        ("openface", {"standardise": "session", "axis": "word"}, ("openface",)),
    ],
)
def test_what_cannot_be_standardised(name: str, more: dict[str, Any], named: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=naming(*named)):
        ClipInput(name, **more)


def test_whole_numbers_are_refused(study: SyntheticStudy) -> None:
    with pytest.raises(ValueError, match=naming("dope", "whole numbers", "n_detected")):
        ClipDataset(study.root, [ClipInput("dope", ["n_detected"], standardise="session")])
