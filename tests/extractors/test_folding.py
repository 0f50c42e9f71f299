"""Batch normalisations are folded where nothing else takes a convolution's output, and values stay what they were."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.fx.experimental.optimization import fuse

from tasks.extractors.image.folding import fold_batch_norms
from tasks.models.libraries import import_torchvision

Forward = Callable[["Network", torch.Tensor], torch.Tensor | tuple[torch.Tensor, ...]]
torch.set_num_threads(1)  # as in a worker
IMAGES = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


class Network(torch.nn.Module):
    """A convolution and a batch normalisation, registered one after the other, that are used in some way."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.conv, self.norm, self.other_norm = torch.nn.Conv2d(3, 3, 1), norm(), norm()
        self._forward = forward

    def forward(self, images: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
        return self._forward(self, images)


class Shifted(torch.nn.BatchNorm2d):
    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return super().forward(values) + 1


def norm(kind: type[torch.nn.BatchNorm2d] = torch.nn.BatchNorm2d) -> torch.nn.BatchNorm2d:
    return with_statistics(kind(3))


def with_statistics(module: torch.nn.BatchNorm2d) -> torch.nn.BatchNorm2d:
    for values in (module.running_mean, module.running_var, module.weight, module.bias):
        torch.nn.init.uniform_(values, 0.5, 2)
    return module


def norms_of(network: torch.nn.Module) -> int:
    return sum(isinstance(module, torch.nn.BatchNorm2d) for module in network.modules())


def conv_taken_by(take: Callable[[Network, torch.Tensor], torch.Tensor | tuple[torch.Tensor, ...]]) -> Forward:
    return lambda network, images: take(network, network.conv(images))


FOLDED = {
    "relu of it": conv_taken_by(lambda network, made: torch.relu_(network.norm(made))),
    "and of the images": lambda network, images: network.norm(network.conv(images)) + network.other_norm(images),
}
NOT_FOLDED = {
    "norm before": lambda network, images: network.conv(network.norm(images)),
    "something between": conv_taken_by(lambda network, made: network.norm(made.relu())),
    "sum": conv_taken_by(lambda network, made: network.norm(made) + made),
    "in a list": conv_taken_by(lambda network, made: torch.cat([network.norm(made), made])),
    "by name": conv_taken_by(lambda network, made: torch.add(input=network.norm(made), other=made)),
    "mask": conv_taken_by(lambda network, made: network.norm(made) * (made > 0)),
    "changed in place": conv_taken_by(lambda network, made: network.norm(made.mul_(2))),
    "a view": conv_taken_by(lambda network, made: network.norm(made) * made.view(-1)[0]),
    "without gradient": conv_taken_by(lambda network, made: network.norm(made) * made.detach()),
    "two norms": conv_taken_by(lambda network, made: network.norm(made) + network.other_norm(made)),
    "returned": conv_taken_by(lambda network, made: (network.norm(made), made)),
    "norm used twice": lambda network, images: network.norm(network.conv(images)) + network.norm(images),
    "convolution used twice": lambda network, images: network.norm(network.conv(images)) + network.conv(-images),
}


@pytest.mark.parametrize(
    ("forward", "left"),
    [
        *(pytest.param(forward, 1, id=name) for name, forward in FOLDED.items()),
        *(pytest.param(forward, 2, id=name) for name, forward in NOT_FOLDED.items()),
    ],
)
def test_only_what_alone_takes_a_convolutions_output_is_folded(forward: Forward, left: int) -> None:
    torch.manual_seed(0)
    network = Network(forward).eval()
    with torch.no_grad():
        expected = network(IMAGES)
        fold_batch_norms(network, (32, 32))
        torch.testing.assert_close(network(IMAGES), expected)
    assert norms_of(network) == left


def test_a_subclass_that_does_more_is_not_folded() -> None:
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 1), norm(Shifted), torch.nn.Conv2d(3, 3, 1), norm()).eval()
    with torch.no_grad():
        expected = network(IMAGES)
        fold_batch_norms(network, (32, 32))
        torch.testing.assert_close(network(IMAGES), expected)
    assert isinstance(network[1], Shifted)
    assert isinstance(network[3], torch.nn.Identity)


@pytest.mark.parametrize(("name", "left"), [("resnet18", 0), ("shufflenet_v2_x0_5", 0), ("mobilenet_v3_small", 0)])
def test_torchvisions_networks_give_the_very_values_of_torchs_own_folding(name: str, left: int) -> None:
    """Stored values are of it. torch's own traces with torch.fx, which other threads do not bear."""
    network = import_torchvision().models.get_model(name, weights=None).eval()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            with_statistics(module)
    with torch.no_grad():
        expected, unfolded = fuse(network)(IMAGES), network(IMAGES)
        fold_batch_norms(network, (32, 32))
        values = network(IMAGES)
    assert norms_of(network) == left
    torch.testing.assert_close(values, expected, rtol=0, atol=0)
    assert not torch.equal(values, unfolded)
