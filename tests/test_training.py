"""Training: resumed to the bit, skipped when done, refused in words; which clips, which labels, and nothing leaks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load
from support.planted_study import INPUTS, Nobody, Planted, planted, settings
from support.stores import local
from support.synthetic_features import StudySpec, write_features
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.clips.oversampling import (
    PaperOrderOversamplingSampler,
)
from storyframes.clips.split_spec import SplitSpec
from storyframes.store.feature_store import FeatureStore
from tasks.empathy.checkpoint import CheckpointError, load_checkpoint
from tasks.empathy.feed import Loaded
from tasks.empathy.inputs import Preparation, rows_of
from tasks.empathy.labels import LabelScale, best_cut
from tasks.empathy.moments import measure
from tasks.empathy.predict import compared, predict
from tasks.empathy.predictions import read_predictions
from tasks.empathy.run_folder import RunName, RunStatus, held, read_state
from tasks.empathy.run_record import ScoreScale, read_run
from tasks.empathy.runs import CannotTrainError, RunDiffersError, open_run, train_run
from tasks.empathy.settings import ModelName, TrainSettings, TrainSettingsError, load_train_settings
from tasks.index import write_clip_index

RESULTS = ("model.safetensors", "predictions.parquet")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return planted(tmp_path_factory.mktemp("small") / "features", Planted(participants=8, sessions=1, windows=4))


def quick(**more: object) -> TrainSettings:
    """A few steps of a few clips: 5 epochs, whose rate changes after the second and fourth."""
    return settings(**{"epochs": 5, "batch_size": 16, "split_shares": (0.5, 0.25, 0.25), **more})


def name(model: str = "ef_lstm", seed: int = 0, modalities: tuple[str, ...] = ("v", "a")) -> RunName:
    return RunName("story_share", ModelName(model), modalities, seed)


def results(folder: Path) -> list[bytes]:
    return [(folder / each).read_bytes() for each in RESULTS]


@dataclass
class Killed(Nobody):
    """Kills its process after so many steps."""

    after: int

    def step(self) -> None:
        self.after -= 1
        if self.after < 0:
            os.kill(os.getpid(), signal.SIGKILL)


def train_and_be_killed(store: FeatureStore, runs: Path, run: RunName, after: int) -> None:
    """Train in another process that is killed after some steps."""
    child = os.fork()
    if not child:
        try:
            train_run(store, run, quick(), runs, Killed(after))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


# --- to the bit ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["ef_lstm", "tfn"])  # with dropout, with the moments of batches
def test_what_was_killed_between_any_two_steps_ends_with_the_same_bits(store, tmp_path: Path, model: str) -> None:
    run = name(model)
    whole = train_run(store, run, quick(), tmp_path / "whole", Nobody())
    steps = 5 * len(list(open_run(store, run, quick()).splits.sampler)) // 16
    assert steps >= 15
    for after in range(0, steps, 3):
        runs = tmp_path / f"killed{after}"
        train_and_be_killed(store, runs, run, after)
        folder = run.folder(runs)
        assert read_state(folder).status is RunStatus.RUNNING
        assert not (folder / "run.json").exists()
        again = train_run(store, run, quick(), runs, Nobody())
        assert again.is_new
        assert results(again.folder) == results(whole.folder)
        done = [json.loads(line) for line in (folder / "epochs.jsonl").read_text().splitlines()]
        assert [sorted(one) for one in done] == [["epoch", "seconds", "train_mse", "val_mse"]] * 5


def test_two_runs_of_one_seed_are_the_same_to_the_bit_and_another_seed_is_not(store, tmp_path: Path) -> None:
    fixed = quick(split_seed=0, epochs=2)
    one, other = (train_run(store, name(), fixed, tmp_path / each, Nobody()) for each in "ab")
    third = train_run(store, name(seed=1), fixed, tmp_path / "a", Nobody())
    assert results(one.folder) == results(other.folder)
    assert results(one.folder) != results(third.folder)
    assert (one.folder / "state.json").read_bytes() == (other.folder / "state.json").read_bytes()


def test_a_run_killed_many_times_gets_nearer_its_end_each_time(store, tmp_path: Path) -> None:
    steps = len(list(open_run(store, name(), quick()).splits.sampler)) // 16 + 1
    for epochs in range(1, 4):
        train_and_be_killed(store, tmp_path, name(), steps)  # after an epoch that is done, and a step
        assert len((name().folder(tmp_path) / "epochs.jsonl").read_text().splitlines()) == epochs


def test_whether_onednn_is_used_is_settled_once(store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probed = quick(onednn="probe", epochs=1)
    outcome = train_run(store, name(), probed, tmp_path, Nobody())
    state = read_state(outcome.folder)
    saved = load_checkpoint(outcome.folder / "checkpoint.pt", state.fingerprint)
    assert saved["onednn"] is outcome.weights["onednn"]
    for answer in (True, False):  # what the checkpoint says holds, whatever a probe would say now
        folder = name().folder(tmp_path / str(answer))
        folder.mkdir(parents=True)
        state = {**torch.load(outcome.folder / "checkpoint.pt", weights_only=True), "onednn": answer}
        torch.save(state, folder / "checkpoint.pt")
        (folder / "state.json").write_bytes((outcome.folder / "state.json").read_bytes())
        assert train_run(store, name(), probed, tmp_path / str(answer), Nobody()).weights["onednn"] is answer


def test_frames_prepared_once_give_the_same_bits_and_in_half_the_size_nearly_the_same_scores(store, tmp_path) -> None:
    read, banked, halved = (
        train_run(store, name("lf_lstm"), quick(bank=bank), tmp_path / bank, Nobody())
        for bank in ("none", "float32", "bfloat16")
    )
    assert results(read.folder) == results(banked.folder)
    assert read_state(read.folder).fingerprint == read_state(banked.folder).fingerprint
    assert read_state(read.folder).fingerprint != read_state(halved.folder).fingerprint
    scores = [pd.read_parquet(one.folder / "predictions.parquet")["score"] for one in (read, halved)]
    assert np.corrcoef(*scores)[0, 1] > 0.999
    sizes = [
        sum(path.stat().st_size for path in (tmp_path / bank / ".banks").iterdir()) for bank in ("float32", "bfloat16")
    ]
    frames = 8 * 4 * 15
    assert sizes == [frames * (100 * 4 + 2), frames * (100 * 2 + 2)]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "float32/.banks").iterdir()} == {0o600}
    made = next((tmp_path / "float32/.banks").glob("*.values"))
    before = made.stat().st_mtime_ns
    again = train_run(store, name("ef_lstm"), quick(bank="float32", epochs=1), tmp_path / "float32", Nobody())
    assert again.is_new
    assert made.stat().st_mtime_ns == before


# --- one run ---------------------------------------------------------------------------------------------------------


def test_a_run_that_is_done_is_skipped_and_another_is_not_overwritten(store, tmp_path: Path) -> None:
    first = train_run(store, name(), quick(epochs=1), tmp_path, Nobody())
    again = train_run(store, name(), quick(epochs=1, threads=2, tfn={"fused": 8}), tmp_path, Nobody())
    assert (first.is_new, again.is_new) == (True, False)  # threads and other models' sizes decide nothing
    assert first.weights == again.weights
    with pytest.raises(RunDiffersError, match=r"something else decided \(settings.epochs\): --replace"):
        train_run(store, name(), quick(epochs=2), tmp_path, Nobody())
    replaced = train_run(store, name(), quick(epochs=2), tmp_path, Nobody(), replace=True)
    assert replaced.weights["epochs"] == 2


def test_a_label_that_changed_is_another_run(store, tmp_path: Path) -> None:
    before = open_run(store, name(), quick()).fingerprint
    root = tmp_path / "features"
    shutil.copytree(store.storage.location, root, copy_function=os.link)
    assert open_run(FeatureStore(root), name(), quick()).fingerprint == before
    index = store.clips()
    index.loc[0, "empathy"] = 1 + index.loc[0, "empathy"] % 5
    write_clip_index(index, local(root))
    assert open_run(FeatureStore(root), name(), quick()).fingerprint != before


def test_a_loss_that_is_no_number_ends_its_run_only(store, tmp_path: Path) -> None:
    outcome = train_run(store, name(), quick(learning_rate=1e30), tmp_path, Nobody())
    assert outcome.status is RunStatus.FAILED
    state = read_state(outcome.folder)
    assert (state.status, state.epoch, state.batch) == (RunStatus.FAILED, 1, 2)
    assert "the loss was not finite in epoch 1, batch 2" in outcome.reason
    assert not (outcome.folder / "predictions.parquet").exists()


def test_the_files_of_a_run_are_its_owners_and_its_predictions_are_every_clips(store, tmp_path: Path) -> None:
    outcome = train_run(store, name(modalities=("a", "t")), quick(epochs=1), tmp_path / "runs", Nobody())
    paths = list((tmp_path / "runs").rglob("*"))
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o700}
    run = read_run(outcome.folder)
    table = read_predictions(outcome.folder, run).table
    index = SplitSpec(0, (0.5, 0.25, 0.25)).applied(store.clips())
    expected = index[index["split"] != "train"].set_index("clip_id")
    assert sorted(table["clip_id"]) == sorted(expected.index)
    found = table.set_index("clip_id").loc[expected.index]
    for column in ("session_id", "participant_id", "story_id", "phase", "split"):
        assert found[column].tolist() == expected[column].tolist()
    assert found["rating"].tolist() == expected["empathy"].tolist()
    assert found["copies"].eq(1).all()
    training = index[index["split"] == "train"]["empathy"]
    assert (run.train.n, run.train.mean) == (len(training), pytest.approx(training.mean()))


def test_each_window_is_encoded_once_and_scored_with_each_of_its_stories(store, monkeypatch) -> None:
    opened = open_run(store, name(), quick())
    dataset, stories = opened.splits.scored["test"], opened.splits.stories
    encoded = []

    class Counting(torch.nn.Module):
        def forward(self, given):
            encoded.append(len(given.values["v"]))
            return given.values["v"].mean(dim=1)[:, :1].expand(-1, 384) + torch.arange(384)

    parts = {part.name: part for own in opened.parts.values() for part in own}
    moments = measure(dataset, {key: (lambda batch, part=part: rows_of(batch, part)) for key, part in parts.items()})
    prepared = Preparation(opened.parts, moments)
    scores = predict(Counting(), Loaded(prepared), dataset, stories, quick())
    assert sum(encoded) == len(dataset.windows()) == len(dataset) / 3
    assert max(encoded) <= 16
    batch = {key: torch.from_numpy(value) for key, value in dataset.read(range(len(dataset))).items()}
    each = Counting()(prepared(batch))
    vectors = torch.from_numpy(stories.vectors[stories.of(dataset.clips)])
    np.testing.assert_allclose(scores, torch.cosine_similarity(each, vectors).numpy(), rtol=1e-5)


@pytest.mark.parametrize(("keep", "kept"), [("best", 2), ("last", 5)])
def test_the_epoch_that_is_kept_is_the_earlier_of_the_best(store, tmp_path, monkeypatch, keep: str, kept: int) -> None:
    after: list[dict[str, torch.Tensor]] = []

    def validated(model, *_) -> float:
        after.append({key: value.detach().clone() for key, value in model.state_dict().items()})
        return (0.5, 0.3, 0.4, 0.3, 0.9)[len(after) - 1]

    monkeypatch.setattr("tasks.empathy.train._validated", validated)
    asked = quick(keep=keep)
    outcome = train_run(store, name(), asked, tmp_path, Nobody())
    assert outcome.weights["epoch"] == read_run(outcome.folder).data["weights"]["epoch"] == kept
    weights = load((outcome.folder / "model.safetensors").read_bytes())
    assert [all(torch.equal(weights[key], one[key]) for key in weights) for one in after].index(True) == kept - 1
    saved = load_checkpoint(outcome.folder / "checkpoint.pt", read_state(outcome.folder).fingerprint)
    (group,) = saved["optimizer"]["param_groups"]
    assert group["lr"] == pytest.approx(asked.learning_rate * asked.step_factor**2)  # after epochs 2 and 4
    assert group["weight_decay"] == asked.weight_decay


def test_a_cosine_is_one_of_directions_however_short_a_vector_is() -> None:
    short, vectors = torch.tensor([[3e-6, 4e-6], [-2.0, 0], [0, 0]]), torch.tensor([[0.6, 0.8], [1, 0], [1, 0]])
    assert compared(short, vectors, quick()).tolist() == pytest.approx([1, -1, 0], abs=1e-6)
    assert compared(short, vectors, quick(cosine="rescale")).tolist() == pytest.approx([1, 0, 0.5], abs=1e-6)


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


def test_two_processes_do_not_train_one_run(store, tmp_path: Path) -> None:
    with held(name().folder(tmp_path)), pytest.raises(Exception, match="has been locked .* by process"):
        train_run(store, name(), quick(), tmp_path, Nobody())


def test_a_damaged_checkpoint_is_said_to_be_and_no_code_is_run_from_one(store, tmp_path: Path) -> None:
    train_and_be_killed(store, tmp_path, name(), 9)
    path = name().folder(tmp_path) / "checkpoint.pt"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match="is damaged .*: remove it"):
        train_run(store, name(), quick(), tmp_path, Nobody())

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    torch.save({"model": Evil()}, path)
    with pytest.raises(CheckpointError, match="is damaged"):
        train_run(store, name(), quick(), tmp_path, Nobody())
    assert not (tmp_path / "ran").exists()


# --- which clips, which labels ---------------------------------------------------------------------------------------


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


# --- settings --------------------------------------------------------------------------------------------------------


def test_settings_are_a_section_of_the_configuration_and_unknown_keys_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "lab.toml"
    path.write_text("[clips]\nwindow = 60\n[train]\nepochs = 3\n[train.ef_lstm]\nhidden = 64\n")
    loaded = load_train_settings(path, epochs=4, device=None)
    assert (loaded.epochs, loaded.ef_lstm.hidden, loaded.device) == (4, 64, "cpu")
    assert load_train_settings(None) == TrainSettings()
    regression = load_train_settings(None, preset="regression", label="valence")
    assert (regression.target, regression.oversampling) == ("none", "none")
    for text, message in {
        "[train]\nepoch = 3": "train.epoch: there is no such key",
        "[train.tfn]\nwidth = 3": "train.tfn.width: there is no such key",
        "[train]\nepochs = 0": "train.epochs = 0: ",
        '[train]\nlabel_scale = "range"': "train.label_scale = 'range'",
        '[train]\nv = [{ input = "audio" }]': "'audio' is named twice",
        '[train]\npreset = "regression"': "needs a label",
        "[train": "is not TOML",
    }.items():
        path.write_text(text)
        with pytest.raises(TrainSettingsError, match=message.replace("[", r"\[")):
            load_train_settings(path)


# --- the command -----------------------------------------------------------------------------------------------------


def arguments(out: Path, rate: float = 1e-3) -> list[str]:
    toml = out.parent / "train.toml"
    inputs = "\n".join(f'{one} = [{{ input = "{parts[0]["input"]}" }}]' for one, parts in INPUTS.items())
    how = f"batch_size = 16\nlearning_rate = {rate}\nsplit_shares = [0.5, 0.25, 0.25]"
    toml.write_text(f"[train]\n{how}\n{inputs}\n")
    return ["--model", "amer", "--phase", "story_share", "--out", str(out), "--config", str(toml)]


def command(store: FeatureStore, out: Path, *more: str, rate: float = 1e-3):
    return CliRunner().invoke(app, ["train", store.storage.location, *arguments(out, rate), *more])


def test_the_command_trains_says_how_far_it_is_and_does_nothing_twice(store, tmp_path: Path) -> None:
    first = command(store, tmp_path / "runs", "--seeds", "0,1", "--epochs", "2", "--json")
    assert first.exit_code == 0, first.output
    runs = json.loads(first.stdout)["runs"]
    assert [(run["seed"], run["status"], run["trained_now"]) for run in runs] == [(0, "done", True), (1, "done", True)]
    assert "story_share amer v+a+t seed 1: epoch 2 of 2: train_mse" in first.stderr
    assert "0 min 0 s left" in first.stderr
    again = command(store, tmp_path / "runs", "--seeds", "0,1", "--epochs", "2")
    assert again.exit_code == 0
    assert again.stderr.count("done before, nothing to train") == 2
    changed = command(store, tmp_path / "runs", "--seeds", "0", "--epochs", "1")
    assert changed.exit_code == 2
    assert "settings.epochs" in changed.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--modalities", "v+x"], "join some of v, a, t"),
        (["--model", "bert"], "there are amer, tfn, ef_lstm, lf_lstm"),
        (["--phase", "lunch"], "there is no phase 'lunch' in the clip index; there are story_share"),
        (["--seeds", "1,1"], "each once"),
        (["--label", "mood"], "no scheme of the clip index"),
        (["--device", "tpu9"], "there is no device 'tpu9'"),
        (["--epochs", "0"], "train.epochs = 0"),
    ],
)
def test_a_wrong_call_ends_with_2(store, tmp_path: Path, more: list[str], message: str) -> None:
    result = command(store, tmp_path / "runs", *more)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "runs").exists()


def test_a_failed_run_ends_with_1_after_the_others_were_tried(store, tmp_path: Path) -> None:
    result = command(store, tmp_path / "runs", "--seeds", "0,1", "--epochs", "1", "--json", rate=1e30)
    assert result.exit_code == 1
    assert [run["status"] for run in json.loads(result.stdout)["runs"]] == ["failed", "failed"]
    assert "failed story_share amer v+a+t seed 1: the loss was not finite in epoch 1, batch 2" in result.stderr


def test_ctrl_c_ends_it_in_words_after_the_epochs_that_are_done(store, tmp_path: Path) -> None:
    more = ["train", store.storage.location, *arguments(tmp_path / "runs"), "--seeds", "0", "--epochs", "5000"]
    command = [sys.executable, "-m", "flows.cli", *more]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]) as training:
        for line in training.stderr:
            if "epoch 3 of 5000" in line:
                training.send_signal(signal.SIGINT)
        assert training.wait() == 130
    assert line == "interrupted: at most the epoch that it was in is lost, the same command goes on from there\n"
    folder = name("amer", modalities=("v", "a", "t")).folder(tmp_path / "runs")
    assert read_state(folder).status is RunStatus.RUNNING
    done = (folder / "epochs.jsonl").read_text().splitlines()
    saved = torch.load(folder / "checkpoint.pt", weights_only=True)
    assert 3 <= len(saved["epochs"]) < 5000
    assert len(saved["epochs"]) - len(done) in (0, 1)  # a checkpoint is written before its line
