"""storyframes: from session recordings to training-ready multimodal features.

This package is the data contract and the reader. It needs numpy, pandas, pyarrow and zarr only; the pipeline that
fills a feature store is the extra ``storyframes[pipeline]``.

``STORE`` is the folder of a feature store, and ``s00`` one of its sessions:

>>> import storyframes
>>> store = storyframes.FeatureStore("STORE")
>>> store.read("s00", "vision.measured", 0, 120).shape  # rows are frames
(120, 2757)
>>> dataset = storyframes.ClipDataset(store, ["vision.measured", "label"], 'split == "train"')
>>> dataset[0]["vision.measured"].shape, dataset[0]["vision.measured"].dtype
((120, 2757), dtype('float32'))

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
    from storyframes.array_roles import CLOCKS, FRAME_ROW, ColumnTable, value_names
    from storyframes.clips.clip_index import SplitSpec
    from storyframes.clips.dataset import ClipDataset
    from storyframes.clips.inputs import ClipInput
    from storyframes.clips.loader import ClipLoader
    from storyframes.clips.oversampling import OversamplingSampler
    from storyframes.clips.samplers import ClipSampler, SequentialSampler, SessionBlockSampler, UniformSampler
    from storyframes.config_file import ConfigFileError, read_toml
    from storyframes.derivation import Derivation
    from storyframes.feature_name import FeatureName
    from storyframes.features import CLOCK, FEATURES, STORIES
    from storyframes.installation import install_line
    from storyframes.label_curves import CurveRule
    from storyframes.notebook import percent
    from storyframes.one_file import extract
    from storyframes.plug_ins import PlugInError, PlugIns
    from storyframes.speaking import attribute, read_speech
    from storyframes.spec import (
        MAIN,
        ArraySpec,
        Axis,
        FeatureSpec,
        shown_names,
    )
    from storyframes.store.feature_store import FeatureStore
    from storyframes.store.named.address import AddressError
    from storyframes.times import (
        SOUND_FITS_S,
        Clock,
        last_frame_end_s,
        spoken_rows,
        ticks,
    )

__version__ = "0.2.0"

__all__ = [
    "CLOCK",
    "CLOCKS",
    "FEATURES",
    "FRAME_ROW",
    "MAIN",
    "SOUND_FITS_S",
    "STORIES",
    "AddressError",
    "ArraySpec",
    "Axis",
    "ClipDataset",
    "ClipInput",
    "ClipLoader",
    "ClipSampler",
    "Clock",
    "ColumnTable",
    "ConfigFileError",
    "CurveRule",
    "Derivation",
    "FeatureName",
    "FeatureSpec",
    "FeatureStore",
    "OversamplingSampler",
    "PlugInError",
    "PlugIns",
    "SequentialSampler",
    "SessionBlockSampler",
    "SplitSpec",
    "UniformSampler",
    "__version__",
    "attribute",
    "exports",
    "extract",
    "install_line",
    "last_frame_end_s",
    "percent",
    "read_speech",
    "read_toml",
    "shown_names",
    "spoken_rows",
    "ticks",
    "value_names",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "feature_name": "FeatureName",
        "store.named.address": "AddressError",
        "array_roles": "CLOCKS FRAME_ROW ColumnTable value_names",
        "clips.clip_index": "SplitSpec",
        "clips.dataset": "ClipDataset",
        "clips.inputs": "ClipInput",
        "clips.loader": "ClipLoader",
        "clips.oversampling": "OversamplingSampler",
        "clips.samplers": "ClipSampler SequentialSampler SessionBlockSampler UniformSampler",
        "config_file": "ConfigFileError read_toml",
        "derivation": "Derivation",
        "features": "CLOCK FEATURES STORIES",
        "installation": "install_line",
        "label_curves": "CurveRule",
        "notebook": "percent",
        "one_file": "extract",
        "plug_ins": "PlugIns PlugInError",
        "speaking": "attribute read_speech",
        "spec": "MAIN ArraySpec Axis FeatureSpec shown_names",
        "store.feature_store": "FeatureStore",
        "times": "SOUND_FITS_S Clock last_frame_end_s spoken_rows ticks",
    },
    {
        "open": "storyframes.FeatureStore('STORE'), or storyframes.extract(file, 'openface') for one recording",
        "load": "storyframes.FeatureStore('STORE')",
        "read": "storyframes.FeatureStore('STORE').read('p01-s01', 'openface')",
        "features": "storyframes.FEATURES",
    },
)
