"""The fake model and the original code's results, where the shared folder is there."""

from __future__ import annotations

import numpy as np
import pytest
from support.dope.fake_checkpoint import fake_checkpoint, shared_folder
from support.dope.reference import Reference

from tasks.extractors.dope.checkpoint import Checkpoint, load_checkpoint


@pytest.fixture(scope="session")
def reference() -> Reference:
    path = shared_folder() / "reference.npz"
    if not path.exists():
        pytest.skip(f"no {path}: the original code's results are not part of the project")
    with np.load(path) as archive:
        return Reference(dict(archive))


@pytest.fixture(scope="session")
def fake_model(reference: Reference) -> Checkpoint:
    return load_checkpoint(fake_checkpoint())
