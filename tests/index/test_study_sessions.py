"""Which sessions give no clips and why, and what is read of each while the index of a store is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.messages import missing
from support.stores import local
from support.synthetic_features import FPS, StudySpec, publish, study_of, tables, write_features

from storyframes.clips.window_spec import WindowSpec
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import WINDOWS
from tasks.clip_index.index import ClipIndex, build_clip_index, update_clip_index
from tasks.clip_index.session_windows import STEPS, StudySessions, unreadable
from tasks.study.load import Study
from tasks.study.rows import Track

SPEC = WindowSpec(window=13, stride=5, fps=FPS)
SESSIONS = ["s00", "s01", "s02"]


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Study]:
    """A store of three sessions, and their study."""
    spec = StudySpec(sessions=3)
    write_features(tmp_path / "store", spec)
    return tmp_path / "store", study_of(tables(spec, SESSIONS))


def index_of(made: tuple[Path, Study], **changed: Any) -> ClipIndex:
    return build_clip_index(replace(made[1], **changed), SPEC, FeatureStore(made[0]))


def damage_frames(root: Path, session_id: str) -> None:
    version = FeatureStore(root).version(session_id, "frames")
    assert version
    for file in (root / version / "time/c").rglob("*"):
        if file.is_file():
            file.unlink()


def test_damage_costs_its_session_and_no_other(made: tuple[Path, Study]) -> None:
    root, study = made
    damage_frames(root, "s01")
    steps: list[tuple[str, int, int]] = []
    built = update_clip_index(study, SPEC, FeatureStore(root), progress=lambda *step: steps.append(step))
    assert steps == [("s00", 1, 3), ("s01", 2, 3), ("s02", 3, 3)]
    assert list(built.excluded) == ["s01"]
    assert "'storyframes verify'" in built.excluded["s01"]
    assert set(built.clips["session_id"]) == {"s00", "s02"}


def test_faces_of_another_recording_cost_their_session_and_no_other(made: tuple[Path, Study]) -> None:
    """The video was replaced, and OpenFace failed on the new one: its last version is of other frames."""
    publish(made[0], "s01", "frames", {"time": np.arange(29) / FPS})
    faces = {"valid": np.ones(31, np.uint8), "confidence": np.ones(31, np.float32), "values": np.ones((31, 714))}
    publish(made[0], "s01", "openface", faces)
    catalogue.compact(local(made[0]))
    built = index_of(made)
    assert list(built.excluded) == ["s01"]
    assert missing(built.excluded["s01"], "29 frames", "openface has 31 rows", "extract openface again") == []
    assert set(built.clips["session_id"]) == {"s00", "s02"}


def test_a_session_that_its_tables_exclude_is_not_opened(
    made: tuple[Path, Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    damage_frames(made[0], "s01")
    read: list[str] = []
    read_arrays = FeatureStore.views

    def noted(store: FeatureStore, session_id: str, arrays: Sequence[tuple[str, str]]) -> list[np.ndarray]:
        read.append(session_id)
        return read_arrays(store, session_id, arrays)

    monkeypatch.setattr(FeatureStore, "views", noted)
    built = index_of(made, excluded={"s01": "odd tables"})
    assert built.excluded == {"s01": "odd tables"}  # the first reason, not that of the array
    assert set(read) == {"s00", "s02"}


def test_sessions_without_clips_have_no_part_in_the_rate_that_most_have(made: tuple[Path, Study]) -> None:
    """Of three sessions two have 25 frames a second, of which one is apart from its track in time."""
    for session_id in ("s01", "s02"):
        publish(made[0], session_id, "frames", {"time": np.arange(60) / 25})
        publish(made[0], session_id, "openface", {
            "valid": np.ones(60, np.uint8), "confidence": np.ones(60, np.float32), "values": np.ones((60, 714)),
        })  # fmt: skip
    publish(made[0], "s00", "frames", {"time": np.arange(60) / FPS})
    catalogue.compact(local(made[0]))
    assert list(index_of(made).excluded) == ["s00"]
    assert list(index_of(made, excluded={"s02": "odd tables"}).excluded) == ["s02", "s01"]  # of equals, that of [clips]


def test_no_step_changes_the_state_that_it_is_given(made: tuple[Path, Study]) -> None:
    tracks = {"s00": {"main": Track("s00", "main", video="s00.mp4")}}
    study = replace(made[1], tracks=tracks, excluded={"s02": "odd tables"})
    store = FeatureStore(made[0])
    sessions = StudySessions(study, SPEC, store, {}, store.stored_features(study.sessions))
    for step in STEPS:
        before = dict(sessions.excluded), list(sessions.phases), len(sessions.windows)
        after = step(sessions)
        assert (dict(sessions.excluded), list(sessions.phases), len(sessions.windows)) == before
        assert set(sessions.excluded) <= set(after.excluded)
        sessions = after
    assert sessions.left == ["s00", "s01"]
    assert STEPS.index(unreadable) == 4  # after all that needs no array


def test_no_session_stays_open(made: tuple[Path, Study]) -> None:
    root, study = made
    store = FeatureStore(root)
    update_clip_index(study, SPEC, store)
    assert str(root) not in Path("/proc/self/maps").read_text()
    assert len(store.view("s00", "openface"))
    assert str(root) in Path("/proc/self/maps").read_text()


def test_the_windows_that_earlier_versions_kept_are_removed(made: tuple[Path, Study]) -> None:
    root, study = made
    (root / WINDOWS).write_bytes(b"any")
    clips = FeatureStore(root).clips()
    update_clip_index(study, SPEC, FeatureStore(root))
    assert not (root / WINDOWS).exists()
    assert FeatureStore(root).clips().equals(clips)
