"""A label that changes all the time is learned as the mean over each window."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from empathy_support.planted_study import Nobody
from empathy_support.training import name, quick
from support.messages import missing, naming
from support.stores import local
from support.synthetic_features import publish

from storyframes.label_curves import curve_spec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter
from storyframes_empathy.scores.predictions import read_predictions
from storyframes_empathy.scores.run_record import read_run
from storyframes_empathy.training.opened import CannotTrainError, open_run
from storyframes_empathy.training.runs import train_run
from storyframes_empathy.training.settings import TrainSettingsError, load_train_settings

CURVE = "label.valence"
FRAMES, FPS, WINDOW = 60, 15, 15
RUN = name("amer", modalities=("v", "a"))
GAP = slice(0, 9)  # of the second window of the first session: 9 of 15 frames have no value
FEW = slice(0, 5)  # of the third


@pytest.fixture(scope="module")
def curves() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    found = {f"s{number:03d}": generator.uniform(-0.9, 0.9, FRAMES).astype(np.float32) for number in range(8)}
    found["s000"][WINDOW:][GAP] = np.nan
    found["s000"][2 * WINDOW :][FEW] = np.nan
    return found


@pytest.fixture(scope="module")
def store(store: FeatureStore, tmp_path_factory: pytest.TempPathFactory, curves: dict[str, np.ndarray]) -> FeatureStore:
    """Sessions with a trace of valence, at the frames' own times; the last one has none."""
    root = Path(shutil.copytree(store.storage.location, tmp_path_factory.mktemp("curves") / "features"))
    time = np.arange(FRAMES) / FPS
    for session, values in curves.items():
        publish(root, session, "frames", {"time": time})
        if session != "s007":
            with FeatureWriter(local(root), session, curve_spec(CURVE)) as out:
                for array, rows in {"values": values, "time": time, "raters": np.ones(FRAMES, np.int16)}.items():
                    out.write(array, rows)
                out.attributes |= {"minimum": -1.0, "maximum": 1.0}
                out.publish("f", {})
    catalogue.compact(local(root))
    return FeatureStore(root)


def asked(**more: object):
    return quick(**{"preset": "regression", "label": CURVE, "epochs": 1, "split_seed": 1, **more})


@pytest.mark.slow
def test_a_window_is_labelled_with_the_mean_of_the_curve_at_its_frames(store: FeatureStore, curves) -> None:
    splits = open_run(store, RUN, asked()).splits
    found = {}
    for dataset in splits.scored.values():
        for clip, label in zip(dataset.clips.itertuples(), splits.labels(dataset.clips), strict=True):
            found[clip.session_id, clip.start_frame] = label
    expected = {
        (session, start): np.nanmean(values[start : start + WINDOW], dtype=float)
        for session, values in curves.items()
        for start in range(0, FRAMES, WINDOW)
        if session != "s007" and (session, start) != ("s000", WINDOW)
    }
    assert found.keys() == expected.keys()
    assert [found[key] for key in expected] == pytest.approx(list(expected.values()), rel=1e-6)
    assert (splits.scale.low, splits.scale.high, splits.scale.similar_above) == (-1, 1, 0)
    assert splits.dropped == 5 * 3  # each window is there for three stories


def test_points_of_a_grid_stand_for_frames_where_inputs_have_a_rate(store: FeatureStore, curves) -> None:
    slower = {one: [{"input": one, "rate": 5}] for one in "va"}
    splits = open_run(store, RUN, asked(keep_partial=True, **slower)).splits
    dataset = splits.scored["train"]
    clip = dataset.clips.iloc[0]
    rows = curves[clip["session_id"]][clip["start_frame"] : clip["stop_frame"] : 3]
    assert splits.labels(dataset.clips)[0] == pytest.approx(np.nanmean(rows, dtype=float), rel=1e-6)


@pytest.mark.slow
def test_a_trace_is_trained_on_and_scored(store: FeatureStore, tmp_path: Path) -> None:
    outcome = train_run(store, RUN, asked(), tmp_path, Nobody())
    run = read_run(outcome.folder)
    table = read_predictions(outcome.folder, run).table
    assert (run.scheme, run.minimum, run.maximum, run.threshold, run.score_threshold) == (CURVE, -1, 1, 0, 0.5)
    assert not table.duplicated(["session_id", "clip_id"]).any()
    assert table["rating"].between(-1, 1).all()
    assert not missing(outcome.untrained, "the label is about no")


def test_another_trace_is_another_run(store: FeatureStore, tmp_path: Path) -> None:
    root = tmp_path / "features"
    shutil.copytree(store.storage.location, root, copy_function=os.link)
    before = open_run(FeatureStore(root), RUN, asked()).fingerprint
    assert before == open_run(store, RUN, asked()).fingerprint
    with FeatureWriter(local(root), "s001", curve_spec(CURVE)) as out:
        values = {"values": np.zeros(FRAMES, np.float32), "raters": np.ones(FRAMES, np.int16)}
        for array, rows in (values | {"time": np.arange(FRAMES) / FPS}).items():
            out.write(array, rows)
        out.attributes |= {"minimum": -1.0, "maximum": 1.0}
        out.publish("g", {})
    catalogue.compact(local(root))
    assert open_run(FeatureStore(root), RUN, asked()).fingerprint != before


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("label.arousal", "the label 'label.arousal' is no scheme of the clip index"),
        ("arousal", "the label 'arousal' is no scheme"),
    ],
)
def test_a_trace_that_there_is_not_is_said(store: FeatureStore, label: str, message: str) -> None:
    with pytest.raises(CannotTrainError, match=message):
        open_run(store, RUN, asked(label=label))


def test_the_name_of_a_scheme_whose_labels_are_traces_leads_to_them(store: FeatureStore, tmp_path: Path) -> None:
    root = Path(shutil.copytree(store.storage.location, tmp_path / "features"))
    with FeatureWriter(local(root), "s000", curve_spec("label.arousal")) as out:
        for array, dtype in (("values", np.float32), ("time", np.float64), ("raters", np.int16)):
            out.write(array, np.arange(3, dtype=dtype))
        out.publish("f", {})
    catalogue.compact(local(root))
    with pytest.raises(CannotTrainError, match=naming("it is a curve", "label.arousal")):
        open_run(FeatureStore(root), RUN, asked(label="arousal"))


def test_a_trace_is_about_no_story() -> None:
    with pytest.raises(TrainSettingsError, match=naming("'label.valence'", "--preset regression")):
        load_train_settings(None, label=CURVE)
