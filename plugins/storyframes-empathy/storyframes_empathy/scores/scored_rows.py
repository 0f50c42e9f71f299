"""The rows by which a run is scored: its clips, or the stories that its sessions rated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from storyframes_empathy.scores.metrics import Metrics, score
from storyframes_empathy.scores.predictions import FILE, Predictions, scaled_scores
from storyframes_empathy.scores.run_record import Level, Run, RunError, ScoreScale


@dataclass(frozen=True)
class Scored:
    """What metrics are computed from, one entry for each clip or story of one split, in the order of the file.

    Attributes:
        run: whose.
        level: what an entry is.
        scores: (n,) on the scale 0 to 1 of the scheme; NaN where the answer is missing.
        score_threshold: scores above it are positive, on that scale.
        ratings: (n,) on the scheme's own scale.
        copies: (n,) how many times an entry counts.
        participants: (n,) the number of the participant, from 0.
        stories: (n,) the number of the participant's session and story, from 0; all -1 where some rating is not of a
            story, or one session rates one story twice.
        sessions: (n,) the number of the session, from 0.
        clips: of which clips or stories, as one number that does not depend on their order.
        names: the participants' ids, by their numbers.
    """

    run: Run
    level: Level
    scores: np.ndarray
    score_threshold: float
    ratings: np.ndarray
    copies: np.ndarray
    participants: np.ndarray
    stories: np.ndarray
    sessions: np.ndarray
    clips: int
    names: tuple[str, ...] = ()

    def metrics(self) -> Metrics:
        """What the scores are worth."""
        return score(
            self.scores,
            self.ratings,
            threshold=self.run.threshold,
            score_threshold=self.score_threshold,
            minimum=self.run.minimum,
            maximum=self.run.maximum,
            copies=self.copies,
        )


def at_level(predictions: Predictions, level: Level, split: str, *, each_once: bool = False) -> Scored:
    """The entries of one split.

    Predictions of stories stay stories, whatever is asked for.

    Args:
        predictions: of a run.
        level: what to score; a story's score is the mean of its clips' scores.
        split: of which clips.
        each_once: count every clip once, although the file says that some count several times.

    Raises:
        RunError: no row is of that split; or stories are asked for, and clips count several times, a rating is of no
            story, or a session's story has two ratings.
    """
    run, path = predictions.run, predictions.folder / FILE
    table = predictions.table[predictions.table["split"] == split].reset_index(drop=True)
    if table.empty:
        splits = ", ".join(sorted(predictions.table["split"].unique())) or "none"
        raise RunError(f"{path}: has no predictions of the split {split!r}; it has {splits}")
    if each_once:
        table["copies"] = 1
    groups = table.groupby(["session_id", "story_id"], sort=False, dropna=False)
    stories = groups.ngroup().to_numpy()
    fault = _no_story(table, stories)
    if level is Level.STORY and run.level is Level.CLIP:
        if fault:
            raise RunError(f"{path}: {fault}: there are no stories to score")
        if (table["copies"] > 1).any():
            row = int(np.argmax(table["copies"].to_numpy() > 1))
            raise RunError(
                f"{path}: clip {table['clip_id'][row]} counts {table['copies'][row]} times: a story's mean is of clips "
                "that count once (--each-once)"
            )
        table = groups.agg(
            {"score": "mean", "rating": "first", "participant_id": "first", "copies": "first", "session_id": "first"}
            | {"story_id": "first"}
        ).reset_index(drop=True)
        stories = np.arange(len(table))
    told = level if run.level is Level.CLIP else Level.STORY
    # What scored whole stories calls its rows as it likes: a story is known by its session.
    by_story = told is Level.STORY and not fault
    keys = table["session_id"] + "\n" + table["story_id"] if by_story else table["clip_id"]
    scores = scaled_scores(table["score"].to_numpy(np.float64), run)
    limit = run.score_threshold
    if run.label is not ScoreScale.BINARY:
        limit = float(scaled_scores(np.array([limit]), run)[0])
    hashes = pd.util.hash_array(keys.to_numpy(object), categorize=False)
    with np.errstate(over="ignore"):
        clips = int(np.sum(hashes, dtype=np.uint64))
    participants, names = pd.factorize(table["participant_id"])
    return Scored(
        run,
        told,
        scores,
        limit,
        table["rating"].to_numpy(np.float64),
        table["copies"].to_numpy(np.int64),
        participants,
        np.full(len(table), -1) if fault else stories,
        pd.factorize(table["session_id"])[0],
        clips,
        tuple(str(name) for name in names),
    )


def _no_story(table: pd.DataFrame, stories: np.ndarray) -> str:
    """Why ratings are not of stories, one of each session's; empty where they are."""
    if table["story_id"].isna().any():
        row = int(np.argmax(table["story_id"].isna().to_numpy()))
        return f"clip {table['clip_id'][row]} has no story_id"
    ratings = table["rating"].to_numpy()
    first = np.full(stories.max() + 1, np.nan)
    first[stories[::-1]] = ratings[::-1]
    other = first[stories] != ratings
    if other.any():
        row = int(np.argmax(other))
        return (
            f"clip {table['clip_id'][row]} has the rating {ratings[row]:g}, another clip of its session and story "
            f"{first[stories[row]]:g}"
        )
    return ""
