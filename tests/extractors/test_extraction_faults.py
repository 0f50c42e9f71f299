"""What goes wrong in the middle of an extraction: a process that stands still, a disk that fails, a loss of power."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.faults import faulty_disk
from support.media.recordings import write_recording
from support.stores import local
from support.studies import extract_session, make_study

from storyframes.store import maintenance, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.records import Status, seal, unseal

TESTS = Path(__file__).parents[1]
STOPPED = """
import os, signal, sys
from pathlib import Path
from support.studies import extract_session
from storyframes.store.publish import FeatureWriter
from tasks.extractors.frames import Frames
publish = FeatureWriter.publish
def after_standing_still(*arguments, **options):
    os.kill(os.getpid(), signal.SIGSTOP)
    return publish(*arguments, **options)
FeatureWriter.publish = after_standing_still
Frames.version -= int(sys.argv[3])
_, outcomes = extract_session(Path(sys.argv[1]), Path(sys.argv[2]), "frames")
print(outcomes["frames"].status, outcomes["frames"].version, outcomes["frames"].reason, sep="|")
"""
FAILING = """
import os, sys
from pathlib import Path
from tasks.extract import extract
from tasks.extractors.registry import ExtractorsSettings
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.study.load import load_study
study, root = map(Path, sys.argv[1:])
plan = plan_extraction(load_study(study), root, ExtractorsSettings(), Selection(("s",), ("frames", "opensmile")))
for unit in plan.units:
    (feature,) = unit.features
    for fault in ("read:5:v.avi", f"write:5:{root}/s/{feature}/2", ""):
        os.environ["FAULTS"] = fault
        (outcome,) = extract(unit)
        print(feature, fault[:5], outcome.status, outcome.transient, outcome.reason, sep="|")
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    study = make_study(tmp_path / "study", video="v.avi")
    sound = np.random.default_rng(0).integers(-3000, 3000, (32_000, 1)).astype(np.int16)
    write_recording(study / "v.avi", 50, sound)  # larger than what is read at once
    return study


@pytest.mark.slow
@pytest.mark.parametrize("older", [0, 1])
def test_a_process_that_stands_still_for_an_hour_loses_nothing_and_publishes_over_nothing(
    study: Path, store_root: Path, older: int
) -> None:
    """Whether it would have published the same, or what an older version of the extractor gives."""
    command = [sys.executable, "-c", STOPPED, str(study), str(store_root), str(older)]
    environment = os.environ | {"PYTHONPATH": f"{TESTS}:{TESTS.parent}"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    ended = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert ended is not None
    assert ended.si_code == os.CLD_STOPPED
    in_an_hour = -3600  # all that is younger than minus an hour
    assert list(maintenance.collect(local(store_root), in_an_hour)) == []
    _, outcomes = extract_session(study, store_root, "frames")
    version = outcomes["frames"].version
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate()
    expected = f"done|{version}|\n"
    if older:
        expected = (
            "failed||s/frames: another process has published it since this work began, from other files or with other "
            "settings: that version stays; extract again for these\n"
        )
    assert said == expected
    (entry,) = record_status.scan(local(store_root))
    assert entry.record is not None
    assert (entry.record.version, entry.status) == (version, Status.DONE)  # what it says is of no later attempt
    assert [path.parent.name for path in store_root.glob("s/frames/*/zarr.json")] == [version]
    assert not list(maintenance.verify(local(store_root)))


@pytest.mark.needs("cc")
@pytest.mark.slow
def test_a_disk_that_fails_in_the_middle_of_a_recording_or_of_a_version(
    study: Path, store_root: Path, tmp_path: Path
) -> None:
    """Never a part of it: not the frames before the place that cannot be read, not the rows that were written."""
    result = faulty_disk.run(faulty_disk.build(tmp_path), FAILING, str(study), str(store_root))
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "frames|read:|failed|True|v.avi: reading it failed: Input/output error",
        "frames|write|failed|True|Input/output error",
        "frames||done|False|",
        "opensmile|read:|failed|True|v.avi: the sound cannot be decoded (Input/output error)",
        "opensmile|write|failed|True|Input/output error",
        "opensmile||done|False|",
    ]
    assert len(list(store_root.glob("s/*/*/zarr.json"))) == 2
    assert FeatureStore(store_root).read("s", "frames", array="time").shape == (50,)
    assert not list(maintenance.verify(local(store_root)))


def test_a_record_of_another_feature_is_no_later_version(study: Path, store_root: Path) -> None:
    """A folder that was copied holds a record with a count; the feature is published in its place all the same."""
    extract_session(study, store_root, "frames")
    (store_root / "s").rename(store_root / "other")
    (store_root / "s").mkdir(0o700)
    shutil.copytree(store_root / "other/frames", store_root / "s/frames")
    record = (store_root / "s/frames/current.json").read_bytes()
    (store_root / "s/frames/current.json").write_bytes(seal(unseal(record, "") | {"session_id": "other"}))
    _, outcomes = extract_session(study, store_root, "frames")
    assert outcomes["frames"].status is Status.DONE, outcomes["frames"].reason
