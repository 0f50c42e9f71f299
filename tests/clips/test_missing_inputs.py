"""Inputs that some sessions lack, as masked inputs: one dataset of sessions with a camera and without."""

from __future__ import annotations

import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.messages import missing, naming
from support.stores import local
from support.synthetic_features import StudySpec, SyntheticStudy, write_features
from support.track_features import WINDOWS, study_of, write_tracks

from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput
from storyframes.clips.loader import ClipLoader
from storyframes.clips.samplers import UniformSampler
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from tasks.clip_index.index import build_clip_index, write_clip_index

NO_CAMERA, NO_WORDS = "s01", "s02"
INPUTS = {
    "openface": {},
    "vision": {"columns": ["gaze", "resnet50"]},
    "resnet50": {"rate": 10.0},
    "dope": {"columns": ["body_2d"]},
    "words": {},
    "glove": {"axis": "frame"},
    "audio": {},
    "opensmile": {"axis": "frame"},
}
LACKING = {
    NO_CAMERA: ["openface", "resnet50", "dope"],
    NO_WORDS: ["glove", "sbert", "opensmile"],
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SyntheticStudy:
    return write_features(tmp_path_factory.mktemp("missing") / "store", StudySpec(sessions=4, lacking=LACKING))


@pytest.mark.parametrize("name", INPUTS)
def test_clips_with_the_feature_are_as_ever_and_the_others_are_masked(study: SyntheticStudy, name: str) -> None:
    masked = ClipDataset(study.root, [ClipInput(name, **INPUTS[name], missing="mask"), "label"])
    there = ClipDataset(study.root, [ClipInput(name, **INPUTS[name]), "label"], drop_missing=True)
    assert len(masked) == len(study.clips) > len(there)
    assert masked.fields == there.fields
    lacking = ~masked.clips["clip_id"].isin(there.clips["clip_id"])
    assert lacking.any()
    assert masked.missing == {name: pytest.approx(lacking.mean())}
    assert f"{name}: masked in {lacking.mean():.0%} of the clips" in repr(masked)
    masked.missing = {name: 0.004}
    assert missing(repr(masked), f"{name}: masked", "under 1%") == []
    assert "under 1%" in masked._repr_html_()
    batch, expected = masked.read(range(len(masked))), there.read(range(len(there)))
    for field in there.fields:
        if field != "index":
            np.testing.assert_array_equal(batch[field][~lacking], expected[field], err_msg=field)
    assert not batch[f"{name}_mask"][lacking].any()
    np.testing.assert_array_equal(batch["label"], study.clips["empathy"])
    for field in set(batch) - {"label", "index", f"{name}_mask"}:
        empty = batch[field][lacking]
        is_padded = f"{name}_length" in batch or (name, INPUTS[name]) == ("glove", {"axis": "frame"})
        assert (empty == 0).all() if is_padded else np.isnan(empty).all(), field


def test_the_shape_is_the_features_where_none_of_the_chosen_clips_has_it(study: SyntheticStudy) -> None:
    dataset = ClipDataset(study.root, [ClipInput("openface", missing="mask")], f'session_id == "{NO_CAMERA}"')
    assert dataset.missing == {"openface": 1.0}
    assert dataset.fields == ClipDataset(study.root, ["openface"], drop_missing=True).fields
    assert not dataset[0]["openface_mask"].any()


def test_a_feature_that_no_session_has_is_named(study: SyntheticStudy) -> None:
    with pytest.raises(ValueError, match="no input 'mediapipe'"):
        ClipDataset(study.root, [ClipInput("mediapipe", missing="mask")])


def test_batches_of_a_loader_and_of_a_pickled_dataset_are_the_same(study: SyntheticStudy) -> None:
    inputs = [ClipInput("openface", missing="mask"), ClipInput("audio", missing="mask"), "label"]
    dataset = ClipDataset(study.root, inputs)
    loader = ClipLoader(dataset, sampler=UniformSampler(dataset, seed=1), batch_size=7)
    again = pickle.loads(pickle.dumps(dataset))
    for batch in loader:
        indices = np.asarray(batch["index"])
        for field, values in again.read(indices.tolist()).items():
            np.testing.assert_array_equal(np.asarray(batch[field]), values, err_msg=field)
    assert again.missing == dataset.missing


def test_rows_of_a_masked_clip_are_none(study: SyntheticStudy) -> None:
    dataset = ClipDataset(study.root, [ClipInput("audio", missing="mask")])
    clip = int(np.flatnonzero(dataset.clips["session_id"] == NO_WORDS)[0])
    assert len(dataset.stored_rows(clip)["audio"]) == dataset[clip]["audio_length"] == 0


@pytest.mark.parametrize("name", ["label", "story"])
def test_what_has_no_mask_cannot_be_masked(name: str) -> None:
    with pytest.raises(ValueError, match="has no mask"):
        ClipInput(name, missing="mask")


def test_the_refusal_says_both_ways(study: SyntheticStudy) -> None:
    with pytest.raises(ValueError, match=naming("drop_missing=True", "missing='mask'")):
        ClipDataset(study.root, ["openface"])


def test_another_word_is_refused() -> None:
    with pytest.raises(ValueError, match=naming("missing='drop'", "'openface'", "'error' or 'mask'")):
        ClipInput("openface", missing="drop")


@pytest.mark.slow
def test_a_track_can_be_missing_in_some_sessions(tmp_path: Path) -> None:
    root, sessions = tmp_path / "store", ("s15", "s25")
    write_tracks(root, sessions)
    study = study_of(sessions=sessions)
    for feature in root.glob("s25/*@cam"):
        shutil.rmtree(feature)
    catalogue.compact(local(root))
    tracks = {"s15": study.tracks["s15"], "s25": {"main": study.tracks["s25"]["main"]}}
    study = replace(study, tracks=tracks, clocks={"s15": study.clocks["s15"]})
    write_clip_index(build_clip_index(study, WINDOWS, FeatureStore(root)).clips, local(root))
    masked = ClipDataset(root, [ClipInput("openface@cam", rate=10.0, missing="mask")])
    lacking = (masked.clips["session_id"] == "s25").to_numpy()
    assert lacking.any()
    assert not lacking.all()
    there = ClipDataset(root, [ClipInput("openface@cam", rate=10.0)], 'session_id == "s15"')
    batch, expected = masked.read(range(len(masked))), there.read(range(len(there)))
    for field in ("openface@cam", "openface@cam_mask"):
        np.testing.assert_array_equal(batch[field][~lacking], expected[field])
    assert not batch["openface@cam_mask"][lacking].any()
