"""The report stays light and readable: long curves, many sessions, colours on light and on dark."""

from __future__ import annotations

import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_pages import session_ids, write_study_page
from support.pages.page_data import page_data

from storyframes_report.report.chart import COLOURS, DARK_BACKGROUND, LIGHT_BACKGROUND, TEXT_ON
from storyframes_report.report.downsample import bucket_max, bucket_mean, thin
from storyframes_report.report.study_page.charts import bars, histogram, stacked, stacked_histogram
from storyframes_report.report.timeline import timeline
from storyframes_report.report.timetable import Timetable
from tasks.inspect.session_curves import SessionCurves


def test_short_curves_are_drawn_as_they_are() -> None:
    time, values = np.arange(2000) / 15, np.sin(np.arange(2000))
    drawn = thin(time, values)
    assert drawn.rows == 1
    np.testing.assert_array_equal(drawn.y, values.astype(np.float32))


@settings(deadline=None, max_examples=20)
@given(st.integers(2001, 40_000), st.integers(0, 2**32 - 1))
def test_no_extreme_of_a_long_curve_is_lost(rows: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    time, values = np.arange(rows) / 15, generator.normal(size=rows)
    values[generator.uniform(size=rows) < 0.1] = np.nan
    gap = generator.integers(0, rows // 2)
    values[gap : gap + rows // 10] = np.nan
    drawn = thin(time, values)
    assert len(drawn.x) <= 2002
    assert (np.diff(drawn.x) >= 0).all()
    for start in range(0, rows, drawn.rows):
        block = values[start : start + drawn.rows]
        points = drawn.y[2 * (start // drawn.rows) :][:2]
        if np.isnan(block).all():
            assert np.isnan(points).all()
        else:
            assert {np.float32(np.nanmin(block)), np.float32(np.nanmax(block))} == set(points.tolist())
    x, maxima, behind = bucket_max(time, values[:, None])
    assert maxima.shape == (1, len(x) - 1)  # x are the buckets' ends, so that each is drawn where its rows are
    np.testing.assert_allclose(x, np.append(time[::behind], rows / 15), rtol=1e-6)
    assert np.nanmax(maxima) == np.float32(np.nanmax(values))
    flags = (values > 0).astype(np.float64)
    _, means, behind = bucket_mean(time, flags[:, None])
    assert means[0, 0] == np.float32(flags[:behind].mean())
    assert means[0, -1] == np.float32(flags[behind * (means.shape[1] - 1) :].mean())


def test_a_session_of_29_minutes_stays_light() -> None:
    rows, hops = 26_100, 174_000
    generator = np.random.default_rng(0)
    curves = SessionCurves("s", np.arange(rows) / 15, rows / 15)
    curves.tracked, curves.confidence = np.ones(rows, bool), generator.random(rows, np.float32)
    curves.head_pose, curves.gaze = generator.normal(size=(rows, 3)), generator.normal(size=(rows, 2))
    curves.action_units, curves.change = 5 * generator.random((rows, 17)), generator.random(rows)
    curves.sound_time, curves.sound_end_s = np.arange(hops) / 100, hops / 100
    curves.loudness, curves.f0 = -60 * generator.random(hops), 200 * generator.random(hops)
    chart = timeline(curves, Timetable())
    assert chart is not None
    assert len(chart.data) < 1_000_000
    assert "smallest and the largest value of each 27 frames" in chart.alt


def test_the_page_of_many_sessions_grows_by_little_for_each(store_root: Path, tmp_path: Path) -> None:
    """Rows are columns of text, and of what is listed only the first: nothing on the page is as tall as the study."""
    sizes = {}
    for count in (269, 2000):
        page = write_study_page(store_root, tmp_path / "site", count)
        sizes[count] = len(page)
        assert page.count("<tr>") < 60
        assert page_data(page, "sessions")["sessions"] == session_ids(count)
        assert f"None of {count} sessions can be trained on yet" in page
    assert sizes[2000] < 400_000
    assert sizes[2000] - sizes[269] < 150 * (2000 - 269)


@pytest.mark.needs("node")
def test_the_scripts_plain_functions() -> None:
    """The table's order, filter and rows in sight; a moving timeline's parts, points and ticks."""
    scripts = sorted(Path(__file__).parent.glob("*.test.js"))
    ended = subprocess.run(["node", "--test", *scripts], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout
    assert re.search(r"# pass [1-9]", ended.stdout)


@pytest.mark.parametrize(
    "names", [["calm", "tense"], [f"{n}" for n in range(40)], ["a label of many words", "<b>b</b>"]]
)
def test_names_of_labels_are_read_however_many_and_long(names: list[str]) -> None:
    """Few and short ones stand below their bars; else the bars lie, with room for each, and long names are cut."""
    counts = pd.DataFrame({"train": range(len(names)), "val": 1}, index=names)
    lie = len(names) > 2 or len(names[0]) > 9
    for chart in (
        bars("key", "title", "alt", ("act", "how often"), dict.fromkeys(names, 2), COLOURS[0]),
        stacked("key", "title", "act", counts, ("train", "val")),
    ):
        assert {bar.orientation for bar in chart.figure.data} == {"h" if lie else "v"}
        axis = chart.figure.layout.yaxis if lie else chart.figure.layout.xaxis
        assert len(axis.tickvals) == len(names)
        assert max(map(len, axis.ticktext)) <= 24
        assert chart.height >= (20 * len(names) if lie else 200)
        assert [row[0] for row in chart.rows] == names
        assert len(chart.alt) < 200


# --- contrast ---


def linear_rgb(colour: str) -> list[float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def luminance(colour: str) -> float:
    red, green, blue = linear_rgb(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


# What readers without red, green or blue cones see, in linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
SEEN = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def cielab(colour: str, seen: Any) -> np.ndarray:
    """L*, a* and b* (3,) of a colour as it is seen, for sRGB's white."""
    linear = np.clip(np.array(seen) @ linear_rgb(colour), 0, 1)
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    xyz = np.array(to_xyz) @ linear / [0.95047, 1, 1.08883]
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("seen", SEEN)
def test_colours_are_told_apart_by_colour_blind_readers(seen: str) -> None:
    for one, other in combinations(COLOURS, 2):
        apart = np.linalg.norm(cielab(one, SEEN[seen]) - cielab(other, SEEN[seen]))
        assert apart > 17, (one, other)  # a difference of 2.3 is just seen


def test_colours_are_seen_on_light_and_on_dark() -> None:
    for colour in COLOURS:
        for background in (LIGHT_BACKGROUND, DARK_BACKGROUND):
            assert contrast(colour, background) >= 3, (colour, background)
        text = f"#{2 * TEXT_ON[colour][1:]}"  # of three digits
        assert contrast(colour, text) >= 4.5, (colour, text)
        of_words = "#" + "".join(f"{round(0.65 * int(colour[at : at + 2], 16)):02x}" for at in (1, 3, 5))
        assert contrast(of_words, "#ffffff") >= 4.5, colour
    css = (Path(__file__).parents[1] / "storyframes_report/report/assets/report.css").read_text()
    for block in re.findall(r":root(?::not\(\.paper\))? \{(.*?)\}", css, re.DOTALL):
        colours = dict(re.findall(r"--(\w+): (#\w{6})", block))
        assert colours["paper"] in (LIGHT_BACKGROUND, DARK_BACKGROUND)
        for paper in ("paper", "band"):
            for text, at_least in (("ink", 7), ("soft", 7), ("link", 4.5), ("good", 4.5), ("warn", 4.5), ("bad", 4.5)):
                assert contrast(colours[text], colours[paper]) >= at_least, (text, paper)
        assert contrast(colours["bad"], colours["alarm"]) >= 4.5


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([14.0] * 9, ["14"]),
        ([0.25] * 3, ["0.25"]),
        ([0.0] * 2, ["0"]),
        ([0.1 + 0.2, 0.3], ["0.3"]),
        (
            [1000, 1001],
            ["1000 to 1000.2", "1000.2 to 1000.4", "1000.4 to 1000.6", "1000.6 to 1000.8", "1000.8 to 1001"],
        ),
    ],
)
def test_parts_of_a_histogram_are_called_after_what_lies_in_them(values: list[float], names: list[str]) -> None:
    """Equal values are no range: from 13.5 to 14.5 nothing was measured."""
    chart = histogram("one", "How long?", "s", values, "sessions", COLOURS[0])
    assert [name for name, _ in chart.rows] == names
    assert sum(number for _, number in chart.rows) == len(values)
    split = stacked_histogram("two", "How long?", "s", {"train": values, "test": values[:1]}, ["train", "test"])
    assert [row[0] for row in split.rows] == names
    assert sum(row[-1] for row in split.rows) == len(values) + 1
