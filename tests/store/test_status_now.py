"""What ``status`` shows of a store that changes is, to the letter, what reading every record gives."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from flows.cli.tables import status
from flows.cli.tables.status import entry_json, status_json, status_tables
from storyframes.store import catalogue, record_status
from storyframes.store.layout import CATALOGUE, CHECKSUMS, create_store
from storyframes.store.publish import record_attempt
from storyframes.store.records import Current, Status, StoredArray, StoredFile
from storyframes.store.storage import local_folder
from storyframes.store.storage.local_folder import LocalStorage

SESSIONS = ("a", "a-b", "a.b", "b", "stories")
NAMES = ("frames", "glove", "openface@child_b")
READ: list[str] = []
COUNT = itertools.count(1)


class Reading(LocalStorage):
    """A folder that notes which records are read."""

    def read_many(self, paths: Iterable[str], unreadable: Any = None) -> dict[str, bytes | None]:
        paths = list(paths)
        READ.extend(paths)
        return super().read_many(paths, unreadable)


@pytest.fixture(autouse=True)
def settled() -> Iterator[None]:
    """What changes in a test does so in a later tick of the clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_folder, "_SETTLED_NS", 0)
        patch.setattr(catalogue, "_ROW_GROUP", 2)  # several pieces, and sessions in two of them
        READ.clear()
        yield


def new_store(folder: str | Path) -> Reading:
    create_store(Path(folder) / "features")
    return Reading(Path(folder) / "features")


def publish(storage: Reading, session: str, feature: str, number: int) -> None:
    """The record of a version, in one step; its arrays are not looked at."""
    written = Current(
        session, feature, f"20260101T000000Z-{number:08x}", f"{number:064}", "2026-01-01T00:00:00.000000Z",
        {"time": StoredArray((number,), "float64", 60)}, {"time/c/0": StoredFile(number * 1_000, f"{number:064}", 0)},
        ["clock drifts [a]"] if number % 2 else [], {"words_known": number / 10} if feature == "glove" else {},
        sequence=next(COUNT),
    )  # fmt: skip
    path = record(storage, session, feature)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".new").write_bytes(written.to_json())
    path.with_suffix(".new").replace(path)


def table(entries: Any) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(*status_tables(entries), sep="\n")
    return captured.get()


def check(storage: Reading) -> None:
    entries = list(record_status.scan(storage))
    assert table(catalogue.current_statuses(storage)) == table(entries)
    shown = "".join(status_json(catalogue.current_statuses(storage)))
    assert (
        shown
        == json.dumps({"features": [*map(entry_json, entries)], "arrays": [], "not_in_study": []}, indent=1) + "\n"
    )


def record(storage: Reading, session: str, feature: str) -> Path:
    return storage.root / session / feature / "current.json"


ACTIONS = ("publish", "fail", "miss", "compact", "damage", "forget", "attempt damaged", "no catalogue", "no proof")


def act(storage: Reading, what: str, session: str, feature: str, number: int) -> None:
    match what:
        case "publish":
            publish(storage, session, feature, number)
        case "fail" | "miss":
            status = Status.FAILED if what == "fail" else Status.MISSING
            record_attempt(storage, session, feature, status, f"why [{number}]", "")
        case "compact":
            catalogue.compact(storage)
        case "damage":
            if record(storage, session, feature).exists():
                record(storage, session, feature).write_bytes(b"{}")
        case "forget":
            record(storage, session, feature).unlink(missing_ok=True)
        case "attempt damaged":
            attempt = record(storage, session, feature).with_name("attempt.json")
            if attempt.exists():
                attempt.write_bytes(b"x")
        case "no catalogue":
            (storage.root / CATALOGUE).unlink(missing_ok=True)
        case "no proof":
            (storage.root / CHECKSUMS).unlink(missing_ok=True)


steps = st.tuples(st.sampled_from(ACTIONS), st.sampled_from(SESSIONS), st.sampled_from(NAMES), st.integers(1, 6))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(changes=st.lists(steps, max_size=8))
def test_a_store_that_changes_is_shown_as_its_records_are(changes: list[tuple[str, str, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        storage = new_store(folder)
        for session in SESSIONS[:3]:
            publish(storage, session, "glove", 3)
        catalogue.compact(storage)
        check(storage)
        for change in changes:
            act(storage, *change)
            check(storage)


def test_an_empty_catalogue_is_one_of_no_session(tmp_path: Path) -> None:
    storage = new_store(tmp_path)
    publish(storage, "a", "glove", 2)
    catalogue.compact(storage)
    record(storage, "a", "glove").unlink()
    catalogue.compact(storage)
    check(storage)
    publish(storage, "b", "glove", 2)
    check(storage)


def test_no_thread_is_started_to_read_the_catalogue(tmp_path: Path) -> None:
    """One that lets go of an object of Python's while the interpreter ends may abort the process: so they count."""
    storage = new_store(tmp_path)
    for session in SESSIONS:
        publish(storage, session, "glove", 2)
    catalogue.compact(storage)
    script = (
        "import sys; from pathlib import Path; from storyframes.store import catalogue; "
        "from storyframes.store.layout import open_store; "
        "print(len([*catalogue.current_statuses(open_store(sys.argv[1]))])); "
        "print(*(path.read_text() for path in Path('/proc/self/task').glob('*/comm')))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(storage.root)], check=True, capture_output=True, text=True)
    read, *threads = done.stdout.split()
    assert read == str(len(SESSIONS))
    assert len([name for name in threads if name != "jemalloc_bg_thd"]) == 1  # that one frees memory, from import on


def test_only_what_changed_is_read(tmp_path: Path) -> None:
    storage = new_store(tmp_path)
    for session in SESSIONS:
        publish(storage, session, "glove", 2)
    catalogue.compact(storage)
    before = {path: path.read_bytes() for path in storage.root.rglob("*") if path.is_file()}
    READ.clear()
    assert len(list(catalogue.current_statuses(storage))) == len(SESSIONS)
    assert READ == []
    publish(storage, "a", "glove", 3)
    READ.clear()
    assert len(list(catalogue.current_statuses(storage))) == len(SESSIONS)
    assert {path.rpartition("/")[0] for path in READ} == {"a/glove"}
    assert (storage.root / CATALOGUE).read_bytes() == before[storage.root / CATALOGUE]  # looking writes nothing


@pytest.mark.parametrize("folder", ["a", "a/glove", "."])
def test_what_cannot_be_listed_is_shown_as_reading_all_shows_it(tmp_path: Path, folder: str, monkeypatch: Any) -> None:
    storage = new_store(tmp_path)
    for session in SESSIONS:
        publish(storage, session, "glove", 2)
    catalogue.compact(storage)
    listed = os.scandir

    def scandir(path: str) -> Any:
        if os.path.normpath(path) == os.path.normpath(storage.root / folder):
            raise OSError(5, "Input/output error")
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    if folder == ".":
        with pytest.raises(OSError, match="Input/output error"):
            list(catalogue.current_statuses(storage))
        return
    check(storage)
    assert "Input/output error" in table(catalogue.current_statuses(storage))


def test_of_many_sessions_the_table_has_those_that_lack_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = new_store(tmp_path)
    for session in ("s1", "s2", "s3"):
        publish(storage, session, "glove", 2)
    record_attempt(storage, "s2", "frames", Status.FAILED, "the disk broke", "")
    for most, shown in ((3, ["s1", "s2", "s3"]), (2, ["s2"])):
        monkeypatch.setattr(status, "_MOST_LINES", most)
        lines = table(record_status.scan(storage)).splitlines()
        assert [name for name in ("s1", "s2", "s3") if any(f"│ {name} " in line for line in lines)] == shown
        assert any(line.startswith("1 of 3 lines: ") for line in lines) == (most == 2)
        assert any("3 done, 1 failed" in line for line in lines)
    (storage.root / "s2/frames/attempt.json").unlink()
    lines = table(record_status.scan(storage)).splitlines()
    assert lines[0].startswith("0 of 3 lines: ")


def test_the_table_of_many_sessions_has_no_more_lines_than_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = new_store(tmp_path)
    for session in ("s1", "s2", "s3"):
        for feature in ("glove", "glove@child_b"):
            record_attempt(storage, session, feature, Status.FAILED, "the disk broke", "")
    monkeypatch.setattr(status, "_MOST_LINES", 3)
    lines = table(record_status.scan(storage)).splitlines()
    assert [name for name in ("s1", "s2", "s3") if any(f"│ {name} " in line for line in lines)] == ["s1"]
    assert any(line.startswith("2 of 6 lines: ") and "storyframes status --session NAME" in line for line in lines)
