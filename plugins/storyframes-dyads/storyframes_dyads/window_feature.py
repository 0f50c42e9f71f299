"""Synchrony as a feature of the store, ``synchrony_<name>``: a row per window, so that clips can have it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from storyframes import ArraySpec, Axis, Derivation, FeatureSpec, FeatureStore
from storyframes_dyads.lagged_correlation import fisher_z, peaks
from storyframes_dyads.signals import SignalError, SignalName, SignalPair
from storyframes_dyads.synchrony import Asked, SynchronySettings, correlated_pairs

CODE = "storyframes-dyads: window_feature 2"
"""Raised when the same signals would give other values."""

PREFIX = "synchrony_"
OF_A_PAIR = ("peak_z", "lag_s", "shared")
CHOSEN = ("window_s", "stride_s", "max_lag_s", "min_shared", "rate")  # the settings that decide the values


def derivation(name: str, asked: Asked, settings: SynchronySettings, pairs: Sequence[SignalPair] = ()) -> Derivation:
    """How the feature is made; its columns are known when the pairs of columns are.

    Raises:
        SignalError: no feature can have this name, or two pairs have one first column, which names the feature's.
    """
    firsts = [pair.first.column for pair in pairs]
    if twice := [column for column in firsts if firsts.count(column) > 1]:
        raise SignalError(
            f"two pairs begin with a column {twice[0]!r}, after which columns are named: store them apart"
        )
    columns = tuple(f"{column}_{part}" for column in firsts for part in OF_A_PAIR) or OF_A_PAIR
    about = (
        "of each pair of signals: peak_z, the height of the window's peak of lagged correlation, as Fisher's z; lag_s, "
        "its lag in seconds, positive where the first person leads; shared, the share of the window that both measured"
    )
    arrays = {
        "values": ArraySpec(Axis.MOMENT, "float32", about, (len(columns),), ("column",), columns=columns),
        "time": ArraySpec(Axis.MOMENT, "float64", "the middle of the window, in the session", units="s"),
        "valid": ArraySpec(Axis.MOMENT, "uint8", "1 where a pair has a peak", fill=0),
    }
    try:
        spec = FeatureSpec(f"{PREFIX}{name}", "how two people move together, by window", arrays, mask="valid")
    except ValueError as error:
        raise SignalError(str(error)) from None
    features = tuple(sorted({name.feature for names in asked for name in names}))
    chosen = {name: getattr(settings, name) for name in CHOSEN}
    return Derivation(spec, features, chosen | {"pairs": [[str(one), str(other)] for one, other in asked]}, CODE)


def is_ours(feature: str) -> bool:
    """Whether a feature of a store is one of these, by its name."""
    return feature.startswith(PREFIX)


def made_of(store: FeatureStore, session_id: str, feature: str) -> tuple[Asked, SynchronySettings]:
    """The signals and settings that a stored feature was made with.

    Raises:
        SignalError: it does not say so: it is no feature of :func:`derivation`.
    """
    try:
        said = dict(store.attributes(session_id, feature)["provenance"]["settings"])
        asked = [(SignalName.parse(one), SignalName.parse(other)) for one, other in said.pop("pairs")]
        window_s, stride_s, max_lag_s, min_shared = (float(said[name]) for name in CHOSEN[:4])
        rate = None if said["rate"] is None else float(said["rate"])
        return asked, SynchronySettings(window_s, stride_s, max_lag_s, min_shared, rate)
    except (KeyError, TypeError, ValueError):
        raise SignalError(f"{session_id}/{feature} does not say of which signals it was made") from None


def publish_windows(store: FeatureStore, session_id: str, name: str, asked: Asked, settings: SynchronySettings) -> None:
    """Make the feature of one session from the signals that the store has now.

    Raises:
        SignalError: a signal cannot be read, or the session is shorter than a window.
        StoreError, PublishError, OSError: as of :meth:`storyframes.derivation.Derivation.publish`.
    """
    pairs, columns = [], []
    for of_pair in correlated_pairs(store, session_id, asked, settings):
        found = peaks(of_pair.correlations, of_pair.windows)
        starts = of_pair.windows.starts(len(of_pair.first))
        shared = sliding_window_view(of_pair.shared, of_pair.windows.length)[starts].mean(axis=1)
        columns += [fisher_z(found.height), found.lag / of_pair.rate, shared]
        pairs.append(of_pair.pair)
    values = np.stack(columns, axis=1)
    derivation(name, asked, settings, pairs).publish(
        store,
        session_id,
        {
            "values": values.astype(np.float32),
            "time": of_pair.middle_s,
            "valid": np.isfinite(values[:, :: len(OF_A_PAIR)]).any(axis=1).astype(np.uint8),
        },
    )
