"""A study in which ratings follow from features and stories: models learn that, and nothing where there is nothing.

18 of 60 participants are tested with, 162 pairs of session and story: by chance a correlation has an s.d. of .08.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from empathy_support.planted_study import Nobody, Planted, planted, settings, with_ratings_exchanged
from safetensors.torch import load_file

from storyframes.store.feature_store import FeatureStore
from storyframes_empathy.training.opened import open_run
from storyframes_empathy.training.predict import predict
from storyframes_empathy.training.run_folder import RunName
from storyframes_empathy.training.runs import train_run
from storyframes_empathy.training.settings import ModelName, modalities_of
from storyframes_empathy.training.splits import Stories

MODELS = [model.value for model in ModelName]
LONGER = {"tfn": {"epochs": 8, "step_epochs": 4}}  # it is slower to learn


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return planted(tmp_path_factory.mktemp("planted") / "features", Planted(windows=3))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


def predictions(
    store: FeatureStore, runs: Path, model: str, seed: int, modalities: str = "v+a+t", **more
) -> pd.DataFrame:
    """The predictions of the clips of the test split."""
    name = RunName("story_share", ModelName(model), modalities_of(modalities), seed)
    outcome = train_run(store, name, settings(**more), runs, Nobody())
    assert outcome.reason == ""
    table = pd.read_parquet(outcome.folder / "predictions.parquet")
    return table[table["split"] == "test"]


def r(table: pd.DataFrame) -> float:
    return float(np.corrcoef(table["score"], table["rating"])[0, 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "seed"),
    [(model, 0) for model in MODELS] + [pytest.param("amer", seed, marks=pytest.mark.nightly) for seed in (1, 2)],
)
def test_each_model_learns_what_is_planted(store: FeatureStore, runs: Path, model: str, seed: int) -> None:
    clips = predictions(store, runs, model, seed, **LONGER.get(model, {}))
    assert clips["participant_id"].nunique() == 18
    assert len(clips) == 18 * 3 * 3 * 3
    assert r(clips) > 0.8
    stories = clips.groupby(["session_id", "story_id"])[["score", "rating"]].mean()
    assert len(stories) == 162
    assert r(stories) >= r(clips) - 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", ["amer", pytest.param("ef_lstm", marks=pytest.mark.nightly)]
)  # what could tell a rating are the clips, which all models share
def test_with_ratings_exchanged_there_is_nothing_to_learn(store: FeatureStore, tmp_path: Path, model: str) -> None:
    exchanged = with_ratings_exchanged(store, tmp_path / "features")
    assert abs(r(predictions(exchanged, tmp_path / "runs", model, 0))) < 0.3


@pytest.mark.slow
def test_a_modality_without_the_signal_tells_nothing_and_another_beside_it_does(
    store: FeatureStore, tmp_path: Path
) -> None:
    only_in_a = {"t": [{"input": "noise"}]}
    assert abs(r(predictions(store, tmp_path, "amer", 0, "t", **only_in_a))) < 0.3
    assert r(predictions(store, tmp_path, "amer", 0, "a+t", **only_in_a)) > 0.5


@pytest.mark.slow
def test_with_stories_exchanged_the_scores_of_a_trained_model_tell_nothing(store: FeatureStore, runs: Path) -> None:
    clips = predictions(store, runs, "amer", 0)  # trained above already
    name = RunName("story_share", ModelName.AMER, ("v", "a", "t"), 0)
    opened = open_run(store, name, settings())
    model, dataset, stories = opened.make(), opened.splits.scored["test"], opened.splits.stories
    model.load_state_dict(load_file(name.folder(runs) / "model.safetensors"))
    prepared = opened.prepared(runs).feed
    scores = predict(model, prepared, dataset, stories, settings())
    assert np.array_equal(scores, clips.set_index("clip_id")["score"][dataset.clips["clip_id"]])
    for shuffle in range(3):
        exchanged = Stories(np.random.default_rng(shuffle).permutation(stories.vectors), stories.rows)
        wrong = predict(model, prepared, dataset, exchanged, settings())
        assert abs(np.corrcoef(wrong, dataset.clips["empathy"])[0, 1]) < 0.3
