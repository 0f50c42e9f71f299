"""A device's clock: offsets, drifts and pieces, there and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storyframes.times import ABSURD_PPM, SESSION_CLOCK, Clock

STEPS = st.lists(
    st.tuples(st.floats(0.5, 5000), st.floats(-ABSURD_PPM, ABSURD_PPM)), min_size=0, max_size=6
)  # seconds between two moments, and the drift between them
MOMENTS = st.lists(st.floats(-90_000, 90_000), min_size=1, max_size=50)


@st.composite
def clocks(draw: st.DrawFn) -> Clock:
    device = [draw(st.floats(-5000, 5000))]
    session = [draw(st.floats(-5000, 5000))]
    for step, ppm in draw(STEPS):
        session.append(session[-1] + step)
        device.append(device[-1] + step * (1 + ppm * 1e-6))
    return Clock("c", tuple(device), tuple(session))


@given(clocks(), MOMENTS)
@settings(deadline=None)
def test_to_the_session_and_back_is_the_same_moment(clock: Clock, moments: list[float]) -> None:
    at = np.array(moments)
    np.testing.assert_allclose(clock.to_device(clock.to_session(at)), at, rtol=0, atol=1e-9)
    np.testing.assert_allclose(clock.to_session(clock.to_device(at)), at, rtol=0, atol=1e-9)


@given(clocks(), MOMENTS)
@settings(deadline=None)
def test_what_is_later_on_the_device_is_never_earlier_in_the_session(clock: Clock, moments: list[float]) -> None:
    knots = np.concatenate([np.nextafter(clock.clock_s, side) for side in (-np.inf, np.inf)] + [clock.clock_s])
    at = np.sort(np.concatenate([moments, knots]))
    assert np.all(np.diff(clock.to_session(at)) >= 0)
    at = np.sort(np.concatenate([moments, clock.session_s]))
    assert np.all(np.diff(clock.to_device(at)) >= 0)


@given(clocks())
@settings(deadline=None)
def test_the_moments_that_are_given_are_met(clock: Clock) -> None:
    np.testing.assert_allclose(clock.to_session(clock.clock_s), clock.session_s, rtol=0, atol=1e-9)
    np.testing.assert_allclose(clock.to_device(clock.session_s), clock.clock_s, rtol=0, atol=1e-9)


def test_an_offset_by_hand() -> None:
    """The second camera began 3.2 s after the first: its second 0 is the session's 3.2."""
    clock = Clock("b", (0.0,), (3.2,))
    np.testing.assert_allclose(clock.to_session([0, 1.5, -3.2]), [3.2, 4.7, 0.0], rtol=0, atol=1e-12)
    assert clock.to_device(3.2) == 0.0
    assert clock.drifts_ppm == ()


@pytest.mark.parametrize(("ppm", "device_s"), [(40.0, 3600.144), (-40.0, 3599.856)])
def test_a_drift_of_40_ppm_by_hand(ppm: float, device_s: float) -> None:
    """In an hour of the session a clock that is 40 ppm fast counts 3600.144 s."""
    clock = Clock("b", (0.0, device_s), (3.2, 3603.2))
    assert clock.drifts_ppm == pytest.approx((ppm,), abs=1e-6)
    assert clock.to_session(device_s / 2) == pytest.approx(1803.2, abs=1e-9)
    assert clock.to_session(2 * device_s) == pytest.approx(7203.2, abs=1e-9)  # goes on as it was
    assert clock.to_session(-device_s) == pytest.approx(-3596.8, abs=1e-9)


def test_pieces_by_hand() -> None:
    clock = Clock("b", (0.0, 10.0, 20.0), (0.0, 10.0, 20.01))
    np.testing.assert_allclose(clock.to_session([-5, 5, 15, 25]), [-5, 5, 15.005, 25.015], rtol=0, atol=1e-12)


def test_without_a_clock_seconds_are_the_sessions() -> None:
    at = np.array([[0.0, 1.25], [-3.0, 7e4]])
    assert np.array_equal(SESSION_CLOCK.to_session(at), at)
    assert SESSION_CLOCK.to_session(at).dtype == np.float64
    assert SESSION_CLOCK.to_session(np.array([1, 2], np.int64)).dtype == np.float64
