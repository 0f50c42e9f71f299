"""Windowed lagged cross-correlation, its peaks, other measures and their nulls, on planted signals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import signal as scipy_signal
from scipy import stats

from storyframes_dyads.circular_null import RankedEstimate, circular_null, even_shifts, peak_synchrony, rank_shifts
from storyframes_dyads.lagged_correlation import Windows, lag_profile, peaks, window_correlations
from storyframes_dyads.other_measures import (
    average_correlation,
    coherence,
    cross_recurrence,
    mutual_information,
    recurrence_profile,
)


def slow(generator: np.random.Generator, n: int) -> np.ndarray:
    """An autoregressive signal, 0.95 of each point in the next."""
    return scipy_signal.lfilter([1], [1, -0.95], generator.normal(size=n + 200))[200:]


def beside_shifts(first: np.ndarray, second: np.ndarray, windows: Windows) -> RankedEstimate:
    estimate = peak_synchrony(window_correlations(first, second, windows), windows, len(first))
    return circular_null(first, second, windows, estimate)


@pytest.mark.slow
@given(st.integers(0, 10_000), st.integers(-6, 6), st.floats(0, 0.4))
def test_each_correlation_is_scipys_on_the_shared_points(seed: int, lag: int, missing: float) -> None:
    generator = np.random.default_rng(seed)
    first, second = slow(generator, 90), slow(generator, 90)
    first[generator.random(90) < missing] = np.nan
    second[generator.random(90) < missing] = np.nan
    windows = Windows(length=20, stride=7, max_lag=6, min_shared=0.5)
    result = window_correlations(first, second, windows)
    for row, start in enumerate(windows.starts(90)):
        value = result[row, lag + 6]
        if start + lag < 0 or start + lag + 20 > 90:
            assert np.isnan(value)
            continue
        x, y = first[start : start + 20], second[start + lag : start + lag + 20]
        shared = np.isfinite(x) & np.isfinite(y)
        if shared.sum() < 10:
            assert np.isnan(value)
        else:
            assert value == pytest.approx(stats.pearsonr(x[shared], y[shared]).statistic, abs=1e-9)


def test_the_average_is_rmeas_by_its_definition() -> None:
    """The loop below is the definition alone: a window, a lag, Pearson's r, Fisher's z, absolute values, their mean."""
    generator = np.random.default_rng(9)
    first, second = slow(generator, 230), slow(generator, 230)
    window, step, most = 40, 15, 12
    values = []
    start = 0
    while start + window + most <= 230:
        for lag in range(-most, most + 1):
            x = first[start + max(0, -lag) :][:window]
            y = second[start + max(0, lag) :][:window]
            r = np.mean((x - x.mean()) * (y - y.mean())) / (x.std() * y.std())
            values.append(abs(0.5 * np.log((1 + r) / (1 - r))))
        start += step
    windows = Windows(window, step, most)
    assert len(values) == 12 * 25
    assert average_correlation(first, second, windows) == pytest.approx(np.mean(values), rel=1e-9)
    assert np.isnan(average_correlation(first[:51], second[:51], windows))


@pytest.mark.parametrize("lag", [-12, -3, 0, 5, 12])
def test_a_planted_lag_is_the_peak_and_positive_where_the_first_leads(lag: int) -> None:
    generator = np.random.default_rng(3)
    first = slow(generator, 1500)
    second = np.roll(first, lag) + 0.3 * generator.normal(size=1500)
    windows = Windows(100, 10, 15)
    correlations = window_correlations(first, second, windows)
    assert windows.lags[np.nanargmax(lag_profile(correlations))] == lag
    found = peaks(correlations, windows)
    assert np.nanmedian(found.lag) == lag
    assert np.nanmean(found.height) > 0.9


def test_a_correlation_that_still_rises_at_the_largest_lag_is_no_peak() -> None:
    windows = Windows(10, 10, 2)
    rising = np.array([[0.1, 0.2, 0.3, 0.4, 0.5], [0.1, np.nan, 0.9, 0.2, 0.1], [0.0, 0.3, 0.2, 0.6, 0.1]])
    assert np.array_equal(peaks(rising, windows).lag, [np.nan, np.nan, 1.0], equal_nan=True)


def test_a_constant_or_unmeasured_stretch_has_no_correlation() -> None:
    first, second = slow(np.random.default_rng(0), 100), slow(np.random.default_rng(1), 100)
    first[:20] = 1.0
    second[60:] = np.nan
    result = window_correlations(first, second, Windows(20, 20, 0))[:, 0]
    assert np.array_equal(np.isnan(result), [True, False, False, True, True])


def test_a_constant_stretch_far_from_the_mean_has_none_in_single_precision_either() -> None:
    """A lost face is reported far away, without a change: there, rounding was taken for a movement."""
    generator = np.random.default_rng(6)
    first, second = slow(generator, 8000), slow(generator, 8000)
    first[3000:3600] = 100
    windows = Windows(length=300, stride=30, max_lag=60)
    double, single = (window_correlations(first, second, windows, dtype) for dtype in (np.float64, np.float32))
    assert np.isnan(double[100, 60])
    np.testing.assert_allclose(single, double, atol=0.001)  # NaN in the same places


@pytest.mark.slow
@pytest.mark.parametrize(
    ("points", "windows", "masked"),
    [(600, Windows(40, 10, 10), 0.0), (600, Windows(40, 10, 10), 0.2), (900, Windows(150, 15, 45), 0.0)],
)
def test_unrelated_slow_signals_are_in_synchrony_as_often_as_chance_says(
    points: int, windows: Windows, masked: float
) -> None:
    """The last is a minute at 15 points a second, in which few shifts differ."""
    generator = np.random.default_rng(7)
    p = []
    for _ in range(200):
        first, second = slow(generator, points), slow(generator, points)
        for signal in (first, second):
            for begin in generator.integers(0, points, int(masked * points / 30)):
                signal[begin : begin + 25] = np.nan
        p.append(beside_shifts(first, second, windows).p)
    rejected = int((np.array(p) <= 0.05).sum())
    assert 2 <= rejected <= 21  # of a binomial of 200 and 0.05, less often than once in 1,000
    assert stats.kstest(p, "uniform").pvalue > 0.001


def test_the_rank_is_among_all_shifts_and_the_quantiles_of_those_out_of_reach() -> None:
    shifts = even_shifts(1000, 10)
    assert shifts.tolist() == list(range(0, 1000, 100))
    ranked = rank_shifts(np.array([3.0, 9, 1, 2, 1, 2, 1, 2, 1, np.nan]), shifts, 1000, 200)
    assert ranked.p == pytest.approx(2 / 9)  # the estimate and its neighbour, of the nine that there are
    assert (ranked.count, ranked.null_median) == (7, 1)
    assert np.isnan(rank_shifts(np.array([np.nan, 1, 1, 1]), even_shifts(4, 9), 4, 1).p)


@pytest.mark.parametrize("windows", [Windows(40, 20, 3), Windows(41, 27, 2), Windows(32, 64, 3)])
def test_the_null_is_the_estimate_of_rotated_signals(windows: Windows) -> None:
    """Blocks shared by windows, windows that share none, and windows apart: each shift is computed anew, plainly."""
    generator = np.random.default_rng(2)
    points = 200
    first, second = slow(generator, points), slow(generator, points)
    first[50:70] = second[110:150] = np.nan
    statistics = []
    for shift in range(points):
        highest = []
        for start in windows.starts(points):
            begin = (start + shift) % points - windows.max_lag
            if begin < 0 or begin + 2 * windows.max_lag + windows.length > points:
                continue  # its end would meet its beginning
            x = first[start : start + windows.length]
            r = []
            for lag in range(2 * windows.max_lag + 1):
                y = second[begin + lag :][: windows.length]
                shared = np.isfinite(x) & np.isfinite(y)
                r += [np.corrcoef(x[shared], y[shared])[0, 1]] if shared.sum() >= windows.length / 2 else []
            highest += [max(r)] if r else []
        statistics.append(np.arctanh(highest).mean())
    ranked = beside_shifts(first, second, windows)
    assert ranked.estimate == pytest.approx(statistics[0], abs=1e-9)
    assert ranked.p == np.mean(np.array(statistics) >= statistics[0] - 1e-9)
    out = statistics[windows.reach : points - windows.reach + 1]
    assert (ranked.count, ranked.null_95) == (len(out), pytest.approx(np.quantile(out, 0.95), abs=1e-5))


def test_signals_that_share_a_movement_are_found() -> None:
    generator = np.random.default_rng(5)
    first = slow(generator, 900)
    second = np.roll(first, 6) + 1.5 * slow(generator, 900)
    result = beside_shifts(first, second, Windows(60, 15, 10))
    assert result.p <= 0.05
    assert result.estimate > result.null_95


def test_masked_frames_alone_make_no_synchrony() -> None:
    generator = np.random.default_rng(8)
    first, second = slow(generator, 1200), slow(generator, 1200)
    for begin in range(0, 1200, 60):  # both lose 40 % of their frames at the same moments
        first[begin : begin + 24] = second[begin : begin + 24] = np.nan
    assert beside_shifts(first, second, Windows(60, 15, 10)).p > 0.05


def test_coherence_is_scipys_where_everything_was_measured() -> None:
    generator = np.random.default_rng(2)
    common = slow(generator, 4000)
    first, second = common + generator.normal(size=4000), common + generator.normal(size=4000)
    frequencies, expected = scipy_signal.coherence(first, second, fs=20, nperseg=200)
    inside = (frequencies >= 0.2) & (frequencies <= 2)
    assert coherence(first, second, 20, (0.2, 2), 10) == pytest.approx(expected[inside].mean(), rel=1e-9)
    frequencies, expected = scipy_signal.coherence(first, second, fs=20, nperseg=201)  # overlaps by half, rounded down
    inside = (frequencies >= 0.2) & (frequencies <= 2)
    assert coherence(first, second, 20, (0.2, 2), 10.05) == pytest.approx(expected[inside].mean(), rel=1e-9)
    first[:3710] = np.nan
    assert np.isnan(coherence(first, second, 20, (0.2, 2), 10))  # two segments of ten seconds are not left


def test_recurrence_has_its_highest_point_at_the_planted_lag() -> None:
    generator = np.random.default_rng(4)
    first = slow(generator, 1000)
    second = np.roll(first, 4)
    profile = recurrence_profile(first, second, 10, 0.1)
    assert np.argmax(profile) - 10 == 4
    assert profile[14] == pytest.approx(1, abs=0.02)
    assert cross_recurrence(first, second, 10, 0.1) == profile.max()


def test_mutual_information_of_two_coins_is_what_it_is() -> None:
    generator = np.random.default_rng(6)
    coin = generator.integers(0, 2, 20_000).astype(float)
    assert mutual_information(coin, coin) == pytest.approx(1, abs=0.01)
    assert mutual_information(coin, generator.integers(0, 2, 20_000).astype(float)) == pytest.approx(0, abs=0.01)
