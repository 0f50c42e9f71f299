"""``show`` on terminals of any width: no number is cut, and no line is wider than the terminal."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from flows.cli.session_tables import FittingTable, session_tables
from tasks.inspect.session_curves import FaceCurves, SessionCurves

NUMBERS = st.floats(allow_nan=False, allow_infinity=False).map(lambda value: f"{value:.4g}")
NAMES = st.text("abcdefgh_", min_size=1, max_size=24)


def printed(part: object, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False).print(part)
    return out.getvalue()


def words(text: str) -> list[str]:
    return re.findall(r"[^\s│┃;:,]+", text)


@pytest.mark.parametrize("width", [40, 80, 100])
def test_show_cuts_no_number(width: int) -> None:
    frames = 450
    face = FaceCurves("openface", np.ones(frames, np.float32), np.tile(np.float32([320, 240, 120]), (frames, 1)))
    curves = SessionCurves("a", np.arange(frames) / 15, 30.0, faces=[face], frame_features=2)
    curves.change = np.concatenate([[np.nan], np.linspace(1.23456e-5, 0.987654, frames - 1)])
    curves.sound_time, curves.sound_end_s = np.arange(3000) / 100, 30.0
    curves.loudness, curves.f0 = np.linspace(-123.456, -60.5, 3000), None
    text = "".join(printed(part, width) for part in session_tables([], {"main": curves, "side_camera": curves}))
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    assert "side_camera" in text
    for one in curves.summaries():
        assert {f"{value:.3g}" for value in (one.low, one.median, one.high)} <= set(words(text))
        assert text.count(one.spark.strip()) == 2 * [each.spark for each in curves.summaries()].count(one.spark)
    assert ("finding" in text, "-123" in text, "1.23e-05" in text) == (True, True, True)


@pytest.mark.slow
@given(st.lists(st.tuples(NAMES, NUMBERS, NUMBERS, st.lists(st.tuples(NAMES, NUMBERS)))), st.integers(30, 130))
def test_a_table_that_does_not_fit_is_a_list(
    rows: list[tuple[str, str, str, list[tuple[str, str]]]], width: int
) -> None:
    cells = [(name, low, high, "; ".join(map(" ".join, notes))) for name, low, high, notes in rows]
    table = FittingTable(("name", "low", "high", "notes"), cells, "", frozenset(("low", "high")), frozenset(("notes",)))
    text = printed(table, width)
    assert all(len(line) <= width for line in text.splitlines())
    shown = words(text)
    for name, low, high, notes in rows:
        assert {name, low, high, *(word for note in notes for word in note)} <= set(shown)
