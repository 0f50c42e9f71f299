"""Which clips models are trained with and scored on, and which labels they learn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from empathy_support.planted_study import Nobody
from empathy_support.training import name, quick
from hypothesis import given
from hypothesis import strategies as st
from support.synthetic_features import StudySpec, write_features

from storyframes.store.feature_store import FeatureStore
from storyframes_empathy.scores.predictions import read_predictions
from storyframes_empathy.scores.run_record import ScoreScale, read_run
from storyframes_empathy.training.inputs import rows_of
from storyframes_empathy.training.labels import LabelScale, best_cut
from storyframes_empathy.training.moments import measure
from storyframes_empathy.training.opened import CannotTrainError, open_run
from storyframes_empathy.training.paper_order import PaperOrderOversamplingSampler
from storyframes_empathy.training.runs import train_run
from storyframes_empathy.training.settings import TrainSettings


def test_what_is_learned_of_ratings() -> None:
    ratings = np.array([1.0, 3.0, 3.5, 5.0])
    for scale, learned in (
        ("scaled", [0, 0.5, 0.625, 1]),
        ("unit", [0.2, 0.6, 0.7, 1]),
        ("binary", [0, 0, 1, 1]),
    ):
        assert LabelScale("empathy", 1, 5, 3, scale).learned(ratings).tolist() == pytest.approx(learned)


def test_one_split_for_all_seeds_is_that_of_its_seed(store) -> None:
    def split(seed: int, **more: object) -> dict[str, str]:
        scored = open_run(store, name(seed=seed), quick(**more)).splits.scored
        return {one: part for part, dataset in scored.items() for one in dataset.clips["participant_id"]}

    assert split(1, split_seed=0) == split(0) == split(0, split_seed=0)
    assert split(1) != split(0)


@pytest.mark.slow
def test_the_order_of_the_paper_counts_clips_of_validation_and_test_several_times(store, tmp_path: Path) -> None:
    asked = quick(oversampling="paper", epochs=1)
    outcome = train_run(store, name(), asked, tmp_path, Nobody())
    run = read_run(outcome.folder)
    table = read_predictions(outcome.folder, run).table
    splits = open_run(store, name(), asked).splits
    counts = store.clips()["empathy"].value_counts()
    least = counts.max() // table["rating"].map(counts)
    assert (table["copies"] - least).isin([0, 1]).all()
    rows = [place for split in ("train", "val", "test") for place in _order(splits, split)]
    assert len(rows) == counts.max() * len(counts)
    assert table["copies"].sum() == len(rows) - splits.sampler.total
    assert any("oversampled by the whole study" in caveat for caveat in run.caveats)
    people = [set(dataset.clips["participant_id"]) for dataset in splits.scored.values()]
    assert sum(map(len, people)) == len(set.union(*people)) == 8
    # Training labels and the moments of frames are of training participants, once each; copies weigh in val_mse.
    assert run.train.n == len(splits.scored["train"])
    moments = {split: open_moments(store, asked, dataset) for split, dataset in splits.scored.items()}
    assert run.data["moments"] == moments["train"] != moments["val"]
    val = table[table["split"] == "val"]
    errors = (val["score"] - (val["rating"] - 1) / 4) ** 2
    assert val["copies"].nunique() > 1
    assert outcome.weights["val_mse"] == pytest.approx(np.average(errors, weights=val["copies"]), abs=1e-9)


def open_moments(store: FeatureStore, asked: TrainSettings, dataset) -> dict[str, str]:
    """The digests of the moments of a dataset's frames."""
    parts = {part.name: part for own in open_run(store, name(), asked).parts.values() for part in own}
    rows = {key: (lambda batch, part=part: rows_of(batch, part)) for key, part in parts.items()}
    return {key: moments.digest for key, moments in measure(dataset, rows).items()}


def _order(splits, split: str) -> list[int]:
    return list(PaperOrderOversamplingSampler(splits.training, split, seed=0))


@pytest.mark.slow
def test_a_label_about_no_story_is_learned_with_a_number_for_each_window(store, tmp_path: Path) -> None:
    asked = quick(preset="regression", label="valence", label_range=(-1, 1), epochs=30, step_epochs=15)
    outcome = train_run(store, name("amer", modalities=("v", "a", "t")), asked, tmp_path, Nobody())
    run = read_run(outcome.folder)
    table = read_predictions(outcome.folder, run).table
    assert (run.scheme, run.minimum, run.maximum, run.threshold) == ("valence", -1, 1, 0)
    assert (run.label, run.score_threshold) == (ScoreScale.SCALED, 0.5)
    assert not table.duplicated(["session_id", "clip_id"]).any()
    assert len(table) == 4 * 4  # windows, once each, of the sessions of val and test
    weights = torch.load(outcome.folder / "checkpoint.pt", weights_only=True)["model"]
    assert weights["head.3.weight"].shape == (1, 64)
    fitted = json.loads((outcome.folder / "epochs.jsonl").read_text().splitlines()[-1])
    assert fitted["train_mse"] < 0.02


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"label": "valence"}, r"'valence' is interval.* oversampling = \"none\""),
        ({"label": "mood"}, "'mood' is no scheme of the clip index: .*empathy, valence"),
        ({"preset": "regression", "label": "valence", "label_range": (-0.1, 0.1)}, "beyond label_range"),
        ({"where": "empathy > 5"}, "no clip is left"),
        ({"split_shares": (1, 0, 0)}, "no participant of the split val has clips"),
        ({"split_shares": (0, 1, 0)}, "no participant of the split train"),
        ({"t": [{"input": "absent"}]}, "there is no input 'absent'"),
        ({"v": [{"input": "v", "columns": ["v1", "x"]}]}, "'x'"),
    ],
)
def test_what_cannot_be_trained_is_said_before_anything_begins(store, tmp_path, more: dict, message: str) -> None:
    with pytest.raises(CannotTrainError, match=message):
        train_run(store, name(), quick(**more), tmp_path / "runs", Nobody())
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_clip_without_one_of_the_modalities_is_in_no_row_unless_asked_for(tmp_path: Path) -> None:
    lacking = {"s01": ["glove"], "s02": ["openface"]}
    study = write_features(tmp_path / "features", StudySpec(sessions=6, lacking=lacking))
    store = FeatureStore(study.root)
    few = TrainSettings(keep="last")
    clips = [open_run(store, name(modalities=each), few).splits for each in (("v", "a"), ("t",), ("v", "a", "t"))]
    assert len({tuple(one.scored["train"].clips["clip_id"]) for one in clips}) == 1
    of_phase = int((study.clips["phase"] == "story_share").sum())
    assert {one.dropped for one in clips} == {of_phase // 3}
    partial = open_run(store, name(modalities=("a",)), TrainSettings(keep="last", keep_partial=True)).splits
    assert partial.dropped == 0


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.integers(1, 3)), min_size=1, max_size=12))
def test_no_cut_of_scores_has_a_higher_f1_than_the_best(clips: list[tuple[int, bool, int]]) -> None:
    scores, similar, copies = (np.array(each) for each in zip(*clips, strict=True))

    def f1(cut: float) -> float:
        said = scores > cut
        total = (copies * said).sum() + (copies * similar).sum()
        return 2 * float((copies * (said & similar)).sum()) / total if total else 0.0

    assert f1(best_cut(scores.astype(float), similar, copies)) == max(f1(cut) for cut in np.arange(-0.5, 7))


def test_the_cut_of_scores_can_be_chosen_on_val(store, tmp_path: Path) -> None:
    outcome = train_run(store, name(), quick(epochs=1, score_cut="val"), tmp_path, Nobody())
    run = read_run(outcome.folder)
    table = read_predictions(outcome.folder, run).table
    val = table[table["split"] == "val"]
    expected = best_cut(val["score"].to_numpy(), val["rating"].to_numpy() > 3, np.ones(len(val)))
    assert run.score_threshold == expected != 0.5
