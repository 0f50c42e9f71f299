"""Small studies of two people with several cameras and microphones, and what is extracted of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from storyframes.features import OPENFACE_COLUMNS
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from storyframes.store.records import Status
from support.stores import local
from support.studies import run
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.media.synthetic_study import Shape
from tasks.planning.selection import Selection

SECONDS, _LOST = 3, 25  # frames of child_b's camera without a face, at its end


def write_group(folder: Path) -> Path:
    """Two sessions of two children, three cameras, labels of one; OpenFace has looked at one child in the first.

    The study and its features are in ``study`` and ``features``.
    """
    write_study(folder / "study", SyntheticStudy(2, SECONDS, width=64, height=48, shape=Shape.GROUP))
    tracks = pd.read_csv(folder / "study/tracks.csv")
    of_child = (tracks["session_id"] == "s0001") & (tracks["track"] == "child_b")
    tracks.loc[of_child, "openface"] = "media/child_b.csv"
    tracks.to_csv(folder / "study/tracks.csv", index=False)
    _write_openface(folder / "study/media/child_b.csv", round(SECONDS * 0.9 * 25))
    return _extracted(folder)


def write_dyad(folder: Path) -> Path:
    """A session of two people, two cameras and two microphones."""
    write_study(folder / "study", SyntheticStudy(1, SECONDS, width=64, height=48, shape=Shape.DYAD))
    return _extracted(folder)


def _write_openface(path: Path, frames: int) -> None:
    """OpenFace's output of a face that looks to the right, lost at the end."""
    table = pd.DataFrame(0.0, index=range(frames), columns=list(OPENFACE_COLUMNS))
    table["frame"], table["timestamp"] = range(1, frames + 1), (np.arange(frames) / 25).round(3)
    for landmark in range(68):
        table[f"x_{landmark}"], table[f"y_{landmark}"] = 40.0, 10.0 + landmark % 8
    table["success"], table["confidence"] = (np.arange(frames) < frames - _LOST).astype(int), 0.9
    table["pose_Ry"] = 0.5
    table.to_csv(path, index=False)


def _extracted(folder: Path) -> Path:
    create_store(folder / "features")
    outcomes = run(folder / "study", folder / "features", Selection(only=("frames", "opensmile", "openface")))
    assert {one.status for one in outcomes.values()} <= {Status.DONE, Status.MISSING}
    catalogue.compact(local(folder / "features"))
    return folder
