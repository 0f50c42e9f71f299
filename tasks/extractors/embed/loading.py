"""Models of transformers from a folder, with or without their heads, and what their files lack. Imports torch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.scores import CLASSIFIERS
from tasks.extractors.embed.settings import Activation, Kind
from tasks.models.libraries import import_torchvision

UNTRAINED_SEED = 0
_OF_TRAINING = ("masked_spec_embed", "num_batches_tracked")  # no value depends on them
_DENSE = "classifier.dense"
_OUTPUTS = ("classifier.out_proj", "classifier.output")
_OF_HEAD = ("classifier.", "projector.")


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
        ExtractionError: it has no head that is known, or weights are in no file and may not be random.
    """
    network, lacked, others = _with_head(kind, folder, where, dtype)
    if lacked and not allow_untrained:
        found = f"; its files have {', '.join(others[:8])}{', …' if len(others) > 8 else ''} instead" if others else ""
        raise ExtractionError(
            f"{where} has no trained head: no file has {', '.join(lacked[:4])}{', …' if len(lacked) > 4 else ''}, so "
            f"its scores would be random{found}; take a model that was trained for this, output = 'hidden', or "
            "allow_untrained = true"
        )
    return network


@lru_cache(maxsize=8)
def lacks_weights(kind: Kind, folder: Path, digest: str, where: str) -> bool:
    """Whether weights of a model with its head are in no file, the files being those of the digest."""
    return bool(_with_head(kind, folder, f"{where}:").missing)


def _with_head(kind: Kind, folder: Path, where: str, dtype: torch.dtype = torch.float32) -> Loaded:
    """A model with its head; of its missing weights those that values depend on.

    A head of sound that transformers does not have is recognised by the keys of its weights, as models of the field's
    speech emotions have it: see :class:`DenseHead`.

    Raises:
        ExtractionError: transformers has no head for such a model.
    """
    loaded = load_pretrained(folder, where, CLASSIFIERS[kind], dtype)
    missing = absent_weights(loaded)
    output = next((name for name in _OUTPUTS if f"{name}.weight" in loaded.unexpected), "")
    of_head = {f"{name}.{part}" for name in (_DENSE, output) for part in ("weight", "bias")}
    is_dense = set(loaded.unexpected) == of_head and all(name.startswith(_OF_HEAD) for name in missing)
    if not missing or kind is not Kind.AUDIO or not is_dense:
        return loaded._replace(missing=tuple(missing))
    pooling = getattr(loaded.network.config, "pooling_mode", "mean")
    if pooling != "mean":
        raise ExtractionError(f"{where} pooling_mode = {pooling!r} in config.json: supported is 'mean'")
    head = DenseHead(loaded.network.base_model, _tensors(folder, of_head, where), output)
    return Loaded(head.to(dtype).eval(), (), ())


def absent_weights(loaded: Loaded) -> list[str]:
    """The names of the weights that the model needs and no file has, statistics of normalisations among them."""
    own = loaded.network.state_dict()
    return [name for name in loaded.missing if name in own and not name.endswith(_OF_TRAINING)]


def load_whole(folder: Path, where: str, dtype: torch.dtype = torch.float32, unused: Iterable[str] = ()) -> Any:
    """A model without its head.

    Args:
        unused: parts of the names of weights that no value depends on, which may be in no file.

    Raises:
        ExtractionError: the folder holds no such model, or weights of it are in no file.
    """
    loaded = load_pretrained(folder, where, dtype=dtype)
    parts = tuple(unused)
    if missing := [name for name in absent_weights(loaded) if not any(part in name for part in parts)]:
        raise ExtractionError(
            f"{where} no file has {missing[0]} ({len(missing)} of the model's weights in all): they would be random "
            "numbers"
        )
    return loaded.network


def activated(logits: torch.Tensor, activation: Activation) -> torch.Tensor:
    """The scores (n, labels), float32, of a head's numbers."""
    numbers = logits.float()
    if activation is Activation.SOFTMAX:
        return numbers.softmax(dim=-1)
    return numbers.sigmoid() if activation is Activation.SIGMOID else numbers


class DenseHead(torch.nn.Module):
    """A model of sound with a head: the mean over time, a dense layer, tanh, and an output layer.

    Args:
        base_model: without a head.
        tensors: the head's weights, by their keys in the files.
        output: the key of the output layer.
    """

    def __init__(self, base_model: Any, tensors: Mapping[str, torch.Tensor], output: str) -> None:
        super().__init__()
        self.base_model = base_model
        self.dense, self.output = (_linear(tensors, name) for name in (_DENSE, output))

    def forward(self, output_hidden_states: bool = False, **given: torch.Tensor) -> Any:
        from transformers.modeling_outputs import SequenceClassifierOutput

        outputs = self.base_model(**given, output_hidden_states=output_hidden_states)
        row = self.dense(outputs.last_hidden_state.mean(dim=1))
        return SequenceClassifierOutput(logits=self.output(torch.tanh(row)))


def _linear(tensors: Mapping[str, torch.Tensor], name: str) -> torch.nn.Linear:
    weight, bias = tensors[f"{name}.weight"].float(), tensors[f"{name}.bias"].float()
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


def _tensors(folder: Path, names: set[str], where: str) -> dict[str, torch.Tensor]:
    """Some of a model's weights, from all its files."""
    found: dict[str, torch.Tensor] = {}
    safe = sorted(folder.glob("model*.safetensors"))
    for path in safe:
        with safe_open(path, "pt") as file:
            found |= {name: file.get_tensor(name) for name in names & set(file.keys())}
    for path in [] if safe else sorted(folder.glob("pytorch_model*.bin")):
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        found |= {name: state[name] for name in names & set(state)}
    if lacking := sorted(names - set(found)):
        raise ExtractionError(f"{where} no file has {lacking[0]}")
    return found
