"""The gather loop, with futures that end when the test says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from flows.gather import AT_ONCE, TRIES, Gather, WorkerLostError
from storyframes.store.records import Status
from tasks.extract import Outcome, Work
from tasks.extractors.base import Source
from tasks.extractors.registry import ExtractorsSettings


def unit(session_id: str, *features: str, after: tuple[str, ...] | None = None) -> Work:
    waits_for = (() if features == ("frames",) else ("frames",)) if after is None else after
    return Work("store", Source(session_id, {}), features, ExtractorsSettings(), after=waits_for)


def chain(session_id: str) -> tuple[Work, Work, Work]:
    """y needs what x gives, and x what frames gives; as planning may well order them."""
    return unit(session_id, "y", after=("x",)), unit(session_id, "x"), unit(session_id, "frames")


class Fake:
    """A workplace where a unit ends at once, as ``behaviour`` says for it and the number of the try."""

    def __init__(self, behaviour=lambda unit, attempt: "done", at_once: int = AT_ONCE) -> None:
        self.behaviour = behaviour
        self.at_once = at_once
        self.most: Counter[str] = Counter()  # of a kind at the same time
        self.now: Counter[str] = Counter()
        self.tries: Counter[str] = Counter()
        self.order: list[str] = []
        self.open = 0
        self.told: list[Outcome] = []

    def kind(self, work: Work) -> str:
        return "GPU" if "resnet50" in work.features else "CPU"

    def submit(self, work: Work, rank: int):
        self.tries[work.name] += 1
        self.order.append(work.name)
        self.open += 1
        self.now[self.kind(work)] += 1
        self.most |= self.now
        return Ended((work, self.behaviour(work, self.tries[work.name])))

    def read(self, future, work: Work):
        self.open -= 1
        self.now[self.kind(work)] -= 1
        what = future.value[1]
        if what == "lost":
            raise WorkerLostError
        status = Status.DONE if what == "done" else Status.FAILED
        return [Outcome(work.session_id, f, status, reason=what, transient=what == "transient") for f in work.features]

    def lost(self, work: Work):
        return [Outcome(work.session_id, feature, Status.FAILED, reason="lost alone") for feature in work.features]

    def finished(self, outcome: Outcome) -> None:
        self.told.append(outcome)

    def run(self, *work: Work):
        outcomes = Gather(self, self.at_once).run(work)
        assert self.told == outcomes
        assert self.open == 0
        return {f"{outcome.session_id}/{outcome.feature}": outcome.reason for outcome in outcomes}


class Ended:
    def __init__(self, value) -> None:
        self.value = value

    def add_done_callback(self, function) -> None:
        function(self)


def test_a_sessions_clock_comes_before_its_other_features() -> None:
    fake = Fake()
    fake.run(unit("a", "openface"), unit("a", "frames"), unit("b", "openface"), unit("a", "resnet50", "dope"))
    assert fake.order == ["a/frames", "b/openface", "a/openface", "a/resnet50+dope"]


def test_a_failed_clock_lets_its_features_say_so_themselves() -> None:
    fake = Fake(lambda work, attempt: "failed" if work.features == ("frames",) else "done")
    assert fake.run(unit("a", "frames"), unit("a", "openface")) == {"a/frames": "failed", "a/openface": "done"}


def test_a_chain_of_features_runs_in_its_order_whatever_the_order_of_the_work() -> None:
    fake = Fake()
    fake.run(*chain("a"), *chain("b"), unit("c", "y", after=("x",)))
    assert fake.order == ["a/frames", "b/frames", "c/y", "a/x", "b/x", "a/y", "b/y"]


def test_what_waits_for_a_middle_that_fails_begins_after_it() -> None:
    fake = Fake(lambda work, attempt: "failed" if work.features == ("x",) else "done")
    assert fake.run(*chain("a")) == {"a/frames": "done", "a/x": "failed", "a/y": "done"}
    assert fake.order == ["a/frames", "a/x", "a/y"]


def test_what_waits_for_a_middle_that_is_tried_again_begins_after_its_last_try() -> None:
    fake = Fake(lambda work, attempt: "transient" if work.features == ("x",) or attempt < TRIES else "done")
    assert fake.run(*chain("a")) == {"a/frames": "done", "a/x": "transient", "a/y": "done"}
    assert fake.order == ["a/frames"] * TRIES + ["a/x"] * TRIES + ["a/y"] * TRIES


def test_what_waits_for_a_middle_whose_workers_die_begins_after_its_last_try() -> None:
    fake = Fake(lambda work, attempt: "lost" if work.features == ("x",) else "done")
    assert fake.run(*chain("a"), unit("b", "frames")) == {
        "a/frames": "done",
        "b/frames": "done",
        "a/x": "lost alone",
        "a/y": "done",
    }
    assert fake.order == ["a/frames", "b/frames", "a/x", "a/x", "a/y"]


def test_what_waits_for_several_begins_when_the_last_of_them_has_ended() -> None:
    fake = Fake(lambda work, attempt: "transient" if work.features == ("z",) and attempt == 1 else "done")
    fake.run(unit("a", "y", after=("x", "z", "nothing due")), unit("a", "x", "w", after=()), unit("a", "z", after=()))
    assert fake.order == ["a/x+w", "a/z", "a/z", "a/y"]


@pytest.mark.parametrize(
    "work",
    [
        (unit("a", "x", after=("y",)), unit("a", "y", after=("x",))),
        (unit("a", "x", "y", after=("z",)), unit("a", "z", after=("y",))),
        (unit("a", "x", after=("x",)),),
    ],
)
def test_work_that_waits_for_itself_is_refused_before_anything_begins(work: tuple[Work, ...]) -> None:
    fake = Fake()
    with pytest.raises(ValueError, match="wait for each other") as refused:
        fake.run(unit("b", "frames"), *work)
    assert all(each.name in str(refused.value) for each in work)
    assert fake.order == []


def test_what_may_pass_is_tried_again_when_the_rest_is_done() -> None:
    fake = Fake(lambda work, attempt: "transient" if work.session_id == "a" and attempt < 3 else "done")
    assert fake.run(unit("a", "openface"), unit("b", "openface")) == {"b/openface": "done", "a/openface": "done"}
    assert fake.order == ["a/openface", "b/openface", "a/openface", "a/openface"]


def test_what_does_not_pass_stands_after_so_many_tries() -> None:
    fake = Fake(lambda work, attempt: "transient")
    assert fake.run(unit("a", "openface")) == {"a/openface": "transient"}
    assert fake.tries == {"a/openface": TRIES}


def test_bad_input_is_not_tried_again() -> None:
    fake = Fake(lambda work, attempt: "failed")
    fake.run(unit("a", "openface"))
    assert fake.tries == {"a/openface": 1}


def test_an_innocent_is_cleared_when_it_runs_alone_and_the_killer_is_not() -> None:
    fake = Fake(lambda work, attempt: "lost" if work.session_id == "killer" or attempt == 1 else "done")
    reasons = fake.run(unit("killer", "openface"), unit("innocent", "openface"))
    assert reasons == {"killer/openface": "lost alone", "innocent/openface": "done"}
    assert fake.tries == {"killer/openface": 2, "innocent/openface": 2}


def test_features_that_waited_for_a_lost_clock_run_after_it() -> None:
    fake = Fake(lambda work, attempt: "lost" if work.features == ("frames",) and attempt == 1 else "done")
    assert fake.run(unit("a", "frames"), unit("a", "openface")) == {"a/frames": "done", "a/openface": "done"}
    assert fake.order == ["a/frames", "a/frames", "a/openface"]


def test_a_feature_that_is_lost_after_its_lost_clock_still_ends() -> None:
    fake = Fake(lambda work, attempt: "lost")
    reasons = fake.run(unit("a", "frames"), unit("a", "openface"))
    assert reasons == {"a/frames": "lost alone", "a/openface": "lost alone"}


def test_so_many_of_each_kind_are_submitted_at_once() -> None:
    sessions = [f"s{number}" for number in range(9)]
    fake = Fake(at_once=3)
    work = [unit(name, feature) for feature in ("frames", "resnet50", "openface") for name in sessions]
    assert len(fake.run(*work)) == 27
    assert fake.most == {"CPU": 3, "GPU": 3}


def test_what_is_ready_begins_in_the_order_in_which_it_was_given() -> None:
    fake = Fake(at_once=1)
    fake.run(unit("a", "frames"), unit("b", "frames"), unit("b", "openface"), unit("a", "dope"), unit("c", "openface"))
    assert fake.order == ["a/frames", "b/frames", "b/openface", "a/dope", "c/openface"]


def test_a_kind_whose_places_are_taken_does_not_hold_up_another() -> None:
    fake = Fake(at_once=1)
    fake.run(unit("a", "resnet50"), unit("b", "resnet50"), unit("c", "openface"))
    assert fake.order == ["a/resnet50", "c/openface", "b/resnet50"]


def test_nothing_to_do() -> None:
    assert Fake().run() == {}


def test_units_of_work_are_small_enough_to_submit_by_the_thousand(tmp_path: Path) -> None:
    import pickle

    assert len(pickle.dumps(unit("a", "openface"))) < 4_000
