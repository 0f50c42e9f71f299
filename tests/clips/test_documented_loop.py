"""What docs/ gives to run: a training loop that is stopped and started again, and the stopwatch, time after time."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.media.recordings import write_recording
from support.synthetic_features import StudySpec, write_features

from tasks.models.libraries import import_torchvision
from tasks.study.load import load_study

ROOT = Path(__file__).parents[2]
LOOP = re.search(r"^```python\n(.*?)^```$", (ROOT / "docs/training.md").read_text(), re.MULTILINE | re.DOTALL)[1]
EPOCHS = ["0", "1", "2"]


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    write_features(folder / "features", StudySpec(sessions=4, frames=30))
    return folder


@pytest.fixture
def run(features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> Callable[[], tuple[list[str], Any]]:
    """Runs the loop as it stands; gives the epochs that it said, and the model's weights."""
    (tmp_path / "storyframes-demo").symlink_to(features)
    monkeypatch.chdir(tmp_path)

    def run() -> tuple[list[str], Any]:
        torch.manual_seed(0)
        names: dict[str, Any] = {}
        exec(compile(LOOP, "docs/training.md", "exec"), names)
        return re.findall(r"epoch (\d)", capsys.readouterr().out), names["model"].state_dict()

    return run


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.slow
def test_what_is_done_is_not_done_again(run, tmp_path: Path) -> None:
    said, weights = run()
    assert said == EPOCHS
    said, again = run()
    assert said == []  # the end is saved, too
    assert same(weights, again)
    assert sorted(path.name for path in tmp_path.glob("checkpoint*")) == ["checkpoint.pt", "checkpoint.pt.before"]


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.999])
def test_a_truncated_checkpoint_costs_what_came_after_the_one_before(run, tmp_path: Path, kept: float) -> None:
    _, weights = run()
    last = tmp_path / "checkpoint.pt"
    content = last.read_bytes()
    last.write_bytes(content[: int(kept * len(content))])
    said, again = run()
    assert said == ["2"]
    assert same(weights, again)  # what was lost is learned again as it was
    assert (tmp_path / "checkpoint.pt.damaged").read_bytes() == content[: int(kept * len(content))]
    last.write_bytes(b"")
    (tmp_path / "checkpoint.pt.before").write_bytes(b"none")
    assert run()[0] == EPOCHS


class Stopped(BaseException):
    """As a signal would: nothing after it is done."""


@pytest.mark.slow
def test_whatever_it_is_stopped_at_it_goes_on_to_the_same_end(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, weights = run()
    replace, fsync = os.replace, os.fsync
    for stop in range(1, 6):  # every step of the first two times that it saves
        for path in tmp_path.glob("checkpoint*"):
            path.unlink()
        calls = 0

        def step(do: Callable[..., Any], *given: Any) -> None:
            nonlocal calls
            calls += 1
            if calls == stop:  # noqa: B023 - called while this turn of the loop runs
                raise Stopped
            do(*given)

        with monkeypatch.context() as patch, pytest.raises(Stopped):
            patch.setattr(os, "replace", lambda *given: step(replace, *given))
            patch.setattr(os, "fsync", lambda *given: step(fsync, *given))
            run()
        there = {path.name for path in tmp_path.glob("checkpoint*")} - {"checkpoint.pt.new"}
        assert bool(there) == (stop > 2)  # from the second time on there is always one
        said, again = run()
        assert said[-1:] == ["2"]
        assert same(weights, again), stop


def example(words: str) -> str:
    """The page's example with these words."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/training.md").read_text(), re.MULTILINE | re.DOTALL)
    (code,) = [block for block in blocks if words in block]
    return str(code)


@pytest.fixture
def demo_here(features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like that of ``make demo``, which is the current one."""
    (tmp_path / "storyframes-demo").symlink_to(features)
    monkeypatch.chdir(tmp_path)
    import_torchvision()  # both trainers import it
    return tmp_path


@pytest.mark.nightly
@pytest.mark.needs("lightning")
def test_lightning_as_documented(demo_here: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile(example("import lightning"), "docs/training.md", "exec"), names)
    trainer, loader = names["trainer"], names["trainer"].train_dataloader
    assert (trainer.current_epoch, trainer.global_step) == (2, 2 * len(loader))
    assert loader.sampler.epoch == 1  # each epoch has an order of its own


@pytest.mark.nightly
@pytest.mark.needs("accelerate")
def test_hugging_face_trainer_as_documented(demo_here: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile(example("TrainingArguments"), "docs/training.md", "exec"), names)
    assert names["trainer"].state.epoch == 2
    assert 0 < names["trainer"].evaluate()["eval_loss"] < 10


@pytest.mark.nightly
def test_torchrun_as_documented(demo_here: Path) -> None:
    (demo_here / "train.py").write_text(example("torch.distributed"))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]
    done = subprocess.run(torchrun, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    ranks = re.findall(r"process (\d) of 2: (\d+) batches", done.stdout)
    assert [rank for rank, _ in sorted(ranks)] == ["0", "1"]
    assert len({batches for _, batches in ranks}) == 1  # otherwise the other process waits for ever


def stopwatch() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs/stopwatch.py"))


@pytest.mark.slow
def test_the_stopwatch_begins_anew_each_time_with_every_video(tmp_path: Path) -> None:
    contents = ["A.AVI", "b.avi", "c.MP4"]
    for number, name in enumerate(contents, start=5):
        write_recording(tmp_path / name, number)
    (tmp_path / "notes.txt").touch()
    run = stopwatch()
    for _ in range(2):
        made, videos = run["prepare"](tmp_path)
        assert [path.name for path in videos] == sorted(contents)
        assert [path.name for path in made.iterdir() if path.is_dir()] == ["study"]
        run["storyframes"]("init", str(made / "study"), "--videos", "*")
        assert sorted(session.video for session in load_study(made / "study").sessions.values()) == sorted(contents)
        (made / "features").mkdir()
    assert {path.name for path in tmp_path.iterdir()} == {*contents, "notes.txt", "made"}


def test_the_stopwatch_leaves_a_folder_alone_that_it_did_not_make(tmp_path: Path) -> None:
    (tmp_path / "a.avi").write_bytes(b"a")
    (tmp_path / "made").mkdir()
    (tmp_path / "made/mine.txt").write_text("mine")
    with pytest.raises(SystemExit, match="earlier run"):
        stopwatch()["prepare"](tmp_path)
    assert (tmp_path / "made/mine.txt").read_text() == "mine"
