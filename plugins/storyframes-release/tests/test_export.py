"""Exported features, opened by the programs that people open them with, and compared value by value."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
import scipy.io
from support.commands import ROOT
from support.messages import missing, naming
from support.stores import local
from support.track_features import SPEAKERS, WINDOWS, study_of, write_tracks
from typer.testing import CliRunner

from flows.cli.app import app
from storyframes import FeatureStore
from storyframes.features import FEATURES
from storyframes.spec import ArraySpec, Axis, FeatureSpec
from storyframes.store import catalogue, tables
from storyframes.store.layout import StoreError, create_store
from storyframes.store.publish import FeatureWriter
from storyframes.store.tables import Table, tables_of
from storyframes_release.export import matlab_files
from storyframes_release.export.formats import ExportError, Format
from storyframes_release.export.matlab_files import matlab_names
from storyframes_release.export.run import Exported, export
from storyframes_release.nwb.run import export_nwb
from tasks.clip_index.index import build_clip_index, write_clip_index

ODD_NAMES = ("nan", "a,b", 'say "no"', "time", "2nd", "end", "ü" * 20, *(f"{'long' * 20}_{number}" for number in "12"))
ODD = FeatureSpec(
    "odd",
    "every kind of number, and names that are hard to write",
    {
        "values": ArraySpec(
            Axis.FRAME, "float32", "numbers", shape=(9,), dims=("column",), columns=ODD_NAMES, units="m"
        ),
        "doubles": ArraySpec(
            Axis.FRAME, "float64", "numbers", shape=(2, 3), dims=("side", "xyz"), columns=tuple("xyz")
        ),
        "bytes": ArraySpec(Axis.FRAME, "int8", "whole numbers", fill=-1),
        "longs": ArraySpec(Axis.FRAME, "uint64", "whole numbers", fill=0),
        "halves": ArraySpec(Axis.FRAME, "float16", "numbers"),
    },
)
CHOSEN = ("frames", "odd", "openface@cam", "opensmile@lapel", "glove@lapel")
SMALLEST = [0.1, 1 / 3, 1e-38, 1.5e38, np.nan, np.inf, -np.inf, -0.0, 5e-324]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    """One session of two cameras and a lapel, and a feature of odd numbers."""
    root = tmp_path_factory.mktemp("export") / "features"
    write_tracks(root, ("s15",))
    rows = FeatureStore(root).describe("s15", "frames", "time").shape[0]
    generator = np.random.default_rng(3)
    with FeatureWriter(local(root), "s15", ODD) as out:
        out.write("values", np.resize(SMALLEST[1:], (rows, 9)).astype(np.float32))
        out.write("doubles", np.resize(SMALLEST, (rows, 2, 3)))
        out.write("bytes", generator.integers(-128, 128, rows).astype(np.int8))
        out.write("longs", generator.integers(0, 2**53, rows).astype(np.uint64))
        out.write("halves", generator.normal(size=rows).astype(np.float16))
        out.caveats.add("numbers that are odd")
        out.publish("f", {})
    catalogue.compact(local(root))
    study = study_of(sessions=("s15",))
    write_clip_index(build_clip_index(study, WINDOWS, FeatureStore(root)).clips, local(root))
    return FeatureStore(root)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is written in several pieces."""
    monkeypatch.setattr(tables, "BLOCK_BYTES", 100_000)


def every_table(store: FeatureStore, rate: float | None) -> Iterator[Table]:
    for feature in CHOSEN:
        yield from tables_of(store, "s15", feature, rate)


def expected(table: Table) -> dict[str, np.ndarray]:
    """Each column of a table, read at once."""
    block = table.read(0, table.rows)
    flat = {name: rows.reshape(table.rows, -1) for name, rows in block.arrays.items()}
    return block.keys | {column.name: flat[column.array][:, column.place] for column in table.columns}


def same(got: Any, wanted: np.ndarray, name: str) -> None:
    """Bit for bit where numbers are, also where they are not a number or minus nothing."""
    got = np.asarray(got)
    if wanted.dtype == object:
        assert [None if pd.isna(text) or text == "" else text for text in got] == list(wanted), name
        return
    assert len(got) == len(wanted), name
    np.testing.assert_array_equal(got.astype(wanted.dtype), wanted, name)
    if wanted.dtype.kind == "f":
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got.astype(wanted.dtype))[numbers], np.signbit(wanted)[numbers], name)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [None, 11.0])
def test_parquet_for_pandas_and_polars(store: FeatureStore, tmp_path: Path, rate: float | None) -> None:
    done = export(store, tmp_path / "out", Format.PARQUET, features=CHOSEN, rate=rate)
    assert done.left_out == []
    names = set()
    for table in every_table(store, rate):
        names.add(f"s15/{table.name}.parquet")
        path = tmp_path / f"out/s15/{table.name}.parquet"
        columns = expected(table)
        pandas, polars = pd.read_parquet(path), pl.read_parquet(path)
        assert list(pandas.columns) == polars.columns == list(columns)
        for name, wanted in columns.items():
            same(pandas[name], wanted, name)
            same(polars[name].to_numpy(), wanted, name)
        assert pandas["mask"].dtype == bool
    others = {"s15/frames@cam.parquet", "s15/frames@twin.parquet"}  # of all tracks, as none is named
    assert {path for table in done.tables for path in table["files"]} == names | others
    schema = pq.read_schema(tmp_path / "out/s15/odd.parquet")
    assert json.loads(schema.metadata[b"storyframes"])["caveats"] == ["numbers that are odd"]
    assert schema.field("a,b").metadata == {b"about": b"numbers", b"units": b"m"}
    face = pq.read_schema(tmp_path / "out/s15/openface@cam.parquet")
    units = {name: (face.field(name).metadata or {}).get(b"units", b"").decode() for name in face.names}
    columns = ("pose_Tx", "pose_Rx", "p_tx", "p_rx", "p_3", "x_9", "X_9", "eye_lmk_Y_3", "AU12_r", "AU12_c", "gaze_0_x")
    assert [units[column] for column in columns] == [
        "mm", "rad", "pixels", "rad", "", "pixels", "mm", "mm", "0 to 5", "0 or 1", "",
    ]  # fmt: skip


def test_csv_for_pandas_polars_and_r(store: FeatureStore, tmp_path: Path) -> None:
    export(store, tmp_path / "out", Format.CSV, features=CHOSEN)
    for table in every_table(store, None):
        path = tmp_path / f"out/s15/{table.name}.csv"
        columns = expected(table)
        pandas = pd.read_csv(path, keep_default_na=False, na_values=["NaN"])
        polars = pl.read_csv(path, infer_schema_length=None)
        polars.columns = [name.replace('""', '"') for name in polars.columns]  # which polars leaves doubled in names
        assert list(pandas.columns) == polars.columns == list(columns)
        for name, wanted in columns.items():
            same(pandas[name], wanted, name)
            same(polars[name].to_numpy(), wanted, name)
    cells = re.sub('"[^"]*"', "", (tmp_path / "out/s15/odd.csv").read_text().partition("\n")[2])
    assert set(re.findall("[a-zA-Z]+", cells)) == {"NaN", "Inf", "e"}  # R takes nan and inf for words


def test_numpy(store: FeatureStore, tmp_path: Path) -> None:
    export(store, tmp_path / "out", Format.NPY, features=CHOSEN, rate=11)
    for table in every_table(store, 11):
        folder, block = tmp_path / f"out/s15/{table.name}", table.read(0, table.rows)
        for name, wanted in (block.keys | block.arrays).items():
            got = np.load(folder / f"{name}.npy")
            assert got.shape == wanted.shape
            same(got, wanted, name)
    assert json.loads((tmp_path / "out/s15/odd/names.json").read_text()) == {
        "values": {"column": list(ODD_NAMES)},
        "doubles": {"xyz": ["x", "y", "z"]},
    }


def test_hdf5(store: FeatureStore, tmp_path: Path) -> None:
    seen: set[str] = set()
    export(store, tmp_path / "out", Format.HDF5, features=CHOSEN)
    for table in every_table(store, None):
        with h5py.File(tmp_path / f"out/s15/{table.name}.h5") as file:
            block = table.read(0, table.rows)
            for name, wanted in (block.keys | block.arrays).items():
                is_text = wanted.dtype == object
                assert not is_text or h5py.check_string_dtype(file[name].dtype).length  # fixed, for Octave
                got = file[name].asstr()[:] if is_text else file[name][:]
                assert got.shape == wanted.shape
                same(got, wanted, name)
            assert file.attrs["feature"] == table.feature
            assert isinstance(file.attrs["caveats"], str)
            for name in {column.array for column in table.columns if not file[column.array].attrs.get("units")}:
                units = [column.unit for column in table.columns if column.array == name]
                stored = file.get(f"names/{name}/column_units")
                assert (stored is not None) == any(units), name
                assert stored is None or list(stored.asstr()) == units
                seen |= {*units}
    assert {"mm", "rad", "pixels", "0 to 5"} <= seen
    with h5py.File(tmp_path / "out/s15/odd.h5") as file:
        assert file.attrs["caveats"] == "numbers that are odd"
        assert list(file["names/values/column"].asstr()) == list(ODD_NAMES)
        assert h5py.check_string_dtype(file["names/values/column"].dtype) == ("utf-8", 82)
        assert h5py.check_string_dtype(file["names/doubles/xyz"].dtype) == ("ascii", 1)
        assert [dim.label for dim in file["doubles"].dims] == ["frame", "side", "xyz"]
        assert file["values"].attrs["units"] == "m"
        assert file["mask"].dtype == np.uint8
        assert file["frame"].dtype == np.int32


def test_hdf5_keeps_whole_numbers_of_any_size(tmp_path: Path) -> None:
    large = np.array([0, -1, 2**31, 2**40 + 1, -(2**62)], np.int64)
    arrays = {
        "values": ArraySpec(Axis.FRAME, "int64", "whole", shape=(2,), dims=("c",), columns=("a", "b"), fill=-1),
        "names": ArraySpec(Axis.FRAME, "int64", "called like the group of names", fill=-1),
    }
    made = one_feature(tmp_path / "store", "s1", arrays, values=np.stack([large, large[::-1]], 1), names=large)
    export(made, tmp_path / "out", Format.HDF5)
    with h5py.File(tmp_path / "out/s1/made.h5") as file:
        np.testing.assert_array_equal(file["values"][:], np.stack([large, large[::-1]], 1))
        np.testing.assert_array_equal(file["names.names"][:], large)
        assert list(file["names/values/c"].asstr()) == ["a", "b"]
        assert file["frame"].dtype == np.int32


@pytest.mark.parametrize("session_id", ["README.md", "Readme.MD"])
def test_a_session_called_like_the_readme_loses_nothing_of_the_others(tmp_path: Path, session_id: str) -> None:
    arrays = {"values": ArraySpec(Axis.FRAME, "float32", "numbers")}
    for name in ("s1", session_id):
        made = one_feature(tmp_path / "store", name, arrays, values=np.arange(3, dtype=np.float32))
    done = export(made, tmp_path / "out", Format.CSV)
    assert [(one["session_id"], one["feature"]) for one in done.left_out] == [(session_id, "made")]
    assert "README.md" in done.left_out[0]["reason"]
    assert sorted(content(tmp_path / "out")) == ["README.md", "export.json", "s1/made.csv"]


@pytest.mark.slow
def test_parts_are_files_of_their_own_names(
    store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # each piece of 2,757 columns costs Parquet a tenth of a second
    done = export(store, tmp_path / "out", Format.PARQUET, features=["openface.gaze", "vision.measured"])
    assert done.left_out == []
    gaze = FEATURES["openface"].groups["gaze"]
    for feature in ("openface", "openface@twin", "openface@cam"):
        made = pd.read_parquet(tmp_path / f"out/s15/{feature}.gaze.parquet")
        same(made.iloc[:, -8:], store.read("s15", feature)[:, gaze], feature)
        same(made["mask"], store.read("s15", feature, array="valid") == 1, feature)
    face = pd.read_parquet(tmp_path / "out/s15/openface.measurements.parquet")
    same(face.iloc[:, -709:], store.read("s15", "openface")[:, 5:], "openface")
    assert (tmp_path / "out/s15/resnet50.values.parquet").exists()
    with pytest.raises(ExportError, match="'gaze'"):
        export(store, tmp_path / "none", Format.PARQUET, features=["openface.gazee"])


def one_feature(root: Path, session_id: str, arrays: dict[str, ArraySpec], **values: np.ndarray) -> FeatureStore:
    create_store(root)
    with FeatureWriter(local(root), session_id, FeatureSpec("made", "numbers", arrays)) as out:
        for name, rows in values.items():
            out.write(name, rows)
        out.publish("f", {})
    catalogue.compact(local(root))
    return FeatureStore(root)


def test_matlab(store: FeatureStore, tmp_path: Path) -> None:
    export(store, tmp_path / "out", Format.MAT, features=CHOSEN)
    for table in every_table(store, None):
        path = tmp_path / f"out/s15/{table.name}.mat"
        file = scipy.io.loadmat(path, chars_as_strings=True)
        block = table.read(0, table.rows)
        for name, wanted in block.keys.items():
            cells = file["xend" if name == "end" else name][:, 0]  # a word of the language
            same([one[0] if len(one) else "" for one in cells] if wanted.dtype == object else cells, wanted, name)
        for name, wanted in block.arrays.items():
            flat = wanted.reshape(len(wanted), -1)
            assert file[name].shape == flat.shape
            assert file[name].dtype == wanted.dtype
            same(file[name], flat, name)
            if wanted.ndim == 1:
                continue
            of_array = [column.name for column in table.columns if column.array == name]
            assert [str(one[0]) for one in file[f"{name}_names"][:, 0]] == of_array
            valid = [str(one[0]) for one in file[f"{name}_columns"][:, 0]]
            assert all(re.fullmatch("[A-Za-z][A-Za-z0-9_]{0,62}", one) for one in valid)
            assert len(set(valid)) == len(of_array)
            mapping = pd.read_csv(tmp_path / f"out/s15/{table.name}.columns.csv", keep_default_na=False)
            mapping = mapping[mapping["variable"] == name]
            assert (list(mapping["matlab"]), list(mapping["name"])) == (valid, of_array)
            assert list(mapping["column"]) == list(range(1, len(of_array) + 1))  # MATLAB counts from 1
    rows = tables_of(store, "s15", "odd")[0].rows
    odd = scipy.io.loadmat(tmp_path / "out/s15/odd.mat")
    assert [str(one[0]) for one in odd["caveats"][:, 0]] == ["numbers that are odd"]
    assert ("mask", (rows, 1), "logical") in scipy.io.whosmat(tmp_path / "out/s15/odd.mat")


def test_names_that_matlab_has() -> None:
    names = ["end", "2nd", "_x", "a.b", "a b", "x" * 70, "x" * 71, "", "é", "a_b"]
    got = matlab_names(names)
    assert got[:5] == ["xend", "x2nd", "x_x", "a_b", "a_b_2"]
    assert len(set(got)) == len(names)
    assert max(map(len, got)) == 63


def test_what_matlab_cannot_hold_is_left_out_with_a_cure(
    store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert matlab_files.LIMIT == 2**31 - 1
    monkeypatch.setattr(matlab_files, "LIMIT", 100_000)
    done = export(store, tmp_path / "out", Format.MAT)
    assert {"resnet50", "openface"} <= {one["feature"] for one in done.left_out}
    assert not (tmp_path / "out/s15/resnet50.mat").exists()
    assert (tmp_path / "out/s15/glove@lapel.mat").exists()
    (reason,) = [one["reason"] for one in done.left_out if one["feature"] == "resnet50"]
    assert re.fullmatch(
        r"s15/resnet50: values is [\d,]+ bytes, and MATLAB's version 5 holds matrices of at most 100,000: take "
        "--format hdf5, which MATLAB reads with h5read, or fewer rows by --rate",
        reason,
    )
    assert reason in (tmp_path / "out/README.md").read_text()


def test_the_folder_says_what_it_is_and_is_private(store: FeatureStore, tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        done = export(store, tmp_path / "out", Format.NPY, features=["odd", "glove@lapel"])
    finally:
        os.umask(before)
    text = (tmp_path / "out/README.md").read_text()
    assert missing(" ".join(text.split()), "F0", "voiced") == []
    assert "| odd | numbers that are odd | s15 |" in text
    assert "device_time" in text
    (version,) = store.catalogue.loc[store.catalogue["feature"] == "odd", "version"]
    assert f"| s15 | odd | frame | {tables_of(store, 's15', 'odd')[0].rows} | {version} | f |" in text
    assert {table["feature"] for table in done.tables} == {"odd", "glove@lapel"}
    for path in (tmp_path / "out", *(tmp_path / "out").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    there = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert there == {*done.files, "export.json"}
    assert json.loads((tmp_path / "out/export.json").read_text())["files"] == done.files


KILLED = """
import os, signal, sys
from pathlib import Path
from storyframes import FeatureStore
from storyframes_release.export.formats import Format
from storyframes_release.export.run import export

def progress(what, number, count):
    if what.endswith("/resnet50"):
        os.kill(os.getpid(), signal.SIGKILL)

export(FeatureStore(sys.argv[1]), Path(sys.argv[2]), Format.PARQUET, replace=True, progress=progress)
"""


@pytest.mark.slow
def test_a_killed_export_leaves_what_was_there(store: FeatureStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(store, out, Format.NPY, features=["odd"])
    before = content(out)
    command = [sys.executable, "-c", KILLED, store.storage.location, str(out)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert content(out) == before
    assert len(list(tmp_path.iterdir())) == 2  # what the killed one left, under no name of ours
    export(store, out, Format.PARQUET, features=["glove"], replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert {path.name for path in out.rglob("*.*")} == {"glove@lapel.parquet", "README.md", "export.json"}


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("change", ["nothing", "a folder", "a file", "another file", "changed", "removed", "a link"])
def test_only_what_an_export_wrote_is_replaced(store: FeatureStore, tmp_path: Path, change: str) -> None:
    out = tmp_path / "out"

    def again(**options: bool) -> Exported:
        return export(store, out, Format.CSV, features=["frames"], **options)

    again()
    if change == "another file":
        (out / "mine.R").write_text("x <- 1")
    elif change == "changed":
        (out / "README.md").write_text("mine")
    elif change == "removed":
        (out / "README.md").unlink()
    elif change in ("a folder", "a file", "a link"):
        shutil.rmtree(out)
        if change == "a link":
            out.symlink_to(tmp_path)
        elif change == "a file":
            out.write_text("mine")
        else:
            out.mkdir()
            (out / "mine").write_text("mine")
    before = content(out) if out.is_dir() else {}
    with pytest.raises(ExportError, match="is there already"):
        again()
    if change in ("nothing", "removed"):
        again(replace=True)
        assert (out / "README.md").exists()
    else:
        with pytest.raises(ExportError, match="is not replaced"):
            again(replace=True)
        assert (content(out) if out.is_dir() else {}) == before
        assert out.is_symlink() == (change == "a link")
    assert len(list(tmp_path.iterdir())) == 1


def test_a_damaged_feature_is_left_out_and_the_others_are_there(store: FeatureStore, tmp_path: Path) -> None:
    root = tmp_path / "features"
    shutil.copytree(store.storage.location, root)
    (shard,) = (root / "s15/odd").glob("*/values/c/0/*")
    shard.write_bytes(shard.read_bytes()[:-100])
    result = CliRunner().invoke(
        app,
        ["export", str(root), "--out", str(tmp_path / "out"), "--format", "csv", "--json", "--features", "odd,glove"],
    )
    assert result.exit_code == 1
    assert "left out s15/odd" in result.stderr
    said = json.loads(result.stdout)
    assert [one["feature"] for one in said["left_out"]] == ["odd"]
    assert (tmp_path / "out/s15/glove@lapel.csv").exists()
    assert not list((tmp_path / "out/s15").glob("odd*"))
    assert "## Left out" in (tmp_path / "out/README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "xlsx"], "--format 'xlsx': there are parquet, csv, npy, hdf5, mat"),
        (["--session", "s99"], "there is no session 's99'"),
        (["--features", "frames,"], "--features 'frames,': a name is missing"),
        (["--features", "faces"], "there is no feature 'faces'; the store has frames, openface, "),
        (["--features", "openface@lapel"], "there is no feature 'openface@lapel'"),
        (["--rate", "0"], "--rate 0: give more than 0 rows a second"),
        (["--rate", "nan"], "--rate nan: give more than 0 rows a second"),
    ],
)
def test_wrong_calls(store: FeatureStore, tmp_path: Path, arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["export", store.storage.location, "--out", str(tmp_path / "out"), *arguments])
    assert result.exit_code == 2
    assert said in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_written_into_the_store(store: FeatureStore) -> None:
    with pytest.raises(ExportError, match="is inside the feature store"):
        export(store, Path(store.storage.location) / "out", Format.CSV)


def test_a_missing_package_is_named(store: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storyframes_release.export.formats.find_spec", lambda name: None)
    with pytest.raises(StoreError, match=naming("hdf5", "h5py", "storyframes-release[files]")):
        export(store, tmp_path / "out", Format.HDF5)
    monkeypatch.setattr("storyframes_release.nwb.run.find_spec", lambda name: None)
    with pytest.raises(StoreError, match=naming("nwb", "pynwb", "storyframes-release[nwb]")):
        export_nwb(store, tmp_path, tmp_path / "out")


def test_speakers_and_both_clocks_are_columns(store: FeatureStore, tmp_path: Path) -> None:
    export(store, tmp_path / "out", Format.PARQUET, features=["sbert"])
    said = pd.read_parquet(tmp_path / "out/s15/sbert@lapel.parquet")
    assert list(said.columns[:7]) == ["utterance", "time", "end", "device_time", "device_end", "mask", "speaker"]
    assert set(said["speaker"]) <= set(SPEAKERS)
    assert FEATURES["sbert"].columns[0] == said.columns[7]
