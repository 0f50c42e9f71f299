"""A BART that PyTorch Lightning trained, as a folder that :class:`storyframes_empathy.text.bart.Bart` loads.

Only tensors are read of the checkpoint, and no code of it is run: one that holds more than plain values is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from storyframes.store import new_folder
from storyframes_empathy.text.bart import BartError
from tasks.models import import_torchvision

_SHARED = "shared.weight"  # the words' vectors, which encoder and decoder have as well
_TIED = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


@dataclass(frozen=True)
class Converted:
    """What became of a checkpoint.

    Attributes:
        prefix: what stood before the names of BART's tensors.
        tensors: how many there are.
        left_out: tensors that are none of BART's: of a head, an optimiser.
    """

    prefix: str
    tensors: int
    left_out: int


def convert_checkpoint(checkpoint: Path, base: Path, out: Path) -> Converted:
    """Write a folder with a checkpoint's weights and another folder's configuration and tokenizer.

    Args:
        checkpoint: a file of PyTorch Lightning (``state_dict``) or of ``torch.save(model.state_dict())``.
        base: a folder of the same architecture, as transformers saves one: config.json and a tokenizer.
        out: the folder to make.

    Raises:
        BartError: the checkpoint holds more than tensors and plain values, or not the tensors of such a model.
        OSError: a file cannot be read, or the folder cannot be made.
    """
    _check_is_new(out)
    import_torchvision()  # which transformers imports, its own way
    import torch
    from transformers import AutoTokenizer, BartConfig, BartModel

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(base, local_files_only=True)
        model: Any = BartModel(BartConfig.from_pretrained(base, local_files_only=True))
    except (OSError, ValueError, KeyError) as error:
        raise BartError(f"{base}: has no configuration and tokenizer of BART ({type(error).__name__})") from None
    tensors = _tensors(checkpoint)
    expected = model.state_dict()
    prefix = _prefix(checkpoint, tensors, set(expected))
    found = {name: tensors[prefix + name] for name in expected if prefix + name in tensors}
    found |= {name: tensors[prefix + _SHARED] for name in _TIED if name not in found}
    for name, tensor in found.items():
        if tensor.shape != expected[name].shape:
            raise BartError(
                f"{checkpoint}: {prefix}{name} has the shape {tuple(tensor.shape)}, and {base} wants "
                f"{tuple(expected[name].shape)}: is it another size of BART?"
            )
    model.load_state_dict({name: tensor.to(torch.float32) for name, tensor in found.items()})
    with new_folder(out, partial(_check_is_new, out)) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    ours = {prefix + name for name in expected}
    return Converted(prefix, len(found), len(tensors.keys() - ours))


def _check_is_new(out: Path) -> None:
    if out.exists():
        raise BartError(f"{out} exists: give a new folder")


def _tensors(checkpoint: Path) -> Mapping[str, Any]:
    """By name, what of a checkpoint is a tensor."""
    import pickle

    import torch

    try:
        content = torch.load(checkpoint, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise BartError(
            f"{checkpoint}: holds more than tensors and plain values, which would have to be run to be read: refused. "
            "Where that code is installed, save model.state_dict() alone"
        ) from None
    except (RuntimeError, EOFError, ValueError) as error:
        raise BartError(f"{checkpoint}: is no checkpoint of PyTorch ({type(error).__name__})") from None
    state = content.get("state_dict", content) if isinstance(content, Mapping) else None
    tensors = {name: value for name, value in (state or {}).items() if isinstance(value, torch.Tensor)}
    if not tensors:
        raise BartError(f"{checkpoint}: holds no tensors under 'state_dict'")
    return tensors


def _prefix(checkpoint: Path, tensors: Mapping[str, Any], expected: set[str]) -> str:
    """The prefix of the names of BART's tensors with which all of them are found."""
    needed = expected - set(_TIED)
    for name in sorted(tensors, key=len):
        if name.endswith(_SHARED):
            prefix = name.removesuffix(_SHARED)
            missing = sorted(one for one in needed if prefix + one not in tensors)
            if not missing:
                return prefix
    where = [name for name in tensors if name.endswith(_SHARED)]
    why = f"lacks {missing[0]} beside {where[0]}" if where else f"has no tensor whose name ends with {_SHARED}"
    raise BartError(f"{checkpoint}: {why}: it is not a BART of the base's architecture")
