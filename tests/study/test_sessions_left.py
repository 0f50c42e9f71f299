"""Sessions that a store has and its study does not are named, and which of them have the recordings of another."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from support.stores import local
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.storage import Unreadable
from storyframes.store.storage.local_folder import LocalStorage
from storyframes.store.study import sessions_left
from tasks.models.digests import sha256_file
from tasks.study.load import StudyError, load_study
from tasks.study.study_identity import remember_study

VIDEOS = {"p01-s01": "p01-s01", "p01-s02": "p01-s02", "p01-s07": "p01-s02", "p02-s01": "p02-s01"}


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """The demo study, whose session p01-s02 is renamed to p01-s07, and a store that has both."""
    shutil.copytree("demo/study", tmp_path / "study")
    create_store(tmp_path / "features")
    for session, video in VIDEOS.items():
        with FeatureWriter(local(tmp_path / "features"), session, FEATURES["frames"]) as out:
            out.write("time", np.arange(400) / 15)
            file = Path(f"demo/study/videos/{video}.avi")
            recording = {"path": f"videos/{video}.avi", "sha256": sha256_file(file), "bytes": file.stat().st_size}
            out.publish("f" * 64, {"inputs": {"video": recording}})
    catalogue.compact(local(tmp_path / "features"))
    rename(tmp_path / "study", "p01-s02", "p01-s07")
    return tmp_path


@dataclass(frozen=True)
class NotingStorage(LocalStorage):
    """A folder that notes whose records are listed."""

    listed: list[str] = field(default_factory=list, compare=False)

    def records(self, names: Iterable[str], session_id: str = "*", unreadable: Unreadable | None = None) -> list[str]:
        self.listed.append(session_id)
        return super().records(names, session_id, unreadable)


def rename(study: Path, old: str, new: str) -> None:
    for path in study.glob("*.csv"):
        path.write_text(path.read_text().replace(f"\n{old},", f"\n{new},"))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_renamed_session_is_named_with_the_one_that_has_its_recordings(lab: Path) -> None:
    study, store = lab / "study", lab / "features"
    stored, of_study = VIDEOS, load_study(study).sessions
    assert sessions_left(local(store), stored, of_study) == {"p01-s02": "p01-s07"}
    indexed = run("index", study, store)
    assert indexed.exit_code == 0
    checked = run("check", study, "--store", store)
    assert checked.exit_code == 0
    verified = run("verify", store, "--study", study)
    assert verified.exit_code == 0
    for said in (indexed.stderr, run("status", store).stdout, checked.stdout, verified.stdout):
        (line,) = (line for line in said.splitlines() if "not in the study" in line)
        assert "p01-s02" in line
        assert "p01-s07" in line


def test_programs_are_given_the_same(lab: Path) -> None:
    study, store = lab / "study", lab / "features"
    remember_study(local(store), load_study(study))
    assert json.loads(run("status", store, "--json").stdout)["not_in_study"] == [
        {"session_id": "p01-s02", "same_recordings_as": "p01-s07"}
    ]
    assert json.loads(run("verify", store, "--study", study, "--json").stdout)["not_in_study"] == {"p01-s02": "p01-s07"}
    checked = run("check", study, "--tables-only", "--store", store, "--json")
    assert json.loads(checked.stdout)["not_in_study"] == {"p01-s02": "p01-s07"}


def test_a_session_that_left_and_was_not_renamed_is_named(lab: Path) -> None:
    study, store = lab / "study", lab / "features"
    of_study = {*load_study(study).sessions} - {"p02-s01"}
    assert sessions_left(local(store), VIDEOS, of_study) == {"p01-s02": "p01-s07", "p02-s01": ""}


def test_only_records_of_sessions_with_recordings_of_the_same_size_are_read(lab: Path) -> None:
    """Ten thousand sessions must not be read on every index because one is not in the study any more."""
    study, storage = load_study(lab / "study"), NotingStorage(lab / "features")
    remember_study(storage, study)
    storage.listed.clear()
    assert sessions_left(storage, VIDEOS, study.sessions) == {"p01-s02": "p01-s07"}
    assert sorted(storage.listed) == ["p01-s02", "p01-s07"]


def test_a_twin_is_found_where_the_study_s_record_does_not_know_its_recording(lab: Path) -> None:
    study, store = load_study(lab / "study"), local(lab / "features")
    (lab / "study/videos/p01-s02.avi").unlink()
    remember_study(store, study)
    assert sessions_left(store, VIDEOS, study.sessions) == {"p01-s02": "p01-s07"}
    (lab / "features/study.json").write_bytes(b"{")
    assert sessions_left(store, VIDEOS, study.sessions) == {"p01-s02": "p01-s07"}


def test_a_store_of_its_study_alone_has_none(lab: Path) -> None:
    store = lab / "features"
    assert sessions_left(local(store), VIDEOS, VIDEOS) == {}
    shutil.rmtree(store / "p01-s02")
    catalogue.compact(local(store))
    assert "not in the study" not in run("index", lab / "study", store).stderr
    assert json.loads(run("status", store, "--json").stdout)["not_in_study"] == []


def test_rows_about_the_forgotten_are_refused_with_their_place(lab: Path) -> None:
    content = {"storyframes_forgotten": 1, "sessions": ["p02-s01"], "people": ["p01"], "tracks": []}
    (lab / "study/forgotten.json").write_text(json.dumps(content))
    with pytest.raises(StudyError) as refused:
        load_study(lab / "study")
    named = {(problem.table, problem.row, problem.column) for problem in refused.value.problems}
    assert {("sessions", 2, "participant_id"), ("sessions", 4, "session_id")} <= named
    assert ("surveys", 2, "participant_id") in named
    assert load_study(lab / "study", with_forgotten=True).sessions.keys() == {"p01-s01", "p01-s07", "p02-s01"}
    (lab / "study/forgotten.json").write_text("{")
    assert run("check", lab / "study").exit_code == 2
