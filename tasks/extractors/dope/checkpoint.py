"""A DOPE model file, read and checked: weights, options, or one error that says what is wrong with the file.

The published files are called ``*.pth.tgz`` but are single ``torch.save`` files, neither tar nor gzip. They hold a
dict: ``half``, ``dope_kwargs``, ``state_dict`` and ``{body,hand,face}_ppi_kwargs``.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tasks.extractors.dope.checkpoint_options import network_options, ppi_options
from tasks.extractors.dope.checkpoint_weights import Weights, checked_weights
from tasks.extractors.dope.joints import Part
from tasks.extractors.dope.options import NetworkOptions, PpiOptions

# What a pickled numpy number consists of; options that came out of a computation may be such numbers.
_NUMPY_NUMBERS: list[Any] = [
    # its maker, under the names it has had before and since numpy 2
    *((np.float64().__reduce__()[0], f"numpy.{core}.multiarray.scalar") for core in ("core", "_core")),
    np.dtype,
    *(type(np.dtype(kind)) for kind in "?bBhHiIlLqQefd"),
    codecs.encode,
]


class CheckpointError(ValueError):
    """A model file that is damaged, or is none of DOPE's. The message names the file, the value and the rule."""


@dataclass(frozen=True)
class Checkpoint:
    """What a model file holds.

    Attributes:
        path: the file.
        half: whether the model was published for float16.
        network: the network's options.
        ppi: the options of pose proposals integration.
        weights: all weights, float32, on the processor.
    """

    path: Path
    half: bool
    network: NetworkOptions
    ppi: Mapping[Part, PpiOptions]
    weights: Weights


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Reads and checks a model file. No code in the file is run (``weights_only``).

    Raises:
        CheckpointError: no such file, not a torch file, truncated, or not the content of a DOPE model.
    """
    path = Path(path)
    content = _unpickled(path)
    try:
        half, state_dict = _typed(content, "half", bool), _typed(content, "state_dict", dict)
        network = network_options(_typed(content, "dope_kwargs", dict))
        ppi = {
            part: ppi_options(_typed(content, f"{part.value}_ppi_kwargs", dict), part, network.num_anchor_poses[part])
            for part in Part
        }
        weights = checked_weights(state_dict, network.num_anchor_poses)
    except ValueError as error:
        raise CheckpointError(f"{path}: not a usable DOPE model: {error}") from error
    return Checkpoint(path, half, network, ppi, weights)


def _unpickled(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file; it must be a DOPE model file")
    try:
        with torch.serialization.safe_globals(_NUMPY_NUMBERS):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling a damaged file can fail with nearly any exception
        raise CheckpointError(
            f"{path} ({path.stat().st_size} bytes): torch cannot read it ({_reason(error)}); it must be a complete "
            "file written by torch.save that holds only tensors, dicts, lists, strings and numbers"
        ) from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: holds a {type(content).__name__}; a DOPE model file holds a dict")
    return content


def _reason(error: Exception) -> str:
    # torch puts its reason below an advice to load the file without protection, which nobody should follow.
    told = str(error).split("WeightsUnpickler error: ")[-1].strip()
    return told.splitlines()[0] if told else type(error).__name__


def _typed(content: Mapping[str, Any], key: str, kind: type) -> Any:
    if key not in content:
        raise ValueError(f"has no {key!r}, only {sorted(map(str, content))}")
    value = content[key]
    if not isinstance(value, kind):
        raise ValueError(f"{key!r} is a {type(value).__name__}; it must be a {kind.__name__}")
    return value
