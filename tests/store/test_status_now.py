"""What ``status`` shows of a store: what cannot be read too, and of many sessions those that lack something."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flows.cli import status_tables as status
from flows.cli.status_tables import status_tables
from storyframes.store import record_status
from storyframes.store.layout import create_store
from storyframes.store.publish import record_attempt
from storyframes.store.records import Current, Status, StoredArray, StoredFile
from storyframes.store.storage.local_folder import LocalStorage

SESSIONS = ("a", "a-b", "a.b", "b", "stories")
COUNT = itertools.count(1)


def new_store(folder: Path) -> LocalStorage:
    created = create_store(folder / "features")
    assert isinstance(created, LocalStorage)
    return created


def publish(storage: LocalStorage, session: str, feature: str, number: int) -> None:
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


def record(storage: LocalStorage, session: str, feature: str) -> Path:
    return storage.root / session / feature / "current.json"


@pytest.mark.parametrize("folder", ["a", "a/glove", "."])
def test_what_cannot_be_listed_is_shown(tmp_path: Path, folder: str, monkeypatch: Any) -> None:
    storage = new_store(tmp_path)
    for session in SESSIONS:
        publish(storage, session, "glove", 2)
    listed = os.scandir

    def scandir(path: str) -> Any:
        if os.path.normpath(path) == os.path.normpath(storage.root / folder):
            raise OSError(5, "Input/output error")
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    if folder == ".":
        with pytest.raises(OSError, match="Input/output error"):
            list(record_status.scan(storage))
        return
    assert "Input/output error" in table(record_status.scan(storage))


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
