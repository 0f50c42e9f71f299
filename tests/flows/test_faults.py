"""What goes wrong at night, with a real Prefect server and real worker processes: the state tells the truth, and no
feature is lost or half-visible."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.messages import missing
from support.processes import ended, wait_for
from support.servers.prefect_runs import extract, request
from support.stores import local
from support.studies import run

from storyframes.store import maintenance, record_status
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from storyframes.store.records import Status
from tasks.planning.selection import Selection

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]

# Finds its input and output, then does what its first lines say, then replays what OpenFace wrote for this recording.
_TOOL = """#!/bin/sh
while [ $# -gt 0 ]; do case $1 in -f) input=$2; shift;; -out_dir) out=$2; shift;; esac; shift; done
name=${{input##*/}}; stem=${{name%.*}}
echo $$ >> {folder}/pids
{first}
gunzip -c {recorded}/$stem.csv.gz > $out/$stem.csv
"""


def openface(folder: Path, recorded: Path, first: str) -> dict[str, dict[str, object]]:
    """A configuration whose OpenFace does ``first`` and then replays."""
    tool = folder / "FeatureExtraction"
    tool.write_text(_TOOL.format(folder=folder, recorded=recorded, first=first))
    tool.chmod(0o755)
    return {"openface": {"backend": "binary", "binary": str(tool), "loads": [str(tool)]}}


@pytest.fixture
def recorded(small_study: Path) -> Path:
    return small_study / "openface"


def versions(root: Path) -> dict[str, int]:
    """How many versions there are of each feature, current or not."""
    counts: dict[str, int] = {}
    for group in root.glob("*/*/*/zarr.json"):
        feature = group.parent.parent
        counts[f"{feature.parent.name}/{feature.name}"] = counts.get(f"{feature.parent.name}/{feature.name}", 0) + 1
    return counts


def current(root: Path, feature: str) -> list[str]:
    return [e.record.version for e in record_status.scan(local(root)) if e.feature == feature and e.record]


def test_a_worker_killed_once_has_its_work_done_once_more_and_nothing_twice(
    server,
    small_study: Path,
    recorded: Path,
    tmp_path: Path,
) -> None:
    """And a tool that hangs is ended: that of the first session kills its worker once, that of the second hangs."""
    root = tmp_path / "features"
    # Its parent is the Dask worker; the other features of both sessions are done in the same worker.
    once = f"sleep 2; if [ $stem = s0001 ] && mkdir {tmp_path}/killed 2>/dev/null; then kill -9 $PPID; exit 1; fi"
    sections = openface(tmp_path, recorded, f"{once}; [ $stem = s0002 ] && exec sleep 1000")
    sections["openface"] |= {"timeout_s": 9, "timeout_s_per_video_s": 0.1}
    state, report = extract(small_study, root, sections, only=["openface", "opensmile", "glove"])
    assert (tmp_path / "killed").exists()
    assert state.name == "PartialSuccess"
    (failure,) = report.failed
    assert (failure.session_id, failure.feature) == ("s0002", "openface")
    assert "9 s" in failure.reason
    expected = {f"s000{n}/{feature}" for n in (1, 2) for feature in ("frames", "openface", "opensmile", "glove")}
    assert versions(root) == dict.fromkeys([*(expected - {"s0002/openface"}), "stories/glove"], 1)
    # The tool ran once for each session, and once more for the one whose worker died.
    ran = (tmp_path / "pids").read_text().split()
    assert len(ran) == 3
    assert not any(Path(f"/proc/{pid}").exists() for pid in ran)
    entries = {(entry.session_id, entry.feature): entry for entry in record_status.scan(local(root))}
    assert entries["s0002", "openface"].attempt.reason == failure.reason
    assert not list(maintenance.verify(local(root)))


def test_a_full_disk_loses_nothing_and_says_so(server, small_study: Path, small_disk: Path, tmp_path: Path) -> None:
    root = small_disk / "features"
    create_store(root)
    clocks = run(small_study, root, Selection(only=("frames",)))
    assert {outcome.status for outcome in clocks.values()} == {Status.DONE}
    before = current(root, "frames")
    (small_disk / "filler").write_bytes(
        b"x" * (os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize - 60_000)
    )
    state, report = extract(small_study, root, {"cluster": {"cpus": 1}}, only=["openface"])
    assert state.name == "PartialSuccess"
    assert {(o.session_id, o.feature) for o in report.failed} == {("s0001", "openface"), ("s0002", "openface")}
    assert [missing(outcome.reason, "is full", f"make room at {root}") for outcome in report.failed] == [[], []]
    # Nothing but the tables may be missing: no run has written them before, and they may not fit.
    assert {finding.path for finding in maintenance.verify(local(root))} <= {"catalogue.parquet", "clips.parquet"}
    assert current(root, "frames") == before
    (small_disk / "filler").unlink()
    again = run(small_study, root, Selection(only=("openface",)))
    assert {name: (outcome.status, outcome.skipped) for name, outcome in again.items()} == {
        f"{session}/{feature}": (Status.DONE, feature == "frames")
        for session in ("s0001", "s0002")
        for feature in ("frames", "openface")
    }


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.nightly), signal.SIGKILL])
def test_a_flow_that_is_killed_leaves_no_process_and_the_next_one_goes_on(
    small_study: Path,
    recorded: Path,
    tmp_path: Path,
    number: signal.Signals,
    own_state: Mapping[str, str],
) -> None:
    root = tmp_path / "features"
    ask = request(small_study, root, openface(tmp_path, recorded, "exec sleep 1000"))
    command = [sys.executable, "-m", "flows.cli", "extract", "--server", str(ask.study), str(root)]
    command += ["--config", str(ask.config), "--features", "openface", "--features", "opensmile"]
    # Whatever it starts inherits this mark.
    mark = f"STORYFRAMES_TEST_MARK={tmp_path}"
    environment = os.environ | own_state | dict([mark.split("=", 1)])
    run = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    pids = tmp_path / "pids"
    wait_for(lambda: pids.exists() and pids.read_text())
    run.send_signal(number)
    assert ended(run) == (143 if number is signal.SIGTERM else -number)
    wait_for(lambda: not marked(mark), "something outlived the run")
    assert not list(maintenance.verify(local(root)))
    if number is signal.SIGTERM:
        return  # what goes on after a SIGKILL goes on after it
    again = request(small_study, root, {"cluster": {"cpus": 1}})  # in the command's own process, without a server
    command = [*(word for word in command[:-6] if word != "--server"), "--config", str(again.config), *command[-4:]]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert " 0 failed" in result.stdout
    assert FeatureStore(root).features("s0001") == ["frames", "openface", "opensmile"]
    assert "s0001/frames" not in result.stderr  # what the first run published was not done again


def marked(mark: str) -> list[str]:
    """The processes that carry this mark in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
    return found
