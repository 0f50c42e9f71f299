"""Stores as a stranger may make them: ids and paths that lead out, huge shapes, pipes, links, nested records."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from storyframes.store import StorageError, StoreError, table_files
from storyframes.store.catalogue import CHECKED
from storyframes.store.layout import CATALOGUE, CLIPS
from storyframes.store.records import RecordError, seal, unseal
from support.stores import local
from support.synthetic_features import StudySpec, write_features

REFUSALS = (StoreError, StorageError, RecordError)
SECRET = "a stranger wants this"


@contextmanager
def no_hang(seconds: float = 60) -> Iterator[None]:
    def end(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def write_harmless(folder: Path) -> Path:
    """A store of two sessions, which a test copies before it makes it hostile."""
    lacking: dict[str, Sequence[str]] = dict.fromkeys(
        ("s00", "s01"), ("resnet50", "dope", "opensmile", "glove", "sbert")
    )
    return write_features(folder / "store", StudySpec(2, 30, lacking=lacking)).root


def copy_beside_a_secret(harmless: Path, folder: Path) -> Path:
    """A copy of the store, with a file beside it that nobody may read."""
    (folder / "outside").mkdir()
    (folder / "outside/secret.json").write_text(SECRET)
    return Path(shutil.copytree(harmless, folder / "store", copy_function=shutil.copy2))


def version(store: Path, session: str = "s01", feature: str = "openface") -> Path:
    (path,) = store.glob(f"{session}/{feature}/*/zarr.json")
    return path.parent


def change_record(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = unseal(path.read_bytes(), "")
    assert content is not None
    change(content)
    path.write_bytes(seal(content))


def change_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_bytes())
    change(content)
    path.write_text(json.dumps(content))


def change_catalogue(store: Path, **values: Any) -> None:
    """Another catalogue, with its checksum; of the row of s01/openface these values."""
    table = pq.read_table(store / CATALOGUE)
    rows = table.to_pylist()
    for row in rows:
        if (row["session_id"], row["feature"]) == ("s01", "openface"):
            row |= values
    hostile = pa.Table.from_pylist(rows, table.schema)
    table_files.replace_table(local(store), CATALOGUE, lambda: hostile)


def change_clips(store: Path, about: bytes | None = None, **values: Any) -> None:
    table = pq.read_table(store / CLIPS)
    metadata = table.schema.metadata if about is None else {b"storyframes": about}
    for name, value in values.items():
        place = table.schema.get_field_index(name)
        column = pa.array([value, *table[name].to_pylist()[1:]])
        table = table.set_column(place, name, column)
    hostile = table.replace_schema_metadata(metadata)
    table_files.replace_table(local(store), CLIPS, lambda: hostile)


def everything(folder: Path) -> dict[str, bytes]:
    """All but the store and what readers are asked to make."""
    made = ("store", "exported", "archived")
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0] not in made
    }


def refuse_or_read(store: Path, readers: Mapping[str, Callable[[Path], object]]) -> dict[str, str]:
    """What each reader says, empty where it has read; an error is of ours, in one line, and nothing is outside."""
    said = {}
    before = everything(store.parent)
    for name, reader in readers.items():
        with no_hang():
            try:
                reader(store)
            except REFUSALS as error:
                said[name] = str(error)
                assert "\n" not in said[name], f"{name}: {said[name]}"
                assert len(said[name]) < 2_000, f"{name}: {said[name]}"
                assert SECRET not in said[name]
    assert everything(store.parent) == before
    for folder in ("exported", "archived"):
        for path in (store.parent / folder).rglob("*"):
            assert not path.is_symlink()
            assert not path.is_file() or SECRET.encode() not in path.read_bytes(), f"{path} has what is outside"
    return said


def deep(levels: int = 100_000) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


HUGE = [2**40, 2048]  # 8 PiB of float32


def claim_8_pib(store: Path) -> None:
    """In the catalogue and in Zarr's metadata."""
    shapes = (("values", HUGE, "float32"), ("valid", [30], "uint8"), ("confidence", [30], "float32"))
    arrays = {name: {"shape": shape, "dtype": dtype, "chunk_rows": 60} for name, shape, dtype in shapes}
    change_catalogue(store, arrays=json.dumps(arrays))
    change_json(version(store) / "zarr.json", lambda d: d["attributes"].pop("groups"))
    change_json(version(store) / "values/zarr.json", lambda d: d.update(shape=HUGE, attributes={}))


def enlarge_chunks(store: Path) -> None:
    chunks = {"chunk_shape": [2**40, 714]}
    change_json(version(store) / "values/zarr.json", lambda d: d["codecs"][0]["configuration"].update(chunks))
    (version(store) / "values/c/0/0").write_bytes(b"x" * 100)


ATTACKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "an id that leads out": (
        lambda s: change_catalogue(s, session_id="../../x", path="../../x/openface/20260101T000000Z-00000000"),
        r"catalogue.parquet is not a catalogue \('\.\./\.\./x' is no session\)",
    ),
    "an absolute id": (lambda s: change_catalogue(s, session_id=f"{s.parent}/outside"), "is no session"),
    "a feature that leads out": (lambda s: change_catalogue(s, feature="../../outside/x"), "is no feature"),
    "a path that is another's": (
        lambda s: change_catalogue(s, path=str(version(s, "s00").relative_to(s))), "is not the path of its row",
    ),
    "a version that leads out": (
        lambda s: change_catalogue(s, version="..", path="s01/openface/.."), "'..' is no version",
    ),
    "an array that leads out": (
        lambda s: change_catalogue(s, arrays='{"../../x": {"shape": [3], "dtype": "float32", "chunk_rows": 60}}'),
        r"catalogue.parquet: '\.\./\.\./x' is no array",
    ),
    "arrays nested deep": (lambda s: change_catalogue(s, arrays=deep().decode()), "JSON of more than 64 levels"),
    "no arrays": (lambda s: change_catalogue(s, arrays="[]"), "are no arrays"),
    "8 PiB in the catalogue": (
        lambda s: change_catalogue(
            s, arrays=json.dumps({"values": {"shape": HUGE, "dtype": "float32", "chunk_rows": 60}})
        ),
        r"s01/openface/.* is \(30, 714\) float32, but was published as \(1099511627776, 2048\) float32",
    ),
    "8 PiB in the catalogue and in Zarr's metadata": (
        claim_8_pib,
        "more than a file of [0-9]+ bytes can hold",
    ),
    "8 PiB in Zarr's metadata": (
        lambda s: change_json(version(s) / "values/zarr.json", lambda d: d.update(shape=HUGE)), "but was published as",
    ),
    "huge chunks in Zarr's metadata": (
        enlarge_chunks,
        r"has chunks of \[1099511627776, 714\]; the largest are \[60, 714\]",
    ),
    "Zarr's metadata nested deep": (
        lambda s: (version(s) / "values/zarr.json").write_bytes(deep()), "zarr.json is damaged.*64 levels",
    ),
    "attributes of another kind": (
        lambda s: change_json(version(s) / "zarr.json", lambda d: d["attributes"].update(stamps=7)),
        "the attribute stamps is 7",
    ),
    "a pipe for a shard": (lambda s: pipe(version(s) / "values/c/0/0"), "no regular file"),
    "a pipe for Zarr's metadata": (lambda s: pipe(version(s) / "zarr.json"), "no regular file"),
    "a pipe for a record": (lambda s: pipe(s / "s01/openface/current.json"), ""),
    "a pipe for the catalogue": (lambda s: pipe(s / CATALOGUE), "catalogue.parquet: cannot be read: no regular file"),
    "a pipe for the clips": (lambda s: pipe(s / CLIPS), "clips.parquet: cannot be read: no regular file"),
    "a pipe for the root": (lambda s: pipe(s / "zarr.json"), "zarr.json: cannot be read: no regular file"),
    "a pipe beside": (lambda s: os.mkfifo(version(s) / "pipe"), ""),
    "a device": (lambda s: link(version(s) / "values/c/0/0", Path("/dev/zero")), "symbolic link"),
    "a link to a file outside": (
        lambda s: link(version(s) / "zarr.json", s.parent / "outside/secret.json"), "symbolic link",
    ),
    "a link to a folder outside": (lambda s: moved(s / "s01", s.parent / "outside/s01"), "symbolic link"),
    "a link to another session": (lambda s: swapped(s, s / "s01/openface", s / "s00/openface"), "symbolic link"),
    "a lock that leads out": (lambda s: link(s / f".{CATALOGUE}.lock", s.parent / "outside/lock"), ""),
    "a record that leads out": (
        lambda s: change_record(
            s / "s01/openface/current.json",
            lambda r: r["files"].update(
                {"../../../../outside/secret.json": {"bytes": 1, "sha256": "0" * 64, "mtime_ns": 0}}
            ),
        ),
        "",
    ),
    "a version of a record that leads out": (
        lambda s: change_record(s / "s01/openface/current.json", lambda r: r.update(version="../../../outside")), "",
    ),
    "8 PiB in a record": (
        lambda s: change_record(
            s / "s01/openface/current.json", lambda r: r["arrays"]["values"].update(shape=HUGE)
        ),
        "",
    ),
    "a record nested deep": (lambda s: (s / "s01/openface/current.json").write_bytes(deep()), ""),
    "an attempt nested deep": (lambda s: (s / "s01/openface/attempt.json").write_bytes(deep()), ""),
    "clips of a session that leads out": (lambda s: change_clips(s, session_id="../../x"), "'../../x' is no session"),
    "clips beyond any recording": (lambda s: change_clips(s, stop_frame=2**60), "stop_frame is .*frames are 0 to"),
    "clips before any recording": (lambda s: change_clips(s, start_frame=-5), "start_frame is -5"),
    "clips that say nothing": (lambda s: change_clips(s, about=deep()), "JSON of more than 64 levels"),
    "clips of no format": (lambda s: change_clips(s, about=b'{"format": "x"}'), "does not say of which format it is"),
    "clocks that go back": (
        lambda s: change_clips(s, about=b'{"format": 2, "clocks": {"s01": {"b": [[5, 1], [0, 4]]}}}'), "clocks",
    ),
    "a catalogue of other types": (
        lambda s: table_files.replace_table(
            local(s), CATALOGUE, lambda: pa.table({name: pa.array([1]) for name in CHECKED})
        ),
        "session_id is int64",
    ),
    "caveats of another type": (
        lambda s: table_files.replace_table(
            local(s),
            CATALOGUE,
            lambda: pq.read_table(s / CATALOGUE).drop(["stamps"]).append_column("stamps", [[1] * 5]),
        ),
        "stamps is int64",
    ),
    "a catalogue with nothing": (
        lambda s: table_files.replace_table(local(s), CATALOGUE, lambda: pa.table({"x": [1]})),
        "has no column 'session",
    ),
    "a root nested deep": (lambda s: (s / "zarr.json").write_bytes(deep()), "zarr.json is missing or damaged"),
    "checksums nested deep": (lambda s: (s / "checksums.json").write_bytes(deep()), "is damaged"),
    "a study record nested deep": (lambda s: (s / "study.json").write_bytes(deep()), ""),
}  # fmt: skip


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def moved(path: Path, target: Path) -> None:
    path.rename(target)
    path.symlink_to(target)


def swapped(store: Path, path: Path, other: Path) -> None:
    name = version(store, "s00").name
    change_catalogue(store, version=name, path=f"s01/openface/{name}")
    shutil.rmtree(path)
    path.symlink_to(other)
