"""Folders of runs, as models leave them behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from storyframes_empathy.scores.predictions import write_predictions
from storyframes_empathy.scores.run_record import Run, write_run


def predicted(run: Run, *, people: int = 4, knowing: float = 0.1, seed: int = 0, clips: int = 2) -> pd.DataFrame:
    """Predictions of three sessions of each participant with three stories each; the scores know the ratings somewhat.

    Ratings depend on nothing but participant and story, so that runs with other seeds are of the same clips.
    """
    rows = [
        (f"p{person}-s{session}:{run.phase}:{clip:06d}:{story}", f"p{person}-s{session}", f"p{person}", f"t{story}")
        for person in range(people)
        for session in range(3)
        for story in range(3)
        for clip in range(clips)
    ]
    table = pd.DataFrame(rows, columns=["clip_id", "session_id", "participant_id", "story_id"])
    unit = np.arange(len(table)) // clips
    span = run.maximum - run.minimum
    table["rating"] = run.minimum + (unit * 7 + unit // 9) % 5 / 4 * span
    noise = np.random.default_rng(seed).normal(size=len(table)) * 0.1
    table["score"] = 0.3 + knowing * (table["rating"] - run.minimum) / span * 4 + noise
    return table.assign(phase=run.phase, split="test", copies=1)


def leave_run(folder: Path, run: Run, table: pd.DataFrame | None = None) -> Path:
    """A run in ``folder``, with these predictions or others; returns the folder."""
    folder.mkdir(parents=True)
    write_run(folder, run)
    write_predictions(folder, run, predicted(run, seed=run.seed) if table is None else table)
    return folder


def leave_runs(
    root: Path, *, model: str = "ef_lstm", modalities: str = "v+a+t", seeds: int = 3, **said: object
) -> Path:
    """Seeds of one row, in the folders that training gives them; returns ``root``."""
    for seed in range(seeds):
        content = {"phase": "story_share", "model": model, "modalities": modalities, "seed": seed} | said
        run = Run.model_validate(content)
        leave_run(root / run.phase / f"{model}{run.variant}" / modalities / str(seed), run)
    return root
