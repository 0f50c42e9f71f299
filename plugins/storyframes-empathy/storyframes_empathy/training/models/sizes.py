"""The sizes of the models. The defaults are those of the implementations that the paper names; no torch is needed.

They are MMSA's entries for the data set MOSI, and of AMER its authors'. tests/data/empathy/parameters.json has the
numbers of parameters that follow from them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tasks import StrictSettings

Width = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]


class Sizes(StrictSettings):
    """What is common to them."""


class EfLstmSizes(Sizes):
    """One LSTM over all modalities side by side."""

    hidden: Width = 128
    layers: Width = 4
    dropout: Share = 0.5
    time_norm: bool = False  # batch normalisation of each time step, as MMSA has it, beside the z-scores


class LfLstmSizes(Sizes):
    """An LSTM for each modality, and layers over their last states."""

    hidden_v: Width = 128
    hidden_a: Width = 16
    hidden_t: Width = 128
    fused: Width = 128
    dropout: Share = 0.2


class TfnSizes(Sizes):
    """Sub-networks, whose outer product is what the last layers see."""

    hidden_v: Width = 128
    hidden_a: Width = 32
    hidden_t: Width = 128  # of its LSTM
    out_t: Width = 32
    fused: Width = 64
    dropout: Share = 0.3  # of the sub-networks of v and a
    fused_dropout: Share = 0.5
    padding_counts: bool = False  # v and a: mean over all frames, as MMSA has it, not over the valid ones


class AmerSizes(Sizes):
    """Layers of the encoders of each frame and of personality, and of the fusion."""

    encoder_v: tuple[Width, ...] = (512, 384, 256)
    encoder_a: tuple[Width, ...] = (1024, 512, 256)
    encoder_t: tuple[Width, ...] = (512, 256)
    encoder_p: tuple[Width, ...] = (512, 256)  # of personality, where it is given
    fused: Width = 512
    hidden: Width = 256
