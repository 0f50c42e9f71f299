"""Versions on an object store."""

from __future__ import annotations

import numpy as np

from storyframes.features import feature_spec
from storyframes.store.layout import open_storage
from storyframes.store.publish import FeatureWriter


def publish(url: str, session_id: str, rows: int = 70, seed: int = 0, feature: str = "frames") -> str:
    """A version of random values at this address; returns its name."""
    storage = open_storage(url)
    generator = np.random.default_rng(seed)
    with FeatureWriter(storage, session_id, feature_spec(session_id, feature)) as out:
        if feature == "frames":
            out.write("time", np.sort(generator.uniform(0, 9, rows)))
        else:
            out.write("values", generator.normal(size=(rows, 2048)))
        return out.publish(f"{seed}" * 64, {"inputs": {}}).version
