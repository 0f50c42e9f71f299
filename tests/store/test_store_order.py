"""What is later is told by a count in the store, so a clock that was wrong hides nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.stores import local, publish_openface
from support.studies import one_session_study

from storyframes.store import publish, record_status
from storyframes.store.publish import record_attempt
from storyframes.store.records import Attempt, Current, Status, seal, unseal
from tasks.extract import extract
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection

AHEAD, RIGHT, BEHIND = "2039-01-01T00:00:00.000000Z", "2026-11-22T10:00:00.000000Z", "1999-01-01T00:00:00.000000Z"


def at(monkeypatch: pytest.MonkeyPatch, clock: str) -> None:
    monkeypatch.setattr(publish, "now", lambda: clock)


@pytest.mark.parametrize("first", [AHEAD, RIGHT, BEHIND])
@pytest.mark.parametrize("then", [AHEAD, RIGHT, BEHIND])
def test_a_failure_after_a_version_shows_whatever_the_clocks_said(
    store_root: Path, monkeypatch: pytest.MonkeyPatch, first: str, then: str
) -> None:
    storage = local(store_root)
    at(monkeypatch, first)
    publish_openface(store_root, "a", 10)
    at(monkeypatch, then)
    record_attempt(storage, "a", "openface", Status.FAILED, "no CSV", "")
    entry = record_status.read_status(storage, "a", "openface")
    assert (entry.status, entry.reason) == (Status.FAILED, "no CSV")
    # And a version after it hides it, also where its publisher died before it could remove the note.
    note = (store_root / "a/openface/attempt.json").read_bytes()
    at(monkeypatch, first)
    publish_openface(store_root, "a", 10)
    (store_root / "a/openface/attempt.json").write_bytes(note)
    assert record_status.read_status(storage, "a", "openface").status is Status.DONE


def without_count(path: Path) -> None:
    """The record as it was written before there was a count."""
    content = unseal(path.read_bytes(), path.name)
    path.write_bytes(seal({key: value for key, value in content.items() if key not in ("sequence", "condemned")}))
    assert "sequence" not in json.loads(path.read_bytes())


@pytest.mark.parametrize(("version", "attempt", "status"), [(BEHIND, RIGHT, "failed"), (RIGHT, BEHIND, "done")])
def test_an_older_store_still_reads(
    store_root: Path, monkeypatch: pytest.MonkeyPatch, version: str, attempt: str, status: str
) -> None:
    storage = local(store_root)
    at(monkeypatch, version)
    publish_openface(store_root, "a", 10)
    at(monkeypatch, attempt)
    record_attempt(storage, "a", "openface", Status.FAILED, "no CSV", "")
    for name in ("current.json", "attempt.json"):
        without_count(store_root / "a/openface" / name)
    assert record_status.read_status(storage, "a", "openface").status == status
    # What is noted from now on is later, whatever the clock says.
    at(monkeypatch, "1970-01-01T00:00:00.000000Z")
    record_attempt(storage, "a", "openface", Status.FAILED, "again", "")
    assert record_status.read_status(storage, "a", "openface").reason == "again"
    publish_openface(store_root, "a", 10)
    assert record_status.read_status(storage, "a", "openface").status is Status.DONE


@pytest.mark.parametrize("old_store", [False, True])
def test_force_extracts_again_also_what_a_clock_ahead_published(
    demo_study: Path, tmp_path: Path, store_root: Path, monkeypatch: pytest.MonkeyPatch, old_store: bool
) -> None:
    from tasks.study.load import load_study

    study = load_study(one_session_study(tmp_path / "study", next((demo_study / "videos").iterdir())))

    def run(*, force: bool) -> list[str]:
        plan = plan_extraction(study, store_root, ExtractorsSettings(), Selection(only=("frames",), force=force))
        return [str(outcome.skipped) for work in plan.units for outcome in extract(work)]

    at(monkeypatch, AHEAD)
    assert run(force=False) == ["False"]
    path = store_root / "s1/frames/current.json"
    if old_store:
        without_count(path)
    at(monkeypatch, RIGHT)
    before = Current.parse(path.read_bytes(), "current.json")
    assert run(force=True) == ["False"]
    after = Current.parse(path.read_bytes(), "current.json")
    assert after.version != before.version
    assert after.sequence > before.sequence
    assert run(force=False) == []


def test_forced_work_that_was_done_meanwhile_is_not_done_twice(
    demo_study: Path, tmp_path: Path, store_root: Path
) -> None:
    """A worker dies after it has published: whoever takes the work over sees that it is done."""
    from tasks.study.load import load_study

    study = load_study(one_session_study(tmp_path / "study", next((demo_study / "videos").iterdir())))
    forced = Selection(only=("frames",), force=True)
    (work,) = plan_extraction(study, store_root, ExtractorsSettings(), forced).units
    assert [outcome.skipped for outcome in extract(work)] == [False]
    assert [outcome.skipped for outcome in extract(work)] == [True]


def test_records_keep_their_count(store_root: Path) -> None:
    storage = local(store_root)
    for number in (1, 3, 5):
        publish_openface(store_root, "a", 10)
        assert Current.parse(storage.read("a/openface/current.json"), "").sequence == number
        record_attempt(storage, "a", "openface", Status.MISSING, "", "")
        assert Attempt.parse(storage.read("a/openface/attempt.json"), "").sequence == number + 1
