"""CAM++ (Wang et al., 2023), a network of 7 million weights that turns a voice into a vector, run from its weights.

Two residual layers shrink the bands, then each layer of three blocks adds 32 channels, weighted by what the sound
around each moment is like. Mean and standard deviation over time give the vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

_DILATIONS = {1: 1, 2: 2, 3: 2}  # by block
_AROUND = 100  # frames
MARK = "xvector.dense.linear.weight"
"""Weights of this name are of CAM++."""


def campplus(weights: Mapping[str, Tensor]) -> Callable[[np.ndarray], np.ndarray]:
    """Vectors (n, d) of bands (n, frames, 80)."""
    import torch
    from torch.nn import functional

    def normed(values: Tensor, name: str) -> Tensor:
        mean, variance = weights[f"{name}.running_mean"], weights[f"{name}.running_var"]
        return functional.batch_norm(values, mean, variance, weights.get(f"{name}.weight"), weights.get(f"{name}.bias"))

    def conv1d(values: Tensor, name: str, **options: int) -> Tensor:
        return functional.conv1d(values, weights[f"{name}.weight"], weights.get(f"{name}.bias"), **options)

    def conv2d(values: Tensor, name: str, stride: int = 1, padding: int = 1) -> Tensor:
        return functional.conv2d(values, weights[f"{name}.weight"], stride=(stride, 1), padding=padding)

    def residual(values: Tensor, name: str, stride: int) -> Tensor:
        inner = normed(conv2d(values, f"{name}.conv1", stride), f"{name}.bn1").relu()
        inner = normed(conv2d(inner, f"{name}.conv2"), f"{name}.bn2")
        if f"{name}.shortcut.0.weight" in weights:
            values = normed(conv2d(values, f"{name}.shortcut.0", stride, padding=0), f"{name}.shortcut.1")
        return (inner + values).relu()

    def layer(values: Tensor, name: str, dilation: int) -> Tensor:
        inner = conv1d(normed(values, f"{name}.nonlinear1.batchnorm").relu(), f"{name}.linear1")
        inner = normed(inner, f"{name}.nonlinear2.batchnorm").relu()
        local = conv1d(inner, f"{name}.cam_layer.linear_local", padding=dilation, dilation=dilation)
        around = functional.avg_pool1d(inner, _AROUND, ceil_mode=True).repeat_interleave(_AROUND, dim=2)
        around = inner.mean(dim=2, keepdim=True) + around[..., : inner.shape[2]]
        mask = conv1d(conv1d(around, f"{name}.cam_layer.linear1").relu(), f"{name}.cam_layer.linear2").sigmoid()
        return torch.cat([values, local * mask], dim=1)

    def run(bands: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            values = torch.from_numpy(bands).transpose(1, 2)[:, None]
            values = normed(conv2d(values, "head.conv1"), "head.bn1").relu()
            for name, stride in (("layer1.0", 2), ("layer1.1", 1), ("layer2.0", 2), ("layer2.1", 1)):
                values = residual(values, f"head.{name}", stride)
            values = normed(conv2d(values, "head.conv2", 2), "head.bn2").relu().flatten(1, 2)
            values = conv1d(values, "xvector.tdnn.linear", stride=2, padding=2)
            values = normed(values, "xvector.tdnn.nonlinear.batchnorm").relu()
            for block, dilation in _DILATIONS.items():
                number = 1
                while f"{(name := f'xvector.block{block}.tdnnd{number}')}.linear1.weight" in weights:
                    values, number = layer(values, name, dilation), number + 1
                name = f"xvector.transit{block}"
                values = conv1d(normed(values, f"{name}.nonlinear.batchnorm").relu(), f"{name}.linear")
            values = normed(values, "xvector.out_nonlinear.batchnorm").relu()
            pooled = torch.cat([values.mean(dim=2), values.std(dim=2)], dim=1)[..., None]
            vectors = normed(conv1d(pooled, "xvector.dense.linear"), "xvector.dense.nonlinear.batchnorm")
            return np.asarray(vectors[..., 0].numpy())

    return run
