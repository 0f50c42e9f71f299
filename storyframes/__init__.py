"""storyframes: from session recordings to training-ready multimodal features.

This package is the data contract and the reader. It needs numpy, pandas, pyarrow and zarr only; the pipeline that
fills a feature store is the extra ``storyframes[pipeline]``.

>>> import storyframes
>>> store = storyframes.FeatureStore("FEATURES")               # doctest: +SKIP
>>> store.read("p01-s01", "vision", 0, 120).shape              # doctest: +SKIP
(120, 2762)
"""

from storyframes.features import FEATURES
from storyframes.store import FeatureStore

__version__ = "0.1.0"

__all__ = ["FEATURES", "FeatureStore", "__version__"]
