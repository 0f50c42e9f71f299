"""What a release says of how its features were made: enough to make them again, and nothing of anybody."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_store import SETTINGS, planted_store, settings_of
from support.media.recordings import write_wave
from support.messages import missing, naming
from support.models.tiny_image_models import transformers_model
from support.models.tiny_video_models import video_model
from support.stores import remember_sessions
from support.studies import extract_session, make_study
from support.tools.outside_programs import write_colours
from typer.testing import CliRunner

from flows.cli.app import app
from flows.settings import load_settings
from storyframes import FeatureStore
from storyframes.store.layout import StoreError
from storyframes_release.release.provenance import NUMBERS, UNTRAINED, WORDS, configuration, released_provenance
from storyframes_release.release.run import make_release
from storyframes_release.release.settings import ReleaseError, read_settings
from tasks.extractors.audio.extractor import AudioSettings
from tasks.extractors.image.settings import ImageSettings
from tasks.extractors.outside.settings import DECIDE_NO_VALUE
from tasks.extractors.registry import registered
from tasks.extractors.settings import RecordingSettings, TranscriptSettings
from tasks.extractors.text.model import TextSettings
from tasks.extractors.video.extractor import VideoSettings

RELEASED = {
    "code": "storyframes 0.30.0",
    "extractor": 3,
    "settings": {
        "engine": "torch",
        "every_n_frames": 2,
        "layer": [-1, 3],
        "allow_truncated": True,
        "prompt": "query: ",
    },
    "models": {"config.json": "ab" * 32, "file_1": "cd" * 32},
    "tools": {"opensmile": "2.5.0"},
    "libraries": {"numpy": "2.1.0"},
    "reads": ["openface"],
    "settings_left_out": 9,
}


@pytest.mark.slow
def test_provenance_has_what_is_on_the_list_and_nothing_else(tmp_path: Path) -> None:
    original = planted_store(tmp_path / "features")
    make_release(original, tmp_path / "out", settings_of(tmp_path))
    store = FeatureStore(tmp_path / "out/features")
    assert store.attributes("s0001", "openface")["provenance"] == RELEASED
    assert store.attributes("s0001", "gesture")["provenance"] == RELEASED
    without_code = {name: value for name, value in RELEASED.items() if name != "code"}
    assert store.attributes("s0001", "frames")["provenance"] == without_code
    (record,) = (tmp_path / "out/features/s0001/openface").glob("current.json")
    assert json.loads(record.read_bytes())["provenance"] == RELEASED


@pytest.mark.parametrize("value", [None, "text", [1], {"models": "x", "settings": ["y"], "tools": 3}, {1: 2}])
def test_provenance_of_any_form_is_no_error(value: Any) -> None:
    assert released_provenance(value if isinstance(value, dict) else {"settings": value, "models": value}) == {}


def test_settings_of_scores_are_released() -> None:
    settings = {"output": ["hidden", "scores"], "activation": "sigmoid", "pool": "cls"}
    assert released_provenance({"settings": settings})["settings"] == settings
    others = {"output": ["hidden", "anna"], "activation": "anna"}
    assert "settings" not in released_provenance({"settings": others})


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_study(tmp_path_factory.mktemp("study") / "study", video="s.avi", audio="s.wav")
    write_colours(folder / "s.avi", 30)
    rate = 16_000
    hum = np.sin(2 * np.pi * 220 * np.arange(2 * rate) / rate) * np.linspace(0.1, 0.6, 2 * rate)
    write_wave(folder / "s.wav", (hum * 20_000).astype(np.int16), rate)
    return folder


RELEASE = """
title = "Colours"
description = "A film of colours with a hum."
license = "CC0-1.0"
version = "1"
authors = ["A"]
allow_biometric = true
allow_text_vectors = true

[features]
frames = "all"
opensmile = ["values"]
tiny = ["values"]
moving = ["values"]
"""


@pytest.mark.slow
def test_a_release_says_enough_to_make_its_features_again(
    study: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("of-the-lab")
    models = {"tiny": transformers_model(folder / "vit", "vit"), "moving": video_model(folder / "mae", "videomae")}
    settings: dict[str, Any] = {
        "recording": {"allow_truncated": True},
        "opensmile": {"feature_set": "eGeMAPSv02"},
        "embed": [
            {"name": "tiny", "kind": "image", "source": f"path:{models['tiny']}", "layer": [1, -1], "pool": "mean",
             "every_n_frames": 3, "engine": "torch", "dtype": "float32"},
            {"name": "moving", "kind": "video", "source": f"path:{models['moving']}", "window_s": 1.0, "stride_s": 0.5},
        ],
    }  # fmt: skip
    features = ("frames", "opensmile", *models)
    original, outcomes = extract_session(study, tmp_path / "store", *features, **settings)
    assert not [outcome for outcome in outcomes.values() if outcome.failed], outcomes
    (tmp_path / "release.toml").write_text(RELEASE)
    remember_sessions(tmp_path / "store", "s")
    make_release(original, tmp_path / "given", read_settings(tmp_path / "release.toml"))
    printed = CliRunner().invoke(app, ["release", "configuration", str(tmp_path / "given")])
    assert printed.exit_code == 0, printed.output
    assert "of-the-lab" not in printed.stdout
    assert "load_dataset" not in (tmp_path / "given/README.md").read_text()  # it has no clips
    digest = original.attributes("s", "tiny")["provenance"]["models"]["model.safetensors"]
    assert f"# tiny: model.safetensors: sha256 {digest}" in printed.stdout
    versions = original.attributes("s", "opensmile")["provenance"]
    assert re.search(rf"# opensmile: .*, opensmile {versions['tools']['opensmile']}, numpy ", printed.stdout)

    again = tmp_path / "again.toml"
    text = printed.stdout
    for name, model in models.items():
        text = text.replace(f'name = "{name}"\nsource = "path:FOLDER"', f'name = "{name}"\nsource = "path:{model}"')
    again.write_text(text)
    made = load_settings(again)
    assert made.features == ("frames", "opensmile")
    assert made.recording.allow_truncated
    sections = {name: getattr(made, name) for name in ("features", "recording", "transcript", "embed", "opensmile")}
    store, _ = extract_session(study, tmp_path / "again", *features, **sections)
    released = FeatureStore(tmp_path / "given/features")
    for feature in features:
        array = next(iter(released.spec("s0001", feature).arrays))
        given = released.read("s0001", feature, array=array)
        np.testing.assert_array_equal(store.read("s", feature, array=array), given)
        before = original.catalogue.set_index("feature")["fingerprint"][feature]
        assert store.catalogue.set_index("feature")["fingerprint"][feature] == before
    by_default, _ = extract_session(study, tmp_path / "default", "frames", "opensmile")
    assert by_default.read("s", "opensmile").shape != store.read("s", "opensmile").shape


@pytest.mark.slow
def test_settings_that_differ_are_refused_and_made_of_one_session(tmp_path: Path) -> None:
    original = planted_store(tmp_path / "features")
    text = SETTINGS.partition("[features]")[0] + '[features]\nopenface = ["gaze"]\n'
    make_release(original, tmp_path / "out", settings_of(tmp_path, text))
    (path,) = (tmp_path / "out/features/s0002/openface").glob("*/zarr.json")
    path.write_text(path.read_text().replace('"every_n_frames": 2', '"every_n_frames": 4'))
    store = FeatureStore(tmp_path / "out/features")
    with pytest.raises(ReleaseError, match=naming("s0001/openface", "s0002/openface")):
        configuration(store)
    assert "every_n_frames = 4" in configuration(store, "s0002")
    with pytest.raises(StoreError, match="there is no session 's0009'"):
        configuration(store, "s0009")
    assert "9 settings are not public" in configuration(store, "s0002")


def planted(tmp_path: Path, **provenance: dict[str, Any]) -> FeatureStore:
    """A release in which openface of a session was made so."""
    original = planted_store(tmp_path / "features")
    text = SETTINGS.partition("[features]")[0] + '[features]\nopenface = ["gaze"]\n'
    make_release(original, tmp_path / "out", settings_of(tmp_path, text))
    for session, made in provenance.items():
        (path,) = (tmp_path / f"out/features/{session}/openface").glob("*/zarr.json")
        content = json.loads(path.read_bytes())
        content["attributes"]["provenance"] = made
        path.write_text(json.dumps(content))
    return FeatureStore(tmp_path / "out/features")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"settings": {"engine": "torch", "margin": 0.3}}, {"settings": {"engine": "torch"}}),
        ({"settings": {"engine": "torch"}}, {"settings": {"engine": "torch", "margin": 0.3}}),
        ({"models": {"resnet50": UNTRAINED}}, {"models": {"resnet50": "ab" * 32}}),
    ],
)
def test_a_setting_that_only_some_sessions_have_is_not_given_to_the_others(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any]
) -> None:
    store = planted(tmp_path, s0001=one, s0002=other, s0003=other)
    with pytest.raises(ReleaseError, match=naming("[openface]", "different")):
        configuration(store)
    assert ("margin" in configuration(store, "s0001")) == ("margin" in one.get("settings", {}))


@pytest.mark.slow
def test_what_a_release_of_others_says_is_compared_with_the_list_as_well(tmp_path: Path) -> None:
    evil = {
        "code": "x\n[openface]\nbinary = '/tmp/evil'",
        "settings": {"backend": "binary", "binary": "/tmp/evil", "x\ny": 1},
        "tools": {"opensmile": "1\n[y]"},
        "settings_left_out": 3,
    }
    printed = configuration(planted(tmp_path, s0001=evil), "s0001")
    assert tomllib.loads(printed) == {"features": ["openface"], "openface": {"backend": "binary"}}
    assert missing(printed, "5 settings", "openface") == []


def test_a_release_of_a_release_says_the_same() -> None:
    assert released_provenance(RELEASED) == RELEASED


@pytest.mark.slow
@pytest.mark.parametrize("made", [{"adopted": {"sha256": "ef" * 32}}, {"features": {"openface": "ef" * 32}}])
def test_what_nothing_extracts_is_not_among_the_features_to_extract(tmp_path: Path, made: dict[str, Any]) -> None:
    original = planted_store(tmp_path / "features")
    for path in (tmp_path / "features").glob("*/gesture/*/zarr.json"):
        content = json.loads(path.read_bytes())
        content["attributes"]["provenance"] = made | {"settings": {"rate": 50, "columns": ["Anna"]}}
        path.write_text(json.dumps(content))
    text = SETTINGS.partition("[features]")[0] + '[features]\nopenface = ["gaze"]\ngesture = ["wave"]\n'
    make_release(original, tmp_path / "out", settings_of(tmp_path, text))
    printed = configuration(FeatureStore(tmp_path / "out/features"))
    assert tomllib.loads(printed)["features"] == ["openface"]
    assert "gesture" not in tomllib.loads(printed)
    assert missing(printed, "elsewhere", "computed") == []
    card = (tmp_path / "out/README.md").read_text()
    assert "`gesture` was " in card
    assert "We extracted `gesture`" not in card
    assert "ef" * 32 not in printed + card


@pytest.mark.slow
def test_images_untrained_weights_and_settings_of_the_study_are_written_as_settings(tmp_path: Path) -> None:
    original = planted_store(tmp_path / "features")
    text = SETTINGS.partition("[features]")[0] + '[features]\nopenface = ["gaze"]\nopensmile = "all"\n'
    make_release(original, tmp_path / "out", settings_of(tmp_path, text))
    changes: dict[str, dict[str, Any]] = {
        "openface": {"settings": {"backend": "container"}, "models": {"image": "ab" * 32}},
        "opensmile": {
            "settings": {"feature_set": "eGeMAPSv02", "rate": 16000, "minimum": 0},
            "models": {"x": UNTRAINED},
        },
    }
    for feature, provenance in changes.items():
        for path in (tmp_path / "out/features").glob(f"s*/{feature}/*/zarr.json"):
            content = json.loads(path.read_bytes())
            content["attributes"]["provenance"] = provenance
            path.write_text(json.dumps(content))
    printed = configuration(FeatureStore(tmp_path / "out/features"))
    assert tomllib.loads(printed) == {
        "features": ["openface", "opensmile"],
        "openface": {"backend": "container", "image": f"sha256:{'ab' * 32}"},
        "opensmile": {"feature_set": "eGeMAPSv02", "allow_untrained": True},
    }


@pytest.mark.slow
def test_a_model_that_names_somebody_is_refused(tmp_path: Path) -> None:
    original = planted_store(tmp_path / "features")
    (path,) = (tmp_path / "features/bertil-2024-03-18/gesture").glob("*/zarr.json")
    path.write_text(path.read_text().replace("path:anna-muster", "hf:lab/vit-of-bertil-1"))
    with pytest.raises(ReleaseError, match="'gesture', 'hf:lab/vit-of-bertil-1', names 'bertil-1'"):
        make_release(original, tmp_path / "out", settings_of(tmp_path))


_WITH_MODELS = {"allow_untrained", "image", "loads", "model", "path", "vectors"}  # known by digests
_HOW_FAST = {"batch_size", "boxes_per_pass", "cpus", "device", "frames_per_pass", "name", "sessions_per_gpu"}


def test_every_setting_that_decides_values_is_on_a_list() -> None:
    """A new setting goes on the list in release/provenance.py, or here with the reason why it is not released."""
    sections = [cls.Settings for cls in registered().values() if not cls.distribution]
    sections += [RecordingSettings, TranscriptSettings, AudioSettings, ImageSettings, TextSettings, VideoSettings]
    fields = {name: field for section in sections for name, field in section.model_fields.items()}
    decided = {name for name, field in fields.items() if not field.exclude}  # those are in no fingerprint
    decided -= _WITH_MODELS | _HOW_FAST | {*DECIDE_NO_VALUE}
    assert decided <= {*WORDS, *NUMBERS}
