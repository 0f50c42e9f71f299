"""Rows of a store at a URL: fetched once, many at a time, kept in a folder of this machine, and never wrong."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import shutil
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.messages import naming
from support.processes import wait_for
from support.stores import local, publish_openface
from support.synthetic_features import StudySpec, SyntheticStudy, write_features

from storyframes import ClipDataset
from storyframes.features import feature_spec
from storyframes.store import catalogue
from storyframes.store.caches import ChunkCache
from storyframes.store.far_rows import FarArray, FarRows, Fetchers
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError, create_store
from storyframes.store.maintenance.archive import archive
from storyframes.store.publish import FeatureWriter
from storyframes.store.shards import ShardLayout
from storyframes.store.storage.object_store import ObjectStorage
from tasks.inspect.stored_feature import StoredFeature

ROWS = 700
INPUTS = ["vision", "resnet50", "audio", "words", "sentence", "label", "story"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions with 700 rows of openface and resnet50: 12 chunks, the last one not full."""
    folder = tmp_path_factory.mktemp("far") / "features"
    create_store(folder)
    for number in range(2):
        publish_openface(folder, f"s{number}", ROWS, seed=number)
        with FeatureWriter(local(folder), f"s{number}", feature_spec(f"s{number}", "resnet50")) as out:
            out.write("values", np.random.default_rng(number).normal(size=(ROWS, 2048)).astype(np.float16))
            out.publish("f" * 64, {"inputs": {}})
    catalogue.compact(local(folder))
    return folder


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SyntheticStudy:
    return write_features(tmp_path_factory.mktemp("study") / "features", StudySpec(sessions=2))


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """What is asked of the place."""
    asked: list[tuple[str, int, int]] = []
    part = ObjectStorage.part

    def counted(self: ObjectStorage, path: str, start: int, stop: int):  # type: ignore[no-untyped-def]
        asked.append((path, start, stop))
        return part(self, path, start, stop)

    monkeypatch.setattr(ObjectStorage, "part", counted)
    return asked


def far(root: Path, *options: object, **keywords: object) -> FeatureStore:
    return FeatureStore(f"file://{root}", *options, **keywords)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, ROWS), st.integers(0, ROWS), st.booleans()), min_size=1, max_size=6))
@pytest.mark.parametrize("kept", ["on disk", "in memory", "nowhere", "little room"])
def test_rows_are_those_of_the_store(root: Path, tmp_path_factory, kept: str, spans: list) -> None:
    room = {"on disk": None, "in memory": None, "nowhere": 0, "little room": 1 << 20}[kept]
    cache = tmp_path_factory.mktemp("cache") if kept in ("on disk", "little room") else None
    store, near = far(root, cache=cache, cache_bytes=room), FeatureStore(root)
    for a, b, announced in spans:
        start, stop = sorted((a, b))
        for session, feature in (("s0", "openface"), ("s1", "resnet50")):
            if announced:
                store.will_need(session, feature, start, stop)
            got = store.view(session, feature, start, stop)
            assert got.dtype == near.view(session, feature, start, stop).dtype
            np.testing.assert_array_equal(got, near.view(session, feature, start, stop))
    if cache and room:
        assert sum(path.stat().st_blocks * 512 for path in cache.iterdir()) <= room


def test_what_was_read_once_is_mapped_for_every_process(root: Path, tmp_path: Path, requests: list) -> None:
    store = far(root, cache=tmp_path / "cache")
    expected = FeatureStore(root).read("s0", "openface", 50, 400)
    np.testing.assert_array_equal(store.read("s0", "openface", 50, 400), expected)
    chunk = 60 * 714 * 4
    assert [(start // chunk, stop // chunk) for _, start, stop in requests] == [(0, 7)]
    requests.clear()
    again, other = pickle.loads(pickle.dumps(store)), far(root, cache=tmp_path / "cache")
    for reader in (store, again, other):
        rows = reader.view("s0", "openface", 50, 400)
        np.testing.assert_array_equal(rows, expected)
        assert not rows.flags.writeable
        assert not rows.flags.owndata
    assert requests == []
    other.view("s0", "openface", 50, 421)
    assert [(start // chunk, stop // chunk) for _, start, stop in requests] == [(7, 8)]  # only what is new
    assert all(path.stat().st_mode & 0o077 == 0 for path in [tmp_path / "cache", *(tmp_path / "cache").iterdir()])


def test_a_small_array_is_one_request(root: Path, requests: list) -> None:
    store = far(root)
    store.view("s0", "openface", 650, 660, array="valid")
    store.view("s0", "openface", 0, 60, array="valid")
    assert len(requests) == 1


def test_what_is_read_block_by_block_is_opened_once(root: Path, requests: list, monkeypatch) -> None:
    opened, tail = [], ObjectStorage.tail
    monkeypatch.setattr(ObjectStorage, "tail", lambda self, *range_: opened.append(range_) or tail(self, *range_))
    blocks = list(StoredFeature.of(far(root), "s1", "resnet50").blocks("values", 120, overlap=1))
    np.testing.assert_array_equal(blocks[2], FeatureStore(root).read("s1", "resnet50", 239, 360))
    assert [len(opened), len(requests)] == [1, 6]


def test_a_long_array_is_many_requests_at_once(root: Path, requests: list) -> None:
    rows = far(root).view("s1", "resnet50", 0, ROWS)
    np.testing.assert_array_equal(rows, FeatureStore(root).view("s1", "resnet50", 0, ROWS))
    assert len(requests) == 1
    long = ShardLayout((40 * 60, 2048), np.dtype("float16"))
    rows_of = FarRows(FarArray(ObjectStorage(f"file://{root}", {}), "", long, Fetchers(), {}), ChunkCache(0), None)
    assert list(rows_of.requests([*range(20), *range(30, 40)])) == [(0, 17), (17, 20), (30, 40)]


@pytest.mark.parametrize("damage", ["a chunk half written", "a checksum without a chunk", "cut short", "longer"])
def test_a_damaged_copy_is_fetched_again(root: Path, tmp_path: Path, requests: list, damage: str) -> None:
    """As a crash, a loss of power or a program that is not ours may leave it."""
    cache = tmp_path / "cache"
    far(root, cache=cache).read("s0", "openface", 0, 120)
    (path,) = (one for one in cache.iterdir() if one.stat().st_size > ROWS * 714 * 4)
    content = bytearray(path.read_bytes())
    if damage == "a chunk half written":
        content[1000:2000] = bytes(1000)
    elif damage == "a checksum without a chunk":
        entry = 12 * 60 * 714 * 4 + 8 * 3
        content[entry : entry + 8] = (1 << 32 | 7).to_bytes(8, "little")
    elif damage == "cut short":
        del content[5000:]
    else:
        content += b"more"
    path.write_bytes(content)
    requests.clear()
    expected = FeatureStore(root).read("s0", "openface", 0, 240)
    np.testing.assert_array_equal(far(root, cache=cache).read("s0", "openface", 0, 240), expected)
    assert requests


def test_another_version_is_another_copy(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "features"
    shutil.copytree(root, folder)
    cache = tmp_path / "cache"
    before = far(folder, cache=cache).read("s0", "openface")
    publish_openface(folder, "s0", ROWS, seed=9)
    catalogue.compact(local(folder))
    after = far(folder, cache=cache).read("s0", "openface")
    np.testing.assert_array_equal(after, FeatureStore(folder).read("s0", "openface"))
    assert (before != after).any()


def test_copies_that_are_not_used_make_room(root: Path, tmp_path: Path) -> None:
    cache, room = tmp_path / "cache", 3 << 20
    far(root, cache=cache, cache_bytes=room).read("s0", "openface")
    old = set(cache.iterdir())
    store = far(root, cache=cache, cache_bytes=room)
    store.read("s1", "resnet50", 0, 600)
    assert not old & set(cache.iterdir())
    assert sum(path.stat().st_blocks * 512 for path in cache.iterdir()) <= room
    store.read("s1", "openface")  # the one in use stays, and this one is read all the same
    np.testing.assert_array_equal(store.read("s1", "openface"), FeatureStore(root).read("s1", "openface"))
    assert sum(path.stat().st_blocks * 512 for path in cache.iterdir()) <= room


def test_a_full_disk_is_no_error_and_is_told(root: Path, small_disk: Path) -> None:
    store = far(root, cache=small_disk / "cache")
    with pytest.warns(RuntimeWarning, match=naming(f"cache = '{small_disk}/cache'", "No space left on device")) as told:
        read = {name: store.read("s1", name) for name in ("resnet50", "openface")}
    assert len(told) == 1
    for name, values in read.items():
        np.testing.assert_array_equal(values, FeatureStore(root).read("s1", name))
    np.testing.assert_array_equal(store.read("s1", "resnet50", 90), FeatureStore(root).read("s1", "resnet50", 90))
    del store
    gc.collect()  # what is mapped keeps the file system busy


def test_a_cache_that_is_gone_meanwhile_is_told(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    store = far(root, cache=folder)
    store.read("s1", "openface", 0, 60)
    shutil.rmtree(folder)
    with pytest.warns(RuntimeWarning, match=naming(f"cache = '{folder}'", "cannot be written any more")):
        np.testing.assert_array_equal(store.read("s1", "openface"), FeatureStore(root).read("s1", "openface"))


def test_threads_and_a_fork(root: Path, tmp_path: Path, requests: list) -> None:
    store = far(root, cache=tmp_path / "cache")
    expected, wrong = FeatureStore(root).read("s0", "openface"), []

    def read(seed: int) -> None:
        for start in np.random.default_rng(seed).integers(0, ROWS - 120, 40):
            store.will_need("s0", "openface", int(start), int(start) + 120)
            if (store.view("s0", "openface", int(start), int(start) + 120) != expected[start : start + 120]).any():
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    chunks = [number for _, start, stop in requests for number in range(start, stop, 60 * 714 * 4)]
    assert len(chunks) == len(set(chunks))  # none twice
    child = multiprocessing.get_context("fork").Process(target=_exit_with_equality, args=(store, expected))
    child.start()
    child.join(60)
    assert child.exitcode == 0


def _exit_with_equality(store: FeatureStore, expected: np.ndarray) -> None:
    os._exit(int((store.view("s0", "openface", 0, ROWS) != expected).any()))


@pytest.mark.parametrize("cached", [True, False])
def test_what_is_gone_or_cut_is_an_error(root: Path, tmp_path: Path, monkeypatch, cached: bool) -> None:
    folder = tmp_path / "features"
    shutil.copytree(root, folder)
    store = far(folder, cache=tmp_path / "cache" if cached else None)
    store.read("s0", "openface", 0, 60)
    (shard,) = folder.glob("s0/openface/*/values/c/0/0")
    content = shard.read_bytes()
    shard.write_bytes(content[: 200 * 714 * 4])
    with pytest.raises(StoreError, match="bytes came where"):
        store.read("s0", "openface", 180, 300)
    shard.unlink()
    store.will_need("s0", "openface", 180, 300)
    for reader in (store, far(folder)):
        with pytest.raises(StoreError, match=naming("was its version removed by")):
            reader.read("s0", "openface", 180, 300)
    shard.write_bytes(content)
    np.testing.assert_array_equal(
        store.read("s0", "openface", 180, 300), FeatureStore(root).read("s0", "openface", 180, 300)
    )


@pytest.mark.parametrize("is_far", [True, False])
def test_a_store_that_nobody_uses_lets_go_of_its_maps_at_once(root: Path, tmp_path: Path, is_far: bool) -> None:
    store = far(root, cache=tmp_path / "cache") if is_far else FeatureStore(root)
    store.will_need("s0", "openface", 0, 60)
    store.view("s0", "openface", 0, 60)
    gone = weakref.ref(store)
    gc.disable()  # a circle of references would keep the files busy until it is looked for
    try:
        del store
        # The thread that fetched rows may end a moment after they are there.
        wait_for(lambda: gone() is None, "the store is still there")
    finally:
        gc.enable()


def test_what_cannot_be_a_cache(root: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=naming("which is mapped as it")):
        FeatureStore(root, cache=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be used"):
        far(root, cache=tmp_path / "file")


def test_an_archive_is_decoded_and_not_kept(root: Path, tmp_path: Path) -> None:
    create_store(tmp_path / "archive")
    list(archive(local(root), local(tmp_path / "archive")))
    catalogue.compact(local(tmp_path / "archive"))
    store = far(tmp_path / "archive", cache=tmp_path / "cache")
    np.testing.assert_array_equal(store.read("s0", "openface"), FeatureStore(root).read("s0", "openface"))


@pytest.mark.parametrize("cached", [True, False])
def test_clips_are_those_of_the_local_store_and_all_are_announced(
    study: SyntheticStudy, tmp_path: Path, monkeypatch, requests: list, cached: bool
) -> None:
    near = ClipDataset(study.root, INPUTS)
    dataset = ClipDataset(far(study.root, cache=tmp_path / "cache" if cached else None), INPUTS)
    order = np.random.default_rng(0).permutation(len(near))[:16].tolist()
    expected, got = near.read(order), dataset.read(order)
    assert expected.keys() == got.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(got[name], values, err_msg=name)
    requests.clear()
    dataset.read(order)
    assert requests == []
