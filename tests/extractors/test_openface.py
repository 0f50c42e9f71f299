from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from itertools import islice
from pathlib import Path

import av
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from support.messages import missing, naming
from support.tools.openface_tools import extract, open_values, replaying_tool, script

from storyframes.features import FEATURES, OPENFACE_COLUMNS
from tasks.extractors.openface.csv_output import OpenFaceOutputError, read_openface_csv
from tasks.extractors.openface.extractor import OpenFaceSettings
from tasks.media.synthesize import SyntheticStudy, write_study


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
        (lambda c: drop_line(c, 100), "row 101 has frame = 101, expected 100"),
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
        (
            "killed_midrun.partial.csv",
            63,
            "row 2 has AU06_r = -0.32, and intensities are 0 to 5: OpenFace was ended before",
        ),
        ("trunc.csv", 842, "has 448 rows, but 842 frames"),
        ("corrupt_mid.csv", 702, "has 659 rows, but 702 frames"),
        ("absent.csv", 1, "OpenFace wrote no such file"),
    ],
)
def test_what_the_real_tool_left_behind(shared: Path, name: str, frames: int, message: str) -> None:
    with pytest.raises(OpenFaceOutputError, match=message):
        read(shared / "data/openface/faults" / name, frames)


def test_arrows_threads_hold_no_object_of_pythons(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that they let go of while the interpreter ends aborts the process: rare, so what is given is looked at."""
    open_csv, given = pyarrow.csv.open_csv, []

    def recording(stream, **options):
        given.append((stream, options))
        return open_csv(stream, **options)

    monkeypatch.setattr(pyarrow.csv, "open_csv", recording)
    assert len(read(recorded, 180)) == 180
    [(stream, options)] = given
    assert isinstance(stream, pa.NativeFile)
    assert not isinstance(stream, pa.PythonFile)
    assert "parse_options" not in options


@pytest.mark.parametrize("cut", [200, 5000, -2000])
def test_a_damaged_archive_is_an_error(recorded: Path, tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(recorded.read_bytes())[:cut])
    with pytest.raises(OpenFaceOutputError):
        read(path, 180)


def with_cell(recorded: Path, folder: Path, row: int, **cells: str) -> Path:
    """The recorded CSV with other cells in one of its frames, counted from 0."""
    lines = recorded.read_text().splitlines(keepends=True)
    fields = lines[row + 1].rstrip("\n").split(",")
    for name, value in cells.items():
        fields[OPENFACE_COLUMNS.index(name)] = f" {value}"
    path = folder / "changed.csv"
    path.write_text("".join([*lines[: row + 1], ",".join(fields) + "\n", *lines[row + 2 :]]))
    return path


@pytest.mark.parametrize("row", [0, 90, 179])
def test_numbers_openface_could_not_compute_become_nan_where_it_tracked_nothing(
    recorded: Path, tmp_path: Path, row: int
) -> None:
    path = with_cell(recorded, tmp_path, row, success="0", confidence="-nan(ind)", gaze_0_x="nan", AU45_r="inf")
    changed = np.isnan(read(path, 180))
    assert [OPENFACE_COLUMNS[column] for column in np.flatnonzero(changed[row])] == ["confidence", "gaze_0_x", "AU45_r"]
    assert changed.sum() == 3


@pytest.mark.parametrize("row", [0, 90, 179])
@pytest.mark.parametrize(
    ("name", "cell", "message"),
    [
        ("gaze_0_x", "nan", "no number in gaze_0_x, although success = 1"),
        ("AU45_c", "-nan(ind)", "no number in AU45_c, although success = 1"),
        ("confidence", "-nan", "no number in confidence, although success = 1"),
        ("p_scale", "inf", "no number in p_scale, although success = 1"),
        ("confidence", "1.2", "confidence = 1.2, and confidences are 0 to 1"),
        ("confidence", "-0.1", "confidence = -0.1, and confidences are 0 to 1"),
        ("timestamp", "99", "timestamp = 99, and OpenFace counts"),
        ("timestamp", "-99", "timestamp = -99, and OpenFace counts"),
        ("timestamp", "nan", "timestamp = nan, and OpenFace counts"),
    ],
)
def test_a_cell_that_no_run_writes_is_refused(
    recorded: Path, tmp_path: Path, row: int, name: str, cell: str, message: str
) -> None:
    path = with_cell(recorded, tmp_path, row, **{name: cell})
    for time in (None, np.arange(180) / 15):
        with pytest.raises(OpenFaceOutputError, match=rf"changed.csv: row {row + 2} has {re.escape(message)}"):
            list(read_openface_csv(path, 180, time))


@pytest.mark.parametrize("fps", [0.5, 14.99, 29.97, 59.94, 240])
def test_timestamps_of_any_rate_are_believed(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fps: float
) -> None:
    """Rounded to milliseconds, as OpenFace writes them; several blocks."""
    monkeypatch.setattr("tasks.extractors.openface.csv_output._BLOCK_BYTES", 100_000)
    table = pd.read_csv(recorded, skipinitialspace=True)
    table["timestamp"] = (np.arange(180) / fps).round(3)
    table.to_csv(tmp_path / "x.csv", index=False)
    assert len(read(tmp_path / "x.csv", 180)) == 180


def test_timestamps_that_follow_the_frames_of_a_variable_rate_are_believed(recorded: Path, tmp_path: Path) -> None:
    time = np.cumsum(np.where(np.arange(180) % 7 == 0, 0.3, 0.05)) - 0.3
    table = pd.read_csv(recorded, skipinitialspace=True)
    table["timestamp"] = time.round(3)
    table.to_csv(tmp_path / "x.csv", index=False)
    assert sum(map(len, read_openface_csv(tmp_path / "x.csv", 180, time))) == 180
    with pytest.raises(OpenFaceOutputError, match=naming("timestamp = 0.6", "row 9")):
        read(tmp_path / "x.csv", 180)


# --- the extractor ---------------------------------------------------------------------------------------------------


def test_the_recorded_csv_of_the_demo(demo_study: Path, store_root: Path) -> None:
    outcome = extract(demo_study, store_root, "p01-s01")
    assert (outcome.status, outcome.rows) == ("done", 360)
    values = open_values(store_root, "p01-s01")
    expected = pd.read_csv(demo_study / "openface/p01-s01.csv.gz", skipinitialspace=True).to_numpy(np.float32)
    np.testing.assert_array_equal(values, expected)
    from storyframes.store.feature_store import FeatureStore

    valid = FeatureStore(store_root).read("p01-s01", "openface", array="valid")
    assert valid.sum() == 349
    gaze = values[:, FEATURES["openface"].groups["gaze"]]
    np.testing.assert_allclose(np.linalg.norm(gaze[valid == 1, :3], axis=1), 1, atol=2e-3)


@pytest.mark.end_to_end
def test_the_published_values_are_those_of_the_csv_to_the_bit(study_copy: Path, store_root: Path) -> None:
    assert extract(study_copy, store_root, "p01-s01").status == "done"
    expected = pd.read_csv(study_copy / "openface/p01-s01.csv.gz", skipinitialspace=True)
    np.testing.assert_array_equal(open_values(store_root, "p01-s01"), expected.to_numpy(np.float32))


def test_the_binary_and_the_csv_publish_identical_arrays(study_copy: Path, store_root: Path, tmp_path: Path) -> None:
    extract(study_copy, store_root, "p01-s01")
    from_csv = open_values(store_root, "p01-s01")
    tool = replaying_tool(tmp_path, study_copy / "openface/p01-s01.csv.gz")
    outcome = extract(study_copy, store_root, "p01-s01", backend="binary", binary=tool)
    assert (outcome.status, outcome.skipped) == ("done", False)
    np.testing.assert_array_equal(open_values(store_root, "p01-s01"), from_csv)


def test_an_ending_with_0_is_not_believed(study_copy: Path, store_root: Path, tmp_path: Path) -> None:
    csv = study_copy / "openface/p01-s01.csv.gz"
    assert extract(study_copy, store_root, "p01-s01").status == "done"
    cut = replaying_tool(tmp_path, csv, exit_code=0, keep_lines=100)
    outcome = extract(study_copy, store_root, "p01-s01", backend="binary", binary=cut)
    assert outcome.status == "failed"
    assert missing(outcome.reason, "99 rows", "360 frames", "p01-s01.csv") == []
    assert outcome.reason.endswith(" (FeatureExtraction ended with 0)")
    assert open_values(store_root, "p01-s01").shape == (360, 714)  # the good version stays


@pytest.mark.parametrize("exit_code", [1, 2, 134, 137])
def test_any_ending_but_0_fails_however_good_the_csv_looks(
    study_copy: Path, store_root: Path, tmp_path: Path, exit_code: int
) -> None:
    """Killed while it post-processes action units, the tool leaves all rows."""
    tool = replaying_tool(tmp_path, study_copy / "openface/p01-s01.csv.gz", exit_code=exit_code)
    outcome = extract(study_copy, store_root, "p01-s01", backend="binary", binary=tool)
    assert outcome.status == "failed"
    assert outcome.reason.startswith(f"p01-s01.avi: FeatureExtraction ended with {exit_code}; it printed last: Attempt")
    assert not (store_root / "p01-s01/openface/current.json").exists()


def test_the_version_says_how_the_tool_ended(study_copy: Path, store_root: Path, tmp_path: Path) -> None:
    from storyframes.store.feature_store import FeatureStore

    extract(study_copy, store_root, "p01-s01")
    assert FeatureStore(store_root).attributes("p01-s01", "openface")["exit_code"] is None  # it ran elsewhere
    tool = replaying_tool(tmp_path, study_copy / "openface/p01-s01.csv.gz")
    extract(study_copy, store_root, "p01-s01", backend="binary", binary=tool)
    assert FeatureStore(store_root).attributes("p01-s01", "openface")["exit_code"] == 0


@pytest.mark.parametrize("backend", ["csv", "binary"])
def test_action_units_that_were_not_post_processed_fail(
    shared: Path, study_copy: Path, store_root: Path, tmp_path: Path, backend: str
) -> None:
    """What the real tool left behind when it was killed, with a video of as many frames."""
    csv = shared / "data/openface/faults/killed_midrun.partial.csv"
    cut_video(study_copy / "videos/p01-s01.avi", frames=63)
    shutil.copy(csv, study_copy / "openface/killed.csv")
    sessions = pd.read_csv(study_copy / "sessions.csv")
    sessions.loc[0, "openface"] = "openface/killed.csv"
    sessions.to_csv(study_copy / "sessions.csv", index=False)
    settings = {"backend": "binary", "binary": replaying_tool(tmp_path, csv)} if backend == "binary" else {}
    outcome = extract(study_copy, store_root, "p01-s01", **settings)
    assert outcome.status == "failed"
    assert missing(outcome.reason, "row 2", "AU06_r = -0.32") == []
    assert not (store_root / "p01-s01/openface/current.json").exists()


def cut_video(path: Path, frames: int) -> None:
    whole = path.with_suffix(".whole.avi")
    shutil.move(path, whole)
    with av.open(str(whole)) as source, av.open(str(path), "w") as cut:
        stream = source.streams.video[0]
        copy = cut.add_stream_from_template(stream)
        for packet in islice(source.demux(stream), frames):
            packet.stream = copy
            cut.mux(packet)
    whole.unlink()


@pytest.mark.parametrize("name", [name for name in OPENFACE_COLUMNS if re.fullmatch(r"AU\d\d_r", name)])
@pytest.mark.parametrize(("row", "value"), [(0, "-0.01"), (179, "5.01")])
def test_every_intensity_of_every_row_is_looked_at(
    recorded: Path, tmp_path: Path, name: str, row: int, value: str
) -> None:
    lines = recorded.read_text().splitlines(keepends=True)
    fields = lines[row + 1].split(",")
    fields[OPENFACE_COLUMNS.index(name)] = f" {value}"
    path = tmp_path / "broken.csv"
    path.write_text("".join([*lines[: row + 1], ",".join(fields), *lines[row + 2 :]]))
    with pytest.raises(OpenFaceOutputError, match=naming(f"row {row + 2}", f"{name} = {value}")):
        read(path, 180)


@pytest.mark.parametrize("column", ["AU45_r", "face_id"])
def test_later_blocks_of_a_long_recording_are_looked_at_as_well(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    monkeypatch.setattr("tasks.extractors.openface.csv_output._BLOCK_BYTES", 20_000)
    lines = recorded.read_text().splitlines(keepends=True)
    assert len(list(read_openface_csv(recorded, 180))) > 10
    fields = lines[150].split(",")
    fields[OPENFACE_COLUMNS.index(column)] = " -3"
    path = tmp_path / "broken.csv"
    path.write_text("".join([*lines[:150], ",".join(fields), *lines[151:]]))
    with pytest.raises(OpenFaceOutputError, match=rf"row 151 has {column} = -3"):
        read(path, 180)


def multi_face(recorded: Path, folder: Path, ids: list[list[int]]) -> Path:
    """A CSV as FaceLandmarkVidMulti writes it: for each frame a row of each of its people."""
    header, *rows = recorded.read_text().splitlines()
    lines = [header]
    for row, people in zip(rows, ids, strict=False):
        frame, _, *rest = row.split(", ")
        lines += [", ".join([frame, str(person), *rest]) for person in people]
    path = folder / "multi.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (
            [[0, 1]] * 180,
            r"row 3 has face_id = 1, the first row has 0: these are several people, .*"
            r"\(face 0 in 180 rows, face 1 in 180 rows\).* give each person a row in the table tracks",
        ),
        (
            [[0]] * 90 + [[0, 2, 1]] * 90,
            r"row 93 has face_id = 2, the first row has 0.*\(face 0 in 180 rows, face 1 in 90 rows, face 2 in 90",
        ),
        ([[0]] * 90 + [[1]] * 90, r"row 92 has face_id = 1, the first row has 0"),
        ([[0], [1]] * 90, r"row 3 has face_id = 1, the first row has 0"),
    ],
)
def test_several_people_are_refused_and_called_so(recorded: Path, tmp_path: Path, ids, message: str) -> None:
    with pytest.raises(OpenFaceOutputError, match=message):
        read(multi_face(recorded, tmp_path, ids), 180)


@pytest.mark.parametrize(("off_s", "is_said"), [(0.0, False), (0.03, False), (0.04, True), (-0.4, True)])
def test_timestamps_that_are_not_the_frames_times_are_a_caveat(
    tmp_path: Path, store_root: Path, off_s: float, is_said: bool
) -> None:
    """At 15 fps half a frame is 0.033 s."""
    from storyframes.store.feature_store import FeatureStore

    study = tmp_path / "study"
    write_study(study, SyntheticStudy(sessions=1, seconds=2, width=64, height=48))
    path = study / "openface/s0001.csv.gz"
    table = pd.read_csv(path, skipinitialspace=True)
    table.loc[15:, "timestamp"] += np.linspace(0, off_s, 15)
    table.to_csv(path, index=False)
    assert extract(study, store_root, "s0001").status == "done"
    record = json.loads((store_root / "s0001/openface/current.json").read_bytes())
    assert ("timestamps that are not the frames' times" in record["stamps"]) == is_said
    assert record["quality"]["timestamp_off_s"] == pytest.approx(abs(off_s), abs=1e-3)
    stored = FeatureStore(store_root).read("s0001", "openface")[:, OPENFACE_COLUMNS.index("timestamp")]
    np.testing.assert_array_equal(stored, table["timestamp"].to_numpy(np.float32))


@pytest.mark.slow
def test_what_is_stored_beside_the_values_is_what_openface_wrote(demo_study: Path, store_root: Path) -> None:
    from storyframes.store.feature_store import FeatureStore

    for session_id in ("p01-s01", "p02-s01"):
        outcome = extract(demo_study, store_root, session_id)
        assert outcome.status == "done"
        table = pd.read_csv(demo_study / f"openface/{session_id}.csv.gz", skipinitialspace=True)
        store = FeatureStore(store_root)
        confidence = store.read(session_id, "openface", array="confidence")
        np.testing.assert_array_equal(confidence, table["confidence"].to_numpy(np.float32))
        np.testing.assert_array_equal(store.read(session_id, "openface", array="valid"), table["success"])
        assert set(np.unique(confidence)) - {0.0, 1.0}, "this recording does not tell confidence from success"
        quality = json.loads((store_root / session_id / "openface/current.json").read_bytes())["quality"]
        assert quality["face_confidence"] == pytest.approx(table["confidence"].mean(), abs=1e-6)
        assert quality["face_tracked"] == pytest.approx(table["success"].mean(), abs=1e-6)
        tracked = table[table["success"] == 1]
        x, y = (tracked[[f"{axis}_{number}" for number in range(68)]] for axis in "xy")
        assert quality["face_x_px"] == pytest.approx(x.mean(axis=1).median(), abs=1e-2)
        assert quality["face_y_px"] == pytest.approx(y.mean(axis=1).median(), abs=1e-2)
        assert quality["face_width_px"] == pytest.approx((x.max(axis=1) - x.min(axis=1)).median(), abs=1e-2)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("exit 0", "FeatureExtraction ended with 0 and wrote no CSV"),
        (
            "echo 'out of memory'; kill -9 $$",
            "p01-s01.avi: FeatureExtraction ended with 137; it printed last: out of memory",
        ),
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
    assert missing(outcome.reason, "CPU", "hangs") == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backend": "binary"}, "needs binary"),
        ({"backend": "binary", "binary": "FeatureExtraction"}, "must be an absolute path"),
        ({"loads": ["models"]}, "must be an absolute path"),
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
    assert outcome.status == "missing"
    assert not missing(outcome.reason, "the column openface", "--openface-csv", "backend = 'container'")


def test_a_trial_tells_the_speed_from_the_start(demo_study: Path, tmp_path: Path, monkeypatch) -> None:
    """By a clock that a tool of known speed turns: 3 s to start, a tenth of a second for each frame."""
    import contextlib

    from tasks.extractors.openface import tool as openface_tool
    from tasks.extractors.openface.tool import ToolOutput
    from tasks.media.recording import read_frame_times

    clock = [0.0]
    monkeypatch.setattr(openface_tool.time, "monotonic", lambda: clock[0])
    rows = gzip.decompress((demo_study / "openface/p01-s01.csv.gz").read_bytes()).splitlines(keepends=True)

    @contextlib.contextmanager
    def run(clip: Path):
        frames = len(read_frame_times(clip).time)
        csv = tmp_path / "out.csv"
        csv.write_bytes(b"".join(rows[: 1 + frames]))
        clock[0] += 3 + frames / 10
        yield ToolOutput(csv)

    checked = openface_tool.check_openface(run, demo_study / "videos/p01-s01.avi")
    assert (checked.frames, checked.largest_difference) == (30, 0)
    assert (checked.frames_per_s, checked.start_s) == (pytest.approx(10), pytest.approx(3))
