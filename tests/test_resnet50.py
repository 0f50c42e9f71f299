from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from stores import local

from storyframes.publish import FeatureWriter
from tasks import weights
from tasks.extractor import ExtractionError
from tasks.recording import read_frames
from tasks.resnet50 import ResNet50Weights, build_network, embed, preprocessing
from tasks.torchvision_import import has_compiled_operators, import_torchvision


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory) -> Path:
    """A file of ResNet-50 weights in torchvision's published form (random numbers)."""
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("weights") / "resnet50.pth"
    torch.save(import_torchvision().models.resnet50(weights=None).state_dict(), path)
    return path


@pytest.fixture(scope="session")
def frames(demo_study: Path) -> np.ndarray:
    return next(read_frames(demo_study / "videos/p01-s01.avi", 12)).rgb


@pytest.mark.parametrize("which", list(ResNet50Weights))
def test_embeddings_equal_torchvisions_frame_by_frame(checkpoint: Path, frames: np.ndarray, which) -> None:
    """Largest difference allowed: 1e-4 of the largest value, and float16's own rounding once stored."""
    torchvision = import_torchvision()
    reference = torchvision.models.resnet50(weights=None)
    reference.load_state_dict(torch.load(checkpoint, weights_only=True))
    reference.fc = torch.nn.Identity()
    reference.eval()
    transform = torchvision.models.get_weight(f"ResNet50_Weights.{which}").transforms()
    with torch.inference_mode():
        expected = np.concatenate([reference(transform(Image.fromarray(f))[None]).numpy() for f in frames])
    got = embed(build_network(checkpoint, which), preprocessing(which), frames)
    assert got.shape == (12, 2048)
    largest = np.abs(expected).max()
    assert np.abs(got - expected).max() <= 1e-4 * largest
    stored = got.astype(np.float16).astype(np.float32)
    assert np.abs(stored - expected).max() <= 6e-4 * largest


def test_v1_and_v2_are_preprocessed_differently(frames: np.ndarray) -> None:
    image = Image.fromarray(frames[0])
    assert not torch.equal(preprocessing(ResNet50Weights.V1)(image), preprocessing(ResNet50Weights.V2)(image))


def test_untrained_weights_are_the_same_every_time_and_leave_torchs_seed_alone(frames: np.ndarray) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first = build_network(None, ResNet50Weights.V1)
    assert torch.equal(before, torch.random.get_rng_state())
    second = build_network(None, ResNet50Weights.V1)
    transform = preprocessing(ResNet50Weights.V1)
    np.testing.assert_array_equal(embed(first, transform, frames[:2]), embed(second, transform, frames[:2]))


def write_damaged(path: Path, kind: str, checkpoint: Path) -> None:
    content = checkpoint.read_bytes()
    if kind == "cut":
        path.write_bytes(content[: len(content) // 2])
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
def test_a_file_that_is_not_resnet50_weights_is_refused(tmp_path: Path, checkpoint: Path, kind: str) -> None:
    path = tmp_path / "weights.pth"
    write_damaged(path, kind, checkpoint)
    with pytest.raises(ExtractionError, match=r"weights\.pth: is not a file of ResNet-50 weights"):
        build_network(path, ResNet50Weights.V1)


def test_a_file_that_claims_to_be_the_published_one_must_be_it(tmp_path: Path, checkpoint: Path) -> None:
    path = tmp_path / weights.MODELS["resnet50-v1"].filename
    path.write_bytes(checkpoint.read_bytes())
    with pytest.raises(ExtractionError, match="but resnet50-0676ba61.pth has 0676ba61b6795bbe"):
        build_network(path, ResNet50Weights.V1)


def test_the_published_files_are_torchvisions() -> None:
    models = import_torchvision().models
    for name, which in (("resnet50-v1", "IMAGENET1K_V1"), ("resnet50-v2", "IMAGENET1K_V2")):
        published = weights.MODELS[name]
        assert published.url == models.ResNet50_Weights[which].url
        assert published.sha256.startswith(published.filename.removesuffix(".pth").split("-")[1])


def extract(study: Path, root: Path, **resnet50):
    from storyframes.study import load_study
    from tasks.extract import extract as do_work
    from tasks.extractors import ExtractorsSettings
    from tasks.plan import Selection, plan_extraction

    settings = ExtractorsSettings(resnet50=resnet50)
    plan = plan_extraction(load_study(study), root, settings, Selection(("s0001",), ("resnet50",)))
    outcomes = {outcome.feature: outcome for outcome in plan.settled}
    outcomes |= {outcome.feature: outcome for work in plan.work for outcome in do_work(work)}
    return outcomes["resnet50"]


@pytest.fixture(scope="session")
def short_study(tmp_path_factory) -> Path:
    from tasks.synthesize import SyntheticStudy, write_study

    folder = tmp_path_factory.mktemp("short") / "study"
    write_study(folder, SyntheticStudy(sessions=1, seconds=1))
    return folder


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
    assert "resnet50-v1 could not be fetched (no connection)" in outcome.reason
    assert "put it at" in outcome.reason


def test_untrained_weights_are_stamped_everywhere(short_study: Path, store_root: Path) -> None:
    from storyframes import catalogue
    from storyframes.store import FeatureStore

    outcome = extract(short_study, store_root, allow_untrained=True)
    assert (outcome.status, outcome.stamps) == ("done", ("untrained weights",))
    catalogue.compact(local(store_root))
    store = FeatureStore(store_root)
    assert store.attributes("s0001", "resnet50")["stamps"] == ["untrained weights"]
    assert store.attributes("s0001", "resnet50")["provenance"]["models"] == {"resnet50": "untrained, seed 0"}
    (row,) = store.catalogue[store.catalogue["feature"] == "resnet50"].itertuples()
    assert list(row.stamps) == ["untrained weights"]


def test_other_weights_are_another_fingerprint(short_study: Path, store_root: Path, checkpoint: Path) -> None:
    extract(short_study, store_root, allow_untrained=True)
    assert extract(short_study, store_root, allow_untrained=True).skipped
    trained = extract(short_study, store_root, path=checkpoint)
    assert (trained.skipped, trained.stamps) == (False, ())
    assert extract(short_study, store_root, path=checkpoint, batch_size=3).skipped  # the batch decides no value


def test_a_value_beyond_float16_is_an_error_not_infinity(store_root: Path) -> None:
    with (
        pytest.raises(ValueError, match="does not fit float16"),
        FeatureWriter(local(store_root), "a", "resnet50") as out,
    ):
        out.write("values", np.full((1, 2048), 1e5, np.float32))


def test_has_compiled_operators_tells_the_truth() -> None:
    boxes, scores = torch.tensor([[0.0, 0.0, 1.0, 1.0]]), torch.tensor([1.0])
    if has_compiled_operators():
        assert import_torchvision().ops.nms(boxes, scores, 0.5).tolist() == [0]
    else:
        with pytest.raises((RuntimeError, NotImplementedError)):
            import_torchvision().ops.nms(boxes, scores, 0.5)
