"""The way of labels to columns of the clip index: few files, and few changes from one to another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support.called_files import called_files, described
from support.synthetic_features import FPS, StudySpec, study_of, tables, write_features

from storyframes.clips.window_spec import WindowSpec
from storyframes.store.feature_store import FeatureStore
from tasks.clip_index.index import update_clip_index
from tasks.study.labels import Label, Scheme, SchemeType

MOST, MOST_CHANGES = 27, 420
SPEC = WindowSpec(window=13, stride=5, fps=FPS)


def test_labels_come_to_the_clip_index_through_few_files(tmp_path: Path) -> None:
    """Of three sessions, in a process that has made another index: whatever is cached in a process is."""
    spec, sessions = StudySpec(sessions=3), ["s00", "s01", "s02"]
    write_features(tmp_path / "first", spec)
    write_features(tmp_path / "second", spec)
    labels = tuple(
        Label(session, "mood", value, start_s=start_s, end_s=start_s + 1, rater_id=rater)
        for session in sessions
        for rater in ("r1", "r2")
        for start_s, value in enumerate(("calm", "tense", "calm"))
    )
    study = study_of(tables(spec, sessions))
    study = replace(study, schemes={"mood": Scheme("mood", SchemeType.NOMINAL)}, labels=(*study.labels, *labels))
    update_clip_index(study, SPEC, FeatureStore(tmp_path / "first"))
    store = FeatureStore(tmp_path / "second")
    with called_files() as called:
        built = update_clip_index(study, SPEC, store)
    assert not built.excluded
    assert set(built.clips["mood"].dropna()) == {"calm", "tense"}
    assert 10 < len(called) <= MOST, described(called)
    assert 100 < called.changes <= MOST_CHANGES
