"""``[[embed]]`` with ``kind = "audio"``; light, since planning reads it."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from tasks.extractors.embed.settings import EmbedSettings, Kind, Origin

USUAL_CHUNK_S = 30.0


class AudioPool(StrEnum):
    """What becomes of several layers."""

    NONE = "none"  # they stand side by side
    MEAN = "mean"  # their mean


class AudioSettings(EmbedSettings):
    """A model of sound.

    Attributes:
        pool: see :class:`AudioPool`.
        chunk_s: seconds of sound whose rows are kept of one window, without the context; without it 30, and of a model
            whose window is of one length what the context leaves of it.
        context_s: seconds of sound that a window has before and after its chunk.
    """

    kind: Literal[Kind.AUDIO]
    pool: AudioPool = AudioPool.NONE
    chunk_s: float | None = Field(default=None, gt=0, le=600, allow_inf_nan=False)
    context_s: float = Field(default=2.0, ge=0, le=60, allow_inf_nan=False)

    @model_validator(mode="after")
    def _hears(self) -> Self:
        if self.origin not in (Origin.HF, Origin.PATH):
            raise ValueError(f"{self.origin}: has no models of sound: take hf:OWNER/NAME or path:FOLDER")
        return self
