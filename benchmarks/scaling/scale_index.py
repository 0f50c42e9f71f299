"""The clip index of very many sessions of seconds: made, opened and filtered."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from benchmarks.scaling.scale import Measure
from storyframes.clips.filters import filter_clips
from storyframes.clips.window_spec import WindowSpec
from storyframes.features import FEATURES, feature_spec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import INNER_GROUP, create_store, current_path
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Current
from storyframes.store.storage.local_folder import LocalStorage
from tasks.clip_index.index import update_clip_index
from tasks.study.load import load_study

LINKS = 30_000  # to one file; ext4 allows 65,000
_S = 10  # of each session, seconds
_ROWS = {"frames": 15 * _S, "openface": 15 * _S, "opensmile": 100 * _S, "glove": 2 * _S}
_SPEC = WindowSpec(window=30, stride=15)


def sessions_of_seconds(folder: Path, sessions: int) -> tuple[Path, Path]:
    """A study and a store with what its clip index is made of; all sessions share the files of one."""
    study, store = folder / "study", folder / "features"
    study.mkdir()
    names = [f"s{number:06d}" for number in range(sessions)]
    rows = [f"{name},p{number % 1_000:03d},{name}.mp4\n" for number, name in enumerate(names)]
    (study / "sessions.csv").write_text("session_id,participant_id,video\n" + "".join(rows))
    storage = create_store(store)
    assert isinstance(storage, LocalStorage)
    for feature, count in _ROWS.items():
        for number, name in enumerate(names):
            if number % LINKS == 0:
                first = _first(storage, name, feature, count)
            else:
                _link(storage, first, name)
    catalogue.compact(storage)
    return study, store


def _first(storage: LocalStorage, session_id: str, feature: str, count: int) -> Current:
    with FeatureWriter(storage, session_id, feature_spec(session_id, feature)) as out:
        for name, array in FEATURES[feature].arrays.items():
            if array.optional:
                continue
            seconds = np.linspace(0, _S, count, endpoint=False)
            shaped = np.broadcast_to(seconds.reshape(-1, *(1 for _ in array.shape)), (count, *array.shape))
            out.write(name, (shaped if array.dtype.startswith("float") else np.ones_like(shaped)).astype(array.dtype))
        return out.publish("0" * 64, {})


def _link(storage: LocalStorage, first: Current, session_id: str) -> None:
    record = storage.root / current_path(session_id, first.feature)
    for name in first.files:
        linked = record.parent / first.version / name
        linked.parent.mkdir(parents=True, exist_ok=True)
        linked.hardlink_to(storage.root / first.session_id / first.feature / first.version / name)
    for group in (record.parent, record.parent.parent):
        (group / "zarr.json").write_bytes(INNER_GROUP)
    record.write_bytes(dataclasses.replace(first, session_id=session_id).to_json())


def index(made: tuple[Path, Path]) -> str:
    folder, features = made
    built = update_clip_index(load_study(folder), _SPEC, FeatureStore(features))
    return f"{len(built.clips):,} clips"


def indexed(folder: Path, sessions: int) -> tuple[Path, Path]:
    made = sessions_of_seconds(folder, sessions)
    index(made)
    return made


def opened(made: tuple[Path, Path]) -> str:
    return f"{len(FeatureStore(made[1]).clips()):,} clips"


def filtered(made: tuple[Path, Path]) -> str:
    chosen = filter_clips(FeatureStore(made[1]).clips(), "participant_id == 'p007'")
    return f"{len(chosen):,} clips"


INDEXING = Measure("the clip index", sessions_of_seconds, index)
OPENING = Measure("opening the clip index", indexed, opened)
FILTERING = Measure("clips of one participant", indexed, filtered)
