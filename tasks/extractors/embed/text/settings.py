"""``[[embed]]`` with ``kind = "text"``; light, since planning reads it."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from tasks.extractors.embed.settings import EmbedSettings, Kind, Origin


class TextPool(StrEnum):
    """How the word pieces' vectors become one."""

    MODEL = "model"  # as the model's modules.json says: a model of sentences
    CLS = "cls"  # the vector of the mark of beginning
    MEAN = "mean"  # the mean over the pieces


class TextSettings(EmbedSettings):
    """A model of texts, of utterances and of stories.

    Attributes:
        pool: see :class:`TextPool`.
        prompt: put before every text, where the model was trained with one ("query: ").
        max_pieces: word pieces that go through the network at once, marks included; without it what the model reads.
    """

    kind: Literal[Kind.TEXT]
    pool: TextPool = TextPool.MODEL
    prompt: str = ""
    max_pieces: int | None = Field(default=None, ge=8)

    @model_validator(mode="after")
    def _reads_texts(self) -> Self:
        if self.origin not in (Origin.HF, Origin.PATH):
            raise ValueError(f"{self.origin}: has no models of texts: take hf:OWNER/NAME or path:FOLDER")
        if self.pool is TextPool.MODEL and self.layer != -1:
            raise ValueError("pool = 'model' is of the last layer: set pool = 'mean' or 'cls' with another layer")
        return self
