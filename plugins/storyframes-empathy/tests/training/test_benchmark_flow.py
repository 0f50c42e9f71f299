"""The grid of models: which runs there are, one of them in a worker, and all of them on a cluster."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from empathy_support.planted_study import QUICK, Planted, planted
from support.messages import missing, naming
from support.stores import local
from support.synthetic_features import STORY_IDS, StudySpec, write_features
from typer.testing import CliRunner

from flows.clusters.admission import plug_in_problems
from flows.clusters.installation import Installation
from flows.server.recent_runs import recent_runs
from storyframes.features import feature_spec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.store.publish import FeatureWriter
from storyframes_empathy.benchmark import BenchmarkRequest, prepare_benchmark
from storyframes_empathy.commands.app import app
from storyframes_empathy.scores.predictions import read_predictions
from storyframes_empathy.scores.run_record import Run, read_run
from storyframes_empathy.training.grid import TrainingUnit, as_left, grid, not_in_runs, train_unit
from storyframes_empathy.training.labels import best_cut
from storyframes_empathy.training.run_folder import RunName, RunStatus
from storyframes_empathy.training.settings import ModelName, TrainSettings, load_train_settings
from storyframes_empathy.training.untrained import leave_untrained

LATER = ("s01", "sbert")


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("benchmark")
    planted(folder / "features", Planted(participants=10, sessions=1, windows=2))
    (folder / "c.toml").write_text(QUICK.format(vision="v"))
    return folder


@pytest.mark.slow
def test_a_run_in_a_worker_is_the_run_of_the_command(features: Path, tmp_path: Path) -> None:
    """To the bit."""
    name = RunName("story_share", ModelName.AMER, ("t",), 1)
    units = [
        TrainingUnit(str(features / "features"), name, TrainSettings.model_validate(_train(features)), tmp_path / out)
        for out in ("a", "b")
    ]
    first, *_ = [train_unit(unit) for unit in units]
    assert (first.status, first.is_new, first.reason) == (RunStatus.DONE, True, "")
    again = train_unit(units[0])
    assert not again.is_new
    assert not_in_runs(units[0].runs, [first, again]) == {}
    doubts = not_in_runs(tmp_path / "of the flow", [first, replace(first, status=RunStatus.FAILED)])
    assert list(doubts) == [first], "the folder of runs is another one in the worker"
    assert not missing(doubts[first], "does not have it as")
    others = not_in_runs(units[0].runs, [replace(first, fingerprint="of other settings")])
    assert len(others) == 1, "what is there is a run that this was to take the place of"
    weights = [unit.run.folder(unit.runs) / "model.safetensors" for unit in units]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert not as_left(units[0], "the worker died").failed
    (units[1].run.folder(units[1].runs) / "state.json").unlink()
    assert as_left(units[1], "the worker died").reason == "the worker died"


@pytest.mark.slow
def test_what_nobody_trained_is_left_beside_runs_with_the_scores_of_numpy(features: Path, tmp_path: Path) -> None:
    noise = {"input": "noise", "columns": [f"noise{number}" for number in range(84)]}
    settings = TrainSettings.model_validate({**_train(features), "t": [{"input": "t"}, noise]})
    name = RunName("story_share", ModelName.AMER, ("v",), 1)
    unit = TrainingUnit(str(features / "features"), name, settings, tmp_path)
    outcome = train_unit(unit)
    assert (outcome.reason, outcome.untrained) == ("", "")
    folder = tmp_path / "story_share/untrained/t/1"
    run = read_run(folder)
    table = read_predictions(folder, run).table
    trained = read_predictions(name.folder(tmp_path), read_run(name.folder(tmp_path))).table
    beside = [column for column in table if column != "score"]
    pd.testing.assert_frame_equal(table[beside], trained[beside])
    store = FeatureStore(features / "features")
    vectors = dict(zip(store.story_ids("sbert"), store.read("stories", "sbert"), strict=True))
    index = store.clips().set_index("clip_id")
    for row in table.itertuples():
        frames = slice(index.loc[row.clip_id, "start_frame"], index.loc[row.clip_id, "stop_frame"])
        said = [store.read(row.session_id, each)[frames].mean(axis=0, dtype=float) for each in ("t", "noise")]
        said, story = np.concatenate(said)[:384], vectors[row.story_id].astype(float)
        assert row.score == pytest.approx(said @ story / np.linalg.norm(said) / np.linalg.norm(story), abs=1e-6)
    assert "| cosine, untrained | t | 1 |" in CliRunner().invoke(app, ["evaluate", str(tmp_path)]).stdout
    before = (folder / "run.json").stat().st_mtime_ns
    assert not train_unit(unit).is_new
    assert (folder / "run.json").stat().st_mtime_ns == before


@pytest.mark.slow
def test_sentences_stand_for_words_in_what_nobody_trained_and_without_them_it_is_said(
    features: Path, tmp_path: Path
) -> None:
    name = RunName("story_share", ModelName.AMER, ("a",), 0)
    study = write_features(tmp_path / "features", StudySpec(sessions=2))
    assert leave_untrained(FeatureStore(study.root), name, TrainSettings(keep="last"), tmp_path) == ""
    run = read_run(tmp_path / "story_share/untrained/t/0")
    assert (run.is_baseline, run.settings["t"][0]["input"]) == (True, "sentence")
    row = read_predictions(tmp_path / "story_share/untrained/t/0", run).table.iloc[0]
    sbert = {each: study.arrays[row.session_id, "sbert", each] for each in ("values", "frame_utterance")}
    clip = study.clips.set_index("clip_id").loc[row.clip_id]
    said = sbert["frame_utterance"][clip["start_frame"] : clip["stop_frame"]]
    mean = sbert["values"][said[said >= 0]].mean(axis=0, dtype=float)
    story = study.arrays["stories", "sbert", "values"][STORY_IDS.index(row.story_id)].astype(float)
    assert row.score == pytest.approx(mean @ story / np.linalg.norm(mean) / np.linalg.norm(story), abs=1e-6)
    planted_words = TrainSettings.model_validate(_train(features))
    reason = leave_untrained(FeatureStore(features / "features"), name, planted_words, tmp_path / "other")
    assert "sbert" in reason
    assert not (tmp_path / "other").exists()
    assert "no story" in leave_untrained(
        FeatureStore(study.root), name, TrainSettings(preset="regression", label="x"), tmp_path / "other"
    )


@pytest.mark.slow
def test_what_nobody_trained_has_the_caveats_of_its_features_and_the_cut_of_val(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=6))
    name = RunName("story_share", ModelName.AMER, ("a",), 0)
    asked = TrainSettings(score_cut="val", oversampling="paper")

    def left() -> Run:
        assert leave_untrained(FeatureStore(study.root), name, asked, tmp_path) == ""
        return read_run(folder)

    folder = tmp_path / "story_share/untrained/t/0"
    before = left()
    arrays = {each: rows for (session, feature, each), rows in study.arrays.items() if (session, feature) == LATER}
    with FeatureWriter(local(study.root), "s01", feature_spec("s01", "sbert")) as out:
        for each, rows in arrays.items():
            out.write(each, rows)
        out.caveat("texts longer than the model reads")
        out.publish("g", {})
    catalogue.compact(local(study.root))
    run = left()
    assert run.caveats == ("sbert: texts longer than the model reads", *before.caveats)
    assert "oversampled by the whole study" in before.caveats[0]
    table = read_predictions(folder, run).table
    val = table[table["split"] == "val"]
    cut = best_cut(val["score"].to_numpy(), val["rating"].to_numpy() > 3, val["copies"].to_numpy())
    assert run.score_threshold == cut != 0.5
    assert run.settings["score_cut"] == "val"


def test_what_breaks_is_an_outcome(features: Path, tmp_path: Path) -> None:
    settings = TrainSettings.model_validate(_train(features))
    name = RunName("story_share", ModelName.AMER, ("t",), 0)
    assert "is not a feature store" in train_unit(TrainingUnit(str(tmp_path), name, settings, tmp_path / "r")).reason
    (tmp_path / "file").write_text("")
    blocked = train_unit(TrainingUnit(str(features / "features"), name, settings, tmp_path / "file"))
    assert (blocked.failed, blocked.transient) == (True, True)


def test_the_grid_is_the_papers(features: Path, tmp_path: Path) -> None:
    request = BenchmarkRequest(features=str(features / "features"), out=tmp_path)
    units = prepare_benchmark(request).units
    assert len(units) == 4 * 5 * 3
    assert {unit.run.phase for unit in units} == {"story_share"}
    assert [unit.run.seed for unit in units] == sorted(unit.run.seed for unit in units)
    assert units[0].needs == {"CPU": 1}
    assert len(grid(("x",), list(ModelName), [("t",), ("v", "a")], (0, 1))) == 16


def test_a_phase_that_there_is_not(features: Path, tmp_path: Path) -> None:
    request = BenchmarkRequest(features=str(features / "features"), out=tmp_path, phases=("story_shore",))
    with pytest.raises(StoreError, match=naming("no phase 'story_shore'", "it has story_share")):
        prepare_benchmark(request)


def _train(features: Path) -> dict[str, object]:
    import tomllib

    return tomllib.loads((features / "c.toml").read_text())["train"]


@pytest.mark.slow
def test_a_grid_of_models_is_trained_and_what_fails_stops_nothing_else(server: str, tmp_path: Path) -> None:
    features, out, config = tmp_path / "features", tmp_path / "runs", tmp_path / "storyframes.toml"
    planted(features, Planted(participants=10, sessions=1, windows=2))
    config.write_text(QUICK.format(vision="nothing"))
    before = RunName("story_share", ModelName.AMER, ("t",), 0)
    assert not train_unit(TrainingUnit(str(features), before, load_train_settings(config), out)).failed
    grid = ["--models", "amer", "--modalities", "t,v,a", "--seeds", "0", "--config", str(config), "--json"]
    done = CliRunner().invoke(app, ["benchmark", str(features), "--out", str(out), *grid])
    assert done.exit_code == 1, done.output
    runs = {run["modalities"]: run for run in json.loads(done.stdout.splitlines()[-1])["runs"]}
    assert {key: (run["status"], run["trained_now"]) for key, run in runs.items()} == {
        "t": ("done", False),
        "v": ("failed", True),
        "a": ("done", True),
    }
    assert "no input 'nothing'" in runs["v"]["reason"]
    assert len(list(out.rglob("model.safetensors"))) == 2
    (newest,) = recent_runs(1)
    assert (newest.flow, newest.state) == ("train-benchmark", "PartialSuccess")
    assert not missing(newest.message, "1 trained", "1 done before", "1 failed")
    scored = CliRunner().invoke(app, ["evaluate", str(out), "--format", "csv"])
    assert (scored.exit_code, len(scored.stdout.splitlines()) > 2) == (0, True), scored.output


def test_a_worker_without_the_same_plug_in_is_refused() -> None:
    here = Installation.of_this_process([], ["storyframes_empathy"])
    question = pickle.dumps(list)
    assert here.differences_here() == plug_in_problems(here, question, None) == []
    (other,) = replace(here, plug_ins={"storyframes_empathy": "0" * 64}).differences_here()
    assert not missing(other, "storyframes_empathy", "is other code than the")
    without = replace(here, plug_ins={"no_such_plug_in": "0" * 64})
    unreadable = b"cno_such_plug_in\nask\n."
    (lacking,) = plug_in_problems(without, unreadable, None)
    assert not missing(lacking, "no_such_plug_in", "install the same as the")


def test_a_list_with_an_empty_name_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["benchmark", "demo", "--out", str(tmp_path / "out"), "--models", "amer,"])
    assert done.exit_code == 2, done.output
    assert "--models 'amer,': a name is missing" in " ".join(done.stderr.split())
