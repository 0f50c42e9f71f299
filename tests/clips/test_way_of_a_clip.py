"""The way of a clip from a store to numpy: few files, and a reader for every kind of rows."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from support.called_files import ROOT, called_files, described
from support.stores import local
from support.synthetic_features import StudySpec, write_features
from support.track_features import WINDOWS, study_of, write_tracks

from storyframes import Axis, ClipDataset, FeatureStore
from storyframes.array_roles import CLOCKS
from storyframes.clips.feature_input import READERS, Way
from tasks.clip_index.index import build_clip_index, write_clip_index

MOST = 25
MOST_CALLS = 3_000  # without the check of each session's 2,762 names about 2,000


def test_a_clip_comes_to_numpy_through_few_files(tmp_path: Path) -> None:
    """Of openface, in a process that has read another store: whatever is cached in a process is."""
    write_tracks(tmp_path / "first", ("s15",))
    clips = build_clip_index(study_of(sessions=("s15",)), WINDOWS, FeatureStore(tmp_path / "first")).clips
    write_clip_index(clips, local(tmp_path / "first"))
    shutil.copytree(tmp_path / "first", tmp_path / "second")
    ClipDataset(tmp_path / "first", ["openface"])[0]
    with called_files() as called:
        clip = ClipDataset(tmp_path / "second", ["openface"])[0]
    assert clip["openface"].shape == (len(clip["openface_mask"]), 714)
    assert 5 < len(called) <= MOST, described(called)


def test_a_dataset_of_three_sessions_is_opened_in_few_calls(tmp_path: Path) -> None:
    """What a feature is is checked once, not again for each session that has it; vision has 2,762 columns."""
    write_features(tmp_path / "features", StudySpec(sessions=3))
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(f"{ROOT}/storyframes/")

    sys.setprofile(count)
    try:
        dataset = ClipDataset(tmp_path / "features", ["vision.measured", "label"])
    finally:
        sys.setprofile(None)
    assert dataset.clips["session_id"].nunique() == 3
    assert 500 < calls <= MOST_CALLS


def test_every_kind_of_rows_has_a_reader_for_each_way_that_a_clip_can_have_them() -> None:
    per_frame = {(axis, Way.PER_FRAME) for axis in (Axis.FRAME, *CLOCKS)}
    own_rows = {(axis, way) for axis in CLOCKS for way in (Way.OWN_ROWS, Way.AT_RATE) if axis is not Axis.MOMENT}
    pooled = {(axis, Way.POOLED) for axis in (Axis.FRAME, Axis.AUDIO_FRAME)}
    assert set(READERS) == per_frame | own_rows | pooled
