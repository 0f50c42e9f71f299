"""What a study of synthetic recordings is to be like; ``synthesize`` writes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Shape(StrEnum):
    """Which people the study records, and with which devices."""

    EMPATHIC_STORIES = "empathicstories"
    DYAD = "dyad"
    GROUP = "group"


class SynthesisError(Exception):
    """The study cannot be written to this folder."""


@dataclass(frozen=True)
class SyntheticStudy:
    """A plan of a synthetic study."""

    sessions: int
    seconds: float  # length of each
    seed: int = 0  # seeds everything
    # width, height: of the videos, pixels
    width: int = 320
    height: int = 240
    shape: Shape = Shape.EMPATHIC_STORIES

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the videos, pixels."""
        return self.width, self.height

    @property
    def session_ids(self) -> list[str]:
        return [f"s{number:04d}" for number in range(1, self.sessions + 1)]
