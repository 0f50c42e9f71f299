"""What the plug-in's pages say: links, files, commands and settings exist, and the examples run as they are written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from support.commands import storyframes
from typer.main import get_command

PLUG_IN = Path(__file__).parents[1]
ROOT = PLUG_IN.parents[1]
PAGES = [PLUG_IN / "README.md", *sorted((PLUG_IN / "docs").glob("*.md")), ROOT / "docs/empathy.md"]
# Beside the environment: the tests that share the demo are not all started with it (tests/run.py).
INSTALLED = {"PYTHONPATH": str(Path(sys.prefix) / "plugins")}


def examples(page: str) -> list[str]:
    """The Python examples of a page."""
    return re.findall(r"```python\n(.*?)```", (PLUG_IN / page).read_text(), re.DOTALL)


def test_it_requires_the_storyframes_that_it_is_released_with() -> None:
    project = tomllib.loads((PLUG_IN / "pyproject.toml").read_text())["project"]
    assert f"storyframes=={version('storyframes')}" in project["dependencies"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files_exist(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target
    for name in re.findall(r"`((?:storyframes_empathy|tests|docs)/[\w./-]+)", text):
        assert (PLUG_IN / name).exists(), name


def test_every_command_and_option_exists() -> None:
    from storyframes_empathy.commands.app import app

    unknown, seen = [], 0
    for page in PAGES:
        fenced = "\n".join(re.findall(r"```\w*\n(.*?)```", page.read_text().replace("\\\n", " "), re.DOTALL))
        for line in re.findall(r"^(?:[$#] )?storyframes empathy (.+)$", fenced, re.MULTILINE):
            command, words = get_command(app), shlex.split(line, comments=True)
            while words and words[0] in getattr(command, "commands", {}):
                command = command.commands[words.pop(0)]
            options = {name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts]}
            asked = {word.partition("=")[0] for word in words if word.startswith("--")}
            seen += 1
            if asked - options - {"--help"}:
                unknown.append(f"{page.name}: {line}")
    assert unknown == []
    assert seen > 20


def test_every_command_is_documented() -> None:
    from storyframes_empathy.commands.app import app

    text = "".join(page.read_text() for page in PAGES)
    for command in get_command(app).commands:
        assert f"storyframes empathy {command}" in text, command


def test_every_setting_is_documented_with_its_default() -> None:
    from storyframes_empathy.training.settings import TrainSettings

    (example,) = re.findall(r"```toml\n(.*?)```", (PLUG_IN / "docs/settings.md").read_text(), re.DOTALL)
    assert TrainSettings.model_validate(tomllib.loads(example)["train"]) == TrainSettings()
    for key in TrainSettings.model_fields:
        assert re.search(rf"\b{key}\b", example), key


@pytest.mark.parametrize("page", ["docs/benchmark.md"])
def test_examples_that_need_nothing(page: str) -> None:
    (code,) = [code for code in examples(page) if "implied_prevalence" in code]
    exec(compile(code, "example", "exec"), {})


@pytest.fixture(scope="module")
def demo(extracted_demo: tuple[Path, subprocess.CompletedProcess[str]]) -> Path:
    """The folder of the extracted demo."""
    folder, result = extracted_demo
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.slow
def test_a_model_of_ones_own_is_scored_as_documented(demo: Path, tmp_path: Path) -> None:
    ridge, cosine, *_ = examples("docs/benchmark.md")
    code = f"{ridge}\n{cosine}".replace("storyframes-demo/features", str(demo / "features"))
    command = [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=os.environ | INSTALLED)
    assert result.returncode == 0, result.stderr
    scored = storyframes("empathy", "evaluate", tmp_path / "runs", "--split", "val", environment=INSTALLED)
    assert scored.returncode == 0, scored.stderr
    assert "| ridge (label rating) | a | 1 |" in scored.stdout
    assert "| cosine, untrained | t | 1 |" in scored.stdout
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
