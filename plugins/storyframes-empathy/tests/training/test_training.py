"""A run: resumed to the bit, skipped when done, its files whole; which weights are kept and what is scored."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from empathy_support.planted_study import Nobody
from empathy_support.training import name, quick, results, train_and_be_killed
from pydantic import ValidationError
from safetensors.torch import load
from support.messages import missing, naming
from support.stores import local

from storyframes.clips.clip_index import SplitSpec
from storyframes.store.feature_store import FeatureStore
from storyframes_empathy.scores.predictions import read_predictions
from storyframes_empathy.scores.run_record import read_run
from storyframes_empathy.training import train
from storyframes_empathy.training.feed import Loaded
from storyframes_empathy.training.inputs import Preparation, rows_of
from storyframes_empathy.training.moments import measure
from storyframes_empathy.training.opened import CannotTrainError, open_run
from storyframes_empathy.training.predict import compared, predict
from storyframes_empathy.training.run_folder import RunStatus, held, read_state
from storyframes_empathy.training.runs import RunDiffersError, train_run
from storyframes_empathy.training.settings import TrainSettings
from storyframes_empathy.training.train import CheckpointError, load_checkpoint
from tasks.clip_index.index import write_clip_index

HAS_BFLOAT16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()  # in oneDNN, on this processor

# --- to the bit ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("model", ["ef_lstm", "tfn"])  # with dropout, with the moments of batches
def test_what_was_killed_between_any_two_steps_ends_with_the_same_bits(store, tmp_path: Path, model: str) -> None:
    run = name(model)
    whole = train_run(store, run, quick(), tmp_path / "whole", Nobody())
    steps = 5 * len(list(open_run(store, run, quick()).splits.sampler)) // 16
    assert steps == 25
    for after in (0, 3, 6, 14, 22):  # the 1st, 4th, 2nd, 5th and 3rd step of an epoch of five, in four of the epochs
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


@pytest.mark.slow
def test_two_runs_of_one_seed_are_the_same_to_the_bit_and_another_seed_is_not(store, tmp_path: Path) -> None:
    fixed = quick(split_seed=0, epochs=2)
    one, other = (train_run(store, name(), fixed, tmp_path / each, Nobody()) for each in "ab")
    third = train_run(store, name(seed=1), fixed, tmp_path / "a", Nobody())
    assert results(one.folder) == results(other.folder)
    assert results(one.folder) != results(third.folder)
    assert (one.folder / "state.json").read_bytes() == (other.folder / "state.json").read_bytes()


@pytest.mark.slow
def test_a_run_killed_many_times_gets_nearer_its_end_each_time(store, tmp_path: Path) -> None:
    steps = len(list(open_run(store, name(), quick()).splits.sampler)) // 16 + 1
    for epochs in range(1, 4):
        train_and_be_killed(store, tmp_path, name(), steps)  # after an epoch that is done, and a step
        assert len((name().folder(tmp_path) / "epochs.jsonl").read_text().splitlines()) == epochs


@pytest.mark.isa
@pytest.mark.parametrize(("precision", "by_rule"), [("float32", "off"), ("bfloat16", "on")])
def test_the_precision_alone_decides_on_onednn_and_the_choice_decides_the_run(
    store, tmp_path: Path, precision: str, by_rule: str
) -> None:
    unsaid = TrainSettings.model_validate({**quick(precision=precision).model_dump(), "onednn": "auto"})
    said = {choice: quick(precision=precision, onednn=choice) for choice in ("on", "off")}
    opened = {choice: open_run(store, name(), of) for choice, of in {**said, "auto": unsaid}.items()}
    assert TrainSettings().onednn == "auto"
    assert opened["auto"].decided["settings"]["onednn"] == by_rule
    assert opened["auto"].fingerprint == opened[by_rule].fingerprint
    assert opened["on"].fingerprint != opened["off"].fingerprint
    if precision == "bfloat16" and not HAS_BFLOAT16:
        with pytest.raises(CannotTrainError, match=r'"bfloat16".*set precision = "float32"') as refused:
            train_run(store, name(), unsaid, tmp_path, Nobody())
        information = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line.split(": ")[1] for line in information if line.startswith("model name"))
        assert processor.strip() in str(refused.value)
        assert read_state(name().folder(tmp_path)) is None
        return
    used = set()

    def look(module: torch.nn.Module, given: object) -> None:
        if isinstance(module, torch.nn.LSTM):
            used.add(torch.backends.mkldnn.enabled)

    hook = torch.nn.modules.module.register_module_forward_pre_hook(look)
    try:
        outcome = train_run(store, name(), unsaid.model_copy(update={"epochs": 1}), tmp_path, Nobody())
    finally:
        hook.remove()
    assert used == {by_rule == "on"}
    assert read_run(outcome.folder).data["onednn"] is (by_rule == "on")


def test_settings_of_the_stopwatch_are_refused_with_what_to_write() -> None:
    with pytest.raises(ValidationError, match=naming('"auto"', "bfloat16")):
        TrainSettings(onednn="probe")


LEARN = """
import hashlib, torch
from storyframes_empathy.training.models.parts import Lstm, mlp, use_onednn

torch.set_num_threads(2)
digest = hashlib.sha256()
for kind in 2 * (torch.float32, torch.bfloat16):
    torch.manual_seed(0)
    lstm, head = Lstm(256, 32), mlp(32, [32, 1])
    use_onednn(lstm, kind is torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())
    weights = [*lstm.parameters(), *head.parameters()]
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16, enabled=kind is torch.bfloat16):
            scores = head(lstm(torch.randn(33, 4, 256)))
        gradients = torch.autograd.grad(scores.float().square().mean(), weights)
        with torch.no_grad():  # AdamW would do, and import for a second
            for weight, gradient in zip(weights, gradients, strict=True):
                weight -= 0.1 * gradient
    for weight in weights:
        digest.update(weight.detach().numpy().tobytes())
    if kind is torch.bfloat16:
        print(digest.hexdigest())
        digest = hashlib.sha256()
"""


@pytest.mark.isa
@pytest.mark.slow
@pytest.mark.nightly
def test_as_many_threads_give_the_same_bits_twice_in_three_processes_that_crowd_the_machine() -> None:
    root = Path(__file__).parents[4]
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}  # else threads that wait for a processor use it up
    processes = [
        subprocess.Popen([sys.executable, "-c", LEARN], stdout=subprocess.PIPE, text=True, cwd=root, env=environment)
        for _ in range(3)
    ]
    digests = [digest for process in processes for digest in process.communicate()[0].split()]
    assert [process.returncode for process in processes] == [0] * 3
    assert len(digests[0]) == 64
    assert digests == digests[:1] * 6


@pytest.mark.slow
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


def test_a_model_scores_alike_out_of_a_bank_in_half_the_size(store: FeatureStore, tmp_path: Path) -> None:
    opened, halved = (open_run(store, name("lf_lstm"), quick(bank=bank)) for bank in ("none", "bfloat16"))
    torch.manual_seed(0)
    model, dataset, stories = opened.make(), opened.splits.scored["test"], opened.splits.stories
    read, held = (
        predict(model, each.prepared(tmp_path).feed, dataset, stories, each.settings) for each in (opened, halved)
    )
    assert not np.array_equal(read, held)
    assert np.corrcoef(read, held)[0, 1] > 0.9999


# --- one run ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
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
    assert not missing(outcome.reason, "epoch 1", "batch 2")
    assert not (outcome.folder / "predictions.parquet").exists()


@pytest.mark.end_to_end
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

    monkeypatch.setattr("storyframes_empathy.training.train._validated", validated)
    asked = quick(keep=keep)
    outcome = train_run(store, name(), asked, tmp_path, Nobody())
    assert outcome.weights["epoch"] == read_run(outcome.folder).data["weights"]["epoch"] == kept
    weights = load((outcome.folder / "model.safetensors").read_bytes())
    assert [all(torch.equal(weights[key], one[key]) for key in weights) for one in after].index(True) == kept - 1
    saved = load_checkpoint(outcome.folder / "checkpoint.pt", read_state(outcome.folder).fingerprint)
    (group,) = saved["optimizer"]["param_groups"]
    assert group["lr"] == pytest.approx(asked.learning_rate * asked.step_factor**2)  # after epochs 2 and 4
    assert group["weight_decay"] == asked.weight_decay


@pytest.mark.parametrize(("batch_size", "learned"), [(39, [39, 39, 2]), (79, [79])])
def test_an_epochs_loss_is_that_of_each_clip_and_a_single_clip_is_no_batch(
    store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_size: int, learned: list[int]
) -> None:
    steps = []

    def noted(*given) -> float:
        steps.append((len(given[4]), step(*given)))
        return steps[-1][1]

    step = train._step
    monkeypatch.setattr(train, "_step", noted)
    outcome = train_run(store, name(), quick(epochs=1, batch_size=batch_size), tmp_path, Nobody())
    (epoch,) = [json.loads(line) for line in (outcome.folder / "epochs.jsonl").read_text().splitlines()]
    sizes, losses = zip(*steps, strict=True)
    assert list(sizes) == learned
    assert epoch["train_mse"] == pytest.approx(np.average(losses, weights=sizes))


def test_a_cosine_is_one_of_directions_however_short_a_vector_is() -> None:
    short, vectors = torch.tensor([[3e-6, 4e-6], [-2.0, 0], [0, 0]]), torch.tensor([[0.6, 0.8], [1, 0], [1, 0]])
    assert compared(short, vectors, quick()).tolist() == pytest.approx([1, -1, 0], abs=1e-6)
    assert compared(short, vectors, quick(cosine="rescale")).tolist() == pytest.approx([1, 0, 0.5], abs=1e-6)


def test_two_processes_do_not_train_one_run(store, tmp_path: Path) -> None:
    with held(name().folder(tmp_path)), pytest.raises(Exception, match=naming("has been locked", "by process")):
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
