"""What cannot be read is not taken for absent: on a failing disk, and as a user who may not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.faults import faulty_disk
from support.faults.faulty_disk import EIO, faults
from support.messages import missing
from support.stores import local, publish_openface
from support.systems.users import as_user

from storyframes.store import catalogue, maintenance, record_status
from storyframes.store.catalogue import Snapshot
from storyframes.store.layout import create_store
from storyframes.store.records import Status
from storyframes.store.storage import StorageError

ROOT = Path(__file__).parents[2]
NOBODY = 65534

LOOK = """
import json, sys
from pathlib import Path
from storyframes.store import catalogue, record_status
from storyframes.store import maintenance
from storyframes.store.storage.local_folder import LocalStorage
storage = LocalStorage(Path(sys.argv[1]))
entries = {f"{e.session_id}/{e.feature}": [str(e.status), e.reason] for e in record_status.scan(storage)}
findings = [[f.session_id, f.feature, f.path, f.problem, f.unreadable] for f in maintenance.verify(storage)]
unread = {}
removed = [r.path for r in maintenance.collect(storage, -1, unreadable=unread.__setitem__)]
print(json.dumps([entries, findings, removed, list(unread)]))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return faulty_disk.build(tmp_path_factory.mktemp("library"))


@pytest.fixture
def three_sessions(store_root: Path) -> Path:
    for session_id in ("s1", "s2", "s3"):
        publish_openface(store_root, session_id, 10)
        publish_openface(store_root, session_id, 10)
    catalogue.compact(local(store_root))
    return store_root


@pytest.mark.slow
@pytest.mark.needs("cc")
@pytest.mark.parametrize(
    ("call", "part", "named"),
    [
        ("opendir", "features/s2", "s2"),
        ("opendir", "s2/openface", "s2/openface"),
        ("opendir", "s2/openface/2", "s2/openface"),
        ("open", "s2/openface/current.json", "s2/openface/current.json"),
        ("open", "s2/openface/attempt.json", "s2/openface/attempt.json"),
        ("open", "s2/zarr.json", "s2/zarr.json"),
        ("open", "values/c/0/0", "values/c/0/0"),
    ],
)
def test_a_failing_disk_is_named_and_stops_nothing_else(
    three_sessions: Path, library: Path, call: str, part: str, named: str
) -> None:
    if part.endswith("attempt.json"):
        (three_sessions / part).write_bytes(b"{}")
    result = faulty_disk.run(library, LOOK, str(three_sessions), **faults((call, EIO, part)))
    assert result.returncode == 0, result.stderr
    entries, findings, removed, _ = json.loads(result.stdout)
    assert {"s1/openface", "s3/openface"} <= entries.keys()
    assert entries["s1/openface"][0] == entries["s3/openface"][0] == Status.DONE
    unread = [finding for finding in findings if finding[4]]
    assert unread
    assert all("Input/output error" in problem for _, _, _, problem, _ in unread)
    assert any(named in f"{session}/{feature}/{path} {problem}" for session, feature, path, problem, _ in unread)
    if "s2" in part and "zarr.json" not in part and "/2" not in part:
        (reason,) = [why for name, (status, why) in entries.items() if name.startswith("s2/") and status == "failed"]
        assert "Input/output error" in reason
        assert not any(path.startswith("s2/") for path in removed) or part.endswith("attempt.json")
    assert {path.split("/")[0] for path in removed} >= {"s1", "s3"}


@pytest.mark.slow
@pytest.mark.needs("cc")
def test_the_commands_say_so_and_end_with_1(three_sessions: Path, library: Path) -> None:
    def storyframes(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | faults(("opendir", EIO, "features/s2")) | {"LD_PRELOAD": str(library)}
        command = [sys.executable, "-m", "flows.cli", *arguments]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    verified = storyframes("verify", str(three_sessions))
    assert verified.returncode == 1
    assert "1 damaged or unreadable" in verified.stdout
    shown = storyframes("status", str(three_sessions))
    assert shown.returncode == 0
    assert missing(shown.stdout, "s2", "Input/output error") == []
    assert storyframes("gc", str(three_sessions)).returncode == 1
    # The catalogue that gc wrote meanwhile does not forget the session.
    rows = Snapshot.of(local(three_sessions)).frame().set_index(["session_id", "feature"])
    assert rows.loc[("s2", "openface"), "status"] == "done"  # asked for by name, it can be read
    assert "cannot be read" in rows.loc[("s2", "*"), "reason"]
    catalogue.compact(local(three_sessions))
    assert Snapshot.of(local(three_sessions)).frame()["status"].tolist() == ["done"] * 3


@pytest.mark.slow
@pytest.mark.needs("cc")
def test_a_store_that_cannot_be_listed_is_an_error(three_sessions: Path, library: Path) -> None:
    result = faulty_disk.run(library, LOOK, str(three_sessions), **faults(("opendir", EIO, "features")))
    assert missing(result.stderr, "StorageError", "features", "Input/output error") == []


# --- as another user -------------------------------------------------------------------------------------------------


@pytest.fixture
def shared_store() -> Iterator[Path]:
    """A store where somebody else may look, which pytest's own folders are not."""
    folder = Path(tempfile.mkdtemp(prefix="storyframes-test-"))
    folder.chmod(0o755)
    root = folder / "features"
    create_store(root)
    for session_id in ("s1", "s2", "s3"):
        publish_openface(root, session_id, 10)
    catalogue.compact(local(root))
    for path in (root, *root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    yield root
    shutil.rmtree(folder)


@pytest.mark.needs("root")
@pytest.mark.parametrize("forbidden", ["s2", "s2/openface", "s2/openface/current.json", "catalogue.parquet"])
def test_what_a_user_may_not_read_is_reported(shared_store: Path, forbidden: str) -> None:
    path = shared_store / forbidden
    os.chown(path, 0, 0)
    path.chmod(0o700 if path.is_dir() else 0o600)
    findings = as_user(NOBODY, [], lambda: list(maintenance.verify(local(shared_store))))
    (unreadable,) = (finding.problem for finding in findings if finding.unreadable)
    assert missing(unreadable, forbidden, "Permission denied") == []
    entries = as_user(NOBODY, [], lambda: {e.session_id: e.status for e in record_status.scan(local(shared_store))})
    assert entries == {"s1": "done", "s2": "failed" if "s2" in forbidden else "done", "s3": "done"}


@pytest.mark.needs("root")
def test_a_catalogue_that_may_not_be_read_is_not_made_anew_in_silence(shared_store: Path) -> None:
    path = shared_store / "catalogue.parquet"
    os.chown(path, 0, 0)
    path.chmod(0o600)
    error = as_user(NOBODY, [], lambda: Snapshot.of(local(shared_store)).frame().shape)
    assert isinstance(error, StorageError)
    assert missing(error, "catalogue.parquet", "Permission denied") == []
