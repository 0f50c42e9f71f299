"""The curves of one track of a session, plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from storyframes.tracks import MAIN


@dataclass(frozen=True)
class Utterances:
    """Who spoke when: (U,) seconds, and each one's speaker as the store labels it."""

    start_s: np.ndarray
    end_s: np.ndarray
    speakers: Sequence[str]


@dataclass(frozen=True, repr=False)
class ArrayCurves:
    """One array of a feature that has no view of its own.

    Attributes:
        feature, array: which.
        names: (c,) what each curve is: the array's columns; for an array of many columns ``change`` alone, the distance
            of a row from the one before, relative to the rows' mean norm.
        unit: of the values, empty where the store says none.
        time: (n,) float64 seconds; None where the store gives the rows no time.
        values: (n, c) floats; NaN where a row is no measurement.
    """

    feature: str
    array: str
    names: tuple[str, ...]
    unit: str
    time: np.ndarray | None
    values: np.ndarray

    @property
    def title(self) -> str:
        """The array as a person names it; an array ``values`` is the feature itself."""
        return self.feature if self.array == "values" else f"{self.feature} {self.array}"

    def __repr__(self) -> str:
        return f"{self.title}: {len(self.values)} rows of {', '.join(self.names)}"


@dataclass(frozen=True, repr=False)
class HeatMap:
    """Some columns of a feature of many, over time.

    Attributes:
        feature: which.
        names: (c,) of the columns that are shown, spread evenly over all.
        of: how many columns there are.
        time: (m,) float64 seconds, of the first row of each cell.
        values: (m, c) float64: the mean of a cell's rows, in standard deviations of the column over the session from
            its mean; NaN where no row is a measurement or the column never changes.
        rows: of a cell.
        end_s: when the last row ends.
    """

    feature: str
    names: tuple[str, ...]
    of: int
    time: np.ndarray
    values: np.ndarray
    rows: int
    end_s: float

    def __repr__(self) -> str:
        return f"{self.feature}: {len(self.names)} of {self.of} columns in {len(self.time)} cells"


@dataclass(frozen=True, repr=False)
class FaceCurves:
    """In which frames a feature tracks a face, and where.

    Attributes:
        feature: which.
        tracked: (T,) float32: 1 in frames with a face, 0 in frames without, NaN in those that were not looked at.
        squares: (T, 3) float32: x and y of the centre and the side of the square around the face's landmarks, in
            pixels; NaN where no face is tracked. None where the feature has no landmarks in pixels.
    """

    feature: str
    tracked: np.ndarray
    squares: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"{self.feature}: a face in {np.nansum(self.tracked):.0f} of {len(self.tracked)} frames"

    @property
    def share(self) -> float | None:
        """The share of the frames that were looked at in which a face is tracked; None where none was."""
        looked_at = ~np.isnan(self.tracked)
        return float(self.tracked[looked_at].mean()) if looked_at.any() else None


@dataclass(repr=False)
class SessionCurves:
    """The curves of one track; None where the store has nothing of the kind.

    Every time is in seconds of the track's own recording; of the session's own files these are the session's.

    Attributes:
        time: (T,) float64 seconds, the frames' times; none where the track has no picture.
        end_s: when the last frame ends; 0 where there is none.
        tracked: (T,) bool, a face was tracked by the feature that the next four are of.
        confidence: (T,) float32 0..1.
        head_pose: (T, 3) float32 degrees: pitch, yaw, roll; NaN where no face was tracked, as in the next two.
        gaze: (T, 2) float32 degrees: to the side, up and down.
        action_units: (T, 17) float32 0..5, in the order of :data:`tasks.inspect.curves.views.ACTION_UNITS`.
        change: (T,) float32, the distance between the frame's ResNet-50 vector and the one before, relative to the
            vectors' mean norm; NaN for the first.
        body, hands: (T,) int8, how many of the participant's were found; -1 in frames that were not looked at.
        sound_time: (A,) float64 seconds, one row per 10 ms.
        loudness: (A,) float32, dB below full scale.
        f0: (A,) float32 Hz, NaN where the voice has no pitch.
        sound_end_s: when the sound ends.
        utterances: of the transcript.
        words: how many.
        clipped: (start, stop) seconds at which samples are at full scale; None where the samples were not looked at.
        others: the curves of all other features.
        heat_maps: of features of many columns.
        faces: of every feature that tracks a face, in the order of features.
        frame_features: how many features have a row for each frame.
        troubles: what does not fit together, for a person.
        track: of which track; ``main`` are the session's own files.
    """

    session_id: str
    time: np.ndarray
    end_s: float
    tracked: np.ndarray | None = None
    confidence: np.ndarray | None = None
    head_pose: np.ndarray | None = None
    gaze: np.ndarray | None = None
    action_units: np.ndarray | None = None
    change: np.ndarray | None = None
    body: np.ndarray | None = None
    hands: np.ndarray | None = None
    sound_time: np.ndarray | None = None
    loudness: np.ndarray | None = None
    f0: np.ndarray | None = None
    sound_end_s: float | None = None
    utterances: Utterances | None = None
    words: int | None = None
    clipped: tuple[tuple[float, float], ...] | None = None
    others: list[ArrayCurves] = field(default_factory=list)
    heat_maps: list[HeatMap] = field(default_factory=list)
    faces: list[FaceCurves] = field(default_factory=list)
    frame_features: int = 0
    troubles: list[str] = field(default_factory=list)
    track: str = MAIN

    @property
    def has_frames(self) -> bool:
        """Whether there is a picture: a microphone has none."""
        return len(self.time) > 0

    @property
    def face_share(self) -> float | None:
        """The share of the frames in which the first feature that looked for a face tracks one."""
        return next((face.share for face in self.faces if face.share is not None), None)

    @property
    def length_s(self) -> float:
        """When the picture ends; where there is none the sound, else the last row of anything."""
        if self.has_frames:
            return self.end_s
        if self.sound_end_s is not None:
            return self.sound_end_s
        spoken = [] if self.utterances is None else [self.utterances.end_s]
        times = [*spoken, *(one.time for one in self.others if one.time is not None)]
        return max((float(time.max()) for time in times if len(time)), default=0.0)

    @property
    def extent(self) -> str:
        """How long the track is, in words: ``24.00 s, 360 frames``."""
        return f"{self.length_s:.2f} s, {f'{len(self.time)} frames' if self.has_frames else 'no picture'}"

    def __repr__(self) -> str:
        special = {"face": self.tracked, "picture": self.change, "poses": self.body, "sound": self.sound_time}
        shown = [name for name, there in special.items() if there is not None]
        shown += dict.fromkeys(one.feature for one in self.others)
        name = self.session_id if self.track == MAIN else f"{self.session_id}, track {self.track}"
        return f"{name}: {self.extent}; curves of {', '.join(shown) or 'nothing'}"
