"""The curves of one track of a session as plain data, and a line for each curve for a terminal."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from storyframes.features import OPENFACE_COLUMNS
from storyframes.spec import MAIN
from storyframes.store.feature_store import SessionView

ACTION_UNITS = tuple(column for column in OPENFACE_COLUMNS if column.startswith("AU") and column.endswith("_r"))
CHOSEN_UNITS = ("AU04_r", "AU06_r", "AU12_r")  # brow lowerer, cheek raiser, lip corner puller
_BARS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 38


@dataclass(frozen=True)
class Utterances:
    """The times of U utterances or words, with the store's labels of their speakers."""

    start_s: np.ndarray  # (U,)
    end_s: np.ndarray  # (U,)
    speakers: Sequence[str]
    interpolated: bool = False  # whether times of some words are, by a caveat

    @property
    def spans(self) -> list[tuple[str, float, float]]:
        """The speaker, the start and the end of each."""
        return list(zip(self.speakers, self.start_s.tolist(), self.end_s.tolist(), strict=True))


@dataclass(frozen=True, repr=False)
class ArrayCurves:
    """One array of a feature without a special view."""

    feature: str
    array: str
    # (c,) the array's columns; of many columns only ``change``, the distance of a row from the one before, relative to
    # the rows' mean norm
    names: tuple[str, ...]
    unit: str  # of the values; empty where the store has none
    time: np.ndarray | None  # (n,) float64 seconds; None where the rows have no times
    values: np.ndarray  # (n, c) floats; NaN where a row is no measurement

    @property
    def title(self) -> str:
        """The feature's name, with the array's where it is not the main one."""
        return self.feature if self.array == "values" else f"{self.feature} {self.array}"

    def __repr__(self) -> str:
        return f"{self.title}: {len(self.values)} rows of {', '.join(self.names)}"


@dataclass(frozen=True, repr=False)
class ScoreCurves(ArrayCurves):
    """The scores of a model's head, a column for each label."""

    # time, end: (n,) float64 seconds, when a row begins and ends: never after the next one begins
    time: np.ndarray
    end: np.ndarray
    activation: str  # ``softmax``, ``sigmoid``, or ``none`` of a regression
    of: int  # the number of the model's labels


@dataclass(frozen=True, repr=False)
class HeatMap:
    """Some columns of a feature of many, over time."""

    feature: str
    names: tuple[str, ...]  # (c,) of the columns that are shown, spread evenly over all
    of: int  # the number of columns of the feature
    # (m,) float64 seconds: when the first row of each cell begins, for windows half a stride before its middle; of
    # cells of one row the time of the row
    time: np.ndarray
    # (m, c) float64: the mean of a cell's rows, in standard deviations of the column over the session from its mean;
    # NaN where no row is a measurement or the column never changes
    values: np.ndarray
    rows: int  # of a cell
    end_s: float  # when the last row ends

    def __repr__(self) -> str:
        return f"{self.feature}: {len(self.names)} of {self.of} columns in {len(self.time)} cells"


@dataclass(frozen=True, repr=False)
class FaceCurves:
    """The frames in which a feature tracks a face, and the face's position."""

    feature: str
    tracked: np.ndarray  # (T,) float32: 1 in frames with a face, 0 in frames without, NaN in frames that were skipped
    # (T, 3) float32: x and y of the centre and the side of the square around the face's landmarks, in pixels; NaN where
    # no face is tracked. None where the feature has no landmarks in pixels
    squares: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"{self.feature}: a face in {np.nansum(self.tracked):.0f} of {len(self.tracked)} frames"

    @property
    def share(self) -> float | None:
        """The share of the frames with a face, without skipped frames; None where all were skipped."""
        is_sampled = ~np.isnan(self.tracked)
        return float(self.tracked[is_sampled].mean()) if is_sampled.any() else None


def sparkline(values: np.ndarray) -> str:
    """The means of equal parts of ``values`` (n,), scaled from the smallest mean to the largest."""
    parts = np.array_split(
        np.where(np.isfinite(values), values, np.nan).astype(np.float64), min(SPARK_WIDTH, len(values))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a part without a value has no mean, and is a space
        means = np.array([np.nanmean(part) for part in parts])
        low, high = np.nanmin(means), np.nanmax(means)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(" " if np.isnan(mean) else _BARS[round((mean - low) * scale)] for mean in means)


@dataclass(frozen=True)
class CurveSummary:
    """One curve: the range of its values and a sparkline; None without any value."""

    name: str
    unit: str
    low: float | None
    median: float | None
    high: float | None
    present: float  # share of the rows that have a value
    spark: str  # a character for each equal part of the rows; a space where no row has a value

    @classmethod
    def of(cls, name: str, unit: str, values: np.ndarray) -> CurveSummary:
        """One curve (n,), n > 0; NaN where there is no value."""
        finite = values[np.isfinite(values)].astype(np.float64)
        low, median, high = (
            (float(value) for value in np.percentile(finite, (0, 50, 100))) if len(finite) else (None,) * 3
        )
        return cls(name, unit, low, median, high, len(finite) / len(values), sparkline(values))

    @property
    def spread(self) -> tuple[str, ...]:
        """The smallest value, the median and the largest as text; empty where there is no value."""
        return tuple("" if value is None else f"{value:.4g}" for value in (self.low, self.median, self.high))


@dataclass(repr=False)
class SessionCurves:
    """The curves of one track; None where the store has no such feature.

    Times are in seconds of the track's own recording; of the session's own files these are the session's.
    """

    session_id: str
    time: np.ndarray  # (T,) float64 seconds, the frames' times; none where the track has no picture
    end_s: float  # when the last frame ends; 0 where there is none
    tracked: np.ndarray | None = None  # (T,) bool, from the feature that also gives the next four
    confidence: np.ndarray | None = None  # (T,) float32 0..1
    # (T, 3) float32 degrees: pitch, yaw, roll; NaN where no face was tracked, as in the next two
    head_pose: np.ndarray | None = None
    gaze: np.ndarray | None = None  # (T, 2) float32 degrees: to the side, up and down
    # (T, 17) float32 0..5, in the order of ``ACTION_UNITS``
    action_units: np.ndarray | None = None
    # (T,) float32, the distance between the frame's ResNet-50 vector and the one before, relative to the vectors' mean
    # norm; NaN for the first
    change: np.ndarray | None = None
    # body, hands: (T,) int8, the number of the participant's that were found; -1 in skipped frames
    body: np.ndarray | None = None
    hands: np.ndarray | None = None
    sound_time: np.ndarray | None = None  # (A,) float64 seconds, one row per 10 ms
    loudness: np.ndarray | None = None  # (A,) float32, dB below full scale
    f0: np.ndarray | None = None  # (A,) float32 Hz, NaN where the voice has no pitch
    sound_end_s: float | None = None  # when the sound ends
    utterances: Utterances | None = None  # of the transcript
    words: Utterances | None = None  # of the same
    # (start, stop) seconds at which samples are at full scale; None where the samples were not decoded
    clipped: tuple[tuple[float, float], ...] | None = None
    # (start, stop) seconds in which the region that the track is may show somebody else; None where it is no region
    doubtful: tuple[tuple[float, float], ...] | None = None
    others: list[ArrayCurves] = field(default_factory=list)  # the curves of all other features
    scores: list[ScoreCurves] = field(default_factory=list)  # of models' heads
    heat_maps: list[HeatMap] = field(default_factory=list)  # of features of many columns
    # of every feature that tracks a face, in the order of features
    faces: list[FaceCurves] = field(default_factory=list)
    frame_features: int = 0  # the number of features with a row for each frame
    troubles: list[str] = field(default_factory=list)  # features that do not fit to the frames, in words
    track: str = MAIN  # ``main`` are the session's own files

    ACTION_UNITS: ClassVar[tuple[str, ...]] = ACTION_UNITS  # of which there are curves
    CHOSEN_UNITS: ClassVar[tuple[str, ...]] = CHOSEN_UNITS  # those that are shown at first

    @property
    def has_frames(self) -> bool:
        """Whether the track has a picture; a microphone has none."""
        return len(self.time) > 0

    @property
    def face_share(self) -> float | None:
        """The share of the frames with a face, from the first feature that tracks one."""
        return next((face.share for face in self.faces if face.share is not None), None)

    @property
    def length_s(self) -> float:
        """The end of the picture; without a picture the end of the sound, else the time of the last row."""
        if self.has_frames:
            return self.end_s
        if self.sound_end_s is not None:
            return self.sound_end_s
        utterances = [] if self.utterances is None else [self.utterances.end_s]
        times = [*utterances, *(curves.time for curves in self.others if curves.time is not None)]
        times += [scores.end for scores in self.scores]
        return max((float(time.max()) for time in times if len(time)), default=0.0)

    @property
    def extent(self) -> str:
        """The track's length in words: ``24.00 s, 360 frames``."""
        return f"{self.length_s:.2f} s, {f'{len(self.time)} frames' if self.has_frames else 'no picture'}"

    def __repr__(self) -> str:
        special = {"face": self.tracked, "picture": self.change, "poses": self.body, "sound": self.sound_time}
        shown = [name for name, values in special.items() if values is not None]
        shown += dict.fromkeys(curves.feature for curves in (*self.others, *self.scores))
        name = self.session_id if self.track == MAIN else f"{self.session_id}, track {self.track}"
        return f"{name}: {self.extent}; curves of {', '.join(shown) or 'nothing'}"

    def named(self) -> Iterator[tuple[str, str, np.ndarray]]:
        """The name, the unit and the values (n,) of each curve, in the order of the report's timeline."""
        for face in self.faces:
            yield "face tracked" if len(self.faces) == 1 else f"face tracked, {face.feature}", "", face.tracked
        if self.confidence is not None:
            yield "confidence", "0..1", self.confidence
        if self.head_pose is not None:
            for name, values in zip(("pitch", "yaw", "roll"), self.head_pose.T, strict=True):
                yield f"head {name}", "°", values
        if self.gaze is not None:
            for name, values in zip(("sideways", "vertical"), self.gaze.T, strict=True):
                yield f"gaze {name}", "°", values
        if self.action_units is not None:
            for unit in CHOSEN_UNITS:
                yield unit.removesuffix("_r"), "0..5", self.action_units[:, ACTION_UNITS.index(unit)]
        if self.loudness is not None:
            yield "loudness", "dB", self.loudness
        if self.f0 is not None:
            yield "F0", "Hz", self.f0
        if self.change is not None:
            yield "picture change", "", self.change
        for name, counts in (("body", self.body), ("hands", self.hands)):
            if counts is not None:
                yield f"{name} found", "", np.where(counts < 0, np.nan, counts)
        for array in (*self.others, *self.scores):
            for name, values in zip(array.names, array.values.T, strict=True):
                yield array.title if name == array.array else f"{array.title} {name}", array.unit, values

    def summaries(self) -> list[CurveSummary]:
        """Every curve of the session, in the order of the report's timeline."""
        return [CurveSummary.of(name, unit, values) for name, unit, values in self.named() if len(values)]

    def other_units(self) -> list[CurveSummary]:
        """The action units that are not among :data:`CHOSEN_UNITS`."""
        units = () if self.action_units is None else zip(ACTION_UNITS, self.action_units.T, strict=True)
        return [
            CurveSummary.of(name.removesuffix("_r"), "0..5", column)
            for name, column in units
            if name not in CHOSEN_UNITS and len(column)
        ]


def summarize_columns(session: SessionView, name: str) -> list[CurveSummary]:
    """The columns that a name selects of a session, in the rows that are measurements.

    Raises:
        StoreError: there is no such feature, or no such part of it.
    """
    frame = session.to_pandas(name)
    values = frame.iloc[:, list(frame).index("mask") + 1 :].select_dtypes("number").astype(float).where(frame["mask"])
    columns = {column: values[column].to_numpy() for column in values if len(frame)}
    return [CurveSummary.of(name, frame.attrs["units"].get(name, ""), column) for name, column in columns.items()]
