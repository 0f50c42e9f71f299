"""The numbers that a page carries: as fine as they are drawn, gaps kept, equal arrays once."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import pytest
from support.messages import missing
from support.pages.page_data import page_data

from storyframes_report.report.chart import Chart
from storyframes_report.report.timeline import timeline
from storyframes_report.report.timetable import Timetable
from tasks.inspect.session_curves import SessionCurves, Utterances


def carried(*traces: go.Bar | go.Scatter | go.Heatmap) -> tuple[list[dict], str]:
    chart = Chart("one", "One", "One chart.", go.Figure(traces))
    page = f'<script type="application/json" id="one-figure">{chart.data}</script>'
    return page_data(page, "one-figure")["data"], page


@pytest.mark.parametrize(("low", "span"), [(0, 5), (-80, 60), (1e6, 0.01), (0, 1e-12), (-1e200, 3e200), (7, 0), (0, 0)])
def test_a_curve_comes_back_as_fine_as_it_is_drawn(low: float, span: float) -> None:
    time = np.cumsum(np.random.default_rng(0).uniform(0.01, 0.1, 2000))
    values = low + span * np.random.default_rng(1).random(2000)
    values[[0, 7, 8, 1999]] = np.nan, np.nan, np.inf, np.nan
    (trace,), _ = carried(go.Scatter(x=time, y=values))
    gaps = [0, 7, 8, 1999]
    assert np.flatnonzero(np.isnan(trace["y"])).tolist() == gaps
    np.testing.assert_allclose(
        np.delete(trace["y"], gaps), np.delete(values, gaps), rtol=1e-15, atol=(span or abs(low)) / 1000
    )
    np.testing.assert_allclose(trace["x"], time, rtol=0, atol=time[-1] / 50_000)


def test_bars_begin_and_end_to_a_tenth_of_a_millisecond() -> None:
    start = np.cumsum(np.random.default_rng(0).uniform(0.01, 0.1, 2000))
    (trace,), _ = carried(go.Bar(base=start, x=start / 100))
    np.testing.assert_allclose(trace["base"], start, rtol=0, atol=1e-4)
    np.testing.assert_allclose(trace["x"], start / 100, rtol=0, atol=1e-6)


def test_whole_numbers_and_zeros_stay_exact() -> None:
    values = np.tile([0.0, 5.0, 1.0, 0.25], 300).astype(np.float32)
    (trace,), _ = carried(go.Scatter(y=values))
    np.testing.assert_array_equal(trace["y"], values)


def test_a_strip_keeps_its_rows_and_a_curve_of_gaps_is_gaps() -> None:
    strip = np.random.default_rng(0).normal(size=(17, 900)).astype(np.float32)
    strip[3] = np.nan
    drawn, _ = carried(go.Heatmap(z=strip), go.Scatter(y=np.full(500, np.nan)))
    np.testing.assert_allclose(drawn[0]["z"], strip, atol=0.05)
    assert np.isnan(drawn[1]["y"]).all()


def test_a_strip_is_as_fine_as_its_colours_and_its_tooltip_whatever_is_beyond_them() -> None:
    strip = np.random.default_rng(0).normal(size=(17, 900)).astype(np.float32)
    strip[0, 0] = 400  # standard deviations: full colour is 3
    (drawn,), _ = carried(go.Heatmap(z=strip, zmin=-3, zmax=3))
    np.testing.assert_allclose(drawn["z"], strip, atol=0.0501)
    strip[0, 1] = 1e12  # as fine as 32 bits are
    (drawn,), _ = carried(go.Heatmap(z=strip, zmin=-3, zmax=3))
    np.testing.assert_allclose(drawn["z"], strip, atol=1e12 / 4.8e7)
    shares = np.tile(np.arange(12) / 11, 100)  # of frames without a face, in whole percents
    (drawn,), _ = carried(go.Heatmap(z=shares[None], zmin=0, zmax=1))
    assert [f"{one:.0%}" for one in drawn["z"][0]] == [f"{one:.0%}" for one in shares]


def test_times_of_two_hours_have_the_hundredths_of_a_second_that_tooltips_show() -> None:
    time = np.linspace(0, 7200.03, 2000)
    (trace,), _ = carried(go.Scatter(x=time, y=time))
    np.testing.assert_allclose(trace["x"], time, rtol=0, atol=0.00501)


def test_rows_share_their_times_and_smooth_curves_are_small() -> None:
    time = (np.arange(3000) / 15).astype(np.float32)
    curves = [go.Scatter(x=time, y=np.sin(time / 7 + phase).astype(np.float32)) for phase in range(10)]
    drawn, page = carried(*curves)
    assert len(page) < 10 * 3000 * 1.5  # float32 in Base64 takes 5.3 bytes a value, twice
    for trace, curve in zip(drawn, curves, strict=True):
        np.testing.assert_array_equal(trace["x"], drawn[0]["x"])
        np.testing.assert_allclose(trace["y"], curve.y, atol=1e-3)


def test_words_are_carried_in_order_to_a_hundredth_of_a_second_and_those_without_times_are_not() -> None:
    """A foreign feature may have such words: the page could not be made."""
    start = np.array([7.118, np.nan, 0.503, 5.25])
    curves = SessionCurves("s", np.arange(100) / 10, 10.0)
    curves.utterances = Utterances(np.array([0.5]), np.array([9.0]), ["ann"])
    curves.words = Utterances(start, start + np.array([0.3, 0.3, 0.2, np.nan]), ["ann"] * 4)
    chart = timeline(curves, Timetable())
    assert chart is not None
    (trace,), _ = carried(*chart.figure.data)
    assert trace["meta"]["words"]["steps"] == [50, 662]
    assert trace["meta"]["words"]["lengths"] == [20, 30]
    assert not missing(chart.rows[0][-1], "1 utterance", "4 words", "8.5 s")


def test_words_of_which_no_utterance_is_known_have_a_row_that_is_filled_where_they_lie_close_together() -> None:
    start = np.array([0.5, 1.2, 4.0, 2.0, np.nan])
    curves = SessionCurves("s", np.arange(100) / 10, 10.0)
    curves.utterances = Utterances(np.array([6.0]), np.array([7.0]), ["ann"])
    curves.words = Utterances(start, start + np.array([0.3, 0.5, 0.25, 0.5, 1]), ["ben", "ben", "ben", "ann", "cid"])
    chart = timeline(curves, Timetable())
    assert chart is not None
    bars = {trace.name: trace for trace in chart.figure.data}
    assert set(bars) == {"ann", "ben"}
    assert bars["ben"].base == pytest.approx((0.5, 4.0))
    assert bars["ben"].x == pytest.approx((1.2, 0.25))
    assert bars["ben"].customdata == ("ben", "ben")
    assert {row[0]: row[1:3] + row[-1:] for row in chart.rows} == {
        "speech of ann": ("6.00", "7.00", "1 utterance, 1 word, 1.0 s"),
        "speech of ben": ("0.50", "4.25", "3 words, 1.4 s"),
    }
