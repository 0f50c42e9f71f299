"""The feature motion: what is stored of planted pictures is what NumPy says of them, at their true times."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from support.messages import missing
from support.studies import make_study, run

from storyframes import FeatureStore
from storyframes.store import create_store
from storyframes.testing import check_extractor
from storyframes_dyads.motion import Motion
from tasks.planning.selection import Selection

MILLISECONDS = [0, 40, 80, 130, 170, 210, 370, 410, 450, 490, 530, 545, 585]  # at 370 after a gap, at 545 early
SHAPE = (48, 64)
LEFT, RIGHT = "0.0,0.0,0.5,1.0", "0.5,0.25,0.5,0.75"
BOXES = "time_s,x,y,w,h\n0,0.1,0.1,0.5,0.5\n0.3,0.3,0.1,0.5,0.5\n"


def write_pictures(path: Path, pictures: np.ndarray, milliseconds: list[int]) -> None:
    """A lossless video of (n, height, width, 3) RGB pictures, which are shown at these times."""
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("ffv1", rate=25)
        stream.height, stream.width, stream.pix_fmt = *SHAPE, "bgr0"
        stream.codec_context.time_base = Fraction(1, 1000)
        for time, picture in zip(milliseconds, pictures, strict=True):
            frame = av.VideoFrame.from_ndarray(picture, "rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    """On the left red changes most: another order of colours is another grey. The right grows brighter by 2."""
    draw = np.random.default_rng(3)
    pictures = draw.integers(0, [90, 30, 5], (len(MILLISECONDS), *SHAPE, 3))
    pictures[:, :, 32:] = pictures[0, :, 32:] + 2 * np.arange(len(MILLISECONDS))[:, None, None, None]
    return pictures.astype(np.uint8)


@pytest.fixture(scope="module")
def store(pictures: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    folder = tmp_path_factory.mktemp("motion")
    study = make_study(folder / "study", video="v.mkv")
    write_pictures(study / "v.mkv", pictures, MILLISECONDS)
    (study / "boxes.csv").write_text(BOXES)
    (study / "tracks.csv").write_text(
        f'session_id,track,of,region\ns,a,,"{LEFT}"\ns,b,main,"{RIGHT}"\ns,moving,main,boxes.csv\n'
    )
    create_store(folder / "store")
    outcomes = run(study, folder / "store", Selection(only=("motion",)))
    assert not missing(outcomes.pop("s/motion@moving").reason, "the boxes of this region")
    assert {str(outcome.status) for outcome in outcomes.values()} == {"done"}, outcomes
    return FeatureStore(folder / "store")


@pytest.mark.parametrize(
    ("feature", "rows", "columns"),
    [
        ("motion", slice(None), slice(None)),
        ("motion@a", slice(None), slice(0, 32)),
        ("motion@b", slice(12, 48), slice(32, 64)),
    ],
)
def test_the_values_are_numpys_of_the_same_pictures(
    store: FeatureStore, pictures: np.ndarray, feature: str, rows: slice, columns: slice
) -> None:
    grey = np.rint(pictures[:, rows, columns] @ np.array([0.299, 0.587, 0.114]))
    change = np.abs(np.diff(grey, axis=0)).reshape(len(grey) - 1, -1)
    values, valid = store.read("s", feature), store.read("s", feature, array="valid")
    assert valid.tolist() == [0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1]
    assert np.isnan(values[valid == 0]).all()
    measured = np.flatnonzero(valid)
    np.testing.assert_allclose(values[measured, 0], change.mean(axis=1)[measured - 1], atol=0.02)  # of rounding
    np.testing.assert_allclose(values[measured, 1], (change > 10).mean(axis=1)[measured - 1], atol=0.02)
    if feature == "motion@b":
        np.testing.assert_array_equal(values[measured], [[2, 0]] * len(measured))
    assert store.attributes("s", feature)["interval_s"] == pytest.approx(0.04)


def test_the_share_counts_what_exceeds_the_threshold(tmp_path: Path) -> None:
    pictures = np.full((4, *SHAPE, 3), 100, np.uint8)
    pictures[1, :12] = 110
    pictures[2:, :12] = 121  # by 11, in a quarter of the picture
    study = make_study(tmp_path / "study", video="v.mkv")
    write_pictures(study / "v.mkv", pictures, [0, 40, 80, 120])
    create_store(tmp_path / "store")
    run(study, tmp_path / "store", Selection(only=("motion",)))
    values = FeatureStore(tmp_path / "store").read("s", "motion")
    np.testing.assert_array_equal(values[1:], np.float32([[2.5, 0], [2.75, 0.25], [0, 0]]))
    (motion,) = (one for one in FeatureStore(tmp_path / "store").statuses("s") if one.feature == "motion")
    assert motion.current.quality["unchanged"] == pytest.approx(1 / 3)


@pytest.mark.slow
def test_it_keeps_the_contract_of_extractors(pictures: np.ndarray, tmp_path: Path) -> None:
    write_pictures(tmp_path / "v.mkv", pictures, MILLISECONDS)
    check_extractor(Motion, tmp_path / "v.mkv")


def test_a_frame_after_a_lost_one_has_no_value(tmp_path: Path) -> None:
    """Intervals of 0.5 and of 1.5 median intervals have values, those beyond have none."""
    milliseconds = [0, 40, 80, 120, 200, 220, 280, 299, 360, 420, 440, 480]
    study = make_study(tmp_path / "study", video="v.mkv")
    write_pictures(study / "v.mkv", np.zeros((len(milliseconds), *SHAPE, 3), np.uint8), milliseconds)
    create_store(tmp_path / "store")
    run(study, tmp_path / "store", Selection(only=("motion",)))
    valid = FeatureStore(tmp_path / "store").read("s", "motion", array="valid")
    assert valid.tolist() == [0, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1]
