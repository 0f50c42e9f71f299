"""The plug-in keeps the contract of extractors, and its values are what they are said to be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from storyframes_example import Brightness, BrightnessSettings

from storyframes.testing import check_extractor
from tasks.extractors.base import CommonSettings
from tasks.media.recording import FrameBatch
from tasks.media.synthesize import SyntheticStudy, write_study


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    study = tmp_path_factory.mktemp("study") / "study"
    write_study(study, SyntheticStudy(sessions=1, seconds=1))
    return study / "videos" / "s0001.avi"


@pytest.mark.slow
def test_it_keeps_the_contract(video: Path) -> None:
    check_extractor(Brightness, video)


def rows(*levels: float, before: float | None = None, noise: float = 4.0) -> list[list[float]]:
    """Of grey frames of these levels."""
    frames = np.stack([np.full((4, 6, 3), level, np.uint8) for level in levels])
    previous = None if before is None else np.full((4, 6, 3), before, np.uint8)
    batch = FrameBatch(0, np.arange(len(levels)) / 15, frames, previous)
    return Brightness(BrightnessSettings(noise=noise), CommonSettings()).rows(batch).tolist()


def test_brightness_is_the_mean_and_motion_the_squared_change() -> None:
    assert rows(10, 10, 30) == [[10, 0], [10, 0], [30, 400]]


def test_the_first_frame_of_a_batch_moves_since_the_last_one_of_the_batch_before() -> None:
    assert rows(30, before=10) == [[30, 400]]


def test_what_is_noise_is_no_motion() -> None:
    assert rows(10, 14, 19) == [[10, 0], [14, 0], [19, 25]]
    assert rows(10, 14, noise=0) == [[10, 0], [14, 16]]
