"""Stores are read where Windows' modules and functions alone are there, and written nowhere without locks."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.messages import missing
from support.synthetic_features import StudySpec, write_features
from support.systems.light_install import ONLY_WHAT_IS_DECLARED, light_modules
from support.systems.windows import AS_ON_WINDOWS

from storyframes import ClipDataset, FeatureStore

ROOT = Path(__file__).parents[2]

READ_AND_TRY_TO_WRITE = f"""{ONLY_WHAT_IS_DECLARED}
{AS_ON_WINDOWS}
import hashlib, json
from pathlib import Path
from storyframes import ClipDataset, FeatureStore
from storyframes.store.caches import CopyFolder
from storyframes.store.layout import StoreError, create_store
from storyframes.store.storage import StorageError

root, commands = json.loads(sys.argv[1])
clip = ClipDataset(root, ["openface", "glove"])[3]
print(hashlib.sha256(clip["openface"].tobytes() + clip["glove"].tobytes()).hexdigest())
print(len(FeatureStore(root).session("s00").to_pandas("opensmile")))
for write in (lambda: create_store(Path(root).parent / "new"), lambda: CopyFolder(Path(root).parent / "copies", None)):
    try:
        write()
    except (StorageError, StoreError) as error:
        print(error)
from flows.cli.entry import main

for command in commands:
    sys.argv = ["storyframes", *command]
    try:
        main()
    except SystemExit as ended:
        print("ended with", ended.code, flush=True)
"""


@pytest.mark.slow
def test_on_windows_a_store_is_read_and_never_written(tmp_path: Path) -> None:
    root = write_features(tmp_path / "features", StudySpec(sessions=2)).root
    orphan = root / "s01/frames/20260131T120000Z-0123abcd"  # of a killed writer, for gc
    orphan.mkdir()
    (orphan / "zarr.json").touch()
    os.utime(orphan / "zarr.json", (0, 0))
    before = _contents(root)
    reading = [["status", str(root)], ["show", str(root), "s00"], ["clips", str(root)], ["verify", str(root)]]
    writing = [["gc", str(root)], ["archive", str(root), "--out", f"{tmp_path}/archive"], ["doctor"],
               ["extract", "demo/study", str(root)], ["index", "demo/study", str(root)]]  # fmt: skip
    code = [sys.executable, "-c", READ_AND_TRY_TO_WRITE, json.dumps([str(root), [*reading, *writing]])]
    modules = {*light_modules(), "flows", "tasks"}
    result = subprocess.run([*code, ",".join(sorted(modules))], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    digest, rows, refused, no_cache, *shown = result.stdout.splitlines()
    clip = ClipDataset(root, ["openface", "glove"])[3]
    assert digest == hashlib.sha256(clip["openface"].tobytes() + clip["glove"].tobytes()).hexdigest()
    assert int(rows) == len(FeatureStore(root).session("s00").to_pandas("opensmile"))
    assert missing(refused, f"{tmp_path}/new: ", "Windows", "locks", "WSL", "status, show, clips and verify") == []
    assert "Linux" in no_cache
    ends = [line for line in shown if line.startswith("ended with")]
    refused_by_file, refused_at_once = ["ended with 1"], ["ended with 2"] * (len(writing) - 1)
    assert ends == ["ended with 0"] * len(reading) + refused_by_file + refused_at_once, result.stderr
    assert "Traceback" not in result.stderr
    assert _contents(root) == before
    assert not (tmp_path / "new").exists()


def _contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}
