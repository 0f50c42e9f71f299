"""Reading a file of weights without running anything that is in it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from tasks.extractors.base import ExtractionError


def load_state(model: torch.nn.Module, path: Path) -> None:
    """Give a model the weights of a file, which have to be all of its own and no others.

    Args:
        model: on the processor, float32.
        path: ``.safetensors``, or what torch saved, of which only tensors are read.

    Raises:
        ExtractionError: the file is damaged, or of another model.
    """
    try:
        state = read_state(path)
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


def read_state(path: Path) -> Any:
    """The tensors of a file, by name."""
    if path.suffix == ".safetensors":
        return load_file(path, device="cpu")
    return torch.load(path, map_location="cpu", weights_only=True)
