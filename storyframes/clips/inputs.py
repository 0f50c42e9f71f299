"""An input of a clip as a training job wants it, and what its readers are made from."""

from __future__ import annotations

import math
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
            ("body_2d", "hands_3d"). Of label they are schemes, each a field of its own.
        axis: what a row stands for, by default what it is in ``values``. :attr:`Axis.FRAME` gives a feature of sound,
            words or utterances one row per frame, if it is stored so.
        speakers: of words and utterances, only those of these speakers, by the names that the store has for them
            (``participant``, ``robot``); None takes everybody's.
        rate: points a second of a grid that begins with the clip; each has the row nearest to it, whatever rate the
            feature has. None takes the rows as they are.

    Raises:
        TypeError: ``columns`` or ``speakers`` is one string.
        ValueError: there is no such axis or rate, or ``speakers`` is empty. Whether there is such an input and such
            columns and speakers, :class:`ClipDataset` says.

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
    speakers: Sequence[str] | None = None
    rate: float | None = None

    def __repr__(self) -> str:
        columns = "" if self.columns is None else f", {list(self.columns)!r}"
        axis = f", axis={str(self.axis)!r}" if self.axis else ""
        speakers = "" if self.speakers is None else f", speakers={list(self.speakers)!r}"
        rate = "" if self.rate is None else f", rate={self.rate:g}"
        return f"ClipInput({self.name!r}{columns}{axis}{speakers}{rate})"

    def __post_init__(self) -> None:
        for what, names in (("columns", self.columns), ("speakers", self.speakers)):
            if isinstance(names, str):
                raise TypeError(f"{what}={names!r} is one string; give a sequence of names: [{names!r}]")
        if self.speakers is not None and not len(self.speakers):
            raise ValueError("speakers is empty: name at least one, or leave it out for all")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise ValueError(f"rate={self.rate!r} has to be more than 0 rows a second")
        if self.axis is not None:
            object.__setattr__(self, "axis", Axis(self.axis))  # "frame" will do


@dataclass(frozen=True)
class ClipSource:
    """What readers are made from.

    Attributes:
        store: the store.
        index: the whole clip index.
        sessions: the sessions of the clips that will be read; each has what the input needs.
        clips: the clips that will be read, in the dataset's order.
    """

    store: FeatureStore
    index: pd.DataFrame
    sessions: Sequence[str]
    clips: pd.DataFrame

    @property
    def frames(self) -> int:
        """The frames of every clip.

        Raises:
            ValueError: some have more than others.
        """
        lengths = (self.clips["stop_frame"] - self.clips["start_frame"]).unique()
        if len(lengths) > 1:
            raise ValueError(
                f"clips have {sorted(lengths.tolist())} frames: filter those of one length, give each input that has a "
                "row per frame a rate= in rows a second, or index the study again"
            )
        return int(lengths[0])
