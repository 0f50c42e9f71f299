"""An input of a clip as a training job wants it, and what its readers are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from storyframes.spec import Axis
from storyframes.store.feature_store import FeatureStore


@dataclass(frozen=True)
class ClipInput:
    """One input as a training job wants it.

    Attributes:
        name: any feature of the store, or vision, audio, words, sentence, story or label.
        columns: names of columns or groups of ``values``, in the order wanted, and of the feature's other arrays; None
            takes all columns of ``values``, or all arrays where there is no ``values``. The store says which there are
            (:meth:`FeatureStore.spec`). The groups of openface and vision are "gaze", "eye_landmarks", "pose",
            "landmarks_2d", "landmarks_3d", "shape", "action_units", "bookkeeping", and "measurements", which is all of
            these but the bookkeeping; vision has "openface" and "resnet50" as well. dope has no ``values`` but arrays
            ("body_2d", "hands_3d").
        axis: what a row stands for, by default what it is in ``values``. :attr:`Axis.FRAME` gives a feature of sound,
            words or utterances one row per frame, if it is stored so.

    Raises:
        TypeError: ``columns`` is one string.
        ValueError: there is no such axis. Whether there is such an input and such columns, :class:`ClipDataset` says.

    Example:
        >>> from storyframes import ClipDataset, ClipInput
        >>> face = ClipInput("openface", ["gaze", "AU12_r"])
        >>> dataset = ClipDataset("FEATURES", [face, ClipInput("audio", axis="frame")])
        >>> dataset.fields["openface"].columns[-2:]
        ('gaze_angle_y', 'AU12_r')
        >>> {name: field.shape for name, field in dataset.fields.items() if not name.endswith("_mask")}
        {'openface': (120, 9), 'audio': (120, 65), 'index': ()}
    """

    name: str
    columns: Sequence[str] | None = None
    axis: Axis | None = None

    def __repr__(self) -> str:
        columns = "" if self.columns is None else f", {list(self.columns)!r}"
        return f"ClipInput({self.name!r}{columns}{f', axis={str(self.axis)!r}' if self.axis else ''})"

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            raise TypeError(f"columns={self.columns!r} is one string; give a sequence of names: [{self.columns!r}]")
        if self.axis is not None:
            object.__setattr__(self, "axis", Axis(self.axis))  # "frame" will do


@dataclass(frozen=True)
class ClipSource:
    """What readers are made from.

    Attributes:
        store: the store.
        index: the whole clip index.
        sessions: the sessions of the clips that will be read; each has what the input needs.
        frames: frames of a clip.
    """

    store: FeatureStore
    index: pd.DataFrame
    sessions: Sequence[str]
    frames: int
