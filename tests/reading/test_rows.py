"""Rows read by any path are the rows that zarr-python reads, or an error that says what is wrong."""

from __future__ import annotations

import os
import resource
import signal
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from support.messages import missing, naming
from support.processes import alive, wait_for
from support.stores import local, publish_openface

from storyframes.store import catalogue
from storyframes.store.caches import ChunkCache, CopyFolder
from storyframes.store.far_rows import Fetchers, Kept
from storyframes.store.feature_reader import open_rows as open_rows_with
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError, create_store
from storyframes.store.shards import CHUNK_ROWS, MappedRows, ShardLayout
from storyframes.store.zarr_rows import ZarrRows

MEGABYTE = 2**20
ABSENT = np.uint64(2**64 - 1)  # offset and length of a chunk that the shard does not hold


def open_rows(folder: Path, layout: ShardLayout, cache_bytes: int = MEGABYTE) -> MappedRows | ZarrRows:
    return open_rows_with(local(folder.parent), folder.name, layout, Kept(ChunkCache(cache_bytes), None, Fetchers()))


@dataclass(frozen=True)
class Shard:
    """A shard as another writer may leave it: chunks in any order, with gaps, some left out."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    order: list[int] = field(default_factory=list)  # places of the chunks; empty: in row order
    gap: int = 0
    absent: frozenset[int] = frozenset()
    nan_chunks: frozenset[int] = frozenset()

    def write(self, folder: Path) -> tuple[np.ndarray, ShardLayout]:
        """Returns what zarr-python reads."""
        layout = ShardLayout(self.shape, np.dtype(self.dtype))
        array = zarr.create_array(
            folder,
            shape=layout.shape,
            dtype=layout.dtype,
            chunks=(CHUNK_ROWS, *layout.shape[1:]),
            shards=(layout.shard_rows, *layout.shape[1:]),
            compressors=None,
            filters=None,
            fill_value=np.nan,
        )
        values = np.random.default_rng(0).normal(size=(layout.shard_rows, *layout.shape[1:])).astype(self.dtype)
        for chunk in self.nan_chunks:
            values[chunk * CHUNK_ROWS : (chunk + 1) * CHUNK_ROWS] = np.nan
        index = np.full((layout.chunks, 2), ABSENT, "<u8")
        content = b""
        for chunk in self.order or range(layout.chunks):
            if chunk in self.absent:
                continue
            stored = values[chunk * CHUNK_ROWS : (chunk + 1) * CHUNK_ROWS].tobytes()
            content += bytes(self.gap)
            index[chunk] = len(content), len(stored)
            content += stored
        checksum = int(google_crc32c.value(index.tobytes())).to_bytes(4, "little")
        path = folder / layout.key
        path.parent.mkdir(parents=True)
        path.write_bytes(content + index.tobytes() + checksum)
        return array[:], layout


@st.composite
def shards(draw) -> Shard:
    shape = (draw(st.integers(1, 250)), *draw(st.lists(st.integers(1, 4), max_size=2)))
    chunks = list(range(-(-shape[0] // CHUNK_ROWS)))
    return Shard(
        shape,
        draw(st.sampled_from(["float16", "float32", "float64"])),
        draw(st.permutations(chunks)),
        draw(st.sampled_from([0, 0, 4])),
        draw(st.frozensets(st.sampled_from(chunks), max_size=1)),
        draw(st.frozensets(st.sampled_from(chunks))),
    )


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    shard=shards(),
    cuts=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), min_size=1, max_size=6),
    cache_bytes=st.sampled_from([0, 3_000, 20_000, MEGABYTE]),
)
def test_any_rows_of_any_shard_are_what_zarr_reads(tmp_path_factory, shard: Shard, cuts, cache_bytes: int) -> None:
    folder = tmp_path_factory.mktemp("shard") / "a"
    through_zarr, layout = shard.write(folder)
    opened = open_rows(folder, layout, cache_bytes)
    plain = shard.order == sorted(shard.order) and not shard.gap and not shard.absent
    assert isinstance(opened, MappedRows) == plain
    for cut in cuts:
        start, stop = sorted(each % (layout.rows + 1) for each in cut)
        np.testing.assert_array_equal(opened[start:stop], through_zarr[start:stop])
        assert opened[start:stop].dtype == through_zarr.dtype


@pytest.mark.parametrize("writer", [{"compressors": "auto"}, {"shards": None}], ids=["compressed", "a file a chunk"])
def test_an_array_of_another_layout_is_read_all_the_same(tmp_path: Path, writer: dict) -> None:
    values = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    options = {"chunks": (60, 3), "shards": (240, 3), "compressors": None} | writer
    zarr.create_array(tmp_path / "a", shape=values.shape, dtype=values.dtype, **options)[:] = values
    opened = open_rows(tmp_path / "a", ShardLayout(values.shape, values.dtype))
    assert isinstance(opened, ZarrRows)
    np.testing.assert_array_equal(opened[50:170], values[50:170])


@settings(max_examples=60, deadline=None)
@given(rows=st.integers(1, 250), cut=st.integers(1, 10_000))
def test_a_truncated_file_is_an_error_and_never_values(tmp_path_factory, rows: int, cut: int) -> None:
    folder = tmp_path_factory.mktemp("shard") / "a"
    _, layout = Shard((rows, 3)).write(folder)
    content = (folder / layout.key).read_bytes()
    (folder / layout.key).write_bytes(content[: cut % len(content)])
    with pytest.raises(StoreError, match=naming("'storyframes verify'", "cannot be read")):
        open_rows(folder, layout)[0:rows]


@settings(max_examples=60, deadline=None)
@given(position=st.integers(0, 51), bit=st.integers(0, 7))
def test_a_wrong_index_is_an_error_and_never_values(tmp_path_factory, position: int, bit: int) -> None:
    folder = tmp_path_factory.mktemp("shard") / "a"
    _, layout = Shard((150, 3)).write(folder)
    content = bytearray((folder / layout.key).read_bytes())
    assert len(content) - layout.data_bytes == 52
    content[layout.data_bytes + position] ^= 1 << bit
    (folder / layout.key).write_bytes(content)
    with pytest.raises(StoreError, match="cannot be read"):
        open_rows(folder, layout)[0:150]


def test_a_file_that_is_gone_is_an_error_though_zarr_would_read_fill_values(tmp_path: Path) -> None:
    _, layout = Shard((150, 3), gap=4).write(tmp_path / "a")
    opened = open_rows(tmp_path / "a", layout)
    (tmp_path / "a" / layout.key).unlink()
    with pytest.raises(StoreError, match=naming("was its version removed by")):
        opened[0:150]


def test_an_array_that_is_not_the_published_one_is_refused(tmp_path: Path) -> None:
    Shard((150, 3), gap=4).write(tmp_path / "a")
    with pytest.raises(StoreError, match=naming("is (150, 3) float32", "160, 3", "float32")):
        open_rows(tmp_path / "a", ShardLayout((160, 3), np.dtype("float32")))
    with pytest.raises(StoreError, match=naming("cannot be opened", "removed by gc")):
        open_rows(tmp_path / "b", ShardLayout((160, 3), np.dtype("float32")))


# --- decoded chunks --------------------------------------------------------------------------------------------------


def chunk(number: int) -> np.ndarray:
    return np.full(100, number, np.uint8)


def test_chunks_that_were_used_last_are_kept() -> None:
    cache = ChunkCache(350)
    for number in range(3):
        cache.put(number, chunk(number))
    assert cache.get(0) is not None  # used again, so that 1 is the oldest
    cache.put(3, chunk(3))
    assert [number for number in range(4) if cache.get(number) is not None] == [0, 2, 3]
    cache.put(3, chunk(9))  # in the place of the old one
    assert [number for number in range(4) if cache.get(number) is not None] == [0, 2, 3]
    cache.put(4, np.zeros(400, np.uint8))  # fits nowhere, and is not kept
    assert cache.get(4) is None


def test_a_chunk_is_decoded_once(tmp_path: Path) -> None:
    through_zarr, layout = Shard((600, 3), gap=4).write(tmp_path / "a")
    opened = open_rows(tmp_path / "a", layout, 10 * MEGABYTE)
    np.testing.assert_array_equal(opened[70:130], through_zarr[70:130])
    (tmp_path / "a" / layout.key).unlink()
    np.testing.assert_array_equal(opened[60:180], through_zarr[60:180])  # of chunks 1 and 2, without the file
    with pytest.raises(StoreError, match="does not exist"):
        opened[60:181]


def test_reading_much_at_once_drives_nothing_out(tmp_path: Path) -> None:
    _, layout = Shard((600, 3), gap=4).write(tmp_path / "a")
    cache = ChunkCache(8_000)
    opened = open_rows_with(local(tmp_path), "a", layout, Kept(cache, None, Fetchers()))
    opened[0:60]
    opened[60:600]
    assert cache.get(("a", 0)) is not None
    assert cache.get(("a", 5)) is None


def test_a_forked_process_does_not_wait_for_a_lock_of_this_one(tmp_path: Path) -> None:
    cache, folder = ChunkCache(1_000), CopyFolder(tmp_path / "copies", 1_000)
    cache.put(0, chunk(0))
    with cache._lock, folder._lock:  # as another thread may at the moment of the fork
        child = os.fork()
        if child == 0:
            cache.put(1, chunk(1))
            os._exit(0 if cache.get(1) is not None and cache.get(0) is None and folder.has_room(1_000) else 1)
        try:
            wait_for(lambda: not alive(child))
        finally:
            os.kill(child, signal.SIGKILL)  # it may still wait; of one that has ended it changes nothing
            ended = os.waitpid(child, 0)
    assert ended == (child, 0)
    assert cache.get(0) is not None


def test_a_store_of_more_arrays_than_a_process_may_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each session has two here, and four may be open: those let go are opened again, a view keeps its own."""
    monkeypatch.setattr("storyframes.store.feature_reader.MOST_OPEN", 4)
    create_store(tmp_path)
    sessions = [f"s{number}" for number in range(7)]
    for number, session_id in enumerate(sessions):
        publish_openface(tmp_path, session_id, 60, seed=number)
    catalogue.compact(local(tmp_path))
    store = FeatureStore(tmp_path)
    views = {session_id: store.view(session_id, "openface") for session_id in sessions}
    for session_id in sessions:
        assert store.read(session_id, "openface", array="valid").all()
    maps = Path("/proc/self/maps").read_text().splitlines()
    assert sum(str(tmp_path) in line and "/valid/" in line for line in maps) <= 4
    for session_id in [*sessions, *sessions]:
        np.testing.assert_array_equal(views[session_id], FeatureStore(tmp_path).read(session_id, "openface"))
        np.testing.assert_array_equal(views[session_id], store.read(session_id, "openface"))


def test_a_file_that_the_system_does_not_map_is_read_and_named_once(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("storyframes.store.shards._warned", set())
    layouts = {}
    for name in ("a", "b"):
        values, layouts[name] = Shard((CHUNK_ROWS, 80_000)).write(tmp_path / name)  # 19 MB
    allowed = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + 12 * MEGABYTE, allowed[1]))
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            rows = {name: open_rows(tmp_path / name, layout) for name, layout in layouts.items()}
    finally:
        resource.setrlimit(resource.RLIMIT_AS, allowed)
    assert [type(one) for one in rows.values()] == [ZarrRows, ZarrRows]
    (one,) = told
    assert not missing(str(one.message), f"{tmp_path}/a/c/0/0", "cannot be mapped into memory")
    assert "Cannot allocate memory), so" in str(one.message)
    assert "vm.max_map_count" in str(one.message)
    np.testing.assert_array_equal(rows["b"][0:10], values[:10])
