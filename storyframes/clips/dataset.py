"""A dataset of clips: chosen from the clip index, read from the feature store, numpy only."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from storyframes.clips.batch_buffers import BatchBuffers, new_memory
from storyframes.clips.clip_index import SplitSpec
from storyframes.clips.filters import complete_clips, filter_clips, lacking_clips
from storyframes.clips.inputs import MASK, Batch, Clip, ClipInput, ClipSource, Field
from storyframes.clips.named_inputs import needed_features, open_input
from storyframes.clips.readers import FeatureReader, InputReader, PaddedRows
from storyframes.clips.standardise import Scale, Standardiser, standardiser, training_scales
from storyframes.mistakes import explained, no_attribute, unknown
from storyframes.notebook import html_table, percent, strip
from storyframes.spec import MAIN
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError

NO_STORY = ""
_INSTEAD = {
    "columns": "dataset.fields['openface'].columns, or dataset.clips.columns for those of the clip index",
    "labels": "dataset.clips['empathy'] for the values, dataset.schemes for the names of the labels",
    "index": "dataset.clips",
    "features": "dataset.fields",
    "shape": "dataset.fields['openface'].shape",
    "class_weights": "OversamplingSampler(dataset, seed=1), which gives each label equally often",
    "shuffle": "ClipLoader(dataset, 16, UniformSampler(dataset, seed=1))",
}


class ClipDataset:
    """The clips of a study as a map-style dataset.

    For :class:`~storyframes.clips.loader.ClipLoader` or torch's DataLoader.

    A sample is a dict of numpy arrays by field. The fields, their shapes and dtypes are the same for every clip
    (``fields``; docs/training.md lists them for every input). ``index``, int64, is the clip's place in the dataset.
    Values are as stored, including NaN; fields that end in ``_mask`` are bool and say which rows are measurements.

    A dataset can be pickled, and a process that used it can be forked. Every process opens the store for itself, with
    the versions of this dataset.

    Args:
        store: the feature store, or its folder.
        inputs: names, or :class:`~storyframes.clips.inputs.ClipInput` to choose columns or rows.
        where: which clips: an expression over the clip index, as text (``split == "train" and face_tracked >= 0.9``,
            see :func:`~storyframes.clips.filters.parse_filter`) or pyarrow's (``pc.field("split") == "train"``), or
            several, which all have to be true; None takes all.
        drop_missing: leave out clips that lack an input; otherwise they are an error.
        split: draw participants into other splits than the clip index's; ``where`` and ``clips`` use these splits. None
            takes those of the index.

    Attributes:
        clips: the clips' rows of the clip index; sample i is row i.
        split_spec: ``split``, as given.
        fields: shape, dtype and column names of each array of a sample.
        schemes: the type of each column of labels in ``clips``: nominal, ordinal or interval.
        missing: by field of an input with ``missing="mask"``, the share of the clips whose session lacks it, 0 to 1.

    Raises:
        StoreError: the store does not exist, or has no clip index.
        ValueError: no clip is left, a clip lacks an input, or no input or column has such a name.

    Example:
        >>> dataset = ClipDataset("STORE", ["vision.measured", "label"], 'split == "train" and phase == "reflection"')
        >>> clip = dataset[0]
        >>> sorted(clip)
        ['index', 'label', 'vision.measured', 'vision.measured_mask']
        >>> clip["vision.measured"].shape, clip["vision.measured"].dtype, clip["vision.measured_mask"].shape
        ((120, 2757), dtype('float32'), (120,))
        >>> dataset.clips["phase"].unique().tolist()
        ['reflection']
        >>> dataset[0:3]["vision.measured"].shape  # several clips, stacked
        (3, 120, 2757)
        >>> empathic = dataset.filter("empathy > 3")
        >>> sorted(empathic.to_pandas()["empathy"].unique().tolist())
        [4, 5]
    """

    @explained(
        "ClipDataset('STORE', ['openface.gaze', 'label'], 'split == \"train\"')",
        columns="ClipInput('openface', ['gaze']), or the name 'openface.gaze'",
        batch_size="ClipLoader(dataset, 16)",
        shuffle="ClipLoader(dataset, 16, UniformSampler(dataset, seed=1))",
    )
    def __init__(
        self,
        store: FeatureStore | str | os.PathLike[str],
        inputs: Sequence[str | ClipInput],
        where: str | pc.Expression | Sequence[str | pc.Expression] | None = None,
        *,
        drop_missing: bool = False,
        split: SplitSpec | None = None,
    ) -> None:
        if not isinstance(split, SplitSpec | None):
            raise TypeError(f"split={split!r} is no SplitSpec; to read one split, give where='split == \"train\"'")
        self.store = store if isinstance(store, FeatureStore) else FeatureStore(store)
        self.split_spec = split
        self._where = [where] if isinstance(where, str | pc.Expression) else list(where or ())
        self._asked, self._drop_missing = _distinct(inputs), drop_missing
        self._inputs = [requested.resolved(self.store) for requested in self._asked]
        index = self.store.clips()
        clocks, track = index.attrs.pop("clocks", {}), index.attrs.pop("track", MAIN)
        index.attrs.pop("clock_errors", None)  # nothing here needs them
        window_s = index.attrs.pop("window_s", None)
        index = index if split is None else split.applied(index)
        chosen = filter_clips(index, None)
        for condition in self._where:
            chosen = filter_clips(chosen, condition)
        self.schemes: dict[str, str] = dict(index.attrs.get("schemes", {}))
        self.clips: pd.DataFrame = complete_clips(chosen, self.store, self._inputs, drop_missing=drop_missing)
        self._rows, self._sessions, self._stories = _compact(self.clips)
        if self.store.is_far:  # in one round trip, instead of one for each input
            needed = {feature for requested in self._inputs for feature in needed_features(requested, self.store)}
            keys = ((session, feature) for feature in sorted(needed) for session in self._sessions)
            self.store.read_specs(key for key in keys if self.store.has(*key))
        source = ClipSource(self.store, index, self._sessions, self.clips, clocks, track, window_s)
        self._readers: list[InputReader] = []
        self._standardisers: list[Standardiser] = []
        self.missing: dict[str, float] = {}
        self.fields: dict[str, Field] = {}
        for asked, requested in zip(self._asked, self._inputs, strict=True):
            readers = self._open(source, requested)
            for name, field in ((name, field) for reader in readers for name, field in reader.fields.items()):
                if name in self.fields or name == "index":
                    raise ValueError(
                        f"the input {requested.field!r} has the field {name!r}, which another input has already"
                    )
                self.fields[name] = field
            self._readers += readers
            if requested.standardise is not None:
                training = partial(self._training, asked)
                self._standardisers += [standardiser(requested, reader, source, training) for reader in readers]
        self._of_window = [name for reader in self._readers if reader.of_window for name in reader.fields]
        self.fields["index"] = Field((), np.dtype(np.int64))
        self._buffers: BatchBuffers | None = None  # of the largest batch so far, of so many clips
        self._most = 0

    def _training(self, asked: ClipInput) -> dict[str, Scale]:
        """The scales of an input's fields over the training clips that have it, each window of them once.

        Raises:
            ValueError: the training clips have other fields or columns than the clips of this dataset.
        """
        plain = ClipDataset(
            self.store,
            [replace(asked, standardise=None)],
            'split == "train"',
            drop_missing=True,
            split=self.split_spec,
        )
        name = plain._inputs[0].field
        beside = {"index", f"{name}_mask", f"{name}_length"}
        fields = {each: field for each, field in plain.fields.items() if each not in beside}
        for each, field in fields.items():
            own = self.fields.get(each)
            if own is None or replace(own, shape=own.shape[1:]) != replace(field, shape=field.shape[1:]):
                raise ValueError(
                    f"standardise='training': the training clips have other columns in {each!r} ({field}) than these "
                    f"clips ({own}): extract all sessions with one configuration and one version of the extractor"
                )
        clips = (plain[int(clips[0])] for clips in plain.windows()["clips"])
        return training_scales(clips, fields, f"{name}_mask")

    def _open(self, source: ClipSource, requested: ClipInput) -> list[InputReader]:
        """The readers of an input; where it may be missing, they are made from clips that have it."""
        if requested.missing != MASK:
            return open_input(source, requested)
        lacking = lacking_clips(source.clips, self.store, requested).to_numpy()
        self.missing[requested.field] = float(lacking.mean())
        if not lacking.any():
            return open_input(source, requested)
        clips = source.clips[~lacking]
        if not len(clips):  # the fields are those of the clips that have it
            clips = source.index[~lacking_clips(source.index, self.store, requested)]
        having = clips.reset_index(drop=True)
        if not len(having):
            raise ValueError(f"no clip of the index has the input {requested.field!r}: leave it out")
        of_these = replace(source, sessions=list(having["session_id"].unique()), clips=having)
        return [
            replace(reader, has_feature=~lacking) if isinstance(reader, FeatureReader) else reader
            for reader in open_input(of_these, requested)
        ]

    def __getstate__(self) -> dict[str, Any]:
        """All but the memory of batches."""
        return {**self.__dict__, "_buffers": None, "_most": 0}

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        where = f"{len(self._sessions)} sessions in {self.store.storage.location}"
        lines = [f"ClipDataset: {len(self):,} clips of {where}, of {', '.join(map(repr, self._inputs))}"]
        lines += [f"  split anew: {self.split_spec!r}"] if self.split_spec else []
        lines += [f"  {name}: masked in {percent(share)} of the clips" for name, share in self.missing.items()]
        return "\n".join([*lines, *(f"  {name}: {field.shape} {field.dtype}" for name, field in self.fields.items())])

    def _repr_html_(self) -> str:
        """The arrays of a clip, and how many clips each label has: no ids, no names of labels' values."""
        fields = html_table(
            f"ClipDataset: {len(self):,} clips of {len(self._sessions)} sessions",
            ("array", "shape of a clip", "dtype", "masked"),
            [(name, field.shape, field.dtype, self._masked(name)) for name, field in self.fields.items()],
            (f"{split}: {count:,} clips" for split, count in self.clips["split"].value_counts(sort=False).items()),
        )
        labels = []
        for name, level in self.schemes.items():
            values = self.clips[name].dropna()
            numbers = values.to_numpy(float) if level == "interval" else pd.factorize(values, sort=True)[0]
            bins = np.histogram(numbers, 20 if level == "interval" else max(values.nunique(), 1))[0]
            labels.append((name, level, f"{len(values):,}", strip(bins / max(bins.max(), 1))))
        return fields + (html_table("Labels", ("label", "level", "clips", "how many"), labels) if labels else "")

    def _masked(self, field: str) -> str:
        """The share of clips where the input of a field is masked; "" where none may be."""
        inputs = [name for name in self.missing if field == name or field.startswith(f"{name}_")]
        return percent(self.missing[max(inputs, key=len)]) if inputs else ""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name, _INSTEAD)

    def filter(self, where: str | pc.Expression) -> ClipDataset:
        """The clips of this dataset for which ``where`` is true, as a dataset with the same inputs.

        Raises:
            ValueError: as of the dataset.
        """
        if not isinstance(where, str | pc.Expression):
            raise TypeError(f"filter({where!r}): give a condition as text, as filter('empathy > 3')")
        chosen = [*self._where, where]
        return ClipDataset(self.store, self._asked, chosen, drop_missing=self._drop_missing, split=self.split_spec)

    def split(self, name: str) -> ClipDataset:
        """The clips of one split, ``train``, ``val`` or ``test``: a short way to write :meth:`filter`."""
        return self.filter(f"split == {str(name)!r}")

    def to_pandas(self) -> pd.DataFrame:
        """The clips' rows of the clip index: who, when, which labels. The numbers are in ``dataset[i]``."""
        return self.clips.copy()

    def describe(self) -> pd.DataFrame:
        """By split, how many clips, windows, sessions and people there are, and the labels of the clips.

        Of a label that is a number, how many clips have it, their mean and standard deviation, the lowest and the
        highest; of another, how many clips have each value.
        """
        columns = {}
        for split, clips in [*self.clips.groupby("split", observed=True), ("all", self.clips)]:
            windows = len(clips.drop_duplicates(["session_id", "start_frame"]))
            people = clips[["session_id", "participant_id"]].nunique()
            column = {"clips": len(clips), "windows": windows, "sessions": people.iloc[0], "people": people.iloc[1]}
            for name in self.schemes:
                values = clips[name].dropna()
                if isinstance(values.dtype, pd.CategoricalDtype) or not pd.api.types.is_numeric_dtype(values.dtype):
                    column |= {f"{name}: {value}": count for value, count in values.value_counts(sort=False).items()}
                else:
                    stats = values.astype(float).agg(["count", "mean", "std", "min", "max"])
                    column |= {f"{name}: {what}": value for what, value in stats.items()}
            columns[split] = column
        return pd.DataFrame(columns)

    def __getitem__(self, index: int | slice | str | Sequence[int]) -> dict[str, np.ndarray]:
        """One clip, by its place or its ``clip_id``: its arrays by field, and its ``index``.

        A slice or a list of places (or a mask, one bool for each clip) gives several clips stacked, as :meth:`read`.

        Raises:
            IndexError: there is no such clip.
        """
        if isinstance(index, str):
            places = np.flatnonzero(self.clips["clip_id"] == index)
            if not len(places):
                raise IndexError(unknown(" in the dataset", "clip", index, self.clips["clip_id"], most=3))
            index = int(places[0])
        if isinstance(index, slice):
            return dict(self.read(range(len(self))[index]))
        if np.ndim(index):
            numbers = np.asarray(index)
            if numbers.dtype == bool or pd.api.types.is_bool_dtype(getattr(index, "dtype", None)):
                if len(numbers) != len(self):
                    raise IndexError(f"the mask is of {len(numbers)} clips, and there are {len(self)}")
                numbers = np.flatnonzero(pd.array(numbers, "boolean").to_numpy(bool, na_value=False))
            return dict(self.read(numbers.tolist()))
        clip, batch = self._clip(self._place(index)), self.allocate(1)
        for reader in self._readers:
            reader.will_need(self.store, clip)
        for reader in self._readers:
            reader.read(self.store, clip, batch, 0)
        for scaled in self._standardisers:
            scaled.apply(self.store, [clip], batch, [0])
        batch["index"][0] = clip.row
        return {name: values[0] for name, values in batch.items()}

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, np.ndarray]]:
        """Several clips, as torch's DataLoader asks for those of a batch; their arrays share one batch's memory."""
        if self._buffers is None or len(indices) > self._most:
            self._most = len(indices)
            self._buffers = BatchBuffers(self.fields, self._most, 1, new_memory)
        batch = self.read(indices, out=self._buffers.take(len(indices)))
        return [{name: values[place] for name, values in batch.items()} for place in range(len(indices))]

    def read(self, indices: Sequence[int], out: Batch | None = None) -> Batch:
        """Clips stacked: every field with the clips as its first dimension.

        Args:
            indices: which clips; a negative number counts from the end. The rows of a window are read once, however
                many of the clips are of it.
            out: arrays to fill, as :meth:`allocate` makes them for as many clips.

        Returns:
            By field, an array of the shape ``(n, *shape of the field)``; ``out`` if given.

        Raises:
            IndexError: a clip's number is out of range.
            StoreError: the store does not have its rows, or no longer.
        """
        numbers = [self._place(index) for index in indices]
        clips = [self._clip(number) for number in numbers]
        batch = self.allocate(len(clips)) if out is None else out
        first: dict[tuple[str, int], int] = {}  # the place of the first clip of each window
        alike = [first.setdefault((clip.session_id, clip.start_frame), place) for place, clip in enumerate(clips)]
        windows = list(first.values())
        clips_of_windows = [clips[place] for place in windows]
        for reader in self._readers:
            for clip in clips_of_windows:
                reader.will_need(self.store, clip)
        for reader in self._readers:  # in the order of what was announced
            if reader.of_window:
                reader.read_all(self.store, clips_of_windows, batch, windows)
            else:
                reader.read_all(self.store, clips, batch, range(len(clips)))
        for scaled in self._standardisers:  # of features alone, which have one row of numbers for a window
            scaled.apply(self.store, clips_of_windows, batch, windows)
        for place, same in enumerate(alike):
            if same != place:
                for name in self._of_window:
                    batch[name][place] = batch[name][same]
        batch["index"][: len(clips)] = numbers
        return batch

    def windows(self) -> pd.DataFrame:
        """The distinct windows of the clips: clips with several labels of one window share it.

        Returns:
            One row per window, in the order of their first clips: session_id, start_frame, stop_frame, start_s, stop_s,
            and clips, the places of its clips in the dataset, (n,) int64, increasing.

        Example:
            >>> dataset = ClipDataset("STORE", ["vision.measured", "label"])
            >>> windows = dataset.windows()
            >>> len(dataset), len(windows)  # every session has three ratings
            (60, 20)
            >>> batch = dataset.read([clips[0] for clips in windows["clips"]])  # each window once
            >>> labels = [dataset.clips["empathy"].iloc[clips].tolist() for clips in windows["clips"]]
            >>> batch["vision.measured"].shape, len(labels), len(labels[0])
            ((20, 120, 2757), 20, 3)
        """
        columns = ["session_id", "start_frame", "stop_frame", "start_s", "stop_s"]
        window = self.clips.groupby(["session_id", "start_frame"], sort=False).ngroup().to_numpy()
        _, first = np.unique(window, return_index=True)
        clips = np.split(np.argsort(window, kind="stable"), np.cumsum(np.bincount(window))[:-1])
        return self.clips.loc[first, columns].reset_index(drop=True).assign(clips=pd.Series(clips, dtype=object))

    def stored_rows(self, index: int) -> dict[str, np.ndarray]:
        """The rows of its feature that a clip has of each padded input: a row that two clips share has one number.

        Returns:
            By the input's field, (length,) int64, in the clip's order; -1 before the first row of a clip whose sound
            begins later than the clip.

        Raises:
            IndexError: the clip's number is out of range.

        Example:
            >>> dataset = ClipDataset("STORE", [ClipInput("audio"), ClipInput("openface")])
            >>> rows = dataset.stored_rows(0)
            >>> list(rows), len(rows["audio"]), int(dataset[0]["audio_length"])
            (['audio'], 800, 800)
        """
        clip = self._clip(self._place(index))
        return {
            reader.name: reader.stored_rows(self.store, clip)
            for reader in self._readers
            if isinstance(reader, PaddedRows)
        }

    def allocate(self, count: int) -> dict[str, np.ndarray]:
        """Arrays for ``count`` clips, to be filled.

        Raises:
            StoreError: they do not fit into memory.
        """
        try:
            return {name: np.empty((count, *field.shape), field.dtype) for name, field in self.fields.items()}
        except (MemoryError, ValueError) as error:  # numpy has no arrays of so many values
            raise StoreError(f"{count} clips with {self!r} are more than there is memory for ({error})") from None

    @property
    def digest(self) -> str:
        """SHA-256 of the clips' ids in their order."""
        return hashlib.sha256("\n".join(self.clips["clip_id"]).encode()).hexdigest()

    def _place(self, index: Any) -> int:
        try:
            return range(len(self))[index]
        except (IndexError, TypeError):
            raise IndexError(f"there are clips 0 to {len(self)} (exclusive), and {index!r} is none of them") from None

    def _clip(self, number: int) -> Clip:
        session, story, *rest = self._rows.item(number)
        return Clip(number, self._sessions[session], self._stories[story], *rest)


def _distinct(inputs: Sequence[str | ClipInput]) -> list[ClipInput]:
    if isinstance(inputs, str):
        raise TypeError(f"inputs={inputs!r} is one string; give a sequence of inputs: [{inputs!r}]")
    requested = [given if isinstance(given, ClipInput) else ClipInput(given) for given in inputs]
    names = [clip_input.field for clip_input in requested]
    if not names:
        raise ValueError("inputs is empty: name at least one")
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"input {twice[0]!r} is named twice")
    return requested


def _compact(clips: pd.DataFrame) -> tuple[np.ndarray, list[str], list[str]]:
    """The values of :class:`Clip` of all clips as one array, with sessions and stories as numbers into two lists."""
    session, sessions = pd.factorize(clips["session_id"])
    story, stories = pd.factorize(clips["story_id"])
    columns = clips[list(Clip._fields[3:])].copy()
    columns[["audio_start", "audio_stop"]] = columns[["audio_start", "audio_stop"]].fillna(-1).astype(np.int64)
    columns.insert(0, "session", session)
    columns.insert(1, "story", story)
    rows = np.asarray(columns.to_records(index=False))  # plain: a recarray makes an object of each of its rows
    return rows, list(sessions), [*stories, NO_STORY]  # a missing story, -1, is the last
