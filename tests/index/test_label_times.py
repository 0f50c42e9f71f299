"""Which value a window has of the labels that meet it in time: compared as whole microseconds, each second once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storyframes.times import Clock, ticks
from tasks.clip_index.label_rules import LabelRule, Within
from tasks.clip_index.labels import add_labels, confidence_of, meet
from tasks.study.labels import Label, Scheme, SchemeType
from tasks.study.load import Session, Study
from tasks.study.rows import Track

NAMES = ("low", "mid", "high")
SCHEMES = {"mood": Scheme("mood", SchemeType.NOMINAL, labels=NAMES), "level": Scheme("level", SchemeType.ORDINAL)}
CLOCKS = {
    "behind": Clock("behind", (0.0,), (3.2,)),
    "drifting": Clock("drifting", (0.0, 3601.8), (3.2, 3603.2)),  # counts 500 millionths too many
}
ALWAYS = (-20, 10_000)  # the part of a label of the whole session, in tenths of a second: before all others


def study_of(labels: Sequence[Label]) -> Study:
    tracks = {name: Track("s", name, audio=f"{name}.wav", clock=name) for name in CLOCKS}
    return Study(
        Path("/nowhere"),
        {"s": Session(session_id="s", participant_id="p", video="no.mp4")},
        schemes=SCHEMES,
        labels=tuple(labels),
        tracks={"s": tracks},
        clocks={"s": CLOCKS},
    )


def said(
    labels: Sequence[Label],
    windows: Sequence[tuple[float, float]],
    rule: LabelRule,
    target: str | Sequence[str] | None = None,
) -> list[object]:
    """The value of each window, None for none, of the labels' scheme."""
    start_s, stop_s = zip(*windows, strict=True)
    index = pd.DataFrame({"session_id": "s", "target": target, "start_s": start_s, "stop_s": stop_s})
    values = add_labels(index, study_of(labels), {labels[0].scheme: rule})[labels[0].scheme]
    return [None if pd.isna(value) else value for value in values]


def mood(value: str, start_s: float | None = None, end_s: float | None = None, **others: str) -> Label:
    return Label("s", "mood", value, start_s, end_s, **others)


OVERLAP, MAJORITY, LAST = (LabelRule(within) for within in (Within.OVERLAP, Within.MAJORITY, Within.LAST))


def test_a_value_in_two_parts_that_touch_is_a_value_in_one_part() -> None:
    mid = mood("mid", 0.5, 3)
    whole = said([mood("low", 0, 3), mid], [(1, 3)], OVERLAP)
    assert said([mood("low", 0, 1), mood("low", 1, 3), mid], [(1, 3)], OVERLAP) == whole == ["low"]


def test_of_values_that_hold_equally_long_a_window_has_the_one_that_begins_first_in_it() -> None:
    labels = [mood("low", 0, 1), mood("mid", 10, 11), mood("low", 11, 12)]
    assert said(labels, [(10, 12), (0, 12), (11, 13)], OVERLAP) == ["mid", "low", "low"]
    assert said([*labels, mood("mid", 12, 20)], [(10, 14)], OVERLAP) == ["mid"]
    both = [mood("low", 0, 1), mood("high", 9, 13), mood("low", 10, 12)]
    assert said(both, [(10, 12)], MAJORITY) == ["high"]  # both reach over all of it; "high" began before it


def test_equally_long_is_said_of_microseconds() -> None:
    assert 0.3 - 0.2 < 0.4 - 0.3
    assert said([mood("mid", 0.2, 0.3), mood("low", 0.3, 0.4)], [(0.2, 0.4)], OVERLAP) == ["mid"]


def test_a_second_that_one_rater_labels_twice_counts_once() -> None:
    twice = [mood("low", 0, 0.7), mood("low", -3.2, -2.5, track="behind")]
    assert said(twice, [(0, 2)], MAJORITY) == [None]
    assert said([*twice, mood("mid", 0.7, 1.6)], [(0, 2)], OVERLAP) == ["mid"]
    overlapping = [mood("low", 0, 0.7), mood("low", 0.3, 0.8), mood("low", 0.1, 0.2), mood("mid", 1, 1.9)]
    assert said(overlapping, [(0, 2), (0, 1.5)], MAJORITY) == [None, "low"]
    assert said(overlapping, [(0, 2)], OVERLAP) == ["mid"]
    levels = [Label("s", "level", *each) for each in ((1.0, 0, 1), (4.0, 1, 2))]
    on_both = [*levels, Label("s", "level", 1.0, -3.2, -2.2, "behind")]
    assert said(on_both, [(0, 2)], LabelRule(Within.MEAN)) == [2.5]


def test_raters_who_agree_are_not_one_rater_who_says_it_twice() -> None:
    labels = [mood(value, 0, 1, rater_id=rater) for value, rater in (("low", "a"), ("low", "b"), ("mid", "c"))]
    assert said(labels, [(0, 2)], OVERLAP) == ["low"]
    assert said([*labels, mood("mid", 0, 1, rater_id="c", track="behind")], [(0, 2)], OVERLAP) == ["low"]


@pytest.mark.parametrize("within", Within)
def test_a_label_that_ends_where_a_window_begins_is_not_the_windows(within: Within) -> None:
    """Nor is one that begins where it ends, whatever binary fractions make of the frames' times and the labels'."""
    frames = np.cumsum(np.full(1200, 1 / 30))  # every third is at a tenth of a second
    befores, afters, windows, targets = [], [], [], []
    for track, clock in (None, Clock("s")), *CLOCKS.items():
        for tenth in range(40, 400):
            edge, at = round(float(clock.to_device(tenth / 10)), 5), float(frames[3 * tenth - 1])
            part = {"track": track, "target": f"{tenth} {track}"}
            befores.append(Label("s", "level", 1.0, edge - 1, edge, **part))
            afters.append(Label("s", "level", 2.0, edge, edge + 1, **part))
            windows += [(at - 1, at), (at, at + 1)]
            targets += [part["target"]] * 2
    for labels, each in ((befores, [1, None]), (afters, [None, 2]), (befores + afters, [1, 2])):
        got = said(labels, windows, LabelRule(within), targets)
        wrong = [target for target, one, right in zip(targets, got, each * len(befores), strict=True) if one != right]
        assert not wrong, (len(wrong), len(got))


def test_a_moment_is_of_the_window_that_begins_with_it_not_of_the_one_that_ends() -> None:
    windows = [(0.1, 0.3), (0.1 + 0.2, 0.5), (0.5, 0.7)]
    assert [said([mood("low", 0.3, 0.3)], windows, rule) for rule in (OVERLAP, LAST)] == [[None, "low", None]] * 2
    assert said([mood("low", 0.3, 0.3)], windows, MAJORITY) == [None] * 3
    last = [mood("mid", 0.1, 0.5), mood("low", 0.3, 0.3), mood("high", 0.5, 0.5)]
    assert said(last, windows, LAST) == ["mid", "low", "high"]
    assert said(last, windows, OVERLAP) == ["mid", "mid", "high"]
    levels = [Label("s", "level", value, at, at) for value, at in ((1.0, 0.1), (3.0, 0.2), (9.0, 0.3))]
    assert said(levels, windows, LabelRule(Within.MEAN)) == [2, 9, None]


def test_exactly_half_is_no_majority() -> None:
    """A microsecond more is one."""
    tenths = range(300)
    firsts = [mood("low", tenth / 10, tenth / 10 + 1, target=str(tenth)) for tenth in tenths]
    seconds = [mood("low", tenth / 10 + 1, tenth / 10 + 2, target=str(tenth)) for tenth in tenths]
    windows, targets = [(tenth * 0.1, (tenth + 20) * 0.1) for tenth in tenths], [str(tenth) for tenth in tenths]
    for halves in (firsts, seconds):
        assert said(halves, windows, MAJORITY, targets) == [None] * 300
    assert said([mood("low", 0.9, 1.900001)], [(0.9, 2.9)], MAJORITY) == ["low"]
    assert said([mood("low", 0, 1), mood("mid", 1, 2)], [(0, 2)], MAJORITY) == [None]
    assert said([mood("low", 0, 1), mood("mid")], [(0, 2)], MAJORITY) == ["mid"]  # what is said of the whole session


def test_a_label_about_a_target_comes_before_those_that_are_about_none() -> None:
    labels = [mood("low", 0, 2), mood("mid", 0, 2, target="film"), mood("high", 0, 2)]
    for some in (labels, labels[::-1]):
        assert said(some, [(0, 2), (2, 4)], OVERLAP, "film") == ["mid", None]
    assert said(labels[:2], [(0, 2)] * 2, OVERLAP, ["other", None]) == ["low", "low"]
    whole = [mood("low"), mood("mid", target="film")]
    assert said(whole, [(0, 2)] * 3, OVERLAP, ["film", "other", None]) == ["mid", "low", "low"]


# --- all of it, against counting tenths of a second ------------------------------------------------------------------


class Part:
    """A label in tenths of a second of the session."""

    def __init__(self, value: int, first: int, end: int, track: str | None, rater: str | None, target: str | None):
        self.value, self.first, self.end = value, first, end
        self.track, self.rater, self.target = track, rater, target

    def __repr__(self) -> str:
        return f"Part{(self.value, self.first, self.end, self.track, self.rater, self.target)}"

    @property
    def is_whole(self) -> bool:
        return (self.first, self.end) == ALWAYS

    def label(self, scheme: str) -> Label:
        value = NAMES[self.value] if scheme == "mood" else float(self.value)
        times = [None, None]
        if not self.is_whole:
            clock = CLOCKS.get(self.track or "", Clock("s"))
            times = [round(float(clock.to_device(tenth / 10)), 5) for tenth in (self.first, self.end)]
        return Label("s", scheme, value, *times, track=self.track, rater_id=self.rater, target=self.target)


PARTS = st.builds(
    lambda value, first, length, track, rater, target, is_whole: Part(
        value, *(ALWAYS if is_whole else (first, first + length)), track, rater, target
    ),
    st.integers(0, 2),
    st.integers(0, 40),
    st.integers(0, 15),
    st.sampled_from([None, *CLOCKS]),
    st.sampled_from([None, "a", "b"]),
    st.sampled_from([None, None, "film"]),
    st.integers(0, 9).map(lambda number: number == 0),
)


def by_hand(parts: list[Part], start: int, stop: int, within: Within) -> float:
    """What one rater's parts, in the table's order, make of the window from start to stop; NaN for nothing."""
    parts = sorted(parts, key=lambda part: (part.first, part.end))
    touching = [p for p in parts if p.first < stop and (p.end > start or p.first == p.end == start)]
    if not touching:
        return np.nan
    if within is Within.LAST:
        return touching[-1].value

    def holds(value: int, tenth: int) -> bool:
        return any(p.value == value and p.first <= tenth < p.end for p in parts)

    microseconds, begins = {}, {}
    for value in {p.value for p in touching}:
        seconds = {tenth for tenth in range(start, stop) if holds(value, tenth)}
        moments = {p.first for p in touching if p.value == value and p.first == p.end} - seconds
        microseconds[value] = 100_000 * len(seconds) + len(moments)
        begin = min(seconds | moments)
        while ALWAYS[0] < begin <= start and holds(value, begin - 1):
            begin -= 1
        first = next(place for place, p in enumerate(parts) if p.value == value and p.first == begin)
        begins[value] = begin, first
    if within is Within.MEAN:
        return sum(value * held for value, held in microseconds.items()) / sum(microseconds.values())
    best = min(microseconds, key=lambda value: (-microseconds[value], begins[value]))
    return best if within is Within.OVERLAP or microseconds[best] > 50_000 * (stop - start) else np.nan


def of_raters_by_hand(parts: list[Part], start: int, stop: int, within: Within, *, is_numeric: bool) -> float:
    values = []
    for rater in {part.rater for part in parts}:
        mine = [part for part in parts if part.rater == rater]
        value = by_hand([part for part in mine if not part.is_whole], start, stop, within)
        values.append(by_hand([p for p in mine if p.is_whole], start, stop, within) if np.isnan(value) else value)
    values = [value for value in values if not np.isnan(value)]
    if is_numeric or not values:
        return float(np.mean(values)) if values else np.nan
    votes = sorted((values.count(value), value) for value in set(values))
    return np.nan if len(votes) > 1 and votes[-1][0] == votes[-2][0] else votes[-1][1]


@settings(deadline=None, max_examples=60)
@given(
    parts=st.lists(PARTS, min_size=1, max_size=12),
    windows=st.lists(st.tuples(st.integers(0, 55), st.integers(1, 20)), min_size=1, max_size=8),
    rule=st.sampled_from([("mood", one) for one in Within if one is not Within.MEAN] + [("level", w) for w in Within]),
    target=st.sampled_from([None, "film", "other"]),
)
def test_every_rule_is_what_counting_tenths_of_a_second_gives(
    parts: list[Part], windows: list[tuple[int, int]], rule: tuple[str, Within], target: str | None
) -> None:
    scheme, within = rule
    at = [(start * 0.1, (start + length) * (1 / 30) * 3) for start, length in windows]
    got = said([part.label(scheme) for part in parts], at, LabelRule(within), target)
    meant = [part for part in parts if part.target == target] if target else []
    meant = meant or [part for part in parts if part.target is None]
    for (start, length), value in zip(windows, got, strict=True):
        expected = of_raters_by_hand(meant, start, start + length, within, is_numeric=scheme == "level")
        if np.isnan(expected):
            assert value is None, (start, length)
        elif scheme == "mood":
            assert value == NAMES[int(expected)], (start, length)
        else:
            assert value == pytest.approx(expected, rel=1e-6), (start, length)


@given(
    parts=st.lists(st.tuples(st.sampled_from([0.0, 1.0, 5.0]), st.integers(0, 60), st.integers(0, 40)), min_size=1),
    sure=st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=1),
    within=st.sampled_from(Within),
)
def test_the_weight_is_the_mean_by_time_of_the_parts_that_the_value_comes_from(
    parts: list[tuple[float, int, int]], sure: list[float], within: Within
) -> None:
    parts = sorted(parts, key=lambda part: (part[1], part[1] + part[2]))
    values = np.array([value for value, _, _ in parts])
    spans = ticks([(start / 10, (start + length) / 10) for _, start, length in parts])
    confidence = np.resize(sure, len(values))
    start = ticks(np.arange(0.0, 6, 1))
    value_of = meet(values, spans, start, start + 2_000_000, within)
    got = confidence_of(value_of, confidence, values, spans, start, start + 2_000_000, within)
    for begin, value, weight in zip(start, value_of, got, strict=True):
        if np.isnan(value):
            assert np.isnan(weight)
            continue
        end = begin + 2_000_000
        time = [max(min(max(last, first + 1), end) - max(first, begin), 0) for first, last in spans]
        if within is Within.LAST:
            time = [0 if other != max(n for n, t in enumerate(time) if t) else 1 for other in range(len(time))]
        elif within is not Within.MEAN:
            time = [t if v == value else 0 for t, v in zip(time, values, strict=True)]
        np.testing.assert_allclose(weight, np.average(confidence, weights=time), atol=1e-9)


def test_a_value_that_holds_for_half_of_a_window_has_no_majority() -> None:
    start, stop = np.array([0, 999, 1000]), np.array([1000, 2000, 2000])
    held = meet(np.array([3.0]), np.array([[500, 1500]]), start, stop, Within.MAJORITY)
    np.testing.assert_array_equal(held, [np.nan, 3.0, np.nan])
    held = meet(np.array([3.0]), np.array([[499, 1500]]), start, stop, Within.MAJORITY)
    np.testing.assert_array_equal(held, [3.0, 3.0, np.nan])
