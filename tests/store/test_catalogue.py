"""The catalogue says what the records say, and the digest of the records notices every change."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore
from support.faults.turns import TurnsInMemory
from support.messages import naming
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.features import FEATURES
from storyframes.store import catalogue, record_status, table_files
from storyframes.store.catalogue import Snapshot
from storyframes.store.layout import CATALOGUE, CHECKSUMS, FORGOTTEN, StoreError, create_store
from storyframes.store.publish import FeatureWriter, record_attempt
from storyframes.store.records import Current, Status
from storyframes.store.storage import Storage, local_folder
from storyframes.store.storage.access import SHARING
from storyframes.store.storage.local_folder import LocalStorage, state_of

DAY_NS = 86_400 * 10**9


@pytest.fixture(params=["folder", "object store"])
def storage(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """Six features of three sessions, catalogued; what changes in a test does so in a later tick of the clock."""
    monkeypatch.setattr(local_folder, "_SETTLED_NS", 0)
    monkeypatch.setattr(catalogue, "_ROW_GROUP", 3)  # the rows of "a-b" are in two
    if request.param == "folder":
        made: Any = create_store(tmp_path / "features")
    else:
        made = TurnsInMemory()
    for session_id in ("a", "a-b", "c"):
        publish(made, session_id, 1)
        record_attempt(made, session_id, "openface", Status.MISSING, "no video", "")
    catalogue.compact(made)
    return made


def publish(storage: Storage, session_id: str, number: int, feature: str = "frames") -> None:
    with FeatureWriter(storage, session_id, replace(FEATURES["frames"], name=feature)) as out:
        out.write("time", np.arange(float(number)))
        out.publish(f"{number:064}", {})


def rows(storage: Storage) -> pd.DataFrame:
    return Snapshot.of(storage).frame()


def assert_is_the_truth(storage: Storage) -> None:
    """The catalogue says what the records say."""
    pd.testing.assert_frame_equal(rows(storage), catalogue.to_table(record_status.scan(storage)).to_pandas())


def test_it_is_left_alone_where_nothing_changed(storage: Any) -> None:
    before = storage.read(CATALOGUE)
    assert catalogue.compact(storage)
    assert storage.read(CATALOGUE) == before
    publish(storage, "a-b", 2)
    assert not catalogue.compact(storage)
    assert catalogue.compact(storage)


def test_what_changed_is_in_it(storage: Any) -> None:
    publish(storage, "a-b", 2)
    record_attempt(storage, "c", "frames", Status.FAILED, "broke", "")
    publish(storage, "d", 1)
    catalogue.compact(storage)
    assert_is_the_truth(storage)
    storage.remove([f"c/frames/{name}" for name in ("attempt.json", "current.json")])
    catalogue.compact(storage)
    assert_is_the_truth(storage)
    assert len(rows(storage)) == 6


def as_published_by_another_program(root: Path, content: bytes) -> None:
    (root / "new").write_bytes(content)
    (root / "new").replace(root / "a/frames/current.json")


def written_in_place(root: Path, content: bytes) -> None:
    (root / "a/frames/current.json").write_bytes(content)


def with_the_time_of_before(root: Path, content: bytes) -> None:
    path = root / "a/frames/current.json"
    before = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def put_back_from_a_backup(root: Path, content: bytes) -> None:
    """The backup has the time of the original."""
    (root.parent / "backup").write_bytes(content)
    shutil.copystat(root / "a/frames/current.json", root.parent / "backup")
    (root / "a/frames/current.json").unlink()
    shutil.copy2(root.parent / "backup", root / "a/frames/current.json")


def by_exchanging_folders(root: Path, content: bytes) -> None:
    shutil.copytree(root / "a", root.parent / "copy")
    (root.parent / "copy/frames/current.json").write_bytes(content)
    (root / "a").rename(root.parent / "old")
    (root.parent / "copy").rename(root / "a")


@pytest.mark.parametrize(
    "change",
    [
        as_published_by_another_program,
        written_in_place,
        with_the_time_of_before,
        put_back_from_a_backup,
        by_exchanging_folders,
    ],
)
@pytest.mark.parametrize("storage", ["folder"], indirect=True)
def test_no_way_to_change_a_record_of_the_same_size_stays_unseen(
    storage: Any, change: Callable[[Path, bytes], None]
) -> None:
    path = storage.root / "a/frames/current.json"
    current = Current.parse(path.read_bytes(), "a record")
    object.__setattr__(current, "fingerprint", "e" * 64)
    content = current.to_json()
    assert len(content) == path.stat().st_size
    before = record_status.digest_of_records(storage)
    assert before
    assert record_status.digest_of_records(storage) == before
    change(storage.root, content)
    assert record_status.digest_of_records(storage) != before
    catalogue.compact(storage)
    assert rows(storage).set_index(["session_id", "feature"])["fingerprint"]["a", "frames"] == "e" * 64
    assert_is_the_truth(storage)


def status(inode: int = 7, size: int = 4_000, mtime_ns: int = 5, ctime_ns: int = 5) -> os.stat_result:
    return os.stat_result((0o600, inode, 1, 1, 0, 0, size, 0, 0, 0, 0.0, 0.0, 0.0, 0, mtime_ns, ctime_ns))


@pytest.mark.parametrize(
    ("mtime_ns", "ctime_ns", "now_ns", "certain"),
    [
        (DAY_NS + 5, DAY_NS + 5, 2 * DAY_NS, True),
        (5, DAY_NS + 5, 2 * DAY_NS, True),  # put back from a backup, long ago
        (DAY_NS + 5, DAY_NS + 5, DAY_NS + 5, False),  # this very moment
        (5, DAY_NS + 5, DAY_NS + 10**9, False),  # its time was set a second ago
        (DAY_NS + 5, DAY_NS + 5, 2, False),  # the clock went back
        (9 * DAY_NS + 5, DAY_NS + 5, 2 * DAY_NS, False),  # its time was set, to a later day
        (DAY_NS, DAY_NS, 2 * DAY_NS, False),  # a file system that knows only seconds
        (DAY_NS + 5, DAY_NS, 2 * DAY_NS, False),
        (DAY_NS + 5, DAY_NS + 5, 0, False),  # the file system does not say what time it is
    ],
)
def test_a_state_is_certain_only_where_a_change_would_show(
    mtime_ns: int, ctime_ns: int, now_ns: int, certain: bool
) -> None:
    assert bool(state_of(status(mtime_ns=mtime_ns, ctime_ns=ctime_ns), now_ns)) is certain


def test_states_differ_in_every_part() -> None:
    parts = [{}, {"inode": 8}, {"size": 4_001}, {"mtime_ns": 6}, {"ctime_ns": 6}]
    assert len({state_of(status(**part), DAY_NS) for part in parts}) == len(parts)


def test_of_records_that_changed_a_moment_ago_there_is_no_digest(tmp_path: Path) -> None:
    """Another record may get the inode of one in the same tick of the clock."""
    storage = create_store(tmp_path / "features")
    publish(storage, "a", 1)
    assert record_status.digest_of_records(storage) == b""


def test_a_damaged_record_is_named_until_it_is_mended(storage: Any) -> None:
    sound = storage.read("c/frames/current.json")
    for content in (b"", sound[:-9]):
        storage.replace("c/frames/current.json", content)
        catalogue.compact(storage)
        assert_is_the_truth(storage)
    assert "damaged" in rows(storage).set_index(["session_id", "feature"])["reason"]["c", "frames"]
    storage.replace("c/frames/current.json", sound)
    catalogue.compact(storage)
    assert_is_the_truth(storage)
    assert rows(storage).set_index(["session_id", "feature"])["status"]["c", "frames"] == "done"


def test_a_catalogue_that_nothing_proves_is_not_believed(storage: Any) -> None:
    """It was edited, or its checksum is gone: its rows are made of the records."""
    table = table_files.parse_table(storage.read(CATALOGUE), CATALOGUE)
    wrong = table.set_column(table.schema.get_field_index("rows"), "rows", pa.array([9] * len(table)))
    storage.replace(CATALOGUE, table_files.to_parquet(wrong))
    catalogue.compact(storage)
    assert_is_the_truth(storage)
    storage.replace(CATALOGUE, table_files.to_parquet(wrong))
    storage.remove([CHECKSUMS])
    catalogue.compact(storage)
    assert_is_the_truth(storage)


@pytest.mark.parametrize("change", ["marks", "other type", "not a table"])
def test_a_catalogue_of_another_version_is_not_believed(storage: Any, change: str) -> None:
    table = table_files.parse_table(storage.read(CATALOGUE), CATALOGUE)
    if change == "marks":  # as the versions wrote it that read only records that had changed
        table = table.append_column("seen", pa.array([b"0" * 16] * len(table), pa.binary(16)))
    elif change == "other type":
        table = table.set_column(0, "session_id", table["session_id"].cast(pa.large_string()))
    else:
        table = pa.table({"something": [1]})
    table_files.replace_table(storage, CATALOGUE, lambda: table)
    catalogue.compact(storage)
    assert_is_the_truth(storage)


@pytest.mark.parametrize("session_id", [None, "", "../other", "a b"])
@pytest.mark.parametrize("proof", [True, False])
def test_a_row_of_a_catalogue_that_no_writer_wrote_is_dropped(
    storage: Any, session_id: str | None, proof: bool
) -> None:
    table = table_files.parse_table(storage.read(CATALOGUE), CATALOGUE)
    odd = {"session_id": session_id, "feature": "glove", "status": "done"}
    for rows_of_it in ([odd], [*table.to_pylist(), odd, {**odd, "session_id": "d", "feature": session_id}]):
        made = pa.Table.from_pylist(rows_of_it, table.schema)
        table_files.replace_table(storage, CATALOGUE, lambda made=made: made, row_group_size=2)
        if not proof:
            storage.remove([CHECKSUMS])
        catalogue.compact(storage)
        assert_is_the_truth(storage)


def test_versions_before_read_the_catalogue(storage: Any, tmp_path: Path) -> None:
    """They take the file as it is, and every column that they know is what it was."""
    (tmp_path / CATALOGUE).write_bytes(storage.read(CATALOGUE))
    assert pq.read_table(tmp_path / CATALOGUE).schema.equals(catalogue.SCHEMA)


def test_what_a_run_published_is_read_though_the_listing_lags() -> None:
    class Lagging(TurnsInMemory):
        listed: Any = None

        def _list(self, prefix: str = "") -> Any:
            listed = list(super()._list()) if self.listed is None else self.listed
            return [item for item in listed if item["path"].startswith(prefix)]

    storage = Lagging()
    assert isinstance(storage._store, MemoryStore)
    publish(storage, "a", 1)
    catalogue.compact(storage)
    storage.listed = storage._list()
    publish(storage, "a", 2)
    publish(storage, "b", 3)
    catalogue.compact(storage, [("a", "frames"), ("b", "frames")])
    assert list(rows(storage)["rows"]) == [2, 3]
    catalogue.compact(storage)  # another run's, to which the listing shows no more
    assert list(rows(storage)["rows"]) == [2, 3]
    storage.listed = None
    catalogue.compact(storage)
    assert_is_the_truth(storage)


COMMANDS = [
    ("status", "STORE", "--session", "a"),
    ("status", "STORE", "--session", "a", "--json"),
    ("verify", "STORE", "--session", "a"),
    ("verify", "STORE", "--session", "a", "--repair"),
    ("show", "STORE", "a", "--json"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("storage", ["folder"], indirect=True)
def test_a_command_about_one_session_looks_at_no_other(
    storage: Any, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    touched: list[str] = []
    read, entries = LocalStorage.read, LocalStorage._entries
    monkeypatch.setattr(LocalStorage, "read", lambda self, path: (touched.append(path), read(self, path))[1])
    monkeypatch.setattr(
        LocalStorage, "_entries", lambda self, folder, *rest: (touched.append(folder), entries(self, folder, *rest))[1]
    )
    arguments = [word.replace("STORE", str(storage.root)) for word in command]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    of_the_store = {CATALOGUE, CHECKSUMS, FORGOTTEN, SHARING, "zarr.json"}
    assert {path for path in touched if path.split("/")[0] != "a"} <= of_the_store
    (storage.root / "a-b/frames/current.json").write_bytes(b"")  # so that the command is seen to look at its own
    assert CliRunner().invoke(app, arguments).output == result.output
    assert len(list((storage.root / "a/frames").rglob("time/c/0"))) == 1
    (storage.root / "a/frames/current.json").write_bytes(b"")
    assert CliRunner().invoke(app, arguments).output != result.output


@pytest.mark.parametrize("session", ["nobody", "..", "../other", "a/frames", "*"])
@pytest.mark.parametrize("command", ["status", "verify"])
@pytest.mark.parametrize("storage", ["folder"], indirect=True)
def test_a_session_that_is_not_there_is_a_wrong_call(storage: Any, command: str, session: str) -> None:
    result = CliRunner().invoke(app, [command, str(storage.root), "--session", session])
    assert result.exit_code == 2
    assert "sound" not in result.output


@pytest.mark.parametrize("storage", ["folder"], indirect=True)
def test_what_is_wrong_with_one_session_is_found(storage: Any) -> None:
    (shard,) = (storage.root / "a/frames").rglob("time/c/0")
    shard.write_bytes(bytes(shard.stat().st_size))
    codes = [
        CliRunner().invoke(app, ["verify", str(storage.root), *which]).exit_code
        for which in ([], ["--session", "a"], ["--session", "a-b"])
    ]
    assert codes == [1, 1, 0]


def test_a_snapshot_tells_what_the_table_says(storage: Any) -> None:
    """However its rows lie, and also where a column is one that an older version did not have."""
    record_attempt(storage, "stories", "glove", Status.FAILED, "why", "")
    publish(storage, "stories", 3)
    publish(storage, "c", 4, "frames_2")
    catalogue.compact(storage)
    content = storage.read(CATALOGUE)
    table = table_files.parse_table(content, CATALOGUE)
    shuffled = table.take([(5 * row) % len(table) for row in range(len(table))])
    for snapshot in (Snapshot(content), Snapshot(shuffled), pickle.loads(pickle.dumps(Snapshot(content)))):
        expected = rows(storage)
        there = expected[expected["version"].notna()]
        assert dict(snapshot) == {(row.session_id, row.feature): (row.path, row.arrays) for row in there.itertuples()}
        assert set(snapshot.sessions) == {"a", "a-b", "c", "stories"}
        assert sorted(snapshot.features("c")) == ["frames", "frames_2"]
        assert snapshot.features("nobody") == []
        assert snapshot.counts() == {"frames": 3, "frames_2": 1}
        assert ("a", "openface") not in snapshot  # its last attempt found nothing, and there was none before
        assert ("a", "nothing") not in snapshot
        of_one = {status.feature: status for status in snapshot.statuses("a")}
        read = {status.feature: status for status in record_status.scan(storage, "a")}
        assert of_one == {feature: replace(status, record=None, attempt=None) for feature, status in read.items()}
    older = Snapshot(table_files.to_parquet(table.drop_columns(["quality"])))
    assert "quality" not in older.frame().columns
    (frames,) = (status for status in older.statuses("a") if status.feature == "frames")
    assert (frames.status, frames.current.quality) == (Status.DONE, {})
    wrong = table.set_column(table.schema.get_field_index("status"), "status", pa.array(["odd"] * len(table)))
    with pytest.raises(StoreError, match=naming("catalogue.parquet", "a/frames", "'odd'")):
        Snapshot(wrong).statuses("a")
    assert len(Snapshot(table.slice(0, 0))) == 0
