"""Fold batch normalisations into the convolutions before them, which changes values by rounding alone. Imports torch.

Nothing here patches what other threads use: torch.fx would, as it replaces ``Module.__call__`` while it traces.
"""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import torch
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.overrides import TorchFunctionMode


class _Pass(TorchFunctionMode):
    """One pass through a network, with hooks on its modules, that records what takes each convolution's output.

    As a mode it sees every call of a function of torch in this thread, and none of another thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[torch.nn.Module] = Counter()
        self.takers: defaultdict[torch.nn.Conv2d, list[object]] = defaultdict(list)  # normalisations, functions
        self._outputs: dict[int, tuple[torch.nn.Conv2d, weakref.ref[torch.Tensor]]] = {}  # by id
        self._is_in_norm = False

    def take(self, values: object, taker: object) -> None:
        """Record that ``taker`` is given these values, at any depth of lists, tuples and mappings."""
        if isinstance(values, Mapping):
            values = tuple(values.values())
        if isinstance(values, list | tuple):
            for value in values:
                self.take(value, taker)
        elif id(values) in self._outputs:
            convolution, output = self._outputs[id(values)]
            if output() is values:  # not a later object with the id of one that is gone
                self.takers[convolution].append(taker)

    def after_convolution(self, convolution: torch.nn.Conv2d, _given: object, output: torch.Tensor) -> None:
        self.calls[convolution] += 1
        self._outputs[id(output)] = convolution, weakref.ref(output)

    def before_norm(self, norm: torch.nn.BatchNorm2d, given: tuple[object, ...]) -> None:
        self.calls[norm] += 1
        self.take(given, norm)
        self._is_in_norm = True

    def after_norm(self, _norm: torch.nn.BatchNorm2d, _given: object, _output: object) -> None:
        self._is_in_norm = False

    def __torch_function__(
        self, function: Callable[..., Any], _types: object, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not self._is_in_norm:
            self.take((args, kwargs), function)
        return function(*args, **kwargs)


def fold_batch_norms(network: torch.nn.Module, size: tuple[int, int]) -> None:
    """Fold each batch normalisation that alone takes the output of a convolution; the others stay.

    Which those are is recorded in a pass of one image, not taken from the modules' names or order.

    Args:
        network: from normalised images, (n, 3, height, width), on the processor, in evaluation mode, with one path for
            all images; it is changed.
        size: (height, width) pixels of its images.
    """
    folded = set()
    for convolution, norm in _foldable(network, size):
        fused = fuse_conv_bn_eval(convolution, norm)
        convolution.weight, convolution.bias = fused.weight, fused.bias
        folded.add(norm)
    for name, module in list(network.named_modules(remove_duplicate=False)):
        if module in folded:
            network.set_submodule(name, torch.nn.Identity())


def _foldable(
    network: torch.nn.Module, size: tuple[int, int]
) -> Iterator[tuple[torch.nn.Conv2d, torch.nn.BatchNorm2d]]:
    seen = _Pass()
    with ExitStack() as hooks, torch.no_grad():
        for module in network.modules():
            # Not subclasses, which may do more than convolve or normalise.
            if type(module) is torch.nn.Conv2d:
                hooks.callback(module.register_forward_hook(seen.after_convolution).remove)
            elif type(module) is torch.nn.BatchNorm2d:
                hooks.callback(module.register_forward_pre_hook(seen.before_norm).remove)
                hooks.callback(module.register_forward_hook(seen.after_norm).remove)
        with seen:
            output = network(torch.zeros(1, 3, *size))
    seen.take(output, network)
    for convolution, (norm, *others) in seen.takers.items():
        if others or not isinstance(norm, torch.nn.BatchNorm2d) or not norm.track_running_stats:
            continue
        if seen.calls[convolution] == seen.calls[norm] == 1:
            yield convolution, norm
