"""Stores that older code made are read, kept and extended, and nothing in them is extracted again without a reason.

``data/old_stores.tar.xz`` holds a study of two synthetic sessions of 1.6 s, its configuration, and what ``storyframes
extract`` made of it at three commits: 63d726e, before the code was put into rooms; 26a64a6, before extractors were
registered and the store described its features; and, of frames and words alone, 93b2dea5, which kept beside its tables
what they were made of, so that only changed sessions were read again.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import zarr
from support.stores import local
from support.studies import run
from typer.testing import CliRunner

from flows.cli.app import app
from flows.settings import load_settings
from storyframes.clips.dataset import ClipDataset
from storyframes.clips.inputs import ClipInput
from storyframes.features import FEATURES
from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import CATALOGUE, WINDOWS
from storyframes.store.maintenance.verification import verify
from storyframes.store.record_status import read_status
from storyframes.store.records import Current
from tasks.extractors.base import Fingerprint
from tasks.extractors.registry import build_extractor
from tasks.models.digests import DigestCache
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import Selection
from tasks.planning.sources import session_source
from tasks.study.load import load_study

DATA = Path(__file__).parents[1] / "data" / "old_stores.tar.xz"
COMMITS = ("63d726e", "26a64a6")
SESSIONS = ("s0001", "s0002")
MADE = ("frames", "opensmile", "glove", "sbert")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    with tarfile.open(DATA) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(params=COMMITS)
def old(request: pytest.FixtureRequest, unpacked: Path, tmp_path: Path) -> Path:
    """A store as older code left it, beside the study and the configuration that it was made of."""
    shutil.copytree(unpacked, tmp_path / "old")
    return tmp_path / "old" / f"store-{request.param}"


def test_a_store_of_which_only_changed_sessions_were_read_is_current(unpacked: Path, tmp_path: Path) -> None:
    shutil.copytree(unpacked, tmp_path / "old")
    store = tmp_path / "old" / "store-93b2dea5"
    assert (store / WINDOWS).is_file()
    assert "seen" in pq.read_schema(store / CATALOGUE).names
    assert list(verify(local(store))) == []
    features, clips, study = FeatureStore(store), FeatureStore(store).clips(), load_study(store.parent / "study")
    assert features.sessions == list(SESSIONS)
    settings = load_settings(store.parent / "storyframes.toml").model_copy(update={"features": ("frames", "glove")})
    plan = plan_extraction(study, store, settings, Selection())
    assert plan.units == []
    assert len(plan.settled) == 5
    arguments = ["index", str(study.root), str(store), "--config", str(store.parent / "storyframes.toml")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    pd.testing.assert_frame_equal(FeatureStore(store).clips(), clips, check_exact=True)
    assert FeatureStore(store).clips().attrs == clips.attrs
    pd.testing.assert_frame_equal(FeatureStore(store).catalogue, features.catalogue)
    assert list(verify(local(store))) == []
    assert not (store / WINDOWS).exists()


def values(store: Path, session: str, feature: str, array: str = "values") -> np.ndarray:
    (path,) = store.glob(f"{session}/{feature}/*/{array}")
    return np.asarray(zarr.open_array(path, mode="r")[:])


def test_its_features_are_what_they_were(old: Path) -> None:
    store = FeatureStore(old)
    assert store.sessions == list(SESSIONS)
    for session in SESSIONS:
        assert store.features(session) == sorted(MADE)
        for feature in MADE:
            spec = store.spec(session, feature)
            assert (spec.mask, spec.groups) == (FEATURES[feature].mask, FEATURES[feature].groups)
            for array in spec.arrays:
                np.testing.assert_array_equal(
                    store.read(session, feature, array=array), values(old, session, feature, array)
                )
    assert set(store.features("stories")) == {"glove", "sbert"}


def test_its_clips_are_read(old: Path) -> None:
    inputs = ["frames", "audio", "opensmile", "words", "sentence", ClipInput("glove", axis="frame"), "story", "label"]
    dataset = ClipDataset(old, inputs)
    assert len(dataset) == 24
    heard = 0
    for sample, (_, clip) in zip(dataset, dataset.clips.iterrows(), strict=True):
        session, rows = clip["session_id"], slice(clip["start_frame"], clip["stop_frame"])
        np.testing.assert_array_equal(sample["frames_time"], values(old, session, "frames", "time")[rows])
        sound = values(old, session, "opensmile")[clip["audio_start"] : clip["audio_stop"]]
        for name in ("audio", "opensmile"):
            np.testing.assert_array_equal(sample[name][: len(sound)], sound)
        word = values(old, session, "glove", "frame_word")[rows]
        known = values(old, session, "glove", "known")[word] == 1
        np.testing.assert_array_equal(sample["glove_mask"], (word >= 0) & known)
        heard += int(sample["glove_mask"].sum())
    assert heard


def test_it_is_sound_and_shown(old: Path) -> None:
    assert list(verify(local(old))) == []
    shown = CliRunner().invoke(app, ["status", str(old)], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    assert all(word in shown.output for word in (*SESSIONS, *MADE, "demo word vectors", "10 done"))
    shown = CliRunner().invoke(app, ["show", str(old), SESSIONS[0]], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output


def made_differently(current: Current, now: Fingerprint) -> bool:
    """Whether what made the values was changed on purpose, or is another one on this machine."""
    then = current.provenance
    mine = {"extractor": now.extractor, "models": dict(now.models), "tools": dict(now.tools)}
    return any(then[name] != value for name, value in mine.items())


def test_only_what_was_changed_on_purpose_is_due(old: Path) -> None:
    """The recorded version of the extractor, its models and its tools say what was: all else decides nothing anew.

    An extractor whose values changed has another version since, and another release of openSMILE is another tool; so
    this test goes by the records. What must not happen is that the same extractor, with the same model and tool, of the
    same input and settings, has another fingerprint, because code was moved or written in another way.
    """
    study, settings = load_study(old.parent / "study"), load_settings(old.parent / "storyframes.toml")
    plan = plan_extraction(study, old, settings, Selection())
    due = {(work.session_id, feature) for work in plan.units for feature in work.features}
    skipped = {(outcome.session_id, outcome.feature) for outcome in plan.settled if outcome.skipped}
    changed = set()
    keys = [
        *((session, feature) for session in SESSIONS for feature in MADE),
        ("stories", "glove"),
        ("stories", "sbert"),
    ]
    digests = DigestCache(local(old), "inputs.json", study.root)
    for session, feature in keys:
        extractor = build_extractor(settings.resolved(), session, feature)
        entry = read_status(local(old), session, feature)
        assert entry is not None
        assert entry.record is not None
        now = extractor.fingerprint(session_source(study, session, [extractor], digests))
        if made_differently(entry.record, now):
            changed.add((session, feature))
        else:
            assert now.digest == entry.record.fingerprint, f"{session}/{feature} has another fingerprint"
    assert due == changed
    assert skipped == set(keys) - changed


def test_it_can_be_extended(old: Path) -> None:
    study, configuration = old.parent / "study", old.parent / "storyframes.toml"
    kept = {path: path.read_bytes() for path in old.glob("s0002/*/current.json")}
    outcomes = run(study, old, Selection((SESSIONS[0],), ("frames", "glove"), force=True), **_settings(configuration))
    assert {name: str(outcome.status) for name, outcome in outcomes.items()} == {
        "s0001/frames": "done",
        "s0001/glove": "done",
    }
    arguments = ["index", str(study), str(old), "--config", str(configuration)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert list(verify(local(old))) == []
    assert all(path.read_bytes() == content for path, content in kept.items())
    (new,) = (path for path in old.glob("s0001/glove/*/zarr.json") if b'"mask"' in path.read_bytes())
    assert json.loads(new.read_bytes())["attributes"]["mask"] == "known"
    dataset = ClipDataset(old, ["words", ClipInput("glove", axis="frame"), "opensmile", "frames"])  # old and new ones
    assert set(dataset.clips["session_id"]) == set(SESSIONS)
    assert len(list(dataset)) == 24


def _settings(configuration: Path) -> dict[str, object]:
    settings = load_settings(configuration)
    return {name: getattr(settings, name) for name in ("features", "glove")}
