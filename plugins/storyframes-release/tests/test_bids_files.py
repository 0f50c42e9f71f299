"""Exports as a BIDS derivative data set: read by pandas, and checked by the rules of BIDS and its validator."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.messages import naming
from support.stores import local
from support.track_features import WINDOWS, study_of, write_tracks

from storyframes import FEATURES, FeatureStore
from storyframes.store import catalogue, tables
from storyframes.store.layout import create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.study import Forgotten, StudyRecord
from storyframes.store.tables import Table, tables_of
from storyframes_release.export.bids_files import BidsNames, write_bids
from storyframes_release.export.formats import ExportError, Format
from storyframes_release.export.run import export
from storyframes_release.study_sessions import StudySessions, study_sessions
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.study import load_study
from tasks.study.study_identity import remember_study

CHOSEN = ("frames", "openface", "openface@cam", "opensmile@lapel", "glove@lapel")
NAME = re.compile(
    r"sub-([A-Za-z0-9]+)/(?:ses-([A-Za-z0-9]+)/)?beh/sub-\1(?:_ses-\2)?(?:_(?:task|acq|run)-[A-Za-z0-9]+)*"
    r"(?:_recording-[A-Za-z0-9]+)?_desc-[A-Za-z0-9]+_features\.(tsv\.gz|json)"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    """A session of even frames and one of uneven, each with two cameras and a lapel."""
    root = tmp_path_factory.mktemp("bids") / "features"
    write_tracks(root, ("s15", "vfr"))
    study = study_of(sessions=("s15", "vfr"))
    remember_study(local(root), study)
    catalogue.compact(local(root))
    write_clip_index(build_clip_index(study, WINDOWS, FeatureStore(root)).clips, local(root))  # has the clocks
    return FeatureStore(root)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is written in several pieces."""
    monkeypatch.setattr(tables, "BLOCK_BYTES", 100_000)


def read(path: Path) -> tuple[pd.DataFrame, dict]:
    """A table as BIDS describes it: without a header, its columns in the sidecar, n/a for what is missing."""
    sidecar = json.loads(path.with_name(path.name.replace(".tsv.gz", ".json")).read_text())
    rows = pd.read_csv(path, sep="\t", header=None, names=sidecar["Columns"], na_values=["n/a"], keep_default_na=False)
    return rows, sidecar


def check_table(table: Table, rows: pd.DataFrame) -> int:
    """Compare every value and time of a table; the number of them."""
    block = table.read(0, table.rows)
    assert list(rows) == [*block.keys, *(column.name for column in table.columns)]
    for name, values in block.keys.items():
        got = rows[name].to_numpy()
        if values.dtype == object:
            assert [None if pd.isna(text) else text for text in got] == list(values)
        else:
            np.testing.assert_array_equal(got.astype(values.dtype), values, name)
    for column in table.columns:
        values = block.flat[column.array][:, column.place]
        is_missing = ~block.keys["mask"]
        is_missing |= np.isnan(values) if values.dtype.kind == "f" else (values == column.fill) & (column.fill < 0)
        got = rows[column.name].to_numpy()
        np.testing.assert_array_equal(pd.isna(got), is_missing, column.name)
        np.testing.assert_array_equal(got[~is_missing].astype(values.dtype), values[~is_missing], column.name)
    return rows.size


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "values"), [(None, 700_000), (11.0, 400_000)])
def test_every_value_and_time_is_read_again(
    store: FeatureStore, tmp_path: Path, rate: float | None, values: int
) -> None:
    done = export(store, tmp_path / "out", Format.BIDS, features=CHOSEN, rate=rate)
    assert done.left_out == []
    files = {(table["session_id"], table["files"][0]): table for table in done.tables}
    compared = 0
    for (session_id, _), entry in files.items():
        (path,) = [tmp_path / "out" / name for name in entry["files"] if name.endswith(".tsv.gz")]
        rows, sidecar = read(path)
        (table,) = [
            table for table in tables_of(store, session_id, entry["feature"], rate) if str(table.axis) == entry["row"]
        ]
        compared += check_table(table, rows)
        if rate is not None:
            assert sidecar["SamplingFrequency"] == rate
            assert sidecar["StartTime"] == 0
    assert compared > values


@pytest.mark.slow
def test_names_and_sidecars_follow_the_rules_of_bids(store: FeatureStore, tmp_path: Path) -> None:
    chosen = ("openface.gaze", "glove@lapel")
    done = export(store, tmp_path / "out", Format.BIDS, features=chosen)
    files = sorted(
        path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()
    )
    of_data = [name for name in files if name.startswith("sub-")]
    assert {*files} - {*of_data} == {"README.md", "export.json", "dataset_description.json", ".bidsignore"}
    assert [name for name in of_data if not NAME.fullmatch(name)] == []
    assert sorted(file for table in done.tables for file in table["files"]) == of_data
    assert json.loads((tmp_path / "out/export.json").read_text())["files"].keys() >= {*of_data}
    described = json.loads((tmp_path / "out/dataset_description.json").read_text())
    assert described["DatasetType"] == "derivative"
    assert described["GeneratedBy"][0]["Name"] == "storyframes"
    folder = next((tmp_path / "out").glob("sub-*/ses-s15/beh"))
    uneven = next((tmp_path / "out").glob("sub-*/ses-vfr/beh"))
    _, even = read(next(folder.glob("*ses-s15_desc-openfacegaze_features.tsv.gz")))
    assert (even["SamplingFrequency"], even["StartTime"]) == (15.0, 0.0)
    rows, sidecar = read(next(uneven.glob("*ses-vfr_desc-openfacegaze_features.tsv.gz")))
    assert sidecar["SamplingFrequency"] == "n/a"
    assert sidecar["StartTime"] == rows["time"][0] > 0
    assert sidecar["time"]["Units"] == "s"
    assert sidecar["StudySession"] == "vfr"
    assert next(folder.glob("*_recording-lapel_desc-glove_features.tsv.gz"))
    for path in (tmp_path / "out").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    export(store, tmp_path / "again", Format.BIDS, features=chosen)
    for name in of_data:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def known(**people: str) -> StudySessions:
    record = StudyRecord({session: {"participant_id": person} for session, person in people.items()})
    return StudySessions(None, "", record, Forgotten())


def path_of(session: str, person: str, track: str = "main") -> str:
    feature = "face" if track == "main" else f"face@{track}"
    names = BidsNames({session: [(feature, "")]}, known(**{session: person}))
    return names.path({"session_id": session, "track": track}, feature, ".json")


def test_ids_become_labels_and_those_of_a_bids_data_set_come_back() -> None:
    assert path_of("p_1-s.2", "p_1") == "sub-p1/ses-p1s2/beh/sub-p1_ses-p1s2_desc-face_features.json"
    assert path_of("s", "p", "child_b") == "sub-p/ses-s/beh/sub-p_ses-s_recording-childb_desc-face_features.json"
    raw = "sub-01_ses-a_task-talk_run-1"
    assert path_of(raw, "sub-01") == f"sub-01/ses-a/beh/{raw}_desc-face_features.json"
    assert path_of("sub-01", "sub-01") == "sub-01/beh/sub-01_desc-face_features.json"
    other = "sub-01_task-talk"  # a session that another participant's name begins
    assert path_of(other, "q") == "sub-q/ses-sub01tasktalk/beh/sub-q_ses-sub01tasktalk_desc-face_features.json"


def test_the_participant_is_that_of_the_tables_before_that_of_the_record(tmp_path: Path) -> None:
    storage = create_store(tmp_path / "features")
    table = tmp_path / "sessions.csv"
    table.write_text("session_id,participant_id,video\ns,p01,v.avi\nt,p02,w.avi\nu,p03,x.avi\n")
    remember_study(storage, load_study(tmp_path))
    table.write_text(table.read_text().replace("p01", "anon9"))
    store = FeatureStore(tmp_path / "features")
    for study, person in ((None, "p01"), (tmp_path, "anon9")):
        names = BidsNames({"s": [("face", "")]}, study_sessions(store, study))
        path = names.path({"session_id": "s", "track": "main"}, "face", ".json")
        assert path == f"sub-{person}/ses-s/beh/sub-{person}_ses-s_desc-face_features.json"


def test_seconds_of_a_device_are_no_start_time(tmp_path: Path) -> None:
    create_store(tmp_path / "features")
    for track in ("main", "cam"):
        with FeatureWriter(local(tmp_path / "features"), "s", FEATURES["frames"], track=track) as out:
            out.write("time", 900 + np.arange(5) / 4)
            out.publish("f" * 64, {"inputs": {}})
    catalogue.compact(local(tmp_path / "features"))
    store = FeatureStore(tmp_path / "features")
    for feature, key, start in (("frames", "time", 900), ("frames@cam", "device_time", "n/a")):
        (table,) = tables_of(store, "s", feature)
        write_bids(table, tmp_path / feature)
        about = json.loads((tmp_path / f"{feature}.json").read_text())
        assert key in about["Columns"]
        assert (about["StartTime"], about["SamplingFrequency"]) == (start, 4)


@pytest.mark.parametrize(
    ("people", "named"),
    [
        ({"a": "p-1", "b": "p1"}, ("participants", "'p-1'", "'p1'")),
        ({"a": "sub-P1", "b": "p1"}, ("participants", "'sub-P1'", "'p1'")),
        ({"a.1": "p", "a-1": "p"}, ("sessions", "'a.1'", "'a-1'")),
        ({"a": ""}, ("a", "storyframes index")),
    ],
)
def test_names_that_are_alike_are_refused(people: dict[str, str], named: tuple[str, ...]) -> None:
    with pytest.raises(ExportError, match=naming(*named)):
        BidsNames({session: [("face", "")] for session in people}, known(**people))


def test_alike_tracks_are_refused() -> None:
    with pytest.raises(ExportError, match=naming("tracks of s", "'c_1'", "'c1'")):
        BidsNames({"s": [("face@c_1", ""), ("face@c1", "")]}, known(s="p"))


@pytest.mark.slow
def test_the_validator_of_bids_has_no_errors(store: FeatureStore, tmp_path: Path) -> None:
    """Of the data set; and of a table as ``_physio``, a suffix whose content the validator knows and checks."""
    if (validator := shutil.which("bids-validator-deno")) is None:
        pytest.skip("not on this machine: the validator of BIDS (pip install bids-validator-deno)")

    def errors(folder: Path) -> set[str]:
        ended = subprocess.run([validator, "--json", folder], capture_output=True, text=True)
        return {
            issue["code"] for issue in json.loads(ended.stdout)["issues"]["issues"] if issue.get("severity") == "error"
        }

    out, physio = tmp_path / "out", tmp_path / "physio/sub-s15/ses-s15/beh"
    export(store, out, Format.BIDS, features=("frames", "openface.gaze"))
    assert errors(out) == set()
    physio.mkdir(parents=True)
    shutil.copy(out / "dataset_description.json", tmp_path / "physio")
    for suffix in (".tsv.gz", ".json"):
        (file,) = out.glob(f"sub-s15/ses-s15/beh/sub-s15_ses-s15_desc-openfacegaze_features{suffix}")
        shutil.copy(file, physio / f"sub-s15_ses-s15_task-x_recording-face_physio{suffix}")
    assert errors(tmp_path / "physio") == set()
    sidecar = next(physio.glob("*.json"))
    about = json.loads(sidecar.read_text())
    sidecar.write_text(json.dumps(about | {"Columns": about["Columns"][1:]}))
    assert "TSV_EQUAL_ROWS" in errors(tmp_path / "physio")
