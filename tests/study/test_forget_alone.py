"""Forgetting removes what is of the forgotten and nothing else, and says what it could not remove."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result
from support.faults.turns import TurnsInMemory
from support.stores import local
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import FeatureStore
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import seal, unseal
from storyframes.store.storage import Storage
from storyframes.store.study import note_given, read_forgotten
from storyframes.store.table_files import parse_table
from tasks.forgetting.forget import forget as forget_in
from tasks.forgetting.scope import Scope
from tasks.study.forgotten_ids import ForgottenIds
from tasks.study.load import load_study
from tasks.study.study_identity import remember_study

SESSIONS = ("p01-s01", "p01-s02", "p02-s01")


def publish(storage: Storage, *sessions: str, track: str = "main") -> None:
    for session in sessions:
        with FeatureWriter(storage, session, FEATURES["frames"], track=track) as out:
            out.write("time", np.arange(40) / 15)
            out.publish("f" * 64, {"inputs": {}})
    catalogue.compact(storage)


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """The demo study and its store: ``study`` and ``features``."""
    shutil.copytree("demo/study", tmp_path / "study")
    publish(create_store(tmp_path / "features"), *SESSIONS)
    remember_study(local(tmp_path / "features"), load_study(tmp_path / "study"))
    return tmp_path


def forget(lab: Path, *arguments: object) -> Result:
    return CliRunner().invoke(app, ["forget", *map(str, (lab / "study", lab / "features", *arguments))])


def take_out(lab: Path, name: str) -> None:
    """Take the rows with this name out of the tables, and let the store read them again."""
    for path in (lab / "study").glob("*.csv"):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if name not in line))
    remember_study(local(lab / "features"), load_study(lab / "study"))


def another_study(root: Path, store: Path) -> None:
    """A study of other recordings whose sessions have the same ids, and its store."""
    shutil.copytree("demo/study", root)
    for session in SESSIONS:
        (root / f"videos/{session}.avi").write_bytes(f"another recording of {session}".encode())
    publish(create_store(store), *SESSIONS)
    remember_study(local(store), load_study(root))


@pytest.mark.slow
def test_stores_of_another_study_keep_their_sessions_of_the_same_ids(lab: Path) -> None:
    below = lab / "features/archives/theirs"
    another_study(lab / "other", below)
    named = Path(shutil.copytree(below, lab / "theirs"))
    refused = forget(lab, named, "p02-s01")
    assert refused.exit_code == 2
    assert str(named) in refused.stderr
    assert not (lab / "study/forgotten.json").exists()
    done = json.loads(forget(lab, "p02-s01", "--json").stdout)
    assert [line for line in done["unreachable"] if str(below) in line]
    assert FeatureStore(below).sessions == [*SESSIONS]
    assert not read_forgotten(local(below))
    assert FeatureStore(lab / "features").sessions == ["p01-s01", "p01-s02"]


@pytest.mark.parametrize("linked", ["p02-s01", "p02-s01/frames"])
def test_a_link_in_place_of_a_folder_is_named_and_not_followed(lab: Path, linked: str) -> None:
    elsewhere = lab / "elsewhere"
    (lab / "features" / linked).rename(elsewhere)
    (lab / "features" / linked).symlink_to(elsewhere)
    (elsewhere / "thesis.txt").write_text("the owner's")
    before = sorted(elsewhere.rglob("*"))
    refused = forget(lab, "p02-s01")
    assert refused.exit_code == 2
    assert str(lab / "features" / linked) in refused.stderr
    assert sorted(elsewhere.rglob("*")) == before


def test_a_folder_that_cannot_be_removed_is_no_success(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("os.rmdir", refuse)
        refused = forget(lab, "p02-s01")
    assert refused.exit_code != 0
    assert "p02-s01" in refused.stderr
    assert forget(lab).exit_code == 0
    assert not (lab / "features/p02-s01").exists()


def test_ids_that_begin_alike_are_others(lab: Path) -> None:
    publish(local(lab / "features"), "p02-s010", "p02-s01.b", "p02")
    assert forget(lab, "p02-s01").exit_code == 0
    left = ["p01-s01", "p01-s02", "p02", "p02-s01.b", "p02-s010"]
    assert FeatureStore(lab / "features").sessions == left
    assert [(lab / "features" / session / "frames/current.json").is_file() for session in left] == [True] * 5


def test_a_role_s_id_is_nobody_s(lab: Path) -> None:
    pd.DataFrame(
        [("p02-s01", "speaker", "p02"), ("p01-s02", "speaker", None), ("p01-s02", "p01", "p01")],
        columns=["session_id", "person_id", "participant_id"],
    ).to_csv(lab / "study/persons.csv", index=False)
    done = forget(lab, "--participant", "p02", "--tables")
    assert done.exit_code == 0, done.stderr
    left = pd.read_csv(lab / "study/persons.csv")
    assert [*zip(left["session_id"], left["person_id"], strict=True)] == [("p01-s02", "speaker"), ("p01-s02", "p01")]
    assert "speaker" not in (lab / "study/forgotten.json").read_text()


def test_who_is_in_a_session_must_be_readable(lab: Path) -> None:
    """A row that is not valid may name somebody else of the session."""
    (lab / "study/persons.csv").write_text(
        "session_id,person_id,participant_id,role\np02-s01,p02,p02,speaker\np02-s01,p01,p 01!,listener\n"
    )
    refused = forget(lab, "--participant", "p02")
    assert refused.exit_code == 2
    assert "persons, row 3" in refused.stderr
    assert FeatureStore(lab / "features").sessions == [*SESSIONS]


def test_recordings_without_a_row_are_named(lab: Path) -> None:
    """Whoever removes the rows first still learns of the files."""
    take_out(lab, "p02")
    done = json.loads(forget(lab, "p02-s01", "--json").stdout)
    assert str(lab / "study/videos/p02-s01.avi") in done["files"]
    assert not [path for path in done["files"] if "p01" in path]


def test_a_participant_without_a_row_is_forgotten_by_what_the_store_knows(lab: Path) -> None:
    """The study of today has neither the participant nor the session."""
    take_out(lab, "p02")
    done = forget(lab, "--participant", "p02")
    assert done.exit_code == 0, done.stderr
    assert FeatureStore(lab / "features").sessions == ["p01-s01", "p01-s02"]
    assert b"p02" not in (lab / "features/study.json").read_bytes()
    assert forget(lab, "--participant", "p02").exit_code == 0


def test_a_session_without_a_row_is_its_participant_s(lab: Path) -> None:
    take_out(lab, "p01-s02")
    assert forget(lab, "--participant", "p01").exit_code == 0
    assert FeatureStore(lab / "features").sessions == ["p02-s01"]


def test_sessions_of_which_no_participant_is_known_are_named(lab: Path) -> None:
    """Records of before 2026-11-26 list who left without saying whose sessions were whose."""
    take_out(lab, "p02")
    record = unseal((lab / "features/study.json").read_bytes(), "") or {}
    del record["left_participants"]
    (lab / "features/study.json").write_bytes(seal(record))
    refused = forget(lab, "--participant", "p02")
    assert refused.exit_code == 2
    assert "p02-s01" in refused.stderr
    assert forget(lab, "--participant", "p02-s01").exit_code == 2  # a session's id
    other = json.loads(forget(lab, "--participant", "p01", "--dry-run", "--json").stdout)
    assert [line for line in other["remarks"] if line.startswith("p02-s01")]
    assert forget(lab, "p02-s01", "--participant", "p02").exit_code == 0
    assert FeatureStore(lab / "features").sessions == ["p01-s01", "p01-s02"]
    assert json.loads((lab / "study/forgotten.json").read_text())["people"] == ["p02"]


def test_where_they_were_given_is_said_by_the_call_that_finishes(lab: Path) -> None:
    note_given(local(lab / "features"), "release", "given-2026", ["p01-s01", "p02-s01"])
    for _ in range(2):
        said = json.loads(forget(lab, "p02-s01", "--json").stdout)["unreachable"]
        assert [line for line in said if "given-2026" in line]


def test_a_damaged_list_of_releases_is_said(lab: Path) -> None:
    (lab / "features/given.json").write_text("{")
    said = json.loads(forget(lab, "p02-s01", "--json").stdout)["unreachable"]
    assert [line for line in said if "given.json" in line]


def test_the_scripts_of_a_report_name_nobody(lab: Path) -> None:
    publish(local(lab / "features"), "e1")
    for name, text in ((".storyframes-report", ""), ("index.html", "e1"), ("assets/report.js", "let e1 = 2")):
        (lab / "site/assets").mkdir(parents=True, exist_ok=True)
        (lab / "site" / name).write_text(text)
    assert forget(lab, "e1", "--also", lab / "site").exit_code == 0
    assert not (lab / "site/index.html").exists()
    assert (lab / "site/assets/report.js").is_file()


def test_a_url_of_no_store_is_refused(lab: Path) -> None:
    refused = forget(lab, "memory://", "p02-s01")
    assert refused.exit_code == 2
    assert "memory://" in refused.stderr
    assert not (lab / "study/forgotten.json").exists()


def test_objects_of_an_object_store_go_and_earlier_versions_are_named(lab: Path) -> None:
    storage = TurnsInMemory()
    storage.replace("zarr.json", (lab / "features/zarr.json").read_bytes())
    publish(storage, "p02-s010", *SESSIONS)
    publish(storage, "p01-s01", track="cam-b")
    remember_study(storage, load_study(lab / "study"))
    scope = Scope(ForgottenIds(frozenset({"p02-s01"}), frozenset({"p02"}), frozenset({("p01-s01", "cam-b")})))
    others = {path for path in storage.files() if path.startswith(("p01-s01/", "p01-s02/", "p02-s010/"))}
    done = forget_in(lab / "study", [storage], scope)
    assert [line for line in done.unreachable if storage.location in line]
    left = {path for path in storage.files() if "/" in path}
    assert left == {path for path in others if not path.startswith("p01-s01/frames@cam-b/")}
    assert b'"p02-s01"' not in (storage.read("study.json") or b"")
    rows = parse_table(storage.read("catalogue.parquet") or b"", "catalogue.parquet", ["session_id", "feature"])
    assert sorted(rows["session_id"].to_pylist()) == ["p01-s01", "p01-s02", "p02-s010"]
    assert read_forgotten(storage).has_track("p01-s01", "cam-b")
