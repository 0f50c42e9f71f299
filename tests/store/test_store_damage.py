"""What is always the same is written again; a flipped bit in a table is noticed by whoever opens it; and a file system
that lacks what a store needs is refused, or what it lacks is a caveat."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from support.commands import storyframes_here
from support.faults import faulty_disk
from support.faults.faulty_disk import faults
from support.messages import missing, naming
from support.stores import local, publish_openface

from storyframes.store import catalogue, maintenance, record_status, table_files
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import CLIPS, INNER_GROUP, ROOT_GROUP, StoreError, create_store, open_store
from storyframes.store.records import seal, unseal
from storyframes.store.storage import Storage

ROOT = Path(__file__).parents[2]


@pytest.fixture
def store(store_root: Path) -> Path:
    publish_openface(store_root, "a", 20)
    publish_openface(store_root, "b", 20)
    catalogue.compact(local(store_root))
    clips = pa.Table.from_pandas(pd.DataFrame({"clip_id": [f"a:share:{n}:1" for n in range(50)]}))
    table_files.replace_table(local(store_root), CLIPS, lambda: clips)
    return store_root


# --- the groups above the versions -----------------------------------------------------------------------------------

DAMAGE = {
    "a flipped bit": ROOT_GROUP.replace(b"format", b"fornat"),
    "a flipped bit that leaves it a store's": ROOT_GROUP.replace(b"group", b"groop"),
    "another format": ROOT_GROUP.replace(b'"format": 1', b'"format": 3'),
    "zeros": b"\0" * len(ROOT_GROUP),
    "nothing": b"",
    "missing": None,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_root_group_is_named_and_written_again(store: Path, damage: bytes | None) -> None:
    path = store / "zarr.json"

    def break_it() -> None:
        path.unlink() if damage is None else path.write_bytes(damage)

    break_it()
    (finding,) = maintenance.verify(open_store(store, damaged=True))
    assert (finding.session_id, finding.path) == ("", "zarr.json")
    if damage != DAMAGE["a flipped bit that leaves it a store's"]:
        with pytest.raises(StoreError, match=naming("zarr.json", "verify --repair")):
            FeatureStore(store)
    assert maintenance.repair(open_store(store, damaged=True)) == ["zarr.json"]
    assert path.read_bytes() == ROOT_GROUP
    break_it()
    create_store(store)  # as extract does
    assert path.read_bytes() == ROOT_GROUP
    assert FeatureStore(store).sessions == ["a", "b"]
    assert not list(maintenance.verify(local(store)))


def test_repair_writes_the_inner_groups_too_and_nothing_else(store: Path) -> None:
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file() and not path.match("*.lock")}
    (store / "a/zarr.json").write_bytes(b"{}")
    (store / "b/openface/zarr.json").unlink()
    assert maintenance.repair(local(store)) == ["a/zarr.json", "b/openface/zarr.json"]
    assert (store / "a/zarr.json").read_bytes() == INNER_GROUP
    after = {path: path.read_bytes() for path in store.rglob("*") if path.is_file() and not path.match("*.lock")}
    assert before == after


def test_what_was_killed_before_its_first_record_is_no_damage(store: Path) -> None:
    """Its groups may not be there yet: the next writer makes them, and ``--repair`` would not."""
    (store / "c" / "glove").mkdir(parents=True)
    (store / "c" / "glove" / ".zarr.json.0a1b.tmp").write_bytes(b"{")
    assert list(maintenance.verify(local(store))) == []
    (store / "a" / "openface" / "zarr.json").unlink()
    assert [(found.session_id, found.feature) for found in maintenance.verify(local(store))] == [("a", "openface")]


def test_the_command_repairs(store: Path) -> None:
    (store / "zarr.json").write_bytes(b"\0")

    named = storyframes_here("verify", store)
    assert named.returncode == 1
    assert "zarr.json" in named.stdout
    repaired = storyframes_here("verify", store, "--repair")
    assert repaired.returncode == 0, repaired.stdout
    assert "repaired zarr.json" in repaired.stdout


def test_a_store_that_others_begin_at_the_same_time_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the parts of an array do; and what one that was killed then has left is in nobody's way."""
    begun = tmp_path / "begun"
    begun.mkdir()
    for name in (".store.lock", ".zarr.json.0a1b2c3d.tmp"):
        (begun / name).touch()
    create_store(begun)
    finished = tmp_path / "finished"

    def meanwhile(storage: Storage) -> bool:
        monkeypatch.undo()
        create_store(finished)
        (finished / "s" / "frames").mkdir(parents=True)
        return False

    monkeypatch.setattr("storyframes.store.layout.holds_records", meanwhile)
    create_store(finished)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/.profile").touch()
    with pytest.raises(StoreError, match=naming("feature store", "give a new or an")):
        create_store(tmp_path / "other")


def test_another_folder_is_still_no_store(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/current.json").write_text("{}")
    with pytest.raises(StoreError, match=naming("feature store", "is not a")):
        create_store(tmp_path)
    with pytest.raises(StoreError, match="is not a feature store"):
        open_store(tmp_path, damaged=True)


# --- the tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["catalogue.parquet", "clips.parquet"])
def test_a_flipped_bit_anywhere_in_a_table_is_an_error_at_opening(store: Path, name: str) -> None:
    path = store / name
    content = path.read_bytes()
    generator = np.random.default_rng(3)
    for position in generator.integers(len(content), size=60):
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(generator.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(StoreError, match=f"{name} is damaged.*index"):
            FeatureStore(store).clips()
    path.write_bytes(content)
    assert len(FeatureStore(store).clips()) == 50


def test_what_cannot_be_read_of_one_session_hides_no_damage_of_others(store: Path) -> None:
    os.mkfifo(store / "a/openface/pipe")
    table = store / CLIPS
    table.write_bytes(table.read_bytes()[:-1])
    shutil.rmtree(store / "b")
    findings = list(maintenance.verify(local(store)))
    assert {("a", "pipe"), ("", CLIPS)} <= {(finding.session_id, finding.path) for finding in findings}
    assert "b" in {finding.session_id for finding in findings}


def test_a_damaged_checksum_is_an_error_as_well_and_index_mends_both(store: Path) -> None:
    path = store / "checksums.json"
    for damage in (b"\0\0", b"[]", path.read_bytes().replace(b"a", b"b")):
        path.write_bytes(damage)
        with pytest.raises(StoreError, match="is damaged"):
            FeatureStore(store)
        assert list(maintenance.verify(local(store)))
        catalogue.compact(local(store))
        clips = table_files.parse_table((store / CLIPS).read_bytes(), CLIPS)
        table_files.replace_table(local(store), CLIPS, lambda clips=clips: clips)
        assert len(FeatureStore(store).clips()) == 50
        assert not list(maintenance.verify(local(store)))


def test_a_store_without_checksums_still_opens(store: Path) -> None:
    (store / "checksums.json").unlink()
    assert len(FeatureStore(store).clips()) == 50


# --- file systems that lack something --------------------------------------------------------------------------------

PUBLISH = """
import sys
from pathlib import Path
from support.stores import publish_openface
from storyframes.store.layout import create_store
create_store(sys.argv[1])
publish_openface(Path(sys.argv[1]), "a", 10)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return faulty_disk.build(tmp_path_factory.mktemp("library"))


@pytest.mark.slow
@pytest.mark.needs("cc")
@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_cannot_flush_folders_has_a_caveat(tmp_path: Path, library: Path, number: int) -> None:
    root = tmp_path / "features"
    result = faulty_disk.run(library, PUBLISH, str(root), **faults(("fsync-folder", number, str(tmp_path))))
    assert result.returncode == 0, result.stderr
    (entry,) = record_status.scan(local(root))
    assert entry.record.caveats == ["folders not flushed"]
    assert FeatureStore(root).attributes("a", "openface")["stamps"] == ["folders not flushed"]
    assert not list(maintenance.verify(local(root)))


@pytest.mark.slow
@pytest.mark.needs("cc")
def test_another_error_of_a_flush_publishes_nothing(tmp_path: Path, library: Path) -> None:
    root = tmp_path / "features"
    create_store(root)
    result = faulty_disk.run(library, PUBLISH, str(root), **faults(("fsync-folder", errno.EIO, "a/openface/2")))
    assert "Input/output error" in result.stderr
    assert not list(record_status.scan(local(root)))


@pytest.mark.needs("cc")
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_refused_at_the_start(tmp_path: Path, library: Path, number: int) -> None:
    root = tmp_path / "features"
    result = faulty_disk.run(library, PUBLISH, str(root), **faults(("flock", number, ".lock")))
    assert result.returncode == 1
    assert "StorageError" in result.stderr
    assert not missing(result.stderr, "this file system has no")
    assert not (root / "a").exists()


# --- folders in another's place --------------------------------------------------------------------------------------


def copy_of_a(store: Path, place: str) -> None:
    """The folder of a's openface where another feature would be; the catalogue as older code made it of that."""
    rows = catalogue.to_table(record_status.scan(local(store), "a")).to_pylist()
    shutil.rmtree(store / place, ignore_errors=True)
    shutil.copytree(store / "a/openface", store / place)
    session, feature = place.split("/")
    (copied,) = ({**row, "session_id": session, "feature": feature} for row in rows)
    copied["path"] = f"{place}/{copied['version']}"
    table = pa.Table.from_pylist([*rows, copied], catalogue.SCHEMA)
    table_files.replace_table(local(store), catalogue.CATALOGUE, lambda: table)


@pytest.mark.parametrize("place", ["b/openface", "a/openface@child_b", "a/resnet50"])
def test_the_folder_of_another_feature_is_not_read_as_this_one(store: Path, place: str) -> None:
    copy_of_a(store, place)
    said = rf"{place}/current.json: is the record of a/openface, whose folder was copied or renamed"
    with pytest.raises(StoreError, match=said):
        FeatureStore(store)
    session, feature = place.split("/")
    (finding,) = (one for one in maintenance.verify(local(store)) if one.path == "current.json")
    assert (finding.session_id, finding.feature) == (session, feature)
    assert "is the record of a/openface" in finding.problem
    catalogue.compact(local(store))
    opened = FeatureStore(store)
    assert not opened.has(session, feature)
    assert opened.has("a", "openface")
    with pytest.raises(StoreError, match=rf"{place} is failed: {said}"):
        opened.read(session, feature)


@pytest.mark.parametrize("place", ["b/openface", "a/openface@child_b", "a/resnet50"])
def test_a_version_says_of_whom_it_is_where_its_record_does_not(store: Path, place: str) -> None:
    copy_of_a(store, place)
    session, feature = place.split("/")
    path = store / place / "current.json"
    content = unseal(path.read_bytes(), "")
    path.write_bytes(seal({**content, "session_id": session, "feature": feature}))
    catalogue.compact(local(store))
    opened = FeatureStore(store)
    for look in (opened.spec, opened.attributes, opened.open_group):
        with pytest.raises(StoreError, match=naming("'a/openface'", "its folder was copied or")):
            look(session, feature)
    (finding,) = (one for one in maintenance.verify(local(store)) if one.session_id)
    assert (finding.session_id, finding.feature) == (session, feature)
    assert "it is of 'a/openface'" in finding.problem


def test_versions_of_one_name_are_no_copies_where_their_records_say_so(store: Path) -> None:
    copy_of_a(store, "b/openface")
    path = store / "b/openface/current.json"
    content = unseal(path.read_bytes(), "")
    path.write_bytes(seal({**content, "session_id": "b"}))
    assert FeatureStore(store).has("b", "openface")
