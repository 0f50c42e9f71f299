"""Every parameter and the content of the bundle decide the values; where the bundle is does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from storyframes_mediapipe.extractor import MediaPipe, MediaPipeSettings

from tasks.extractors.base import CommonSettings, InputFile, Source

# The environment of the plug-in's program is in its fingerprint, and is made first.
pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.usefixtures("python")]


def digest(model: Path, **settings: Any) -> str:
    source = Source("s1", {"video": InputFile(Path("v"), "v", "0" * 64, 0, 0)})
    return MediaPipe(MediaPipeSettings(model=model, **settings), CommonSettings()).fingerprint(source).digest


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "holistic.task"
    path.write_bytes(b"models")
    return path


def test_every_parameter_is_in_the_fingerprint(model: Path) -> None:
    confidences = [name for name in MediaPipeSettings.model_fields if name.startswith("min_")]
    other = {"static_image_mode": True} | dict.fromkeys(confidences, 0.4)
    changed = {digest(model, **{name: value}) for name, value in other.items()}
    assert len(changed | {digest(model)}) == 7
    assert digest(model, cpus=2, timeout_s=7) == digest(model)


def test_the_bundle_may_be_anywhere_and_its_content_decides(model: Path, tmp_path: Path) -> None:
    (copy := tmp_path / "copy.task").write_bytes(model.read_bytes())
    (other := tmp_path / "other.task").write_bytes(model.read_bytes() + b"x")
    assert digest(model) == digest(copy) != digest(other)
