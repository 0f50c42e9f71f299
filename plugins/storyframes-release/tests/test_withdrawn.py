"""People who left the study are in no release, and in an export only where their session is asked for by name."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from support.stores import local, publish_openface
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import FeatureStore
from storyframes.features import FEATURES
from storyframes.spec import feature_and_track
from storyframes.store import StoreError, catalogue
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.records import seal, unseal
from storyframes.store.study import Forgotten
from storyframes_release.export.clips import _of_study, export_clips
from storyframes_release.export.formats import Format
from storyframes_release.export.run import export
from storyframes_release.release.settings import ReleaseError
from storyframes_release.study_sessions import study_sessions
from tasks.study.forgotten_ids import ForgottenIds

RELEASE = """
title = "Faces"
description = "Faces of people."
license = "CC-BY-4.0"
version = "1.0"
authors = ["The authors"]

[features]
openface = ["action_units"]
"""
SESSIONS = ("p01-s01", "p01-s02", "p02-s01")


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the demo study and an indexed store of random faces: ``study`` and ``features``."""
    folder = tmp_path_factory.mktemp("indexed")
    shutil.copytree("demo/study", folder / "study")
    create_store(folder / "features")
    for seed, session in enumerate(SESSIONS):
        publish_openface(folder / "features", session, 400, seed=seed)
    assert run("index", folder / "study", folder / "features").exit_code == 0
    return folder


@pytest.fixture
def lab(indexed: Path, tmp_path: Path) -> Path:
    shutil.copytree(indexed, tmp_path / "lab")
    (tmp_path / "release.toml").write_text(RELEASE)
    return tmp_path / "lab"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def take_out(study: Path, *sessions: str) -> None:
    """Remove every row of these sessions, and of people who have no other, from the study's tables."""
    gone = {session.partition("-")[0] for session in sessions}
    kept = {session.partition("-")[0] for session in SESSIONS if session not in sessions}
    for path in study.glob("*.csv"):
        with path.open(newline="") as file:
            head, *rows = csv.reader(file)
        column = next((head.index(name) for name in ("session_id", "participant_id") if name in head), None)
        if column is not None:
            rows = [row for row in rows if row[column] not in {*sessions, *(gone - kept)}]
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([head, *rows])


def release(lab: Path, *options: object, name: str = "given") -> Result:
    return run("release", lab / "features", "--out", lab / name, "--config", lab.parent / "release.toml", *options)


def released(lab: Path, name: str = "given") -> list[str]:
    """The sessions of a release, by their names in the study."""
    old = {new: old for old, new in json.loads((lab / f"{name}.key.json").read_text())["names"]["sessions"].items()}
    return sorted(old[session] for session in FeatureStore(lab / name / "features").sessions)


def test_who_is_no_longer_in_the_tables_is_in_no_release(lab: Path) -> None:
    take_out(lab / "study", "p02-s01")
    done = release(lab, "--study", lab / "study")
    assert done.exit_code == 0, done.stderr
    assert released(lab) == ["p01-s01", "p01-s02"]
    assert "p02-s01" in done.stderr
    assert "p02" not in json.loads((lab / "given.key.json").read_text())["names"]["participants"]
    index = pq.read_table(lab / "given/features/clips.parquet", columns=["session_id"])
    assert len(set(index["session_id"].to_pylist())) == 2


def test_two_of_three_sessions_withdraw(lab: Path) -> None:
    take_out(lab / "study", "p01-s01", "p01-s02")
    assert release(lab, "--study", lab / "study").exit_code == 0
    assert released(lab) == ["p02-s01"]


def test_without_the_study_sessions_are_those_of_the_dated_record(lab: Path) -> None:
    take_out(lab / "study", "p02-s01")
    assert run("index", lab / "study", lab / "features").exit_code == 0
    done = release(lab)
    assert done.exit_code == 0, done.stderr
    assert released(lab) == ["p01-s01", "p01-s02"]
    assert json.loads((lab / "features/study.json").read_text())["read_at"][:10] in done.stdout


@pytest.mark.slow
def test_a_record_that_is_older_than_the_catalogue_says_nothing(lab: Path) -> None:
    publish_openface(lab / "features", "p01-s01", 401, fingerprint="a" * 64)
    catalogue.compact(local(lab / "features"))
    done = release(lab)
    assert done.exit_code == 2
    assert "study.json" in done.stderr
    assert "--study" in done.stderr
    assert run("export", lab / "features", "--out", lab / "exported").exit_code == 2
    assert release(lab, "--study", lab / "study").exit_code == 0
    assert run("index", lab / "study", lab / "features").exit_code == 0
    assert release(lab, name="again").exit_code == 0


def test_a_record_without_a_date_says_nothing(lab: Path) -> None:
    path = lab / "features/study.json"
    record = unseal(path.read_bytes(), "") or {}
    path.write_bytes(seal({key: record[key] for key in ("sessions", "people", "raters")}))
    assert release(lab).exit_code == 2
    path.unlink()
    assert release(lab).exit_code == 2
    assert not (lab / "given").exists()


@pytest.mark.slow
def test_an_archive_has_a_record_as_old_as_its_store_s(lab: Path) -> None:
    assert run("archive", lab / "features", "--out", lab / "archive").exit_code == 0
    arguments = ("--out", lab / "given", "--config", lab.parent / "release.toml")
    assert run("release", lab / "archive", *arguments).exit_code == 0
    publish_openface(lab / "features", "p01-s01", 401, fingerprint="a" * 64)
    catalogue.compact(local(lab / "features"))
    assert run("archive", lab / "features", "--out", lab / "archive").exit_code == 0
    assert run("release", lab / "archive", "--out", lab / "later", *arguments[2:]).exit_code == 2


@pytest.mark.slow
def test_an_old_release_is_compared_with_the_study(lab: Path) -> None:
    assert release(lab).exit_code == 0
    assert run("release", "verify", lab / "given", "--study", lab / "study").exit_code == 0
    take_out(lab / "study", "p02-s01")
    found = run("release", "verify", lab / "given", "--study", lab / "study", "--json")
    assert found.exit_code == 1
    (problem,) = json.loads(found.stdout)["problems"]
    assert "p02-s01" in problem
    assert json.loads((lab / "given.key.json").read_text())["names"]["sessions"]["p02-s01"] in problem
    assert run("release", "verify", lab / "given").exit_code == 0
    (lab / "given.key.json").rename(lab / "elsewhere.json")
    assert run("release", "verify", lab / "given", "--study", lab / "study").exit_code == 2
    options = ("--study", lab / "study", "--key", lab / "elsewhere.json")
    assert run("release", "verify", lab / "given", *options).exit_code == 1


@pytest.mark.parametrize("who", ["p02", "p02-s01", "P02_s01"])
def test_ids_of_people_who_left_are_in_no_text(lab: Path, who: str) -> None:
    take_out(lab / "study", "p02-s01")
    (lab.parent / "release.toml").write_text(RELEASE.replace('"Faces"', f'"Faces of {who}"'))
    assert release(lab, "--study", lab / "study").exit_code == 2
    assert run("index", lab / "study", lab / "features").exit_code == 0
    shutil.rmtree(lab / "features/p02-s01")
    assert run("index", lab / "study", lab / "features").exit_code == 0
    refused = release(lab)
    assert refused.exit_code == 2
    assert "which is an id of the study and is not released" in refused.stderr
    assert "p02" in json.loads((lab / "features/study.json").read_text())["left"]


@pytest.mark.slow
def test_ids_of_the_forgotten_are_in_no_text_though_nobody_can_read_them(lab: Path) -> None:
    forgotten = Forgotten().with_ids(["p02-s01", "ophelia"], ["greta.1"])
    (lab / "features/forgotten.json").write_bytes(forgotten.to_json())
    assert not any(name in (lab / "features/forgotten.json").read_text() for name in ("p02", "ophelia", "greta"))
    for who in ("Ophelia", "Greta 1"):
        (lab.parent / "release.toml").write_text(RELEASE.replace('"Faces"', f'"Faces of {who}!"'))
        refused = release(lab)
        assert refused.exit_code == 2
        assert "is not released" in refused.stderr
    (lab.parent / "release.toml").write_text(RELEASE)
    assert release(lab).exit_code == 0
    assert released(lab) == ["p01-s01", "p01-s02"]


@pytest.mark.parametrize("to", [*Format])
def test_who_left_is_in_no_export(lab: Path, to: Format) -> None:
    take_out(lab / "study", "p02-s01")
    store = FeatureStore(lab / "features")
    known = study_sessions(store, lab / "study")
    done = export(store, lab / "out", to, known=known)
    assert sorted({table["session_id"] for table in done.tables}) == ["p01-s01", "p01-s02"]
    assert not any("p02" in path.as_posix() for path in (lab / "out").rglob("*"))
    assert "p02-s01" not in json.dumps(done.tables)


@pytest.mark.parametrize("to", ["datasets", "webdataset"])
def test_who_left_is_in_no_export_of_clips(lab: Path, to: str) -> None:
    take_out(lab / "study", "p02-s01")
    store = FeatureStore(lab / "features")
    clips = store.clips()["session_id"].value_counts()
    if not clips.get("p02-s01"):
        pytest.fail("the index has no clips of the session that leaves")
    known = study_sessions(store, lab / "study")
    done = export_clips(store, lab / "out", to, features=["openface"], where="start_s >= 0", known=known)
    assert sum(done.splits.values()) == clips.drop("p02-s01").sum()
    assert list(done.features["openface"]["versions"]) == ["p01-s01", "p01-s02"]


def test_a_session_that_left_is_exported_by_name_with_a_caveat(lab: Path) -> None:
    take_out(lab / "study", "p02-s01")
    options = ("--study", lab / "study", "--session", "p02-s01")
    done = run("export", lab / "features", "--out", lab / "out", *options)
    assert done.exit_code == 0, done.stderr
    caveat = "The study does not have p02-s01"
    assert caveat in done.stderr
    assert caveat in (lab / "out/README.md").read_text()


def test_a_forgotten_session_is_never_exported(lab: Path) -> None:
    (lab / "features/forgotten.json").write_bytes(Forgotten().with_ids(["p02-s01"], []).to_json())
    store = FeatureStore(lab / "features")
    with pytest.raises(StoreError, match="p02-s01: was forgotten"):
        export(store, lab / "out", "parquet", sessions=["p02-s01"])
    assert {table["session_id"] for table in export(store, lab / "out", "parquet").tables} == {"p01-s01", "p01-s02"}


def test_a_release_needs_to_know_a_study_and_an_export_says_that_it_does_not(lab: Path) -> None:
    (lab / "features/study.json").unlink()
    store = FeatureStore(lab / "features")
    with pytest.raises(ReleaseError, match="--study"):
        study_sessions(store, None).require()
    assert len(export(store, lab / "out", "parquet").people) == 1
    assert "no record of a study" in (lab / "out/README.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("is_forgotten", [True, False])
def test_a_track_that_is_gone_is_in_no_export(lab: Path, is_forgotten: bool) -> None:
    """The study has the list of the forgotten and the store of a backup no digests of it, or its rows were removed."""
    for session in ("p01-s01", "p01-s02"):
        with FeatureWriter(local(lab / "features"), session, FEATURES["openface"], track="cam-b") as out:
            out.write("values", np.zeros((400, 714), np.float32))
            out.write("valid", np.ones(400, np.uint8))
            out.write("confidence", np.full(400, 0.98, np.float32))
            out.publish("f" * 64, {"inputs": {}})
    catalogue.compact(local(lab / "features"))
    store = FeatureStore(lab / "features")
    (lab / "study/tracks.csv").write_text("session_id,track,video\np01-s02,cam-b,videos/p01-s02.avi\n")
    if is_forgotten:
        ForgottenIds(tracks=frozenset({("p01-s01", "cam-b")})).write(lab / "study")
    known = study_sessions(store, lab / "study")
    done = export(store, lab / "out", "parquet", known=known)
    tables = {(table["session_id"], feature_and_track(table["feature"])[1]) for table in done.tables}
    assert tables == {(session, "main") for session in SESSIONS} | {("p01-s02", "cam-b")}
    sessions = pa.table({"session_id": [*SESSIONS]})
    chosen = _of_study(store, known, None, ["openface@cam-b"])
    assert sessions.filter(chosen)["session_id"].to_pylist() == ["p01-s02", "p02-s01"]
    assert _of_study(store, known, None, ["openface"]) is None
