"""Models of transformers from a folder, with or without their heads, and what their files lack. Imports torch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.scores import CLASSIFIERS
from tasks.extractors.embed.settings import Activation, Kind
from tasks.models.libraries import import_torchvision

UNTRAINED_SEED = 0
_OF_TRAINING = "masked_spec_embed"  # a weight that no value depends on


class Loaded(NamedTuple):
    """A model, and how it differs from its files.

    Attributes:
        network: in evaluation mode, on the processor.
        missing: the names of its weights that no file has, which are random.
        unexpected: the names in its files that are of no weight of it.
    """

    network: Any
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]


def load_pretrained(folder: Path, where: str, loader: str = "AutoModel", dtype: torch.dtype = torch.float32) -> Loaded:
    """A model of transformers; what its files lack is drawn by chance, the same each time.

    Args:
        where: begins the sentence of an error.
        loader: the class of transformers that loads it.

    Raises:
        ExtractionError: the folder holds no such model.
    """
    os.environ["HF_HUB_OFFLINE"] = "1"  # the model is on this machine; the hub must not be asked
    import_torchvision()  # transformers imports it too, and fails on a wheel that does not match torch
    import transformers
    from transformers.utils.logging import disable_progress_bar, set_verbosity_error

    disable_progress_bar()
    set_verbosity_error()  # what is missing is looked at here, and is an error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(UNTRAINED_SEED)
        try:
            network, report = getattr(transformers, loader).from_pretrained(
                folder,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=bool(list(folder.glob("*.safetensors"))),
                dtype=dtype,
                output_loading_info=True,
            )
        except (OSError, ValueError, RuntimeError, TypeError, AttributeError, KeyError, SafetensorError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ExtractionError(f"{where} transformers cannot load the model: {reason[:300]}") from None
    return Loaded(network.eval(), tuple(sorted(report["missing_keys"])), tuple(sorted(report["unexpected_keys"])))


def load_classifier(
    kind: Kind, folder: Path, where: str, *, allow_untrained: bool = False, dtype: torch.dtype = torch.float32
) -> Any:
    """A model with its head.

    Raises:
        ExtractionError: transformers has no head for such a model, or weights are in no file and may not be random.
    """
    loaded = load_pretrained(folder, where, CLASSIFIERS[kind], dtype)
    if missing := absent_weights(loaded):
        refuse_untrained(missing, loaded.unexpected, where, allow_untrained=allow_untrained)
    return loaded.network


def absent_weights(loaded: Loaded) -> list[str]:
    """The names of the weights that the model needs and no file has."""
    own = {name for name, _ in loaded.network.named_parameters()}
    return [name for name in loaded.missing if name in own and not name.endswith(_OF_TRAINING)]


def refuse_untrained(missing: Iterable[str], unexpected: Iterable[str], where: str, *, allow_untrained: bool) -> None:
    """Refuse a model whose head would be random numbers, with the keys that its files have instead.

    Raises:
        ExtractionError: ``allow_untrained`` is False.
    """
    if allow_untrained:
        return
    lacked, others = list(missing), list(unexpected)
    found = f"; its files have {', '.join(others[:8])}{', …' if len(others) > 8 else ''} instead" if others else ""
    raise ExtractionError(
        f"{where} has no trained head: no file has {', '.join(lacked[:4])}{', …' if len(lacked) > 4 else ''}, so its "
        f"scores would be random{found}; take a model that was trained for this, output = 'hidden', or "
        "allow_untrained = true"
    )


@lru_cache(maxsize=8)
def lacks_weights(kind: Kind, folder: Path, digest: str, where: str) -> bool:
    """Whether weights of a model with its head are in no file, the files being those of the digest."""
    return bool(absent_weights(load_pretrained(folder, f"{where}:", CLASSIFIERS[kind])))


def activated(logits: torch.Tensor, activation: Activation) -> torch.Tensor:
    """The scores (n, labels), float32, of a head's numbers."""
    numbers = logits.float()
    if activation is Activation.SOFTMAX:
        return numbers.softmax(dim=-1)
    return numbers.sigmoid() if activation is Activation.SIGMOID else numbers
