"""Training from the outside: the section of the configuration, and the command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from empathy_support.planted_study import INPUTS, SMALL
from empathy_support.training import name
from support.messages import missing
from typer.testing import CliRunner

from storyframes.store.feature_store import FeatureStore
from storyframes_empathy.commands.app import app
from storyframes_empathy.training.run_folder import RunStatus, read_state
from storyframes_empathy.training.settings import TrainSettings, TrainSettingsError, load_train_settings


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
    sizes = "\n".join(
        f"{key} = {value if isinstance(value, int) else [*value]}" for key, value in SMALL["amer"].items()
    )
    toml.write_text(f"[train]\n{how}\n{inputs}\n[train.amer]\n{sizes}\n")
    return ["--model", "amer", "--phase", "story_share", "--out", str(out), "--config", str(toml)]


def command(store: FeatureStore, out: Path, *more: str, rate: float = 1e-3):
    return CliRunner().invoke(app, ["train", store.storage.location, *arguments(out, rate), *more])


@pytest.mark.slow
def test_the_command_trains_says_how_far_it_is_and_does_nothing_twice(store, tmp_path: Path) -> None:
    first = command(store, tmp_path / "runs", "--seeds", "0,1", "--epochs", "2", "--json")
    assert first.exit_code == 0, first.output
    runs = json.loads(first.stdout)["runs"]
    assert [(run["seed"], run["status"], run["trained_now"]) for run in runs] == [(0, "done", True), (1, "done", True)]
    assert not missing(first.stderr, "story_share", "seed 1", "epoch 2 of 2", "train_mse")
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


@pytest.mark.slow
def test_a_failed_run_ends_with_1_after_the_others_were_tried(store, tmp_path: Path) -> None:
    result = command(store, tmp_path / "runs", "--seeds", "0,1", "--epochs", "1", "--json", rate=1e30)
    assert result.exit_code == 1
    assert [run["status"] for run in json.loads(result.stdout)["runs"]] == ["failed", "failed"]
    assert not missing(result.stderr, "story_share", "seed 1", "epoch 1", "batch 2")


@pytest.mark.slow
def test_ctrl_c_ends_it_in_words_after_the_epochs_that_are_done(store, tmp_path: Path) -> None:
    more = [
        "empathy",
        "train",
        store.storage.location,
        *arguments(tmp_path / "runs"),
        "--seeds",
        "0",
        "--epochs",
        "5000",
    ]
    command = [sys.executable, "-m", "flows.cli", *more]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[4]) as training:
        for line in training.stderr:
            if "epoch 3 of 5000" in line:
                training.send_signal(signal.SIGINT)
        assert training.wait() == 130
    assert not missing(line, "at most the epoch that")
    folder = name("amer", modalities=("v", "a", "t")).folder(tmp_path / "runs")
    assert read_state(folder).status is RunStatus.RUNNING
    done = (folder / "epochs.jsonl").read_text().splitlines()
    saved = torch.load(folder / "checkpoint.pt", weights_only=True)
    assert 3 <= len(saved["epochs"]) < 5000
    assert len(saved["epochs"]) - len(done) in (0, 1)  # a checkpoint is written before its line
