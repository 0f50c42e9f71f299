"""``[voices]``: the section of the configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tasks import StrictSettings


class VoicesSettings(StrictSettings):
    """``[voices]``

    Attributes:
        model: a file ``.pt`` of CAM++ or Resemblyzer, or ``.onnx``, or a folder with one; or turns in a file ``.rttm``
            or a folder of these; empty: voices are not told apart.
        front_end: what an ONNX file's inputs are computed by, if the file does not say it.
        speaker_probability: from which on a word has a speaker.
    """

    model: str = ""
    front_end: Literal["resemblyzer", "wespeaker", "3d-speaker", "waveform"] | None = None
    speaker_probability: float = Field(default=0.9, ge=0.5, lt=1)
