"""``[[embed]]`` sections with models of sound: when their rows are, chunked against whole, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.media.recordings import FPS, write_recording, write_wave
from support.messages import missing
from support.models.tiny_audio_models import DEPTH, FAMILIES, GROUP, RATE, STRIDED, WIDTH, sound_model
from support.stores import local
from support.studies import extract_session, make_study

from storyframes import ClipDataset, ClipInput
from storyframes.clips.window_spec import WindowSpec
from storyframes.store.feature_store import FeatureStore
from storyframes.store.records import Caveat
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.extract import Outcome
from tasks.extractors.audio.extractor import AudioSettings
from tasks.extractors.audio.shape import AudioShape, FrontEnd
from tasks.extractors.audio.windows import Windows, window_rows
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.study.load import load_study

SECONDS = 12
CLICK_S = np.arange(40) * 0.251 + 0.4 + np.random.default_rng(5).uniform(-0.03, 0.03, 40)
SOUND_AT_S, PICTURE_AT_S = 0.7, 0.4


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each family, and some for a purpose."""
    folder = tmp_path_factory.mktemp("models")
    found = {family: sound_model(folder / family, family, mixing=0.02) for family in FAMILIES}
    found["data2vec_clicks"] = sound_model(folder / "clicks", "data2vec", mixing=0.02, conv_pos_kernel_size=1)
    found["mixing"] = sound_model(folder / "mixing", "wav2vec2", mixing=0.4)
    found["as_it_is"] = sound_model(folder / "as_it_is", "wav2vec2", mixing=0.02, do_normalize=False)
    return found


def section(name: str, folder: Path, **options: Any) -> dict[str, Any]:
    return {"name": name, "kind": "audio", "source": f"path:{folder}", **options}


def voice(seconds: float = SECONDS) -> np.ndarray:
    """(n,) int16: a voice, in its second half five times as loud."""
    time = np.arange(round(RATE * seconds)) / RATE
    phase = 2 * np.pi * np.cumsum(120 * (1 + 0.1 * np.sin(2 * np.pi * 0.7 * time))) / RATE
    tone = sum(np.sin(k * phase) / k for k in range(1, 20)) * (1.1 + np.sin(2 * np.pi * 2.3 * time))
    hiss = np.random.default_rng(0).normal(0, 0.1, len(time))
    return (3000 * (tone + hiss) * np.where(time > seconds / 2, 1.0, 0.2)).astype(np.int16)


def reason(outcomes: dict[str, Outcome], name: str) -> str:
    assert str(outcomes[name].status) == "failed"
    return outcomes[name].reason


# --- When rows are ---------------------------------------------------------------------------------------------------


def test_steps_fields_and_centres_follow_from_kernels_strides_and_paddings() -> None:
    wav2vec = FrontEnd.of(
        (kernel, stride, 0) for kernel, stride in zip((10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2), strict=True)
    )
    assert (wav2vec.step, wav2vec.field, wav2vec.centre) == (320, 400, 200)
    assert [wav2vec.rows(samples) for samples in (0, 399, 400, 719, 720)] == [0, 0, 1, 1, 2]
    whisper = FrontEnd.of([(400, 160, 200), (3, 1, 1), (3, 2, 1)])
    assert (whisper.step, whisper.field, whisper.centre) == (320, 1040, 0)
    assert [whisper.rows(samples) for samples in (0, 1, 320, 321)] == [0, 1, 1, 2]


def test_times_follow_from_the_models_own_rate(models: dict[str, Path], tmp_path: Path) -> None:
    """A model of telephone sound: its rows are as many samples, twice as long."""
    folder = Path(shutil.copytree(models["wav2vec2"], tmp_path / "m"))
    config, processor = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("config", "preprocessor_config")
    )
    (folder / "preprocessor_config.json").write_text(json.dumps(processor | {"sampling_rate": 8000}))
    shape = AudioShape.of(folder, config, "")
    assert (shape.rate, shape.row_s, shape.centre_s) == (8000, 0.04, 0.025)
    assert window_rows(shape, 3.0, 0.09) == (75 + 2 * 3, 3)


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory, models: dict[str, Path]) -> FeatureStore:
    """Clicks in silence, through every family; the sound begins later than the picture, and neither begins at 0."""
    folder = tmp_path_factory.mktemp("clicks")
    sound = np.zeros((SECONDS * RATE, 1), np.int16)
    sound[np.rint(CLICK_S * RATE).astype(int)] = 30_000
    write_recording(folder / "v.mkv", SECONDS * FPS, sound, sound_at_s=SOUND_AT_S, picture_at_s=PICTURE_AT_S)
    # data2vec makes positions as loud as what is heard: here it hears them from a row's own place only.
    of = models | {"data2vec": models["data2vec_clicks"]}
    options = {name: {"context_s": 0.5} if name == "whisper" else {"chunk_s": 3.0} for name in FAMILIES}
    sections = [section(name, of[name], layer=0, **options[name]) for name in FAMILIES]
    store, outcomes = extract_session(
        make_study(folder, video="v.mkv"), folder / "features", "frames", *FAMILIES, embed=sections
    )
    assert {str(one.status) for one in outcomes.values()} == {"done"}
    return store


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_click_is_in_the_row_whose_time_is_the_clicks(clicks: FeatureStore, family: str) -> None:
    """A row may be late or early by half of what it hears; over many clicks that is 0 in the mean.

    Of what enters the blocks: they mix rows, but move none.
    """
    rows, time = clicks.read("s", family), clicks.read("s", family, array="time")
    assert rows.shape == (len(time), WIDTH)
    np.testing.assert_allclose(np.diff(time), 0.02, atol=1e-9)
    loudness = np.linalg.norm(rows - np.median(rows, axis=0), axis=1)
    late = []
    for click in CLICK_S + SOUND_AT_S - PICTURE_AT_S:
        near = np.flatnonzero(np.abs(time - click) < 0.1)
        late.append(time[near[loudness[near].argmax()]] - click)
    assert np.abs(late).max() <= 0.0151  # 200 samples; of Whisper half a row and half a step of its spectrogram
    assert abs(np.mean(late)) < 0.004  # 0.0125 where a row had the time at which it begins


@pytest.mark.slow
@pytest.mark.parametrize("family", ["wav2vec2", "whisper"])
def test_means_over_frames_are_those_of_the_rows_in_them(clicks: FeatureStore, family: str) -> None:
    time, rows = clicks.read("s", family, array="time"), clicks.read("s", family)
    frame = clicks.read("s", "frames", array="time")
    means = clicks.read("s", family, array="per_frame")
    assert means.shape == (SECONDS * FPS, WIDTH)
    edges = np.append(frame, frame[-1] + 1 / FPS)
    for number in range(0, len(frame), 7):
        inside = rows[(time >= edges[number] - 1e-7) & (time < edges[number + 1] - 1e-7)]
        expected = inside.mean(axis=0) if len(inside) else np.full(WIDTH, np.nan)
        np.testing.assert_allclose(means[number], expected, rtol=1e-5, atol=1e-6)
    assert np.isnan(means[:7]).all()  # there is no sound yet


# --- Chunks ----------------------------------------------------------------------------------------------------------


@given(
    blocks=st.lists(st.integers(0, 900), max_size=40),
    rows=st.integers(1, 9),
    context=st.integers(0, 4),
    padded=st.booleans(),
)
def test_windows_give_every_row_once_with_all_the_context_that_there_is(
    blocks: list[int], rows: int, context: int, padded: bool
) -> None:
    front_end = FrontEnd.of([(40, 20, 20 if padded else 0), (3, 2, 1 if padded else 0)])
    rows += 2 * context
    signal = np.arange(sum(blocks), dtype=np.float32)
    cut = Windows(front_end, rows, context)
    given_rows = 0
    total = front_end.rows(len(signal))
    for window in cut.cut(np.split(signal, np.cumsum(blocks)[:-1]) if blocks else []):
        assert window.samples[0] == window.first_row * front_end.step
        np.testing.assert_array_equal(np.diff(window.samples), 1)
        assert window.first_row + window.keep.start == given_rows
        given_rows = window.first_row + window.keep.stop
        there = front_end.rows(len(window.samples))
        assert there == min(rows, total)
        assert window.keep.start >= context or window.first_row == 0
        assert there - window.keep.stop >= context or given_rows == total
    assert (given_rows, cut.samples) == (total, len(signal))


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory, models: dict[str, Path]) -> FeatureStore:
    """A voice, through every family in one window and in several; layers side by side, of which 0 knows no others."""
    folder = tmp_path_factory.mktemp("spoken")
    write_wave(folder / "s.wav", voice(), RATE)
    write_recording(folder / "v.mkv", 20)
    several = {"layer": [0, 1, -1]}
    sections = [section("in_layers", models["wav2vec2"], **several, chunk_s=60)]
    sections += [section("mean_of_layers", models["wav2vec2"], **several, chunk_s=60, pool="mean")]
    sections += [section("alone", models["wav2vec2"], chunk_s=3, context_s=0)]
    sections += [section("halved", models["wav2vec2"], chunk_s=3, context_s=1, precision="bfloat16")]
    sections += [section("in_batches", models["wav2vec2"], chunk_s=3, context_s=1, batch_size=2, **several)]
    sections += [section("mixing", models["mixing"], chunk_s=3, context_s=1)]
    sections += [section("as_it_is", models["as_it_is"], chunk_s=60)]
    for family in (*STRIDED, *GROUP):
        sections += [section(f"{family}_whole", models[family], chunk_s=60, **several)]
        sections += [section(f"{family}_cut", models[family], chunk_s=3, context_s=1, **several)]
    sections += [section("whisper_cut", models["whisper"], context_s=0.5, **several)]
    names = [one["name"] for one in sections]
    store, outcomes = extract_session(
        make_study(folder, video="v.mkv", audio="s.wav"), folder / "features", "frames", *names, embed=sections
    )
    assert {str(one.status) for one in outcomes.values()} == {"done"}
    return store


def caveats(store: FeatureStore, name: str) -> bool:
    (row,) = store.catalogue[store.catalogue["feature"] == name].itertuples()
    return str(Caveat.CHUNKED_SOUND) in row.stamps


def quality(store: FeatureStore, name: str) -> dict[str, float]:
    (row,) = store.catalogue[store.catalogue["feature"] == name].itertuples()
    return json.loads(row.quality)


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of two rows, as a share of how far rows lie from their mean."""
    spread = np.sqrt(((one - one.mean(axis=0)) ** 2).sum(axis=1).mean())
    return float(np.linalg.norm(one - other, axis=1).max() / spread)


@pytest.mark.slow
@pytest.mark.parametrize("family", STRIDED)
def test_chunked_equals_whole(spoken: FeatureStore, family: str) -> None:
    """What enters the blocks to rounding; what leaves them, with attention over all of a window, to 5 %."""
    whole, cut = spoken.read("s", f"{family}_whole"), spoken.read("s", f"{family}_cut")
    assert whole.shape == cut.shape == ((SECONDS * RATE - 400) // 320 + 1, 3 * WIDTH)
    assert apart(whole[:, :WIDTH], cut[:, :WIDTH]) < 1e-4
    assert apart(whole[:, 2 * WIDTH :], cut[:, 2 * WIDTH :]) < 0.05
    assert quality(spoken, f"{family}_whole")["windows"] == 1
    assert quality(spoken, f"{family}_cut")["windows"] == 4
    assert 0 < quality(spoken, f"{family}_cut")["seam_difference"] < 0.05
    assert not caveats(spoken, f"{family}_whole")
    assert not caveats(spoken, f"{family}_cut")


@pytest.mark.slow
@pytest.mark.parametrize("family", [*GROUP, "whisper"])
def test_what_sees_a_window_as_a_whole_is_stamped(spoken: FeatureStore, family: str) -> None:
    assert caveats(spoken, f"{family}_cut")
    if family != "whisper":
        assert not caveats(spoken, f"{family}_whole")
        assert apart(spoken.read("s", f"{family}_whole"), spoken.read("s", f"{family}_cut")) > 0.05


@pytest.mark.slow
def test_a_model_whose_attention_reaches_over_the_seams_is_stamped(spoken: FeatureStore) -> None:
    assert quality(spoken, "mixing")["seam_difference"] > 0.05
    assert caveats(spoken, "mixing")


@pytest.mark.slow
def test_chunks_without_context_are_stamped_as_nothing_measures_them(spoken: FeatureStore) -> None:
    assert "seam_difference" not in quality(spoken, "alone")
    assert caveats(spoken, "alone")


@pytest.mark.slow
def test_batches_and_halves_give_the_same_rows(spoken: FeatureStore) -> None:
    whole = spoken.read("s", "wav2vec2_cut")
    np.testing.assert_allclose(spoken.read("s", "in_batches"), whole, atol=1e-4)
    assert 0 < apart(whole[:, 2 * WIDTH :], spoken.read("s", "halved")) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "model"), [("in_layers", "wav2vec2"), ("as_it_is", "as_it_is")])
def test_values_are_those_of_transformers_with_the_models_own_processor(
    spoken: FeatureStore, models: dict[str, Path], name: str, model: str
) -> None:
    """With normalisation over the whole sound, and without where the processor says so."""
    import torch
    from transformers import AutoFeatureExtractor, AutoModel

    processor = AutoFeatureExtractor.from_pretrained(models[model])
    samples = voice().astype(np.float32) / 32768
    with torch.inference_mode():
        given = processor(samples, sampling_rate=RATE, return_tensors="pt").input_values
        expected = AutoModel.from_pretrained(models[model])(given).last_hidden_state[0].numpy()
    stored = spoken.read("s", name)[:, -WIDTH:]
    np.testing.assert_allclose(stored, expected, atol=2e-5)


@pytest.mark.slow
def test_layers_stand_side_by_side_under_names_of_their_own_or_as_their_mean(spoken: FeatureStore) -> None:
    rows, mean = spoken.read("s", "in_layers"), spoken.read("s", "mean_of_layers")
    assert spoken.columns("s", "in_layers")[WIDTH] == "in_layers_l1_0000"
    assert spoken.columns("s", "mean_of_layers")[-1] == f"mean_of_layers_{WIDTH - 1:04d}"
    np.testing.assert_allclose(mean, rows.reshape(-1, 3, WIDTH).mean(axis=1), atol=1e-5)
    last = spoken.spec("s", "in_layers").groups[f"layer_{DEPTH}"]
    assert last == slice(2 * WIDTH, 3 * WIDTH)
    attributes = spoken.attributes("s", "wav2vec2_cut")
    assert (attributes["window_s"], attributes["context_s"]) == (5.0, 1.0)
    assert attributes["normalised_over"] == "the whole sound"


# --- Bad input, and what is beside the values ------------------------------------------------------------------------


def heard(study: Path, samples: int, model: Path, **options: Any) -> dict[str, Outcome]:
    """What comes of so many samples beside a video of 2 s, through one section."""
    write_wave(study / "s.wav", voice(samples / RATE), RATE)
    write_recording(study / "v.mkv", 2 * FPS)
    make_study(study, video="v.mkv", audio="s.wav")
    return extract_session(study, study / "features", "frames", "m", embed=[section("m", model, **options)])[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layer": 3}, "layer = 3, but path:"),
        ({"context_s": 2.5, "family": "whisper"}, "leaves nothing of the model's window of 4 s"),
        ({"chunk_s": 3, "family": "whisper"}, "chunk_s cannot be set: the model's window is of 4 s"),
        ({"config": {"conv_kernel": None}}, "is no encoder of sound with a strided front end"),
        ({"config": {"conv_kernel": [10, 3]}}, "is no encoder of sound with a strided front end"),
        ({"config": {"add_adapter": True}}, "an adapter joins its rows"),
        ({"config": {"squeeze_factor": 2}}, "it joins rows inside"),
        ({"config": {"hidden_size": "wide"}}, "has no hidden_size"),
        ({"config": {"max_source_positions": 300}, "family": "whisper"}, "its files do not belong together"),
        ({"processor": None}, "has no preprocessor_config.json"),
        ({"processor": {"sampling_rate": -1}}, "sampling_rate = -1"),
        ({"processor": {"feature_extractor_type": "ASTFeatureExtractor"}}, "is prepared by ASTFeatureExtractor"),
        ({"config": {"model_type": "nobodys"}}, "transformers cannot load"),
    ],
)
def test_what_cannot_become_rows_of_sound_is_refused_with_the_reason(
    tmp_path: Path, models: dict[str, Path], options: dict[str, Any], said: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(models[options.pop("family", "wav2vec2")], folder)
    for part, name in (("config", "config.json"), ("processor", "preprocessor_config.json")):
        if part in options:
            changed = options.pop(part)
            content = json.loads((folder / name).read_text())
            (folder / name).unlink()
            if changed is not None:
                (folder / name).write_text(json.dumps(content | changed))
    outcomes = heard(tmp_path, 2 * RATE, folder, **options)
    assert str(outcomes["frames"].status) == "done"
    assert said in reason(outcomes, "m")


@pytest.mark.parametrize(("samples", "done"), [(399, False), (400, True)])
def test_sound_shorter_than_one_row_is_an_error_that_says_so(
    tmp_path: Path, models: dict[str, Path], samples: int, done: bool
) -> None:
    outcomes = heard(tmp_path, samples, models["wav2vec2"])
    if done:
        assert str(outcomes["m"].status) == "done"
        assert Caveat.SHORT_SOUND in outcomes["m"].caveats
    else:
        assert missing(reason(outcomes, "m"), "0.025 s", "shorter") == []


def test_a_model_that_gives_nan_is_an_error_that_names_the_moment(tmp_path: Path, models: dict[str, Path]) -> None:
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "model"
    shutil.copytree(models["wav2vec2"], folder)
    weights = load_file(folder / "model.safetensors")
    weights["encoder.layer_norm.bias"][3] = float("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    said = reason(heard(tmp_path, RATE, folder), "m")
    assert missing(said, "0.01 s", "48 of", "49 rows", "NaN") == []


@pytest.mark.parametrize(
    ("weight", "refused"), [("encoder.layers.1.attention.q_proj.weight", True), ("masked_spec_embed", False)]
)
def test_weights_that_are_in_no_file_are_no_random_numbers(
    tmp_path: Path, models: dict[str, Path], weight: str, refused: bool
) -> None:
    """transformers draws them, with a warning; what only training uses may be missing."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "model"
    shutil.copytree(models["wav2vec2"], folder)
    weights = load_file(folder / "model.safetensors")
    del weights[weight]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    outcomes = heard(tmp_path, RATE, folder)
    if refused:
        assert missing(reason(outcomes, "m"), weight, "random") == []
    else:
        assert str(outcomes["m"].status) == "done"


def test_a_video_without_sound_lacks_the_input(tmp_path: Path, models: dict[str, Path]) -> None:
    write_recording(tmp_path / "v.mkv", 10)
    study = make_study(tmp_path, video="v.mkv")
    _, outcomes = extract_session(study, tmp_path / "features", "m", embed=[section("m", models["wav2vec2"])])
    assert (str(outcomes["m"].status), "has no audio track" in outcomes["m"].reason) == ("missing", True)


def test_a_track_with_sound_only_has_rows_and_none_for_frames(tmp_path: Path, models: dict[str, Path]) -> None:
    write_wave(tmp_path / "s.wav", voice(2), RATE)
    write_recording(tmp_path / "v.mkv", 5)
    study = make_study(tmp_path, video="v.mkv")
    (study / "tracks.csv").write_text("session_id,track,audio\ns,lapel,s.wav\n")
    store, outcomes = extract_session(study, tmp_path / "features", "m", embed=[section("m", models["wav2vec2"])])
    assert str(outcomes["m@lapel"].status) == "done"
    assert set(store.spec("s", "m@lapel").arrays) == {"values", "time"}
    np.testing.assert_allclose(store.read("s", "m@lapel", array="time"), np.arange(99) * 0.02 + 0.0125)


def test_a_clip_has_the_rows_of_its_seconds_at_their_own_rate_and_on_a_grid(
    tmp_path: Path, models: dict[str, Path]
) -> None:
    write_study(tmp_path / "study", SyntheticStudy(sessions=1, seconds=16, width=64, height=48))
    store, _ = extract_session(
        tmp_path / "study", tmp_path / "f", "m", session_id="s0001", embed=[section("m", models["wav2vec2"])]
    )
    windows = WindowSpec(window=30, stride=15, unlabelled="keep")
    write_clip_index(build_clip_index(load_study(tmp_path / "study"), windows, store).clips, local(tmp_path / "f"))
    rows, time = store.read("s0001", "m"), store.read("s0001", "m", array="time")
    frames = store.read("s0001", "m", array="per_frame")
    native = ClipDataset(tmp_path / "f", [ClipInput("m")])
    on_grid = ClipDataset(tmp_path / "f", [ClipInput("m", columns=["m_0003"], rate=10)])
    per_frame = ClipDataset(tmp_path / "f", [ClipInput("m", axis="frame")])
    assert len(native) > 5
    for number, clip in enumerate(native.clips.itertuples()):
        inside = rows[(time >= clip.start_s - 1e-7) & (time < clip.stop_s - 1e-7)]
        mask = native[number]["m_mask"]
        assert mask.sum() == len(inside) > 90
        np.testing.assert_array_equal(native[number]["m"][mask], inside)
        nearest = np.abs(time[:, None] - (clip.start_s + np.arange(20) / 10)).argmin(axis=0)
        np.testing.assert_array_equal(on_grid[number]["m"][:, 0], rows[nearest, 3])
        first = clip.start_frame
        np.testing.assert_array_equal(per_frame[number]["m"], frames[first : first + 30])


@pytest.mark.parametrize(
    "options", [{"source": "timm:vit_tiny", "revision": "0" * 40}, {"chunk_s": 0}, {"context_s": -1}, {"pool": "cls"}]
)
def test_sections_that_make_no_sense_are_refused_before_any_work(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AudioSettings(**{**section("m", Path("x")), **options})
