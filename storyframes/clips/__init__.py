"""Clips for training, in the order in which data flows.

The index: ``window_spec`` says how clips are cut, ``windows`` cuts them, and ``clip_index`` makes the rows and assigns
participants to splits.

Reading: ``dataset`` (``ClipDataset``) chooses clips by ``filters`` and opens ``inputs``. An input is one of
``named_inputs`` or any feature of the store (``feature_input``), which says which of the ``readers`` fills a batch from
which rows: those nearest to the points of a ``grid``, or those that ``row_finders`` find. ``standardise`` changes the
values of inputs that ask for it.

Training: ``samplers`` and ``oversampling`` order clips, ``loader`` (``ClipLoader``) makes batches of torch tensors. The
memory of batches is used again (``batch_buffers``).
"""

from typing import TYPE_CHECKING

from storyframes.lazy import exports

if TYPE_CHECKING:
    from storyframes.clips.batch_buffers import BatchBuffers
    from storyframes.clips.clip_index import COLUMNS, SPLITS
    from storyframes.clips.filters import complete_clips, filter_clips, lacking_clips, parse_filter
    from storyframes.clips.inputs import Field
    from storyframes.clips.named_inputs import needed_features

__all__ = [
    "COLUMNS",
    "SPLITS",
    "BatchBuffers",
    "Field",
    "complete_clips",
    "filter_clips",
    "lacking_clips",
    "needed_features",
    "parse_filter",
]

__getattr__, __dir__ = exports(
    __name__,
    {
        "batch_buffers": "BatchBuffers",
        "clip_index": "COLUMNS SPLITS",
        "filters": "complete_clips filter_clips lacking_clips parse_filter",
        "inputs": "Field",
        "named_inputs": "needed_features",
    },
)
