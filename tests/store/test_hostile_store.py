"""Stores from strangers: whatever their ids, paths, records, shapes and files are, readers end with one line that names
the file, the value and the rule; none hangs, and nothing outside the store is read or written."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.hostile_stores import (
    ATTACKS,
    REFUSALS,
    SECRET,
    copy_beside_a_secret,
    no_hang,
    refuse_or_read,
    version,
    write_harmless,
)
from support.object_stores import publish as publish_far
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.clips.dataset import ClipDataset
from storyframes.store import catalogue, record_status, table_files
from storyframes.store.catalogue import Snapshot, parse_arrays
from storyframes.store.description import open_array
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import CATALOGUE, StoreError, create_store, open_store
from storyframes.store.maintenance.archive import archive
from storyframes.store.maintenance.verification import verify
from storyframes.store.records import Attempt, Current, RecordError, Status, seal, unseal
from storyframes.store.storage import StorageError
from storyframes.store.storage.local_folder import LocalStorage


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_harmless(tmp_path_factory.mktemp("made"))


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return copy_beside_a_secret(made, tmp_path)


def read_everything(store: Path) -> None:
    opened = FeatureStore(store)
    repr(opened)
    for session in [*opened.sessions, "stories"]:
        for feature in opened.features(session):
            for name in opened.spec(session, feature).arrays:
                opened.read(session, feature, array=name)
            opened.attributes(session, feature)
    opened.catalogue  # noqa: B018 - read for its errors
    opened.clips()
    list(ClipDataset(opened, ["openface", "label"], drop_missing=True))


READERS: dict[str, Callable[[Path], object]] = {
    "read": read_everything,
    "verify": lambda store: list(verify(open_store(store, damaged=True))),
    "status": lambda store: [repr(entry) for entry in record_status.scan(open_store(store))],
    "compact": lambda store: catalogue.compact(open_store(store)),
    "archive": lambda store: list(archive(open_store(store), create_store(store.parent / "archived"))),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hostile_store_is_read_or_refused_in_one_line(store: Path, attack: str) -> None:
    hostile, message = ATTACKS[attack]
    hostile(store)
    said = refuse_or_read(store, READERS)
    assert re.search(message, said.get("read", "")), said
    assert not (store.parent / "outside/lock").exists()
    assert all(said.values())


@pytest.mark.parametrize(
    ("attack", "named"),
    [
        ("a pipe for a shard", "values/c/0/0: cannot be read: no regular file"),
        ("a pipe for a record", "current.json: cannot be read: no regular file"),
        ("a pipe beside", "pipe: cannot be read: no regular file"),
        ("a record that leads out", "'../../../../outside/secret.json' is no file of a version"),
        ("a version of a record that leads out", "'../../../outside' is no version"),
        ("8 PiB in a record", "more than a file of"),
        ("a record nested deep", "not a record (JSON of more than 64 levels)"),
        ("an attempt nested deep", "not a record (JSON of more than 64 levels)"),
        ("clips before any recording", "start_frame is -5"),
        ("an id that leads out", "'../../x' is no session"),
    ],
)
def test_verify_names_what_is_hostile_and_ends_with_1(store: Path, attack: str, named: str) -> None:
    ATTACKS[attack][0](store)
    with no_hang():
        result = CliRunner().invoke(app, ["verify", str(store)], env={"COLUMNS": "400"})
    assert result.exit_code == 1, result.output
    assert named in " ".join(result.output.replace("│", " ").split()), result.output


def test_a_store_behind_a_link_is_read(store: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store)
    read_everything(tmp_path / "link")
    assert not list(verify(open_store(tmp_path / "link" / ".." / "link")))


# --- anything at all -------------------------------------------------------------------------------------------------

CURRENT = {
    "session_id": "s", "feature": "frames", "version": "20260101T000000Z-00000000", "fingerprint": "f" * 64,
    "created_at": "2026-01-01T00:00:00Z", "arrays": {"time": {"shape": [3], "dtype": "float64", "chunk_rows": 60}},
    "files": {"time/c/0": {"bytes": 500, "sha256": "a" * 64, "mtime_ns": 1}}, "stamps": ["truncated video"],
    "quality": {"fps": 15.0}, "provenance": {"inputs": {}}, "sequence": 4, "condemned": [],
}  # fmt: skip
ATTEMPT = {
    "session_id": "s", "feature": "frames", "status": "missing", "reason": "no video", "fingerprint": "",
    "at": "2026-01-01T00:00:00Z", "sequence": 5,
}  # fmt: skip
NAMES = st.sampled_from(
    ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\0b", "a\nb", "time/c/../../..", "stories", "s@main", "ä", "x" * 65]
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.sampled_from([2**40, 2**63, -1, 10**30]) | st.floats() | st.text()
    | NAMES
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(), inner, max_size=3)
)


@st.composite
def changed(draw: st.DrawFn, record: dict[str, Any]) -> dict[str, Any]:
    """The record with something else, or another name, in one or two places."""
    content = json.loads(json.dumps(record))
    for _ in range(draw(st.integers(1, 2))):
        node = content
        while True:
            key = draw(st.sampled_from(sorted(node))) if node else draw(NAMES)
            inner = node.get(key)
            if isinstance(inner, dict) and inner and draw(st.booleans()):
                node = inner
                continue
            if draw(st.booleans()):
                node[key] = draw(ANYTHING)
            else:
                node[draw(NAMES | st.text())] = node.pop(key, None)
            break
    return content


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(content=changed(CURRENT) | changed(ATTEMPT))
def test_any_record_is_one_or_refused(content: dict[str, Any]) -> None:
    try:
        data = seal(content)
    except ValueError:  # NaN, or half a character
        data = json.dumps(content).encode()
    for kind in (Current, Attempt):
        with suppress(RecordError):
            record = kind.parse(data, "here")
            assert record is not None or content.get("version", "") is None
            if isinstance(record, Current):
                root = Path("/store")
                for name in record.files:
                    path = root / record.session_id / record.feature / record.version / name
                    assert os.path.normpath(path) == str(path)
                    assert path.is_relative_to(root / "s")
                assert sum(np.prod(a.shape, dtype=float) for a in record.arrays.values()) < 2**15 * record.nbytes + 1
            elif record:
                assert record.status in Status


@settings(max_examples=100, deadline=None)
@given(
    row=st.fixed_dictionaries(
        {
            "session_id": NAMES | st.just("s"),
            "feature": NAMES | st.sampled_from(["frames", "frames@b", "*"]),
            "version": st.none() | NAMES | st.just("20260101T000000Z-00000000"),
            "path": st.none() | NAMES | st.just("s/frames/20260101T000000Z-00000000"),
            "arrays": st.text() | ANYTHING.map(lambda value: json.dumps(value, allow_nan=True)),
        }
    )
)
def test_any_row_of_a_catalogue_is_one_or_refused(row: dict[str, Any]) -> None:
    table = pa.Table.from_pylist([row], pa.schema([(name, pa.string()) for name in row]))
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    with suppress(StoreError):
        snapshot = Snapshot(buffer.getvalue())
        for (session, feature), (path, arrays) in snapshot.items():
            assert path == f"{session}/{feature}/20260101T000000Z-00000000"
            assert (session, feature.partition("@")[0]) in {("s", "frames"), ("stories", "frames")}
            for name, array in parse_arrays(arrays).items():
                assert name.isidentifier()
                assert np.dtype(array.dtype).itemsize


@st.composite
def other_metadata(draw: st.DrawFn, document: dict[str, Any]) -> dict[str, Any]:
    """Zarr's metadata with something else in one place, however deep."""
    content = json.loads(json.dumps(document))
    node: Any = content
    while True:
        keys = sorted(node) if isinstance(node, dict) else list(range(len(node)))
        key = draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and node[key] and draw(st.booleans()):
            node = node[key]
            continue
        node[key] = draw(ANYTHING)
        return content


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), file=st.sampled_from(["zarr.json", "values/zarr.json", "valid/zarr.json"]))
def test_any_metadata_of_zarr_is_read_or_refused(made: Path, data: st.DataObject, file: str) -> None:
    path = version(made) / file
    sound = path.read_bytes()
    expected = FeatureStore(made).read("s01", "openface")
    path.write_text(json.dumps(data.draw(other_metadata(json.loads(sound)))))
    try:
        with no_hang():
            store = FeatureStore(made)
            for look in (
                lambda: store.to_pandas("s01", "openface"),
                lambda: store.attributes("s01", "openface"),
                lambda: open_array(
                    store.storage, str(path.parent.relative_to(made)), store.describe("s01", "openface")
                )[:],
            ):
                with suppress(*REFUSALS):
                    look()
            np.testing.assert_array_equal(store.read("s01", "openface"), expected)  # mapped, whatever Zarr is told
            list(verify(store.storage))
    finally:
        path.write_bytes(sound)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(
        st.sampled_from(["..", ".", "", "s01", "openface", "outside", "secret.json", "dir", "zarr.json", "a\0"]),
        min_size=1, max_size=7,
    )
)  # fmt: skip
def test_no_path_leads_out(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    base = tmp_path_factory.getbasetemp() / "paths"
    if not base.exists():
        (base / "outside").mkdir(parents=True)
        (base / "outside/secret.json").write_text(SECRET)
        (base / "store/s01").mkdir(parents=True)
        (base / "store/zarr.json").write_text("{}")
        (base / "store/dir").symlink_to(base / "outside")
        (base / "store/s01/secret.json").symlink_to(base / "outside/secret.json")
    for path in ("/".join(parts), f"{base}/outside/secret.json"):
        with suppress(StorageError):
            assert LocalStorage(base / "store").read(path) in (None, b"{}", b"written")
        with suppress(OSError):
            LocalStorage(base / "store").replace(path, b"written")
    assert (base / "outside/secret.json").read_text() == SECRET
    assert os.listdir(base / "outside") == ["secret.json"]
    shutil.rmtree(base)


# --- on an object store ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_hostile_records_and_rows_on_an_object_store(url: str) -> None:
    storage = create_store(url)
    publish_far(url, "a", 130)
    publish_far(url, "b", 130)
    catalogue.compact(storage)
    content = unseal(storage.read("a/frames/current.json"), "") or {}
    sound = list(verify(storage))
    storage.replace("a/frames/current.json", seal(content | {"version": "../../b"}))
    with pytest.raises(StorageError):
        storage.replace("../c/frames/current.json", seal(content))
    (finding,) = [one for one in verify(storage) if one not in sound and one.session_id]
    assert "'../../b' is no version" in finding.problem
    (damaged,) = [entry for entry in record_status.scan(storage) if entry.is_damaged]
    assert damaged.session_id == "a"
    storage.replace("a/frames/current.json", seal(content))
    (row, *_) = catalogue.to_table(record_status.scan(storage)).to_pylist()
    arrays = json.dumps({"time": {"shape": [2**40], "dtype": "float64", "chunk_rows": 1}})
    for values, message in (
        ({"path": "b/frames/x"}, "is not the path of its row"),
        ({"session_id": ".."}, "is no session"),
        ({"arrays": arrays}, "but was published as"),
    ):
        hostile = pa.Table.from_pylist([row | values], catalogue.SCHEMA)
        table_files.replace_table(storage, CATALOGUE, lambda table=hostile: table)
        with no_hang(), pytest.raises(StoreError, match=message):
            FeatureStore(url).read("a", "frames", array="time")
