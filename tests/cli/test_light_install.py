"""What `pip install .` alone brings is enough to read clips."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.messages import missing
from support.synthetic_features import StudySpec, write_features
from support.systems.light_install import ONLY_WHAT_IS_DECLARED, RUN_COMMANDS, light_modules

import storyframes
from storyframes.installation import install_line

ROOT = Path(__file__).parents[2]

READ_A_CLIP = (
    ONLY_WHAT_IS_DECLARED
    + """
from storyframes import ClipDataset, ClipLoader, UniformSampler
from storyframes.clips.named_inputs import INPUTS

dataset = ClipDataset(sys.argv[1], [*INPUTS, "openface", "resnet50", "dope"], 'face_tracked >= 0')
sample = dataset[next(iter(UniformSampler(dataset)))]
print(sample["vision"].shape, len(sample) == len(dataset.fields))
from storyframes import FeatureStore
session = FeatureStore(sys.argv[1]).session("s00")
for call in (lambda: ClipLoader(dataset, 4), session.to_xarray, lambda: session.to_polars("openface")):
    try:
        call()
    except ModuleNotFoundError as error:
        print(error)
"""
)


@pytest.mark.slow
def test_a_clip_is_read_with_the_declared_dependencies_alone(tmp_path: Path) -> None:
    study = write_features(tmp_path / "features", StudySpec(sessions=1))
    modules = light_modules(without=("rich", "typer"))  # of the command alone: no reader imports them
    assert not {"torch", "pydantic", "xarray", "prefect", "typer", "rich"} & modules
    command = [sys.executable, "-c", READ_A_CLIP, str(study.root), ",".join(sorted(modules))]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    shape, *told = result.stdout.splitlines()
    assert shape == "(13, 2762) True"
    assert told == [
        f"ClipLoader needs PyTorch: {install_line('loader')}",
        f"to_xarray needs xarray: {install_line('explore')}",
        f"to_polars needs polars: {install_line('explore')}",
    ]


@pytest.mark.slow
def test_a_store_is_read_and_kept_by_the_command_with_the_declared_dependencies_alone(tmp_path: Path) -> None:
    root, out = str(write_features(tmp_path / "features", StudySpec(sessions=2)).root), str(tmp_path)
    modules = light_modules()
    assert not {"torch", "prefect", "dask", "cv2", "av", "scipy", "h5py", "jinja2"} & modules
    light = [
        ["--help"], ["status", root], ["status", root, "--json"], ["show", root, "s00"],
        ["show", root, "s00", "--json"],
        ["clips", root], ["clips", root, "--where", "split == 'train'", "--json"], ["verify", root], ["gc", root],
        ["archive", root, "--out", f"{out}/archive"], ["doctor", root], ["doctor", root, "--json"],
        ["models", "list"],
    ]  # fmt: skip
    pipeline = [
        ["extract", "demo/study", f"{out}/new"], ["check", "demo/study"], ["plan", "demo/study"],
        ["index", "demo/study", root, "--replace-study"],
        ["extract-file", "demo/study/sessions.csv", "--features", "frames"], ["extractors", "list"], ["runs"],
        ["demo", f"{out}/demo"], ["synthesize", f"{out}/s"],
    ]  # fmt: skip
    commands, allowed = [*light, *pipeline], ",".join(sorted(modules | {"flows", "tasks"}))
    command = [sys.executable, "-c", ONLY_WHAT_IS_DECLARED + RUN_COMMANDS, json.dumps(commands), allowed]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    ends = [line.split(" ended with ") for line in result.stdout.splitlines() if " ended with " in line]
    assert ends == [[name, "0"] for name, *_ in light] + [[name, "2"] for name, *_ in pipeline], result.stderr
    assert missing(result.stdout, "pipeline is not installed", "av") == []
    told = [line.rpartition(": ")[2] for line in result.stderr.splitlines() if line.startswith("error")]
    assert told == [install_line("pipeline")] * len(pipeline), result.stderr


@pytest.mark.slow
def test_python_runs_the_package_as_the_command(tmp_path: Path) -> None:
    """And the command completes itself in a shell that it was installed into."""
    there = tmp_path / "bin/storyframes"
    there.parent.mkdir()
    there.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m storyframes "$@"\n')
    there.chmod(0o700)
    path = f"{there.parent}{os.pathsep}{os.environ['PATH']}"
    home = os.environ | {"HOME": str(tmp_path), "PATH": path}

    def bash(text: str) -> str:
        command = ["bash", "-c", f"{text}; true"]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=home).stdout

    assert bash("storyframes --version") == f"storyframes {storyframes.__version__}\n"
    assert "completion installed" in bash("storyframes --install-completion")
    script = tmp_path / ".bash_completions/storyframes.sh"
    assert str(script) in (tmp_path / ".bashrc").read_text()
    typed = "COMP_WORDS=(storyframes extrac) COMP_CWORD=1; _storyframes_completion storyframes extrac storyframes"
    completed = bash(f"source {shlex.quote(str(script))}; {typed}; echo ${{COMPREPLY[*]}}").split()
    assert completed == ["extract", "extract-file", "extractors"]
