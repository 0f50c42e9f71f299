"""The way of a clip from a store to numpy is read in the files that docs/design.md lists."""

from __future__ import annotations

import re
from pathlib import Path

from support.called_files import ROOT, called_files, described
from support.stores import local
from support.track_features import WINDOWS, study_of, write_tracks

from storyframes import ClipDataset, FeatureStore
from tasks.clip_index.index import build_clip_index, write_clip_index


def listed_files(heading: str) -> list[str]:
    """The files of the list under a heading of docs/design.md."""
    section = (ROOT / "docs/design.md").read_text().split(f"### {heading}\n")[1].split("\n#")[0]
    return re.findall(r"`(storyframes/[\w/]+\.py)`", section)


def test_a_clip_comes_to_numpy_through_the_files_that_the_design_lists(tmp_path: Path) -> None:
    """Of openface, in a process that has read another store: whatever is cached in a process is."""
    for name in ("first", "second"):
        write_tracks(tmp_path / name, ("s15",))
        clips = build_clip_index(study_of(sessions=("s15",)), WINDOWS, FeatureStore(tmp_path / name)).clips
        write_clip_index(clips, local(tmp_path / name))
    ClipDataset(tmp_path / "first", ["openface"])[0]
    with called_files() as called:
        clip = ClipDataset(tmp_path / "second", ["openface"])[0]
    assert clip["openface"].shape == (len(clip["openface_mask"]), 714)
    assert sorted(called) == sorted(listed_files("A clip to numpy")), described(called)
