"""What the plug-in declares is enough to export and release; on Windows stores are exported and none is written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.stores import publish_openface, remember_sessions
from support.synthetic_features import StudySpec, write_features
from support.systems.light_install import ONLY_WHAT_IS_DECLARED, RUN_COMMANDS, light_modules
from support.systems.windows import AS_ON_WINDOWS

from storyframes import FeatureStore
from storyframes.features import FEATURES
from storyframes.installation import install_line
from storyframes.store import catalogue
from storyframes.store.layout import create_store
from storyframes.store.storage.local_folder import LocalStorage
from storyframes_release.export.formats import Format
from storyframes_release.export.run import export

PLUG_IN = Path(__file__).parents[1]
ROOT = PLUG_IN.parents[1]


def run(commands: list[list[str]], before: str = "") -> tuple[list[str], str]:
    """How each command ended in a process that has what the plug-in declares, and what went to stderr."""
    modules = light_modules(of=PLUG_IN)
    assert not {"torch", "prefect", "dask", "cv2", "av", "scipy", "h5py", "jinja2"} & modules
    allowed = ",".join(sorted(modules | {"flows", "tasks", "storyframes_release"}))
    code = [sys.executable, "-c", ONLY_WHAT_IS_DECLARED + before + RUN_COMMANDS, json.dumps(commands), allowed]
    result = subprocess.run(code, capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    return [line for line in result.stdout.splitlines() if " ended with " in line], result.stderr


@pytest.mark.slow
def test_a_store_is_exported_and_released_with_the_declared_dependencies_alone(tmp_path: Path) -> None:
    root, out = str(write_features(tmp_path / "features", StudySpec(sessions=2)).root), str(tmp_path)
    remember_sessions(Path(root), "s00", "s01")
    texts = "".join(f'{name} = "CC0-1.0"\n' for name in ("title", "description", "license", "version"))
    Path(f"{out}/release.toml").write_text(f'{texts}authors = ["A"]\n[features]\nframes = "all"\n')
    light = [
        ["export", root, "--out", f"{out}/a"],
        ["export", root, "--out", f"{out}/b", "--format", "csv", "--features", "glove", "--rate", "15"],
        ["export", root, "--out", f"{out}/c", "--format", "npy"],
        ["release", root, "--out", f"{out}/given", "--config", f"{out}/release.toml"],
        ["release", "verify", f"{out}/given"],
    ]
    ended, said = run([*light, ["export", root, "--out", f"{out}/d", "--format", "mat"]])
    assert ended == [*(f"{name} ended with 0" for name, *_ in light), "export ended with 2"], said
    assert f"exporting to mat needs scipy: {install_line('files', 'storyframes-release')}" in said.splitlines()[-1]


@pytest.mark.slow
def test_on_windows_a_store_is_exported_and_never_written(tmp_path: Path) -> None:
    root = write_features(tmp_path / "features", StudySpec(sessions=2)).root
    before, exported = _contents(root), str(tmp_path / "exported")
    ended, said = run(
        [
            ["export", str(root), "--out", exported],
            ["export", str(root), "--out", exported, "--features", "openface", "--replace"],
        ],
        AS_ON_WINDOWS,
    )
    assert ended == ["export ended with 0"] * 2, said
    table = pq.read_table(f"{exported}/s00/openface.parquet")
    stored = FeatureStore(root).read("s00", "openface")
    for number, name in enumerate(FEATURES["openface"].columns):
        column = f"values.{name}" if f"values.{name}" in table.column_names else name
        np.testing.assert_array_equal(table[column], stored[:, number], column)
    assert _contents(root) == before


def test_export_leaves_out_a_session_whose_folder_windows_takes_for_another(tmp_path: Path) -> None:
    create_store(tmp_path / "store")
    for session in ("S1", "s1", "s2", "nul"):
        publish_openface(tmp_path / "store", session, 3)
    catalogue.compact(LocalStorage(tmp_path / "store"))
    done = export(FeatureStore(tmp_path / "store"), tmp_path / "out", Format.PARQUET)
    assert {table["session_id"] for table in done.tables} == {"S1", "s2"}
    assert {omission["session_id"]: omission["reason"] for omission in done.left_out} == {
        "s1": "Windows and macOS take its folder for that of S1: export it alone, with --session s1",
        "nul": "is the name of a device on Windows, where no folder can have it",
    }


def _contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
