from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from storyframes.features import FEATURES, OPENFACE_COLUMNS
from tasks.openface import OpenFaceSettings
from tasks.openface_csv import OpenFaceOutputError, read_openface_csv
from tasks.tool_process import run_tool


def read(path: Path, frames: int) -> np.ndarray:
    return np.concatenate(list(read_openface_csv(path, frames)))


@pytest.fixture(scope="session")
def recorded(shared: Path) -> Path:
    return shared / "data/openface/face15fps_480p_audio.csv"


@pytest.mark.parametrize(("name", "rows"), [("face15fps_480p_audio.csv", 180), ("comma_separated.csv", 288)])
def test_both_separators_give_the_values_pandas_reads(shared: Path, name: str, rows: int) -> None:
    path = shared / "data/openface" / name
    expected = pd.read_csv(path, skipinitialspace=True)
    assert list(expected.columns) == list(OPENFACE_COLUMNS)
    np.testing.assert_array_equal(read(path, rows), expected.to_numpy(np.float32))


def test_a_compressed_csv_gives_the_same(recorded: Path, tmp_path: Path) -> None:
    packed = tmp_path / "a.csv.gz"
    packed.write_bytes(gzip.compress(recorded.read_bytes()))
    np.testing.assert_array_equal(read(packed, 180), read(recorded, 180))


def test_a_face_never_tracked_is_nan_behind_the_bookkeeping(shared: Path) -> None:
    values = read(shared / "data/openface/faults/noface.csv", 45)
    np.testing.assert_array_equal(values[:, 0], np.arange(1, 46))
    assert np.isnan(values[:, 5:]).all()
    assert not np.isnan(values[:, :5]).any()


def test_a_face_lost_after_tracking_keeps_its_stale_values(shared: Path) -> None:
    values = read(shared / "data/openface/faults/face_gap_face.csv", 120)
    success = values[:, OPENFACE_COLUMNS.index("success")]
    assert success.sum() == 90
    assert not np.isnan(values).any()


def broken(recorded: Path, folder: Path, change) -> Path:
    path = folder / "broken.csv"
    path.write_bytes(change(recorded.read_bytes()))
    return path


def drop_line(content: bytes, number: int) -> bytes:
    lines = content.split(b"\n")
    return b"\n".join(lines[:number] + lines[number + 1 :])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: b"", "has 1 columns, not OpenFace's 714"),
        (lambda c: c.split(b"\n")[0] + b"\n", "has 0 rows, but 180 frames"),
        (lambda c: c[:-40], "line 181 has 708 fields, not 714|line 181 has 7.. fields"),
        (lambda c: c[:-1], "the last line has no end"),
        (lambda c: drop_line(c, 100), "row 100 has frame = 101, expected 100"),
        (lambda c: drop_line(c, 180), "has 179 rows, but 180 frames"),
        (lambda c: c + b"\n".join(c.split(b"\n")[-2:]), "has frame = 180, expected 181|more than 180 rows"),
        (lambda c: c.replace(b"0.98", b"high", 1), "invalid value 'high'"),
        (lambda c: b"\n".join(b",".join(x.split(b",")[:408]) for x in c.split(b"\n")), "has 408 columns"),
        (lambda c: c.replace(b"gaze_0_x", b"gaze_9_x", 1), "1 are missing, the first is 'gaze_0_x'"),
        (lambda c: c.replace(b", 1, ", b", 2, ", 1), "success = 2, expected 0 or 1|frame = "),
    ],
)
def test_output_that_is_not_whole_is_refused(recorded: Path, tmp_path: Path, change, message: str) -> None:
    with pytest.raises(OpenFaceOutputError, match=message):
        read(broken(recorded, tmp_path, change), 180)


@pytest.mark.parametrize(
    ("name", "frames", "message"),
    [
        ("default.enospc_truncated.csv", 180, "line 106 has 409 fields, not 714"),
        ("killed_midrun.partial.csv", 180, "has 63 rows, but 180 frames"),
        ("trunc.csv", 842, "has 448 rows, but 842 frames"),
        ("corrupt_mid.csv", 702, "has 659 rows, but 702 frames"),
        ("absent.csv", 1, "OpenFace wrote no such file"),
    ],
)
def test_what_the_real_tool_left_behind(shared: Path, name: str, frames: int, message: str) -> None:
    with pytest.raises(OpenFaceOutputError, match=message):
        read(shared / "data/openface/faults" / name, frames)


@pytest.mark.parametrize("cut", [200, 5000, -2000])
def test_a_damaged_archive_is_an_error(recorded: Path, tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(recorded.read_bytes())[:cut])
    with pytest.raises(OpenFaceOutputError):
        read(path, 180)


def test_numbers_openface_could_not_compute_become_nan(recorded: Path, tmp_path: Path) -> None:
    path = broken(recorded, tmp_path, lambda c: c.replace(b" 0.98,", b" -nan(ind),", 1).replace(b" 0.98,", b" nan,", 1))
    values = read(path, 180)
    assert np.isnan(values[:2, OPENFACE_COLUMNS.index("confidence")]).all()
    assert not np.isnan(values[2:, OPENFACE_COLUMNS.index("confidence")]).any()


# --- the tool as a process -------------------------------------------------------------------------------------------


def script(folder: Path, body: str) -> Path:
    path = folder / "FeatureExtraction"
    path.write_text("#!/bin/sh\n" + textwrap.dedent(body))
    path.chmod(0o755)
    return path


def test_a_tool_that_hangs_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    tool = script(tmp_path, "echo started; sleep 1000 & echo $! > child; wait\n")
    started = time.monotonic()
    result = run_tool([str(tool)], folder=tmp_path, timeout_s=1, environment=os.environ)
    assert result.timed_out
    assert time.monotonic() - started < 10
    assert result.output == "started"
    child = int((tmp_path / "child").read_text())
    wait_for(lambda: not alive(child))


def test_the_exit_code_and_the_end_of_what_was_printed_are_kept(tmp_path: Path) -> None:
    tool = script(tmp_path, f"yes {tmp_path}/x | head -c 5000000; echo the end >&2; exit 134\n")
    result = run_tool([str(tool)], folder=tmp_path, timeout_s=30, environment=os.environ)
    assert result.exit_code == 134
    assert result.output.endswith("the end")
    assert len(result.output) <= 4000


def test_a_tool_killed_by_a_signal_ends_as_a_shell_would_say(tmp_path: Path) -> None:
    result = run_tool([str(script(tmp_path, "kill -9 $$\n"))], folder=tmp_path, timeout_s=30, environment=os.environ)
    assert result.exit_code == 137


def test_the_tool_dies_with_the_process_that_runs_it(tmp_path: Path) -> None:
    tool = script(tmp_path, "echo $$ > pid; exec sleep 1000\n")
    code = f"""
        from pathlib import Path
        from tasks.tool_process import run_tool
        run_tool([{str(tool)!r}], folder=Path({str(tmp_path)!r}), timeout_s=100, environment={{}})
    """
    runner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    pid = int((tmp_path / "pid").read_text())
    assert alive(pid)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    wait_for(lambda: not alive(pid))


def test_a_command_that_does_not_exist_says_so(tmp_path: Path) -> None:
    result = run_tool(["/no/such/tool"], folder=tmp_path, timeout_s=30, environment=os.environ)
    assert result.exit_code == 1
    assert "cannot run /no/such/tool: No such file or directory" in result.output


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition, seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


# --- the extractor ---------------------------------------------------------------------------------------------------


def extract(study: Path, root: Path, session_id: str, **openface):
    from storyframes.study import load_study
    from tasks.extract import extract as do_work
    from tasks.extractors import ExtractorsSettings
    from tasks.plan import Selection, plan_extraction

    settings = ExtractorsSettings(openface=OpenFaceSettings(**openface))
    plan = plan_extraction(load_study(study), root, settings, Selection((session_id,), ("openface",)))
    outcomes = {outcome.feature: outcome for outcome in plan.settled}
    outcomes |= {outcome.feature: outcome for work in plan.work for outcome in do_work(work)}
    return outcomes["openface"]


def open_values(root: Path, session_id: str) -> np.ndarray:
    from storyframes.store import FeatureStore

    return FeatureStore(root).read(session_id, "openface")


def test_the_recorded_csv_of_the_demo(demo_study: Path, store_root: Path) -> None:
    outcome = extract(demo_study, store_root, "p01-s01")
    assert (outcome.status, outcome.rows) == ("done", 360)
    values = open_values(store_root, "p01-s01")
    expected = pd.read_csv(demo_study / "openface/p01-s01.csv.gz", skipinitialspace=True).to_numpy(np.float32)
    np.testing.assert_array_equal(values, expected)
    from storyframes.store import FeatureStore

    valid = FeatureStore(store_root).read("p01-s01", "openface", array="valid")
    assert valid.sum() == 349
    gaze = values[:, FEATURES["openface"].groups["gaze"]]
    np.testing.assert_allclose(np.linalg.norm(gaze[valid == 1, :3], axis=1), 1, atol=2e-3)


def replaying_tool(folder: Path, csv: Path, *, exit_code: int = 0, keep_lines: int | None = None) -> Path:
    """A stand-in for FeatureExtraction: writes a recorded CSV under the name the real tool would use."""
    keep = f"head -n {keep_lines}" if keep_lines else "cat"
    return script(
        folder,
        f"""
        while [ $# -gt 0 ]; do
            case "$1" in -f) input=$2; shift;; -out_dir) out=$2; shift;; esac; shift
        done
        name=$(basename "$input"); zcat -f '{csv}' | {keep} > "$out/${{name%.*}}.csv"
        echo "Attempting to read from file: $input"
        exit {exit_code}
        """,
    )


def test_the_binary_and_the_csv_publish_identical_arrays(study_copy: Path, store_root: Path, tmp_path: Path) -> None:
    extract(study_copy, store_root, "p01-s01")
    from_csv = open_values(store_root, "p01-s01")
    tool = replaying_tool(tmp_path, study_copy / "openface/p01-s01.csv.gz")
    outcome = extract(study_copy, store_root, "p01-s01", backend="binary", binary=tool)
    assert (outcome.status, outcome.skipped) == ("done", False)
    np.testing.assert_array_equal(open_values(store_root, "p01-s01"), from_csv)


def test_the_exit_code_is_not_believed(study_copy: Path, store_root: Path, tmp_path: Path) -> None:
    csv = study_copy / "openface/p01-s01.csv.gz"
    good = replaying_tool(tmp_path, csv, exit_code=1)
    assert extract(study_copy, store_root, "p01-s01", backend="binary", binary=good).status == "done"
    cut = replaying_tool(tmp_path, csv, exit_code=0, keep_lines=100)
    outcome = extract(study_copy, store_root, "p01-s01", backend="binary", binary=cut)
    assert outcome.status == "failed"
    assert "p01-s01.csv: has 99 rows, but 360 frames of the video decode" in outcome.reason
    assert open_values(store_root, "p01-s01").shape == (360, 714)  # the good version stays


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("exit 0", "FeatureExtraction ended with 0 and wrote no CSV"),
        ("echo 'out of memory'; kill -9 $$", "ended with 137 and wrote no CSV; it printed last: out of memory"),
        ("sleep 1000", "was stopped after 1 s, all the time it had"),
    ],
)
def test_a_tool_that_writes_nothing(
    study_copy: Path, store_root: Path, tmp_path: Path, body: str, message: str
) -> None:
    tool = script(tmp_path, body + "\n")
    outcome = extract(
        study_copy, store_root, "p01-s01", backend="binary", binary=tool, timeout_s=1, timeout_s_per_video_s=0.01
    )
    assert outcome.status == "failed"
    assert message in outcome.reason
    assert str(study_copy) not in outcome.reason


def test_names_with_anything_in_them_reach_the_tool(study_copy: Path, store_root: Path, tmp_path: Path) -> None:
    name = "take, one: 'α' \"b\" $(touch hacked) a.b.avi"
    shutil.move(study_copy / "videos/p01-s01.avi", study_copy / "videos" / name)
    sessions = pd.read_csv(study_copy / "sessions.csv")
    sessions.loc[0, "video"] = f"videos/{name}"
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    tool = replaying_tool(tmp_path, study_copy / "openface/p01-s01.csv.gz")
    assert extract(study_copy, store_root, "p01-s01", backend="binary", binary=tool).status == "done"


def test_one_processor_is_refused(study_copy: Path, store_root: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    tool = replaying_tool(tmp_path, study_copy / "openface/p01-s01.csv.gz")
    outcome = extract(study_copy, store_root, "p01-s01", backend="binary", binary=tool)
    assert "hangs for ever on one CPU" in outcome.reason


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backend": "binary"}, "needs binary"),
        ({"backend": "binary", "binary": "FeatureExtraction"}, "must be an absolute path"),
        ({"cpus": 1}, "greater than or equal to 2"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OpenFaceSettings(**settings)


def test_a_session_without_a_csv_is_missing_not_failed(study_copy: Path, store_root: Path) -> None:
    sessions = pd.read_csv(study_copy / "sessions.csv").drop(columns="openface")
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    outcome = extract(study_copy, store_root, "p01-s01")
    assert (outcome.status, outcome.reason) == (
        "missing",
        "the study names no OpenFace CSV for this session (backend = 'csv')",
    )
