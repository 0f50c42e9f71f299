"""A session that cannot be cut into clips costs its own clips, and is named; the others have theirs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.commands import storyframes_here
from support.messages import missing
from support.stores import local

from storyframes.clips.window_spec import WindowSpec
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.publish import FeatureWriter
from tasks.clip_index.index import build_clip_index
from tasks.study.load import load_study

LATER = "is later than any recording ends: phases are in seconds from the recording's beginning"


def set_phase(study: Path, row: int, **cells: object) -> None:
    phases = pd.read_csv(study / "phases.csv", dtype=str)
    for column, value in cells.items():
        phases.loc[row, column] = str(value)
    phases.to_csv(study / "phases.csv", index=False)


def publish_clock(root: Path, session_id: str, frames: int = 465) -> Path:
    """A session's frame times at 15 fps; the file that holds them."""
    with FeatureWriter(local(root), session_id, FEATURES["frames"]) as out:
        out.write("time", np.arange(frames) / 15)
        version = out.publish("f" * 64, {"inputs": {}}).version
    return root / session_id / "frames" / version


@pytest.mark.parametrize(
    ("start_s", "end_s"),
    [(0, 1.7e12), (1.7e12, 1.7e12 + 60_000), (12.5, 1.7e9), (12.5, 1e300), (12.5, 90_000)],
)
@pytest.mark.parametrize("with_store", [False, True])
def test_absurd_phase_times_exclude_their_session_alone(
    study_copy: Path, store_root: Path, start_s: float, end_s: float, with_store: bool
) -> None:
    whole = build_clip_index(load_study(study_copy), WindowSpec(), None).clips
    set_phase(study_copy, 4, start_s=start_s, end_s=end_s)
    if with_store:
        publish_clock(store_root, "p01-s01")
        catalogue.compact(local(store_root))
    built = build_clip_index(load_study(study_copy), WindowSpec(), FeatureStore(store_root) if with_store else None)
    assert list(built.excluded) == ["p01-s01"]
    assert LATER in built.excluded["p01-s01"]
    assert built.excluded["p01-s01"].startswith("phases, row 6, end_s = ")
    others = whole[whole["session_id"] != "p01-s01"].reset_index(drop=True)
    assert len(others) == 36
    columns = ["clip_id", "split", "start_frame", "start_s", "empathy"]
    pd.testing.assert_frame_equal(built.clips[columns], others[columns])


def test_a_session_whose_arrays_cannot_be_read_is_excluded_by_name(study_copy: Path, store_root: Path) -> None:
    for session_id in ("p01-s01", "p01-s02", "gone"):
        version = publish_clock(store_root, session_id)
        if session_id != "p01-s02":
            for file in version.rglob("*"):
                if file.is_file() and file.name != "zarr.json":
                    file.write_bytes(b"damaged")
    catalogue.compact(local(store_root))
    built = build_clip_index(load_study(study_copy), WindowSpec(), FeatureStore(store_root))
    assert list(built.excluded) == ["p01-s01"]  # and not what the study does not have any more
    assert set(built.clips["session_id"]) == {"p01-s02", "p02-s01"}


def test_a_phase_that_ends_long_after_the_last_frame_is_said(study_copy: Path, store_root: Path) -> None:
    publish_clock(store_root, "p01-s01", 300)
    set_phase(study_copy, 4, end_s="500")
    catalogue.compact(local(store_root))
    built = build_clip_index(load_study(study_copy), WindowSpec(), FeatureStore(store_root))
    assert built.excluded == {}
    phase = load_study(study_copy).phases[4].phase
    assert built.warnings == {
        "p01-s01": f"the phase '{phase}' ends at 500.00 s, the last frame is at {299 / 15:.2f} s",
    }


def test_the_command_writes_the_others_names_it_and_ends_with_1(study_copy: Path, tmp_path: Path) -> None:
    set_phase(study_copy, 4, end_s="1700000000000")
    out = tmp_path / "clips.parquet"
    result = storyframes_here("index", study_copy, "--out", out)
    assert result.returncode == 1
    assert "36 clips of 120 frames" in result.stdout
    assert not missing(result.stderr, "no clips of p01-s01", "phases, row 6", "end_s = '1700000000000.0'", LATER)
    assert set(pd.read_parquet(out)["session_id"]) == {"p01-s02", "p02-s01"}
