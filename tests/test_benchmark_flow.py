"""The grid of models: which runs there are, and one of them in a worker. On a cluster: tests/test_flows.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.planted_study import QUICK, Planted, planted

from flows.benchmark import BenchmarkRequest, prepare_benchmark
from storyframes.store.layout import StoreError
from tasks.empathy.grid import TrainingUnit, as_left, grid, train_unit
from tasks.empathy.run_folder import RunName, RunStatus
from tasks.empathy.settings import ModelName, TrainSettings


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("benchmark")
    planted(folder / "features", Planted(participants=10, sessions=1, windows=2))
    (folder / "c.toml").write_text(QUICK.format(vision="v"))
    return folder


def test_a_run_in_a_worker_is_the_run_of_the_command(features: Path, tmp_path: Path) -> None:
    """To the bit."""
    name = RunName("story_share", ModelName.AMER, ("t",), 1)
    units = [
        TrainingUnit(str(features / "features"), name, TrainSettings.model_validate(_train(features)), tmp_path / out)
        for out in ("a", "b")
    ]
    first, *_ = [train_unit(unit) for unit in units]
    assert (first.status, first.is_new, first.reason) == (RunStatus.DONE, True, "")
    assert not train_unit(units[0]).is_new
    weights = [unit.run.folder(unit.runs) / "model.safetensors" for unit in units]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert not as_left(units[0], "the worker died").failed
    (units[1].run.folder(units[1].runs) / "state.json").unlink()
    assert as_left(units[1], "the worker died").reason == "the worker died"


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
    with pytest.raises(StoreError, match="no phase 'story_shore'; it has story_share"):
        prepare_benchmark(request)


def _train(features: Path) -> dict[str, object]:
    import tomllib

    return tomllib.loads((features / "c.toml").read_text())["train"]
