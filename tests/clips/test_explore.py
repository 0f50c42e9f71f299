from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.stores import local, publish_openface

from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.store.publish import FeatureWriter


@pytest.fixture
def store(store_root: Path) -> FeatureStore:
    publish_openface(store_root, "a", 70)
    with FeatureWriter(local(store_root), "a", FEATURES["frames"]) as out:
        out.write("time", np.arange(70) / 15)
        out.publish("f", {})
    with FeatureWriter(local(store_root), "a", FEATURES["dope"]) as out:
        for name, spec in out.spec.arrays.items():
            if not spec.optional:
                out.write(name, np.full((70, *spec.shape), 1, spec.dtype))
        out.publish("f", {})
    catalogue.compact(local(store_root))
    return FeatureStore(store_root)


def test_a_session_has_named_coordinates(store: FeatureStore) -> None:
    tree = store.session("a").to_xarray()
    assert set(tree.children) == {"dope", "frames", "openface"}
    smile = tree["openface/values"].sel(column="AU12_r")
    column = store.read("a", "openface")[:, list(tree["openface/values"]["column"].values).index("AU12_r")]
    np.testing.assert_array_equal(smile, column)
    np.testing.assert_allclose(tree["openface"]["frame_time"], np.arange(70) / 15)
    wrist = tree["dope/body_2d"].sel(body_joint="left_wrist", xy="x")
    assert wrist.dims == ("frame",)
    assert tree["dope/hands_3d"].dims == ("frame", "side", "hand_joint", "xyz")
    assert "pixels" in tree["dope/body_2d"].attrs["units"]


def test_nothing_is_copied_before_it_is_asked_for(store: FeatureStore) -> None:
    values = store.session("a").to_xarray()["openface/values"]
    assert not values.variable._data.flags.owndata


def test_an_unknown_session(store: FeatureStore) -> None:
    with pytest.raises(StoreError, match="no session 'b'"):
        store.session("b")
    first, frames, *_ = repr(store.session("a")).splitlines()
    assert first.startswith("SessionView a of ")
    assert frames == "  frames/time: ArraySpec(frame, float64, s)"
