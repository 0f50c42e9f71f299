"""What a run leaves on the server, as text."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from support.messages import missing

from flows.gather import Bundle
from flows.on_cluster import do_in_turn
from flows.run import RunResult, result_of
from flows.server.artifacts import human_time, summary, table
from storyframes.store.records import Status
from tasks.extract import ExtractionUnit, Outcome
from tasks.extractors.base import Source
from tasks.extractors.registry import ExtractorsSettings


def result(*outcomes: Outcome) -> RunResult:
    return RunResult(outcomes, len(outcomes), 42, 75.0)


DONE = Outcome("s1", "openface", Status.DONE, rows=300, seconds=2.0)
CAVEAT = Outcome("s1", "resnet50", Status.DONE, rows=300, seconds=30.0, caveats=("untrained weights",))
SKIPPED = Outcome("s2", "openface", Status.DONE, skipped=True, rows=300)
MISSING = Outcome("s2", "sbert", Status.MISSING, reason="no transcript")
FAILED = Outcome("s3", "openface", Status.FAILED, reason="row 3 | <b>field</b> 7\nis not a number")


def test_the_summary_says_what_was_done_how_fast_and_what_failed_and_why() -> None:
    text = summary(result(DONE, CAVEAT, SKIPPED, MISSING, FAILED))
    for line in (
        "| extracted | 1 | 2 |",
        "| up to date | 1 | 1 |",
        "| without input | 1 | 1 |",
        "| failed | 1 | 1 |",
        "It took 1 min 15 s; the clip index has 42 clips.",
        "| openface | 300 | 2.0 | 150.0 |",
        "| s3 | openface | row 3 \\| &lt;b&gt;field&lt;/b&gt; 7 is not a number |",
        "## Caveats: what users of these values must know",
        "- untrained weights: resnet50",
    ):
        assert line in text.splitlines()


def test_features_of_other_tracks_are_counted_and_their_rates_are_those_of_the_feature() -> None:
    of_track = replace(DONE, feature="openface@child_b", rows=100, seconds=2.0)
    lines = summary(result(DONE, of_track, SKIPPED)).splitlines()
    assert "1 feature of these is of other cameras and microphones: child\\_b." in lines
    assert "| openface | 400 | 4.0 | 100.0 |" in lines
    assert not any("microphones" in line for line in summary(result(DONE)).splitlines())


def test_a_run_that_did_nothing_has_no_rates_and_no_failures() -> None:
    text = summary(result(SKIPPED))
    assert "rows per second" not in text
    assert "## " not in text


def test_hundreds_of_failures_do_not_fill_the_page() -> None:
    text = summary(result(*[Outcome(f"s{i}", "openface", Status.FAILED, reason="no") for i in range(269)]))
    assert "| … |  | and 219 more: see the table of this run |" in text
    assert text.count("| openface | no |") == 50


def test_the_table_of_very_many_sessions_has_what_failed_and_says_how_many_more_there_are() -> None:
    done = [replace(DONE, session_id=f"s{number:05d}") for number in range(10_500)]
    missing = [replace(DONE, session_id=f"t{number}", status=Status.MISSING) for number in range(2)]
    failed = [replace(FAILED, session_id=f"u{number}") for number in range(3)]
    rows = table(result(*done, *missing, *failed))
    assert len(rows) == 10_001
    assert [row["session"] for row in rows[:6]] == ["u0", "u1", "u2", "t0", "t1", "s00000"]
    assert rows[-1]["reason"] == "and 505 more, which 'storyframes status' shows"
    assert {tuple(row) for row in rows} == {tuple(rows[0])}


def test_the_table_has_every_outcome() -> None:
    rows = table(result(FAILED, SKIPPED, DONE))
    assert table(result(CAVEAT))[0]["caveats"] == "untrained weights"
    assert [(row["session"], row["status"]) for row in rows] == [("s1", "done"), ("s2", "up to date"), ("s3", "failed")]


@pytest.mark.parametrize(("outcomes", "name"), [((DONE,), "Completed"), ((DONE, FAILED), "PartialSuccess"),
                                                ((FAILED,), "Failed"), ((MISSING,), "Completed")])  # fmt: skip
def test_the_state_is_called_what_it_is(outcomes: tuple[Outcome, ...], name: str) -> None:
    state = result(*outcomes).state()
    assert state.name == name
    assert state.is_failed() is (name != "Completed")


class OddError(ValueError):
    """Of somebody's plug-in: its name and its text are not ours."""


@pytest.mark.parametrize(
    ("ends", "name", "message"),
    [
        (["done"], "Completed", "s0/frames: done, 45 rows in 0.0 s"),
        (["failed"], "Failed", "1 of 1 failed: s0/frames: failed: no video"),
        (["done"] * 2, "Completed", "2 done: s0/frames: done, 45 rows in 0.0 s; s1/frames: done, 45 rows in 0.0 s"),
        (["missing"] * 2, "Completed", "2 done: s0/frames: missing: no video; s1/frames: missing: no video"),
        (
            ["done", OddError("a word"), "done"],
            "PartialSuccess",
            "1 of 3 failed: s1/frames: the task raised ValueError",
        ),
        (
            [SystemExit(3), "failed"],
            "Failed",
            "2 of 2 failed: s1/frames: failed: no video; s0/frames: the task raised SystemExit",
        ),
    ],
)
def test_the_state_of_a_task_of_several_units_tells_what_became_of_them(
    ends: list[str | BaseException], name: str, message: str, monkeypatch: pytest.MonkeyPatch, caplog
) -> None:
    monkeypatch.setattr("flows.on_cluster.get_run_logger", lambda: logging.getLogger("a run's"))
    units = [
        ExtractionUnit("store", Source(f"s{number}", {}), ("frames",), ExtractorsSettings())
        for number in range(len(ends))
    ]

    def do(unit: ExtractionUnit) -> tuple[Outcome, ...]:
        end = ends[units.index(unit)]
        if isinstance(end, BaseException):
            raise end
        return (Outcome(unit.session_id, "frames", Status(end), rows=45, reason="" if end == "done" else "no video"),)

    monkeypatch.setattr(ExtractionUnit, "do", do)
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(1) as worker:  # as in Dask: no signal arrives there
        state = worker.submit(do_in_turn, Bundle(units)).result()
    assert (state.name, state.message) == (name, message)
    assert [record.message for record in caplog.records if record.message.endswith(": started")] == [
        f"{unit.name}: started" for unit in units
    ]
    assert "a word" not in caplog.text
    assert len(result_of(state)) == len(units)


@pytest.mark.parametrize(("seconds", "shown"), [(0.4, "0 s"), (59, "59 s"), (75, "1 min 15 s"), (7260, "2 h 1 min")])
def test_times_for_people(seconds: float, shown: str) -> None:
    assert human_time(seconds) == shown


def test_sessions_without_clips_are_named_and_make_the_run_a_partial_success() -> None:
    excluded = {f"s{number}": "row 5 | <b>ends</b>" for number in range(60)}
    found = RunResult((DONE,), 1, 42, 75.0, excluded=excluded, warnings={"s99": "odd"})
    text = summary(found).splitlines()
    assert "| s0 | row 5 \\| &lt;b&gt;ends&lt;/b&gt; |" in text
    assert "| … | and 10 more |" in text
    assert "| s99 | odd |" in text
    assert found.state().name == "PartialSuccess"
    assert not missing(str(found), "no clips of s0", "s1", "s10", "s11", "s12 and 55 more")
    assert not found.good
