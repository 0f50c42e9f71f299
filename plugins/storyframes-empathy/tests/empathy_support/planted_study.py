"""A study whose ratings follow from what is in the features and the stories, so that a model can learn them.

Every session has a hidden direction, and so has every story; a rating is how far they agree. The session's is spread
over all frames of its columns, in noise; the story's is in its vector. Neither alone tells anything.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from support.stores import local
from support.synthetic_features import publish, study_of

from storyframes.clips.window_spec import WindowSpec
from storyframes.features import STORIES
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes_empathy.training.settings import TrainSettings
from tasks.clip_index.index import build_clip_index, write_clip_index

WIDTHS = {"v": 35, "a": 65, "t": 300, "noise": 300}
"""Features of one row a frame; all but the last have the session's direction."""
INPUTS = {name: [{"input": name}] for name in "vat"}
CUTS = (-0.6, -0.2, 0.2, 0.6)
FPS = 15
_HIDDEN = 4
_STRENGTH = 0.6  # of the direction in a column, beside noise of 1


@dataclass(frozen=True)
class Planted:
    """How large the study is: participants, the sessions of each, and windows and rated stories of each session."""

    participants: int = 60
    sessions: int = 3
    windows: int = 5
    stories: int = 3
    window: int = 15  # frames


def planted(root: Path, spec: Planted) -> FeatureStore:
    """The store; a clip has also a label of the interval scheme ``valence``, which its session's direction decides."""
    create_store(root)
    generator = np.random.default_rng(0)
    mixing = {name: generator.normal(size=(_HIDDEN, width)) for name, width in WIDTHS.items()}
    sessions = [f"s{number:03d}" for number in range(spec.participants * spec.sessions)]
    frames = spec.windows * spec.window
    directions = _unit(generator.normal(size=(len(sessions), _HIDDEN)))
    with patch("os.fsync"):  # hundreds of versions, which need not survive the machine
        for session, direction in zip(sessions, directions, strict=True):
            for name, width in WIDTHS.items():
                values = generator.normal(size=(frames, width))
                values += 0 if name == "noise" else _STRENGTH * direction @ mixing[name]
                _publish_values(root, session, name, (3 * values + 5).astype(np.float32))
    count = len(sessions) * spec.stories
    latent = _unit(generator.normal(size=(count, _HIDDEN)))
    basis = np.linalg.qr(generator.normal(size=(384, _HIDDEN + 1)))[0].T
    vectors = _unit(latent @ basis[1:] + basis[0])  # all have something in common, as those of sentences do
    ratings = 1 + np.searchsorted(CUTS, (np.repeat(directions, spec.stories, axis=0) * latent).sum(axis=1))
    ids = [f"story{number:04d}" for number in range(count)]
    publish(root, STORIES, "sbert", {"values": vectors.astype(np.float32)}, {"story_ids": ids})
    catalogue.compact(local(root))
    study = study_of(dict(_tables(spec, sessions, ids, ratings)))
    windows = WindowSpec(window=spec.window, stride=spec.window, fps=FPS)
    index = build_clip_index(study, windows, FeatureStore(root)).clips
    index["valence"] = index["session_id"].map(dict(zip(sessions, directions[:, 0], strict=True)))
    index.attrs["schemes"] = {**index.attrs["schemes"], "valence": "interval"}
    write_clip_index(index, local(root))
    return FeatureStore(root)


def with_ratings_exchanged(store: FeatureStore, root: Path) -> FeatureStore:
    """The same features with ratings that nothing tells: each session's of one story is another's of another."""
    shutil.copytree(store.storage.location, root, copy_function=os.link)
    index = store.clips()
    rated = index[["story_id", "empathy"]].drop_duplicates("story_id")
    others = np.random.default_rng(1).permutation(rated["empathy"].to_numpy())
    index["empathy"] = index["story_id"].map(dict(zip(rated["story_id"], others, strict=True))).astype("int8")
    write_clip_index(index, local(root))
    return FeatureStore(root)


SMALL = {
    "ef_lstm": {"hidden": 48, "layers": 1, "dropout": 0.2},
    "lf_lstm": {"hidden_v": 24, "hidden_a": 24, "hidden_t": 48, "fused": 48},
    "tfn": {"hidden_v": 12, "hidden_a": 12, "hidden_t": 32, "out_t": 12, "fused": 48, "fused_dropout": 0.1},
    "amer": {"encoder_v": (64, 48), "encoder_a": (64, 48), "encoder_t": (64, 48), "fused": 64, "hidden": 64},
}


def settings(**more: object) -> TrainSettings:
    """Small models, trained fast; of 60 participants 18 are tested with."""
    quick = {"epochs": 4, "learning_rate": 3e-3, "step_epochs": 2, "onednn": "off", "split_shares": (0.6, 0.1, 0.3)}
    return TrainSettings.model_validate({**INPUTS, **SMALL, **quick, **more})


QUICK = """
[cluster]
cpus = 1
[train]
epochs = 1
onednn = "off"
keep_partial = true
split_shares = [0.6, 0.2, 0.2]
v = [{{input = "{vision}"}}]
a = [{{input = "a"}}]
t = [{{input = "t"}}]
amer = {{encoder_t = [8, 4], encoder_v = [8, 4], fused = 4, hidden = 4}}
lf_lstm = {{hidden_t = 4, hidden_v = 4, fused = 4}}
"""
"""A configuration of tiny models, whose vision is the feature that is filled in."""


class Nobody:
    """Who looks on at training, and does nothing."""

    def begins(self, epoch: int, epochs: int, steps: int) -> None: ...

    def step(self) -> None: ...

    def epoch(self, done: object) -> None: ...


def _tables(spec: Planted, sessions: list[str], stories: list[str], ratings: np.ndarray) -> Mapping[str, pd.DataFrame]:
    participant = [f"p{number // spec.sessions:03d}" for number in range(len(sessions))]
    end = spec.windows * spec.window / FPS
    rated = [
        (session, stories[row], position + 1, int(ratings[row]))
        for number, session in enumerate(sessions)
        for position, row in enumerate(range(number * spec.stories, (number + 1) * spec.stories))
    ]
    phases = [(session, "story_share", 0.0, end) for session in sessions]
    return {
        "sessions": pd.DataFrame({"session_id": sessions, "participant_id": participant}),
        "phases": pd.DataFrame(phases, columns=["session_id", "phase", "start_s", "end_s"]),
        "ratings": pd.DataFrame(rated, columns=["session_id", "story_id", "position", "empathy"]),
    }


def _publish_values(root: Path, session: str, feature: str, values: np.ndarray) -> None:
    """A feature that this installation does not know."""
    columns = tuple(f"{feature}{number}" for number in range(values.shape[1]))
    array = ArraySpec(Axis.FRAME, "float32", "planted", shape=(values.shape[1],), dims=("column",), columns=columns)
    with FeatureWriter(local(root), session, FeatureSpec(feature, "planted", {"values": array})) as out:
        out.write("values", values)
        out.publish("f", {})


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
