"""A store whose disk is unmounted: nothing is written below the mount point, and the reason is said."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.commands import ROOT
from support.servers.in_process_runs import run_and_do_after_the_first
from support.servers.prefect_runs import request
from support.stores import local

from flows.in_process import perform_in_process
from flows.run import Progress, conclude, open_run, planned
from storyframes.features import FEATURES
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.record_status import read_status, scan
from storyframes.store.records import Status
from storyframes.store.storage import Storage, StorageError, local_folder

ELSEWHERE = "another folder is there than the feature store that was opened"


def unmount(root: Path) -> None:
    """As it looks when the disk of ``root`` is unmounted: an empty folder is there."""
    root.rename(root.with_name("away"))
    root.mkdir()


def write_kept(storage: Storage) -> None:
    with storage.kept(".unit-a.tmp", b"a"):
        """It is written."""


def write_version(storage: Storage) -> None:
    with FeatureWriter(storage, "a", FEATURES["frames"]) as out:
        out.write("time", np.arange(3.0))
        out.publish("f", {})


@pytest.mark.parametrize(
    "write",
    [
        lambda storage: storage.replace("a/b.json", b"{}"),
        lambda storage: storage.update("parts.json", lambda _: b"{}"),
        lambda storage: storage.work_folder("a/frames/v"),
        write_kept,
        write_version,
    ],
)
@pytest.mark.parametrize("is_gone", [False, True])
def test_nothing_is_written_where_the_store_was(
    tmp_path: Path, write: Callable[[Storage], object], is_gone: bool
) -> None:
    root = tmp_path / "features"
    storage = create_store(root).pinned(make_id=True)
    unmount(root)
    if is_gone:
        root.rmdir()
    with pytest.raises(StorageError, match="not there any more" if is_gone else ELSEWHERE):
        write(storage)
    assert not root.exists() if is_gone else list(root.iterdir()) == []


def test_a_store_that_is_mounted_again_is_written_on(tmp_path: Path) -> None:
    """It has another device or inode then, and its random id."""
    root = tmp_path / "features"
    storage = create_store(root).pinned(make_id=True)
    unmount(root)
    root.rmdir()
    shutil.copytree(tmp_path / "away", root)
    write_version(storage)
    status = read_status(storage, "a", "frames")
    assert status is not None
    assert status.status is Status.DONE


def test_an_id_that_a_file_system_does_not_give_for_a_moment_may_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a remount its id is read each time: an error of a network is not another folder, and is tried again."""
    root = tmp_path / "features"
    storage = create_store(root).pinned(make_id=True)
    unmount(root)
    root.rmdir()
    shutil.copytree(tmp_path / "away", root)

    def fail(*_: object) -> int:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    with monkeypatch.context() as away, pytest.raises(StorageError, match=r"identity\.json") as error:
        away.setattr(local_folder, "open_regular", fail)
        storage.check_place()
    assert error.value.transient
    storage.check_place()


def test_another_store_is_not_the_one_that_was_mounted(tmp_path: Path) -> None:
    root = tmp_path / "features"
    storage = create_store(root).pinned(make_id=True)
    unmount(root)
    create_store(root).pinned(make_id=True)
    with pytest.raises(StorageError, match=ELSEWHERE):
        write_version(storage)
    with pytest.raises(StorageError, match=ELSEWHERE):
        local(root).pinned(storage.store_id)  # as a worker opens it
    assert not list(scan(local(root)))


def test_a_store_without_an_id_is_known_by_its_folder_alone(tmp_path: Path) -> None:
    root = tmp_path / "features"
    storage = create_store(root).pinned()
    assert storage.store_id == ""
    write_version(storage)
    unmount(root)
    create_store(root)
    with pytest.raises(StorageError, match=ELSEWHERE):
        storage.check_place()


def test_the_id_stays_and_a_damaged_one_is_made_again(tmp_path: Path) -> None:
    storage = create_store(tmp_path / "features")
    first = storage.pinned(make_id=True).store_id
    assert len(first) == 32
    assert storage.pinned(make_id=True).store_id == first
    (tmp_path / "features/identity.json").write_bytes(b'{"id": 1}')
    assert storage.pinned(make_id=True).store_id not in ("", first)


def test_a_disk_that_goes_while_a_version_is_written_leaves_nothing_below_the_mount_point(tmp_path: Path) -> None:
    root = tmp_path / "features"
    storage = create_store(root).pinned(make_id=True)
    out = FeatureWriter(storage, "a", FEATURES["frames"])
    with pytest.raises(StorageError, match=ELSEWHERE), out:
        out.write("time", np.arange(3.0))
        unmount(root)
        out.publish("f", {})
    assert list(root.iterdir()) == []


def test_a_disk_that_goes_before_the_first_row_leaves_nothing_either(tmp_path: Path) -> None:
    root = tmp_path / "features"
    out = FeatureWriter(create_store(root), "a", FEATURES["frames"])
    with pytest.raises(FileNotFoundError), out:
        unmount(root)
        out.write("time", np.arange(120.0))
    assert list(root.iterdir()) == []


@pytest.mark.end_to_end
def test_a_run_whose_disk_is_unmounted_fails_the_rest_and_writes_no_table(small_study: Path, tmp_path: Path) -> None:
    root = tmp_path / "features"
    run, progress = run_and_do_after_the_first(small_study, root, lambda: unmount(root))
    assert [outcome.status for outcome in progress.outcomes] == [Status.DONE, Status.FAILED]
    assert ELSEWHERE in progress.outcomes[1].reason
    assert any(".parts.json" not in line and "cannot be noted" in line for line in progress.warnings)
    result = conclude(run, progress.outcomes)
    assert (result.clips, ELSEWHERE in result.problem, "--repair" in result.problem) == (0, True, False)
    assert list(root.iterdir()) == []
    assert len([status for status in scan(local(tmp_path / "away")) if status.status is Status.DONE]) == 1


def test_a_store_that_vanishes_while_a_unit_works_is_the_reason_that_is_given(
    small_study: Path, tmp_path: Path
) -> None:
    """It was "the session's clock has 0 frames"."""
    root, tool = tmp_path / "features", tmp_path / "FeatureExtraction"
    tool.write_text(
        f"""#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -f) input=$2; shift;; -out_dir) out=$2; shift;; esac; shift; done
name=${{input##*/}}; stem=${{name%.*}}
mv {root} {tmp_path}/away; mkdir {root}
gunzip -c {small_study}/openface/$stem.csv.gz > $out/$stem.csv
"""
    )
    tool.chmod(0o755)
    sections = {"openface": {"backend": "binary", "binary": str(tool), "loads": [str(tool)]}}
    progress = Progress()
    asked = request(small_study, root, sections, only=["openface"], session_ids=["s0001"])
    (frames, faces) = perform_in_process(planned(open_run(asked, progress)))
    assert (frames.status, faces.status) == (Status.DONE, Status.FAILED)
    assert ELSEWHERE in faces.reason
    assert list(root.iterdir()) == []


_REAL = """
import subprocess, sys
from pathlib import Path
sys.path.insert(0, "tests")
from support.servers.in_process_runs import run_and_do_after_the_first
study, other, root = map(Path, sys.argv[1:4])

def run(*command):
    subprocess.run(command, check=True)

def unmount():
    if other.exists():
        run("mount", "-t", "tmpfs", "tmpfs", other)
        run("cp", "-a", f"{root}/.", other)
    run("umount", "--lazy", root)  # the lock of the unit at hand keeps it busy
    if other.exists():
        run("mount", "--bind", other, root)

run("mount", "-t", "tmpfs", "tmpfs", root)
_, progress = run_and_do_after_the_first(study, root, unmount)
for outcome in progress.outcomes:
    print(outcome.status, outcome.reason)
"""


@pytest.mark.slow
@pytest.mark.needs("mounts")
@pytest.mark.parametrize("again", [False, True])
def test_a_real_mount(small_study: Path, tmp_path: Path, again: bool) -> None:
    """Unmounted between two units; or mounted again at once, from another device that has all of it."""
    other, root = tmp_path / "other", tmp_path / "features"
    root.mkdir()
    if again:
        other.mkdir()
    command = [sys.executable, "-c", _REAL, str(small_study), str(other), str(root)]
    done = subprocess.run(["unshare", "--mount", *command], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.strip() == "done"
    assert second.strip() == "done" if again else ELSEWHERE in second
    assert list(root.iterdir()) == []
