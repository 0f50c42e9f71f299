"""The baseline that nobody trained: how near what was said lies to the story, ``cos(mean of t, E(S))``.

Trained models learn to turn a clip into something near the story's vector; this is how near the text lies already.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.compute as pc

import storyframes
from storyframes import ClipDataset, FeatureStore
from storyframes_empathy.scores.predictions import FILE, write_predictions
from storyframes_empathy.scores.run_record import Run, RunError, ScoreScale, TrainLabels, read_run, write_run
from storyframes_empathy.training.inputs import Part, open_parts, rows_of
from storyframes_empathy.training.labels import best_cut
from storyframes_empathy.training.provenance import clip_caveats, feature_caveats, versions_of
from storyframes_empathy.training.run_folder import RunName, held
from storyframes_empathy.training.settings import InputSettings, TrainSettings
from storyframes_empathy.training.splits import Splits, open_splits

UNTRAINED = "cosine, untrained"
"""Its name in tables."""
FOLDER = "untrained"
"""Its folder, beside those of the models: RUNS/phase/untrained/t/seed/."""
_VERSION = 1  # of this code; raised when the same clips would get other scores
_EPS = 1e-8  # the least product of norms
_AT_ONCE = 64  # windows that are read


def leave_untrained(store: FeatureStore, name: RunName, settings: TrainSettings, runs: Path) -> str:
    """Write the baseline of a run's phase and seed into ``runs``, unless it is there already.

    It is of the clips that a run of t alone has. Where t is not as wide as the stories, the vectors of sentences (the
    input ``sentence``, of the same speakers) stand for it.

    Returns:
        Why it cannot be made; empty where it is there.

    Raises:
        OSError: it cannot be written.
    """
    if settings.target == "none":
        return "the label is about no story"
    try:
        splits = open_splits(store, name.phase, ("t",), name.seed, settings)
        assert splits.stories is not None
        width = splits.stories.vectors.shape[1]
        chosen = settings
        if _width(open_parts(splits.training, settings, ("t",))["t"]) != width:
            speakers = {part.speakers for part in settings.t}
            sentences = InputSettings(input="sentence", speakers=speakers.pop() if len(speakers) == 1 else None)
            chosen = settings.model_copy(update={"t": (sentences,)})
        datasets = {split: _read_as(dataset, chosen) for split, dataset in splits.scored.items()}
        parts = open_parts(datasets["train"], chosen, ("t",))["t"]
    except ValueError as error:  # as the reader says what it cannot read
        return str(error)
    if _width(parts) != width:
        return f"{' and '.join(part.name for part in parts)} has {_width(parts)} columns, and stories have {width}"
    folder = name.folder(runs).parents[2] / FOLDER / "t" / str(name.seed)
    run = _record(store, name, chosen, splits)
    with held(folder, None):  # runs of one seed may end at the same time, in many processes
        if not _is_there(folder, run.fingerprint):
            tables = {
                split: _scored(datasets[split], parts, splits, splits.copies[split], settings).assign(split=split)
                for split in datasets
                if split != "train" or len(datasets) == 1
            }
            if settings.score_cut == "val":
                val = tables["val"]
                similar = val["rating"].to_numpy() > run.threshold
                cut = best_cut(val["score"].to_numpy(), similar, val["copies"].to_numpy())
                run = run.model_copy(update={"score_threshold": cut})
            write_predictions(folder, run, pd.concat(tables.values(), ignore_index=True))
            write_run(folder, run)
    return ""


def _width(parts: Sequence[Part]) -> int:
    return sum(part.width for part in parts)


def _read_as(dataset: ClipDataset, settings: TrainSettings) -> ClipDataset:
    """The same clips with the text that is asked for."""
    same = pc.field("clip_id").isin(dataset.clips["clip_id"].tolist())
    return ClipDataset(dataset.store, settings.clip_inputs(("t",)), same, split=dataset.split_spec)


def _is_there(folder: Path, fingerprint: str) -> bool:
    try:
        return read_run(folder).fingerprint == fingerprint and (folder / FILE).exists()
    except RunError:
        return False


def _scored(
    dataset: ClipDataset, parts: Sequence[Part], splits: Splits, copies: np.ndarray, settings: TrainSettings
) -> pd.DataFrame:
    assert splits.stories is not None
    clips = dataset.clips
    windows = dataset.windows()["clips"].tolist()
    said = np.zeros((len(clips), splits.stories.vectors.shape[1]))
    for first in range(0, len(windows), _AT_ONCE):
        some = windows[first : first + _AT_ONCE]
        means = _means(dataset.read([int(each[0]) for each in some]), parts)
        for of_window, mean in zip(some, means, strict=True):
            said[of_window] = mean
    stories = splits.stories.vectors[splits.stories.of(clips)].astype(np.float64)
    norms = np.linalg.norm(said, axis=1) * np.linalg.norm(stories, axis=1)
    cosine = (said * stories).sum(axis=1) / np.maximum(norms, _EPS)
    scores = (1 + cosine) / 2 if settings.cosine == "rescale" else cosine
    columns = ["clip_id", "session_id", "participant_id", "story_id", "phase"]
    return clips[columns].assign(rating=splits.labels(clips), score=scores, copies=copies)


def _means(batch: Mapping[str, np.ndarray], parts: Sequence[Part]) -> np.ndarray:
    """(n, width) float64: the mean of each column's values; 0 where a window has none."""
    means = []
    for part in parts:
        values, counts = rows_of(batch, part)
        total = np.where(counts, values, 0).sum(axis=1, dtype=np.float64)
        means.append(total / np.maximum(counts.sum(axis=1), 1))
    return np.concatenate(means, axis=1)


def _record(store: FeatureStore, name: RunName, settings: TrainSettings, splits: Splits) -> Run:
    scale = splits.scale
    labels = splits.labels(splits.scored["train"].clips)
    inputs = [part.deciding() for part in settings.t]
    versions = versions_of(store, splits.scored, ("t",), settings, stories=True)
    caveats = (*feature_caveats(store, versions), *clip_caveats(settings, name.phase))
    decided = [_VERSION, name.phase, name.seed, inputs, settings.cosine, scale.scale, scale.similar_above]
    decided += [scale.low, scale.high, splits.digest, versions, settings.score_cut, caveats]
    return Run(
        phase=name.phase,
        model=UNTRAINED,
        modalities="t",
        seed=name.seed,
        scheme=scale.name,
        minimum=scale.low,
        maximum=scale.high,
        threshold=scale.similar_above,
        label=ScoreScale(scale.scale),
        score_threshold=scale.score_threshold,
        is_baseline=True,
        train=TrainLabels(
            n=len(labels), mean=float(labels.mean()), prevalence=float((labels > scale.similar_above).mean())
        ),
        fingerprint=hashlib.sha256(json.dumps(decided).encode()).hexdigest(),
        caveats=caveats,
        settings={"t": inputs, "cosine": settings.cosine, "score_cut": settings.score_cut},
        versions={"storyframes": storyframes.__version__},
        data={"clips": splits.digest},
    )
