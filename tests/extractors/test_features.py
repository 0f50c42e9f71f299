from __future__ import annotations

from pathlib import Path

import pytest
from support.messages import naming

from storyframes.features import COMPARE_2016_COLUMNS, FEATURES, OPENFACE_COLUMNS, VISION, feature_spec


def test_openface_columns_are_those_of_the_real_tool(shared: Path) -> None:
    header = (shared / "data/openface/face15fps_480p_audio.csv").open().readline()
    assert tuple(name.strip() for name in header.split(",")) == OPENFACE_COLUMNS


def test_openface_groups_cover_all_columns_once() -> None:
    sizes = {name: group.stop - group.start for name, group in FEATURES["openface"].groups.items()}
    assert sizes.pop("measurements") == 714 - sizes["bookkeeping"]
    assert sizes == {
        "bookkeeping": 5,
        "gaze": 8,
        "eye_landmarks": 280,
        "pose": 6,
        "landmarks_2d": 136,
        "landmarks_3d": 204,
        "shape": 40,
        "action_units": 35,
    }
    assert sum(sizes.values()) == 714 == len(set(OPENFACE_COLUMNS))


def test_vision_has_2762_columns() -> None:
    assert sum(len(FEATURES[feature].columns) for feature in VISION) == 2762


def test_opensmile_columns_are_those_of_the_library() -> None:
    import opensmile

    smile = opensmile.Smile(
        feature_set=opensmile.FeatureSet.ComParE_2016, feature_level=opensmile.FeatureLevel.LowLevelDescriptors
    )
    assert tuple(smile.feature_names) == COMPARE_2016_COLUMNS


@pytest.mark.parametrize("feature", FEATURES.values(), ids=list(FEATURES))
def test_every_column_has_a_unique_name(feature) -> None:
    for array in feature.arrays.values():
        if array.shape:
            assert len(array.dims) == len(array.shape)
        if array.columns:
            assert len(set(array.columns)) == array.shape[-1]


def test_an_unknown_feature_names_those_there_are() -> None:
    with pytest.raises(KeyError, match=naming("'opneface'", "openface")):
        feature_spec("p01-s01", "opneface")
