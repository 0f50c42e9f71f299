"""A model of texts as a section ``[[embed]]`` describes it, and how wide its rows are by its configuration files.

Planning reads this, so nothing is loaded here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from tasks.extractors.base import ExtractionError
from tasks.extractors.embed.local_model import LocalModel
from tasks.extractors.embed.settings import EmbedSettings, Kind, Origin

_WIDTH = ("hidden_size", "d_model", "dim", "n_embd", "emb_dim")
_DEPTH = ("num_hidden_layers", "n_layers", "n_layer", "num_layers", "encoder_layers")
_SAME_WIDTH = {"Normalize", "Dropout", "LayerNorm"}


class TextPool(StrEnum):
    """How the word pieces' vectors become one."""

    MODEL = "model"  # as the model's modules.json says: a model of sentences
    CLS = "cls"  # the vector of the mark of beginning
    MEAN = "mean"  # the mean over the pieces
    LAST = "last"  # the vector of the last piece, which has seen all others in a decoder


class TextSettings(EmbedSettings):
    """A model of texts, of utterances and of stories."""

    kind: Literal[Kind.TEXT]
    pool: TextPool = TextPool.MODEL
    prompt: str = ""  # put before every text, where the model was trained with one ("query: ")
    # word pieces that go through the network at once, marks included; without it what the model reads
    max_pieces: int | None = Field(default=None, ge=8)

    @model_validator(mode="after")
    def _reads_texts(self) -> Self:
        if self.origin not in (Origin.HF, Origin.PATH):
            raise ValueError(f"{self.origin}: has no models of texts: take hf:OWNER/NAME or path:FOLDER")
        if self.pool is TextPool.MODEL and self.layer != -1:
            raise ValueError("pool = 'model' is of the last layer: set another pool with another layer")
        if self.pool is TextPool.MODEL and self.gives_hidden and self.gives_scores:
            raise ValueError(
                "pool = 'model' is of models of sentences, which have no head: set pool = 'mean' or 'cls', of a "
                "decoder 'last'"
            )
        return self


@dataclass(frozen=True)
class TextShape:
    """What a model of texts gives."""

    width: int  # numbers of one layer's vector, or of the model's own
    depth: int  # blocks
    unit_length: bool = False  # the model itself makes its vectors of length 1


def text_shape(model: LocalModel, settings: TextSettings) -> TextShape:
    """The shape of a model.

    Raises:
        ExtractionError: it is no model of texts, or has no pooling of its own where the section asks for it.
    """
    if not settings.gives_hidden:
        return TextShape(0, 0)
    where = settings.label
    width, depth = _first(model.config, _WIDTH), _first(model.config, _DEPTH)
    if not width or not depth:
        raise ExtractionError(f"{where} is no model of texts: its config.json has neither width nor depth")
    if settings.pool is not TextPool.MODEL:
        return TextShape(width, depth)
    folder = model.folder or Path()
    if not model.modules:
        raise ExtractionError(
            f"{where} has no pooling of its own (modules.json): set pool = 'mean' or 'cls', of a decoder 'last'"
        )
    unit_length = False
    for module in model.modules:
        kind, part = module["type"].rpartition(".")[2], folder / module.get("path", "")
        if kind == "Pooling":
            width = _pooled(_read(part / "config.json", where), width)
        elif kind == "Dense":
            width = _dense(_read(part / "config.json", where), where)
        elif kind not in {"Transformer", *_SAME_WIDTH}:
            raise ExtractionError(f"{where} has a part {kind!r}, which is not supported: set pool = 'mean' or 'cls'")
        unit_length = kind == "Normalize"
    return TextShape(width, depth, unit_length)


def _first(config: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    return next((config[key] for key in keys if isinstance(config.get(key), int)), 0)


def _pooled(config: Mapping[str, Any], width: int) -> int:
    """The width of a pooling: the vectors of several ways are concatenated."""
    ways = sum(value is True for key, value in config.items() if key.startswith("pooling_mode_"))
    return width * max(ways, 1)


def _dense(config: Mapping[str, Any], where: str) -> int:
    """The width of a dense layer. Another activation than torch's would be replaced by a tanh, in silence."""
    activation = str(config.get("activation_function", "torch."))
    if not activation.startswith("torch."):
        raise ExtractionError(f"{where} wants code of its own ({activation!r}), which is never run here")
    return int(config["out_features"])


def _read(path: Path, where: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ExtractionError(f"{where}: {path.name} cannot be read ({type(error).__name__})") from None
