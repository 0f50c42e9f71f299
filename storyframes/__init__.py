"""storyframes: from session recordings to training-ready multimodal features.

This package is the data contract and the reader. It needs numpy, pandas, pyarrow and zarr only; the pipeline that
fills a feature store is the extra ``storyframes[pipeline]``.

``STORE`` is the folder of a feature store, and ``s00`` one of its sessions:

>>> import storyframes
>>> store = storyframes.FeatureStore("STORE")
>>> store.read("s00", "vision", 0, 120).shape  # rows are frames
(120, 2762)
>>> dataset = storyframes.ClipDataset(store, ["vision", "label"], 'split == "train"')
>>> dataset[0]["vision"].shape, dataset[0]["vision"].dtype
((120, 2762), dtype('float32'))

Features of one recording, with one line (this needs the pipeline):

>>> storyframes.extract("talk.avi", "frames").to_pandas().index.name
'time'

What the columns are, here of OpenFace's 714:

>>> storyframes.FEATURES["openface"].arrays["values"].columns[5:8]
('gaze_0_x', 'gaze_0_y', 'gaze_0_z')
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from storyframes.clips.dataset import ClipDataset
    from storyframes.clips.inputs import ClipInput
    from storyframes.clips.loader import ClipLoader
    from storyframes.clips.oversampling import (
        OversamplingSampler,
    )
    from storyframes.clips.samplers import ClipSampler, SequentialSampler, SessionBlockSampler, UniformSampler
    from storyframes.clips.splits import SplitSpec
    from storyframes.features import FEATURES, Axis
    from storyframes.one_file import ExtractedFile, extract
    from storyframes.store.feature_store import FeatureStore

__version__ = "0.1.0"

__all__ = [
    "FEATURES",
    "Axis",
    "ClipDataset",
    "ClipInput",
    "ClipLoader",
    "ClipSampler",
    "ExtractedFile",
    "FeatureStore",
    "OversamplingSampler",
    "SequentialSampler",
    "SessionBlockSampler",
    "SplitSpec",
    "UniformSampler",
    "__version__",
    "extract",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "clips.dataset": "ClipDataset",
        "clips.inputs": "ClipInput",
        "clips.loader": "ClipLoader",
        "clips.oversampling": "OversamplingSampler",
        "clips.samplers": "ClipSampler SequentialSampler SessionBlockSampler UniformSampler",
        "clips.splits": "SplitSpec",
        "features": "FEATURES Axis",
        "one_file": "ExtractedFile extract",
        "store.feature_store": "FeatureStore",
    },
)
