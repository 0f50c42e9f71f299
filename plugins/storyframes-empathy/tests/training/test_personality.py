"""AMER's personality input: opt-in, of the study's surveys, z-scored by training, refused where it does not fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from empathy_support.planted_study import INPUTS, Nobody
from empathy_support.training import name, quick, results, train_and_be_killed
from support.messages import naming, unlike
from typer.testing import CliRunner

from storyframes.clips.samplers import SequentialSampler
from storyframes.store.feature_store import FeatureStore
from storyframes_empathy.benchmark import BenchmarkRequest, prepare_benchmark
from storyframes_empathy.commands.app import app
from storyframes_empathy.scores.run_record import read_run
from storyframes_empathy.training.models.build import build
from storyframes_empathy.training.models.parts import Sequences
from storyframes_empathy.training.opened import CannotTrainError, open_run
from storyframes_empathy.training.personality import read_personality
from storyframes_empathy.training.runs import train_run
from storyframes_empathy.training.settings import ModelName, PersonalitySettings, TrainSettings, TrainSettingsError

RUN = name("amer", modalities=("v", "t"))
SCALES = ("absorption", "openness", "empathy")
PEOPLE = [f"p{number:03d}" for number in range(8)]
ODD = 41.62831  # a score that can be looked for


def write_surveys(folder: Path, scores: Mapping[tuple[str, str], float], timepoint: str = "pre") -> Path:
    """A study of these participants, with a score for each of them and each scale."""
    folder.mkdir(parents=True)
    sessions = "".join(f"videos/{who}.mp4,s-{who},{who}\n" for who in PEOPLE)
    (folder / "sessions.csv").write_text(f"video,session_id,participant_id\n{sessions}")
    rows = "".join(f"{who},{timepoint},{scale},{score}\n" for (who, scale), score in scores.items())
    (folder / "surveys.csv").write_text(f"participant_id,timepoint,scale,score\n{rows}" if rows else "")
    if not rows:
        (folder / "surveys.csv").unlink()
    return folder


def some_scores() -> dict[tuple[str, str], float]:
    generator = np.random.default_rng(0)
    return {(who, scale): round(float(generator.normal(3, 2)), 4) for who in PEOPLE for scale in SCALES} | {
        (PEOPLE[0], SCALES[0]): ODD
    }


def with_surveys(study: Path, **more: object) -> TrainSettings:
    asked = {"study": str(study), "scales": SCALES, **more.pop("personality", {})}
    return quick(**{"epochs": 1, "personality": asked, **more})


# --- the model -------------------------------------------------------------------------------------------------------


def test_amer_with_seven_traits_has_as_many_parameters_as_its_authors_have() -> None:
    widths = {"v": 2757, "a": 65, "t": 300}
    with torch.device("meta"):
        plain, other = (build(ModelName.AMER, widths, 384, TrainSettings(), traits=traits) for traits in (0, 7))
    assert "personality.0.weight" not in plain.state_dict()
    encoder = 7 * 512 + 512 + 512 * 256 + 256
    fusion = (4 * 256) * 512  # beside each of three modalities, and once more
    assert count(other) - count(plain) == encoder + fusion
    assert other.head[0].in_features == 14 * 128


def count(model: torch.nn.Module) -> int:
    return sum(each.numel() for each in model.parameters())


def test_amer_with_personality_by_hand() -> None:
    sizes = {"encoder_v": (1,), "encoder_p": (1,), "fused": 1, "hidden": 1}
    model = build(ModelName.AMER, {"v": 1}, 1, TrainSettings.model_validate({"amer": sizes}), traits=1)
    with torch.no_grad():
        for each in model.parameters():
            each.fill_(0)
        model.encoders["v"][0].weight.fill_(0.5)
        model.personality[0].weight.fill_(2.0)
        model.head[0].weight.copy_(torch.tensor([[1.0, 10.0, 100.0]]))
        for layer in (model.head[1], model.head[3]):
            layer.weight.fill_(1.0)
    values, mask = torch.tensor([[[1.0], [0.0], [2.0]]]), torch.tensor([[True, True, False]])
    found = float(model(Sequences({"v": values}, {"v": mask}, traits=torch.tensor([[0.3]]))).detach())
    p = 2 * 0.3
    moments = 2 * np.array([[0.5, p], [0.0, p], [1.0, p]])  # each twice: attention among one person, and the residual
    logits = (moments[:2] @ moments[1]) / np.sqrt(2)
    shares = np.exp(logits) / np.exp(logits).sum()
    seen = shares @ moments[:2] + moments[1]
    assert found == pytest.approx(seen @ [1, 10] + 100 * p, rel=1e-5)  # in the fusion it is as it was encoded


# --- the surveys -----------------------------------------------------------------------------------------------------


def test_traits_are_z_scores_of_training_participants_and_reach_their_own_clips(
    store: FeatureStore, tmp_path: Path
) -> None:
    scores = some_scores()
    opened = open_run(store, RUN, with_surveys(write_surveys(tmp_path / "study", scores)))
    training = sorted(set(opened.splits.scored["train"].clips["participant_id"]))
    assert len(training) == 4
    table = np.array([[scores[who, scale] for scale in SCALES] for who in training])
    feed = opened.prepared(tmp_path / "runs").feed
    dataset = opened.splits.scored["test"]
    for places, given in feed.batches(dataset, SequentialSampler(dataset), 5):
        for place, traits in zip(places.tolist(), given.traits.numpy(), strict=True):
            own = [scores[dataset.clips["participant_id"].iloc[place], scale] for scale in SCALES]
            expected = ((np.array(own) - table.mean(axis=0)) / table.std(axis=0)).clip(-8, 8)
            np.testing.assert_allclose(traits, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_run_with_personality_is_another_run_of_another_name_and_holds_no_score(
    store: FeatureStore, tmp_path: Path
) -> None:
    asked = with_surveys(write_surveys(tmp_path / "study", some_scores()))
    outcome = train_run(store, RUN, asked, tmp_path / "runs/p", Nobody())
    run = read_run(outcome.folder)
    assert run.variant == "personality"
    assert run.settings["personality"] == {"scales": list(SCALES), "timepoint": "pre", "missing": "refuse"}
    assert not run.caveats
    moved = with_surveys(write_surveys(tmp_path / "elsewhere", some_scores()), personality={"missing": "mean"})
    again = train_run(store, RUN, moved, tmp_path / "runs/q", Nobody())
    assert results(again.folder)[0] == results(outcome.folder)[0]
    other = some_scores() | {(PEOPLE[3], "openness"): 9.0}
    changed = with_surveys(write_surveys(tmp_path / "other", other))
    assert open_run(store, RUN, changed).fingerprint != run.fingerprint
    plain = open_run(store, RUN, quick(epochs=1))
    assert plain.variant == ""
    assert not {"personality", "encoder_p"} & {
        *plain.decided,
        *plain.decided["settings"],
        *plain.decided["settings"]["amer"],
    }
    assert "AMER (personality) | v+t" in CliRunner().invoke(app, ["evaluate", str(tmp_path / "runs/p")]).stdout
    for path in (tmp_path / "runs").rglob("*"):
        assert not path.is_file() or str(ODD).encode() not in path.read_bytes()


@pytest.mark.slow
def test_what_was_killed_ends_with_the_same_bits_also_with_personality_and_components(
    store: FeatureStore, tmp_path: Path
) -> None:
    asked = with_surveys(write_surveys(tmp_path / "study", some_scores()), epochs=3, pca=6)
    whole = train_run(store, RUN, asked, tmp_path / "whole", Nobody())
    assert read_run(whole.folder).variant == "pca 6, personality"
    for after in (0, 5):
        runs = tmp_path / f"killed{after}"
        train_and_be_killed(store, runs, RUN, after, asked)
        assert results(train_run(store, RUN, asked, runs, Nobody()).folder) == results(whole.folder)


def test_a_missing_score_is_refused_or_the_mean_and_said(store: FeatureStore, tmp_path: Path) -> None:
    scores = some_scores()
    training = sorted(set(open_run(store, RUN, quick()).splits.scored["train"].clips["participant_id"]))
    lacking = {
        key: score for key, score in scores.items() if key not in ((training[0], "openness"), (PEOPLE[7], "empathy"))
    }
    study = write_surveys(tmp_path / "study", lacking)
    with pytest.raises(CannotTrainError, match=naming("2 of 8 participants", "pre of openness, empathy")):
        train_run(store, RUN, with_surveys(study), tmp_path / "runs", Nobody())
    assert not (tmp_path / "runs").exists()
    asked = with_surveys(study, personality={"missing": "mean"})
    run = read_run(train_run(store, RUN, asked, tmp_path / "runs", Nobody()).folder)
    assert not unlike(
        [one.partition(":")[2] for one in run.caveats],
        ("1 of 8 participants", "openness"),
        ("1 of 8 participants", "empathy"),
    )
    z = open_run(store, RUN, asked).personality.z
    assert z[training[0]][1] == 0 != z[training[1]][1]
    known = np.array([scores[who, "openness"] for who in training[1:]])
    assert z[training[1]][1] == pytest.approx((known[0] - known.mean()) / known.std(), rel=1e-5)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"personality": {"scales": ["big5_openness"]}}, "no scale 'big5_openness' at 'pre'; they have absorption"),
        ({"personality": {"timepoint": "post"}}, "no timepoint 'post'; they have pre"),
        ({"personality": {"study": "nowhere"}}, "nowhere"),
    ],
)
def test_surveys_that_there_are_not_are_said(store: FeatureStore, tmp_path: Path, more: dict, message: str) -> None:
    study = write_surveys(tmp_path / "study", some_scores())
    with pytest.raises(CannotTrainError, match=message):
        train_run(store, RUN, with_surveys(study, **more), tmp_path / "runs", Nobody())
    assert not (tmp_path / "runs").exists()


def test_a_study_without_surveys_is_refused(store: FeatureStore, tmp_path: Path) -> None:
    with pytest.raises(CannotTrainError, match=naming("so nobody's personality is known")):
        open_run(store, RUN, with_surveys(write_surveys(tmp_path / "study", {})))


@pytest.mark.parametrize("model", ["tfn", "ef_lstm", "lf_lstm"])
def test_a_model_that_takes_no_personality_is_refused(store: FeatureStore, tmp_path: Path, model: str) -> None:
    study = write_surveys(tmp_path / "study", some_scores())
    with pytest.raises(CannotTrainError, match=naming(f"{model} takes no personality", "only amer does")):
        open_run(store, name(model), with_surveys(study))


def test_the_seven_traits_of_the_demo_are_the_default(demo_study: Path) -> None:
    found = read_personality(PersonalitySettings(study=str(demo_study)), ["p01", "p02"], ["p01", "p02"])
    assert len(found.scales) == 7
    assert {who: np.abs(z).max() <= 1.0001 for who, z in found.z.items()} == {"p01": True, "p02": True}


# --- the commands ----------------------------------------------------------------------------------------------------


def test_the_command_takes_the_study_and_the_configuration_the_scales(store: FeatureStore, tmp_path: Path) -> None:
    study = write_surveys(tmp_path / "study", some_scores())
    toml = tmp_path / "c.toml"
    inputs = "\n".join(f'{one} = [{{ input = "{parts[0]["input"]}" }}]' for one, parts in INPUTS.items())
    scales = f"[train.personality]\nscales = {json.dumps(SCALES)}\n"
    toml.write_text(f"[train]\nepochs = 1\nsplit_shares = [0.5, 0.25, 0.25]\n{inputs}\n{scales}")
    call = ["train", store.storage.location, "--phase", "story_share", "--config", str(toml), "--seeds", "0"]
    call += ["--modalities", "t", "--personality", str(study)]
    done = CliRunner().invoke(app, [*call, "--model", "amer", "--out", str(tmp_path / "runs"), "--json"])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "runs/story_share/amer/t/0"
    assert read_run(folder).settings["personality"]["scales"] == list(SCALES)
    wrong = CliRunner().invoke(app, [*call, "--model", "tfn", "--out", str(tmp_path / "none")])
    assert (wrong.exit_code, "tfn takes no personality" in wrong.stderr) == (2, True)


def test_a_benchmark_with_personality_is_of_amer_alone_and_its_study_is_found_from_anywhere(
    store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_surveys(tmp_path / "study", some_scores())
    (tmp_path / "c.toml").write_text('[train.personality]\nstudy = "study"\n')
    monkeypatch.chdir(tmp_path)
    asked = BenchmarkRequest(features=store.storage.location, out=tmp_path / "runs", config=tmp_path / "c.toml")
    with pytest.raises(TrainSettingsError, match="tfn takes no personality"):
        prepare_benchmark(asked)
    units = prepare_benchmark(asked.model_copy(update={"models": (ModelName.AMER,)})).units
    assert {unit.settings.personality.study for unit in units} == {str(tmp_path / "study")}
