"""A small feature store with every feature, made of random values that a test can compare with."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from storyframes.clips.window_spec import WindowSpec
from storyframes.features import FEATURES, STORIES, Axis, feature_spec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from support.stores import local
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.study.load import Phase, Rating, Session, Study

FPS = 15
STORY_IDS = [f"story{number}" for number in range(5)]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class StudySpec:
    """How the store is made. Every session has a participant of its own, two phases and three ratings."""

    sessions: int = 10
    frames: int = 60
    window: int = 13  # of 15 frames a second: 86 or 87 rows of audio
    stride: int = 5
    lacking: dict[str, Sequence[str]] = field(default_factory=dict)  # features that sessions do not have


@dataclass(frozen=True)
class SyntheticStudy:
    """The store, and what was written into it by session, feature and array."""

    root: Path
    arrays: dict[tuple[str, str, str], np.ndarray]
    clips: pd.DataFrame


_written: dict[str, SyntheticStudy] = {}  # by what was asked for; each store lasts as long as this process


def write_features(root: Path, spec: StudySpec | None = None) -> SyntheticStudy:
    """A store of one's own, copied from the first of its kind in this process."""
    spec = spec or StudySpec()
    if repr(spec) not in _written:
        with _not_flushed():
            _written[repr(spec)] = _write(_folder() / "features", spec)
    written = _written[repr(spec)]
    shutil.copytree(written.root, root)
    return replace(written, root=root, arrays=dict(written.arrays), clips=written.clips.copy())


def _folder() -> Path:
    """A folder that lasts as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="synthetic-features-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _values(number: int, frames: int) -> dict[str, Arrays]:
    return random_features(np.random.default_rng(number), frames)


@cache
def _store(frames: int) -> Path:
    """A store of all sessions that were asked for; each of their features is written once."""
    root = _folder() / "features"
    create_store(root)
    return root


@cache
def _version(number: int, frames: int, feature: str) -> Path:
    """The folder of a feature of a session."""
    root, session = _store(frames), f"s{number:02d}"
    publish(root, session, feature, _values(number, frames)[feature])
    return root / session / feature


@contextmanager
def _not_flushed() -> Iterator[None]:
    """What is written need not outlast a power cut: flushing every file takes most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        yield


def _write(root: Path, spec: StudySpec) -> SyntheticStudy:
    create_store(root)
    arrays: dict[tuple[str, str, str], np.ndarray] = {}
    sessions = [f"s{number:02d}" for number in range(spec.sessions)]
    for number, session in enumerate(sessions):
        for feature, values in _values(number, spec.frames).items():
            if feature not in spec.lacking.get(session, ()):
                version = _version(number, spec.frames, feature)
                shutil.copytree(version, root / session / feature)
                shutil.copy2(version.parent / "zarr.json", root / session)  # the group of the session
                shutil.copystat(version.parent, root / session)
                arrays |= {(session, feature, name): rows for name, rows in values.items()}
    vectors = np.random.default_rng(99).normal(size=(len(STORY_IDS), 384)).astype(np.float32)
    publish(root, STORIES, "sbert", {"values": vectors}, {"story_ids": STORY_IDS})
    catalogue.compact(local(root))
    settings = WindowSpec(window=spec.window, stride=spec.stride, fps=FPS)
    index = build_clip_index(study_of(tables(spec, sessions)), settings, FeatureStore(root)).clips
    write_clip_index(index, local(root))
    return SyntheticStudy(root, arrays | {(STORIES, "sbert", "values"): vectors}, index)


def study_of(tables: dict[str, pd.DataFrame]) -> Study:
    """A study of tables that no files hold."""
    sessions = [Session(video="no.mp4", **row) for row in tables["sessions"].to_dict("records")]
    return Study(
        Path("/nowhere"),
        {session.session_id: session for session in sessions},
        phases=tuple(Phase(**row) for row in tables["phases"].to_dict("records")),
        ratings=tuple(Rating(**row) for row in tables["ratings"].to_dict("records")),
    )


def publish(root: Path, session: str, feature: str, values: Arrays, attributes: dict[str, Any] | None = None) -> None:
    with FeatureWriter(local(root), session, feature_spec(session, feature)) as out:
        for name, rows in values.items():
            out.write(name, rows)
        out.attributes |= attributes or {}
        out.publish("f", {})


def random_features(generator: np.random.Generator, frames: int) -> dict[str, Arrays]:
    """Every feature of a session: lost faces, skipped frames, silence, unknown words, overlapping speech."""
    seconds = frames / FPS
    words, utterances = int(generator.integers(4, 20)), int(generator.integers(2, 6))
    rows = {Axis.FRAME: frames, Axis.AUDIO_FRAME: round(seconds * 100), Axis.WORD: words, Axis.UTTERANCE: utterances}
    features = {
        name: {
            array: generator.normal(size=(rows[each.axis], *each.shape)).astype(each.dtype)
            for array, each in spec.arrays.items()
            if not each.optional
        }
        for name, spec in FEATURES.items()
    }
    openface, dope, opensmile, glove, sbert = (
        features[name] for name in ("openface", "dope", "opensmile", "glove", "sbert")
    )
    features["frames"]["time"] = np.arange(frames) / FPS
    openface["valid"] = chance(generator, 0.9, frames)
    openface["values"][openface["valid"] == 0, 5:] = np.nan
    dope["sampled"] = chance(generator, 0.4, frames)
    dope["body_2d"][dope["sampled"] == 0] = np.nan
    opensmile["time"] = np.arange(rows[Axis.AUDIO_FRAME]) / 100
    opensmile["per_frame"][-3:] = np.nan
    glove["known"] = chance(generator, 0.8, words)
    glove["values"][glove["known"] == 0] = np.nan
    glove["frame_word"] = generator.integers(-1, words, frames).astype(np.int32)
    sbert["frame_utterance"] = generator.integers(-1, utterances, frames).astype(np.int32)
    for spoken, count in ((glove, words), (sbert, utterances)):
        spoken["start"] = generator.uniform(0, seconds, count)
        spoken["end"] = spoken["start"] + generator.uniform(0, 2 * seconds / count, count)
    return features


def chance(generator: np.random.Generator, share: float, count: int) -> np.ndarray:
    return (generator.random(count) < share).astype(np.uint8)


def tables(spec: StudySpec, sessions: list[str]) -> dict[str, pd.DataFrame]:
    half, end = spec.frames // 2 / FPS, spec.frames / FPS
    phases = [row for s in sessions for row in ((s, "story_share", 0.0, half), (s, "reflection", half, end))]
    ratings = [
        (session, STORY_IDS[(number + position) % len(STORY_IDS)], position, 1 + (number * position) % 5)
        for number, session in enumerate(sessions)
        for position in (1, 2, 3)
    ]
    return {
        "sessions": pd.DataFrame({"session_id": sessions, "participant_id": [f"p{session}" for session in sessions]}),
        "phases": pd.DataFrame(phases, columns=["session_id", "phase", "start_s", "end_s"]),
        "ratings": pd.DataFrame(ratings, columns=["session_id", "story_id", "position", "empathy"]),
    }
