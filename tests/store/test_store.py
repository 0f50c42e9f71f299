from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from support.messages import missing, naming
from support.stores import local, publish_openface

from storyframes.features import FEATURES
from storyframes.store import catalogue, maintenance, publish, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError, create_store
from storyframes.store.publish import FeatureWriter, record_attempt
from storyframes.store.records import Current, RecordError, Status
from storyframes.store.storage.local_folder import LocalStorage


def publish_resnet50(root: Path, session_id: str, rows: int) -> np.ndarray:
    values = np.random.default_rng(1).normal(size=(rows, 2048)).astype(np.float16)
    with FeatureWriter(local(root), session_id, FEATURES["resnet50"]) as out:
        out.write("values", values)
        out.publish("f", {})
    return values


def open_store(root: Path) -> FeatureStore:
    catalogue.compact(local(root))
    return FeatureStore(root)


def test_vision_is_openface_beside_resnet50(store_root: Path) -> None:
    publish_openface(store_root, "a", 200)
    embeddings = publish_resnet50(store_root, "a", 200)
    store = open_store(store_root)
    vision = store.read("a", "vision", 40, 160)
    assert vision.shape == (120, 2762)
    assert vision.dtype == np.float32
    np.testing.assert_array_equal(vision[:, :714], store.read("a", "openface", 40, 160))
    np.testing.assert_array_equal(vision[:, 714:], embeddings[40:160].astype(np.float32))


def test_vision_of_features_of_different_length_is_refused(store_root: Path) -> None:
    publish_openface(store_root, "a", 200)
    publish_resnet50(store_root, "a", 199)
    with pytest.raises(StoreError, match=naming("openface and resnet50", "[199, 200]")):
        open_store(store_root).read("a", "vision", 0, 10)


def test_read_into_an_array(store_root: Path) -> None:
    publish_openface(store_root, "a", 20)
    store = open_store(store_root)
    out = np.empty((5, 714), np.float64)
    assert store.read("a", "openface", 3, 8, out=out) is out
    np.testing.assert_array_equal(out, store.read("a", "openface", 3, 8))
    with pytest.raises(StoreError, match=naming("(5, 714)", "(6, 714)")):
        store.read("a", "openface", 3, 9, out=out)


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (5, 21), (6, 5)])
def test_rows_that_are_not_there_are_an_error(store_root: Path, start: int, stop: int) -> None:
    publish_openface(store_root, "a", 20)
    with pytest.raises(StoreError, match=naming("rows 0 to 20", f"rows {start} to {stop}")):
        open_store(store_root).read("a", "openface", start, stop)


def test_errors_say_what_there_is(store_root: Path) -> None:
    publish_openface(store_root, "a", 20)
    record_attempt(local(store_root), "a", "opensmile", Status.MISSING, "has no audio track", "")
    store = open_store(store_root)
    with pytest.raises(StoreError, match="no session 'b'"):
        store.read("b", "openface")
    with pytest.raises(StoreError, match=naming("'glove'", "a has no feature")):
        store.read("a", "glove")
    with pytest.raises(StoreError, match=naming("a/opensmile", "has no audio track")):
        store.read("a", "opensmile")
    with pytest.raises(StoreError, match=naming("'time'", "it has values")):
        store.read("a", "openface", array="time")


def test_a_store_keeps_reading_what_it_opened(store_root: Path) -> None:
    publish_openface(store_root, "a", 20, seed=1)
    store = open_store(store_root)
    before = FeatureStore(store_root).read("a", "openface")
    publish_openface(store_root, "a", 25, seed=2)
    catalogue.compact(local(store_root))
    np.testing.assert_array_equal(store.read("a", "openface"), before)  # not opened before the second extraction
    assert FeatureStore(store_root).read("a", "openface").shape == (25, 714)


@pytest.mark.parametrize(
    "use",
    [
        lambda store: store.read("a", "openface"),
        lambda store: store.columns("a", "openface"),
        lambda store: store.attributes("a", "openface"),
        lambda store: store.open_group("a", "openface"),
    ],
)
def test_a_version_that_gc_removed_under_an_open_store_is_an_error_of_ours(store_root: Path, use) -> None:
    publish_openface(store_root, "a", 20, seed=1)
    store = open_store(store_root)
    publish_openface(store_root, "a", 25, seed=2)
    catalogue.compact(local(store_root))
    assert list(maintenance.collect(local(store_root), 0))
    with pytest.raises(StoreError, match=naming("a/openface/", "was its version removed by")):
        use(store)


def test_a_store_that_was_never_compacted_opens_all_the_same(store_root: Path) -> None:
    publish_openface(store_root, "a", 20)
    assert FeatureStore(store_root).sessions == ["a"]


def test_a_folder_of_something_else_is_not_a_store(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="is not a feature store"):
        FeatureStore(tmp_path)
    with pytest.raises(StoreError, match="not empty"):
        create_store(tmp_path)


def test_a_store_of_another_format_is_refused(store_root: Path) -> None:
    (store_root / "zarr.json").write_text(
        json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {"storyframes": {"format": 99}}})
    )
    with pytest.raises(StoreError, match=naming("has format 99", "storyframes reads", "format 1")):
        FeatureStore(store_root)


@pytest.mark.parametrize("name", ["../b", "a/b", "", ".hidden", "a" * 65])
def test_ids_cannot_leave_the_store(store_root: Path, name: str) -> None:
    with pytest.raises(StoreError, match="is no id"):
        FeatureWriter(local(store_root), name, FEATURES["openface"])


# --- verify ----------------------------------------------------------------------------------------------------------


def test_a_sound_store_has_no_findings(store_root: Path) -> None:
    publish_openface(store_root, "a", 130)
    catalogue.compact(local(store_root))
    assert not list(maintenance.verify(local(store_root)))


@pytest.mark.end_to_end
def test_verify_finds_a_flipped_byte_in_every_file(store_root: Path) -> None:
    publish_openface(store_root, "a", 130)
    record_attempt(local(store_root), "a", "glove", Status.MISSING, "no transcript", "")
    catalogue.compact(local(store_root))
    generator = np.random.default_rng(0)
    checked = 0
    for path in store_root.rglob("*"):
        if not path.is_file() or path.name in {"checksums.json"} or path.suffix == ".lock":
            continue
        content = path.read_bytes()
        for position in {0, len(content) - 1, int(generator.integers(len(content)))}:
            damaged = bytearray(content)
            damaged[position] ^= 0x10
            path.write_bytes(damaged)
            findings = list(maintenance.verify(local(store_root)))
            assert any(path.name in finding.path for finding in findings), (path, position)
        path.write_bytes(content)
        checked += 1
    assert checked > 10
    assert not list(maintenance.verify(local(store_root)))


def test_verify_finds_a_missing_and_a_foreign_file(store_root: Path) -> None:
    version = publish_openface(store_root, "a", 130)
    folder = store_root / "a/openface" / version
    (folder / "valid/c/0").unlink()
    (folder / "values/notes.txt").write_text("x")
    problems = {finding.path: finding.problem for finding in maintenance.verify(local(store_root))}
    assert "the file is missing" in problems[f"{version}/valid/c/0"]
    assert "not published with the version" in problems[f"{version}/values/notes.txt"]


def test_a_damaged_record_is_an_error_and_shows_in_the_catalogue(store_root: Path) -> None:
    publish_openface(store_root, "a", 10)
    path = store_root / "a/openface/current.json"
    path.write_text(path.read_text().replace('"session_id": "a"', '"session_id": "b"'))
    with pytest.raises(RecordError, match="checksum does not match"):
        Current.parse(path.read_bytes(), "current.json")
    (entry,) = record_status.scan(local(store_root))
    assert entry.status is Status.FAILED
    assert not missing(entry.reason, "the next extraction makes it")


# --- gc --------------------------------------------------------------------------------------------------------------


def test_gc_keeps_what_is_current_and_what_was_just_superseded(store_root: Path) -> None:
    old = publish_openface(store_root, "a", 10)
    new = publish_openface(store_root, "a", 10)
    assert not list(maintenance.collect(local(store_root), grace_s=3600))
    (removal,) = maintenance.collect(local(store_root), grace_s=-1, dry_run=True)
    assert removal.path == f"a/openface/{old}"
    assert (store_root / removal.path).is_dir()
    list(maintenance.collect(local(store_root), grace_s=-1))
    assert not (store_root / removal.path).exists()
    assert (store_root / "a/openface" / new).is_dir()


def test_gc_counts_its_grace_from_when_a_version_was_superseded(store_root: Path, monkeypatch) -> None:
    """However old its files are, and however wrong the clocks of the machines that write and collect: a reader that
    opened the store a moment ago still reads it."""
    old = publish_openface(store_root, "a", 10)
    long_ago = time.time() - 7200
    for path in [store_root / "a/openface" / old, *(store_root / "a/openface" / old).rglob("*")]:
        os.utime(path, (long_ago, long_ago))
    monkeypatch.setattr(publish, "now", lambda: "2020-01-01T00:00:00Z")
    publish_openface(store_root, "a", 10)
    assert not list(maintenance.collect(local(store_root), grace_s=3600))
    monkeypatch.setattr(time, "time", lambda: long_ago + 30 * 24 * 3600)
    monkeypatch.setattr(time, "time_ns", lambda: int(time.time() * 1e9))
    assert not list(maintenance.collect(local(store_root), grace_s=3600))


def test_gc_goes_through_a_folder_session_by_session(store_root: Path) -> None:
    """A store of 100,000 sessions has millions of files: those of one session are in memory at a time."""
    for session_id in ("b", "a"):
        publish_openface(store_root, session_id, 10)
    (store_root / "s99/frames").mkdir(parents=True)
    (store_root / ".clips.parquet.killed.tmp").write_bytes(b"of a killed writer")
    pieces = list(local(store_root).pieces())
    assert [{path.split("/")[0] for path in piece} for piece in pieces[1:]] == [{"a"}, {"b"}, {"s99"}]
    assert ".clips.parquet.killed.tmp" in pieces[0]
    assert all("/" not in path for path in pieces[0])
    together = {path: info for piece in pieces for path, info in piece.items()}
    assert together.keys() - local(store_root).files().keys() == {"s99/frames"}
    assert all(together[path] == info for path, info in local(store_root).files().items())


def test_gc_touches_nothing_where_the_record_is_damaged(store_root: Path) -> None:
    publish_openface(store_root, "a", 10)
    publish_openface(store_root, "a", 10)
    (store_root / "a/openface/current.json").write_text("{}")
    assert not list(maintenance.collect(local(store_root), grace_s=-1))


def test_is_intact_reads_only_what_was_touched(store_root: Path, monkeypatch) -> None:
    version = publish_openface(store_root, "a", 10)
    folder = store_root / "a/openface"
    current = Current.parse((folder / "current.json").read_bytes(), "current.json")
    shard = folder / version / "values/c/0/0"
    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "digest", lambda self, path: pytest.fail("read"))
        assert maintenance.is_intact(local(store_root), current)
    shard.touch()
    assert maintenance.is_intact(local(store_root), current)  # touched but the same
    content = bytearray(shard.read_bytes())
    content[0] ^= 1
    shard.write_bytes(content)
    assert not maintenance.is_intact(local(store_root), current)
    shard.unlink()
    assert not maintenance.is_intact(local(store_root), current)
