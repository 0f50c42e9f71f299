"""The gather loop, with futures that end when the test says."""

from __future__ import annotations

import math
import pickle
from collections import Counter
from dataclasses import replace
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.messages import missing

from flows.clusters.connection import at_the_same_time
from flows.gather import AT_ONCE, MOST, PARTS, TRIES, WORTH_S, Bundle, Executor, Gather, WorkerLostError
from storyframes.store.records import Status
from tasks.extract import ExtractionUnit, Outcome
from tasks.extractors.base import Source
from tasks.extractors.registry import ExtractorsSettings

LOST = "every worker that tried it died, also when it ran alone (out of memory, or longer than a job may run?)"


class FakeUnit(ExtractionUnit):
    """A unit that knows what it left behind in a fake executor, or in none."""

    __slots__ = ()
    fake: ClassVar[Fake | None] = None

    def left_behind(self) -> list[Outcome] | None:
        return outcomes_of(self, "done") if self.fake and self.name in self.fake.published else None

    def lost(self, reason: str) -> list[Outcome]:
        return outcomes_of(self, reason)


def outcomes_of(unit: ExtractionUnit, what: str) -> list[Outcome]:
    status = Status.DONE if what == "done" else Status.FAILED
    return [Outcome(unit.session_id, f, status, reason=what, transient=what == "transient") for f in unit.features]


def unit(session_id: str, *features: str, after: tuple[str, ...] | None = None, cost: float = 0.0) -> FakeUnit:
    waits_for = (() if features == ("frames",) else ("frames",)) if after is None else after
    needs = {"GPU": 1} if "resnet50" in features else {"CPU": 1}
    return FakeUnit("store", Source(session_id, {}), features, ExtractorsSettings(), {}, waits_for, needs, cost)


def chain(session_id: str) -> tuple[ExtractionUnit, ExtractionUnit, ExtractionUnit]:
    """y needs what x gives, and x what frames gives; as planning may well order them."""
    return unit(session_id, "y", after=("x",)), unit(session_id, "x"), unit(session_id, "frames")


class Fake(Executor[Outcome]):
    """An executor whose tasks end at once, as ``behaviour`` says for each unit and the number of the try.

    ``lost`` kills the worker before anything is said, ``published`` does so after the unit has published, and
    ``too long`` is a worker's end after all the time that its job had.
    """

    def __init__(
        self,
        behaviour=lambda unit, attempt: "done",
        at_once: int = AT_ONCE,
        cost: float = math.inf,
        workers: int = 1,
    ) -> None:
        self.behaviour = behaviour
        self.at_once = at_once
        self.cost = cost  # of units that have none
        self.count = workers
        self.most: Counter[str] = Counter()  # tasks of a kind at the same time
        self.now: Counter[str] = Counter()
        self.tries: Counter[str] = Counter()
        self.order: list[str] = []
        self.tasks: list[list[str]] = []
        self.published: set[str] = set()
        self.open = 0
        self.settled: list[Outcome] = []
        self.slept_s = 0.0
        self.warnings: list[str] = []

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds

    def capacity(self, needs) -> int:
        return self.count

    def submit(self, bundle: Bundle[Outcome], rank: int) -> Ended:
        units = bundle.units
        (kind,) = {resource for unit in units for resource in unit.needs}
        self.tries.update(unit.name for unit in units)
        self.order += [unit.name for unit in units]
        self.tasks.append([unit.name for unit in units])
        self.open += 1
        self.now[kind] += 1
        self.most |= self.now
        happened = []
        for unit in units:
            happened.append(self.behaviour(unit, self.tries[unit.name]))
            if happened[-1] not in ("lost", "too long"):
                self.published.add(unit.name)
            if happened[-1] in ("lost", "too long", "published"):
                break
        return Ended(happened)

    def read(self, future, bundle: Bundle[Outcome]):
        self.open -= 1
        (kind,) = {resource for unit in bundle.units for resource in unit.needs}
        self.now[kind] -= 1
        if future.value[-1] in ("lost", "published"):
            raise WorkerLostError
        if future.value[-1] == "too long":
            raise WorkerLostError("too long")
        return [outcomes_of(unit, what) for unit, what in zip(bundle.units, future.value, strict=True)]

    def run(self, *units: ExtractionUnit):
        units = tuple(replace(unit, cost=unit.cost or self.cost) for unit in units)
        FakeUnit.fake = self
        outcomes = Gather(self, self.settled.append, self.at_once, self.warnings.append, self.sleep).run(units)
        assert self.settled == outcomes
        assert self.open == 0
        assert Counter(f"{outcome.session_id}/{outcome.feature}" for outcome in outcomes) == Counter(
            f"{unit.session_id}/{feature}" for unit in units for feature in unit.features
        )
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
    fake = Fake(lambda unit, attempt: "failed" if unit.features == ("frames",) else "done")
    assert fake.run(unit("a", "frames"), unit("a", "openface")) == {"a/frames": "failed", "a/openface": "done"}


def test_a_chain_of_features_runs_in_its_order_whatever_the_order_of_the_work() -> None:
    fake = Fake()
    fake.run(*chain("a"), *chain("b"), unit("c", "y", after=("x",)))
    assert fake.order == ["a/frames", "b/frames", "c/y", "a/x", "b/x", "a/y", "b/y"]


def test_what_waits_for_a_middle_that_fails_begins_after_it() -> None:
    fake = Fake(lambda unit, attempt: "failed" if unit.features == ("x",) else "done")
    assert fake.run(*chain("a")) == {"a/frames": "done", "a/x": "failed", "a/y": "done"}
    assert fake.order == ["a/frames", "a/x", "a/y"]


def test_what_waits_for_a_middle_that_is_tried_again_begins_after_its_last_try() -> None:
    fake = Fake(lambda unit, attempt: "transient" if unit.features == ("x",) or attempt < TRIES else "done")
    assert fake.run(*chain("a")) == {"a/frames": "done", "a/x": "transient", "a/y": "done"}
    assert fake.order == ["a/frames"] * TRIES + ["a/x"] * TRIES + ["a/y"] * TRIES


def test_what_waits_for_a_middle_whose_workers_die_begins_after_its_last_try() -> None:
    fake = Fake(lambda unit, attempt: "lost" if unit.features == ("x",) else "done")
    assert fake.run(*chain("a"), unit("b", "frames")) == {
        "a/frames": "done",
        "b/frames": "done",
        "a/x": LOST,
        "a/y": "done",
    }
    assert fake.order == ["a/frames", "b/frames", "a/x", "a/x", "a/y"]


def test_what_waits_for_several_begins_when_the_last_of_them_has_ended() -> None:
    fake = Fake(lambda unit, attempt: "transient" if unit.features == ("z",) and attempt == 1 else "done")
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
def test_units_that_wait_for_themselves_are_refused_before_anything_begins(work: tuple[ExtractionUnit, ...]) -> None:
    fake = Fake()
    with pytest.raises(ValueError, match="wait for each other") as refused:
        fake.run(unit("b", "frames"), *work)
    assert all(each.name in str(refused.value) for each in work)
    assert fake.order == []


def test_what_may_pass_is_tried_again_when_the_rest_is_done() -> None:
    fake = Fake(lambda unit, attempt: "transient" if unit.session_id == "a" and attempt < 3 else "done")
    assert fake.run(unit("a", "openface"), unit("b", "openface")) == {"b/openface": "done", "a/openface": "done"}
    assert fake.order == ["a/openface", "b/openface", "a/openface", "a/openface"]


def test_the_tries_outlast_a_file_server_that_is_away_for_a_minute() -> None:
    fake = Fake(lambda unit, attempt: "transient" if fake.slept_s < 60 else "done")
    assert fake.run(unit("a", "openface"), unit("b", "openface")) == {"a/openface": "done", "b/openface": "done"}
    assert fake.slept_s == 70
    assert len(fake.warnings) == 2
    for warning, seconds in zip(fake.warnings, (10, 60), strict=True):
        assert missing(warning, "a/openface", "1 more", f"{seconds} s") == []


def test_what_does_not_pass_stands_after_so_many_tries() -> None:
    fake = Fake(lambda unit, attempt: "transient")
    assert fake.run(unit("a", "openface")) == {"a/openface": "transient"}
    assert fake.tries == {"a/openface": TRIES}


def test_bad_input_is_not_tried_again() -> None:
    fake = Fake(lambda unit, attempt: "failed")
    fake.run(unit("a", "openface"))
    assert fake.tries == {"a/openface": 1}


def test_an_innocent_is_cleared_when_it_runs_alone_and_the_killer_is_not() -> None:
    fake = Fake(lambda unit, attempt: "lost" if unit.session_id == "killer" or attempt == 1 else "done")
    reasons = fake.run(unit("killer", "openface"), unit("innocent", "openface"))
    assert reasons == {"killer/openface": LOST, "innocent/openface": "done"}
    assert fake.tries == {"killer/openface": 2, "innocent/openface": 2}


def test_features_that_waited_for_a_lost_clock_run_after_it() -> None:
    fake = Fake(lambda unit, attempt: "lost" if unit.features == ("frames",) and attempt == 1 else "done")
    assert fake.run(unit("a", "frames"), unit("a", "openface")) == {"a/frames": "done", "a/openface": "done"}
    assert fake.order == ["a/frames", "a/frames", "a/openface"]


def test_a_feature_that_is_lost_after_its_lost_clock_still_ends() -> None:
    fake = Fake(lambda unit, attempt: "lost")
    reasons = fake.run(unit("a", "frames"), unit("a", "openface"))
    assert reasons == {"a/frames": LOST, "a/openface": LOST}


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


def short(count: int, cost: float = 0.0) -> list[ExtractionUnit]:
    """A clock each of so many sessions."""
    return [replace(unit(f"s{number:05d}", "frames"), cost=cost) for number in range(count)]


def test_short_units_travel_so_many_together_as_are_worth_a_task() -> None:
    fake = Fake()
    fake.run(*short(400, WORTH_S / 5))
    assert [len(task) for task in fake.tasks] == [5] * 80
    assert fake.order == sorted(fake.order)


def test_long_units_go_alone_beside_short_ones() -> None:
    fake = Fake()
    long = [replace(unit(f"long{number}", "frames"), cost=cost) for number, cost in enumerate((900, 21, 20))]
    fake.run(*long, *short(80, 2.0))
    assert [len(task) for task in fake.tasks] == [1, 1, 1, *[10] * 8]


def test_however_little_units_cost_no_task_has_them_all() -> None:
    fake = Fake(cost=1e-9)
    fake.run(*short(1_500))
    assert max(len(task) for task in fake.tasks) == MOST


@pytest.mark.parametrize("workers", [1, 2, 7, 100])
@pytest.mark.parametrize("sessions", [1, 3, 40, 300])
def test_few_units_are_shared_out_among_all_workers(workers: int, sessions: int) -> None:
    fake = Fake(cost=0.01, workers=workers)
    fake.run(*short(sessions))
    longest = max(len(task) for task in fake.tasks)
    assert longest <= max(1, sessions // (PARTS * workers))
    assert len(fake.tasks) >= min(sessions, PARTS * workers)


@pytest.mark.slow
def test_each_worker_has_its_next_task_at_hand_and_no_more() -> None:
    fake = Fake(cost=0.01, workers=3, at_once=10)
    fake.run(*short(2_000))
    assert fake.most == {"CPU": 2 * 3}


def test_units_of_different_kinds_do_not_travel_together() -> None:
    fake = Fake(cost=0.01)
    fake.run(*(unit(f"s{number}", feature, after=()) for number in range(60) for feature in ("openface", "resnet50")))
    assert max(len(task) for task in fake.tasks) > 1  # each task is of one kind: the workplace sees to that


def test_what_waits_for_units_of_a_task_begins_when_it_has_ended() -> None:
    fake = Fake(cost=1.0)
    sessions = [f"s{number:02d}" for number in range(32)]
    fake.run(*(unit(name, feature) for feature in ("frames", "openface") for name in sessions))
    place = {name: task for task, names in enumerate(fake.tasks) for name in names}
    assert all(place[f"{name}/frames"] < place[f"{name}/openface"] for name in sessions)
    assert max(len(task) for task in fake.tasks) == 8


def test_of_a_task_only_the_unit_that_may_pass_is_tried_again() -> None:
    fake = Fake(lambda unit, attempt: "transient" if unit.session_id == "s00003" else "done", cost=1.0)
    reasons = fake.run(*short(80))
    assert Counter(reasons.values()) == {"done": 79, "transient": 1}
    assert Counter(fake.tries.values()) == {1: 79, TRIES: 1}


def test_a_clock_is_made_apart_where_the_pass_that_makes_it_killed_its_worker() -> None:
    fake = Fake(lambda unit, attempt: "lost" if "mean" in unit.features else "done")
    follows = unit("a", "follows", after=("frames", "mean"))
    assert fake.run(unit("a", "frames", "mean", after=()), follows) == {
        "a/frames": "done",
        "a/mean": LOST,
        "a/follows": "done",
    }
    assert fake.order == ["a/frames+mean", "a/frames", "a/mean", "a/follows"]


def test_of_a_task_whose_worker_dies_only_what_had_not_ended_is_tried_alone() -> None:
    def behaviour(unit: ExtractionUnit, attempt: int) -> str:
        return "lost" if unit.session_id == "s00005" else "done"

    fake = Fake(behaviour, cost=1.0)
    reasons = fake.run(*short(80))
    assert {name for name, what in reasons.items() if what != "done"} == {"s00005/frames"}
    again = [name for name, tries in fake.tries.items() if tries == 2]
    assert again == [f"s{number:05d}/frames" for number in range(5, 20)]
    assert fake.tasks[-15:] == [[name] for name in again]


def test_what_had_all_the_time_of_a_job_alone_is_not_tried_again_and_its_neighbours_are_done() -> None:
    fake = Fake(lambda unit, attempt: "too long" if unit.session_id in ("s00005", "long") else "done", cost=1.0)
    reasons = fake.run(unit("long", "openface", cost=WORTH_S), *short(80))
    assert {name for name, what in reasons.items() if what != "done"} == {"long/openface", "s00005/frames"}
    assert reasons["long/openface"] == reasons["s00005/frames"] == "too long"
    again = {name: tries for name, tries in fake.tries.items() if tries > 1}
    assert again == {f"s{number:05d}/frames": 2 for number in range(5, 20)}


ENDS = ("done", "failed", "transient", "lost", "published", "too long")


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([(), ("frames",), ("frames", "x"), ("gone",)]),
            st.sampled_from([0.0, 0.01, 1.0, 6.0, 30.0]),
            st.lists(st.sampled_from(ENDS), min_size=1, max_size=4),
            st.booleans(),
        ),
        max_size=60,
    ),
    st.integers(1, 5),
    st.integers(1, 4),
)
def test_every_unit_ends_exactly_once_whatever_happens(plan, at_once: int, workers: int) -> None:
    """``run`` compares what was told with what there was to do."""
    work, ends = [], {}
    for number, (after, cost, happens, gpu) in enumerate(plan):
        feature = "resnet50" if gpu else "openface"
        group = f"g{number // 6}"  # those of one group make what others of it wait for
        name = {3: "frames", 5: "x"}.get(number % 6, f"{feature}{number}" if not gpu else feature)
        each = replace(unit(group, name, after=after, cost=cost), needs={"GPU": 1} if gpu else {"CPU": 1})
        if name not in ("frames", "x") and each.name not in ends:
            work.append(each)
        elif name in ("frames", "x"):
            work.append(replace(each, after=()))
        else:
            continue
        ends[each.name] = happens

    def behaviour(each: ExtractionUnit, attempt: int) -> str:
        return ends[each.name][min(attempt, len(ends[each.name])) - 1]

    fake = Fake(behaviour, at_once, cost=2.5, workers=workers)
    fake.run(*work)
    assert all(tries <= TRIES + 1 for tries in fake.tries.values())


def test_what_a_task_of_many_units_carries_is_flat() -> None:
    """The settings, the largest part, travel once with all the units of a task."""
    of_all = ExtractorsSettings()
    alone = [ExtractionUnit("store", Source(f"s{number}", {}), ("openface",), of_all) for number in range(41)]
    one, many = (len(pickle.dumps(Bundle(units))) for units in (alone[:1], alone))
    assert one < 4_000
    assert (many - one) / 40 < 0.1 * one


@pytest.mark.parametrize(
    ("names", "shown"),
    [(["a"], "a/frames"), (["a", "b"], "a/frames and 1 more"), (list("abcdef"), "a/frames and 5 more")],
)
def test_a_task_is_called_by_its_first_unit_and_how_many_more(names: list[str], shown: str) -> None:
    assert Bundle([unit(name, "frames") for name in names]).name == shown


@pytest.mark.parametrize(
    ("there", "needs", "count"),
    [
        ({"CPU": 8, "GPU": 1}, {"CPU": 1}, 8),
        ({"CPU": 8, "GPU": 1}, {"CPU": 3}, 2),
        ({"CPU": 8, "GPU": 1}, {"GPU": 0.25}, 4),
        ({"CPU": 8}, {"GPU": 1}, 1),
        ({"CPU": 8}, {}, 1),
    ],
)
def test_how_many_units_a_cluster_does_at_the_same_time(there: dict, needs: dict, count: int) -> None:
    assert at_the_same_time(there, needs) == count
