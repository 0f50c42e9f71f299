"""The pages' commands and examples on the extracted demo.

With the tests of the demo (tests/run.py), which see storyframes without plug-ins: only the processes here see this one.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import storyframes

PLUG_IN = Path(__file__).parents[1]
ROOT = PLUG_IN.parents[1]
INSTALLED = {"PYTHONPATH": str(Path(sys.prefix) / "plugins")}


@pytest.fixture(scope="module")
def demo(extracted_demo: tuple[Path, subprocess.CompletedProcess[str]]) -> Path:
    """The folder of the extracted demo."""
    folder, result = extracted_demo
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.slow
def test_a_model_of_ones_own_is_scored_as_documented(demo: Path, tmp_path: Path) -> None:
    page = (PLUG_IN / "docs/benchmark.md").read_text()
    ridge, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    code = ridge.replace("storyframes-demo/features", str(demo / "features"))
    command = [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=os.environ | INSTALLED)
    assert result.returncode == 0, result.stderr
    scored = storyframes("empathy", "evaluate", tmp_path / "runs", "--split", "val", environment=INSTALLED)
    assert scored.returncode == 0, scored.stderr
    assert "| ridge (label rating) | a | 1 |" in scored.stdout
    assert "| mean of train |" in scored.stdout


@pytest.mark.slow
def test_the_benchmark_as_documented(demo: Path) -> None:
    commands = re.findall(
        r"^\$ storyframes empathy (train|evaluate) (.+)$", (ROOT / "docs/empathy.md").read_text(), re.MULTILINE
    )
    assert [name for name, _ in commands] == ["train", "evaluate"]
    folder = demo.parent
    results = [
        storyframes("empathy", name, *shlex.split(more), folder=folder, environment=INSTALLED)
        for name, more in commands
    ]
    assert [result.returncode for result in results] == [0, 0], results[0].stderr + results[1].stderr
    assert results[0].stderr.count("epoch 1 of 1: train_mse") == 3  # of three seeds
    assert "| EF-LSTM | v+a+t | 3 |" in results[1].stdout
    assert "untrained weights" in results[1].stdout
    files = [path for path in (folder / "runs").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    transcripts = [path.read_text() for path in (ROOT / "demo/study/transcripts").iterdir()]
    said = [text.encode() for one in transcripts for text in re.findall(r'"text": "(.{20,})"', one)]
    assert len(said) > 5
    assert [text for path in files for text in said if text in path.read_bytes()] == []
