"""What the plug-in declares is enough: scores and statistics without an extra, training with its own, no pipeline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from empathy_support.runs import leave_runs
from support.synthetic_features import StudySpec, write_features
from support.systems.light_install import ONLY_WHAT_IS_DECLARED, light_modules

from storyframes.installation import install_line
from storyframes_empathy import DISTRIBUTION

PLUG_IN = Path(__file__).parents[1]
ROOT = PLUG_IN.parents[1]
pytestmark = pytest.mark.slow
OURS = {"flows", "tasks", "storyframes_empathy"}

RUN_STATISTICS = (
    ONLY_WHAT_IS_DECLARED
    + """
from flows.cli.entry import main

study, examples = sys.argv[1], sys.argv[3]
is_missing_one = "statsmodels" not in sys.argv[2].split(",")
for command in (
    ["statistics", "agreement", study],
    ["statistics", "agreement", examples + "/ratings.csv"],
    ["statistics", "compare-ratings", examples + "/model.csv", "--by", "question"],
    ["pairs", "evaluate", examples + "/pairs.csv", "--cosine", "sbert"],
    ["statistics", "mixed", examples + "/stories.csv", "--outcome", "empathy", "--predictor", "similarity"],
)[-1 if is_missing_one else 0:]:
    sys.argv = ["storyframes", "empathy", *command]
    try:
        main()
    except SystemExit as ended:
        print("ended with", ended.code)
"""
)

RUN_COMMANDS = (
    ONLY_WHAT_IS_DECLARED
    + """
from flows.cli.entry import main

runs = sys.argv[1]
how = "--phase story_share --model ef_lstm --seeds 0 --epochs 1".split()
how += ["--config", runs + "/../small.toml", "--out", runs + "/../trained"]
train = ["empathy", "train", runs + "/../features", *how]
for command in (["--help"], ["empathy", "evaluate", runs], ["check", runs + "/../study"], train):
    sys.argv = ["storyframes", *command]
    try:
        main()
    except SystemExit as ended:
        print("ended with", ended.code, "loaded", sorted({"torch", "prefect", "dask", "av"} & set(sys.modules)))
"""
)


def test_models_are_trained_and_scores_told_with_what_the_extra_train_brings(tmp_path: Path) -> None:
    modules = light_modules("train", of=PLUG_IN)
    assert {"torch", "scipy", "sklearn", "pydantic", "typer", "rich"} <= modules
    assert not {"prefect", "dask", "distributed", "transformers", "av", "cv2"} & modules
    runs = leave_runs(tmp_path / "runs", seeds=1)
    write_features(tmp_path / "features", StudySpec(sessions=3))
    (tmp_path / "small.toml").write_text("[train.ef_lstm]\nhidden = 8\nlayers = 1\n")
    (tmp_path / "study").mkdir()
    (tmp_path / "study/sessions.csv").write_text("session_id,participant_id,video\ns,p,a.avi\n")
    (tmp_path / "study/a.avi").write_bytes(b"RIFF")  # looking into it takes PyAV
    command = [sys.executable, "-c", RUN_COMMANDS, str(runs), ",".join(sorted(modules | OURS))]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    assert "| EF-LSTM | v+a+t | 1 |" in result.stdout
    ends = [line for line in result.stdout.splitlines() if line.startswith("ended")]
    unloaded = ["ended with 0 loaded []", "ended with 0 loaded []", "ended with 2 loaded []"]
    assert ends == [*unloaded, "ended with 0 loaded ['torch']"], result.stderr
    (told,) = [line for line in result.stderr.splitlines() if line.startswith("error")]
    assert told.startswith("error this command needs ")
    assert told.endswith(f": {install_line('pipeline')}")
    assert (tmp_path / "trained/story_share/ef_lstm/v+a+t/0/predictions.parquet").exists()


@pytest.mark.parametrize("missing", ["", "statsmodels"])
def test_statistics_need_no_extra(tmp_path: Path, missing: str) -> None:
    (tmp_path / "sessions.csv").write_text("session_id,participant_id,video\ns,p,a.avi\n")
    (tmp_path / "labels.csv").write_text("session_id,scheme,value,rater_id\ns,mood,up,a\ns,mood,up,b\n")
    modules = light_modules(of=PLUG_IN)
    assert not {"torch", "prefect", "dask", "cv2", "av"} & modules
    allowed = ",".join(sorted((modules | OURS) - {missing}))
    command = [sys.executable, "-c", RUN_STATISTICS, str(tmp_path), allowed, str(PLUG_IN / "docs/examples")]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    ends = [line for line in result.stdout.splitlines() if line.startswith("ended")]
    assert ends == (["ended with 2"] if missing else ["ended with 0"] * 5), result.stderr
    told = [line for line in result.stderr.splitlines() if line.startswith("error")]
    assert told == ([f"error this needs statsmodels: {install_line(name=DISTRIBUTION)}"] if missing else [])


def test_an_extra_that_is_missing_is_one_sentence(tmp_path: Path) -> None:
    modules = light_modules("train", of=PLUG_IN) - {"scipy"}
    command = [sys.executable, "-c", RUN_COMMANDS, str(tmp_path), ",".join(sorted(modules | OURS))]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert f"error this needs scipy: {install_line(name=DISTRIBUTION)}" in result.stderr.splitlines()
