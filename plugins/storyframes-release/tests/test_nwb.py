"""NWB files, read again by pynwb: every value and time is that of the store, and rows without a measurement are NaN."""

from __future__ import annotations

import json
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from storyframes_mediapipe.extractor import SPEC as MEDIAPIPE
from support.messages import missing
from support.stores import local, publish_arrays
from support.synthetic_features import random_features
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import FEATURES, FeatureSpec, FeatureStore, ticks
from storyframes.label_curves import curve_spec
from storyframes.store import SessionTimes, compact
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes_dyads.turn_feature import SPEC as TURNS
from storyframes_release.nwb.run import export_nwb
from storyframes_release.nwb.session_file import UNKNOWN_START

pytestmark = [pytest.mark.slow, pytest.mark.needs("pynwb", "ndx_pose")]

FRAMES, FPS, SESSION = 800, 15, "p01-s01"  # more rows than columns: nwbinspector takes others for the wrong way round
LABELS = [
    ("smile", 0.5, 1.250001, "", "r1"),
    ("nod", 1.0, 2.0, "", "r1"),
    ("nod", 1.5, 1.5, "", "r2"),
    ("nod", 1.5, 1.5, "", "r3"),
    ("smile", 3.0, 4.0, "cam2", "r2"),
]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def export(lab: Path, out: Path, *options: object) -> Result:
    return run(
        "export", lab / "features", "--out", out, "--format", "nwb", "--study", lab / "study", "--session", SESSION,
        *options,
    )  # fmt: skip


def write(root: Path, spec: FeatureSpec, arrays: dict[str, np.ndarray], track: str = "main", **more: Any) -> None:
    with FeatureWriter(local(root), SESSION, spec, track=track) as out:
        for name, rows in arrays.items():
            out.write(name, rows)
        out.attributes |= more
        out.publish("f" * 64, {"inputs": {}})


def of_pose(spec: FeatureSpec, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Random rows of each array; a third of the rows is masked, and has numbers that are no measurements."""
    arrays = {}
    for name, array in spec.arrays.items():
        if str(array.axis) == "frame":
            is_whole = np.dtype(array.dtype).kind in "iu"
            rows = generator.integers(0, 3, (FRAMES, *array.shape)) if is_whole else generator.normal(
                300, 50, (FRAMES, *array.shape)
            )  # fmt: skip
            arrays[name] = rows.astype(array.dtype)
    arrays[spec.mask] = (np.arange(FRAMES) % 3 != 0).astype(np.uint8)
    return arrays


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo study with labels and a track with a clock, and a store with random features of one session."""
    folder = tmp_path_factory.mktemp("lab")
    root, study = folder / "features", folder / "study"
    shutil.copytree("demo/study", study)
    (study / "schemes.csv").write_text("scheme,type,labels\nact,nominal,smile|nod\n")
    lines = [f"{SESSION},act,{value},{start},{end},{track},{rater}" for value, start, end, track, rater in LABELS]
    (study / "labels.csv").write_text("\n".join(["session_id,scheme,value,start_s,end_s,track,rater_id", *lines]))
    (study / "tracks.csv").write_text(f"session_id,track,video,clock\n{SESSION},cam2,videos/p01-s02.avi,cam2\n")
    clock = [f"{SESSION},cam2,0,2.5", f"{SESSION},cam2,100,102.503"]
    (study / "clocks.csv").write_text("\n".join(["session_id,clock,clock_s,session_s", *clock]))
    create_store(root)
    generator = np.random.default_rng(3)
    features = random_features(generator, FRAMES)
    write(root, FEATURES["frames"], {"time": np.arange(FRAMES) / FPS + generator.random(FRAMES) / 1000})
    for name in ("openface", "opensmile", "glove", "sbert"):
        speakers = {"speakers": ["participant", "robot"]} if "speaker" in features[name] else {}
        rows = {array: np.clip(of, 0, 1) if array == "speaker" else of for array, of in features[name].items()}
        write(root, FEATURES[name], rows, **speakers)
    for spec in (FEATURES["dope"], MEDIAPIPE):
        write(root, spec, of_pose(spec, generator))
    seconds = np.arange(40)
    spoken = np.stack([seconds < 20, seconds >= 20] * 3, axis=1).astype(np.float32)
    write(root, TURNS, {"values": spoken, "time": seconds / 10, "valid": np.ones(40, np.uint8)})
    curve = {"values": generator.random(900), "time": np.arange(900) / 20, "raters": np.ones(900, np.int16)}
    write(root, curve_spec("label.valence"), {name: of.astype(curve_spec("label.valence").arrays[name].dtype)
                                              for name, of in curve.items()})  # fmt: skip
    write(root, FEATURES["frames"], {"time": np.arange(FRAMES) / FPS}, "cam2")
    compact(local(root))
    result = run("index", study, root)
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="module")
def exported(lab: Path) -> Path:
    result = export(lab, lab / "out")
    assert result.exit_code == 0, result.output
    return lab / "out"


@pytest.fixture(scope="module")
def nwb(exported: Path) -> Iterator[Any]:
    """The file of the session as pynwb reads it."""
    import pynwb

    with pynwb.NWBHDF5IO(exported / f"{SESSION}.nwb", "r") as file:
        yield file.read()


def expected_rows(table: Any) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The keys and flat arrays of a table, NaN where a row is not a measurement."""
    (block,) = [table.read(0, table.rows)]
    mask = block.keys["mask"].astype(bool)
    arrays = {}
    for name, rows in block.flat.items():
        arrays[name] = rows.astype(np.float64)
        if name != table.mask.array:
            arrays[name][~mask] = np.nan
    return block.keys, arrays


def test_every_value_and_time_is_read_again(lab: Path, nwb: Any) -> None:
    store, counts = FeatureStore(lab / "features"), Counter[str]()
    times = SessionTimes(store, SESSION)
    behavior, intervals = nwb.processing["behavior"], nwb.intervals
    for table in (of for name in store.features(SESSION) for of in store.feature_tables(SESSION, name, times=times)):
        keys, arrays = expected_rows(table)
        if "time" not in keys or not table.rows:
            continue
        points = positions(table)
        for array, expected in arrays.items():
            name = table.name if array == "values" else f"{table.name}.{array}"
            columns = [column.name for column in table.columns if column.array == array]
            if table.name in intervals:
                read = np.asarray(intervals[table.name][array].data[:], np.float64).reshape(expected.shape)
                np.testing.assert_array_equal(read, expected)
                np.testing.assert_array_equal(intervals[table.name]["stop_time"].data[:], keys["end"])
                np.testing.assert_array_equal(intervals[table.name]["start_time"].data[:], keys["time"])
                counts["intervals"] += read.size
                continue
            of_pose = points.get(array, {})
            for pose, places in of_pose.items():
                for point, series in behavior[pose].pose_estimation_series.items():
                    np.testing.assert_array_equal(series.data[:], expected[:, places[point]].astype(np.float32))
                    np.testing.assert_array_equal(series.timestamps[:], keys["time"])
                    counts["poses"] += series.data.size
                    counts["times"] += len(series.timestamps)
            in_poses = {place for of in of_pose.values() for places in of.values() for place in places}
            kept = [place for place in range(len(columns)) if place not in in_poses]
            if kept:
                series = behavior[name]
                read = np.asarray(series.data[:], np.float64).reshape(len(keys["time"]), -1)
                np.testing.assert_array_equal(read, expected[:, kept])
                np.testing.assert_array_equal(series.timestamps[:], keys["time"])
                counts["series"] += read.size
                counts["times"] += len(series.timestamps)
                if table.arrays[array].shape:
                    described = behavior[f"{name}.columns"]["column"].data[:].tolist()
                    assert described == [columns[place] for place in kept]
    assert counts["poses"] > 1_000_000
    assert counts["series"] > 500_000
    assert counts["intervals"] > 5_000
    assert counts["times"] > 500_000


def positions(table: Any) -> dict[str, dict[str, dict[str, list[int]]]]:
    """By array and pose, the places of each point, found by the names of the columns."""
    found: dict[str, dict[str, dict[str, list[int]]]] = {}
    for array, spec in table.arrays.items():
        columns = [column for column in table.columns if column.array == array]
        if spec.joints:
            for column in columns:
                point = column.name.removeprefix(f"{array}.").rpartition(".")[0]
                found.setdefault(array, {}).setdefault(f"{table.name}.{array}", {}).setdefault(point, []).append(
                    column.place
                )
        elif table.feature.startswith("openface") and array == "values":
            names = [column.name for column in columns]
            for pose, axes in (("landmarks_2d", "xy"), ("landmarks_3d", "XYZ")):
                found.setdefault(array, {})[f"{table.feature}.{pose}"] = {
                    str(point): [names.index(f"{axis}_{point}") for axis in axes] for point in range(68)
                }
    return found


def test_frames_of_every_track_have_their_times(lab: Path, nwb: Any) -> None:
    store = FeatureStore(lab / "features")
    behavior = nwb.processing["behavior"]
    np.testing.assert_array_equal(behavior["frames"].timestamps[:], store.read(SESSION, "frames", array="time"))
    np.testing.assert_array_equal(behavior["frames"].data[:], np.arange(FRAMES))
    device = np.arange(FRAMES) / FPS
    expected = ticks(2.5 + device * (102.503 - 2.5) / 100)
    np.testing.assert_array_equal(ticks(behavior["frames@cam2"].timestamps[:]), expected)


def test_labels_of_every_track_are_in_the_session_s_seconds(nwb: Any) -> None:
    labels = nwb.intervals["annotations.labels"].to_dataframe()
    rows = [(row.label, *ticks([row.start_time, row.stop_time]).tolist(), row.rater) for row in labels.itertuples()]
    assert sorted(rows) == [
        ("nod", 1_000_000, 2_000_000, "r1"),
        ("nod", 1_500_000, 1_500_000, "r2"),
        ("nod", 1_500_000, 1_500_000, "r3"),
        ("smile", 500_000, 1_250_001, "r1"),
        ("smile", 5_500_090, 6_500_120, "r2"),  # of cam2, whose clock begins 2.5 s later and is 30 ppm slow
    ]


def test_poses_say_their_unit_and_confidence(lab: Path, nwb: Any) -> None:
    store = FeatureStore(lab / "features")
    behavior = nwb.processing["behavior"]
    units = {
        name: {series.unit for series in behavior[name].pose_estimation_series.values()}
        for name in ("openface.landmarks_2d", "openface.landmarks_3d", "dope.hands_3d", "mediapipe.body_3d")
    }
    assert units == dict(zip(units, ({"pixels"}, {"millimeters"}, {"not stated"}, {"meters"}), strict=True))
    measured = store.read(SESSION, "dope", array="sampled") == 1
    for side in (0, 1):
        series = behavior["dope.hands_2d"].pose_estimation_series[f"{side}.thumb_tip"]
        score = np.where(measured, store.read(SESSION, "dope", array="hands_score")[:, side], np.float32(np.nan))
        np.testing.assert_array_equal(series.confidence[:], score)
        assert "can exceed 1" in series.confidence_definition
    series = behavior["mediapipe.body_2d"].pose_estimation_series
    visibility = store.read(SESSION, "mediapipe", array="body_visibility")
    found = store.read(SESSION, "mediapipe", array="found") == 1
    for column, point in enumerate(behavior["mediapipe.body_2d"].skeleton.nodes[:]):
        np.testing.assert_array_equal(series[point].confidence[:][found], visibility[found, column])
    assert behavior["mediapipe.face_2d"].pose_estimation_series["left_iris_0"].confidence is None


def test_the_file_names_the_participant_alone_and_says_what_its_start_is(lab: Path, exported: Path, nwb: Any) -> None:
    import pynwb

    path = exported / f"{SESSION}.nwb"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert nwb.session_start_time == datetime(2024, 2, 12, 18, 30, tzinfo=UTC)
    assert (nwb.session_id, nwb.subject.subject_id, nwb.subject.age) == (SESSION, "p01", "P0D/")
    assert nwb.experimenter is None
    content = path.read_bytes()
    assert not any(text in content for text in (b"p01-s01.avi", bytes(lab)))
    table = (lab / "study/sessions.csv").read_text()
    starts = {
        "": UNKNOWN_START,
        "2024-02-12T18:30": datetime(2024, 2, 12, 18, 30, tzinfo=UTC),
        "2024-02-12": datetime(2024, 2, 12, tzinfo=UTC),
    }
    for written, expected in starts.items():
        (lab / "study/sessions.csv").write_text(table.replace("2024-02-12T18:30:00Z", written))
        done = export_nwb(FeatureStore(lab / "features"), lab / "study", lab / "part", sessions=[SESSION],
                          features=["frames", "label.valence"], replace=True)  # fmt: skip
        with pynwb.NWBHDF5IO(lab / "part" / path.name, "r") as file:
            part = file.read()
            assert part.session_start_time == expected
            assert missing(part.session_description, "placeholder") == []
        assert missing(done.starts[path.name], "not known") == []
    (lab / "study/sessions.csv").write_text(table)


def test_who_left_the_study_and_what_cannot_be_read_is_in_no_file(lab: Path, tmp_path: Path) -> None:
    import pynwb

    shutil.copytree(lab / "features", tmp_path / "features")
    shutil.copytree(lab / "study", tmp_path / "study")
    chunks = next((tmp_path / "features" / SESSION / "label.valence").rglob("values/c/0*"))
    chunks.write_bytes(b"broken")
    result = export(tmp_path, tmp_path / "out", "--features", "label.valence,sbert")
    assert result.exit_code == 1, result.output
    assert "label.valence" in json.loads((tmp_path / "out/export.json").read_text())["unreadable"][0]
    with pynwb.NWBHDF5IO(tmp_path / f"out/{SESSION}.nwb", "r") as file:
        nwb = file.read()
        assert "sbert" in nwb.intervals
        assert "label.valence" not in nwb.processing["behavior"].data_interfaces
    for table in ("sessions", "labels", "phases", "ratings", "tracks", "clocks"):
        path = tmp_path / f"study/{table}.csv"
        path.write_text("".join(line for line in path.open() if SESSION not in line))
    result = export(tmp_path, tmp_path / "after")
    assert result.exit_code == 2
    assert SESSION in result.output
    assert not (tmp_path / "after").exists()


def test_a_session_whose_only_table_is_unreadable_has_no_file(tmp_path: Path) -> None:
    shutil.copytree("demo/study", tmp_path / "study")
    (tmp_path / "study/labels.csv").write_text("session_id,scheme,value,start_s,end_s\np01-s02,note,private,0,1\n")
    (tmp_path / "study/schemes.csv").write_text("scheme,type\nnote,text\n")
    root = tmp_path / "features"
    create_store(root)
    rows = random_features(np.random.default_rng(5), 50)["openface"]
    for session in (SESSION, "p01-s02"):
        publish_arrays(root, session, "frames", {"time": np.arange(50) / FPS})
        publish_arrays(root, session, "openface", rows)
    next((root / SESSION / "openface").rglob("values/c/0*/*")).write_bytes(b"broken")
    result = run("export", root, "--out", tmp_path / "out", "--format", "nwb", "--study", tmp_path / "study",
                 "--features", "openface")  # fmt: skip
    assert result.exit_code == 1, result.output
    assert f"{SESSION}/openface" in " ".join(result.output.split())
    written = json.loads((tmp_path / "out/export.json").read_text())
    assert [*written["sessions"]] == [path.name for path in (tmp_path / "out").glob("*.nwb")] == ["p01-s02.nwb"]
    assert f"{SESSION}.nwb" not in written["files"]
    (private,) = [line for line in written["left_out"] if "private" in line]
    assert "--with-text" not in private


def test_turns_and_clips_are_intervals(lab: Path, nwb: Any) -> None:
    turns = nwb.intervals["annotations.turns"].to_dataframe()
    rows = [(row.label, *ticks([row.start_time, row.stop_time]).tolist()) for row in turns.itertuples()]
    assert rows == [("first", 0, 2_000_000), ("second", 2_000_000, 4_000_000)]
    clips = FeatureStore(lab / "features").clips().drop_duplicates(["phase", "start_frame"])
    clips = clips[clips["session_id"] == SESSION]
    read = nwb.intervals["annotations.clips"].to_dataframe()
    for column, of_index in (("start_time", "start_s"), ("stop_time", "stop_s")):
        assert sorted(ticks(read[column])) == sorted(ticks(clips[of_index].to_numpy()))


@pytest.mark.nightly  # 20 CPU-seconds
@pytest.mark.needs("nwbinspector")
def test_nwbinspector_has_no_critical_finding(exported: Path) -> None:
    import nwbinspector

    messages = list(nwbinspector.inspect_nwbfile(nwbfile_path=exported / f"{SESSION}.nwb"))
    severe = ("CRITICAL", "PYNWB_VALIDATION", "ERROR")
    assert [message for message in messages if message.importance.name in severe] == []
