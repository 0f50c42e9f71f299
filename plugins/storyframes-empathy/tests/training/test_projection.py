"""v on its principal components: fitted on training frames alone, each once; another model, and it says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from empathy_support.planted_study import Nobody
from empathy_support.training import name, quick, results
from typer.testing import CliRunner

from storyframes.clips.samplers import SequentialSampler
from storyframes.store.feature_store import FeatureStore
from storyframes_empathy.commands.app import app
from storyframes_empathy.scores.run_record import read_run
from storyframes_empathy.training.opened import CannotTrainError, open_run
from storyframes_empathy.training.predict import predict
from storyframes_empathy.training.runs import train_run

RUN = name("ef_lstm", modalities=("v", "a"))


def of_training(store: FeatureStore) -> list[str]:
    return sorted(set(open_run(store, RUN, quick()).splits.scored["train"].clips["session_id"]))


def test_components_are_those_of_the_training_frames(store: FeatureStore, tmp_path: Path) -> None:
    opened = open_run(store, RUN, quick(pca=7))
    prepared = opened.prepared(tmp_path)
    frames = np.concatenate([store.read(session, "v") for session in of_training(store)]).astype(np.float64)
    z = ((frames - frames.mean(axis=0)) / frames.std(axis=0)).clip(-8, 8)
    values, vectors = np.linalg.eigh(np.cov(z.T, bias=True))
    expected = vectors[:, ::-1][:, :7]
    explained = prepared.digests["pca"]["explained"]
    assert explained == pytest.approx(values[::-1][:7].sum() / values.sum(), rel=1e-6)
    dataset = opened.splits.scored["test"]
    places, given = next(iter(prepared.feed.batches(dataset, SequentialSampler(dataset), 4)))
    clip = dataset.clips.iloc[int(places[0])]
    rows = store.read(clip["session_id"], "v")[clip["start_frame"] : clip["stop_frame"]].astype(np.float64)
    here = ((rows - frames.mean(axis=0)) / frames.std(axis=0)).clip(-8, 8) @ expected
    found = given.values["v"][0].numpy()
    assert found.shape == (15, 7)
    np.testing.assert_allclose(np.abs(found), np.abs(here), atol=2e-4)  # a component has no sign


def test_what_is_tested_with_decides_nothing(store: FeatureStore, tmp_path: Path) -> None:
    """Other frames of validation and test leave the components as they are; other frames of training do not."""
    all_of_it = open_run(store, RUN, quick(pca=3)).prepared(tmp_path / "a").digests["pca"]
    train = of_training(store)
    fewer = quick(pca=3, split_seed=0, where=f"session_id in {train!r} or split_group == -1", keep="last")
    assert set(open_run(store, RUN, fewer).splits.scored) == {"train"}
    assert open_run(store, RUN, fewer).prepared(tmp_path / "b").digests["pca"] == all_of_it
    without = quick(pca=3, split_seed=0, where=f'session_id != "{train[0]}"')
    assert open_run(store, RUN, without).prepared(tmp_path / "c").digests["pca"] != all_of_it


@pytest.mark.slow
def test_a_projected_model_is_another_run_of_another_name(store: FeatureStore, tmp_path: Path) -> None:
    asked = quick(pca=5, epochs=1)
    outcome = train_run(store, RUN, asked, tmp_path / "pca", Nobody())
    run = read_run(outcome.folder)
    assert (run.model, run.variant, run.settings["pca"]) == ("ef_lstm", "pca 5", 5)
    assert 0 < run.data["pca"]["explained"] < 1
    again = train_run(store, RUN, asked, tmp_path / "again", Nobody())
    assert results(again.folder) == results(outcome.folder)
    plain = train_run(store, RUN, quick(epochs=1), tmp_path / "plain", Nobody())
    assert read_run(plain.folder).variant == ""
    assert "pca" not in read_run(plain.folder).settings
    text = name("ef_lstm", modalities=("a", "t"))
    with_it, without = (open_run(store, text, quick(**more)) for more in ({"pca": 5}, {}))
    assert with_it.fingerprint == without.fingerprint  # of v alone
    assert with_it.variant == ""
    table = CliRunner().invoke(app, ["evaluate", str(tmp_path)]).stdout
    assert "EF-LSTM (pca 5) | v+a" in table


@pytest.mark.parametrize("bank", ["float32", "bfloat16"])
def test_a_bank_holds_what_is_projected(store: FeatureStore, tmp_path: Path, bank: str) -> None:
    opened, banked = (open_run(store, RUN, quick(pca=5, bank=each)) for each in ("none", bank))
    assert opened.fingerprint != banked.fingerprint  # a product of other rows at once may have other bits
    torch.manual_seed(0)
    model, dataset, stories = opened.make(), opened.splits.scored["test"], opened.splits.stories
    read, held = (
        predict(model, each.prepared(tmp_path).feed, dataset, stories, each.settings) for each in (opened, banked)
    )
    assert np.corrcoef(read, held)[0, 1] > 0.9999
    (values,) = (tmp_path / ".banks").glob("*.values")
    assert values.stat().st_size == 8 * 4 * 15 * (5 + 65) * (2 if bank == "bfloat16" else 4)


def test_precision_of_a_model_is_not_that_of_the_projection(store: FeatureStore, tmp_path: Path) -> None:
    opened = open_run(store, RUN, quick(pca=5))
    prepared = opened.prepared(tmp_path)
    dataset = opened.splits.scored["test"]
    seen = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            seen.append(next(iter(prepared.feed.batches(dataset, SequentialSampler(dataset), 4)))[1].values["v"])
    assert torch.equal(*seen)


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (36, "pca = 36, and v has 35 columns: give it at most 35"),
        (34, "the 15 training frames of v vary in 14 directions only"),
    ],
)
def test_more_components_than_there_can_be_are_refused(
    store: FeatureStore, tmp_path: Path, count: int, message: str
) -> None:
    window = f'start_frame == 0 and session_id == "{of_training(store)[0]}"'
    few = quick(pca=count, where=window, split_seed=0, keep="last")
    with pytest.raises(CannotTrainError, match=message):
        train_run(store, RUN, few, tmp_path, Nobody())
    assert not list(tmp_path.rglob("state.json"))


def test_components_of_a_modality_that_is_not_used_are_a_wrong_call(store: FeatureStore, tmp_path: Path) -> None:
    call = ["train", store.storage.location, "--phase", "story_share", "--out", str(tmp_path / "runs")]
    result = CliRunner().invoke(app, [*call, "--model", "tfn", "--modalities", "a+t", "--pca", "8"])
    assert (result.exit_code, result.stderr) == (2, "error --pca 8 is of v, and --modalities a+t has none\n")
