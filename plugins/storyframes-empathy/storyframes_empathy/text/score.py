"""Scores of texts as a run: the same files as a trained model's, so that the same rules score both.

One row for each session and story (level ``story``). An answer that could not be read has no score and is counted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from storyframes_empathy.scores.predictions import write_predictions
from storyframes_empathy.scores.run_record import Level, Run, write_run
from storyframes_empathy.text.samples import Sample


def write_scores(
    runs: Path, run: Run, samples: Sequence[Sample], scores: Mapping[tuple[str, str], float | None]
) -> Path:
    """Write ``run.json`` and ``predictions.parquet`` below ``runs``; gives back their folder.

    Args:
        runs: the folder of all runs.
        run: what decided the scores.
        samples: what was scored.
        scores: by session and story, from 0 to 1; None where an answer could not be read.

    Raises:
        RunError: a score breaks a rule.
        OSError: the files cannot be written.
    """
    folder = runs / run.phase / _slug(run.model) / run.modalities / str(run.seed)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    columns: dict[str, list[Any]] = {
        "clip_id": [f"{sample.session_id}:{run.phase}:@{sample.story_id}" for sample in samples],
        "session_id": [one.session_id for one in samples],
        "participant_id": [one.participant_id for one in samples],
        "story_id": [one.story_id for one in samples],
        "phase": [run.phase] * len(samples),
        "rating": [one.rating for one in samples],
        "split": [one.split for one in samples],
        "score": [scores[one.session_id, one.story_id] for one in samples],
        "copies": [1] * len(samples),
    }
    decided = json.dumps([run.model_dump(mode="json"), columns], sort_keys=True)
    run = run.model_copy(update={"fingerprint": hashlib.sha256(decided.encode()).hexdigest()})
    columns["score"] = pd.Series(columns["score"], dtype=object)  # None is not NaN
    write_predictions(folder, run, pd.DataFrame(columns))  # which name the run that they are of
    write_run(folder, run)
    return folder


def text_run(phase: str, model: str, settings: Mapping[str, Any], versions: Mapping[str, str], seed: int = 0) -> Run:
    """The record of a text scorer's run, whose scores go from 0 to 1 as the scheme ``empathy`` goes from 1 to 5."""
    return Run.model_validate(
        {
            "phase": phase,
            "model": model,
            "modalities": "t",
            "seed": seed,
            "level": Level.STORY,
            "may_be_missing": True,
            "settings": dict(settings),
            "versions": dict(versions),
        }
    )


def _slug(name: str) -> str:
    """A folder's name of a model's, which may be a path or a URL."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "model"
