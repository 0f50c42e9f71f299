"""The answers of the study page: who differs, whether clocks and raters agree, what changed; the worst is named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from support.messages import missing

from storyframes.times import Clock
from storyframes_report.report.facts import study_facts
from storyframes_report.report.matrix import Cell, CellState, Matrix
from storyframes_report.report.study_page.answers import Answer, Link, answers, modified_z
from storyframes_report.report.study_page.changes import what_changed
from storyframes_report.report.study_page.columns import StudyPage, read_columns, session_columns
from storyframes_report.report.study_page.summary import FindingSummary, SessionSummary
from tasks.inspect.quality import Rule
from tasks.study.labels import Label, Scheme, SchemeType
from tasks.study.load import Session, Study
from tasks.study.rows import Track

SESSIONS = [f"p{person}-s{session}" for person in range(6) for session in range(2)]
FEATURES = ("frames", "openface", "openface@side")


def study(**parts: object) -> Study:
    sessions = {one: Session.model_construct(session_id=one, participant_id=one[:2]) for one in SESSIONS}
    return Study(Path("study"), sessions, **parts)  # type: ignore[arg-type]


def page(cells: dict[tuple[str, str], Cell], loudness: dict[str, float], *findings: FindingSummary) -> StudyPage:
    """Every session has a clip but p5-s1; cells are done and measured in full where they are not given."""
    done = Cell(CellState.DONE, 90, measured=1.0, version="v1", about_rows="90")
    matrix = Matrix(tuple(SESSIONS), FEATURES, {(s, f): cells.get((s, f), done) for s in SESSIONS for f in FEATURES})
    facts = dataclasses.replace(study_facts(study(), [], None, matrix), bytes=1)
    typical = {one: {"loudness (dB)": loudness.get(one, -25.0)} for one in SESSIONS}
    summaries = {one: SessionSummary(findings if one == "p1-s0" else (), typical=typical[one]) for one in SESSIONS}
    people = {one: one[:2] for one in SESSIONS}
    return StudyPage(facts, people, {"p4-s1": "its video is damaged"}, dict.fromkeys(SESSIONS[:-1], 1), summaries)


def asked(made: StudyPage, of: Study | None = None) -> dict[str, Answer]:
    return {answer.key: answer for answer in answers(made, of or study())}


def test_what_keeps_sessions_from_training_is_counted_and_named() -> None:
    failed = Cell(CellState.FAILED, reason="no face")
    kept = Cell(CellState.FAILED, 90, reason="no face", kept=True, measured=1.0)
    poor = Cell(CellState.DONE, 90, measured=0.125)
    stale = Cell(CellState.STALE, 90, measured=1.0)
    made = page(
        {
            ("p0-s0", "openface"): failed,
            ("p0-s1", "openface"): kept,
            ("p2-s1", "openface"): poor,
            ("p3-s0", "frames"): stale,
            ("p1-s1", "openface@side"): Cell(CellState.NOT_ASKED),
            ("p5-s0", "openface@side"): Cell(CellState.NO_INPUT, reason="no side camera"),
        },
        {},
    )
    training, coverage = asked(made)["training"], asked(made)["coverage"]
    assert not missing(training.answer, "12 sessions", "p4-s1", "p5-s1", "1 session", "p0-s0", "p3-s0")
    assert ("no clips", "its video is damaged", 1, [Link("p4-s1", "sessions/p4-s1.html")]) in training.rows
    both = [Link("p0-s0", "sessions/p0-s0.html"), Link("p0-s1", "sessions/p0-s1.html")]
    assert ("openface failed", "no face", 2, both) in training.rows
    # 33 cells have a share: 12 + 11 + 10, of which one is an eighth
    assert not missing(coverage.answer, "of 12 sessions", "openface in 1", "97.3%", "p2-s1", "12.5%")
    assert [row[:3] + row[-1:] for row in coverage.rows] == [
        ("frames", "12 of 12", "100.0%", ""),
        ("openface", "11 of 12", "92.0%", ""),
        ("openface of side", "10 of 10", "100.0%", 1),
    ]
    assert "openface of side" not in coverage.answer
    assert asked(page({("p5-s0", "openface"): Cell(CellState.NO_INPUT)}, {}))["coverage"].good is True


def test_a_participant_who_differs_is_named_with_the_session_that_differs_most() -> None:
    people = asked(page({}, {"p3-s0": -12.0, "p3-s1": -14.0, "p1-s0": -24.9}))["people"]
    assert not missing(people.answer, "1 of 6 participants", "p3", "-13", "-25")
    (row,) = people.rows
    assert row[-2:] == (1, [Link("p3: -13 (p3-s0: -12)", "sessions/p3-s0.html")])
    assert not missing(asked(page({}, {}))["people"].answer, "6 participants", "1 measure")


def test_a_robust_deviation_is_that_of_the_median_and_has_a_floor() -> None:
    numbers = {str(number): float(number) for number in (1, 2, 3, 4, 100)}
    assert modified_z(numbers)["100"] == pytest.approx(97 / 1.4826)
    assert modified_z({"a": 1.0, "b": 1.0, "c": 0.98})["c"] == pytest.approx(-2)  # a hundredth of the median is one
    assert modified_z({"a": 0.0, "b": 0.0, "c": 0.0}) == {}


def test_where_most_are_equal_the_others_are_measured_by_the_mean_deviation() -> None:
    silent = {str(number): 0.0 for number in range(9)}
    assert modified_z({**silent, "odd": 4.0})["odd"] == pytest.approx(10 / 1.2533)  # the mean deviation is 0.4
    both = modified_z({**silent, **{f"half {number}": 4.0 for number in range(8)}})  # two groups, and nobody is odd
    assert max(both.values()) < 2
    typical = {one: {"laughter": 3.0 * one.startswith("p4")} for one in SESSIONS}
    made = page({}, {})
    summaries = {one: SessionSummary(typical=typical[one]) for one in SESSIONS}
    people = asked(dataclasses.replace(made, summaries=summaries))["people"]
    assert not missing(people.answer, "1 of 6 participants", "p4")


def test_of_clocks_the_largest_offset_and_the_largest_drift_are_named() -> None:
    names = ("late", "fast", "good")
    tracks = {"p0-s0": {name: Track("p0-s0", name, None, None, None, None, clock=name) for name in names}}
    clocks = {
        "late": Clock("late", (0.0,), (2.5,)),
        "fast": Clock("fast", (0.0, 1000.9), (0.25, 1000.25)),
        "good": Clock("good"),
    }
    jump = FindingSummary(Rule.JUMP, "main", "timeline", 0.4, ((3.0, 3.4),))
    made = page({}, {}, jump)
    clock = asked(made, study(tracks=tracks, clocks={"p0-s0": clocks}, clock_errors={"p0-s0": {"fast": 0.002}}))[
        "clocks"
    ]
    assert not missing(clock.answer, "3 tracks", "beside the sessions' own files")
    assert not missing(clock.answer, "2.500 s", "p0-s0", "900 ppm", "3.24 s")
    assert not missing(clock.answer, "1 session", "p1-s0")
    assert [row[1:] for row in clock.rows] == [("0.250", "900.0", "0.0020"), ("2.500", "0.0", "")]
    moments = asked(made)["quality"].rows[0][-1]
    assert moments == [Link("p1-s0 3.00 – 3.40 s", "sessions/p1-s0.html#timeline=3.00,3.40")]


def test_raters_are_compared_over_the_same_part_and_the_worst_is_linked() -> None:
    def label(scheme: str, rater: str, value: float | str, start: float, target: str | None = None) -> Label:
        return Label("p0-s0", scheme, value, start, start + 1, target=target, rater_id=rater)

    schemes = {
        "warmth": Scheme("warmth", SchemeType.ORDINAL, 1, 5),
        "pace": Scheme("pace", SchemeType.ORDINAL, labels=("slow", "even", "fast")),
        "mood": Scheme("mood", SchemeType.NOMINAL),
        "secret": Scheme("secret", SchemeType.NOMINAL, private=True),
    }
    labels = (
        *(label("warmth", "a", value, start) for value, start in ((1.0, 0), (2.0, 7), (3.0, 9))),
        *(label("warmth", "b", value, start) for value, start in ((1.0, 0), (5.0, 7), (3.0, 20))),
        *(label("pace", "a", "slow", 0), label("pace", "b", "fast", 0)),
        *(label("mood", rater, value, 0) for rater, value in (("a", "calm"), ("b", "calm"), ("c", "tense"))),
        *(label("secret", rater, rater, 0) for rater in ("hidden", "b")),
    )
    raters = asked(page({}, {}), study(schemes=schemes, labels=labels))["raters"]
    by_scheme = {row[0]: row[1:] for row in raters.rows}
    assert by_scheme["warmth"] == (
        2,
        2,
        "50.0%",
        "1.50",
        Link("p0-s0: 2 and 5", "sessions/p0-s0.html#timeline=7.00,8.00"),
    )
    assert by_scheme["pace"][:4] == (2, 1, "0.0%", "2.00")
    assert by_scheme["mood"][:4] == (3, 3, "33.3%", "")
    assert "secret" not in by_scheme
    assert not missing(raters.answer, "pace 0", "1 pair", "mood 33", "3 pairs")


def test_what_changed_since_the_last_report_is_told_by_feature_and_session(tmp_path: Path) -> None:
    lost = FindingSummary(Rule.FACE_LOST, "main", "timeline", 3.0, ((0.0, 3.0),))
    before = session_columns(page({("p0-s0", "openface"): Cell(CellState.FAILED, reason="x")}, {}, lost))
    after = session_columns(
        page(
            {
                ("p0-s1", "openface"): Cell(CellState.DONE, 90, measured=0.9, version="v2"),
                ("p2-s0", "frames"): Cell(CellState.DONE, 90, measured=0.98, version="v1"),
            },
            {},
        )
    )
    before["sessions"] = ["gone", *SESSIONS[1:-1], SESSIONS[0]]  # other rows than now, and one session is new
    for feature in before["features"]:
        feature["states"] = feature["states"][-1] + feature["states"][1:-1] + feature["states"][0]
    before["findings"] = [{}, *before["findings"][1:-1], {}]
    before["clips"] = [0, 7, *before["clips"][2:-1], 1]
    before["features"].append({**before["features"][0], "name": "sbert", "track": "side"})
    told = {what: [link.text for link in links] for what, links in what_changed(before, after).rows}
    assert told == {
        "new sessions": ["p5-s1"],
        "sessions that are gone": ["gone"],
        "openface: done, was failed": ["p0-s0"],
        "openface: made again": ["p0-s1"],
        "openface: less is measured": ["p0-s1"],
        "finding gone: face lost": ["p1-s0"],
        "sbert@side: no longer there": SESSIONS[:-1],
        "another number of clips": ["p0-s1"],
    }
    assert what_changed(after, after).answer == f"Nothing, since {after['made']}."
    assert what_changed(None, after).answer.startswith("This is the first report")
    (tmp_path / "index.html").write_text('<script type="application/json" id="sessions">{"deflated": "AAAA"}</script>')
    assert read_columns(tmp_path) is None
    assert read_columns(tmp_path / "nowhere") is None


def test_shares_are_kept_in_thousandths() -> None:
    columns = session_columns(page({("p0-s0", "openface"): Cell(CellState.DONE, 3, measured=2 / 3)}, {}))
    assert np.array(columns["features"][1]["measured"]).tolist() == [667, *[1000] * 11]


def test_what_was_not_judged_is_not_called_good() -> None:
    made = page({}, {})
    assert asked(made)["quality"].good is True
    summaries = {**made.summaries, "p2-s0": SessionSummary(unjudged=("main",))}
    quality = asked(dataclasses.replace(made, summaries=summaries))["quality"]
    assert quality.good is None
    assert not missing(quality.answer, "1 session", "track was", "p2-s0")
    summaries = {one: SessionSummary(typical={f"of {one[:2]}": 1.0}) for one in SESSIONS}
    people = asked(dataclasses.replace(made, summaries=summaries))["people"]
    assert people.good is None
    assert not missing(people.answer, "5 participants", "No measure can be compared")
