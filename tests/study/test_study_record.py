"""A feature store remembers its study, and refuses another one's clips."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st
from support.messages import missing, naming
from support.stores import local, publish_openface
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.store.layout import StoreError
from storyframes.store.maintenance.verification import verify
from tasks.study.labels import RaterKind
from tasks.study.load import Participant, Session, Study, Survey, load_study
from tasks.study.rows import Person, Rater
from tasks.study.study_identity import check_study_record, remember_study


def make_study(folder: Path, sessions: dict[str, tuple[str, bytes | None]]) -> Study:
    """A study of these sessions: participant, and what the recording holds (None: it is not there)."""
    folder.mkdir(exist_ok=True)
    for session_id, (_, recording) in sessions.items():
        if recording is not None:
            (folder / f"{session_id}.avi").write_bytes(recording)
    return Study(
        folder,
        {
            session_id: Session(session_id=session_id, participant_id=participant, video=f"{session_id}.avi")
            for session_id, (participant, _) in sessions.items()
        },
    )


FIRST = {f"s{number}": (f"p{number // 2}", f"recording {number}".encode() * 9000) for number in range(6)}


def remembered(root: Path) -> dict:
    return json.loads((root / "study.json").read_bytes())["sessions"]


@pytest.fixture
def store(store_root: Path, tmp_path: Path) -> Path:
    """A store that remembers the study FIRST."""
    remember_study(local(store_root), make_study(tmp_path / "first", FIRST))
    return store_root


Sessions = dict[str, tuple[str, bytes | None]]
HARMLESS: dict[str, Callable[[Sessions], Sessions]] = {
    "nothing": lambda first: first,
    "sessions added": lambda first: first | {f"t{number}": ("q", b"new") for number in range(60)},
    "some withdrawn": lambda first: {name: first[name] for name in list(first)[2:]},
    "participants renamed": lambda first: {name: (f"x{who}", film) for name, (who, film) in first.items()},
    "most recordings replaced": lambda first: {
        name: (who, film if name == "s3" else b"cut again") for name, (who, film) in first.items()
    },
    "no recording mounted": lambda first: {name: (who, None) for name, (who, _) in first.items()},
    "one participant corrected, no recording mounted": lambda first: {
        name: ("p9" if name == "s0" else who, None) for name, (who, _) in first.items()
    },
}
ANOTHER: dict[str, Callable[[Sessions], Sessions]] = {
    "other sessions": lambda first: {f"x-{name}": what for name, what in first.items()},
    "a trial with a few of the sessions": lambda first: {name: first[name] for name in list(first)[:2]},
    "the same names, other recordings": lambda first: {
        name: (who, f"another {name}".encode()) for name, (who, _) in first.items()
    },
    "the same names, other people, nothing mounted": lambda first: {
        name: (f"x{who}", None) for name, (who, _) in first.items()
    },
    "no sessions": lambda first: {},
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_the_same_study(store: Path, tmp_path: Path, change: Callable[[Sessions], Sessions]) -> None:
    now = change(dict(FIRST))
    study = make_study(tmp_path / "moved", now)
    check_study_record(local(store), study)
    remember_study(local(store), study)
    assert set(remembered(store)) == set(now)  # those who withdrew are not remembered
    remember_study(local(store), study)


@pytest.mark.parametrize("change", ANOTHER.values(), ids=ANOTHER)
def test_another_study(store: Path, tmp_path: Path, change: Callable[[Sessions], Sessions]) -> None:
    now = change(dict(FIRST))
    study = make_study(tmp_path / "another", now)
    before = (store / "study.json").read_bytes()
    for refused in (remember_study, check_study_record):
        with pytest.raises(StoreError, match=naming("feature store", "--replace-study")):
            refused(local(store), study)
    assert (store / "study.json").read_bytes() == before
    remember_study(local(store), study, replace=True)
    assert set(remembered(store)) == set(now)
    if now:
        with pytest.raises(StoreError, match="another study"):
            remember_study(local(store), make_study(tmp_path / "first", {"only": ("p", b"x")}))


@settings(deadline=None, max_examples=25)
@given(
    changes=st.lists(st.sampled_from(["add", "withdraw", "replace", "unmount", "move"]), max_size=8), seed=st.integers()
)
def test_a_study_that_changes_a_little_at_a_time_stays_itself(tmp_path_factory, changes: list[str], seed: int) -> None:
    root = tmp_path_factory.mktemp("features")
    sessions: Sessions = dict(FIRST)
    remember_study(local(root), make_study(tmp_path_factory.mktemp("study"), sessions))
    for number, change in enumerate(changes):
        name = sorted(sessions)[seed % len(sessions)]
        folder = tmp_path_factory.mktemp("study")
        match change:
            case "add":
                sessions[f"new{number}"] = ("p", f"new {number}".encode())
            case "withdraw" if len(sessions) > 2:
                del sessions[name]
            case "replace":
                sessions[name] = (sessions[name][0], f"again {number}".encode())
        shown = {each: (who, None) for each, (who, _) in sessions.items()} if change == "unmount" else sessions
        remember_study(local(root), make_study(folder, shown))


def test_an_unchanged_study_is_not_read_again_and_its_record_changes_in_its_date_alone(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tasks.study.study_identity as study_record

    monkeypatch.setattr(study_record, "digest_of_ends", lambda *_: pytest.fail("a recording was read"))
    before = json.loads((store / "study.json").read_bytes())
    first = load(tmp_path / "first")
    remember_study(local(store), first)
    check_study_record(local(store), first)
    after = json.loads((store / "study.json").read_bytes())
    assert after["read_at"] > before["read_at"]
    of_moment = {"read_at", "confirmed_at", "checksum"}
    assert {key: after[key] for key in after.keys() - of_moment} == {
        key: before[key] for key in before.keys() - of_moment
    }


def load(folder: Path) -> Study:
    return make_study(folder, {name: (who, None) for name, (who, _) in FIRST.items()})


def test_a_store_from_before_is_known_by_its_sessions(store_root: Path, tmp_path: Path) -> None:
    for session_id in FIRST:
        publish_openface(store_root, session_id, 60)
    with pytest.raises(StoreError, match=naming("6 sessions", "this one has")):
        remember_study(local(store_root), make_study(tmp_path / "x", {"x1": ("p", b"x")}))
    remember_study(local(store_root), make_study(tmp_path / "first", FIRST))


def test_a_damaged_record_is_said_and_written_again_on_demand(store: Path, tmp_path: Path) -> None:
    (store / "study.json").write_bytes(b"{")
    study = load(tmp_path / "first")
    with pytest.raises(StoreError, match="study.json is damaged"):
        remember_study(local(store), study)
    assert [finding.path for finding in verify(local(store))] == ["study.json"]
    remember_study(local(store), study, replace=True)
    assert not list(verify(local(store)))


def test_the_record_holds_no_path_and_is_private(store: Path, tmp_path: Path) -> None:
    assert str(tmp_path) not in (store / "study.json").read_text()
    assert set(remembered(store)["s1"]) == {"participant_id", "recording", "bytes", "mtime_ns"}


def test_only_the_ends_of_a_recording_are_read(tmp_path: Path, store_root: Path) -> None:
    film = bytearray(os.urandom(300_000))
    remember_study(local(store_root), make_study(tmp_path / "a", {"s": ("p", bytes(film))}))
    film[150_000] ^= 1
    remember_study(local(store_root), make_study(tmp_path / "b", {"s": ("p", bytes(film))}))
    film[-1] ^= 1
    with pytest.raises(StoreError, match=naming("1 session", "of the same name")):
        remember_study(local(store_root), make_study(tmp_path / "c", {"s": ("p", bytes(film))}))


# --- the commands ----------------------------------------------------------------------------------------------------


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_commands_refuse_before_anything_is_started_or_written(
    study_copy: Path, store_root: Path, tmp_path
) -> None:
    remember_study(local(store_root), load_study(study_copy))
    assert command("index", study_copy, store_root).exit_code == 0
    clips = (store_root / "clips.parquet").read_bytes()
    another = Path(shutil.copytree(study_copy, tmp_path / "another"))
    for video in (another / "videos").iterdir():
        video.write_bytes(b"another film")
    for refused in (
        ("index", another, store_root),
        ("extract", another, store_root),
    ):
        result = command(*refused)
        assert result.exit_code == 2, refused
        assert not missing(result.stderr, "feature store", "3 sessions")
        assert "starting" not in result.stderr
    assert (store_root / "clips.parquet").read_bytes() == clips
    ratings = pd.read_csv(another / "ratings.csv")
    ratings[ratings["session_id"] == "p01-s01"].to_csv(another / "ratings.csv", index=False)
    assert command("index", another, store_root, "--replace-study").exit_code == 0
    assert set(pd.read_parquet(store_root / "clips.parquet")["session_id"]) == {"p01-s01"}
    assert command("index", study_copy, store_root).exit_code == 2


def test_a_store_knows_everybody_of_its_study_by_id(store_root: Path, tmp_path: Path) -> None:
    kinds = {"r1": None, "gpt": RaterKind.MACHINE, "r2": RaterKind.HUMAN}
    study = replace(
        make_study(tmp_path / "study", {"s1": ("ada", b"1"), "s2": ("ben", b"2")}),
        participants=(Participant(participant_id="ada"), Participant(participant_id="withdrawn")),
        surveys=(Survey(participant_id="of-surveys", timepoint="pre", scale="age", score=1),),
        persons=(
            Person(session_id="s1", person_id="child", participant_id="ada"),
            Person(session_id="s2", person_id="child", participant_id="ben"),
            Person(session_id="s1", person_id="adas-mother", participant_id="mother-1"),
            Person(session_id="s1", person_id="robot"),
        ),
        raters={name: Rater(rater_id=name, kind=kind) for name, kind in kinds.items()},
    )
    remember_study(local(store_root), study)
    record = json.loads((store_root / "study.json").read_bytes())
    assert record["people"] == ["ada", "adas-mother", "ben", "mother-1", "of-surveys", "withdrawn"]
    assert record["raters"] == ["r1", "r2"]
