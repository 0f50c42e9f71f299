"""The fake model and the original code's results, where the shared folder is there."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import numpy as np
import pytest
from support.dope.fake_checkpoint import fake_checkpoint, shared_folder
from support.dope.reference import Reference

from tasks.extractors.dope.checkpoint import Checkpoint, load_checkpoint
from tasks.extractors.dope.detector import DopeDetector
from tasks.extractors.dope.layers import Layers
from tasks.extractors.dope.settings import RoiBorder


def arrays(name: str) -> dict[str, np.ndarray]:
    path = shared_folder() / name
    if not path.exists():
        pytest.skip(f"no {path}: the original code's results are not part of the project")
    with np.load(path) as archive:
        return dict(archive)


@pytest.fixture(scope="session")
def repeating() -> Reference:
    """Under the rule of torchvision's Python RoIAlign."""
    return Reference(arrays("reference.npz"), RoiBorder.REPEAT)


@pytest.fixture(scope="session")
def reference(repeating: Reference) -> Reference:
    """Under the rule of the compiled one, as published."""
    images = {name: array for name, array in repeating.arrays.items() if name.startswith("image")}
    return Reference(images | arrays("reference_compiled.npz"), RoiBorder.ZERO)


@pytest.fixture(scope="session")
def fake_model(reference: Reference) -> Checkpoint:
    return load_checkpoint(fake_checkpoint())


@pytest.fixture(scope="session")
def _opened() -> dict[tuple[object, ...], Layers]:
    return {}


@pytest.fixture(scope="module")
def layers_once(_opened: dict[tuple[object, ...], Layers]) -> Iterator[None]:
    """The layers of a model file are made once: for a processor they are compiled, for two seconds and more."""
    make = DopeDetector._layers

    def made_once(detector: DopeDetector, checkpoint: Checkpoint) -> Layers:
        made_of = checkpoint.path.resolve(), checkpoint.path.stat().st_ino, checkpoint.half
        decides = (
            *made_of,
            detector.engine,
            detector.precision,
            detector.device,
            detector.settings.eps(checkpoint.half),
        )
        if decides not in _opened:
            _opened[decides] = make(detector, checkpoint)
        return _opened[decides]

    with patch.object(DopeDetector, "_layers", made_once):
        yield
