"""Networks of several sessions in one process, and on a GPU: a processor's values, TF32 only where it was asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.tiny_audio_models import sound_model
from support.models.tiny_classifiers import image_classifier, sound_classifier, text_classifier, video_classifier
from support.models.tiny_image_models import transformers_model

from storyframes.store.feature_store import FeatureStore
from storyframes.store.layout import create_store
from tasks.extract import extract
from tasks.extractors import torch_compute
from tasks.extractors.image.encoder import Encoder, Library
from tasks.extractors.image.engines import TorchEngine
from tasks.extractors.registry import ExtractorsSettings
from tasks.extractors.settings import Device, Precision
from tasks.media.synthesize import SyntheticStudy, write_study
from tasks.planning.plan import plan_extraction
from tasks.planning.selection import CLOCK, Selection
from tasks.study.load import load_study

ON_A_GPU = pytest.mark.needs("gpu")
DEVICES = (Device.CPU, pytest.param(Device.CUDA, marks=ON_A_GPU))
WAYS = [
    *((Device.CPU, precision) for precision in Precision if precision is not Precision.TF32),
    *(pytest.param(Device.CUDA, precision, marks=ON_A_GPU) for precision in Precision),
]
IMAGES = np.random.default_rng(0).integers(0, 256, (16, 224, 224, 3), dtype=np.uint8)
SESSIONS = tuple(f"s{number:04d}" for number in range(1, 5))


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    """Each test makes its networks."""
    torch_compute._kept.clear()


def rows(device: Device, precision: Precision, name: str, images: np.ndarray = IMAGES) -> np.ndarray:
    encoder = Encoder("test:", Library.TORCHVISION, name, None, published="IMAGENET1K_V1")
    return TorchEngine(encoder.prepared(precision), precision, len(images), device).start(images)()


def apart(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@ON_A_GPU
@pytest.mark.parametrize("name", ["resnet50", "vit_b_16"])
def test_a_gpu_gives_a_processors_values_and_tf32_and_half_precision_only_where_asked(name: str) -> None:
    processor = rows(Device.CPU, Precision.FLOAT32, name)
    assert apart(rows(Device.CUDA, Precision.FLOAT32, name), processor) < 1e-5
    assert 2e-5 < apart(rows(Device.CUDA, Precision.TF32, name), processor) < 1e-2
    assert 2e-5 < apart(rows(Device.CUDA, Precision.FLOAT16, name), processor) < 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_sessions_beside_each_other_do_not_take_each_others_precision(device: Device) -> None:
    coarse = Precision.TF32 if device is Device.CUDA else Precision.BFLOAT16
    of = partial(rows, device, name="resnet18", images=IMAGES[:4])
    alone = {precision: of(precision) for precision in (Precision.FLOAT32, coarse)}
    assert apart(alone[coarse], alone[Precision.FLOAT32]) > 2e-5
    torch_compute._kept.clear()
    asked = [Precision.FLOAT32, coarse] * 4
    with ThreadPoolExecutor(len(asked)) as threads:
        found = list(threads.map(of, asked))
    for precision, each in zip(asked, found, strict=True):
        np.testing.assert_array_equal(each, alone[precision])


def stored(study: Path, settings: Mapping[str, Any], feature: str, *, at_once: bool) -> dict[str, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        create_store(Path(folder) / "features")
        asked = Selection(SESSIONS, (feature,))
        checked = ExtractorsSettings.model_validate(settings)
        plan = plan_extraction(load_study(study), Path(folder) / "features", checked, asked)
        for unit in plan.units:
            if unit.features == (CLOCK,):
                extract(unit)
        work = [unit for unit in plan.units if feature in unit.features]
        assert len(work) == len(SESSIONS)
        torch_compute._kept.clear()
        with ThreadPoolExecutor(len(work) if at_once else 1) as threads:
            for outcomes in threads.map(extract, work):
                assert {outcome.reason for outcome in outcomes} == {""}
        store = FeatureStore(Path(folder) / "features")
        return {name: store[name][feature][:] for name in SESSIONS}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu") / "study"
    write_study(folder, SyntheticStudy(sessions=len(SESSIONS), seconds=4))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("device", "precision"), WAYS)
def test_sessions_in_threads_of_one_process_are_what_they_are_alone(
    study: Path, tmp_path: Path, device: Device, precision: Precision
) -> None:
    """Of a picture's model and of a sound's, which load and compute beside each other."""
    how = {"device": str(device), "precision": str(precision), "sessions_per_gpu": len(SESSIONS)}
    sound = {"name": "speech", "kind": "audio", "source": f"path:{sound_model(tmp_path / 'speech', 'wav2vec2')}"}
    pictures = {"name": "pictures", "kind": "image", "source": f"path:{transformers_model(tmp_path / 'vit', 'vit')}"}
    settings = {"embed": [{**sound, **how}, {**pictures, **how, "engine": "torch"}]}
    for feature in ("speech", "pictures"):
        alone = stored(study, settings, feature, at_once=False)
        together = stored(study, settings, feature, at_once=True)
        for session, values in alone.items():
            np.testing.assert_array_equal(together[session], values)


@ON_A_GPU
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["image", "audio", "video", "text", "text of a decoder"])
def test_scores_and_hidden_states_of_a_gpu_are_a_processors(study: Path, tmp_path: Path, kind: str) -> None:
    sections = {
        "image": lambda: {"source": image_classifier(tmp_path / "model"), "engine": "torch", "pool": "cls"},
        "audio": lambda: {"source": sound_classifier(tmp_path / "model", "wav2vec2"), "window_s": 1.0},
        "video": lambda: {"source": video_classifier(tmp_path / "model"), "window_s": 1.0},
        "text": lambda: {"source": text_classifier(tmp_path / "model"), "pool": "mean"},
        "text of a decoder": lambda: {"source": text_classifier(tmp_path / "model", family="llama"), "pool": "last"},
    }
    section = {"name": "answers", "kind": kind.split()[0], "output": ["hidden", "scores"], **sections[kind]()}
    section["source"] = f"path:{section['source']}"
    rows = {}
    for device in Device.CPU, Device.CUDA:
        rows[device] = stored(study, {"embed": [{**section, "device": str(device)}]}, "answers", at_once=False)
    for session, values in rows[Device.CPU].items():
        assert values.size > 8
        np.testing.assert_allclose(rows[Device.CUDA][session], values, rtol=1e-4, atol=1e-5)
