from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.commands import storyframes_here
from support.messages import naming
from support.stores import local, publish_openface

from storyframes.features import FEATURES
from storyframes.store import catalogue, maintenance
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError, create_store
from storyframes.store.maintenance.archive import archive
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import Caveat, seal
from storyframes.store.shards import Compression, ShardWriter


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(0, 200), cuts=st.lists(st.integers(0, 200), max_size=5), seed=st.integers(0, 3))
def test_a_compressed_shard_reads_as_it_was_written(tmp_path_factory, rows: int, cuts: list[int], seed: int) -> None:
    folder = tmp_path_factory.mktemp("shard")
    values = np.random.default_rng(seed).integers(0, 9, (rows, 5)).astype(np.float32)
    writer = ShardWriter(folder / "a", (5,), "float32", 0, Compression.ZSTD)
    for part in np.split(values, sorted(cut % (rows + 1) for cut in cuts)):
        writer.append(part)
    written = writer.close()
    zarr.create_group(store=folder).create_array(
        "a",
        shape=values.shape,
        dtype="f4",
        chunks=(60, 5),
        shards=(written.layout.shard_rows, 5),
        compressors=zarr.codecs.ZstdCodec(level=3),
        filters=None,
        fill_value=0,
    )
    np.testing.assert_array_equal(zarr.open_array(folder / "a", mode="r")[:], values)
    if rows:
        assert (folder / "a/c/0/0").stat().st_size == written.file_bytes


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two features, one of two shards."""
    store_root = tmp_path_factory.mktemp("stored") / "features"
    create_store(store_root)
    publish_openface(store_root, "a", 6_100)
    with FeatureWriter(local(store_root), "a", FEATURES["opensmile"]) as out:
        columns = [f"d{i}" for i in range(25)]
        out.write("values", np.ones((90, 25)), columns)
        out.write("time", np.arange(90) / 100)
        out.write("per_frame", np.ones((6_100, 25)), columns)
        out.caveat(Caveat.TRUNCATED_VIDEO)
        out.attributes["feature_set"] = "eGeMAPSv02"
        out.quality["audio_s"] = 0.9
        out.publish("g" * 64, {"inputs": {}})
    catalogue.compact(local(store_root))
    return store_root


@pytest.fixture(scope="module")
def archived(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("archived") / "archive"
    list(archive(local(stored), create_store(root)))
    return root


def test_an_archive_reads_as_the_store(stored: Path, archived: Path) -> None:
    store, compressed = FeatureStore(stored), FeatureStore(archived)
    for start, stop in ((0, 6_100), (59, 61), (6_050, 6_100)):
        np.testing.assert_array_equal(
            compressed.read("a", "openface", start, stop), store.read("a", "openface", start, stop)
        )
    assert compressed.attributes("a", "opensmile") == store.attributes("a", "opensmile")
    ours, theirs = (each.catalogue.set_index("feature") for each in (store, compressed))
    assert list(theirs["stamps"].map(list)) == list(ours["stamps"].map(list))
    assert list(theirs["quality"]) == list(ours["quality"])
    assert list(theirs["fingerprint"]) == list(ours["fingerprint"])
    assert not list(maintenance.verify(local(archived)))


def test_an_archive_is_smaller_and_plain_zarr(stored: Path, archived: Path) -> None:
    sizes = [FeatureStore(each).catalogue.set_index("feature").loc["openface", "bytes"] for each in (stored, archived)]
    assert sizes[1] < sizes[0]
    path = FeatureStore(archived).catalogue.set_index("feature").loc["openface", "path"]
    assert zarr.open_array(archived / path / "values", mode="r").compressors[0].to_dict()["name"] == "zstd"


def test_archiving_again_copies_only_what_is_new(stored: Path, archived: Path, tmp_path: Path) -> None:
    store, target = (Path(shutil.copytree(root, tmp_path / root.name)) for root in (stored, archived))
    before = FeatureStore(target).catalogue.set_index("feature")["version"]
    publish_openface(store, "a", 50, fingerprint="h" * 64)
    list(archive(local(store), local(target)))
    after = FeatureStore(target).catalogue.set_index("feature")["version"]
    assert list(after.index[after != before]) == ["openface"]


STUDY_RECORD = {"a": {"participant_id": "p", "recording": "d" * 64, "bytes": 7, "mtime_ns": 1}}


def test_an_archive_remembers_its_study(store_root: Path, tmp_path: Path) -> None:
    publish_openface(store_root, "a", 50)
    (store_root / "study.json").write_bytes(seal({"sessions": STUDY_RECORD}))
    target = create_store(tmp_path / "archive")
    list(archive(local(store_root), target))
    assert (tmp_path / "archive/study.json").read_bytes() == (store_root / "study.json").read_bytes()
    grown = seal({"sessions": STUDY_RECORD | {"b": STUDY_RECORD["a"]}})
    (store_root / "study.json").write_bytes(grown)
    list(archive(local(store_root), target))
    assert (tmp_path / "archive/study.json").read_bytes() == grown
    assert not list(maintenance.verify(target))


def test_another_study_s_archive_is_left_alone(store_root: Path, tmp_path: Path) -> None:
    publish_openface(store_root, "a", 50)
    (store_root / "study.json").write_bytes(seal({"sessions": STUDY_RECORD}))
    target = create_store(tmp_path / "archive")
    other = seal({"sessions": {"x": STUDY_RECORD["a"]}})
    (tmp_path / "archive/study.json").write_bytes(other)
    with pytest.raises(StoreError, match=naming("1 sessions", "is the archive of another")):
        list(archive(local(store_root), target))
    assert (tmp_path / "archive/study.json").read_bytes() == other
    assert not (tmp_path / "archive/a").exists()


def test_a_damaged_record_of_the_study_is_not_archived(store_root: Path, tmp_path: Path) -> None:
    publish_openface(store_root, "a", 50)
    (store_root / "study.json").write_bytes(seal({"sessions": STUDY_RECORD})[:-9])
    with pytest.raises(StoreError, match=naming("study.json", "--replace-study")):
        list(archive(local(store_root), create_store(tmp_path / "archive")))


def test_a_store_that_remembers_no_study_is_archived_all_the_same(archived: Path) -> None:
    assert not (archived / "study.json").exists()


def test_the_command(store_root: Path, tmp_path: Path) -> None:
    publish_openface(store_root, "a", 200)
    done = storyframes_here("archive", store_root, "--out", tmp_path / "archive")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 feature, ")
    assert FeatureStore(tmp_path / "archive").read("a", "openface").shape == (200, 714)
