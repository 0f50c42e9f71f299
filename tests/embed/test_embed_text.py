"""``[[embed]]`` sections with models of texts: the built-in sbert as one, tiny models of several families."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.media.recordings import FPS, write_recording
from support.messages import missing, naming
from support.models.tiny_text_models import DEPTH, LIMIT, WIDTH, make_model, make_sentence_model
from support.stores import local
from support.studies import extract_session, make_study

from storyframes import ClipDataset, ClipInput
from storyframes.clips.window_spec import WindowSpec
from storyframes.store.feature_store import FeatureStore
from tasks.clip_index.index import build_clip_index, write_clip_index
from tasks.extract import Outcome
from tasks.extractors.base import CommonSettings, ExtractionError
from tasks.extractors.sbert import SbertSettings, model_folder
from tasks.extractors.text.encoder import open_encoder
from tasks.extractors.text.extractor import TextEmbedding
from tasks.extractors.text.model import TextSettings
from tasks.study.load import load_study

LONG = "We walked for hours along the river and talked about nothing in particular, " * 20
UTTERANCES = [(6.0, 8.0, "Rain"), (0.5, 2.5, "the garden was full"), (3.0, 5.5, "until he told me that he failed.")]
TEXTS = [
    "the garden was full of bread",
    "rain",
    "we walked until he failed and " * 12 + "bread",
    "he told me that was unheard of",
]
FAMILIES = ("bert", "distilbert", "roberta", "xlm-roberta", "mpnet", "t5")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    write_recording(folder / "v.mkv", 10 * FPS)
    spoken = [{"start_s": start, "end_s": end, "text": text} for start, end, text in UTTERANCES]
    (folder / "t.json").write_text(json.dumps({"utterances": spoken}))
    study = make_study(folder, video="v.mkv", transcript="t.json")
    (study / "stories.csv").write_text(f'story_id,text\nb,the zebra garden\na,"{LONG}bread"\n')
    return study


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A tiny model of every family."""
    folder = tmp_path_factory.mktemp("models")
    return {family: make_model(folder / family, family) for family in FAMILIES}


def section(folder: Path, **more: Any) -> TextSettings:
    return TextSettings.model_validate({"name": "tiny", "kind": "text", "source": f"path:{folder}", **more})


def embed(settings: TextSettings, texts: Sequence[str] = TEXTS) -> tuple[np.ndarray, list[int]]:
    model = TextEmbedding(settings, CommonSettings()).model
    return open_encoder(model, settings).embed_whole(texts, "story")


def by_hand(folder: Path, layer: int, pool: str, texts: Sequence[str]) -> np.ndarray:
    """The same by transformers alone: one text at a time, nothing padded, nothing cut."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    model = model.get_encoder() if model.config.is_encoder_decoder else model
    rows = []
    with torch.inference_mode():
        for text in texts:
            states = model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[layer][0]
            rows.append((states[0] if pool == "cls" else states.mean(dim=0)).numpy())
    return np.stack(rows)


@pytest.fixture(scope="module")
def minilm(study: Path) -> FeatureStore:
    """A session and two stories, one longer than MiniLM reads: sbert, and the same model as a section."""
    model = {"name": "minilm", "kind": "text", "source": f"path:{model_folder(SbertSettings())}"}
    root = study / "features"
    extract_session(study, root, "sbert", "minilm", embed=[model])
    store, outcomes = extract_session(study, root, "sbert", "minilm", session_id="stories", embed=[model])
    assert {str(outcome.status) for outcome in outcomes.values()} == {"done"}
    return store


@pytest.mark.slow
@pytest.mark.parametrize(
    ("session", "array"),
    [("s", "values"), ("s", "start"), ("s", "end"), ("s", "frame_utterance"), ("s", "speaker"), ("stories", "values")],
)
def test_sbert_as_a_section_stores_what_sbert_stores(minilm: FeatureStore, session: str, array: str) -> None:
    built_in = minilm.read(session, "sbert", array=array)
    assert len(built_in) in (2, 3, 10 * FPS)
    np.testing.assert_array_equal(minilm.read(session, "minilm", array=array), built_in)


@pytest.mark.slow
def test_the_store_says_which_model_it_was(minilm: FeatureStore) -> None:
    told = minilm.attributes("s", "minilm")
    assert told["model"]["source"] == "path:model"
    assert told["model"]["license"] == "apache-2.0"
    assert str(model_folder(SbertSettings()).parent) not in json.dumps(told)
    assert "model.safetensors" in told["provenance"]["models"]
    assert minilm.columns("s", "minilm")[-1] == "minilm_0383"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_gives_what_transformers_gives(models: Mapping[str, Path], family: str) -> None:
    short = ["rain", "we walked", "he failed", "the garden"]
    for layer, pool in ((-1, "mean"), (1, "cls")):
        values, counts = embed(section(models[family], layer=layer, pool=pool), short)
        expected = by_hand(models[family], layer % (DEPTH + 1), pool, short)
        assert counts == [1] * len(short)
        np.testing.assert_allclose(values, expected, atol=2e-5)
    assert np.ptp(values) > 0.1


@pytest.mark.parametrize(
    ("family", "pool"), [("bert", "mean"), ("bert", "cls"), ("convbert", "mean"), ("bert", "model")]
)
def test_a_rows_values_do_not_depend_on_the_texts_beside_it(tmp_path: Path, family: str, pool: str) -> None:
    """Where padding would be read: on the left of a model that counts positions, or by convolutions that see it."""
    folder = make_sentence_model(tmp_path / "m") if pool == "model" else make_model(tmp_path / "m", family)
    if family == "bert":
        tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer | {"padding_side": "left"}))
    texts = ["rain", "the garden was full of bread", "we walked", "he told me that", "bread"]
    together, _ = embed(section(folder, pool=pool), texts)
    alone = np.concatenate([embed(section(folder, pool=pool), [text])[0] for text in texts])
    np.testing.assert_allclose(together, alone, atol=2e-5)
    if pool != "model":
        np.testing.assert_allclose(together, by_hand(folder, -1, pool, texts), atol=2e-5)


def test_positions_that_begin_behind_the_padding_are_counted_whatever_the_family(tmp_path: Path) -> None:
    folder = make_model(tmp_path / "m", "data2vec-text")
    _, (count,) = embed(section(folder, pool="mean"), ["a" * 3 * LIMIT])
    assert count > 3


@pytest.mark.parametrize("family", FAMILIES)
def test_a_long_text_is_read_to_its_end(models: Mapping[str, Path], family: str) -> None:
    settings = section(models[family], pool="mean", max_pieces=LIMIT if family == "t5" else None)
    (whole, other), counts = embed(settings, [TEXTS[2], TEXTS[2].replace("bread", "rain")])
    assert counts[0] > 2
    assert np.abs(whole - other).max() > 1e-3


def test_a_long_text_is_the_mean_of_its_parts_by_their_pieces(models: Mapping[str, Path]) -> None:
    (value,), (count,) = embed(section(models["bert"], pool="mean"), ["the garden was full " * 8])
    most = LIMIT - 2
    words = ("the garden was full " * 8).split()
    parts = [" ".join(words[first : first + most]) for first in range(0, len(words), most)]
    assert count == len(parts) == 2
    vectors = by_hand(models["bert"], -1, "mean", parts)
    expected = np.average(vectors, axis=0, weights=[len(part.split()) for part in parts])
    np.testing.assert_allclose(value, expected, atol=2e-5)


def test_parts_have_room_for_the_prompt(models: Mapping[str, Path]) -> None:
    plain, _ = embed(section(models["bert"], pool="mean"), [f"we walked {TEXTS[0]}"])
    asked, _ = embed(section(models["bert"], pool="mean", prompt="we walked "), [TEXTS[0]])
    np.testing.assert_allclose(asked, plain, atol=1e-6)
    _, (count,) = embed(section(models["bert"], pool="mean", prompt="we walked "), ["the garden was full " * 8])
    assert count == 2  # 22 pieces less 2 of the prompt: 32 words
    with pytest.raises(ExtractionError, match="the prompt leaves no room"):
        embed(section(models["bert"], pool="mean", prompt="we " * LIMIT))


def test_several_layers_stand_side_by_side(models: Mapping[str, Path]) -> None:
    settings = section(models["bert"], layer=[-1, 0], pool="mean")
    values, _ = embed(settings, TEXTS[:2])
    expected = [by_hand(models["bert"], layer, "mean", TEXTS[:2]) for layer in (DEPTH, 0)]
    np.testing.assert_allclose(values, np.hstack(expected), atol=2e-5)
    spec = TextEmbedding(settings, CommonSettings()).spec
    assert spec.columns[0] == "tiny_l3_0000"
    assert spec.groups == {"layer_3": slice(0, WIDTH), "layer_0": slice(WIDTH, 2 * WIDTH)}


@pytest.mark.parametrize(("layer", "range_"), [(DEPTH + 1, "0 to 3"), (-DEPTH - 2, "-4")])
def test_a_layer_that_is_not_there_is_told_before_any_work(models: Mapping[str, Path], layer: int, range_: str) -> None:
    with pytest.raises(ExtractionError, match=naming(layer, "3 blocks", range_)):
        TextEmbedding(section(models["bert"], layer=layer, pool="mean"), CommonSettings()).check_tool()


def test_one_layer_twice_is_an_error(models: Mapping[str, Path]) -> None:
    with pytest.raises(ExtractionError, match="names one layer twice"):
        TextEmbedding(section(models["bert"], layer=[-1, DEPTH], pool="mean"), CommonSettings()).check_tool()


@pytest.mark.parametrize("dense", [0, 5])
def test_a_model_of_sentences_has_a_pooling_of_its_own(tmp_path: Path, dense: int) -> None:
    settings = section(make_sentence_model(tmp_path / "m", dense=dense))
    values, counts = embed(settings)
    assert values.shape == (4, dense or 2 * WIDTH)
    assert TextEmbedding(settings, CommonSettings()).spec.arrays["values"].shape == (dense or 2 * WIDTH,)
    assert counts[2] > 2  # not of unit length: the parts' mean is left as it is
    expected = np.hstack([by_hand(tmp_path / "m", -1, pool, TEXTS[:2]) for pool in ("cls", "mean")])
    np.testing.assert_allclose(values[:2], expected[:, : dense or None], atol=2e-5)


def test_a_models_default_prompt_is_put_before_every_part_and_has_room_there(tmp_path: Path) -> None:
    folder, prompt = make_sentence_model(tmp_path / "m"), "he told me that until "
    without, _ = embed(section(folder), TEXTS[:1])
    by_name, counts = embed(section(folder, prompt=prompt))
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": {"query": prompt}, "default_prompt_name": "query"})
    )
    by_default, same = embed(section(folder))
    np.testing.assert_array_equal(by_default, by_name)
    assert same == counts
    assert counts[2] > 3
    assert np.abs(without - by_default[0]).max() > 1e-2


def test_an_activation_that_would_be_replaced_in_silence_is_refused(tmp_path: Path) -> None:
    folder = make_sentence_model(tmp_path / "m", dense=5)
    config = json.loads((folder / "2_Dense/config.json").read_text())
    (folder / "2_Dense/config.json").write_text(json.dumps(config | {"activation_function": "theirs.Swish"}))
    with pytest.raises(ExtractionError, match=r"wants code of its own \('theirs.Swish'\)"):
        TextEmbedding(section(folder), CommonSettings()).check_tool()


def test_a_model_without_a_pooling_asks_for_one(models: Mapping[str, Path]) -> None:
    with pytest.raises(ExtractionError, match=naming("pool = 'mean'", "'cls'")):
        TextEmbedding(section(models["bert"]), CommonSettings()).check_tool()


@pytest.mark.parametrize("pool", ["model", "mean"])
@pytest.mark.parametrize(("lost", "fails"), [("encoder.layer.1.", True), ("pooler.", False)])
def test_weights_that_are_in_no_file_are_an_error_not_random_numbers(
    tmp_path: Path, pool: str, lost: str, fails: bool
) -> None:
    from safetensors.torch import load_file, save_file

    folder = make_sentence_model(tmp_path / "m")
    state = {name: one for name, one in load_file(folder / "model.safetensors").items() if not name.startswith(lost)}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    if not fails:
        assert np.isfinite(embed(section(folder, pool=pool))[0]).all()
        return
    with pytest.raises(ExtractionError, match=r"16 weights .* are in none of its files, .* encoder.layer.1"):
        embed(section(folder, pool=pool))


def test_a_gpu_that_is_not_there_is_no_reason_to_compute_elsewhere(
    models: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    settings = section(models["bert"], pool="mean", device="cuda", sessions_per_gpu=2)
    assert TextEmbedding(settings, CommonSettings()).needs == {"GPU": 0.5}
    with pytest.raises(ExtractionError, match=naming("device = 'cuda'", "GPU")):
        embed(settings)


def test_half_precision_computes_nearly_the_same(models: Mapping[str, Path]) -> None:
    exact, _ = embed(section(models["bert"], pool="mean"), TEXTS[:2])
    near, _ = embed(section(models["bert"], pool="mean", precision="bfloat16"), TEXTS[:2])
    assert 0 < np.abs(near - exact).max() < 0.1


def outcome_of(study: Path, root: Path, **model: Any) -> tuple[FeatureStore, Outcome]:
    given = {"name": "tiny", "kind": "text", "pool": "mean", **model}
    store, outcomes = extract_session(study, root, "tiny", embed=[given])
    return store, outcomes["tiny"]


def test_a_model_that_gives_nan_is_an_error_and_no_words_are_told(study: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = make_model(tmp_path / "m", "bert")
    state = load_file(folder / "model.safetensors")
    state["encoder.layer.2.output.LayerNorm.bias"][3] = float("nan")
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    _, outcome = outcome_of(study, tmp_path / "f", source=f"path:{folder}")
    assert outcome.status == "failed"
    assert missing(outcome.reason, "utterance 1", "NaN") == []
    assert "garden" not in outcome.reason


def test_scripts_that_the_model_does_not_know_are_a_caveat(
    study: Path, models: Mapping[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    write_recording(folder / "v.mkv", 4 * FPS)
    spoken = [{"start_s": 0, "end_s": 1, "text": "дядя"}, {"start_s": 1, "end_s": 2, "text": "雨雨雨雨"}]
    (folder / "t.json").write_text(json.dumps({"utterances": spoken}))
    make_study(folder, video="v.mkv", transcript="t.json")
    _, of_words = outcome_of(folder, tmp_path / "a", source=f"path:{models['bert']}")
    _, of_scripts = outcome_of(folder, tmp_path / "b", source=f"path:{models['xlm-roberta']}")
    assert of_words.caveats == ("texts in a script that the model does not know",)
    assert of_scripts.caveats == ()


def test_clips_have_the_utterances_of_a_section(study: Path, models: Mapping[str, Path], tmp_path: Path) -> None:
    store, outcome = outcome_of(study, tmp_path / "f", source=f"path:{models['bert']}")
    assert (str(outcome.status), outcome.rows) == ("done", 3)
    windows = WindowSpec(window=4 * FPS, stride=2 * FPS)
    write_clip_index(build_clip_index(load_study(study), windows, store).clips, local(tmp_path / "f"))
    rows = ClipDataset(tmp_path / "f", [ClipInput("tiny")])[1]  # seconds 2 to 6
    inside = store.read("s", "tiny")[:2]
    np.testing.assert_array_equal(rows["tiny"][: rows["tiny_length"]], inside)
    frames = ClipDataset(tmp_path / "f", [ClipInput("tiny", axis="frame")])[1]
    np.testing.assert_array_equal(frames["tiny"][2 * FPS], inside[1])  # second 4
