"""ResNet-50 of a DOPE model: layers up to stride 16 for whole frames, the last one for single boxes.

He et al., "Deep residual learning for image recognition", CVPR 2016, as in torchvision (stride in the 3 x 3
convolution), with batch normalisation frozen.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from tasks.models.libraries import import_torchvision

STRIDE = 16  # pixels of the resized frame per cell of the feature map


def split_resnet50(weights: Mapping[str, Tensor], eps: float) -> tuple[nn.Module, nn.Module]:
    """The frame part, (B, 3, H, W) -> (B, 1024, H/16, W/16), and the box part, (N, 1024, 7, 7) -> (N, 2048, 4, 4).

    Args:
        weights: of ``torchvision.models.resnet50``, float32.
        eps: of batch normalisation.
    """
    import_torchvision()
    from torchvision.models import resnet50
    from torchvision.ops import FrozenBatchNorm2d

    with torch.device("meta"):
        resnet = resnet50(norm_layer=FrozenBatchNorm2d)
    resnet.load_state_dict(dict(weights), assign=True)
    _fold_batch_norms(resnet, eps)
    layers = (resnet.conv1, resnet.relu, resnet.maxpool, resnet.layer1, resnet.layer2, resnet.layer3)
    return nn.Sequential(*layers), resnet.layer4


def _fold_batch_norms(resnet: nn.Module, eps: float) -> None:
    """Moves every frozen batch normalisation into the convolution before it: the same function, a third faster."""
    from torchvision.ops import FrozenBatchNorm2d

    pairs = (("conv1", "bn1"), ("conv2", "bn2"), ("conv3", "bn3"), ("0", "1"))  # the last is a block's shortcut
    for block in list(resnet.modules()):
        for conv_name, norm_name in pairs:
            norm = getattr(block, norm_name, None)
            if isinstance(norm, FrozenBatchNorm2d):
                setattr(block, conv_name, _folded(getattr(block, conv_name), norm, eps))
                setattr(block, norm_name, nn.Identity())


def _folded(conv: nn.Conv2d, norm: nn.Module, eps: float) -> nn.Conv2d:
    weight, bias, mean, variance = (buffer.double() for buffer in norm.buffers())  # the order of FrozenBatchNorm2d
    deviation = (variance + eps).sqrt()
    # A channel without any variance is constant; it contributes its bias, and no division by zero.
    scale = torch.where(deviation > 0, weight / deviation, 0.0)
    conv.weight = nn.Parameter((conv.weight.double() * scale[:, None, None, None]).float(), requires_grad=False)
    conv.bias = nn.Parameter((bias - mean * scale).float(), requires_grad=False)
    return conv
