"""Recordings outside the study: ``[recording] root`` names the one folder that the tables may point into."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.messages import naming
from support.studies import extract_session, make_study
from typer.testing import CliRunner

from flows.cli.app import app
from flows.settings import load_settings
from storyframes.features import FEATURES
from storyframes.store.layout import INPUTS, create_store
from storyframes.store.publish import FeatureWriter
from tasks.clip_index.shared_recordings import find_shared_recordings
from tasks.forgetting.in_store import inputs_of
from tasks.forgetting.owner import remaining
from tasks.forgetting.scope import Scope
from tasks.inspect.study_check import check_study
from tasks.models.digests import DigestCache
from tasks.study.first_tables.recording_names import FilesError
from tasks.study.first_tables.sessions_from_data_set import make_study_of
from tasks.study.forgotten_ids import ForgottenIds
from tasks.study.load import Study, StudyFileError, load_study

VIDEO = "videos/p01-s01.avi"


def place_elsewhere(study: Path, root: Path) -> Path:
    """Move the videos below ``root``, as DataLad keeps them: links into ``.git/annex`` beside them."""
    annex = root / ".git/annex/objects"
    annex.mkdir(parents=True)
    (root / "videos").mkdir()
    for video in sorted((study / "videos").iterdir()):
        video.rename(annex / f"MD5E-{video.name}")
        (root / "videos" / video.name).symlink_to(f"../.git/annex/objects/MD5E-{video.name}")
    (study / "videos").rmdir()
    (study / "storyframes.toml").write_text(f"[recording]\nroot = {json.dumps(str(root))}\n")
    return root


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_features_stay_current_when_recordings_move_below_the_root(study_copy: Path, tmp_path: Path) -> None:
    store, before = extract_session(study_copy, tmp_path / "store", "frames", session_id="p01-s01")
    root = place_elsewhere(study_copy, tmp_path / "another disk")
    _, after = extract_session(study_copy, tmp_path / "store", "frames", session_id="p01-s01")
    assert after["frames"].skipped
    assert after["frames"].version == before["frames"].version
    fresh, outcomes = extract_session(study_copy, tmp_path / "fresh", "frames", session_id="p01-s01")
    assert outcomes["frames"].status == "done"
    assert fresh.catalogue["fingerprint"].tolist() == store.catalogue["fingerprint"].tolist()
    assert str(root).encode() not in contents(tmp_path / "fresh") + contents(tmp_path / "store")


def test_a_damaged_recording_below_the_root_is_named_without_the_root(study_copy: Path, tmp_path: Path) -> None:
    root = place_elsewhere(study_copy, tmp_path / "another disk")
    (root / VIDEO).resolve().write_bytes(b"no video")
    _, outcomes = extract_session(study_copy, tmp_path / "store", "frames", session_id="p01-s01")
    assert outcomes["frames"].status == "failed"
    assert "p01-s01.avi" in outcomes["frames"].reason
    assert "another disk" not in outcomes["frames"].reason
    assert b"another disk" not in contents(tmp_path / "store")


def test_the_configuration_of_a_command_comes_before_that_of_the_study(study_copy: Path, tmp_path: Path) -> None:
    root = place_elsewhere(study_copy, tmp_path / "disk")
    config = tmp_path / "other/config.toml"
    config.parent.mkdir()
    config.write_text('[recording]\nroot = "../disk"\n')
    (study_copy / "storyframes.toml").write_text('[recording]\nroot = "nothing"\n')
    settings = load_settings(config)
    assert load_study(study_copy, recordings=settings.recording.root).path(VIDEO).samefile(root / VIDEO)
    assert "disk" not in settings.model_dump_json() + repr(settings)


def test_a_root_that_is_not_mounted_refuses_the_run(study_copy: Path, tmp_path: Path) -> None:
    root = place_elsewhere(study_copy, tmp_path / "disk")
    root.rename(tmp_path / "unplugged")
    ended = CliRunner().invoke(app, ["extract", str(study_copy), str(tmp_path / "store"), "--features", "frames"])
    assert ended.exit_code == 2
    assert "[recording] root" in ended.output
    assert "mount it" in ended.output
    assert not (tmp_path / "store").exists()
    (problem, *_) = check_study(study_copy, load_settings(None))[1]
    assert (problem.table, problem.is_of_file, "mount it" in problem.rule) == ("study", True, True)
    with pytest.raises(StudyFileError, match=naming(VIDEO, "[recording] root", "mount it")):
        load_study(study_copy).path(VIDEO)


def test_content_that_was_not_fetched_and_links_out_of_the_root_are_refused(study_copy: Path, tmp_path: Path) -> None:
    root = place_elsewhere(study_copy, tmp_path / "disk")
    (root / VIDEO).resolve().unlink()
    (tmp_path / "secret.avi").write_bytes(b"x")
    (root / "videos/out.avi").symlink_to(tmp_path / "secret.avi")
    study = load_study(study_copy)
    with pytest.raises(StudyFileError, match=naming(VIDEO, "datalad get")):
        study.path(VIDEO)
    with pytest.raises(StudyFileError, match=naming("videos/out.avi", "leaves the study folder")):
        study.path("videos/out.avi")


def test_a_link_in_the_study_may_lead_below_the_root(study_copy: Path, tmp_path: Path) -> None:
    root = place_elsewhere(study_copy, tmp_path / "disk")
    (study_copy / "own.avi").symlink_to(root / VIDEO)
    assert load_study(study_copy).path("own.avi") == study_copy / "own.avi"


def test_recordings_of_the_forgotten_below_the_root_are_named(study_copy: Path, tmp_path: Path) -> None:
    root = place_elsewhere(study_copy, tmp_path / "disk")
    files = remaining(study_copy, Scope(ForgottenIds(sessions=frozenset({"p01-s01"})))).files
    assert files[root / VIDEO] == VIDEO


def test_a_recording_of_several_files_below_the_root(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", video="media/a.avi+b.avi")
    (tmp_path / "disk/media").mkdir(parents=True)
    (study / "storyframes.toml").write_text('[recording]\nroot = "../disk"\n')
    (tmp_path / "disk/media/a.avi").write_bytes(b"a")
    with pytest.raises(StudyFileError, match="media/b.avi"):
        load_study(study).path("media/a.avi+b.avi")
    (tmp_path / "disk/media/b.avi").write_bytes(b"b")
    assert load_study(study).path("media/a.avi+b.avi").parent.samefile(tmp_path / "disk/media")


PARTS = ["", ".", "..", "a", "b", "f", "up", "in", "root", "out", "study", "x" * 300, "\0", "/"]


@pytest.fixture(scope="module")
def linked_study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study and a root whose links lead to each other, to themselves and outside."""
    folder = tmp_path_factory.mktemp("linked")
    for path in ("study/a", "study/b", "root/a/b", "out/a"):
        (folder / path).mkdir(parents=True)
        (folder / path / "f").write_text(path)
        for name, target in {"up": folder, "in": folder / "root", "out": folder / "out", "root": "root"}.items():
            os.symlink(target, folder / path / name)
    shutil.copytree(folder / "out", folder / "study2", symlinks=True)
    return Study(folder / "study", {}, recordings=folder / "root")


@given(parts=st.lists(st.sampled_from(PARTS), min_size=1, max_size=6), separator=st.sampled_from(["/", "//", "+"]))
def test_no_path_leaves_the_study_and_the_root(linked_study: Study, parts: list[str], separator: str) -> None:
    relative = separator.join(parts)
    try:
        path = linked_study.path(relative)
    except StudyFileError:
        return
    assert any(path.resolve().is_relative_to(folder) for folder in linked_study.folders), relative


def test_the_property_above_reaches_both_folders(linked_study: Study) -> None:
    assert linked_study.path("a/f").read_text() == "study/a"
    assert linked_study.path("a/b/f").read_text() == "root/a/b"
    assert linked_study.path("a/in/a/b/f").read_text() == "root/a/b"
    for outside in (
        "a/up/out/a/f",
        "a/out/a/f",
        "../out/a/f",
        "a/b/out/a/f",
        str(linked_study.root.parent / "out/a/f"),
    ):
        with pytest.raises(StudyFileError):
            linked_study.path(outside)


@pytest.mark.parametrize("root", ["../another disk", "another disk", "links/to another disk"])
def test_a_store_remembers_digests_by_names_without_the_root(study_copy: Path, tmp_path: Path, root: str) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links/to another disk").symlink_to(tmp_path / "real")
    where = {"links/to another disk": tmp_path / "real"}.get(root, study_copy / root)
    place_elsewhere(study_copy, where)
    written = root if where != tmp_path / "real" else str(tmp_path / root)
    (study_copy / "storyframes.toml").write_text(f"[recording]\nroot = {json.dumps(written)}\n")
    for video in where.rglob("*.avi"):
        os.utime(video, (1, 1))  # an older file's digest is remembered
    storage = create_store(tmp_path / "store")
    extract_session(study_copy, tmp_path / "store", "frames", session_id="p01-s01")
    inputs = storage.read("inputs.json") or b""
    assert f'"./{VIDEO}"'.encode() in inputs
    assert b"another disk" not in inputs


def test_files_of_one_name_in_the_study_and_below_the_root_have_their_own_digests(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", video="a.avi+b.avi")
    (study / "data").mkdir()
    digests = DigestCache(create_store(tmp_path / "store"), INPUTS, study, study / "data")
    for folder in (study, study / "data"):
        for name in ("a.avi", "b.avi"):
            (folder / name).write_bytes(folder.name.encode()[:4])
            os.utime(folder / name, (1, 1))
    assert digests.sha256(study / "a.avi") != digests.sha256(study / "data/a.avi")


def test_a_recording_that_is_gone_from_the_root_is_known_by_its_digest(tmp_path: Path) -> None:
    study, root = tmp_path / "study", tmp_path / "disk"
    study.mkdir()
    root.mkdir()
    (study / "sessions.csv").write_text("session_id,participant_id,video\ns,p,a.avi\nt,q,b.avi\n")
    digests = DigestCache(create_store(tmp_path / "store"), INPUTS, study, root)
    for name in ("a.avi", "b.avi"):
        (root / name).write_bytes(b"of both")
        os.utime(root / name, (1, 1))
        digests.sha256(root / name)
    (root / "a.avi").unlink()
    (shared,) = find_shared_recordings(load_study(study, recordings=root), lambda: digests)
    assert [*shared.sessions] == ["s", "t"]


def test_digests_of_parts_below_the_root_are_those_of_the_forgotten(tmp_path: Path) -> None:
    study, root, storage = tmp_path / "study", tmp_path / "disk", create_store(tmp_path / "store")
    digests = DigestCache(storage, INPUTS, study, root)
    root.mkdir()
    for name in ("a.avi", "b.avi"):
        (root / name).write_bytes(name.encode())
        os.utime(root / name, (1, 1))
    parts = {digests.sha256(root / name) for name in ("a.avi", "b.avi")}
    digests.save()
    with FeatureWriter(storage, "s", FEATURES["frames"]) as out:
        out.write("time", np.arange(3.0))
        out.publish("f" * 64, {"inputs": {"video": {"path": "a.avi+b.avi", "sha256": "e" * 64}}})
    assert inputs_of(storage, Scope(ForgottenIds(sessions=frozenset({"s"})))) == {"s": {"e" * 64, *parts}}


@pytest.mark.parametrize("name", ["a 𝄞", "a \x7f"])
def test_a_data_set_of_any_name_is_found_again(demo_study: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(demo_study / "videos", tmp_path / name / "videos")
    (tmp_path / "study").mkdir()
    rows = {"sessions": [{"session_id": "s", "participant_id": "p", "video": VIDEO}]}
    make_study_of(tmp_path / "study", tmp_path / name, lambda _, opened: (rows, {str(opened([])): "why"}, []))
    assert load_settings(tmp_path / "study/storyframes.toml").recording.root == tmp_path / name


def test_a_data_set_whose_path_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    data = tmp_path / os.fsdecode(b"\xff")
    data.mkdir()
    with pytest.raises(FilesError, match="UTF-8"):
        make_study_of(tmp_path, data, lambda *_: ({"sessions": [{}]}, {}, []))
    assert not (tmp_path / "storyframes.toml").exists()


def test_a_study_of_a_data_set_points_into_it(demo_study: Path, tmp_path: Path) -> None:
    rows = {"sessions": [{"session_id": "s", "participant_id": "p", "video": VIDEO}]}
    (tmp_path / "study").mkdir()
    made = make_study_of(tmp_path / "study", demo_study, lambda _, opened: (rows, {str(opened([])): "why"}, ["look"]))
    assert (made.sessions, made.remarks, len(made.set_aside)) == (1, ("look",), 1)
    study = load_study(tmp_path / "study", recordings=load_settings(tmp_path / "study/storyframes.toml").recording.root)
    assert study.path(VIDEO).samefile(demo_study / VIDEO)
    (tmp_path / "empty").mkdir()
    with pytest.raises(FilesError, match="a.mp4: broken"):
        make_study_of(tmp_path / "empty", demo_study, lambda *_: ({}, {"a.mp4": "broken"}, []))
    assert not [*(tmp_path / "empty").iterdir()]


def test_the_plug_in_that_reads_bids_is_named_where_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("storyframes.plug_ins.DATA_SETS", "storyframes.none")
    ended = CliRunner().invoke(app, ["init", str(tmp_path / "study"), "--bids", str(tmp_path)])
    assert (ended.exit_code, "storyframes-labels" in ended.output) == (2, True)
    ended = CliRunner().invoke(app, ["init", str(tmp_path / "study"), "--bids", str(tmp_path), "--videos", "v/*"])
    assert (ended.exit_code, "no other option" in ended.output) == (2, True)
