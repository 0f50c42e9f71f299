"""gc beside writers and readers, at no grace at all: no current version ever lacks a file, and no reader gets others'
values. Every way of meeting once, then ways drawn at random, then real processes."""

from __future__ import annotations

import errno
import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.faults.turns import TurnsInAFolder, TurnsInMemory, in_order, publish, take_turns
from support.stores import local, publish_openface

from storyframes.features import FEATURES
from storyframes.store import catalogue, maintenance, record_status
from storyframes.store.catalogue import Snapshot
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import ROOT_GROUP, ZARR_JSON, StoreError, create_store, current_path, open_storage
from storyframes.store.publish import FeatureWriter, RemovedError, record_attempt
from storyframes.store.records import Current, Status
from storyframes.store.storage import Storage, StorageError

ROOT = Path(__file__).parents[2]


def orphan(storage: Storage, number: int) -> None:
    """What a writer leaves that is killed before it publishes."""
    out = FeatureWriter(storage, "a", FEATURES["frames"])
    folder = storage.work_folder(out.path)
    (folder / "time").mkdir()
    (folder / "time/zarr.json").write_text("{}")
    storage.commit(folder, out.path)


def gc(storage: Storage) -> list[str]:
    return [removal.path for removal in maintenance.collect(storage, grace_s=-5)]


def read(storage: Storage) -> str:
    """What a reader gets, who opens the store and reads all."""
    store = FeatureStore.__new__(FeatureStore)
    try:
        store.__setstate__({"storage": storage, "versions": Snapshot.of(storage), "kept": (None, 0)})
        values = store.read("a", "frames", array="time")
    except (StoreError, StorageError):
        return "an error"
    return "its values" if set(values) == {float(len(values))} else f"wrong values {values}"


def check_whole(storage: Storage) -> None:
    """The current version has all its files."""
    path = current_path("a", "frames")
    current = Current.parse(storage.read(path), path)
    for name, file in (current.files if current else {}).items():
        info = storage.info(f"a/frames/{current.version}/{name}")
        assert info is not None, f"current.json names {current.version}, and {name} is gone"
        assert info.bytes == file.bytes


def beginning(place: Callable[[], Storage]) -> Storage:
    """A store with an older version, a current one, and what a killed writer left."""
    storage = place()
    storage.replace(ZARR_JSON, ROOT_GROUP)
    publish(storage, 1)
    publish(storage, 2)
    catalogue.compact(storage)
    orphan(storage, 3)
    return storage


def copies(storage: Storage, place: Callable[[], Storage]) -> Callable[[], Storage]:
    """Makes stores that are as this one is now."""
    contents = {path: storage.read(path) for path in storage.files()}

    def copy() -> Storage:
        made = place()
        for path, content in contents.items():
            if folder := made.local(path):
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.write_bytes(content)
            else:
                made.replace(path, content)
        return made

    return copy


@pytest.fixture(params=["folder", "object store"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch) -> Callable[[], Storage]:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)  # no power is lost here, and it takes most of the time
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # what others left there would be looked at each time
    counter = iter(range(1_000_000))
    if request.param == "folder":
        return lambda: TurnsInAFolder(tmp_path / f"store-{next(counter)}")
    return TurnsInMemory


def turns_of(work: Callable[[Storage], Any], storage: Storage) -> int:
    count = 0

    def choose(running: list[int]) -> int:
        nonlocal count
        count += 1
        return running[0]

    take_turns([lambda: work(storage)], choose)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("quarter", [0, *(pytest.param(more, marks=pytest.mark.nightly) for more in (1, 2, 3))])
def test_a_writer_and_gc_meet_in_every_way(place: Callable[[], Storage], quarter: int) -> None:
    """One of them is interrupted anywhere by the other, which is interrupted anywhere as well; of all pairs of such
    places every fourth one, each row of them shifted by one, and the others at night."""
    again = copies(beginning(place), place)
    writing, removing = turns_of(lambda storage: publish(storage, 4), again()), turns_of(gc, again())
    assert writing > 8
    assert removing > 6
    outcomes = set()
    for before in range(writing + 1):
        for during in itertools.count(1 + (before + quarter) % 4, 4):
            outcome, turns = meet(again(), [0] * before + [1] * during + [0] * writing)
            outcomes.add(outcome)
            if turns[0] <= before or turns[1] <= during:
                break  # one of them had ended when the other's turn came: with a longer turn it is the same again
    # In a folder a living writer is known; in an object store it may have to begin again.
    assert outcomes == ({str} if again().knows_writers else {str, RemovedError})


def meet(storage: Storage, order: list[int]) -> tuple[type, Counter[int]]:
    """A writer (0) and gc (1) take turns in this order; whether the writer published or has to begin again, and how
    many turns each took."""
    choose, turns = in_order(order), Counter[int]()

    def counted(running: list[int]) -> int:
        chosen = choose(running)
        turns[chosen] += 1
        return chosen

    published, removed = take_turns(
        [lambda: publish(storage, 4), lambda: gc(storage)], counted, lambda: check_whole(storage)
    )
    assert isinstance(published, str | RemovedError), repr(published)
    assert isinstance(removed, list), repr(removed)
    entry = record_status.read_status(storage, "a", "frames")
    assert entry is not None
    assert entry.record is not None
    assert entry.record.fingerprint == ("2" if isinstance(published, RemovedError) else "4")
    check_whole(storage)
    return type(published), turns


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_many_of_each_meet_at_random(place: Callable[[], Storage], data: st.DataObject) -> None:
    storage = beginning(place)
    works = {
        "writer": lambda: publish(storage, 5),
        "another": lambda: publish(storage, 6),
        "gc": lambda: gc(storage),
        "another gc": lambda: gc(storage),
        "index": lambda: catalogue.compact(storage),
        "reader": lambda: read(storage),
        "failure": lambda: record_attempt(storage, "a", "frames", Status.FAILED, "why", ""),
    }
    chosen = data.draw(st.lists(st.sampled_from(sorted(works)), min_size=2, max_size=5))
    # Long runs of one with rare changes find more than a change at every step.
    runs = data.draw(st.lists(st.tuples(st.integers(0, len(chosen) - 1), st.integers(1, 25)), max_size=30))
    order = [number for number, length in runs for _ in range(length)]
    answers = take_turns([works[name] for name in chosen], in_order(order), lambda: check_whole(storage))
    for name, answer in zip(chosen, answers, strict=True):
        if "reader" in name:
            assert answer in {"its values", "an error"}
        else:
            assert not isinstance(answer, Exception) or isinstance(answer, RemovedError), (name, repr(answer))
    catalogue.compact(storage)
    assert not list(maintenance.verify(storage))
    assert read(storage) == "its values"
    gc(storage)
    current = record_status.read_status(storage, "a", "frames").record.version
    assert {path.split("/")[2] for path in storage.files() if path.count("/") > 2} == {current}


@pytest.mark.slow
def test_a_superseded_version_stays_while_the_catalogue_names_it(place: Callable[[], Storage]) -> None:
    """A run publishes for hours before the catalogue is written: who opens the store meanwhile reads the older ones."""
    again = copies(beginning(place), place)
    for before in range(turns_of(gc, again()) + 1):
        gc_meets_a_writer(again(), before)


def gc_meets_a_writer(storage: Storage, before: int) -> None:
    take_turns([lambda: gc(storage), lambda: publish(storage, 7)], in_order([0] * before + [1] * 1000))
    assert read(storage) == "its values"


def test_a_tool_that_runs_for_days_keeps_its_empty_folder(store_root: Path) -> None:
    import os

    storage = open_storage(store_root)
    with FeatureWriter(storage, "a", FEATURES["frames"]) as out:
        os.utime(out.folder, (0, 0))
        assert gc(storage) == []
        assert out.folder.is_dir()
        out.write("time", np.zeros(3))
        out.publish("f", {})
    assert not list(store_root.rglob(f".{out.version}.lock"))
    catalogue.compact(storage)
    assert list(FeatureStore(store_root).read("a", "frames", array="time")) == [0, 0, 0]


def test_a_dry_run_removes_nothing_and_names_the_same(place: Callable[[], Storage]) -> None:
    storage = beginning(place)
    would = [removal.path for removal in maintenance.collect(storage, grace_s=-5, dry_run=True)]
    assert len(would) == 2
    assert gc(storage) == would


def test_what_a_killed_writer_left_of_a_feature_that_was_never_published_is_removed(
    place: Callable[[], Storage],
) -> None:
    storage = place()
    storage.replace(ZARR_JSON, ROOT_GROUP)
    orphan(storage, 1)
    (left,) = {path.rsplit("/", 2)[0] for path in storage.files() if path.endswith("/time/zarr.json")}
    assert gc(storage) == [left]
    assert not [path for path in storage.files() if path.startswith(f"{left}/")]


def test_an_answer_that_is_lost_is_no_failure() -> None:
    """The put of current.json succeeds and its answer does not arrive: the retry sees its own work."""

    class LosesAnAnswer(TurnsInMemory):
        lost = False

        def _put(self, path: str, data: Any, mode: Any = "overwrite") -> None:
            from obstore.exceptions import PreconditionError

            super()._put(path, data, mode)
            if path.endswith("current.json") and mode != "create" and not self.lost:
                self.lost = True
                raise PreconditionError("the second try of a put that had succeeded")

    storage = beginning(LosesAnAnswer)
    assert storage.lost
    assert record_status.read_status(storage, "a", "frames").record.fingerprint == "2"
    assert not list(maintenance.verify(storage))


# --- real processes --------------------------------------------------------------------------------------------------

# A process that imports once and forks the others before any thread runs. A writer's exit code says how many
# publications it could not make.
RACE = """
import os, sys, time, traceback
sys.path.insert(0, "tests")
import zarr
from support.faults.turns import publish
from storyframes.store import catalogue, maintenance
from storyframes.store.layout import open_storage
from storyframes.store.publish import RemovedError
from storyframes.store.storage import object_store
location, stop, spared_s, publications = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])

def write(session):
    storage, failed = open_storage(location), 0
    for number in range(1, 1 + publications):
        try:
            publish(storage, number, session)
        except RemovedError:
            failed += 1
    return failed

def remove():
    object_store._SPARED_S = spared_s
    storage, parent = open_storage(location), os.getppid()
    while not os.path.exists(stop) and os.getppid() == parent:
        list(maintenance.collect(storage, 0))
        catalogue.compact(storage)
        time.sleep(0 if spared_s >= 0 else 0.2)  # or no writer ever comes to its end
    return 0

def start(work, *arguments):
    if child := os.fork():
        return child
    try:
        os._exit(work(*arguments))
    except BaseException:
        traceback.print_exc()
        os._exit(100)

collectors = [start(remove) for _ in range(2)]
writers = [start(write, session) for session in ("a", "a", "b", "b")]
ends = [os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1]) for writer in writers]
open(stop, "w").close()
ends += [os.waitstatus_to_exitcode(os.waitpid(collector, 0)[1]) for collector in collectors]
print(*ends)
"""


def race(location: str, stop: Path, spared_s: float, publications: int) -> list[int]:
    """Four writers, two of each session, beside two gc without a grace; how many publications each could not make."""
    command = [
        sys.executable,
        "-W",
        "ignore:This process:DeprecationWarning",
        "-c",
        RACE,
        location,
        str(stop),
        str(spared_s),
        str(publications),
    ]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    *failed, first, second = map(int, ended.stdout.split())
    assert (len(failed), first, second) == (4, 0, 0)
    assert max(failed) <= publications
    return failed


@pytest.mark.slow
def test_processes_race_in_a_folder_and_nothing_is_lost(tmp_path: Path) -> None:
    storage = create_store(tmp_path / "features")
    assert race(storage.location, tmp_path / "stop", 0, publications=10) == [0, 0, 0, 0]
    check_end(storage, {"a": 20, "b": 20})


@pytest.mark.slow
@pytest.mark.parametrize("spared_s", [3600, -5])
def test_processes_race_on_an_object_store_and_it_stays_sound(url: str, tmp_path: Path, spared_s: float) -> None:
    """Where nothing is spared a writer may have to begin again; what is current is whole all the same."""
    storage = create_store(url)
    removed = race(url, tmp_path / "stop", spared_s, publications=5)
    if spared_s > 0:
        assert removed == [0, 0, 0, 0]
    check_end(storage, {"a": 10 - sum(removed[:2]), "b": 10 - sum(removed[2:])})


def check_end(storage: Storage, published: dict[str, int]) -> None:
    catalogue.compact(storage)
    assert not list(maintenance.verify(storage))
    if published["a"]:  # every writer of it may have had to begin again
        assert read(storage) == "its values"
    sequences = {entry.session_id: entry.record.sequence for entry in record_status.scan(storage)}
    assert all(sequences.get(session_id, 0) >= min(count, 2) for session_id, count in published.items())


def test_on_a_full_disk_gc_keeps_what_the_older_catalogue_names(
    store_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = publish_openface(store_root, "a", 10)
    catalogue.compact(local(store_root))
    unnamed, current = (publish_openface(store_root, "a", rows) for rows in (11, 12))

    def is_full(storage: Storage) -> None:
        raise OSError(errno.ENOSPC, "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("storyframes.store.maintenance.garbage.compact", is_full)
        assert gc(local(store_root)) == [f"a/openface/{unnamed}"]
    assert gc(local(store_root)) == [f"a/openface/{named}"]
    assert FeatureStore(store_root).read("a", "openface").shape == (12, 714)
    assert [*(store_root / "a/openface").glob("*Z-*")] == [store_root / "a/openface" / current]
