"""Networks on a GPU: the values of a processor, TF32 where it was asked for only, and several sessions at once."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.models.tiny_audio_models import sound_model

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

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

IMAGES = np.random.default_rng(0).integers(0, 256, (16, 224, 224, 3), dtype=np.uint8)
SESSIONS = tuple(f"s{number:04d}" for number in range(1, 5))


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    """Each test makes its networks."""
    torch_compute._kept.clear()


def rows(device: Device, precision: Precision, name: str = "resnet50") -> np.ndarray:
    encoder = Encoder("test:", Library.TORCHVISION, name, None, published="IMAGENET1K_V1")
    engine = TorchEngine(encoder.prepared(precision), precision, len(IMAGES), device)
    return engine.start(IMAGES)()


def apart(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("name", ["resnet50", "vit_b_16"])
def test_a_gpu_gives_a_processors_values_and_tf32_and_half_precision_only_where_asked(name: str) -> None:
    processor = rows(Device.CPU, Precision.FLOAT32, name)
    assert apart(rows(Device.CUDA, Precision.FLOAT32, name), processor) < 1e-5
    assert 2e-5 < apart(rows(Device.CUDA, Precision.TF32, name), processor) < 1e-2
    assert 2e-5 < apart(rows(Device.CUDA, Precision.FLOAT16, name), processor) < 1e-2


def test_sessions_beside_each_other_do_not_take_each_others_precision() -> None:
    alone = {precision: rows(Device.CUDA, precision) for precision in (Precision.FLOAT32, Precision.TF32)}
    torch_compute._kept.clear()
    asked = [Precision.FLOAT32, Precision.TF32] * 8
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda precision: rows(Device.CUDA, precision), asked))
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
        work = [unit for unit in plan.units if unit.features == (feature,)]
        assert len(work) == len(SESSIONS)
        torch_compute._kept.clear()
        with ThreadPoolExecutor(len(work) if at_once else 1) as threads:
            for outcomes in threads.map(extract, work):
                assert [outcome.reason for outcome in outcomes] == [""]
        store = FeatureStore(Path(folder) / "features")
        return {name: store.session(name).to_pandas(feature).to_numpy() for name in SESSIONS}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpu") / "study"
    write_study(folder, SyntheticStudy(sessions=len(SESSIONS), seconds=4))
    return folder


@pytest.mark.parametrize("precision", list(Precision))
def test_sessions_share_a_gpu_in_threads_and_are_what_they_are_alone(
    study: Path, tmp_path: Path, precision: Precision
) -> None:
    on_gpu = {"device": "cuda", "precision": str(precision), "sessions_per_gpu": 4}
    sound = {"name": "speech", "kind": "audio", "source": f"path:{sound_model(tmp_path / 'speech', 'wav2vec2')}"}
    for feature, settings in {
        "resnet50": {"resnet50": {**on_gpu, "allow_untrained": True}},
        "speech": {"embed": [{**sound, **on_gpu}]},
    }.items():
        alone = stored(study, settings, feature, at_once=False)
        together = stored(study, settings, feature, at_once=True)
        for session, values in alone.items():
            np.testing.assert_array_equal(together[session], values)
