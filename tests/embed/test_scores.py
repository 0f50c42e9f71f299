"""``output = "scores"``: what a model's head says, named by its labels, equal to what its library gives."""

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
from PIL import Image
from pydantic import ValidationError
from safetensors.torch import load_file, save_file
from support.media.recordings import FPS, write_recording
from support.messages import naming
from support.models.tiny_classifiers import LABELS, image_classifier, text_classifier, video_classifier
from support.models.tiny_image_models import TIMM, timm_model, torchvision_weights, transformers_model
from support.models.tiny_text_models import WIDTH, make_model
from support.studies import extract_session, make_study

from storyframes.store.records import Caveat
from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.loading import load_classifier, load_whole
from tasks.extractors.embed.settings import Kind
from tasks.extractors.image.backbones import import_timm, preset
from tasks.extractors.image.engines import open_engine
from tasks.extractors.image.extractor import ImageEmbedding
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.extractors.settings import Precision
from tasks.extractors.text.encoder import open_encoder
from tasks.extractors.text.extractor import TextEmbedding
from tasks.extractors.video.encoder import ClipEncoder
from tasks.extractors.video.extractor import VideoEmbedding
from tasks.extractors.video.shape import clip_shape
from tasks.models.libraries import import_torchvision

torch.set_num_threads(1)  # as in a worker

PROBLEMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "single_label_classification": lambda numbers: numbers.softmax(dim=-1),
    "multi_label_classification": torch.sigmoid,
    "regression": lambda numbers: numbers,
}
TEXTS = ["the garden was full of bread", "rain", "he told me that failed", "we walked until bread"]
NOISE = np.random.default_rng(0).integers(0, 256, (4, 40, 50, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a model, made once."""
    root = tmp_path_factory.mktemp("models")

    @cache
    def folder(make: Callable[..., Path], *arguments: Any) -> Path:
        made = make(root / f"{make.__name__}{len(list(root.iterdir()))}", *arguments)
        if make is timm_model:  # which timm does not name, as they are none of ImageNet's
            config = json.loads((made / "config.json").read_text())
            (made / "config.json").write_text(json.dumps(config | {"label_names": [f"class {n}" for n in range(7)]}))
        return made

    return folder


def built(kind: str, folder: Path, **more: Any) -> Any:
    of_kind: dict[str, dict[str, Any]] = {"image": {"engine": "torch"}, "video": {"window_s": 1.0}}
    section = {"name": "said", "kind": kind, "source": f"path:{folder}", **of_kind.get(kind, {}), **more}
    return build_extractors(ExtractorsSettings.model_validate({"embed": [section]}), "")["said"]


def of_pictures(extractor: ImageEmbedding) -> np.ndarray:
    prepared = extractor.encoder.prepared(Precision.FLOAT32, tuple(extractor.spec.arrays["values"].shape))
    return open_engine(prepared, extractor.settings).start(prepared.preprocessing.images(NOISE))()


def of_texts(extractor: TextEmbedding) -> np.ndarray:
    return open_encoder(extractor.model, extractor.settings, extractor.head).embed_whole(TEXTS, "story")[0]


def of_clip(extractor: VideoEmbedding) -> np.ndarray:
    shape = clip_shape(extractor.model, "")
    encoder = ClipEncoder(extractor.model, shape, extractor._layers(shape), extractor.settings, extractor.head)
    return encoder.embed([list(encoder.prepare(NOISE)), list(encoder.prepare(NOISE[::-1].copy()))])


@torch.inference_mode()
def by_transformers(folder: Path, kind: str) -> Any:
    """The outputs of the model called as its documentation has it, with all its hidden states."""
    import transformers as t

    if kind == "image":
        processor = t.AutoImageProcessor.from_pretrained(folder)
        given = processor(images=[Image.fromarray(frame) for frame in NOISE], return_tensors="pt")
        return t.AutoModelForImageClassification.from_pretrained(folder)(**given, output_hidden_states=True)
    if kind == "video":
        processor = t.AutoVideoProcessor.from_pretrained(folder)
        videos = [torch.from_numpy(frames.copy()).permute(0, 3, 1, 2) for frames in (NOISE, NOISE[::-1])]
        given = processor(videos=videos, do_sample_frames=False, return_tensors="pt")
        return t.AutoModelForVideoClassification.from_pretrained(folder)(**given, output_hidden_states=True)
    tokenizer = t.AutoTokenizer.from_pretrained(folder)
    model = t.AutoModelForSequenceClassification.from_pretrained(folder)
    return [model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True) for text in TEXTS]


KINDS: dict[str, tuple[Callable[..., Path], Callable[[Any], np.ndarray]]] = {
    "image": (image_classifier, of_pictures),
    "text": (text_classifier, of_texts),
    "video": (video_classifier, of_clip),
}


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_what_transformers_gives(made: Callable[..., Path], kind: str, problem: str) -> None:
    make, rows = KINDS[kind]
    folder = made(make, LABELS, problem)
    extractor = built(kind, folder, output="scores")
    outputs = by_transformers(folder, kind)
    numbers = torch.cat([each.logits for each in outputs]) if kind == "text" else outputs.logits
    expected = PROBLEMS[problem](numbers).numpy()
    assert extractor.spec.columns == LABELS
    assert extractor.spec.groups == {"scores": slice(0, len(LABELS))}
    assert np.abs(expected[0] - expected[1]).max() > 0.005  # inputs are told apart
    np.testing.assert_allclose(rows(extractor), expected, atol=2e-5, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_both_outputs_are_side_by_side(made: Callable[..., Path], kind: str) -> None:
    make, rows = KINDS[kind]
    folder = made(make, LABELS, "regression")
    pool = {} if kind == "video" else {"pool": "cls"}
    got = built(kind, folder, output=["scores", "hidden"], layer=[1, 2], **pool)
    assert got.spec.groups == {
        "layer_1": slice(0, WIDTH),
        "layer_2": slice(WIDTH, 2 * WIDTH),
        "hidden": slice(0, 2 * WIDTH),
        "scores": slice(2 * WIDTH, 2 * WIDTH + 3),
    }
    assert got.spec.columns[-4:] == (f"said_l2_{WIDTH - 1:04d}", *LABELS)
    outputs = by_transformers(folder, kind)
    if kind == "text":
        states = [torch.cat([each.hidden_states[layer][:, 0] for each in outputs]) for layer in (1, 2)]
        numbers = torch.cat([each.logits for each in outputs])
    else:
        states = [outputs.hidden_states[layer] for layer in (1, 2)]
        states = [state.mean(dim=1) if kind == "video" else state[:, 0] for state in states]
        numbers = outputs.logits
    expected = torch.cat([*states, numbers], dim=1).numpy()
    np.testing.assert_allclose(rows(got), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["model", "cls"])
def test_openvino_gives_what_torch_gives(made: Callable[..., Path], pool: str) -> None:
    folder = made(timm_model, "vit")
    more: dict[str, Any] = {"output": ["hidden", "scores"], "pool": pool, "activation": "sigmoid"}
    expected, got = (of_pictures(built("image", folder, engine=engine, **more)) for engine in ("torch", "openvino"))
    np.testing.assert_allclose(got, expected, atol=1e-4)


def test_a_setting_overrides_the_activation(made: Callable[..., Path]) -> None:
    folder = made(text_classifier, LABELS, "single_label_classification")
    numbers = of_texts(built("text", folder, output="scores", activation="none"))
    np.testing.assert_allclose(
        of_texts(built("text", folder, output="scores", activation="sigmoid")), 1 / (1 + np.exp(-numbers)), rtol=1e-5
    )


def test_a_decoder_without_a_padding_piece_reads_one_text_at_a_time(made: Callable[..., Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made(text_classifier, LABELS, None, "llama"), tmp_path / "m"))
    for name, key in (("config.json", "pad_token_id"), ("tokenizer_config.json", "pad_token")):
        content = json.loads((folder / name).read_text())
        assert content.pop(key) is not None
        (folder / name).write_text(json.dumps(content))
    expected = torch.cat([each.logits for each in by_transformers(folder, "text")]).softmax(dim=-1)
    np.testing.assert_allclose(of_texts(built("text", folder, output="scores")), expected, atol=1e-5)


# --- timm and torchvision --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("family", TIMM)
@pytest.mark.parametrize("pool", ["model", "mean"])
def test_of_timm(made: Callable[..., Path], family: str, pool: str) -> None:
    folder = made(timm_model, family)
    hidden = of_pictures(built("image", folder, pool=pool))
    got = of_pictures(built("image", folder, output=["hidden", "scores"], pool=pool))
    timm = import_timm()
    model = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
    with torch.inference_mode():
        expected = model(torch.stack([transform(Image.fromarray(frame)) for frame in NOISE])).softmax(dim=-1).numpy()
    extractor = built("image", folder, output="scores")
    assert extractor.spec.columns == tuple(f"class {n}" for n in range(7))
    np.testing.assert_allclose(of_pictures(extractor), expected, atol=1e-5)
    np.testing.assert_allclose(got, np.concatenate([hidden, expected], axis=1), atol=1e-4, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "columns"),
    [
        ({str(n): f"kind {n}" for n in range(1000)}, tuple(f"kind {n}" for n in range(1000))),
        (["one", "two"], None),
        ({"0": "one", "1": "two"}, None),
        ({f"kind {n}": n for n in range(1000)}, None),
    ],
)
def test_names_of_labels_in_a_file_of_timm_are_used_or_refused(
    made: Callable[..., Path], tmp_path: Path, names: Any, columns: tuple[str, ...] | None
) -> None:
    """Never ImageNet's names, although there are as many labels."""
    folder = Path(shutil.copytree(made(timm_model, "vit"), tmp_path / "m"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_classes": 1000, "label_names": names}))
    if columns is None:
        with pytest.raises(ExtractionError, match=naming("label_names", "1000")):
            _ = built("image", folder, output="scores").spec
    else:
        assert built("image", folder, output="scores").spec.columns == columns


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v3_small", "squeezenet1_1"])
def test_of_torchvision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    torch_hub(tmp_path, monkeypatch, name)
    section = {"name": "said", "kind": "image", "source": f"torchvision:{name}", "revision": "IMAGENET1K_V1"}
    section |= {"engine": "torch"}
    both: Any = {"output": ["hidden", "scores"], "pool": "mean" if name == "squeezenet1_1" else "model"}
    extractor, with_hidden = (
        build_extractors(ExtractorsSettings.model_validate({"embed": [section | more]}), "")["said"]
        for more in ({"output": "scores"}, both)
    )
    network = import_torchvision().models.get_model(name, weights=None).eval()
    network.load_state_dict(torch.load(extractor.model.weights[0], weights_only=True))
    with torch.inference_mode():
        pixels = torch.stack([preset(name, "IMAGENET1K_V1", "")(Image.fromarray(frame)) for frame in NOISE])
        expected = network(pixels).softmax(dim=-1).numpy()
    assert extractor.spec.columns[:2] == ("tench", "goldfish")
    assert len(set(extractor.spec.columns)) == 1000
    np.testing.assert_allclose(of_pictures(extractor), expected, atol=1e-4)
    np.testing.assert_allclose(of_pictures(with_hidden)[:, -1000:], expected, atol=1e-4)


def torch_hub(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    from tasks.extractors.embed.sources import published_weights

    monkeypatch.setenv("TORCH_HOME", str(folder))
    path = published_weights(name, "IMAGENET1K_V1").path
    path.parent.mkdir(parents=True)
    torchvision_weights(path, name)


# --- labels and what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "columns"),
    [
        (("crane", "crane", " two\nlines "), ("crane_0", "crane_1", "two lines")),
        (("crane", "crane", "crane_0"), ("crane_0", "crane_1", "crane_0_2")),
        (("hidden", "scores", "layer_1"), ("hidden", "scores", "layer_1")),
    ],
)
def test_labels_have_names_of_their_own(
    made: Callable[..., Path], labels: tuple[str, ...], columns: tuple[str, ...]
) -> None:
    folder = made(text_classifier, labels, None)
    both = built("text", folder, output=["hidden", "scores"], pool="cls", layer=[1, 2]).spec
    assert both.columns[-3:] == columns
    assert set(both.groups).isdisjoint(columns)


def test_one_label_without_a_problem_has_to_be_said(made: Callable[..., Path]) -> None:
    folder = made(text_classifier, ("valence",), None)
    with pytest.raises(ExtractionError, match=naming("valence", "activation", "'none'")):
        _ = built("text", folder, output="scores").spec
    assert built("text", folder, output="scores", activation="none").spec.columns == ("valence",)


@pytest.mark.parametrize("kind", ["image", "text"])
def test_a_model_without_a_trained_head_is_refused(made: Callable[..., Path], kind: str) -> None:
    folder = made(transformers_model, "vit") if kind == "image" else made(make_model, "bert")
    rows = KINDS[kind][1]
    with pytest.raises(ExtractionError, match=naming("classifier.weight", "allow_untrained")):
        rows(built(kind, folder, output="scores"))
    first, again = (rows(built(kind, folder, output="scores", allow_untrained=True)) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_a_broken_model_is_refused_by_its_section_where_a_head_may_be_random(
    made: Callable[..., Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(made(text_classifier, LABELS, None), tmp_path / "m"))
    (folder / "model.safetensors").write_bytes(b"broken")
    extractor = built("text", folder, output="scores", allow_untrained=True)
    with pytest.raises(ExtractionError, match=naming(extractor.settings.label, "cannot load")):
        extractor.is_untrained()


def test_the_keys_that_files_have_instead_are_named(made: Callable[..., Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made(text_classifier, LABELS, None), tmp_path / "m"))
    state = load_file(folder / "model.safetensors")
    state["own_head.weight"] = state.pop("classifier.weight")
    save_file(state, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ExtractionError, match=naming("classifier.weight", "own_head.weight")):
        of_texts(built("text", folder, output="scores"))


def test_statistics_of_a_normalisation_that_are_in_no_file_are_refused(tmp_path: Path) -> None:
    import_torchvision()
    import transformers as t

    config = t.ResNetConfig(embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], num_labels=3)
    t.ResNetForImageClassification(config).save_pretrained(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    lost = next(name for name in state if name.endswith("running_var"))
    del state[lost]
    save_file(state, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(ExtractionError, match=naming(lost)):
        load_classifier(Kind.IMAGE, tmp_path, "")
    with pytest.raises(ExtractionError, match=naming(lost.removeprefix("resnet."))):
        load_whole(tmp_path, "")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"activation": "softmax"}, "activation is of output = 'scores'"),
        ({"allow_untrained": True}, "allow_untrained is of output = 'scores'"),
        ({"output": "scores", "pool": "mean"}, "pool is of output = 'hidden'"),
        ({"output": "scores", "layer": 2}, "layer is of output = 'hidden'"),
        ({"output": ["scores", "scores"]}, "twice"),
        ({"output": ["hidden", "scores"]}, "set pool = 'mean' or 'cls'"),
        ({"output": "labels"}, "'hidden' or 'scores'"),
    ],
)
def test_settings_that_do_not_fit(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        built("text", Path("/m"), **said)


@pytest.mark.parametrize("output", [3, True])
def test_an_output_of_another_type_is_named(output: Any) -> None:
    with pytest.raises(ValidationError, match="output"):
        built("image", Path("/m"), output=output)


# --- stores -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_session_has_a_column_for_each_label(made: Callable[..., Path], tmp_path: Path) -> None:
    write_recording(tmp_path / "v.mkv", 2 * FPS)
    spoken = [{"start_s": 0.2, "end_s": 1.0, "text": TEXTS[0]}, {"start_s": 1.0, "end_s": 1.5, "text": TEXTS[1]}]
    (tmp_path / "t.json").write_text(json.dumps({"utterances": spoken}))
    study = make_study(tmp_path, video="v.mkv", transcript="t.json")
    folder = made(text_classifier, LABELS, "multi_label_classification")
    sections = [
        {"name": "said", "kind": "text", "source": f"path:{folder}", "output": "scores"},
        {"name": "face", "kind": "image", "source": f"path:{made(image_classifier)}", "output": "scores"},
        {
            "name": "drawn",
            "kind": "text",
            "source": f"path:{made(make_model, 'bert')}",
            "output": "scores",
            "allow_untrained": True,
        },
    ]
    store, outcomes = extract_session(study, tmp_path / "f", "frames", "said", "face", "drawn", embed=sections)
    assert {str(outcome.status) for outcome in outcomes.values()} == {"done"}
    scores = store.read("s", "said.laughter")
    np.testing.assert_allclose(scores.ravel(), of_texts(built("text", folder, output="scores"))[:2, 2], rtol=1e-5)
    assert store.spec("s", "said").arrays["values"].units == "0 to 1"
    assert store.attributes("s", "said")["model"]["activation"] == "sigmoid"
    assert store.spec("s", "face").arrays["values"].dtype == "float32"
    assert store.read("s", "face").shape == (2 * FPS, 3)
    assert outcomes["drawn"].caveats == (Caveat.UNTRAINED,)
    assert not outcomes["said"].caveats
