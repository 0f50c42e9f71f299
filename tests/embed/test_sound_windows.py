"""Models of sound with a row for each window: scores of heads, and models that see a window of one length."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from support.media.recordings import write_recording, write_wave
from support.messages import naming
from support.models.tiny_audio_models import RATE, sound_model
from support.models.tiny_classifiers import LABELS, sound_classifier, speech_regression
from support.models.tiny_text_models import DEPTH
from support.stores import local
from support.studies import extract_session, make_study

from storyframes import Axis, ClipDataset, ClipInput, FeatureStore
from storyframes.clips.window_spec import WindowSpec
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.extractors.audio.extractor import AudioSettings
from tasks.extractors.audio.window_encoder import WindowEncoder
from tasks.extractors.audio.windows import SecondsOfSound
from tasks.extractors.base import ExtractionError
from tasks.extractors.embed import loading
from tasks.extractors.embed.loading import Loaded, load_classifier, load_pretrained
from tasks.extractors.embed.settings import Kind
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.media.sound import read_audio
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.study.load import load_study

torch.set_num_threads(1)  # as in a worker

SECONDS = 2.3


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a model, made once."""
    root = tmp_path_factory.mktemp("models")

    @cache
    def folder(make: Callable[..., Path], *arguments: Any) -> Path:
        return make(root / f"{make.__name__}{len(list(root.iterdir()))}", *arguments)

    return folder


def sound(seconds: float = SECONDS, rate: int = RATE) -> np.ndarray:
    """(n,) int16: a tone that rises, with noise."""
    time = np.arange(round(seconds * rate)) / rate
    noise = np.random.default_rng(0).normal(0, 0.1, len(time))
    return (9000 * (np.sin(2 * np.pi * (200 + 150 * time) * time) + noise)).astype(np.int16)


def section(folder: Path, name: str = "said", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "audio", "source": f"path:{folder}", **more}


def built(folder: Path, **more: Any) -> Any:
    return build_extractors(ExtractorsSettings.model_validate({"embed": [section(folder, **more)]}), "")["said"]


def extracted(folder: Path, *sections: dict[str, Any], seconds: float = SECONDS, rate: int = RATE) -> FeatureStore:
    write_wave(folder / "s.wav", sound(seconds, rate), rate)
    names = [one["name"] for one in sections]
    store, outcomes = extract_session(
        make_study(folder, audio="s.wav"), folder / "features", *names, embed=list(sections)
    )
    assert {str(outcomes[name].status) for name in names} == {"done"}, outcomes
    return store


def encoder_of(extractor: Any) -> WindowEncoder:
    return WindowEncoder(extractor.model, extractor._window_shape(), extractor.settings, extractor.head)


@torch.inference_mode()
def by_transformers(folder: Path, samples: np.ndarray, loader: str = "AutoModelForAudioClassification") -> Any:
    """The outputs of a model for all samples together, called as its documentation has it."""
    import transformers as t

    processor = t.AutoFeatureExtractor.from_pretrained(folder)
    inputs = processor(samples, sampling_rate=processor.sampling_rate, return_tensors="pt")
    model = getattr(t, loader).from_pretrained(folder)
    if loader == "AutoModel" and hasattr(model, "get_audio_features"):
        return model.get_audio_features(**inputs)
    return model(**inputs, output_hidden_states=True)


def as_read(path: Path, rate: int) -> np.ndarray:
    """The file's samples at a model's rate."""
    return np.concatenate([block.samples for block in read_audio(path, rate, None)])


# --- windows ---------------------------------------------------------------------------------------------------------


@given(blocks=st.lists(st.integers(0, 70), max_size=30), length=st.integers(1, 60), stride=st.floats(0.6, 90))
def test_windows_are_those_of_the_whole_signal(blocks: list[int], length: int, stride: float) -> None:
    signal = np.arange(sum(blocks), dtype=np.float32)
    cut = SecondsOfSound(length, stride)
    windows = list(cut.of(np.split(signal, np.cumsum(blocks)[:-1]) if blocks else []))
    starts = []
    while round(len(starts) * stride) + length <= len(signal):
        starts.append(round(len(starts) * stride))
    if not starts and len(signal):
        assert [(first, len(samples)) for first, samples in windows] == [(0, len(signal))]
        return
    assert [first for first, _ in windows] == starts
    for first, samples in windows:
        np.testing.assert_array_equal(samples, signal[first : first + length])
    assert cut.left_out == (max(len(signal) - starts[-1] - length, 0) if starts else 0)


CASES = {
    "wav2vec2": {"window_s": 0.5, "stride_s": 0.25},
    "wav2vec2_bert": {"window_s": 0.52, "stride_s": 0.25},
    "ast": {"activation": "softmax"},
    "whisper": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("rate", [16_000, 48_000])
@pytest.mark.parametrize("family", CASES)
def test_scores_of_windows_are_what_transformers_gives(
    made: Callable[..., Path], tmp_path: Path, family: str, rate: int
) -> None:
    folder = made(sound_classifier, family)
    store = extracted(tmp_path, section(folder, output="scores", **CASES[family]), rate=rate)
    scores, start, time, end = (store.read("s", "said", array=name) for name in ("values", "start", "time", "end"))
    window_s = {"ast": 0.4, "whisper": 2.0}.get(family) or CASES[family]["window_s"]
    stride_s = CASES[family].get("stride_s", window_s)
    assert len(start) == int((SECONDS - window_s) / stride_s + 1e-9) + 1
    np.testing.assert_allclose(np.diff(start), stride_s, atol=1e-4)
    np.testing.assert_allclose(end - start, window_s, atol=1e-9)
    np.testing.assert_allclose(time, start + window_s / 2, atol=1e-9)
    samples = as_read(tmp_path / "s.wav", RATE)
    for number in range(0, len(start), 3):
        first = round(start[number] * RATE)
        outputs = by_transformers(folder, samples[first : first + round(window_s * RATE)])
        np.testing.assert_allclose(scores[number], outputs.logits[0].softmax(dim=-1), atol=1e-4)
    assert store.spec("s", "said").columns == LABELS


@pytest.mark.slow
@pytest.mark.parametrize("rate", [16_000, 48_000])
@pytest.mark.parametrize("family", ["clap", "ast"])
def test_models_of_one_window_give_their_own_row(
    made: Callable[..., Path], tmp_path: Path, family: str, rate: int
) -> None:
    folder = made(sound_classifier, family)
    if family == "ast":  # as published without a head
        folder = Path(shutil.copytree(folder, tmp_path / "ast"))
        state = {
            name: each for name, each in load_file(folder / "model.safetensors").items() if "classifier" not in name
        }
        save_file(state, folder / "model.safetensors", {"format": "pt"})
    store = extracted(tmp_path, section(folder), rate=rate)
    rows, start = store.read("s", "said"), store.read("s", "said", array="start")
    window_s, hears = (1.0, 48_000) if family == "clap" else (0.4, RATE)
    assert (len(start), store.attributes("s", "said")["window_s"]) == (int(SECONDS / window_s), window_s)
    samples = as_read(tmp_path / "s.wav", hears)
    for number in range(len(start)):
        first = round(start[number] * hears)
        outputs = by_transformers(folder, samples[first : first + round(window_s * hears)], "AutoModel")
        np.testing.assert_allclose(rows[number], outputs.pooler_output[0], atol=1e-4)
    assert np.abs(rows[0] - rows[1]).max() > 0.001


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_scores_of_other_problems(made: Callable[..., Path], problem: str) -> None:
    folder = made(sound_classifier, "wav2vec2", LABELS, problem)
    samples = sound(0.5).astype(np.float32) / 32768
    numbers = by_transformers(folder, samples).logits
    expected = torch.sigmoid(numbers) if problem == "multi_label_classification" else numbers
    rows = encoder_of(built(folder, output="scores", window_s=0.5)).embed([samples])
    np.testing.assert_allclose(rows, expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["ast", "wav2vec2", "clap"])
def test_a_sound_shorter_than_a_window_is_one_row(made: Callable[..., Path], tmp_path: Path, family: str) -> None:
    more: dict[str, Any] = {"output": "scores", "activation": "softmax"} if family != "clap" else {}
    more |= {"window_s": 3.0} if family == "wav2vec2" else {}
    folder = made(sound_classifier, family)
    store = extracted(tmp_path, section(folder, **more), seconds=0.21)
    hears = 48_000 if family == "clap" else RATE
    loader = "AutoModel" if family == "clap" else "AutoModelForAudioClassification"
    outputs = by_transformers(folder, as_read(tmp_path / "s.wav", hears), loader)
    expected = outputs.pooler_output[0] if family == "clap" else outputs.logits[0].softmax(dim=-1)
    np.testing.assert_allclose(store.read("s", "said"), expected[None], atol=1e-4)
    np.testing.assert_allclose(store.read("s", "said", array="end"), [0.21], atol=1e-3)


@pytest.mark.slow
def test_both_outputs_of_a_window(made: Callable[..., Path], tmp_path: Path) -> None:
    folder = made(sound_classifier, "wav2vec2")
    more: dict[str, Any] = {"output": ["hidden", "scores"], "layer": [0, -1], "window_s": 0.5}
    store = extracted(tmp_path, section(folder, **more), section(folder, "mean", **more, pool="mean"))
    samples = as_read(tmp_path / "s.wav", RATE)[: RATE // 2]
    outputs = by_transformers(folder, samples)
    layers = [outputs.hidden_states[layer][0].mean(dim=0) for layer in (0, DEPTH)]
    scores = outputs.logits[0].softmax(dim=-1)
    np.testing.assert_allclose(store.read("s", "said")[0], torch.cat([*layers, scores]), atol=1e-4)
    np.testing.assert_allclose(store.read("s", "mean")[0], torch.cat([(layers[0] + layers[1]) / 2, scores]), atol=1e-4)


@pytest.mark.parametrize(("family", "seconds", "steps"), [("whisper", 1.0, 50), ("wav2vec2_bert", 0.51, 24)])
def test_layers_are_means_over_the_sound_of_a_window_alone(
    made: Callable[..., Path], family: str, seconds: float, steps: int
) -> None:
    """The processors fill it up: Whisper's to 2 s, w2v-BERT's to an even number of frames."""
    folder = made(sound_classifier, family)
    samples = sound(seconds).astype(np.float32) / 32768
    states = by_transformers(folder, samples).hidden_states
    expected = torch.cat([states[layer][0][:steps].mean(dim=0) for layer in (1, DEPTH)])
    assert states[1].shape[1] > steps
    rows = encoder_of(built(folder, layer=[1, -1], window_s=seconds)).embed([samples])
    np.testing.assert_allclose(rows[0], expected, atol=1e-4)


def test_weights_of_an_encoder_that_are_in_no_file_are_no_random_numbers(
    made: Callable[..., Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(made(sound_classifier, "whisper"), tmp_path / "m"))
    state = load_file(folder / "model.safetensors")
    del state["encoder.layers.1.fc1.weight"]
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ExtractionError, match=naming("encoder.layers.1.fc1.weight")):
        encoder_of(built(folder, window_s=1.0))


def test_inner_layers_of_windows_without_a_head(made: Callable[..., Path]) -> None:
    folder = made(sound_classifier, "wav2vec2")
    samples = sound(0.5).astype(np.float32) / 32768
    states = by_transformers(folder, samples).hidden_states
    expected = torch.cat([states[layer][0].mean(dim=0) for layer in (1, DEPTH)])
    rows = encoder_of(built(folder, layer=[1, -1], window_s=0.5)).embed([samples])
    np.testing.assert_allclose(rows[0], expected, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [16_000, 48_000])
def test_rows_of_w2v_bert_are_those_of_transformers(made: Callable[..., Path], tmp_path: Path, rate: int) -> None:
    """Of steps of 20 ms, each of the 35 ms from 320 i on."""
    folder = made(sound_classifier, "wav2vec2_bert")
    seconds = 0.76  # so that the frames of its spectrogram are even in number
    store = extracted(tmp_path, section(folder, layer=[0, -1]), seconds=seconds, rate=rate)
    samples = as_read(tmp_path / "s.wav", RATE)
    rows, time = store.read("s", "said"), store.read("s", "said", array="time")
    frames = (len(samples) - 400) // 160 + 1
    outputs = by_transformers(folder, samples[: 400 + 160 * (frames // 2 * 2 - 1)], "AutoModel")
    expected = torch.cat([outputs.hidden_states[0][0], outputs.last_hidden_state[0]], dim=-1)
    np.testing.assert_allclose(rows, expected, atol=2e-4, rtol=1e-3)
    np.testing.assert_allclose(time, (320 * np.arange(frames // 2) + 280) / RATE, atol=1e-9)


# --- heads of their own code -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("output", "pickled"), [("out_proj", False), ("output", False), ("out_proj", True)])
def test_a_head_of_two_layers_is_recognised_by_its_keys(
    made: Callable[..., Path], tmp_path: Path, output: str, *, pickled: bool
) -> None:
    folder = Path(shutil.copytree(made(speech_regression), tmp_path / "m"))
    state = load_file(folder / "model.safetensors")
    base = by_transformers(folder, as_samples := sound(0.5).astype(np.float32) / 32768, "AutoModel")
    row = state["classifier.dense.weight"] @ base.last_hidden_state[0].mean(dim=0) + state["classifier.dense.bias"]
    expected = state["classifier.out_proj.weight"] @ torch.tanh(row) + state["classifier.out_proj.bias"]
    state = {name.replace("out_proj", output) if "classifier" in name else name: each for name, each in state.items()}
    if pickled:
        (folder / "model.safetensors").unlink()
        torch.save(state, folder / "pytorch_model.bin")
    else:
        save_file(state, folder / "model.safetensors", {"format": "pt"})
    extractor = built(folder, output="scores", window_s=0.5)
    assert extractor.spec.columns == ("arousal", "dominance", "valence")
    np.testing.assert_allclose(encoder_of(extractor).embed([as_samples])[0], expected, atol=1e-4)


@pytest.mark.parametrize("change", ["two heads", "sums", "more layers"])
def test_other_heads_are_refused_with_their_keys(made: Callable[..., Path], tmp_path: Path, change: str) -> None:
    folder = Path(shutil.copytree(made(speech_regression), tmp_path / "m"))
    state, config = load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())
    found = ["classifier.dense.bias", "classifier.out_proj.weight"]
    if change == "two heads":
        state = {name.replace("classifier", "age"): each for name, each in state.items()}
        found = ["age.dense.bias", "age.out_proj.weight"]
    elif change == "more layers":
        state["classifier.middle.weight"] = torch.zeros(2, 2)
    else:
        (folder / "config.json").write_text(json.dumps(config | {"pooling_mode": "sum"}))
        found = ["pooling_mode", "'sum'"]
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ExtractionError, match=naming(*found)):
        load_classifier(Kind.AUDIO, folder, "[[embed]] said:")


def test_a_random_head_is_looked_for_once(made: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again for each session: the model is loaded for it."""
    folder, loads = made(sound_model, "wav2vec2"), []

    def load(*arguments: Any, **named: Any) -> Loaded:
        loads.append(arguments)
        return load_pretrained(*arguments, **named)

    monkeypatch.setattr(loading, "load_pretrained", load)
    said = {"output": "scores", "window_s": 0.5, "activation": "none", "allow_untrained": True}
    assert [built(folder, **said).is_untrained() for _ in range(2)] == [True, True]
    assert len(loads) == 1


# --- what is refused -------------------------------------------------------------------------------------------------


def test_windows_that_do_not_fit_the_model(made: Callable[..., Path]) -> None:
    with pytest.raises(ExtractionError, match=naming("window_s is missing")):
        _ = built(made(sound_classifier, "wav2vec2"), output="scores").spec
    with pytest.raises(ExtractionError, match=naming("window_s = 0.5", "0.4")):
        _ = built(made(sound_classifier, "ast"), window_s=0.5).spec
    with pytest.raises(ExtractionError, match=naming("layer = 2")):
        _ = built(made(sound_classifier, "ast"), layer=2).spec
    with pytest.raises(ExtractionError, match=naming("context_s", "row for each step")):
        _ = built(made(sound_classifier, "ast"), context_s=1.0).spec


def test_scores_of_a_model_of_one_window_need_a_meaning(made: Callable[..., Path]) -> None:
    with pytest.raises(ExtractionError, match=naming("problem_type", "activation", "'sigmoid'", "'softmax'")):
        _ = built(made(sound_classifier, "ast"), output="scores").spec
    assert built(made(sound_classifier, "ast"), output="scores", activation="sigmoid").spec.columns == LABELS
    multiple = made(sound_classifier, "ast", LABELS, "multi_label_classification")
    assert str(built(multiple, output="scores").head.activation) == "sigmoid"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"stride_s": 1.0}, "stride_s needs window_s"),
        ({"output": "scores", "context_s": 1.0}, "context_s is of a row for each step"),
        ({"window_s": 2.0, "chunk_s": 9.0}, "chunk_s is of a row for each step"),
    ],
)
def test_settings_that_do_not_fit(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        AudioSettings.model_validate(section(Path("/m"), **said))


def test_windows_are_in_the_fingerprint_where_they_are_rows(made: Callable[..., Path]) -> None:
    folder = made(sound_classifier, "wav2vec2")
    windows = built(folder, window_s=0.5).value_settings()
    assert (windows["window_s"], windows["stride_s"]) == (0.5, 0.5)
    assert {"chunk_s", "context_s"}.isdisjoint(windows)
    assert {"window_s", "stride_s"}.isdisjoint(built(folder).value_settings())


# --- clips and tracks ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_clips_have_their_windows_and_at_each_frame_the_nearest(made: Callable[..., Path], tmp_path: Path) -> None:
    write_study(tmp_path / "study", SyntheticStudy(sessions=1, seconds=16, width=64, height=48))
    model = section(made(sound_classifier, "wav2vec2"), output="scores", window_s=0.5, stride_s=0.25)
    store, _ = extract_session(tmp_path / "study", tmp_path / "f", "said", session_id="s0001", embed=[model])
    windows = WindowSpec(window=30, stride=15, unlabelled="keep")
    write_clip_index(build_clip_index(load_study(tmp_path / "study"), windows, store).clips, local(tmp_path / "f"))
    rows, start, end, time = (store.read("s0001", "said", array=name) for name in ("values", "start", "end", "time"))
    own = ClipDataset(tmp_path / "f", [ClipInput("said", ["laughter"])])
    per_frame = ClipDataset(tmp_path / "f", [ClipInput("said", axis=Axis.FRAME)])
    frame = store.read("s0001", "frames", array="time")
    assert len(own) > 5
    for number, clip in enumerate(own.clips.itertuples()):
        inside = (start >= clip.start_s - 0.03) & (end <= clip.stop_s + 0.03)
        np.testing.assert_array_equal(own[number]["said"][own[number]["said_mask"]][:, 0], rows[inside, 2])
        shown = frame[clip.start_frame : clip.stop_frame]
        nearest = np.abs(time[:, None] - shown).argmin(axis=0)
        mask = per_frame[number]["said_mask"]
        assert mask.mean() > 0.8
        near = np.abs(time[nearest] - shown) < 0.124  # beyond, two windows may be as near
        np.testing.assert_array_equal(per_frame[number]["said"][mask & near], rows[nearest][mask & near])


@pytest.mark.slow
def test_a_track_with_sound_only_has_windows(made: Callable[..., Path], tmp_path: Path) -> None:
    write_wave(tmp_path / "s.wav", sound(), RATE)
    write_recording(tmp_path / "v.mkv", 5)
    study = make_study(tmp_path, video="v.mkv")
    (study / "tracks.csv").write_text("session_id,track,audio\ns,lapel,s.wav\n")
    model = section(made(sound_classifier, "ast"), output="scores", activation="sigmoid")
    store, outcomes = extract_session(study, tmp_path / "features", "said", embed=[model])
    assert str(outcomes["said@lapel"].status) == "done"
    np.testing.assert_allclose(store.read("s", "said@lapel", array="start"), 0.4 * np.arange(5), atol=1e-9)
