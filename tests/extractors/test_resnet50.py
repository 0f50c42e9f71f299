from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from support.messages import missing, naming
from support.models.torchvision_reference import V1, torchvisions_embeddings, transform
from support.stores import local
from support.studies import plan_of

from storyframes.features import FEATURES
from storyframes.store.publish import FeatureWriter
from tasks.extractors.base import CommonSettings, ExtractionError, InputFile, Source
from tasks.extractors.image.encoder import Encoder, Library, PreparedEncoder
from tasks.extractors.image.engines import OpenVinoEngine, TorchEngine, open_engine
from tasks.extractors.registry import ExtractorsSettings, build_extractors
from tasks.extractors.resnet50 import ResNet50, ResNet50Settings, ResNet50Weights, resnet50
from tasks.extractors.settings import LEAST_GPU_SHARE, EngineName, Precision
from tasks.extractors.torch_compute import largest_batch_size
from tasks.media.recording import read_frames
from tasks.models import weights
from tasks.models.libraries import has_compiled_operators, import_openvino, import_torchvision

torch.set_num_threads(1)  # as in a worker


@pytest.fixture(scope="session")
def frames(demo_study: Path) -> np.ndarray:
    """Two frames of each of three recordings."""
    return np.concatenate([next(read_frames(path, 2)).rgb for path in sorted((demo_study / "videos").glob("*.avi"))])


@pytest.fixture(scope="session")
def random_weights(tmp_path_factory) -> Path:
    """A file in torchvision's published form, of random weights as torchvision draws them."""
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("random") / "resnet50.pth"
    torch.save(import_torchvision().models.resnet50(weights=None).state_dict(), path)
    return path


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory, frames: np.ndarray) -> Path:
    """Random weights with the statistics of frames in their batch normalisations.

    They tell frames apart, as random weights alone hardly do, and so sharply that small errors grow a hundredfold.
    """
    torch.manual_seed(3)
    network = import_torchvision().models.resnet50(weights=None)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None  # the plain mean of what is seen
    with torch.inference_mode():
        network.train()(torch.stack([transform(V1)(Image.fromarray(frame)) for frame in frames]))
    path = tmp_path_factory.mktemp("weights") / "resnet50.pth"
    torch.save(network.state_dict(), path)
    return path


@pytest.fixture(scope="session")
def torchvisions(frames: np.ndarray) -> Callable[[Path, ResNet50Weights], np.ndarray]:
    """What torchvision's own network makes of every frame; computed once for each file of weights."""
    return cache(lambda weights, which: torchvisions_embeddings(weights, which, frames))


def embed(weights: Path, which: ResNet50Weights, frames: np.ndarray, **settings) -> np.ndarray:
    chosen = ResNet50Settings(**settings)
    model = prepared(which, weights, chosen.precision)
    return open_engine(model, chosen).start(model.preprocessing.images(frames))()


def prepared(
    which: ResNet50Weights, weights: Path | None, precision: Precision = Precision.FLOAT32, digest: str = ""
) -> PreparedEncoder:
    return resnet50(which, weights, digest or str(weights)).prepared(precision)


def images_of(frames: np.ndarray, which: ResNet50Weights = V1, precision: Precision = Precision.FLOAT32) -> np.ndarray:
    return prepared(which, None, precision).preprocessing.images(frames)


# --- equality with torchvision ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "which"),
    [
        pytest.param(EngineName.OPENVINO, V1, marks=pytest.mark.end_to_end),
        pytest.param(EngineName.OPENVINO, ResNet50Weights.V2, marks=pytest.mark.nightly),
        pytest.param(EngineName.TORCH, V1, marks=pytest.mark.nightly),  # each engine and each weights once by day
        (EngineName.TORCH, ResNet50Weights.V2),
    ],
)
def test_embeddings_equal_torchvisions_frame_by_frame(
    checkpoint: Path, frames: np.ndarray, torchvisions, which, engine
) -> None:
    """Largest difference allowed, relative to the largest value: 1e-3 in float32, on top of what float16 rounds."""
    expected = torchvisions(checkpoint, which)
    got = embed(checkpoint, which, frames, engine=engine)
    assert (got.shape, got.dtype) == ((6, 2048), np.float32)
    largest = np.abs(expected).max()
    assert np.abs(got - expected).max() <= 1e-3 * largest
    assert np.abs(got.astype(np.float16) - expected).max() <= 1.5e-3 * largest


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)


@pytest.mark.isa
@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "precision"),
    [
        (EngineName.OPENVINO, Precision.BFLOAT16),
        (EngineName.OPENVINO, Precision.FLOAT16),
        (EngineName.TORCH, Precision.BFLOAT16),
        pytest.param(EngineName.TORCH, Precision.FLOAT16, marks=pytest.mark.nightly),
    ],
)
def test_half_precision_stays_close(random_weights: Path, frames: np.ndarray, torchvisions, engine, precision) -> None:
    frames, expected = frames[::2], torchvisions(random_weights, V1)[::2]  # of every recording; float16 takes long
    if engine is EngineName.OPENVINO and not openvino_has(precision):
        expected = naming(f"precision = '{precision}'", "set precision = 'float32'")
        with pytest.raises(ExtractionError, match=expected):
            embed(random_weights, V1, frames, engine=engine, precision=precision)
        return
    got = embed(random_weights, V1, frames, engine=engine, precision=precision)
    assert np.abs(got - expected).max() <= 2e-2 * np.abs(expected).max()
    assert cosines(got, expected).min() >= 0.999
    assert np.abs(got - expected).max() > 1e-5 * np.abs(expected).max()  # it is half precision: float32 is closer


def openvino_has(precision: Precision) -> bool:
    name = {Precision.BFLOAT16: "BF16", Precision.FLOAT16: "FP16"}[precision]
    if precision is Precision.BFLOAT16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return False  # without AVX-512; under ONEDNN_MAX_CPU_ISA, OpenVINO says what the processor itself has
    return name in import_openvino().Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


@pytest.mark.slow
def test_the_frames_are_told_apart(checkpoint: Path, torchvisions) -> None:
    """What makes equality mean something: the embeddings differ far more than they may err."""
    expected = torchvisions(checkpoint, V1)[[0, 2, 4]]
    assert np.abs(expected[0] - expected[1]).max() > 0.1 * np.abs(expected).max()


SIZES = [(720, 1280), (1280, 720), (480, 640), (361, 483), (100, 130), (256, 256), (224, 300)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("which", list(ResNet50Weights))
def test_crops_are_torchvisions(which: ResNet50Weights, size: tuple[int, int]) -> None:
    """Exactly in float32; to one level of 256, in one value of fifty, where the network rounds more coarsely."""
    picture = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)  # the hardest to resize
    preset = transform(which)
    normalised = preset(Image.fromarray(picture)).permute(1, 2, 0).numpy()
    expected = np.rint((normalised * preset.std + preset.mean) * 255)
    exact, fast = (images_of(picture[None], which, precision) for precision in (Precision.FLOAT32, Precision.BFLOAT16))
    np.testing.assert_array_equal(exact[0], expected)
    assert exact.shape == fast.shape == (1, 224, 224, 3)
    difference = np.abs(fast[0] - expected)
    assert difference.max() <= 1
    assert (difference > 0).mean() < 0.02


@pytest.mark.slow
def test_several_processors_give_the_very_same_values(checkpoint: Path, frames: np.ndarray) -> None:
    images = np.concatenate([images_of(frames)] * 2)
    one, three = (OpenVinoEngine(prepared(V1, checkpoint), Precision.FLOAT32, 2, cpus) for cpus in (1, 3))
    assert (one.ahead, three.ahead) == (0, 3)
    expected = np.concatenate([one.start(images[first : first + 2])() for first in range(0, 12, 2)])
    under_way = [three.start(images[first : first + 2]) for first in range(0, 8, 2)]
    got = [waiting() for waiting in under_way]
    got += [three.start(images[first : first + 2])() for first in range(8, 12, 2)]
    np.testing.assert_array_equal(np.concatenate(got), expected)


@pytest.mark.slow
def test_untrained_weights_are_the_same_every_time_and_leave_torchs_seed_alone(frames: np.ndarray) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = prepared(V1, None).build()
    assert torch.equal(before, torch.random.get_rng_state())
    images = torch.from_numpy(images_of(frames[:2]))
    with torch.inference_mode():
        assert torch.equal(first(images), prepared(V1, None).build()(images))


# --- memory ----------------------------------------------------------------------------------------------------------


class SmallMemory:
    """A network on a device whose memory holds so many images: a row is the mean colour of its image."""

    def __init__(self, holds: int) -> None:
        self.holds, self.asked = holds, []

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        self.asked.append(len(images))
        if len(images) > self.holds:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return images.float().mean((1, 2))


@pytest.fixture
def engine() -> TorchEngine:
    """The engine of a network that is soon made."""
    small = Encoder("[embed_images]", Library.TORCHVISION, "resnet18", None, published="IMAGENET1K_V1")
    return TorchEngine(small.prepared(Precision.FLOAT32), Precision.FLOAT32, batch_size=12)


def test_out_of_memory_halves_the_batch_for_good_and_loses_nothing(engine: TorchEngine) -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), np.uint8)
    expected = images.astype(np.float32).mean((1, 2))
    engine._network = small = SmallMemory(holds=3)
    np.testing.assert_allclose(engine.start(images)(), expected, rtol=1e-6)
    assert (engine.batch_size, small.asked) == (3, [12, 6, 3, 3, 3, 3])
    small.asked.clear()
    np.testing.assert_allclose(engine.start(images[:7])(), expected[:7], rtol=1e-6)
    assert small.asked == [3, 3, 1]


def test_a_device_that_holds_no_image_at_all_is_an_error(engine: TorchEngine) -> None:
    engine._network = SmallMemory(holds=0)
    with pytest.raises(ExtractionError, match="not enough free memory"):
        engine.start(np.zeros((4, 8, 8, 3), np.uint8))


def test_the_batch_takes_half_of_the_free_memory() -> None:
    assert largest_batch_size(free=64e9, per_input=20e6) == 64
    assert largest_batch_size(free=1e9, per_input=20e6) == 16
    assert largest_batch_size(free=1e6, per_input=20e6) == 1


# --- weights ---------------------------------------------------------------------------------------------------------


def write_damaged(path: Path, kind: str) -> None:
    if kind == "cut":
        torch.save({"conv1.weight": torch.zeros(64, 3, 7, 7)}, path)
        path.write_bytes(path.read_bytes()[:20_000])
    elif kind == "text":
        path.write_text("404 not found")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "other network":
        torch.save({"weight": torch.zeros(3)}, path)
    elif kind == "pickled code":
        import pickle

        path.write_bytes(pickle.dumps(print))


@pytest.mark.parametrize("kind", ["cut", "text", "empty", "other network", "pickled code"])
def test_a_file_that_is_not_resnet50_weights_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "weights.pth"
    write_damaged(path, kind)
    for engine in (EngineName.OPENVINO, EngineName.TORCH):
        with pytest.raises(ExtractionError, match=naming("weights.pth", "weights")):
            open_engine(prepared(V1, path, digest=kind), ResNet50Settings(engine=engine))


def test_a_file_that_claims_to_be_the_published_one_must_be_it(tmp_path: Path) -> None:
    path = tmp_path / weights.MODELS["resnet50-v1"].filename
    path.write_bytes(b"others")
    with pytest.raises(ExtractionError, match=naming(str(path), "0676ba61b6795bbe")):
        prepared(V1, path).build()


def test_the_published_files_are_torchvisions() -> None:
    models = import_torchvision().models
    for name, which in (("resnet50-v1", "IMAGENET1K_V1"), ("resnet50-v2", "IMAGENET1K_V2")):
        published = weights.MODELS[name]
        assert published.url == models.ResNet50_Weights[which].url
        assert published.sha256.startswith(published.filename.removesuffix(".pth").split("-")[1])


# --- the engine that is chosen ---------------------------------------------------------------------------------------


def test_auto_is_openvino_on_a_processor_and_torch_on_a_gpu_or_without_openvino(monkeypatch) -> None:
    assert ResNet50Settings().resolved().engine is EngineName.OPENVINO
    assert ResNet50Settings(device="cuda").resolved().engine is EngineName.TORCH
    monkeypatch.setitem(sys.modules, "openvino", None)
    assert ResNet50Settings().resolved().engine is EngineName.TORCH
    with pytest.raises(ExtractionError, match=naming("openvino", "not installed")):
        OpenVinoEngine(prepared(V1, None), Precision.FLOAT32)


def test_a_precision_that_is_not_there_is_refused_not_replaced() -> None:
    with pytest.raises(ValueError, match=naming("precision = 'tf32'", "device = 'cuda'")):
        ResNet50Settings(engine="torch", precision="tf32")
    with pytest.raises(ValueError, match=naming("engine = 'openvino'", "processors")):
        ResNet50Settings(engine="openvino", device="cuda")


def test_a_gpu_is_asked_for_and_never_replaced_by_a_processor(monkeypatch) -> None:
    def needs(**settings):
        return ResNet50(ResNet50Settings(**settings), CommonSettings()).needs

    assert needs() == {"CPU": 1}
    assert needs(cpus=3) == {"CPU": 3}
    assert needs(device="cuda") == {"GPU": LEAST_GPU_SHARE}
    assert needs(device="cuda", sessions_per_gpu=4) == {"GPU": 0.25}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    settings = ResNet50Settings(device="cuda", precision="tf32").resolved()
    with pytest.raises(ExtractionError, match=naming("device = 'cuda'", "no GPU")):
        open_engine(prepared(V1, None), settings)


@pytest.mark.slow
def test_openvino_reports_to_nobody_and_torchs_compiler_waits_until_it_is_asked(tmp_path: Path) -> None:
    """OpenVINO's telemetry leaves traces in the home folder at the import, and more when a model is converted.

    torchvision's import imports torch's compiler, which takes a second.
    """
    code = """
import sys, torch
from tasks.models.libraries import import_openvino, import_torchvision
from tasks.extractors.image.engines import convert_network
class Watch:
    def find_spec(self, name, *_):
        if name == "torchvision.ops":
            self.seen = sys.modules["torch._dynamo.utils"]
sys.meta_path.insert(0, watch := Watch())
with_compiled = import_torchvision().ops.roi_align.__globals__["is_compile_supported"]
convert_network(torch.nn.Linear(2, 2).eval(), torch.zeros(1, 2), [1, 2])
print(any(module and name.startswith("openvino_telemetry") for name, module in sys.modules.items()))
print("torch._dynamo" in sys.modules)
print(with_compiled("cpu") == torch._dynamo.utils.is_compile_supported("cpu"))
print(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item())
counters = torch._dynamo.utils.counters
print(watch.seen.counters is counters is torch._dynamo.utils.counters)
"""
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False", "True", "2.0", "True"], done.stderr
    assert not (tmp_path / "intel").exists()


SHORT = 9  # frames: more than one batch, and one that is not full

# --- the feature -----------------------------------------------------------------------------------------------------


def extract(study: Path, root: Path, **resnet50):
    from tasks.extract import extract as do_work

    plan = plan_of(study, root, "s0001", "resnet50", **resnet50)
    outcomes = {outcome.feature: outcome for outcome in plan.settled}
    outcomes |= {outcome.feature: outcome for work in plan.units for outcome in do_work(work)}
    return outcomes["resnet50"]


@pytest.fixture(scope="session")
def short_study(tmp_path_factory) -> Path:
    from tasks.media.synthesize import SyntheticStudy, write_study

    folder = tmp_path_factory.mktemp("short") / "study"
    write_study(folder, SyntheticStudy(sessions=1, seconds=SHORT / 15))
    return folder


@pytest.mark.slow
def test_planning_settles_the_engine_and_loads_none(short_study: Path, store_root: Path) -> None:
    plan = plan_of(short_study, store_root, "s0001", "resnet50", allow_untrained=True)
    assert {work.settings.resnet50.engine for work in plan.units} == {ResNet50Settings().resolved().engine}
    code = (
        "import sys; from pathlib import Path; from support.studies import plan_of;"
        "plan_of(Path(sys.argv[1]), Path(sys.argv[2]), 's0001', 'resnet50', allow_untrained=True);"
        "print(*{'torch', 'openvino', 'opensmile'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code, str(short_study), str(store_root)]
    environment = {"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": "/usr/bin", "HOME": str(store_root.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr) == ("\n", "")


def test_without_weights_and_without_a_connection_the_feature_fails_and_says_what_to_do(
    short_study: Path, store_root: Path, monkeypatch
) -> None:
    import urllib.error
    import urllib.request

    def offline(*args, **kwargs):
        raise urllib.error.URLError("no connection")

    monkeypatch.setattr(urllib.request, "urlopen", offline)
    outcome = extract(short_study, store_root)
    assert outcome.status == "failed"
    assert missing(outcome.reason, "resnet50-v1", "no connection", "put it at") == []


@pytest.mark.slow
def test_untrained_weights_have_a_caveat_everywhere(short_study: Path, store_root: Path) -> None:
    from storyframes.store import catalogue
    from storyframes.store.feature_store import FeatureStore

    outcome = extract(short_study, store_root, allow_untrained=True, engine="torch")
    assert (outcome.status, outcome.caveats) == ("done", ("untrained weights",))
    catalogue.compact(local(store_root))
    store = FeatureStore(store_root)
    attributes = store.attributes("s0001", "resnet50")
    assert (attributes["stamps"], attributes["device"]) == (["untrained weights"], "cpu")
    assert attributes["provenance"]["models"] == {"resnet50": "untrained, seed 0"}
    assert attributes["provenance"]["settings"] == {
        "weights": "IMAGENET1K_V1",
        "engine": "torch",
        "precision": "float32",
        "allow_truncated": False,
    }
    (row,) = store.catalogue[store.catalogue["feature"] == "resnet50"].itertuples()
    assert list(row.stamps) == ["untrained weights"]


def digest(path: Path | None, **resnet50: Any) -> str:
    """The fingerprint of a video that is always the same, as planning settles it."""
    settings = ExtractorsSettings(resnet50={"path": path, **resnet50})
    source = Source("s", {"video": InputFile(Path("video.avi"), "video.avi", "a" * 64, 1, 1)})
    return build_extractors(settings, "s")["resnet50"].fingerprint(source).digest


def test_what_decides_values_is_another_fingerprint_and_nothing_else_is(tmp_path: Path) -> None:
    (path := tmp_path / "weights.pth").write_bytes(b"weights")
    (other := tmp_path / "other.pth").write_bytes(b"other weights")
    expected = digest(path)
    chosen = ResNet50Settings().resolved().engine
    for same in ({}, {"batch_size": 3}, {"cpus": 2}, {"engine": chosen}, {"allow_untrained": True}):
        assert digest(path, **same) == expected, same
    for decides in ({"engine": "torch"}, {"precision": "bfloat16"}, {"weights": "IMAGENET1K_V2"}):
        assert digest(path, **decides) != expected, decides
    assert len({expected, digest(other), digest(None, allow_untrained=True)}) == 3


def values(study: Path, root: Path, checkpoint: Path, **resnet50) -> np.ndarray:
    from storyframes.store import catalogue
    from storyframes.store.feature_store import FeatureStore

    outcome = extract(study, root, path=checkpoint, **resnet50)
    assert (outcome.rows, outcome.caveats) == (SHORT, ())
    catalogue.compact(local(root))
    return FeatureStore(root).read("s0001", "resnet50")


@pytest.fixture(scope="module")
def one_by_one(short_study: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    from storyframes.store.layout import create_store

    root = tmp_path_factory.mktemp("one-by-one") / "features"
    create_store(root)
    return values(short_study, root, checkpoint, batch_size=1)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"batch_size": 4}, {"batch_size": 64}, {"batch_size": 2, "cpus": 3}])
def test_every_frame_once_and_in_order_however_they_are_batched(
    short_study: Path, store_root: Path, checkpoint: Path, one_by_one: np.ndarray, changes
) -> None:
    assert len(np.unique(one_by_one, axis=0)) == SHORT  # so that a wrong order shows
    batched = values(short_study, store_root, checkpoint, **changes)
    np.testing.assert_allclose(batched, one_by_one, rtol=2e-3, atol=1e-3)


def test_a_value_beyond_float16_is_an_error_not_infinity(store_root: Path) -> None:
    with (
        pytest.raises(ValueError, match="does not fit float16"),
        FeatureWriter(local(store_root), "a", FEATURES["resnet50"]) as out,
    ):
        out.write("values", np.full((1, 2048), 1e5, np.float32))


def test_has_compiled_operators_tells_the_truth() -> None:
    boxes, scores = torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.tensor([1.0])
    if has_compiled_operators():
        assert import_torchvision().ops.nms(boxes, scores, 0.5).tolist() == [0]
    else:
        with pytest.raises((RuntimeError, NotImplementedError)):
            import_torchvision().ops.nms(boxes, scores, 0.5)
