"""What it costs to score: 60 runs of 20,000 predictions through the command, and 200,000 clips through ``score``.

Beside them what the same takes with the usual libraries, in the same run: pandas reading the files and SciPy and
scikit-learn computing r, rho, Acc, F1 and MSE of them.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, mean_squared_error

from benchmarks.measure import Measured, interleave, print_machine
from benchmarks.performance_page import record
from storyframes_empathy.scores.metrics import score
from storyframes_empathy.scores.predictions import write_predictions
from storyframes_empathy.scores.run_record import Run, write_run

HERE = Path(__file__).parents[2]
RUNS, PREDICTIONS, CLIPS, PARTICIPANTS = 60, 20_000, 200_000, 8
MODALITIES = ("t", "v+a", "v+t", "a+t", "v+a+t")

USUAL = """
import sys
from pathlib import Path
import pandas as pd
from benchmarks.empathy.scores import usual
for path in Path(sys.argv[1]).rglob("predictions.parquet"):
    table = pd.read_parquet(path)
    usual(table["score"].to_numpy(), table["rating"].to_numpy())
"""


def usual(scores: np.ndarray, ratings: np.ndarray) -> tuple[float, ...]:
    """The metrics by the libraries that everybody has."""
    labels, positive, said = (ratings - 1) / 4, ratings > 3, scores > 0.5
    return (
        pearsonr(scores, labels).statistic,
        spearmanr(scores, labels).statistic,
        accuracy_score(positive, said),
        f1_score(positive, said),
        mean_squared_error(labels, scores),
    )


def write_runs(root: Path) -> None:
    """Four models, five sets of modalities, three seeds; every clip of one of eight participants."""
    generator = np.random.default_rng(0)
    who, story = generator.integers(0, PARTICIPANTS, PREDICTIONS), generator.integers(0, 40, PREDICTIONS)
    ratings = (who * 7 + story * 13) % 5 + 1
    table = pd.DataFrame(
        {
            "clip_id": [f"p{one:02d}-s01:story_share:{number:06d}:1" for number, one in enumerate(who)],
            "session_id": [f"p{one:02d}-s01" for one in who],
            "participant_id": [f"p{one:02d}" for one in who],
            "story_id": [f"story-{one:02d}" for one in story],
            "rating": ratings,
        }
    ).assign(phase="story_share", split="test", copies=1)
    for model, modalities, seed in itertools.product(("amer", "tfn", "ef_lstm", "lf_lstm"), MODALITIES, range(3)):
        run = Run(phase="story_share", model=model, modalities=modalities, seed=seed)
        folder = root / model / modalities / str(seed)
        folder.mkdir(parents=True)
        write_run(folder, run)
        scores = 0.3 + ratings / 20 + generator.normal(size=PREDICTIONS) * 0.2
        write_predictions(folder, run, table.assign(score=scores))


def main() -> None:
    print_machine()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_runs(root)

        def command(*arguments: str) -> None:
            subprocess.run([sys.executable, *arguments], cwd=HERE, check=True, stdout=subprocess.DEVNULL)

        evaluate = ("-m", "storyframes", "empathy", "evaluate", str(root))
        measured = interleave(
            {
                "usual": lambda: command("-c", USUAL, str(root)),
                "evaluate": lambda: command(*evaluate),
                "evaluate, stories": lambda: command(*evaluate, "--level", "story"),
                "evaluate, intervals and p": lambda: command(*evaluate, "--format", "json"),
            },
            runs=3,
        )
    what = f"{RUNS} runs of {PREDICTIONS:,} predictions: "
    wanted = {"evaluate": "5", "ours": "0.5"}
    rows = [_row(what + name, one, measured, wanted.get(name, "")) for name, one in measured.items()]
    generator = np.random.default_rng(1)
    scores, ratings = generator.uniform(size=CLIPS), generator.integers(1, 6, CLIPS)
    alone = interleave({"usual": lambda: usual(scores, ratings), "ours": lambda: score(scores, ratings)})
    what = f"metrics of {CLIPS:,} clips: "
    rows += [_row(what + name, one, alone, wanted.get(name, "")) for name, one in alone.items()]
    record("scoring", ("", "CPU-s", "of usual", "wanted"), rows, ["pandas", "scipy"])


def _row(name: str, one: Measured, beside: Mapping[str, Measured], wanted: str) -> list[str]:
    return [name, f"{one.cpu_s:.3f}", f"{one.cpu_s / beside['usual'].cpu_s:.2f}", wanted]


if __name__ == "__main__":
    main()
