"""A study of the paper's size in which nothing changed: what planning it opens, and that nothing is due."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from support.many_sessions import SETTINGS as NEW
from support.many_sessions import many_sessions
from support.opened_files import below, files_opened
from support.unchanged_study import SETTINGS, unchanged_study

from benchmarks.scaling.scale import measures
from storyframes.store.layout import create_store
from storyframes.store.storage.local_folder import LocalStorage
from tasks.models import digests
from tasks.planning.plan import StoreListing, plan_extraction
from tasks.planning.selection import Selection

SESSIONS, FEATURES = 269, 6


def test_the_benchmark_of_the_clip_index_makes_and_opens_one(tmp_path: Path) -> None:
    made = measures()["opening the clip index"]
    assert made.do(made.make(tmp_path, 3)) == "27 clips"


def test_planning_many_new_sessions_asks_once_for_what_they_share(tmp_path: Path) -> None:
    study = many_sessions(tmp_path, 12)
    plan_extraction(study, create_store(tmp_path / "features"), NEW, Selection())
    with files_opened() as opened:
        plan = plan_extraction(study, create_store(tmp_path / "features"), NEW, Selection())
    assert len(plan.units) == 12 * FEATURES
    assert sum(Path(path).name == "model-digests.json" for path in opened) <= 1
    assert not [path for path in opened if path.endswith("METADATA")]
    assert below(opened, study.root) == {}  # a header is FFmpeg's to open


def test_what_another_process_learns_of_a_model_is_known_here(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(digests, "_SETTLED_NS", -(10**18))  # a file of this very second is kept as well
    model, other = tmp_path / "model", tmp_path / "other"
    for file in (model, other):
        file.write_bytes(b"weights")
    true = hashlib.sha256(b"weights").hexdigest()
    assert digests.model_digest(model) == true
    kept = tmp_path / "storyframes/model-digests.json"
    with files_opened() as opened:
        assert digests.model_digest(model) == digests.model_digest(model) == true
    assert sum(path == str(kept) for path in opened) == 1  # since it was written
    elsewhere = digests.DigestCache(LocalStorage(kept.parent), kept.name, Path("/"), on_this_machine=True)
    monkeypatch.setattr(digests, "sha256_file", lambda path: "as the other process has it")
    elsewhere.sha256(other)
    elsewhere.save()
    monkeypatch.setattr(digests, "sha256_file", lambda path: pytest.fail("it was read again"))
    assert digests.model_digests([model, other]) == {model: true, other: "as the other process has it"}


def test_processes_that_save_after_each_other_lose_nothing_of_each_other(tmp_path: Path, monkeypatch) -> None:
    """As the parts of an array do: each has read the file before the others have written theirs."""
    monkeypatch.setattr(digests, "_SETTLED_NS", -(10**18))
    storage = create_store(tmp_path / "features")
    caches = [digests.DigestCache(storage, "inputs.json", tmp_path) for _ in range(3)]
    for number, cache in enumerate(caches):
        (tmp_path / f"{number}.avi").write_bytes(b"%d" % number)
        cache.sha256(tmp_path / f"{number}.avi")
    (tmp_path / "0.avi").write_bytes(b"replaced meanwhile")
    newer = digests.DigestCache(storage, "inputs.json", tmp_path)
    newest = newer.sha256(tmp_path / "0.avi")
    for cache in (caches[0], newer, *caches[1:]):
        cache.save()
    monkeypatch.setattr(digests, "sha256_file", lambda path: pytest.fail(f"{path} was read again"))
    kept = digests.DigestCache(storage, "inputs.json", tmp_path)
    assert kept.sha256(tmp_path / "0.avi") == newest
    for number in (1, 2):
        assert kept.sha256(tmp_path / f"{number}.avi") == hashlib.sha256(b"%d" % number).hexdigest()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return unchanged_study(tmp_path_factory.mktemp("scale"), SESSIONS)


@pytest.mark.slow
def test_an_unchanged_study_of_269_sessions_is_settled_by_its_records_alone(study) -> None:
    of_study, store = study
    storage = create_store(store)
    with files_opened() as opened:
        plan = plan_extraction(of_study, storage, SETTINGS, Selection())
    assert plan.units == []
    assert len(plan.settled) == SESSIONS * FEATURES
    assert below(opened, of_study.root) == {}
    read = below(opened, store)
    assert read.pop("current.json") == SESSIONS * FEATURES
    assert read.pop("inputs.json") == 1
    assert read == {}  # that it is a store is known to the caller, who opened it
    models = [path for path in opened if Path(path).name in ("model.safetensors", "glove.demo.300d.txt")]
    assert models == []


@pytest.mark.slow
def test_of_a_folder_no_more_than_one_session_is_in_memory(study, monkeypatch) -> None:
    of_study, store = study
    listed, of = [], StoreListing.of.__func__

    def noting(cls, storage, session_id: str):
        listed.append((session_id, of(cls, storage, session_id)))
        return listed[-1][1]

    monkeypatch.setattr(StoreListing, "of", classmethod(noting))
    plan_extraction(of_study, store, SETTINGS, Selection(("s0003", "s0007", "s0100")))
    assert [session_id for session_id, _ in listed] == ["s0003", "s0007", "s0100"]
    for session_id, known in listed:
        assert {entry[0] for entry in known.entries} == {path.split("/")[0] for path in known.files} == {session_id}


@pytest.mark.slow
def test_one_changed_input_is_read_once_and_makes_its_session_due(study) -> None:
    of_study, store = study
    changed = of_study.path(of_study.sessions["s0100"].transcript)
    changed.write_text("another transcript")
    os.utime(changed, (1_700_000_001, 1_700_000_001))
    for expected in (1, 0):  # the second time its digest is known
        with files_opened() as opened:
            plan = plan_extraction(of_study, store, SETTINGS, Selection())
        assert sorted(work.name for work in plan.units) == ["s0100/glove", "s0100/sbert"]
        assert sum(below(opened, of_study.root).values()) == expected
