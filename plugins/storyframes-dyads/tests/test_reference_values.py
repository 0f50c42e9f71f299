"""The same series give what R gives: reference/reference.R wrote the values, and no test needs R."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from storyframes_dyads.comparison import compare
from storyframes_dyads.lagged_correlation import Windows, lag_profile, window_correlations
from storyframes_dyads.other_measures import average_correlation, coherence
from storyframes_dyads.synchrony import holm

FOLDER = Path(__file__).parent / "reference"
SERIES = pd.read_csv(FOLDER / "series.csv")
VALUES = pd.read_csv(FOLDER / "values.csv").groupby("name")["value"].apply(np.array)
X, Y = SERIES["first"].to_numpy(), SERIES["second"].to_numpy()
WINDOWS = Windows(length=40, stride=15, max_lag=12)
RATE = 10


def test_correlations_of_windows_are_those_of_r() -> None:
    lost = [SERIES[name] == 1 for name in ("first_lost", "second_lost")]
    correlations = window_correlations(np.where(lost[0], np.nan, X), np.where(lost[1], np.nan, Y), WINDOWS)
    expected = VALUES["correlations"].reshape(correlations.shape)
    assert 50 < np.isfinite(expected).sum() < expected.size
    np.testing.assert_allclose(correlations, expected, atol=1e-12)


def test_the_lag_has_the_sign_of_rs_cross_correlation() -> None:
    profile = lag_profile(window_correlations(X, Y, WINDOWS))
    assert WINDOWS.lags[np.nanargmax(profile)] == VALUES["ccf_lag"] == 4


def test_average_and_coherence_are_those_of_r() -> None:
    assert average_correlation(X, Y, WINDOWS) == pytest.approx(VALUES["average"][0], rel=1e-12)
    assert coherence(X, Y, RATE, (2 * RATE / 40, RATE / 2), 40 / RATE) == pytest.approx(
        VALUES["coherence"][0], rel=1e-9
    )


def test_corrections_and_intervals_are_those_of_r() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005, 0.6]) == pytest.approx(VALUES["holm"])
    for name, first, second in (("welch", range(9), range(7)), ("paired", range(9), range(9))):
        values = pd.Series([*Y[second], *X[first]])
        clusters = [*second, *first] if name == "paired" else range(len(values))
        groups = pd.DataFrame(
            {"cluster": clusters, "group": pd.Categorical(["y"] * len(second) + ["x"] * len(first), ["y", "x"])}
        )
        compared = compare(values, groups)
        assert [compared["low_95"], compared["high_95"]] == pytest.approx(VALUES[name])
