"""Folded batch normalisation, and the network in half precision."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from tasks.extractors.dope.checkpoint import Checkpoint
from tasks.extractors.dope.layers import TorchLayers, split_resnet50
from tasks.extractors.dope.openvino_layers import BoxProducts, MappedWeights
from tasks.models.libraries import import_torchvision


@pytest.fixture(scope="module")
def weights() -> Mapping[str, Tensor]:
    import_torchvision()
    from torchvision.models import resnet50
    from torchvision.ops import FrozenBatchNorm2d

    torch.manual_seed(0)
    state = resnet50(norm_layer=FrozenBatchNorm2d).state_dict()
    for key, tensor in state.items():
        if key.endswith(("running_mean", "running_var")):
            state[key] = torch.rand_like(tensor) / 2 + 0.5
    return state


@pytest.mark.parametrize("eps", [0.0, 1e-5, 0.1])
def test_folded_equals_torchvisions_frozen_batch_norm(weights: Mapping[str, Tensor], eps: float) -> None:
    from functools import partial

    from torchvision.models import resnet50
    from torchvision.ops import FrozenBatchNorm2d

    whole = resnet50(norm_layer=partial(FrozenBatchNorm2d, eps=eps)).eval()
    whole.load_state_dict(dict(weights))
    frame_layers, box_layers = split_resnet50(weights, eps)
    frame = torch.randn(1, 3, 64, 96)
    with torch.inference_mode():
        x = whole.maxpool(whole.relu(whole.bn1(whole.conv1(frame))))
        expected = whole.layer3(whole.layer2(whole.layer1(x)))
        features = frame_layers(frame)
        assert features.shape == (1, 1024, 4, 6)
        torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
        boxes, expected_boxes = box_layers(expected), whole.layer4(expected)
    torch.testing.assert_close(boxes, expected_boxes, rtol=1e-4, atol=1e-4 * float(expected_boxes.abs().max()))


def test_loading_leaves_the_weights_as_they_are(weights: Mapping[str, Tensor]) -> None:
    before = {key: tensor.clone() for key, tensor in weights.items()}
    split_resnet50(weights, 0.5)
    assert all(torch.equal(weights[key], before[key]) for key in before)


def test_a_channel_without_variance_is_its_bias(weights: Mapping[str, Tensor]) -> None:
    constant = dict(weights) | {"bn1.running_var": torch.zeros(64), "bn1.bias": torch.full((64,), 3.0)}
    frame_layers, _ = split_resnet50(constant, eps=0.0)
    with torch.inference_mode():
        conv1 = next(frame_layers.children())
        assert (conv1(torch.randn(1, 3, 8, 8)) == 3).all()


def test_the_last_layer_as_matrix_products(weights: Mapping[str, Tensor]) -> None:
    _, box_layers = split_resnet50(weights, 1e-5)
    crops = torch.rand(5, 1024, 7, 7)
    with torch.inference_mode():
        expected = box_layers(crops)
        made = BoxProducts(box_layers)(crops.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-5 * float(expected.abs().max()))


def test_mapped_weights_are_those_that_were_given_also_when_memory_was_released() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(300, 70), torch.nn.Linear(70, 3)).requires_grad_(False)
    before = [parameter.clone() for parameter in network.parameters()]
    mapped = MappedWeights(network, network[1])
    assert all(map(torch.equal, network.parameters(), before))
    mapped.release()
    assert all(map(torch.equal, network.parameters(), before))


@pytest.mark.slow
def test_half_precision(fake_model: Checkpoint) -> None:
    """On a processor it is only slower, but the same path: layers in float16, what comes out in float32."""
    half, single = (TorchLayers(fake_model.weights, 1e-5, half=half) for half in (True, False))
    assert {weight.dtype for weight in half.parameters()} == {torch.float16}
    pixels, crops = torch.randn(1, 3, 64, 64), torch.rand(2, 1024, 7, 7)
    with torch.inference_mode():
        coarse, exact = half.of_frames(pixels).features, single.of_frames(pixels).features
        coarse_boxes, exact_boxes = half.of_boxes(crops), single.of_boxes(crops)
    assert coarse.dtype == coarse_boxes.vectors.dtype == torch.float32
    assert 0 < (coarse - exact).norm() / exact.norm() < 0.02
    assert 0 < (coarse_boxes.vectors - exact_boxes.vectors).norm() / exact_boxes.vectors.norm() < 0.02
