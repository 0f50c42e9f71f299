"""Releases of parts of a store, and releases that are killed or interrupted while they are made."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from planted_store import SESSIONS, SETTINGS, settings_of
from support.stores import local

from storyframes import FeatureStore
from storyframes.features import FEATURES
from storyframes.store import catalogue, write_clips
from storyframes_release.release import copying
from storyframes_release.release.manifest import verify_release
from storyframes_release.release.run import make_release


def test_values_are_whole_however_many_rows_are_copied_at_a_time(
    original: FeatureStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_ROWS", 7)
    text = SETTINGS.partition("[features]")[0] + '[features]\nopenface = ["gaze"]\n'
    key = tmp_path / "keys/of/out.json"
    make_release(original, tmp_path / "out", settings_of(tmp_path, text), key)
    store = FeatureStore(tmp_path / "out/features")
    names = json.loads(key.read_text())["names"]["sessions"]
    for old, new in names.items():
        gaze = FEATURES["openface"].groups["gaze"]
        np.testing.assert_array_equal(store.read(new, "openface"), original.read(old, "openface")[:, gaze])


def test_sessions_that_have_nothing_of_it_are_not_in_its_index(original: FeatureStore, tmp_path: Path) -> None:
    root = tmp_path / "features"
    shutil.copytree(original.storage.location, root)
    shutil.rmtree(root / SESSIONS[2] / "gesture")
    catalogue.compact(local(root))
    text = SETTINGS.partition("[features]")[0] + '[features]\ngesture = ["wave"]\n'
    done = make_release(FeatureStore(root), tmp_path / "out", settings_of(tmp_path, text))
    store = FeatureStore(tmp_path / "out/features")
    clips = store.clips()
    assert (done.sessions, done.participants) == (2, 2)
    assert list(clips["session_id"].unique()) == store.sessions == ["s0001", "s0002"]
    assert clips["participant_id"].notna().all()
    assert len(clips) == len(done.clips) == original.clips()["session_id"].isin(SESSIONS[:2]).sum()
    names = json.loads((tmp_path / "out.key.json").read_text())["names"]
    assert sorted(names["sessions"]) == SESSIONS[:2]
    assert len(names["participants"]) == 2


def test_a_store_whose_index_has_no_clips_is_released(original: FeatureStore, tmp_path: Path) -> None:
    """As of recordings that are shorter than a clip."""
    root = tmp_path / "features"
    shutil.copytree(original.storage.location, root)
    write_clips(local(root), original.clips().iloc[:0])
    text = re.sub(r"^phases = .*$", "phases = []", SETTINGS.partition("[features]")[0], flags=re.MULTILINE)
    settings = settings_of(tmp_path, text + '[features]\ngesture = ["wave"]\n')
    done = make_release(FeatureStore(root), tmp_path / "out", settings)
    assert (done.sessions, len(done.clips)) == (3, 0)
    assert len(FeatureStore(tmp_path / "out/features").clips()) == 0


def test_arrays_of_a_plug_in_are_released_as_a_whole_where_they_are_named(
    original: FeatureStore, tmp_path: Path
) -> None:
    text = SETTINGS.partition("[features]")[0] + 'opensmile = ["F0final_sma"]\ngesture = ["values"]\n'
    text = text.replace('opensmile = ["F0', '[features]\nopensmile = ["F0')
    make_release(original, tmp_path / "out", settings_of(tmp_path, text))
    store = FeatureStore(tmp_path / "out/features")
    names = json.loads((tmp_path / "out.key.json").read_text())["names"]["sessions"]
    pitch = FEATURES["opensmile"].columns.index("F0final_sma")
    for old, new in names.items():
        assert store.columns(new, "gesture") == ("gesture_0000", "gesture_0001", "gesture_0002")
        np.testing.assert_array_equal(store.read(new, "gesture"), original.read(old, "gesture"))
        for array in ("values", "per_frame"):
            assert store.columns(new, "opensmile", array) == ("F0final_sma",)
            before = original.read(old, "opensmile", array=array)[:, [pitch]]
            np.testing.assert_array_equal(store.read(new, "opensmile", array=array), before)


@pytest.mark.slow
def test_what_a_killed_release_left_is_removed_by_the_next(original: FeatureStore, tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    place = tmp_path / "place"
    code = f"""
import os, signal
from pathlib import Path
from storyframes import FeatureStore
from storyframes_release.release.run import make_release
from storyframes_release.release.settings import read_settings

def kill(feature):
    if feature == "opensmile":
        os.kill(os.getpid(), signal.SIGKILL)

store, settings = FeatureStore({original.storage.location!r}), read_settings(Path({str(tmp_path / "release.toml")!r}))
make_release(store, Path({str(place / "out")!r}), settings, progress=kill)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    left = {path.name for path in place.iterdir()}
    assert "out" not in left
    assert len(left) == 2
    make_release(original, place / "out", settings)
    assert {path.name for path in place.iterdir()} == {"out", "out.key.json"}
    assert verify_release(place / "out") == []


def test_an_interrupted_release_leaves_its_key_alone(original: FeatureStore, tmp_path: Path) -> None:
    def progress(feature: str) -> None:
        if feature == "opensmile":
            raise KeyboardInterrupt

    place = tmp_path / "place"
    with pytest.raises(KeyboardInterrupt):
        make_release(original, place / "out", settings_of(tmp_path), progress=progress)
    assert [path.name for path in place.iterdir()] == ["out.key.json"]
