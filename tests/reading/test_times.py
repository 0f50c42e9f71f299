"""Times: whole microseconds, the row nearest to a point, words at points, clocks."""

from __future__ import annotations

import numpy as np

from storyframes.times import Clock, nearest_rows, spoken_rows, ticks


def test_seconds_are_the_nearest_microsecond() -> None:
    assert ticks([35 * 0.01, 0.29, 1.1, -0.29]).tolist() == [350_000, 290_000, 1_100_000, -290_000]
    assert ticks(0.0000007) == 1


def test_of_rows_that_are_equally_near_the_first_is_taken() -> None:
    time = np.array([0, 10, 20, 20, 30])
    rows, is_near = nearest_rows(time, np.array([4, 5, 6, 15, 20, 25, 36, 37]), 6)
    assert rows.tolist() == [0, 0, 1, 1, 2, 2, 4, 4]
    assert is_near.tolist() == [True, True, True, True, True, True, True, False]


def test_a_word_is_spoken_from_its_beginning_until_before_its_end() -> None:
    points = np.array([0, 10, 20, 30, 40])
    assert spoken_rows(np.array([10, 20]), np.array([30, 30]), points).tolist() == [-1, 0, 1, -1, -1]
    assert spoken_rows(np.array([20, 10]), np.array([30, 40]), points).tolist() == [-1, 1, 0, 1, -1]


def test_a_clock_that_runs_fast_has_a_positive_drift_in_each_of_its_pieces() -> None:
    clock = Clock("camera", (10.0, 110.01, 210.01), (0.0, 100.0, 200.0))
    np.testing.assert_allclose(clock.drifts_ppm, [100, 0], atol=1e-6)
    np.testing.assert_allclose(clock.to_session([10.0, 60.005, 160.01, 220.01]), [0, 50, 150, 210])
    np.testing.assert_allclose(clock.to_device([-10.0, 50.0, 150.0, 210.0]), [-0.001, 60.005, 160.01, 220.01])
