"""The network of a feature of pictures: bytes in, rows of numbers out, around a model of any library.

A :class:`Backbone` is what is asked of a model, a :class:`Readout` pools its layers, and an :class:`EmbeddingNetwork`
puts the normalisation of bytes before it. Imports torch.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.loading import activated
from tasks.extractors.embed.settings import Activation
from tasks.extractors.image.settings import Pool


class Backbone(torch.nn.Module, ABC):
    """A model of pictures."""

    layers: int  # how many it has. Layer 0 is what goes into the first, ``layers`` what the model ends with
    tells_layers: bool = True  # whether its layers can be read out; otherwise only the last
    has_class_token: bool = False  # whether its first token represents the whole picture
    prefix: int = 0  # how many tokens come before those of patches: the class token, registers
    foldable: bool = False  # whether batch normalisations are folded where its own pool is read

    @abstractmethod
    def states(self, pixels: torch.Tensor, layers: Sequence[int]) -> list[torch.Tensor]:
        """Of normalised images (n, 3, height, width), for each of the layers, its (n, tokens, width)."""

    @abstractmethod
    def pooled(self, pixels: torch.Tensor) -> torch.Tensor:
        """Of normalised images (n, 3, height, width) the (n, width) rows that the model itself makes of them."""

    @abstractmethod
    def scored(
        self, pixels: torch.Tensor, layers: Sequence[int], *, pooled: bool
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """By one pass over images (n, 3, height, width), of a model with its head, its layers and its head's numbers.

        Args:
            pooled: give what :meth:`pooled` gives in place of layers.

        Returns:
            What :meth:`states` gives, or a list with what :meth:`pooled` gives; and (n, labels).
        """

    def check(self, layer: int) -> None:
        """Refuse a layer whose tokens cannot be had of this model.

        Raises:
            ValueError: why not.
        """


class Readout(torch.nn.Module):
    """Normalised images in, rows out: the chosen layers, pooled and concatenated.

    Args:
        layers: of the backbone, from 0 (the input of its first layer) to ``backbone.layers``.
    """

    def __init__(self, backbone: Backbone, layers: Sequence[int], pool: Pool) -> None:
        super().__init__()
        self.backbone = backbone
        self.layers = tuple(layers)
        self.pool = pool

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        if self.pool is Pool.MODEL:
            return self.backbone.pooled(pixels)
        states = self.backbone.states(pixels, self.layers)
        return torch.cat([self.pooled(tokens) for tokens in states], dim=-1)

    def pooled(self, tokens: torch.Tensor) -> torch.Tensor:
        """The row of a layer's tokens."""
        if self.pool is Pool.CLS:
            return tokens[:, 0]
        return tokens[:, self.backbone.prefix :].mean(dim=1) if self.pool is Pool.MEAN else tokens


class ScoredReadout(torch.nn.Module):
    """Normalised images in, scores out, behind the rows of a readout if there is one; by one pass.

    Args:
        hidden: what is read of the backbone's layers.
        activation: what makes scores of the head's numbers.
    """

    def __init__(self, backbone: Backbone, hidden: Readout | None, activation: Activation) -> None:
        super().__init__()
        self.backbone, self.hidden, self.activation = backbone, hidden, activation

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        hidden = self.hidden
        if hidden is None:
            return activated(self.backbone.scored(pixels, (), pooled=False)[1], self.activation)
        pooled = hidden.pool is Pool.MODEL
        states, numbers = self.backbone.scored(pixels, () if pooled else hidden.layers, pooled=pooled)
        rows = states if pooled else [hidden.pooled(tokens) for tokens in states]
        return torch.cat([*(row.float() for row in rows), activated(numbers, self.activation)], dim=-1)


def read_out(backbone: Backbone, layers: Sequence[int], pool: Pool, section: str) -> Readout:
    """The readout of the layers, negative ones counted from the end.

    Raises:
        ExtractionError: the model has no such layer or cannot be pooled so.
    """
    last = backbone.layers
    for layer in layers:
        if not backbone.tells_layers and layer != -1:
            raise ExtractionError(
                f"{section} layer = {layer}: the layers of this model cannot be told: only the last, -1"
            )
        if not -last - 1 <= layer <= last:
            raise ExtractionError(
                f"{section} layer = {layer}: the model has the layers 0 to {last} (or -1 for the last, down to "
                f"{-last - 1})"
            )
        if pool is Pool.MODEL:
            continue
        try:
            backbone.check(layer % (last + 1))
        except ValueError as error:
            raise ExtractionError(f"{section} layer = {layer}: {error}") from None
    chosen = [layer % (last + 1) for layer in layers]
    if pool is Pool.MODEL and chosen != [last]:
        raise ExtractionError(
            f"{section} pool = 'model' is made of the last layer alone: set pool = 'mean' or 'cls' for layer = "
            f"{layers[0] if len(layers) == 1 else list(layers)}"
        )
    if pool is Pool.CLS and not backbone.has_class_token:
        raise ExtractionError(f"{section} pool = 'cls': the model has no class token; set pool = 'model' or 'mean'")
    return Readout(backbone, chosen, pool)


def has_batch_norm(backbone: Backbone) -> bool:
    """Whether it has batch normalisations, which an engine can fold into the convolutions before them."""
    return any(isinstance(module, torch.nn.BatchNorm2d) for module in backbone.modules())


@contextmanager
def outputs_of(
    modules: dict[int, torch.nn.Module], first: torch.nn.Module | None = None
) -> Iterator[dict[int, object]]:
    """What modules give while the model runs, by number; with ``first``, as number 0, what goes into that one."""
    outputs: dict[int, object] = {}
    hooks = [
        module.register_forward_hook(lambda _module, _given, out, number=number: outputs.__setitem__(number, out))
        for number, module in modules.items()
    ]
    if first is not None:
        hooks.append(first.register_forward_pre_hook(lambda _module, given: outputs.__setitem__(0, given[0])))
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()


def as_tokens(state: object, *, channels_last: bool = False) -> torch.Tensor:
    """What a layer gives, as (n, tokens, width): of maps the places row by row."""
    tensor = state[0] if isinstance(state, tuple | list) else state
    if not isinstance(tensor, torch.Tensor) or tensor.ndim not in (3, 4):
        raise ValueError("what this layer gives is neither tokens nor maps")
    if tensor.ndim == 3:
        return tensor
    return tensor.flatten(1, 2) if channels_last else tensor.flatten(2).transpose(1, 2)


class EmbeddingNetwork(torch.nn.Module):
    """(n, height, width, 3) uint8 RGB images in, (n, …) rows out.

    Args:
        pooled: from normalised images, (n, 3, height, width), to rows; may be in any precision.
        mean, std: of each channel, for values that are ``1 / scale`` of the bytes.
        scale: 255 where the model wants 0..1.
        foldable: whether batch normalisations of ``pooled`` are to be folded into the convolutions before them.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(
        self,
        pooled: torch.nn.Module,
        mean: Sequence[float],
        std: Sequence[float],
        scale: float = 255.0,
        *,
        foldable: bool = False,
    ) -> None:
        super().__init__()
        self.pooled = pooled
        self.foldable = foldable
        self.register_buffer("mean", scale * torch.tensor(mean)[:, None, None])
        self.register_buffer("std", scale * torch.tensor(std)[:, None, None])

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        normalised = (images.permute(0, 3, 1, 2) - self.mean) / self.std
        return self.pooled(normalised.to(next(self.pooled.parameters()).dtype))


def trial_row(network: EmbeddingNetwork, size: tuple[int, int], section: str) -> tuple[int, ...]:
    """The shape of the network's rows for images of (height, width) ``size``; two passes have to give the same row.

    Raises:
        ExtractionError: the model cannot be read out so, gives no row, or something else each time.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        image = torch.randint(0, 256, (1, *size, 3), dtype=torch.uint8)
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


def load_state(model: torch.nn.Module, path: Path) -> None:
    """Load all of the model's weights, and no others, from safetensors or torch's file, without running code in it.

    Args:
        model: on the processor, float32.
        path: ``.safetensors``, or what torch saved, of which only tensors are read.

    Raises:
        ExtractionError: the file is damaged, or of another model.
    """
    try:
        safe = path.suffix == ".safetensors"
        state = load_file(path, device="cpu") if safe else torch.load(path, map_location="cpu", weights_only=True)
        model.load_state_dict(state)
    except (
        OSError,
        EOFError,
        RuntimeError,
        SafetensorError,
        pickle.UnpicklingError,
        TypeError,
        AttributeError,
    ) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        reason = " ".join(line.strip() for line in lines[:2])
        raise ExtractionError(f"{path.name}: is not a file of this model's weights ({reason[:300]})") from None
