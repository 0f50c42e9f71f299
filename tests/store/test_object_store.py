"""A feature store on S3-compatible storage: moto's server on loopback, real requests, the same protocol."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.commands import ONE_WORKER, storyframes_here
from support.messages import missing, naming
from support.object_stores import publish

from storyframes.features import FEATURES
from storyframes.store import catalogue, maintenance, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import StoreError, create_store, leave_mark, open_storage
from storyframes.store.maintenance.garbage import collect
from storyframes.store.publish import FeatureWriter, record_attempt
from storyframes.store.records import Current, Status
from storyframes.store.storage import StorageError, object_store
from storyframes.store.storage.object_store import ObjectStorage

ROOT = Path(__file__).parents[2]


def current(url: str, session_id: str, feature: str = "frames") -> Current:
    return record_status.read_status(open_storage(url), session_id, feature).record


def test_what_is_published_is_read_back(url: str) -> None:
    create_store(url)
    publish(url, "a", 130, feature="resnet50")
    catalogue.compact(open_storage(url))
    store = FeatureStore(url)
    expected = np.random.default_rng(0).normal(size=(130, 2048)).astype(np.float16)
    np.testing.assert_array_equal(store.read("a", "resnet50"), expected)
    np.testing.assert_array_equal(store.read("a", "resnet50", 55, 66), expected[55:66])
    assert store.attributes("a", "resnet50")["feature"] == "resnet50"
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(store)).read("a", "resnet50", 0, 5), expected[:5])


def test_nothing_of_a_version_is_left_on_this_machine(url: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", None)
    create_store(url)
    publish(url, "a")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_writer_left_on_this_machine_goes_with_the_next_version(
    url: str, tmp_path: Path, monkeypatch
) -> None:
    import tempfile

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    create_store(url)
    code = (
        "import os, signal, sys\nimport numpy as np\nfrom storyframes.features import FEATURES\n"
        "from storyframes.store.publish import FeatureWriter\nfrom storyframes.store.layout import open_storage\n"
        "with FeatureWriter(open_storage(sys.argv[1]), 'a', FEATURES['frames']) as out:\n"
        "    out.write('time', np.zeros(5))\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, url], cwd=ROOT).returncode == -9
    (left,) = tmp_path.glob("storyframes-version-*")
    publish(url, "a")
    assert not left.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_of_this_machine_is_named_not_the_object_stores(
    url: str, demo_study: Path, small_disk: Path, monkeypatch
) -> None:
    from support.tools.openface_tools import extract

    monkeypatch.setenv("TMPDIR", str(small_disk))
    monkeypatch.setattr("tempfile.tempdir", None)
    outcome = extract(demo_study, url, "p01-s01")  # 1 MB of values
    assert not missing(outcome.reason, small_disk, "the disk of the temporary")
    assert list(small_disk.iterdir()) == []


def test_an_error_before_the_commit_leaves_nothing(url: str) -> None:
    create_store(url)
    with pytest.raises(RuntimeError), FeatureWriter(open_storage(url), "a", FEATURES["frames"]) as out:
        out.write("time", np.zeros(5))
        raise RuntimeError
    assert sorted(open_storage(url).files()) == ["a/frames/zarr.json", "a/zarr.json", "zarr.json"]
    assert FeatureStore(url).sessions == []


@pytest.mark.slow
def test_a_writer_killed_before_the_commit_is_never_seen(url: str, monkeypatch) -> None:
    create_store(url)
    before = publish(url, "a", seed=1)
    code = (
        "import os, signal, sys; sys.path.insert(0, 'tests')\n"
        "from storyframes.store.storage.object_store import ObjectStorage\n"
        "from support.object_stores import publish\n"
        "real = ObjectStorage.update\n"
        "def deadly(self, path, change):\n"
        "    if path.endswith('current.json'): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(self, path, change)\n"
        "ObjectStorage.update = deadly\n"
        "publish(sys.argv[1], 'a', seed=2)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, url], cwd=ROOT).returncode == -9
    assert current(url, "a").version == before
    catalogue.compact(open_storage(url))
    assert not list(maintenance.verify(open_storage(url)))
    assert not list(maintenance.collect(open_storage(url), grace_s=-5))  # it could be about to publish
    monkeypatch.setattr(object_store, "_SPARED_S", -5)
    (removal,) = maintenance.collect(open_storage(url), grace_s=-5)
    assert removal.path != f"a/frames/{before}"
    assert len(FeatureStore(url).read("a", "frames", array="time")) == 70


def test_two_writers_at_once_leave_one_current_version_and_both_readable(url: str) -> None:
    import zarr

    create_store(url)
    versions: list[str] = []
    barrier = threading.Barrier(2)

    def write(seed: int) -> None:
        barrier.wait()
        versions.append(publish(url, "a", seed=seed))

    threads = [threading.Thread(target=write, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert current(url, "a").version in versions
    for version in versions:
        assert zarr.open_array(mode="r", **open_storage(url).zarr(f"a/frames/{version}/time")).shape == (70,)
    assert not list(maintenance.verify(open_storage(url)))


@pytest.mark.slow
def test_many_runs_at_once_lose_nothing_from_the_catalogue(url: str) -> None:
    """Each run publishes a session and compacts; whoever compacts last has seen all."""
    create_store(url)

    def run(number: int) -> None:
        publish(url, f"s{number}", seed=number)
        catalogue.compact(open_storage(url))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert FeatureStore(url).sessions == [f"s{number}" for number in range(8)]
    assert not list(maintenance.verify(open_storage(url)))


def test_an_update_starts_over_where_somebody_was_faster(url: str) -> None:
    storage = create_store(url)
    calls = []

    def change(before: bytes | None) -> bytes:
        calls.append(before)
        if len(calls) == 1:
            storage.replace("counter", b"9")  # somebody else, in between
        return str(int(before or b"0") + 1).encode()

    storage.update("counter", change)
    assert calls == [None, b"9"]
    assert storage.read("counter") == b"10"


def test_verify_finds_a_changed_and_a_missing_object(url: str) -> None:
    storage = create_store(url)
    version = publish(url, "a")
    catalogue.compact(storage)
    path = f"a/frames/{version}/time/c/0"
    content = bytearray(storage.read(path))
    content[5] ^= 1
    storage.replace(path, bytes(content))
    (finding,) = maintenance.verify(storage)
    assert "checksum" in finding.problem
    storage.remove([path])
    (finding,) = maintenance.verify(storage)
    assert finding.problem == "the file is missing"


def test_a_failure_is_noted_and_forgotten(url: str) -> None:
    storage = create_store(url)
    record_attempt(storage, "a", "frames", Status.FAILED, "no frame decodes", "")
    assert record_status.read_status(storage, "a", "frames").status is Status.FAILED
    publish(url, "a")
    assert record_status.read_status(storage, "a", "frames").status is Status.DONE


@pytest.mark.slow
def test_extraction_to_an_object_store_and_again(url: str, demo_study: Path) -> None:
    from tasks.extract import extract
    from tasks.extractors.registry import ExtractorsSettings
    from tasks.planning.plan import plan_extraction
    from tasks.planning.selection import Selection
    from tasks.study.load import load_study

    def plan():
        return plan_extraction(load_study(demo_study), url, ExtractorsSettings(), Selection(only=("openface",)))

    due = plan().units
    sessions = ("p01-s01", "p01-s02", "p02-s01")
    assert {work.name for work in due} == {f"{s}/{f}" for s in sessions for f in ("frames", "openface")}
    due.sort(key=lambda work: work.features != ("frames",))  # a session's clock comes first
    assert {str(o.status) for work in due for o in extract(pickle.loads(pickle.dumps(work)))} == {"done"}
    assert plan().units == []
    assert FeatureStore(url).read("p02-s01", "openface").shape == (360, 714)


@pytest.mark.slow
def test_the_command_line_on_an_object_store(url: str) -> None:
    asked = ("extract", "demo/study", url, "--features", "openface", "--features", "opensmile", *ONE_WORKER)
    extracted = storyframes_here(*asked)
    assert extracted.returncode == 0, extracted.stderr
    assert "9 extracted" in extracted.stdout
    again = storyframes_here(*asked)
    assert not missing(again.stderr, "0 features are due", "9 need nothing done")
    assert "9 done" in storyframes_here("status", url).stdout
    assert storyframes_here("verify", url).returncode == 0
    assert len(FeatureStore(url).clips()) == 54


def test_what_cannot_be_reached_says_so(s3, url: str) -> None:
    with pytest.raises(StoreError, match="is not a feature store"):
        FeatureStore(url)
    with pytest.raises(StorageError, match="s3://absent-bucket/x: .*bucket"):
        create_store("s3://absent-bucket/x")
    with pytest.raises(StorageError, match="s3://lab/x: "):
        FeatureStore("s3://lab/x", {"endpoint": "http://127.0.0.1:9", "retry_config": {"max_retries": 0}})
    with pytest.raises(StorageError, match="nosuch://x cannot be opened"):
        FeatureStore("nosuch://x")


def test_options_take_the_place_of_the_environment(s3, url: str, monkeypatch) -> None:
    create_store(url)
    publish(url, "a")
    for name in s3:
        monkeypatch.delenv(name)
    options = {
        "endpoint": s3["AWS_ENDPOINT"], "access_key_id": "test", "secret_access_key": "test",
        "region": "us-east-1", "client_options": {"allow_http": True},
    }  # fmt: skip
    storage = open_storage(url, options)
    assert isinstance(pickle.loads(pickle.dumps(storage)), ObjectStorage)
    assert FeatureStore(url, options).sessions == ["a"]


def test_without_obstore_the_error_names_the_extra(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "storyframes.store.storage.object_store")  # it imports obstore
    with pytest.raises(StorageError, match=r"pip install .*\[s3\]'"):
        FeatureStore("s3://lab/x")


def test_a_runs_mark_is_there_as_long_as_the_run_and_gc_takes_what_a_killed_one_left(url: str, monkeypatch) -> None:
    storage = create_store(url)
    with leave_mark(storage) as mark:
        assert mark.is_seen()
        assert not replace(mark, location=f"{url}-of-others").is_seen()
        assert list(collect(storage, 0)) == [], "nothing says that the run has ended"
    assert not mark.is_seen()
    storage.replace(mark.path, mark.content)  # as a killed run leaves it
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 31 * 24 * 3600)
    assert [removal.path for removal in collect(storage, 0)] == [mark.path]
    assert not mark.is_seen()


def test_the_objects_of_another_session_are_not_read_as_this_ones(url: str) -> None:
    storage = create_store(url)
    for number, session in enumerate("ab"):
        publish(url, session, 130 + number)
    for path in storage.files("a/frames"):
        storage.replace(f"b{path[1:]}", storage.read(path))
    (finding,) = (one for one in maintenance.verify(storage) if one.path == "current.json")
    assert (finding.session_id, finding.feature) == ("b", "frames")
    assert not missing(finding.problem, "a/frames", "whose folder was copied or")
    catalogue.compact(storage)
    assert FeatureStore(url).sessions == ["a"]
    with pytest.raises(StoreError, match=naming("b/frames", "b/frames/current.json", "a/frames")):
        FeatureStore(url).read("b", "frames", array="time")
