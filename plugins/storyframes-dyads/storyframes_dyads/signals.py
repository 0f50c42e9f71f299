"""Signals: one column of one person's feature, on the session's clock, with what was not measured missing.

A signal is named ``<feature>[@<track>]:<column>``, as ``openface@a:AU12_r``. It is put on a grid of points of the
session by the rule that clips and tables use: each point has the nearest row, if that is near enough. So features of
different rates, of cameras that began at different moments and whose clocks drift, are compared at the same moments.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from storyframes import Axis, FeatureStore
from storyframes.store import StoreError
from storyframes_dyads.turns import FEATURE, FEATURE_CODE

FASTEST = 200.0
"""Points per second: faster features are read at this rate (sound has 100 rows a second)."""

NOT_VALUES = frozenset({*map(str, Axis), "point", "mask", "end", "speaker", "device_time", "device_end"})
"""Columns of a data frame of a feature that are no values of it: the numbers and times of rows, which only rise."""


class SignalError(ValueError):
    """A signal that cannot be read; the message names the signal, the rule and what there is."""


@dataclass(frozen=True)
class SignalName:
    """A column of a feature.

    Example:
        >>> SignalName.parse("openface@a:AU12_r")
        SignalName(feature='openface@a', column='AU12_r')
    """

    feature: str
    column: str

    @classmethod
    def parse(cls, text: str) -> SignalName:
        """The signal of this name.

        Raises:
            SignalError: it is no ``<feature>[@<track>]:<column>``.
        """
        feature, colon, column = text.partition(":")
        if not colon or not feature or not column:
            raise SignalError(f"{text!r} names no signal: give <feature>[@<track>]:<column>, as openface@a:AU12_r")
        return cls(feature, column)

    def __str__(self) -> str:
        return f"{self.feature}:{self.column}"


@dataclass(frozen=True)
class SignalPair:
    """Two signals that are compared.

    Attributes:
        first, second: a positive lag says that the first leads.
    """

    first: SignalName
    second: SignalName


def usual_rate(store: FeatureStore, session_id: str, signal: SignalName) -> float:
    """How many rows a second the signal's feature has in a session, on its own device's clock.

    Raises:
        SignalError: the session does not have the feature, or its rows have no times.
    """
    frame = read_frame(store, session_id, signal.feature)
    if frame.index.name not in {"time", "device_time"} or len(frame) < 2:
        raise SignalError(f"{session_id}/{signal.feature} has no rows with times: it cannot be a signal")
    step = float(np.median(np.diff(frame.index.to_numpy(np.float64))))
    if step <= 0:
        raise SignalError(f"{session_id}/{signal.feature} has several rows at one time: it cannot be a signal")
    return min(1 / step, FASTEST)


def read_frame(store: FeatureStore, session_id: str, feature: str, rate: float | None = None) -> pd.DataFrame:
    """A feature at each point of the session's grid, from its second 0 on, ``rate`` points a second; None: as stored.

    Raises:
        SignalError: the session has no such feature, the clock of its track is not known, or it is the feature
            ``turns`` as earlier rules made it.
    """
    try:
        frame = store.to_pandas(session_id, feature, rate=rate)
        code = str(store.attributes(session_id, feature)["provenance"].get("code")) if feature == FEATURE else ""
    except StoreError as error:
        raise SignalError(str(error)) from None
    if code.startswith(FEATURE_CODE.rstrip("0123456789")) and code != FEATURE_CODE:
        raise SignalError(
            f"{session_id}/{feature} was made by earlier rules for turns: make it again with 'storyframes dyads turns "
            "STORE --speech FEATURE --as-feature'"
        )
    frame.attrs.clear()  # pandas copies all of them, the units of 714 columns, whenever a column is taken
    return frame


def columns_of(frame: pd.DataFrame) -> list[str]:
    """The columns of a feature that can be signals: its numbers."""
    return [name for name, dtype in frame.dtypes.items() if name not in NOT_VALUES and np.issubdtype(dtype, np.number)]


def signal_of(frame: pd.DataFrame, column: str) -> np.ndarray:
    """(n,) float64: a column at each point of the grid; NaN where nothing was measured."""
    values = frame[column].to_numpy(np.float64)
    return np.where(frame["mask"].to_numpy(bool) & np.isfinite(values), values, np.nan)


def pairs_of(
    store: FeatureStore, session_id: str, asked: tuple[SignalName, SignalName], frames: Sequence[pd.DataFrame]
) -> list[SignalPair]:
    """The pairs of columns that two names mean.

    A column with ``*`` or ``?`` stands for all measurements that match it. Then both names have the same pattern, and
    each column is paired with the column of the same name: ``openface@a:AU*_r`` and ``openface@b:AU*_r`` are 17 pairs.

    Args:
        frames: of the two features, by :func:`read_frame`.

    Raises:
        SignalError: a feature does not have the column, or nothing matches.
    """
    first, second = asked
    columns = [columns_of(frame) for frame in frames]
    if not any(sign in name.column for name in asked for sign in "*?["):
        for name, available in zip(asked, columns, strict=True):
            if name.column not in available:
                raise SignalError(f"{name.feature} has no column {name.column!r}; it has {_few(available)}")
        return [SignalPair(first, second)]
    if first.column != second.column:
        raise SignalError(f"{first} and {second}: a pattern of columns has to be the same on both sides")
    others = _no_measurements(store, session_id, first.feature)
    measured = [name for name in columns[0] if name.removeprefix("values.") not in others]
    shared = [name for name in fnmatch.filter(measured, first.column) if name in set(columns[1])]
    if not shared:
        raise SignalError(
            f"no column of measurements that {first.feature} and {second.feature} share matches {first.column!r}"
        )
    return [SignalPair(SignalName(first.feature, name), SignalName(second.feature, name)) for name in shared]


def _no_measurements(store: FeatureStore, session_id: str, feature: str) -> set[str]:
    """The columns of a feature that describe the others: which row it is, when, and how sure the others are."""
    spec = store.spec(session_id, feature)
    measured = spec.columns[spec.groups.get("measurements", slice(None))]
    return {*spec.columns, *(name for name in spec.arrays if name != "values")} - {*measured}


def read_pairs(
    store: FeatureStore,
    session_id: str,
    asked: tuple[SignalName, SignalName],
    rate: float,
    pairs: Sequence[SignalPair] = (),
) -> dict[SignalPair, tuple[np.ndarray, np.ndarray]]:
    """Of each pair of columns, the two signals at the points of the session's grid, (n,) float64.

    Args:
        asked: two names, which say the features, and without ``pairs`` the columns.
        pairs: of columns of these features.

    Raises:
        SignalError: a signal cannot be read.
    """
    frames = [read_frame(store, session_id, name.feature, rate) for name in asked]
    return {
        pair: (signal_of(frames[0], pair.first.column), signal_of(frames[1], pair.second.column))
        for pair in pairs or pairs_of(store, session_id, asked, frames)
    }


def _few(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
