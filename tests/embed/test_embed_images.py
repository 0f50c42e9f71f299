"""Models of pictures give what their libraries give, from the library's own preprocessing on."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from support.messages import naming
from support.models.tiny_image_models import TIMM, TRANSFORMERS, timm_model, torchvision_weights, transformers_model

from tasks.extractors.base import ExtractionError
from tasks.extractors.image.backbones import TorchvisionBackbone, import_timm, preset
from tasks.extractors.image.encoder import Encoder, Library
from tasks.extractors.image.engines import open_engine
from tasks.extractors.image.settings import Pool
from tasks.extractors.settings import NetworkSettings, Precision
from tasks.models.libraries import import_torchvision

torch.set_num_threads(1)  # as in a worker

SIZES = ((60, 90), (90, 60), (45, 64), (200, 210))
TORCH, OPENVINO = NetworkSettings(engine="torch"), NetworkSettings(engine="openvino")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory):
    """The folder of a model, made once."""
    root = tmp_path_factory.mktemp("models")

    @cache
    def folder(library: Library, family: str) -> Path:
        make = timm_model if library is Library.TIMM else transformers_model
        return make(root / f"{library}_{family}", family)

    return folder


def encoder(folder: Path, library: Library, layers: tuple[int, ...] = (-1,), pool: str = "model", **more) -> Encoder:
    weights = folder / "model.safetensors"
    config = json.loads((folder / "config.json").read_text())
    return Encoder("[[embed]] x:", library, "", weights, folder, layers=layers, pool=Pool(pool), config=config, **more)


def rows(chosen: Encoder, pictures: np.ndarray, settings: NetworkSettings = TORCH) -> np.ndarray:
    prepared = chosen.prepared(settings.precision)
    return open_engine(prepared, settings).start(prepared.preprocessing.images(pictures))()


def pictures(size: tuple[int, int] = SIZES[0], count: int = 3) -> np.ndarray:
    """The hardest to resize."""
    return np.random.default_rng(0).integers(0, 256, (count, *size, 3), dtype=np.uint8)


def close(got: np.ndarray, expected: torch.Tensor, tolerance: float = 1e-4) -> None:
    wanted = expected.detach().numpy()
    largest = float(np.abs(wanted).max())
    told_apart = float(np.abs(wanted[0] - wanted[1]).max()) > 100 * tolerance * largest
    assert (got.shape, got.dtype, told_apart) == (wanted.shape, np.float32, True)
    worst = float(np.abs(got - wanted).max())
    assert worst <= tolerance * largest


# --- what the libraries give -----------------------------------------------------------------------------------------


class Transformers:
    """A model loaded and asked as its documentation has it."""

    def __init__(self, folder: Path) -> None:
        import transformers

        self.processor = transformers.AutoImageProcessor.from_pretrained(folder)
        self.model = transformers.AutoModel.from_pretrained(folder).eval()
        self.vision = getattr(self.model, "vision_model", self.model)

    def pixels(self, frames: np.ndarray) -> torch.Tensor:
        return self.processor(images=[Image.fromarray(frame) for frame in frames], return_tensors="pt")["pixel_values"]

    @torch.inference_mode()
    def pooled(self, frames: np.ndarray) -> torch.Tensor:
        call = getattr(self.model, "get_image_features", self.model)
        return call(pixel_values=self.pixels(frames)).pooler_output.flatten(1)

    @torch.inference_mode()
    def outputs(self, frames: np.ndarray) -> Any:
        return self.vision(pixel_values=self.pixels(frames), output_hidden_states=True)


class Timm:
    def __init__(self, folder: Path) -> None:
        timm = import_timm()
        self.model = timm.create_model(f"local-dir:{folder}", pretrained=True, num_classes=0).eval()
        config = timm.data.resolve_model_data_config(self.model)
        self.transform = timm.data.create_transform(**config, is_training=False)

    def pixels(self, frames: np.ndarray) -> torch.Tensor:
        return torch.stack([self.transform(Image.fromarray(frame)) for frame in frames])


def normalised(chosen: Encoder, frames: np.ndarray) -> np.ndarray:
    """What the network sees of frames."""
    prepared = chosen.prepared(Precision.FLOAT32)
    network = prepared.build()
    images = torch.from_numpy(prepared.preprocessing.images(frames)).permute(0, 3, 1, 2)
    return ((images - network.mean) / network.std).numpy()


@pytest.mark.parametrize("family", TRANSFORMERS)
def test_images_are_those_of_the_models_image_processor(made, family: str) -> None:
    folder = made(Library.TRANSFORMERS, family)
    for size in SIZES:
        expected = Transformers(folder).pixels(pictures(size)).numpy()
        got = normalised(encoder(folder, Library.TRANSFORMERS), pictures(size))
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-6)


def other_processor(made, folder: Path, **settings: Any) -> Path:
    """A vision transformer whose images are prepared in another way."""
    shutil.copytree(made(Library.TRANSFORMERS, "vit"), folder)
    config = folder / "preprocessor_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | settings))
    return folder


@pytest.mark.parametrize(
    "settings",
    [{"rescale_factor": 1 / 127.5}, {"do_normalize": False}, {"do_normalize": False, "do_rescale": False}],
    ids=["scale", "not normalised", "bytes"],
)
def test_what_an_image_processor_does_not_do_is_not_done(made, tmp_path: Path, settings: dict[str, Any]) -> None:
    folder = other_processor(made, tmp_path / "m", **settings)
    got = normalised(encoder(folder, Library.TRANSFORMERS), pictures())
    np.testing.assert_allclose(got, Transformers(folder).pixels(pictures()).numpy(), rtol=2e-6, atol=2e-6)


def test_an_image_processor_that_resizes_numbers_is_followed_to_a_level_of_256(made, tmp_path: Path) -> None:
    """As DINOv3's does: here bytes are resized."""
    folder = other_processor(made, tmp_path / "m", image_processor_type="DINOv3ViTImageProcessor")
    got = normalised(encoder(folder, Library.TRANSFORMERS), pictures())
    apart = np.abs(got - Transformers(folder).pixels(pictures()).numpy()).max() * 127.5
    assert 0.1 < apart < 1.01


def test_images_that_are_prepared_in_a_way_that_cannot_be_followed_are_refused(made, tmp_path: Path) -> None:
    """EfficientNet's processor normalises twice."""
    size = {"height": 32, "width": 32}
    folder = other_processor(made, tmp_path / "m", image_processor_type="EfficientNetImageProcessor", size=size)
    with pytest.raises(ExtractionError, match=naming("processor", "image")):
        rows(encoder(folder, Library.TRANSFORMERS), pictures())


def test_a_processor_whose_numbers_are_not_normalised_bytes_is_refused(
    made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a kind that is not known yet: what it gives is compared with what the network would be given."""
    import transformers

    folder = other_processor(made, tmp_path / "m")
    real = transformers.AutoImageProcessor.from_pretrained(folder)
    whole = type(real).__call__

    def flipped(self: Any, images: Any, **options: Any) -> Any:
        found = whole(self, images, **options)
        if "do_normalize" not in options:
            found["pixel_values"] = found["pixel_values"][:, ::-1]
        return found

    monkeypatch.setattr(type(real), "__call__", flipped)
    with pytest.raises(ExtractionError, match=naming("processor", "image")):
        rows(encoder(folder, Library.TRANSFORMERS), pictures())


@pytest.mark.parametrize("family", TIMM)
def test_images_are_those_of_timms_transform(made, family: str) -> None:
    folder = made(Library.TIMM, family)
    for size in SIZES:
        got = normalised(encoder(folder, Library.TIMM), pictures(size))
        np.testing.assert_allclose(got, Timm(folder).pixels(pictures(size)).numpy(), rtol=0, atol=2e-6)


def on_engines(families: tuple[str, ...], converted: tuple[str, ...]) -> list:
    """Every family on torch, some on OpenVINO as well: converting takes a second each."""
    return [
        pytest.param(family, engine, id=f"{family}-{engine.engine}")
        for engine, those in ((TORCH, families), (OPENVINO, converted))
        for family in those
    ]


@pytest.mark.parametrize(("family", "engine"), on_engines(TRANSFORMERS, ("clip", "dinov2_with_registers", "swin")))
def test_a_model_of_transformers_pools_as_it_does_itself(made, family: str, engine: NetworkSettings) -> None:
    folder = made(Library.TRANSFORMERS, family)
    close(rows(encoder(folder, Library.TRANSFORMERS), pictures(), engine), Transformers(folder).pooled(pictures()))


@pytest.mark.parametrize(("family", "engine"), on_engines(TIMM, ("vit", "resnet")))
def test_a_model_of_timm_pools_as_it_does_itself(made, family: str, engine: NetworkSettings) -> None:
    folder = made(Library.TIMM, family)
    timm = Timm(folder)
    with torch.inference_mode():
        expected = timm.model(timm.pixels(pictures()))
    close(rows(encoder(folder, Library.TIMM), pictures(), engine), expected)


@pytest.mark.slow
def test_models_that_differ_in_their_weights_alone_are_not_taken_for_one_another(made, tmp_path: Path) -> None:
    """Converted networks are kept for the next session."""
    first = made(Library.TRANSFORMERS, "vit")
    second = Path(shutil.copytree(first, tmp_path / "m"))
    state = load_file(second / "model.safetensors")
    save_file({name: tensor * 0.9 for name, tensor in state.items()}, second / "model.safetensors", {"format": "pt"})
    for folder, digest in ((first, "a"), (second, "b"), (first, "a")):
        chosen = encoder(folder, Library.TRANSFORMERS, digest=digest)
        close(rows(chosen, pictures(), OPENVINO), Transformers(folder).pooled(pictures()))


PREFIX = {"vit": 1, "dinov2": 1, "dinov2_with_registers": 3, "clip": 1, "siglip": 0}


@pytest.mark.slow
@pytest.mark.parametrize("family", PREFIX)
def test_layers_and_pools_of_transformers(made, family: str) -> None:
    folder, prefix = made(Library.TRANSFORMERS, family), PREFIX[family]
    found = Transformers(folder).outputs(pictures())
    states = [*found.hidden_states[:3], found.last_hidden_state]
    for layers in ((-1,), (0,), (2,), (1, 3), (-2, -1)):
        wanted = [states[layer] for layer in layers]
        got = rows(encoder(folder, Library.TRANSFORMERS, layers, "mean"), pictures())
        close(got, torch.cat([state[:, prefix:].mean(1) for state in wanted], -1))
        chosen = encoder(folder, Library.TRANSFORMERS, layers, "cls")
        if prefix and layers != (0,):  # there the class token is the same for all pictures
            close(rows(chosen, pictures()), torch.cat([state[:, 0] for state in wanted], -1))
        elif not prefix:
            with pytest.raises(ExtractionError, match=naming("pool = 'cls'", "model")):
                rows(chosen, pictures())
    tokens = rows(encoder(folder, Library.TRANSFORMERS, (1, 2), "none"), pictures())
    close(tokens, torch.cat(states[1:3], -1))
    assert tokens.shape == (3, prefix + 16, 32)


@pytest.mark.parametrize("layer", [0, 1, 4, -2])
def test_where_layers_cannot_be_told_the_last_goes_by_no_other_number(made, layer: int) -> None:
    folder = made(Library.TRANSFORMERS, "resnet")
    with pytest.raises(ExtractionError, match=naming(layer, "layers")):
        rows(encoder(folder, Library.TRANSFORMERS, (layer,), "mean"), pictures())


@pytest.mark.parametrize("family", ["vit", "vit_registers", "resnet", "swin"])
def test_layers_and_pools_of_timm(made, family: str) -> None:
    folder = made(Library.TIMM, family)
    timm = Timm(folder)
    with torch.inference_mode():
        last = timm.model.forward_features(timm.pixels(pictures()))
        inner = timm.model.forward_intermediates(timm.pixels(pictures()), intermediates_only=True)
    prefix = timm.model.num_prefix_tokens if family.startswith("vit") else 0
    flat = {"vit": 3, "resnet": 4, "swin": 4}[family.split("_")[0]]
    last = last if flat == 3 else (last.flatten(1, 2) if family == "swin" else last.flatten(2).transpose(1, 2))
    close(rows(encoder(folder, Library.TIMM, (-1,), "none"), pictures()), last)
    close(rows(encoder(folder, Library.TIMM, (-1,), "mean"), pictures()), last[:, prefix:].mean(1))
    first, second = (state.mean((2, 3)) for state in inner[:2])
    close(rows(encoder(folder, Library.TIMM, (1, 2), "mean"), pictures()), torch.cat([first, second], 1))
    if prefix:
        close(rows(encoder(folder, Library.TIMM, (-1,), "cls"), pictures()), last[:, 0])


# --- torchvision -----------------------------------------------------------------------------------------------------

TORCHVISION = {
    "mobilenet_v3_small": 1024,
    "shufflenet_v2_x0_5": 1024,
    "googlenet": 1024,
}  # resnet50 is in test_embed_image_features


@pytest.mark.slow
@pytest.mark.parametrize("name", TORCHVISION)
def test_a_model_of_torchvision_gives_what_goes_into_its_classifier(tmp_path: Path, name: str) -> None:
    weights = torchvision_weights(tmp_path / "weights.pth", name)
    chosen = Encoder("[[embed]] x:", Library.TORCHVISION, name, weights, published="IMAGENET1K_V1")
    # What torchvision sets where it loads published weights.
    published = {"transform_input": True, "init_weights": False} if name == "googlenet" else {}
    model = import_torchvision().models.get_model(name, weights=None, **published)
    model.load_state_dict(torch.load(weights, weights_only=True))
    seen: list[torch.Tensor] = []
    linear = [module for module in model.modules() if isinstance(module, torch.nn.Linear)][-1]
    linear.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    frames = pictures((260, 300), count=2)
    with torch.inference_mode():
        transform = preset(name, "IMAGENET1K_V1", "")
        model.eval()(torch.stack([transform(Image.fromarray(frame)) for frame in frames]))
    got = rows(chosen, frames)
    close(got, seen[0], 2e-4 if name == "googlenet" else 1e-3)  # drawn by chance it tells pictures apart by little
    assert got.shape == (2, TORCHVISION[name])


def test_layers_of_torchvisions_models_are_what_leaves_their_blocks() -> None:
    """And the last is normalised as the model does it."""
    models = import_torchvision().models
    vit = models.VisionTransformer(32, 8, num_layers=3, num_heads=2, hidden_dim=16, mlp_dim=16).eval()
    pixels = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        tokens = torch.cat([vit.class_token.expand(2, -1, -1), vit._process_input(pixels)], 1)
        states = [tokens + vit.encoder.pos_embedding]
        for block in vit.encoder.layers:
            states.append(block(states[-1]))
        states[-1] = vit.encoder.ln(states[-1])
        found = TorchvisionBackbone("vit_b_16", vit).states(pixels, [0, 1, 2, 3])
    for layer, (got, wanted) in enumerate(zip(found, states, strict=True)):
        assert got.shape == wanted.shape, layer
        close(got.numpy(), wanted, 1e-5)

    net = models.get_model("resnet18", weights=None).eval()
    with torch.inference_mode():
        first = net.layer1(net.maxpool(net.relu(net.bn1(net.conv1(pixels)))))
        (got,) = TorchvisionBackbone("resnet18", net).states(pixels, [1])
    close(got.numpy(), first.flatten(2).transpose(1, 2), 1e-5)
