from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr
from support.messages import naming
from support.stores import local, publish_openface

from storyframes.features import FEATURES
from storyframes.store import catalogue, maintenance, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import VERSION_PATTERN, current_path
from storyframes.store.publish import (
    FeatureWriter,
    OvertakenError,
    PublishError,
    RemovedError,
    latest_sequence,
    record_attempt,
)
from storyframes.store.records import Caveat, Current, Status
from storyframes.store.storage import Storage, Update
from storyframes.store.storage.local_folder import LocalStorage

ROOT = Path(__file__).parents[2]


def current(root: Path, session_id: str = "a", feature: str = "openface") -> Current | None:
    path = current_path(session_id, feature)
    return Current.parse(local(root).read(path), path)


def versions(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "a/openface").iterdir() if VERSION_PATTERN.fullmatch(path.name))


def test_what_is_published_can_be_read_by_zarr_and_xarray(store_root: Path) -> None:
    version = publish_openface(store_root, "a", 150)
    values = zarr.open_group(store_root, mode="r")[f"a/openface/{version}/values"]
    assert values.shape == (150, 714)
    assert values.attrs["columns"][0] == "frame"
    dataset = xarray.open_zarr(store_root / "a/openface" / version, consolidated=False)
    assert dataset["values"].dims == ("frame", "column")
    np.testing.assert_array_equal(dataset["values"], values[:])


def test_the_whole_store_is_one_zarr_hierarchy(store_root: Path) -> None:
    version = publish_openface(store_root, "a", 10)
    with pytest.warns(zarr.errors.ZarrUserWarning):  # the records and tables beside the groups
        members = dict(zarr.open_group(store_root, mode="r").members(max_depth=None))
    assert f"a/openface/{version}/values" in members
    with pytest.warns(zarr.errors.ZarrUserWarning):
        tree = xarray.open_datatree(store_root, engine="zarr", consolidated=False)
    assert tree[f"a/openface/{version}/valid"].shape == (10,)


def test_an_error_while_writing_leaves_nothing_and_keeps_what_was(store_root: Path) -> None:
    before = publish_openface(store_root, "a", 10)
    with pytest.raises(RuntimeError), FeatureWriter(local(store_root), "a", FEATURES["openface"]) as out:
        out.array("values").append(np.zeros((5, 714), np.float32))
        raise RuntimeError
    assert current(store_root).version == before
    assert versions(store_root) == [before]


def test_an_array_is_begun_once(store_root: Path) -> None:
    """A second beginning would lose the rows of the first, and publish the rest as if it were all."""
    with FeatureWriter(local(store_root), "a", FEATURES["glove"]) as out:
        out.write("values", np.zeros((2, 300), np.float32))
        with pytest.raises(PublishError, match="'values' is begun twice"):
            out.write("values", np.zeros((3, 300), np.float32))


def test_a_forgotten_array_is_not_published(store_root: Path) -> None:
    with pytest.raises(PublishError, match=naming("valid, confidence")):
        with FeatureWriter(local(store_root), "a", FEATURES["openface"]) as out:
            out.write("values", np.zeros((5, 714), np.float32))
            out.publish("f", {})
    assert current(store_root) is None


def test_arrays_are_recorded_in_the_order_of_the_specification(store_root: Path) -> None:
    """Sessions whose extractor wrote them in another order can be read together."""
    spec = FEATURES["glove"]
    with FeatureWriter(local(store_root), "a", spec, frames=False) as out:
        for name in ("known", "confidence", "speaker", "end", "start", "values"):
            array = spec.arrays[name]
            out.write(name, np.zeros((2, *array.shape), array.dtype))
        published = out.publish("fingerprint", {})
    assert list(published.arrays) == [name for name in spec.arrays if name != "frame_word"]


def test_arrays_of_one_axis_have_one_length(store_root: Path) -> None:
    with pytest.raises(PublishError, match=naming("valid has 4 rows", "values has 5", "'frame'")):
        with FeatureWriter(local(store_root), "a", FEATURES["openface"]) as out:
            out.write("values", np.zeros((5, 714), np.float32))
            out.write("valid", np.zeros(4, np.uint8))
            out.write("confidence", np.zeros(5, np.float32))
            out.publish("f", {})


def test_a_disk_that_gives_back_something_else_is_noticed(store_root: Path, monkeypatch) -> None:
    import storyframes.store.storage.local_folder as storage

    def rot_then_flush(folder: Path) -> None:
        shard = folder / "values/c/0/0"
        content = bytearray(shard.read_bytes())
        content[1000] ^= 1
        shard.write_bytes(content)

    monkeypatch.setattr(storage, "flush_tree", rot_then_flush)
    with pytest.raises(PublishError, match=naming("does not give back what")):
        publish_openface(store_root, "a", 10)
    assert current(store_root) is None


def test_stamps_and_provenance_are_in_the_record_and_in_the_attributes(store_root: Path) -> None:
    with FeatureWriter(local(store_root), "a", FEATURES["frames"]) as out:
        out.write("time", np.arange(3) / 15)
        out.caveat(Caveat.TRUNCATED_VIDEO)
        out.publish("f", {"code": "storyframes"})
    assert current(store_root, feature="frames").caveats == ["truncated video"]
    catalogue.compact(local(store_root))
    attributes = FeatureStore(store_root).attributes("a", "frames")
    assert attributes["stamps"] == ["truncated video"]
    assert attributes["provenance"] == {"code": "storyframes"}


def test_success_removes_the_note_of_an_earlier_failure(store_root: Path) -> None:
    record_attempt(local(store_root), "a", "openface", Status.FAILED, "no CSV", "")
    assert record_status.read_status(local(store_root), "a", "openface").status is Status.FAILED
    publish_openface(store_root, "a", 10)
    assert record_status.read_status(local(store_root), "a", "openface").status is Status.DONE
    assert not (store_root / "a/openface/attempt.json").exists()  # what is over is not told again


def test_a_failure_keeps_the_last_good_version(store_root: Path) -> None:
    version = publish_openface(store_root, "a", 10)
    record_attempt(local(store_root), "a", "openface", Status.FAILED, "no CSV", "")
    entry = record_status.read_status(local(store_root), "a", "openface")
    assert (entry.status, entry.reason, entry.record.version) == (Status.FAILED, "no CSV", version)
    catalogue.compact(local(store_root))
    assert FeatureStore(store_root).read("a", "openface").shape == (10, 714)


class LosesAFile(LocalStorage):
    """A folder in which somebody removes the newest shard just before the last step of a publication."""

    def update(self, path: str, change: Update, *, wait_s: float | None = None) -> None:
        if path.endswith("current.json"):
            max(self.root.glob("a/frames/*/time/c/0"), key=lambda shard: shard.stat().st_mtime_ns).unlink()
        super().update(path, change, wait_s=wait_s)


def test_a_version_that_lost_a_file_before_the_last_step_never_becomes_current(store_root: Path) -> None:
    def publish(storage: Storage) -> str:
        with FeatureWriter(storage, "a", FEATURES["frames"]) as out:
            out.write("time", np.arange(3.0))
            return out.publish("f", {}).version

    version = publish(local(store_root))
    with pytest.raises(RemovedError, match=naming("was removed while it was")):
        publish(LosesAFile(store_root))
    assert current(store_root, feature="frames").version == version
    assert not list(maintenance.verify(local(store_root)))


# --- killed at any step ----------------------------------------------------------------------------------------------

# A process that imports once and forks one that publishes for each line of a root and the number of the deadly step.
# It says how each ended. Nothing of zarr's runs before a fork: a fork would lack its threads.
PUBLISHERS = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import zarr
from support.stores import publish_openface

def publish(root, deadly):
    steps = 0

    def counted(function):
        def step(*args, **kwargs):
            nonlocal steps
            steps += function is not opened or bool(args[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            if steps == deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)
        return step

    opened = os.open  # for reading it changes nothing, nor does fsync where only the process dies
    for name in ("open", "replace", "mkdir", "unlink", "rename"):
        setattr(os, name, counted(getattr(os, name)))
    publish_openface(Path(root), "a", 70, seed=1, fingerprint="new")
    return steps

for line in sys.stdin:
    root, deadly = line.split()
    child = os.fork()
    if not child:
        os._exit(publish(root, int(deadly)))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def die_at() -> Iterator[Callable[[Path, int], int]]:
    """Publishes in a process of its own, which is killed at a step; how that ended: else it is the number of steps."""
    command = [sys.executable, "-c", PUBLISHERS.format(tests=str(Path(__file__).parents[1]))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as publishers:

        def publish(root: Path, step: int) -> int:
            print(root, step, file=publishers.stdin, flush=True)
            return int(publishers.stdout.readline())

        yield publish
        publishers.stdin.close()


@pytest.mark.slow
@pytest.mark.end_to_end
def test_killed_between_any_two_steps_the_store_holds_the_old_or_the_new_version_whole(
    store_root: Path, tmp_path: Path, die_at: Callable[[Path, int], int]
) -> None:
    before = publish_openface(store_root, "a", 60, fingerprint="old")
    record_attempt(local(store_root), "a", "openface", Status.FAILED, "an earlier failure", "")

    def copy(name: str) -> Path:
        return Path(shutil.copytree(store_root, tmp_path / name, copy_function=shutil.copy2))

    steps = die_at(copy("whole"), -1)
    assert 15 < steps < 256, steps  # all of a publication, and no more than an exit code can say
    seen, removed = set(), 0
    for step in range(1, steps + 1):
        root = copy(str(step))
        assert die_at(root, step) == -signal.SIGKILL
        entry = record_status.read_status(local(root), "a", "openface")
        seen.add(entry.record.fingerprint)
        if entry.record.fingerprint == "old":
            assert entry.record.version == before
            assert entry.status is Status.FAILED
        else:
            assert entry.status is Status.DONE  # the note of the older failure does not count any more
        catalogue.compact(local(root))
        assert not [finding for finding in maintenance.verify(local(root)) if finding.path != "attempt.json"]
        rows = {"old": 60, "new": 70}[entry.record.fingerprint]
        assert FeatureStore(root).read("a", "openface").shape == (rows, 714)
        removed += len(list(maintenance.collect(local(root), grace_s=-1)))
        assert versions(root) == [entry.record.version]
        assert not list(root.rglob("*.tmp"))
        shutil.rmtree(root)
    assert seen == {"old", "new"}
    assert removed > steps / 2


@pytest.mark.end_to_end
def test_two_publishers_at_once_leave_exactly_one_current_version_and_both_readable(store_root: Path) -> None:
    versions: list[str] = []
    barrier = threading.Barrier(2)

    def publish(seed: int) -> None:
        barrier.wait()
        versions.append(publish_openface(store_root, "a", 100, seed=seed))

    threads = [threading.Thread(target=publish, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(versions)) == 2
    assert current(store_root).version in versions
    for version in versions:
        assert zarr.open_array(store_root / "a/openface" / version / "values", mode="r").shape == (100, 714)
    assert not list(maintenance.verify(local(store_root)))


# --- a full disk -----------------------------------------------------------------------------------------------------


def test_a_full_disk_publishes_nothing_and_keeps_what_was(small_disk: Path) -> None:
    from storyframes.store.layout import create_store

    root = small_disk / "features"
    create_store(root)
    before = publish_openface(root, "a", 100)
    with pytest.raises(OSError, match="No space left"):
        publish_openface(root, "a", 1000)
    assert current(root).version == before
    assert versions(root) == [before]
    assert not list(maintenance.verify(local(root)))


def test_everything_written_is_private_to_its_owner(store_root: Path) -> None:
    before = os.umask(0o077)
    try:
        publish_openface(store_root, "a", 10)
        catalogue.compact(local(store_root))
    finally:
        os.umask(before)
    for path in store_root.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_folders_are_private_also_where_others_may_read_what_a_process_makes(store_root: Path) -> None:
    before = os.umask(0o022)
    try:
        publish_openface(store_root, "a", 10)
    finally:
        os.umask(before)
    for folder in (store_root / "a", store_root / "a/openface", *(store_root / "a/openface").glob("*/")):
        assert folder.stat().st_mode & 0o077 == 0, folder


def test_all_of_a_version_is_on_the_disk_before_its_record_has_its_name(
    store_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []
    fsync, rename = os.fsync, os.replace

    def flushed(descriptor: int) -> None:
        done.append(("on the disk", os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def renamed(old: str, new: str) -> None:
        done.append(("renamed", str(old)))
        rename(old, new)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", renamed)
    folder = store_root / "a/openface" / publish_openface(store_root, "a", 10)
    (record,) = (name for what, name in done if what == "renamed" and "current.json" in name)
    before = done[: done.index(("renamed", record))]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) == 7
    for path in (*files, folder, folder.parent, record):
        assert ("on the disk", str(path)) in before
    assert ("on the disk", str(folder.parent)) in done[len(before) + 1 :]


def test_a_version_that_was_published_since_the_work_began_is_not_replaced(store_root: Path) -> None:
    def publish(rows: int, after: int) -> None:
        with FeatureWriter(local(store_root), "a", FEATURES["frames"]) as out:
            out.write("time", np.arange(rows) / 25)
            out.publish("f" * 64, {"inputs": {}}, after=after)

    publish(5, after=0)
    before = latest_sequence(local(store_root), "a", "frames")
    with pytest.raises(OvertakenError, match="a/frames"):
        publish(6, after=before - 1)
    assert current(store_root, feature="frames").rows == 5
    publish(7, after=before)
    assert current(store_root, feature="frames").rows == 7
