"""One store in many threads and processes: no descriptor held, nothing shared, always the versions it opened."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.messages import naming
from support.stores import local, publish_openface

from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Current

FEW_DESCRIPTORS = """
import os, resource, sys
from storyframes import FeatureStore

store = FeatureStore(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
for session in store.sessions:
    for array in ("values", "valid", "confidence"):
        store.read(session, "openface", array=array)
print(len(store.sessions), len(os.listdir("/proc/self/fd")) < 20)
"""


@pytest.mark.slow
def test_more_arrays_stay_open_than_a_process_may_have_files(store_root: Path) -> None:
    for number in range(15):
        publish_openface(store_root, f"s{number:02d}", 2)
    catalogue.compact(local(store_root))
    result = subprocess.run([sys.executable, "-c", FEW_DESCRIPTORS, store_root], capture_output=True, text=True)
    assert result.stdout.split() == ["15", "True"], result.stderr


def sums(store: FeatureStore) -> dict[str, float]:
    return {session: float(store.read(session, "openface", array="values").sum()) for session in store.sessions}


@pytest.fixture
def store(store_root: Path) -> FeatureStore:
    """Three sessions; the shard of the last one is compressed, so that it goes through zarr-python."""
    import zarr

    for number in range(3):
        version = publish_openface(store_root, f"s{number}", 130, seed=number)
    folder = store_root / "s2/openface" / version / "values"
    values = zarr.open_array(folder, mode="r")[:]
    zarr.create_array(folder, shape=(130, 714), dtype="f4", chunks=(60, 714), shards=(180, 714), overwrite=True)[:] = (
        values
    )
    catalogue.compact(local(store_root))
    return FeatureStore(store_root)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(
    ("method", "opened"),
    [
        ("fork", False),
        ("fork", True),
        pytest.param("forkserver", False, marks=pytest.mark.slow),
        pytest.param("spawn", True, marks=pytest.mark.slow),
    ],
)
def test_processes_read_the_same_store(store: FeatureStore, method: str, opened: bool) -> None:
    expected = sums(FeatureStore(store.storage.location))
    if opened:
        sums(store)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        futures = [pool.submit(sums, store) for _ in range(6)]
        assert sums(store) == expected
        assert [future.result() for future in futures] == [expected] * 6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_forked_while_threads_read_waits_for_nobody(store: FeatureStore) -> None:
    expected = sums(FeatureStore(store.storage.location))
    done = threading.Event()

    def read_on() -> None:
        while not done.is_set():
            sums(store)

    with ThreadPoolExecutor(3) as pool:
        reading = [pool.submit(read_on) for _ in range(3)]
        try:
            for _ in range(15):
                child = multiprocessing.get_context("fork").Process(target=_exit_with_equality, args=(store, expected))
                child.start()
                child.join(20)
                assert child.exitcode == 0
        finally:
            done.set()
    for thread in reading:
        thread.result()


def _exit_with_equality(store: FeatureStore, expected: dict[str, float]) -> None:
    sys.exit(sums(store) != expected)


def test_threads_read_the_same_store(store: FeatureStore) -> None:
    expected = sums(FeatureStore(store.storage.location))
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(sums, [store] * 40)) == [expected] * 40


def test_a_pickled_store_reads_the_versions_it_was_pickled_with(store_root: Path) -> None:
    publish_openface(store_root, "a", 20, seed=1)
    catalogue.compact(local(store_root))
    before = FeatureStore(store_root)
    content = pickle.dumps(before)
    publish_openface(store_root, "a", 25, seed=2)
    catalogue.compact(local(store_root))
    np.testing.assert_array_equal(pickle.loads(content).read("a", "openface"), before.read("a", "openface"))


def test_a_pickled_store_carries_no_arrays(store_root: Path) -> None:
    publish_openface(store_root, "a", 500)
    store = FeatureStore(store_root)
    closed = len(pickle.dumps(store))
    assert store.read("a", "openface").nbytes > 1_000_000
    assert len(pickle.dumps(store)) == closed < 20_000


def test_rows_that_were_opened_outlive_their_version(store_root: Path) -> None:
    version = publish_openface(store_root, "a", 20)
    store = FeatureStore(store_root)
    rows = store.view("a", "openface", 5, 10)
    before = rows.copy()
    for path in sorted((store_root / "a/openface" / version).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    np.testing.assert_array_equal(rows, before)
    np.testing.assert_array_equal(store.read("a", "openface", 5, 10), before)
    with pytest.raises(StoreError, match=naming("was its version removed by")):
        store.read("a", "openface", array="valid")


def test_a_view_is_no_copy_and_cannot_be_written(store: FeatureStore) -> None:
    rows = store.view("s0", "openface", 3, 8)
    assert np.shares_memory(rows, store.view("s0", "openface", 7, 9))
    with pytest.raises(ValueError, match="read-only"):
        rows[0, 0] = 1


def test_what_will_be_needed_is_checked_like_what_is_read(store: FeatureStore) -> None:
    for session in store.sessions:  # mapped or not
        store.will_need(session, "openface", 3, 120)
        store.will_need(session, "openface", 5, 5)
    with pytest.raises(StoreError, match=naming("rows 0 to 130", "rows 3 to 131")):
        store.will_need("s0", "openface", 3, 131)


def test_rows_are_announced_to_the_kernel_once_a_minute(store: FeatureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(
        "storyframes.store.shards._madvise", lambda address, length, advice: asked.append((address, address + length))
    )
    values = store.view("s0", "openface")
    begin, row_bytes = values.__array_interface__["data"][0], values.strides[0]
    for start, stop in ((70, 100), (60, 120), (100, 130), (0, 130)):
        asked.clear()
        store.will_need("s0", "openface", start, stop)
        if (start, stop) == (60, 120):
            assert not asked  # the same chunk of 60 rows
            continue
        ((first, last),) = asked
        assert first <= begin + start * row_bytes < begin + stop * row_bytes <= last
        assert last <= begin + 180 * row_bytes  # the rows of the file, padded to whole chunks
    store.will_need("s0", "openface", 0, 130)
    assert len(asked) == 1
    monkeypatch.setattr("storyframes.store.shards.ANNOUNCED_S", 0.0)
    store.will_need("s0", "openface", 0, 130)
    assert len(asked) == 2


def test_an_array_is_described_without_being_opened(store_root: Path) -> None:
    with FeatureWriter(local(store_root), "a", FEATURES["frames"]) as out:
        out.write("time", np.arange(7) / 15)
        version = out.publish("f", {}).version
    store = FeatureStore(store_root)
    for path in (store_root / "a/frames" / version).rglob("c/0"):
        path.unlink()
    described = store.describe("a", "frames", "time")
    assert (described.shape, described.dtype) == ((7,), "float64")
    current = Current.parse((store_root / "a/frames/current.json").read_bytes(), "current.json")
    assert current is not None
    assert described == current.arrays["time"]
    with pytest.raises(StoreError, match=naming("a/frames", "'values'")):
        store.describe("a", "frames")
