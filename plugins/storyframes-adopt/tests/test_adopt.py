"""Features that other programs made become versions like any other, with the values that the files have."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from storyframes_adopt.command import app as command
from support.messages import missing
from support.models.tiny_image_models import transformers_model
from support.stores import local
from support.studies import extract_session, make_study
from support.synthetic_features import FPS, StudySpec, SyntheticStudy, study_of, write_features
from support.synthetic_features import tables as study_tables
from support.systems.light_install import ONLY_WHAT_IS_DECLARED, light_modules
from support.systems.windows import AS_ON_WINDOWS
from support.tools.outside_programs import write_colours
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import ClipDataset, ClipInput, FeatureStore
from storyframes.store.maintenance import verify
from storyframes.store.storage.local_folder import LocalStorage
from tasks.study.study_identity import remember_study

PLUG_IN = Path(__file__).parents[1]
SESSIONS = ("s00", "s01")
Made = tuple[SyntheticStudy, dict[str, pd.DataFrame]]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A store, and beside it a table of each session: 25 rows a second, other numbers in every cell, a gap."""
    study = write_features(tmp_path / "features", StudySpec(sessions=2))
    tables = {}
    for number, session in enumerate(SESSIONS):
        end = len(study.arrays[session, "frames", "time"]) / FPS
        time = np.arange(0.011, end, 0.04)
        values = np.random.default_rng(number).normal(size=(len(time), 3))
        table = pd.DataFrame({"t": time, "yaw": values[:, 0], "pitch": values[:, 1], "roll": values[:, 2]})
        table.loc[3, "pitch"] = np.nan
        table.loc[5:9, ["yaw", "pitch", "roll"]] = np.nan
        tables[session] = table
        table.to_csv(tmp_path / f"{session}_gaze.csv", index=False)
    return study, tables


def adopt(*arguments: object, code: int = 0) -> str:
    ended = CliRunner().invoke(command, [*map(str, arguments)])
    assert ended.exit_code == code, ended.output
    return ended.output


def way(tmp_path: Path) -> list[object]:
    return [tmp_path / "features", tmp_path / "*_gaze.csv", "--name", "head", "--time", "t", "--session-from",
            "{session}_gaze.csv"]  # fmt: skip


@pytest.mark.slow
def test_a_lab_s_csvs_become_a_feature_and_clips(made: Made, tmp_path: Path) -> None:
    study, tables = made
    said = adopt(*way(tmp_path), "--dry-run")
    rows = len(tables["s01"])
    last = tables["s01"]["t"].iloc[-1]
    assert missing(said, "s01", rows, "3 columns", "0.011 to", f"{last:g}") == []
    assert "nothing is published" in said
    assert not FeatureStore(study.root).has("s00", "head")
    adopt(*way(tmp_path))
    store = FeatureStore(study.root)
    for session, table in tables.items():
        np.testing.assert_array_equal(store.read(session, "head"), table[["yaw", "pitch", "roll"]].astype(np.float32))
        np.testing.assert_array_equal(store.read(session, "head", array="time"), table["t"])
        np.testing.assert_array_equal(np.flatnonzero(store.read(session, "head", array="measured") == 0), range(5, 10))
        assert store.columns(session, "head") == ("yaw", "pitch", "roll")
        assert store.attributes(session, "head")["stamps"] == ["made elsewhere"]
        current = (study.root / session / "head/current.json").read_text()
        assert str(tmp_path) not in current
        assert "_gaze" not in current
    assert not list(verify(LocalStorage(study.root)))
    dataset = ClipDataset(study.root, [ClipInput("head")])
    for number in (0, 7):
        clip, row = dataset[number], dataset.clips.iloc[number]
        frames = study.arrays[row["session_id"], "frames", "time"][row["start_frame"] : row["stop_frame"]]
        table = tables[row["session_id"]]
        nearest = np.abs(table["t"].to_numpy()[None] - frames[:, None]).argmin(axis=1)
        np.testing.assert_array_equal(
            clip["head"], table[["yaw", "pitch", "roll"]].to_numpy(np.float32)[nearest], str(number)
        )
        np.testing.assert_array_equal(clip["head_mask"], ~np.isin(nearest, range(5, 10)))


@pytest.mark.slow
def test_what_is_adopted_is_shown_and_exported(made: Made, tmp_path: Path) -> None:
    adopt(*way(tmp_path))
    run = CliRunner()
    status = json.loads(run.invoke(app, ["status", str(made[0].root), "--json"]).output)["features"]
    (entry,) = [one for one in status if (one["session_id"], one["feature"]) == ("s00", "head")]
    assert entry["caveats"] == ["made elsewhere"]
    shown = run.invoke(app, ["show", str(made[0].root), "s00", "--json"])
    assert shown.exit_code == 0
    assert "head" in shown.output
    exported = run.invoke(app, ["export", str(made[0].root), "--out", str(tmp_path / "out"), "--features", "head"])
    assert exported.exit_code == 0, exported.output
    table = pq.read_table(tmp_path / "out/s01/head.parquet").to_pandas()
    np.testing.assert_array_equal(table["roll"], made[1]["s01"]["roll"].astype(np.float32))
    np.testing.assert_array_equal(table["time"], made[1]["s01"]["t"])


@pytest.mark.slow
def test_a_version_is_replaced_where_its_file_changed_or_by_force(made: Made, tmp_path: Path) -> None:
    adopt(*way(tmp_path))
    store = FeatureStore(made[0].root)
    before = {session: store.version(session, "head") for session in SESSIONS}
    made[1]["s01"].assign(roll=7.5).to_csv(tmp_path / "s01_gaze.csv", index=False)
    said = adopt(*way(tmp_path))
    assert "s00: up to date" in said
    assert "s01: replaced" in said
    store = FeatureStore(made[0].root)
    assert store.version("s00", "head") == before["s00"]
    assert set(store.read("s01", "head")[:5, 2].tolist()) == {7.5}
    other = [*way(tmp_path), "--mask", "yaw"]
    assert missing(adopt(*way(tmp_path), "--columns", "roll", code=2), "--force", "another") == []
    assert missing(adopt(*other, code=2), "'yaw'", "row 1") == []
    first, _, *options = way(tmp_path)
    alone = [first, tmp_path / "s01_gaze.csv", *options, "--columns", "roll", "--force"]
    assert missing(adopt(*alone, code=2), "s00/head", "sessions") == []
    adopt(*way(tmp_path), "--columns", "roll", "--force")
    assert FeatureStore(made[0].root).read("s00", "head").shape[1] == 1


def test_embeddings_of_parquet_and_numpy_have_a_row_for_each_frame_or_a_rate(made: Made, tmp_path: Path) -> None:
    frames = len(made[0].arrays["s00", "frames", "time"])
    vectors = np.random.default_rng(5).normal(size=(frames, 4)).astype(np.float32)
    success = np.arange(frames) % 3 != 0
    table = pa.table({"success": success, "vector": pa.array(vectors.tolist(), pa.list_(pa.float32()))})
    pq.write_table(table, tmp_path / "s00.parquet")
    adopt(tmp_path / "features", tmp_path / "s00.parquet", "--name", "faces", "--per-frame", "--mask", "success",
          "--columns", "vector")  # fmt: skip
    np.save(tmp_path / "s00.npy", vectors[:40])
    adopt(tmp_path / "features", tmp_path / "s00.npy", "--name", "voice", "--rate", 10, "--columns", "3,0")
    store = FeatureStore(made[0].root)
    np.testing.assert_array_equal(store.read("s00", "faces"), vectors)
    np.testing.assert_array_equal(store.read("s00", "faces", array="measured"), success)
    assert store.columns("s00", "faces")[1] == "vector_001"
    np.testing.assert_array_equal(store.read("s00", "voice"), vectors[:40, [3, 0]])
    np.testing.assert_array_equal(store.read("s00", "voice", array="time"), np.arange(40) / 10)
    assert "time" not in store.spec("s00", "faces").arrays


def _of_text(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(roll="my secret")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda table: table.assign(t=table["t"] * 1000), "s01_gaze.csv: row 1: is at 11 s, outside of the recording"),
        (lambda table: table.assign(t=table["t"] * 1000), "since its first frame: are they in ms? Say --time-unit ms"),
        (
            lambda table: table.assign(t=table["t"] / 60),
            "s01_gaze.csv: its last row is at 0.0661833, and the recording of s01 ends at 4.00 s: are they in min? Say "
            "--time-unit min; --time-unit s, where they are seconds",
        ),
        (lambda table: table.assign(t=range(len(table))), "are they numbers of frames? Divide them by the rate"),
        (lambda table: table.head(3).assign(t=range(3)), "the recording of s01 ends at 4.00 s: are they numbers of fr"),
        (lambda table: table.assign(t=table["t"] - 1), "s01_gaze.csv: row 1: is at -0.989 s, outside of the recording"),
        (lambda table: table.assign(t=table["t"].round(1)), "s01_gaze.csv: row 3: is at 0.1 s, after a row at 0.1 s"),
        (lambda table: table.drop(columns="t"), "s01_gaze.csv: has no column 't'; it has yaw, pitch, roll"),
        (_of_text, "s01_gaze.csv: the column 'roll' is string, not numbers"),
        (lambda table: table.assign(roll=np.inf), "s01_gaze.csv: row 1: 'roll' is inf, which float32 does not hold"),
        (lambda table: table.assign(roll=2**24 + 1), "'roll' has whole numbers above 16777216"),
        (lambda table: table.drop(columns="roll"), "s01_gaze.csv: has other columns than s00_gaze.csv"),
    ],
)
def test_one_file_that_cannot_be_adopted_keeps_all_out(
    made: Made, tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame], rule: str
) -> None:
    change(made[1]["s01"]).to_csv(tmp_path / "s01_gaze.csv", index=False)
    said = adopt(*way(tmp_path), code=2)
    assert rule in said
    assert "secret" not in said
    assert not FeatureStore(made[0].root).has("s00", "head")


def test_no_row_of_a_file_without_times_is_lost_or_moves(made: Made, tmp_path: Path) -> None:
    store, csv = tmp_path / "features", tmp_path / "s00.csv"
    frames = len(made[0].arrays["s00", "frames", "time"])
    rows = [str(number / 7) for number in range(frames)]
    csv.write_text("\n".join(rows) + "\n")
    way = [store, csv, "--name", "yaw"]
    assert missing(adopt(*way, "--rate", FPS, code=2), "numbers", "header") == []
    csv.write_text("\n".join(f"{row},,{row}" for row in rows) + "\n")
    assert missing(adopt(*way, "--rate", FPS, code=2), "numbers", "header") == []
    rows[4] = ""  # not measured
    csv.write_text("\n".join(["yaw", *rows]) + "\n")
    for when in ("--per-frame", f"--rate={FPS}"):
        adopt(*way, when, "--force")
        values = FeatureStore(store).read("s00", "yaw")[:, 0]
        np.testing.assert_array_equal(values[5:], np.float32(np.arange(5, frames) / 7), when)
        np.testing.assert_array_equal(np.flatnonzero(np.isnan(values)), [4])
    pd.DataFrame(np.ones((frames, 2))).to_csv(csv)
    adopt(store, csv, "--name", "by_pandas", "--per-frame")
    assert FeatureStore(store).columns("s00", "by_pandas") == ("0", "1")


@pytest.mark.parametrize(("unit", "in_a_second"), [("ms", 1_000), ("us", 1_000_000), ("min", 1 / 60)])
def test_times_in_another_unit_are_stored_in_seconds(made: Made, tmp_path: Path, unit: str, in_a_second: float) -> None:
    times = made[1]["s00"]["t"]
    in_unit = times * in_a_second if unit == "min" else (times * in_a_second).round().astype("int64")
    made[1]["s00"].assign(t=in_unit).to_csv(tmp_path / "s00.csv", index=False)
    adopt(tmp_path / "features", tmp_path / "s00.csv", "--name", "head", "--time", "t", "--time-unit", unit)
    np.testing.assert_allclose(FeatureStore(made[0].root).read("s00", "head", array="time"), times, rtol=1e-12)


def test_seconds_of_a_recording_s_beginning_are_taken_where_it_is_said(made: Made, tmp_path: Path) -> None:
    pd.DataFrame({"t": [0.01, 0.02], "yaw": [1.5, 2.5]}).to_csv(tmp_path / "s00.csv", index=False)
    way = [tmp_path / "features", tmp_path / "s00.csv", "--name", "head"]
    assert "are they in min?" in adopt(*way, "--time", "t", code=2)
    assert missing(adopt(*way, "--rate", 25, "--time-unit", "min", code=2), "--time-unit", "--time", "COLUMN") == []
    adopt(*way, "--time", "t", "--time-unit", "s")
    assert FeatureStore(made[0].root).read("s00", "head", array="time").tolist() == [0.01, 0.02]


def test_whole_numbers_that_float32_does_not_hold_are_refused_beside_a_gap(made: Made, tmp_path: Path) -> None:
    change = made[1]["s01"].assign(roll=pd.array([pd.NA] + [2**24 + 1] * (len(made[1]["s01"]) - 1), "Int64"))
    change.to_csv(tmp_path / "s01_gaze.csv", index=False)
    assert missing(adopt(*way(tmp_path), code=2), "'roll'", "above 16777216") == []


def test_a_rate_that_leaves_the_recording_s_end_without_rows_is_refused(made: Made, tmp_path: Path) -> None:
    end = len(made[0].arrays["s00", "frames", "time"]) / FPS
    np.save(tmp_path / "s00.npy", np.ones((round(25 * end), 2)))
    vectors = [tmp_path / "features", tmp_path / "s00.npy", "--name", "vectors", "--rate"]
    said = adopt(*vectors, 50, code=2)
    assert missing(said, f"{25 * end:g}", "50 a", f"{end / 2:.2f}", "s00", f"{end:.2f}") == []
    assert missing(said, "25 meant", "--time") == []
    adopt(*vectors, 25)


def test_the_file_of_one_session_is_not_taken_for_another_s(made: Made, tmp_path: Path) -> None:
    theirs = (tmp_path / "s01_gaze.csv").read_bytes()
    (tmp_path / "s01_gaze.csv").write_bytes((tmp_path / "s00_gaze.csv").read_bytes())
    assert missing(adopt(*way(tmp_path), code=2), "s01_gaze.csv", "s00") == []
    store, _, *options = way(tmp_path)
    adopt(store, tmp_path / "s00_gaze.csv", *options)
    assert missing(adopt(store, tmp_path / "s01_gaze.csv", *options, code=2), "s01_gaze.csv", "s00") == []
    (tmp_path / "s01_gaze.csv").write_bytes(theirs)
    adopt(*way(tmp_path))


@pytest.mark.slow
def test_an_extraction_does_not_replace_what_was_adopted(tmp_path: Path) -> None:
    study = make_study(tmp_path / "study", video="s.avi")
    write_colours(study / "s.avi", 30)
    store, _ = extract_session(study, tmp_path / "features", "frames")
    values = np.random.default_rng(3).normal(size=(len(store.read("s", "frames", array="time")), 2)).astype(np.float32)
    np.save(tmp_path / "s.npy", values)
    adopt(tmp_path / "features", tmp_path / "s.npy", "--name", "tiny", "--per-frame")
    model = transformers_model(tmp_path / "model", "vit")
    section = {"name": "tiny", "kind": "image", "source": f"path:{model}", "engine": "torch"}
    store, outcomes = extract_session(study, tmp_path / "features", "frames", "tiny", embed=[section])
    assert outcomes["tiny"].failed
    assert missing(outcomes["tiny"].reason, "'tiny'", "replaced") == []
    np.testing.assert_array_equal(store.read("s", "tiny"), values)


def test_what_would_take_another_s_place_or_run_code_is_refused(made: Made, tmp_path: Path) -> None:
    store = tmp_path / "features"
    (tmp_path / "s00.pt").write_bytes(b"")
    assert missing(adopt(store, tmp_path / "s00.pt", "--name", "mmsa", "--rate", 10, code=2), "pickle", "opening") == []
    np.save(tmp_path / "s00.npy", np.array([{"a": 1}]), allow_pickle=True)
    assert "cannot be read" in adopt(store, tmp_path / "s00.npy", "--name", "mmsa", "--rate", 10, code=2)
    (tmp_path / "s00.parquet").write_bytes(b"PAR1" + b"?" * 40 + b"PAR1")
    assert "s00.parquet: cannot be read" in adopt(store, tmp_path / "s00.parquet", "--name", "x", "--rate", 10, code=2)
    (tmp_path / "s00.csv").write_text("t;yaw\n0.1;3.5\n")
    assert "has semicolons" in adopt(store, tmp_path / "s00.csv", "--name", "x", "--time", "t", code=2)
    (tmp_path / "s00.csv").write_text("t,höhe\n0.1,3.5\n", encoding="latin1")
    assert "s00.csv: cannot be read" in adopt(store, tmp_path / "s00.csv", "--name", "x", "--time", "t", code=2)
    ragged = pa.table({"v": pa.array([[1.0, 2.0], None, [3.0]], pa.list_(pa.float32()))})
    pq.write_table(ragged, tmp_path / "s00.parquet")
    assert "are not of one length" in adopt(store, tmp_path / "s00.parquet", "--name", "x", "--rate", 10, code=2)
    np.save(tmp_path / "s00.npy", np.zeros((3, 2)))
    one = [store, tmp_path / "s00.npy"]
    assert "is a feature of storyframes" in adopt(*one, "--name", "openface", "--rate", 10, code=2)
    assert missing(adopt(*one, "--name", "mmsa", code=2), "--time", "COLUMN", "--rate", "HZ", "--per-frame") == []
    assert missing(adopt(*one, "--name", "mmsa", "--per-frame", code=2), "3 rows", "60 frames", "s00") == []
    assert "nobody.npy: no such file" in adopt(store, tmp_path / "nobody.npy", "--name", "x", "--rate", 1, code=2)
    np.save(tmp_path / "s01.npy", np.zeros((0, 2)))
    assert "has no rows" in adopt(store, tmp_path / "s01.npy", "--name", "x", "--rate", 1, code=2)
    assert missing(adopt(*one, "--name", "mmsa", "--rate", 1, "--session", "s09", code=2), "'s09'", "session") == []
    assert missing(adopt(*one, "--name", "mmsa", "--rate", 1, "--track", "cam", code=2), "s00", "nothing") == []


def test_a_release_says_that_it_was_made_elsewhere_and_names_no_file(made: Made, tmp_path: Path) -> None:
    adopt(*way(tmp_path), "--about", "by Anna")
    remember_study(local(made[0].root), study_of(study_tables(StudySpec(sessions=2), SESSIONS)))
    texts = "".join(f'{name} = "CC0-1.0"\n' for name in ("title", "description", "license", "version"))
    allowed = 'authors = ["A"]\nallow_biometric = true\nallow_text_vectors = true\n'
    (tmp_path / "r.toml").write_text(f'{texts}{allowed}[features]\nframes = "all"\nhead = ["yaw", "roll"]\n')
    out = tmp_path / "given"
    made_it = CliRunner().invoke(
        app, ["release", "make", str(made[0].root), "--out", str(out), "--config", str(tmp_path / "r.toml")]
    )
    assert made_it.exit_code == 0, made_it.output
    assert "made elsewhere" in (out / "README.md").read_text()
    released = FeatureStore(out / "features")
    tables = [table[["yaw", "roll"]].to_numpy(np.float32) for table in made[1].values()]
    for session in released.sessions:
        values = released.read(session, "head")
        assert sum(np.array_equal(values, table, equal_nan=True) for table in tables) == 1
    for path in out.rglob("*"):
        assert not path.is_file() or not any(word in path.read_bytes() for word in (b"Anna", b"_gaze", bytes(tmp_path)))


@pytest.mark.slow
def test_it_runs_with_what_it_declares_alone_and_on_windows_publishes_nothing(made: Made, tmp_path: Path) -> None:
    modules = ",".join(sorted(light_modules(of=PLUG_IN) | {"flows", "tasks", "storyframes_adopt"}))
    options = list(map(str, way(tmp_path)))
    for system, code, expected in (
        (AS_ON_WINDOWS, 2, "has none of the locks that keep two writers apart"),
        ("", 0, "s01: new: "),
    ):
        script = f"{ONLY_WHAT_IS_DECLARED}{system}\nfrom storyframes_adopt.command import app\ndel sys.argv[1:3]\napp()"
        command = [sys.executable, "-c", script, "", modules, *options]
        result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert (result.returncode, expected in result.stdout + result.stderr) == (code, True), result.stderr
