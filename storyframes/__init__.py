"""storyframes: from session recordings to training-ready multimodal features.

This package is the data contract and the reader. It needs numpy, pandas, pyarrow and zarr only; the pipeline that
fills a feature store is the extra ``storyframes[pipeline]``.

>>> import storyframes
>>> store = storyframes.FeatureStore("FEATURES")                                                # doctest: +SKIP
>>> store.read("p01-s01", "vision", 0, 120).shape                                               # doctest: +SKIP
(120, 2762)
>>> storyframes.ClipDataset(store, ["vision", "label"], 'split == "train"')[0]["vision"].shape  # doctest: +SKIP
(120, 2762)
"""

from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput
from storyframes.clips.loader import ClipLoader
from storyframes.clips.oversampling import LeakingOversamplingSampler, OversamplingSampler
from storyframes.clips.samplers import ClipSampler, SequentialSampler, SessionBlockSampler, UniformSampler
from storyframes.features import FEATURES, Axis
from storyframes.store.feature_store import FeatureStore

__version__ = "0.1.0"

__all__ = [
    "FEATURES",
    "Axis",
    "ClipDataset",
    "ClipInput",
    "ClipLoader",
    "ClipSampler",
    "FeatureStore",
    "LeakingOversamplingSampler",
    "OversamplingSampler",
    "SequentialSampler",
    "SessionBlockSampler",
    "UniformSampler",
    "__version__",
]
