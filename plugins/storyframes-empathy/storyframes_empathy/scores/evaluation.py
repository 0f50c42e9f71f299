"""All runs under a folder, scored by the same rules, also those of models trained elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from storyframes_empathy.scores.intervals import Interval, participant_intervals, permutation_p
from storyframes_empathy.scores.metrics import Metrics
from storyframes_empathy.scores.predictions import FILE, Predictions, read_predictions, score_limits
from storyframes_empathy.scores.run_record import RECORD, Level, Run, RunError, ScoreScale, TrainLabels, read_run
from storyframes_empathy.scores.scored_rows import Scored, at_level

_STATE = "state.json"  # of a run that was begun here
_LEAKED, _OFF_SCALE = "LEAKED: ", "OFF SCALE: "  # how notes begin that make the exit code 1
_OFTEN = 0.1  # the share of scores outside their scale from which it is said


@dataclass(frozen=True)
class ScoredRun:
    """A run and what it is worth.

    Attributes:
        folder: where it lies.
        scored: what was scored.
        metrics: of that.
        train: the labels it was trained on, where the run or its predictions tell.
        intervals: of each metric, where they were asked for.
        p: how often chance is as good (``intervals.permutation_p``), where that was asked for.
    """

    folder: Path
    scored: Scored
    metrics: Metrics
    train: TrainLabels | None
    intervals: Mapping[str, Interval] | None = None
    p: float | None = None

    @property
    def run(self) -> Run:
        """What decided it."""
        return self.scored.run


@dataclass(frozen=True)
class Evaluation:
    """All runs under a folder.

    Attributes:
        level, split: what was asked for.
        runs: those that could be scored, in the order of their folders.
        faults: why others could not be; each names its file.
        notes: what users of the numbers must know, ``leaks`` and ``off_scale`` among them.
        leaks: those notes that say that a participant is in two splits.
        off_scale: those notes that say that scores cannot be on the scale that their run declares.
    """

    level: Level
    split: str
    runs: Sequence[ScoredRun]
    faults: Sequence[str]
    notes: Sequence[str]
    leaks: Sequence[str] = ()
    off_scale: Sequence[str] = ()


def evaluate(
    root: Path, level: Level = Level.CLIP, split: str = "test", *, each_once: bool = False, intervals: bool = False
) -> Evaluation:
    """Score every folder under ``root`` that has a run.json and a predictions.parquet.

    Args:
        root: a folder, or a tree of them.
        level: score clips, or the stories that they are of. Runs whose predictions are of stories stay what they are.
        split: of which clips.
        each_once: count every clip once, also where the predictions say that some count several times.
        intervals: also say how sure each number is, and deal ratings out again.

    Raises:
        RunError: there is no run under ``root``.
        OSError: it cannot be read.
    """
    places = sorted({path.parent for name in (RECORD, FILE, _STATE) for path in root.rglob(name)})
    if not places:
        root.stat()
        raise RunError(f"{root}: there is no {RECORD} in it or below: give a folder with runs (docs/benchmark.md)")
    runs: list[ScoredRun] = []
    faults: list[str] = []
    said: dict[str, list[str]] = defaultdict(list)  # by note the runs that it is of
    folders: dict[tuple[object, ...], Path] = {}
    for folder in places:
        try:
            if not (folder / RECORD).exists():
                why = "the run has not come to its end" if (folder / _STATE).exists() else "nothing says whose they are"
                raise RunError(f"{folder}: has no {RECORD}: {why}")
            predictions = read_predictions(folder, read_run(folder))
            run = predictions.run
            if before := folders.get(key := (*row_key(run), run.seed)):
                raise RunError(f"{folder}: is the same run as {before} ({run.name}): keep one of the two")
            one = _scored(predictions, level, split, each_once=each_once)
        except RunError as error:
            faults.append(str(error))
            continue
        folders[key] = folder
        if intervals:
            one = replace(one, intervals=participant_intervals(one.scored), p=permutation_p(one.scored))
        runs.append(one)
        for note in (*run.caveats, *_leaks(predictions), *_scale(predictions, split), *_missing(one.metrics)):
            said[note].append(run.name)
    notes = {note: _of(names, note) for note, names in said.items()}
    leaks, off_scale = (
        [text for note, text in notes.items() if note.startswith(mark)] for mark in (_LEAKED, _OFF_SCALE)
    )
    return Evaluation(level, split, runs, faults, [*notes.values(), *_unlike(runs)], leaks, off_scale)


def table_key(run: Run) -> tuple[object, ...]:
    """What runs have to have in common to be in one table."""
    return run.phase, run.scheme, run.minimum, run.maximum, run.threshold


def row_key(run: Run) -> tuple[object, ...]:
    """What runs have to have in common to be the seeds of one row."""
    return (*table_key(run), run.model, run.variant, run.label, run.modalities, run.level)


def _of(names: Sequence[str], note: str) -> str:
    """A note that is true of several runs, once."""
    return f"{names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}: {note}"


def _scored(predictions: Predictions, level: Level, split: str, *, each_once: bool) -> ScoredRun:
    scored = at_level(predictions, level, split, each_once=each_once)
    return ScoredRun(predictions.folder, scored, scored.metrics(), predictions.run.train or _trained_on(predictions))


def _trained_on(predictions: Predictions) -> TrainLabels | None:
    """The labels of the training clips, where there are predictions of them."""
    ratings = predictions.table.loc[predictions.table["split"] == "train", "rating"].to_numpy()
    if not len(ratings):
        return None
    positive = float((ratings > predictions.run.threshold).mean())
    return TrainLabels(n=len(ratings), mean=float(ratings.mean()), prevalence=positive)


def _leaks(predictions: Predictions) -> Iterator[str]:
    splits = (
        predictions.table[["participant_id", "split"]].drop_duplicates().groupby("participant_id")["split"].agg(list)
    )
    leaked = splits[splits.str.len() > 1]
    if len(leaked):
        where = " and in ".join(sorted(leaked.iloc[0]))
        more = f", and {len(leaked) - 1} more are leaked" if len(leaked) > 1 else ""
        yield f"{_LEAKED}the participant {leaked.index[0]} is in {where}{more}"


def _scale(predictions: Predictions, split: str) -> Iterator[str]:
    """What speaks against scores being on the scale that their run declares.

    Estimates may lie somewhat outside the scale, and a cosine goes down to -1. Scores that lie outside by more than the
    scale is long, or of which most lie outside, are of another scale.
    """
    run, table = predictions.run, predictions.table
    chosen = table[(table["split"] == split) & table["score"].notna()]
    if chosen.empty:
        return
    scores, (low, high) = chosen["score"].to_numpy(), score_limits(run)
    least, most, span = float(scores.min()), float(scores.max()), high - low
    outside = (scores < low - 1e-9 * span) | (scores > high + 1e-9 * span)
    text = (
        f"scores go from {least:.4g} to {most:.4g}, the scale {str(run.label)!r} of run.json from {low:.4g} to "
        f"{high:.4g}: {int(outside.sum())} of {len(scores)} scores are outside"
    )
    may_be_cosine = run.label is not ScoreScale.RATING and least >= -1 and most <= 1
    is_far = least < low - span or most > high + span
    if (is_far or outside.mean() > 0.5) and not may_be_cosine:
        yield f"{_OFF_SCALE}{text}, so MSE, Acc and F1 mean nothing: correct 'label' in run.json, or the scores"
    elif outside.mean() >= _OFTEN:
        yield text
    else:
        ratings = low + span * (chosen["rating"].to_numpy() - run.minimum) / (run.maximum - run.minimum)
        if len(np.unique(scores)) > 1 and (least > ratings.max() or most < ratings.min()):
            above = "above" if least > ratings.max() else "below"
            yield f"every score ({least:.4g} to {most:.4g}) is {above} every rating: are they on the same scale?"


def _missing(metrics: Metrics) -> Iterator[str]:
    if metrics.missing:
        yield (
            f"{metrics.missing} of {metrics.n + metrics.missing} answers are missing and left out; "
            f"Acc would be {100 * metrics.acc_missing_wrong:.1f} if each of them were wrong"
        )


def _unlike(runs: Sequence[ScoredRun]) -> Iterator[str]:
    """What makes numbers beside each other numbers of different things."""
    rows: dict[tuple[object, ...], list[Run]] = defaultdict(list)
    clips: dict[tuple[object, ...], dict[int, Run]] = defaultdict(dict)
    for one in runs:
        rows[row_key(one.run)].append(one.run)
        clips[(*table_key(one.run), one.scored.level, one.run.seed)].setdefault(one.scored.clips, one.run)
    for seeds in rows.values():
        keys = {key for other in seeds[1:] for key in _differing(seeds[0].settings, other.settings)}
        if keys:
            yield f"{seeds[0].name}: its seeds were not run with the same settings: {', '.join(sorted(keys))} differ"
    for key, different in clips.items():
        if len(different) > 1:
            first, second, *_ = different.values()
            what = "stories" if key[-2] is Level.STORY else "clips"
            yield (
                f"rows are not of the same {what}: {first.name} and {second.name} were scored on different ones, "
                "so their numbers do not compare"
            )


def _differing(one: Mapping[str, Any], other: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """The settings that differ, but for seeds: those are what the runs of a row differ in."""
    for key in {*one, *other}:
        here, there = one.get(key), other.get(key)
        if isinstance(here, dict) and isinstance(there, dict):
            yield from _differing(here, there, f"{place}{key}.")
        elif here != there and "seed" not in key:
            yield f"{place}{key}"
