"""``verify`` after something is gone: the catalogue, the clip index or the study names it; what never published is not
sound."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.messages import missing
from support.object_stores import publish as publish_far
from support.stores import local, publish_openface
from support.synthetic_features import StudySpec, write_features
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes.features import FEATURES
from storyframes.store import catalogue
from storyframes.store.layout import STUDY, create_store
from storyframes.store.maintenance.garbage import collect
from storyframes.store.maintenance.verification import verify as find
from storyframes.store.publish import FeatureWriter, record_attempt
from storyframes.store.records import Status, seal


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lacking = dict.fromkeys(("s00", "s01"), ("resnet50", "dope", "opensmile", "glove", "sbert"))
    root = write_features(tmp_path_factory.mktemp("made") / "store", StudySpec(2, 30, lacking=lacking)).root
    (root / STUDY).write_bytes(seal({"sessions": {"s00": {}, "s01": {}}}))
    return root


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "store", copy_function=shutil.copy2))


def verify(store: Path | str, *options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["verify", str(store), *options], env={"COLUMNS": "300"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code, " ".join(result.output.partition("Next:")[0].replace("│", " ").split())


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


GONE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a session": (lambda s: remove(s / "s01"), "s01 the session is gone, and with it frames, openface"),
    "a feature": (lambda s: remove(s / "s01/frames"), "s01 frames current.json is gone: the catalogue has the version"),
    "a record": (lambda s: remove(s / "s01/frames/current.json"), "s01 frames current.json is gone: the catalogue has"),
    "the stories": (lambda s: remove(s / "stories"), "stories the session is gone, and with it sbert"),
    "a session, and gc forgot it": (
        lambda s: (remove(s / "s01"), list(collect(local(s), 0))), "the session is gone, and with it frames, openface",
    ),
    "a session and the catalogue": (
        lambda s: [remove(s / name) for name in ("s01", "catalogue.parquet")],
        "the session is gone, and with it frames, openface",
    ),
}  # fmt: skip


@pytest.mark.parametrize("gone", GONE)
def test_what_is_gone_is_named_and_the_exit_code_is_1(store: Path, gone: str) -> None:
    assert verify(store) == (0, "sound 5 features: every file is as it was published")
    lose, named = GONE[gone]
    lose(store)
    code, said = verify(store)
    assert (code, "sound 4" in said) == (1, False)
    assert named in said, said
    assert "comes back from a backup" in said


def test_without_any_table_a_store_that_lacks_sessions_of_its_study_is_not_called_sound(store: Path) -> None:
    for name in ("s01", "catalogue.parquet", "clips.parquet", "checksums.json"):
        remove(store / name)
    code, said = verify(store)
    assert (code, "sound 3" in said) == (1, False)
    assert not missing(said, "s01", "of the study's sessions nothing")
    assert not missing(said, "3 features as published", "but whether others are lost")
    assert not list(find(local(store)))  # a first run that was killed leaves the same


def test_of_a_session_that_is_gone_verify_says_so_when_asked_for_it_alone(store: Path) -> None:
    remove(store / "s01")
    assert verify(store, "--session", "s00") == (0, "sound 2 features: every file is as it was published")
    code, said = verify(store, "--session", "s01")
    assert code == 1
    assert not missing(said, "the session is gone", "frames, openface")
    assert verify(store, "--session", "s07")[0] == 2


@pytest.mark.slow
def test_a_store_is_no_more_sound_whatever_of_it_is_gone(store: Path, tmp_path: Path) -> None:
    """After a restore ``verify`` is the proof: of every file and folder, one after the other, it misses that one."""
    assert not list(find(local(store)))
    paths = [path for path in sorted(store.rglob("*")) if not path.name.endswith(".lock") and path.name != STUDY]
    assert len(paths) > 50
    for path in paths:
        path.rename(tmp_path / "gone")
        assert list(find(local(store))), f"{path} is not missed"
        (tmp_path / "gone").rename(path)
    assert not list(find(local(store)))


def test_what_was_removed_on_purpose_is_forgotten_by_index(store: Path) -> None:
    remove(store / "s01")
    (store / "clips.parquet").unlink()
    checksums = store / "checksums.json"
    checksums.unlink()
    catalogue.compact(local(store))
    code, said = verify(store)
    assert (code, "sound 3 features: every file is as it was published" in said) == (0, True)
    assert not missing(said, "s01", "of the study's sessions nothing")


def test_a_catalogue_that_names_a_version_which_is_gone_is_no_sound_one(store: Path) -> None:
    (before,) = (path.parent for path in store.glob("s00/openface/*/zarr.json"))
    publish_openface(store, "s00", 30)
    assert verify(store)[0] == 0  # the older one is still there, for readers
    remove(before)
    code, said = verify(store)
    assert code == 1
    assert not missing(said, before.name, "the catalogue has the version")
    catalogue.compact(local(store))
    assert verify(store)[0] == 0


def test_what_never_published_is_not_sound(store_root: Path) -> None:
    publish_openface(store_root, "a", 20)
    record_attempt(local(store_root), "a", "glove", Status.FAILED, "no words", "")
    with FeatureWriter(local(store_root), "b", FEATURES["frames"]) as out:
        out.write("time", np.arange(5) / 15)
        code, said = verify(store_root)  # while a writer is at work
    assert code == 0, said
    assert not missing(said, "a/glove", "no version")
    assert not missing(said, "b/frames", "no current.json")
    assert not missing(said, "sound 1 feature", "2 features")
    assert not missing(said, "catalogue.parquet", "The store has no sound")


def test_a_store_in_which_nothing_was_published_is_not_sound(store_root: Path) -> None:
    record_attempt(local(store_root), "a", "glove", Status.FAILED, "no words", "")
    code, said = verify(store_root)
    assert (code, "sound" in said) == (1, False)
    assert not missing(said, "no feature has a version")


def test_a_session_of_the_study_of_which_nothing_is_there_is_lost(store: Path, tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    rows = "".join(f"s0{number},{who},v.avi\n" for number, who in enumerate("abc"))
    (tmp_path / "study/sessions.csv").write_text(f"session_id,participant_id,video\n{rows}")
    code, said = verify(store, "--study", str(tmp_path / "study"))
    assert code == 1, said
    assert not missing(said, "s02", "nothing of the session is")
    assert "s01" not in said


def test_objects_that_are_gone_are_named(url: str) -> None:
    storage = create_store(url)
    for session in "ab":
        publish_far(url, session)
    catalogue.compact(storage)
    assert not list(find(storage))
    storage.remove(["a/frames/current.json"])
    storage.remove(storage.files("b"))
    lost, of_a = sorted(find(storage), key=lambda one: one.session_id, reverse=True)
    assert (lost.session_id, lost.lost, lost.problem) == ("b", True, "the session is gone, and with it frames")
    assert (of_a.feature, of_a.lost) == ("frames", True)
