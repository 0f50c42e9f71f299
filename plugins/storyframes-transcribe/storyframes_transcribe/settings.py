"""``[transcribe]``: the section of the configuration."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from tasks import StrictSettings


class Device(StrEnum):
    """What the model computes on."""

    CPU = "cpu"
    CUDA = "cuda"

    @property
    def compute_type(self) -> str:
        """CTranslate2's name of the numbers that are computed with."""
        return "float16" if self is Device.CUDA else "int8"


class TranscribeSettings(StrictSettings):
    """``[transcribe]``

    Attributes:
        model: a published model's name, or the path of a folder with a model in CTranslate2's format.
        language: a code such as ``en``; None detects it in each recording's first stretches of voice.
        device: ``cpu`` computes with int8, ``cuda`` with float16.
        beam_size: how many hypotheses the decoder keeps.
        batch_size: stretches of voice that are decoded at the same time.
        voice_threshold: probability, 0 to 1, from which on 32 ms of sound count as voice.
        pause_s: a pause of so many seconds ends an utterance.
        crosstalk_db: a word is another person's where another microphone is louder by so much.
        speaker_probability: from which on a word on a microphone of several people is a person's.
        cpus: threads of a processor; 0 takes all that this process may use.
    """

    model: str = Field(default="large-v3", min_length=1)
    language: str | None = Field(default=None, pattern="^[a-z]{2,3}$")
    device: Device = Device.CPU
    beam_size: int = Field(default=5, ge=1, le=20)
    batch_size: int = Field(default=8, ge=1, le=64)
    voice_threshold: float = Field(default=0.5, gt=0, lt=1)
    pause_s: float = Field(default=1.0, gt=0, le=30)
    crosstalk_db: float = Field(default=3.0, ge=0.1, le=40)  # with 0, words as loud on both would lose both
    speaker_probability: float = Field(default=0.8, ge=0.5, lt=1)
    cpus: int = Field(default=0, ge=0)

    def value_settings(self) -> dict[str, object]:
        """What decides the words of a recording, besides the model: its digest stands for it."""
        names = ("language", "device", "beam_size", "batch_size", "voice_threshold")
        return {"compute_type": self.device.compute_type} | self.model_dump(mode="json", include=set(names))
