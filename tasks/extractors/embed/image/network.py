"""A model of pictures as a network that an engine computes, tried once before it is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.image.backbone import Readout, read_out
from tasks.extractors.embed.image.settings import Pool
from tasks.extractors.image_networks.embedding_network import EmbeddingNetwork

if TYPE_CHECKING:
    from tasks.extractors.embed.image.encoder import PreparedEncoder


def build_network(prepared: PreparedEncoder) -> EmbeddingNetwork:
    """The network on the processor, float32, in evaluation mode.

    Raises:
        ExtractionError: the model's files are not what they should be, it has no such layer or pool, it gives something
            else than the rows that are expected, or something else each time.
    """
    network = _made(prepared)
    row = _try(network, prepared)
    if prepared.row is not None and row != prepared.row:
        raise ExtractionError(
            f"{prepared.section} the model gives rows of {_sizes(row)}, but its configuration says "
            f"{_sizes(prepared.row)}"
        )
    return network


def try_network(prepared: PreparedEncoder) -> tuple[tuple[int, ...], int]:
    """The shape of its rows, and how many layers the model has; raises as :func:`build_network`."""
    network = _made(prepared)
    row = _try(network, prepared)
    readout = network.pooled
    assert isinstance(readout, Readout)
    return row, readout.backbone.layers


def _made(prepared: PreparedEncoder) -> EmbeddingNetwork:
    encoder, norm = prepared.encoder, prepared.normalisation
    backbone = encoder.backbone()
    readout = read_out(backbone, encoder.layers, encoder.pool, encoder.section)
    normalised = any(isinstance(module, torch.nn.BatchNorm2d) for module in backbone.modules())
    foldable = backbone.foldable and encoder.pool is Pool.MODEL and normalised
    return EmbeddingNetwork(readout, norm.mean, norm.std, norm.scale, foldable=foldable).eval()


def _try(network: EmbeddingNetwork, prepared: PreparedEncoder) -> tuple[int, ...]:
    """The shape of the rows: two passes of one image have to give the same one."""
    section = prepared.section
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        image = torch.randint(0, 256, (1, *prepared.size, 3), dtype=torch.uint8)
        try:
            with torch.inference_mode():
                first, second = network(image), network(image)
        except (RuntimeError, ValueError, TypeError, AssertionError, LookupError, AttributeError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ExtractionError(f"{section} the model cannot be read out so: {reason[:300]}") from None
    if first.ndim not in (2, 3) or len(first) != 1 or not first.is_floating_point():
        raise ExtractionError(
            f"{section} of one image the model gives {tuple(first.shape)}: a feature needs a row of it"
        )
    if first.isfinite().all() and not torch.equal(first, second):
        raise ExtractionError(
            f"{section} the model gives something else of the same image each time (it masks patches by chance, as for "
            "its training): a feature needs one that does not"
        )
    return tuple(first.shape[1:])


def _sizes(row: tuple[int, ...]) -> str:
    return " x ".join(map(str, row))
