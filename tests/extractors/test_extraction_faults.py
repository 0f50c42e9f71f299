"""What goes wrong in the middle of an extraction: a process that stands still, a disk that fails, a loss of power."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.media.recordings import write_recording
from support.stores import local
from support.studies import extract_session, make_study

from storyframes.store import maintenance, record_status
from storyframes.store.layout import create_store

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


@pytest.fixture
def study(tmp_path: Path) -> Path:
    study = make_study(tmp_path / "study", video="v.avi")
    write_recording(study / "v.avi", 20)
    return study


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
    assert entry.record.version == version
    assert [path.parent.name for path in store_root.glob("s/frames/*/zarr.json")] == [version]
    assert not list(maintenance.verify(local(store_root)))
