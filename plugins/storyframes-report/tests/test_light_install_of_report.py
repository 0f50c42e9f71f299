"""What the plug-in declares is enough to compare stores; what needs the pipeline names the line that installs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.synthetic_features import StudySpec, write_features
from support.systems.light_install import ONLY_WHAT_IS_DECLARED, RUN_COMMANDS, light_modules

from storyframes.installation import install_line

PLUG_IN = Path(__file__).parents[1]
ROOT = PLUG_IN.parents[1]


@pytest.mark.slow
def test_two_stores_are_compared_with_the_declared_dependencies_alone(tmp_path: Path) -> None:
    root, out = str(write_features(tmp_path / "features", StudySpec(sessions=2)).root), str(tmp_path)
    modules = light_modules(of=PLUG_IN)
    assert not {"torch", "prefect", "dask", "cv2", "av", "rerun"} & modules
    allowed = ",".join(sorted(modules | {"flows", "tasks", "storyframes_report"}))
    commands = [
        ["compare", root, root],
        ["compare", root, root, "--out", f"{out}/page"],
        ["report", "demo/study", root, "--out", f"{out}/report"],
        ["view", "demo/study", root, "s00"],
        ["overlay", "demo/study", root, "s00", "--out", f"{out}/x.png"],
    ]
    code = [sys.executable, "-c", ONLY_WHAT_IS_DECLARED + RUN_COMMANDS, json.dumps(commands), allowed]
    result = subprocess.run(code, capture_output=True, text=True, cwd=ROOT)
    ended = [line.rpartition(" ")[2] for line in result.stdout.splitlines() if " ended with " in line]
    assert ended == ["0", "0", "2", "2", "2"], result.stderr
    told = [line.partition(": ")[2] for line in result.stderr.splitlines() if line.startswith("error")]
    assert told == [install_line("pipeline")] * 3
