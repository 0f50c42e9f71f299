"""``[[embed]]`` with ``kind = "image"``; light, since planning reads it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from tasks.extractors.embed.settings import EmbedSettings, Kind, Output
from tasks.extractors.settings import NetworkSettings


class Pool(StrEnum):
    """How a picture's tokens become one row."""

    MODEL = "model"  # as the model itself does it
    CLS = "cls"  # its class token
    MEAN = "mean"  # the mean of its patches' tokens, or of a map's places
    NONE = "none"  # all tokens, or places


class Crop(StrEnum):
    """What of a frame the model sees."""

    FRAME = "frame"
    FACE = "face"  # the square around the landmarks of a face


class StoredAs(StrEnum):
    """In what the rows are stored."""

    FLOAT16 = "float16"
    FLOAT32 = "float32"


class ImageSettings(EmbedSettings, NetworkSettings):
    """A model of pictures, of every frame."""

    kind: Literal[Kind.IMAGE]
    pool: Pool = Pool.MODEL
    crop: Crop = Crop.FRAME
    # of which feature of the session, for ``crop = "face"``: openface, face, dope, or another's
    landmarks: str = "openface"
    # added to the square around the landmarks on each side, in sides of it
    margin: float = Field(default=0.2, ge=0, le=2)
    # look at every n-th frame only; the others are NaN, and ``valid`` is 0
    every_n_frames: int = Field(default=1, ge=1)
    dtype: StoredAs = StoredAs.FLOAT16  # in what the rows are stored; of scores float32

    @model_validator(mode="before")
    @classmethod
    def _scores_are_exact(cls, content: Any) -> Any:
        """Scores are stored in float32 unless ``dtype`` says otherwise: float16 has three digits."""
        if not isinstance(content, dict) or "dtype" in content:
            return content
        output = content.get("output")
        gives_scores = isinstance(output, str | list | tuple) and Output.SCORES in output
        return content | {"dtype": StoredAs.FLOAT32} if gives_scores else content

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.pool is Pool.MODEL and self.layer != -1:
            raise ValueError("pool = 'model' is of the last layer: set pool = 'mean' or 'cls' with another layer")
        if self.pool is Pool.NONE and self.gives_scores:
            raise ValueError("pool = 'none' has many tokens of a picture, and scores are one row: take another pool")
        if self.crop is Crop.FRAME:
            for name in sorted({"landmarks", "margin"} & self.model_fields_set):
                raise ValueError(f"{name} is of crop = 'face'")
        return self

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.landmarks,) if self.crop is Crop.FACE else ()

    @property
    def masked(self) -> bool:
        """Whether some frames have no row."""
        return self.crop is Crop.FACE or self.every_n_frames > 1
