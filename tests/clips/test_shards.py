from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support.messages import naming

from storyframes.store.shards import CHUNK_ROWS, ShardLayout, ShardWriter, map_shard

DTYPES = ("float32", "float16", "float64", "uint8", "int16", "int32")


def write(folder: Path, rows: np.ndarray, cuts: list[int], fill: float = 0) -> ShardLayout:
    folder.mkdir(exist_ok=True)
    writer = ShardWriter(folder / "a", rows.shape[1:], rows.dtype, fill)
    for part in np.split(rows, sorted(cut % (len(rows) + 1) for cut in cuts)):
        writer.append(part)
    layout = writer.close().layout
    group = zarr.create_group(store=folder)
    group.create_array(
        "a",
        shape=layout.shape,
        dtype=layout.dtype,
        chunks=(CHUNK_ROWS, *layout.shape[1:]),
        shards=(layout.shard_rows, *layout.shape[1:]),
        compressors=None,
        filters=None,
        fill_value=fill,
    )
    return layout


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), rows=st.integers(0, 200), cuts=st.lists(st.integers(0, 10_000), max_size=6))
def test_a_streamed_shard_reads_the_same_through_zarr_and_through_the_map(tmp_path_factory, data, rows, cuts) -> None:
    folder = tmp_path_factory.mktemp("shard")
    shape = (rows, *data.draw(st.lists(st.integers(1, 4), max_size=2)))
    values = data.draw(hnp.arrays(data.draw(st.sampled_from(DTYPES)), shape))
    layout = write(folder, values, cuts)
    through_zarr = zarr.open_array(folder / "a", mode="r")[:]
    mapped = map_shard(folder / "a" / layout.key, layout)
    assert mapped is not None
    np.testing.assert_array_equal(through_zarr, values)
    np.testing.assert_array_equal(mapped, values)


def test_the_file_is_the_bytes_zarr_itself_would_write(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(150, 5)).astype(np.float32)
    layout = write(tmp_path / "ours", values, [7, 61], fill=float("nan"))
    theirs = zarr.create_array(
        tmp_path / "theirs",
        shape=values.shape,
        dtype=values.dtype,
        chunks=(60, 5),
        shards=(180, 5),
        compressors=None,
        filters=None,
        fill_value=float("nan"),
        config={"write_empty_chunks": True},
    )
    theirs[:] = values
    assert (tmp_path / "ours/a" / layout.key).read_bytes() == (tmp_path / "theirs" / layout.key).read_bytes()


def test_all_nan_chunks_are_there_all_the_same(tmp_path: Path) -> None:
    values = np.full((130, 3), np.nan, np.float32)
    layout = write(tmp_path, values, [], fill=float("nan"))
    assert map_shard(tmp_path / "a" / layout.key, layout) is not None


@pytest.fixture
def sound(tmp_path: Path) -> tuple[Path, ShardLayout]:
    layout = write(tmp_path, np.arange(600, dtype=np.float32).reshape(200, 3), [])
    return tmp_path / "a" / layout.key, layout


def test_a_chunk_that_lies_elsewhere_is_not_mapped(sound) -> None:
    path, layout = sound
    content = bytearray(path.read_bytes())
    index = layout.data_bytes
    first, second = content[index : index + 16], content[index + 16 : index + 32]
    content[index : index + 32] = second + first
    path.write_bytes(content)
    assert map_shard(path, layout) is None


def test_every_flipped_byte_of_the_index_is_noticed(sound) -> None:
    path, layout = sound
    content = path.read_bytes()
    for position in range(layout.data_bytes, len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        assert map_shard(path, layout) is None


@pytest.mark.parametrize("change", [lambda c: c[:-1], lambda c: c + b"x", lambda c: b""])
def test_a_file_of_another_length_is_not_mapped(sound, change) -> None:
    path, layout = sound
    path.write_bytes(change(path.read_bytes()))
    assert map_shard(path, layout) is None


def test_a_missing_file_is_not_mapped(sound) -> None:
    path, layout = sound
    path.unlink()
    assert map_shard(path, layout) is None


def test_a_compressed_shard_is_not_mapped(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path, shape=(120, 3), dtype="f4", chunks=(60, 3), shards=(120, 3))
    array[:] = 1
    assert map_shard(tmp_path / "c/0/0", ShardLayout((120, 3), np.dtype("f4"))) is None


def test_a_value_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1e\\+06 does not fit float16"):
        ShardWriter(tmp_path / "a", (1,), "float16", 0).append(np.array([[1e6]], np.float32))
    with pytest.raises(ValueError, match="does not fit uint8"):
        ShardWriter(tmp_path / "b", (), "uint8", 0).append(np.array([256]))


@pytest.mark.parametrize("value", [0.5, np.nan, np.inf, -1.0, 256.0, 1e300])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_float_that_is_no_such_integer_is_refused(tmp_path: Path, value: float, dtype: str) -> None:
    with pytest.raises(ValueError, match=naming("a: ", "uint8")):
        ShardWriter(tmp_path / "a", (), "uint8", 0).append(np.array([1, value]).astype(dtype))


def test_a_float_that_is_an_integer_is_stored(tmp_path: Path) -> None:
    writer = ShardWriter(tmp_path / "a", (), "int16", 0)
    writer.append(np.array([0.0, -7.0, 300.0]))
    assert writer.close().last_row == 300


def test_infinity_itself_fits(tmp_path: Path) -> None:
    ShardWriter(tmp_path / "a", (1,), "float16", 0).append(np.array([[np.inf]], np.float32))


def test_rows_of_another_shape_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=naming("(4,)", "(3,)")):
        ShardWriter(tmp_path / "a", (3,), "f4", 0).append(np.zeros((2, 4)))
