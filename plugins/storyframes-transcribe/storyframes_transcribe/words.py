"""Words as a microphone heard them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from storyframes.times import Clock


@dataclass(frozen=True)
class HeardWord:
    """A word as a microphone heard it.

    Attributes:
        text: with its punctuation. Never shown.
        start_s, end_s: seconds of the recording.
        confidence: the model's probability, 0 to 1.
        level_db: of the sound meanwhile, dB of full scale.
        is_crosstalk: another person said it.
        is_uncertain: another person may have said it.
    """

    text: str
    start_s: float
    end_s: float
    confidence: float
    level_db: float = 0.0
    is_crosstalk: bool = False
    is_uncertain: bool = False

    def __repr__(self) -> str:
        return f"HeardWord({self.start_s:.2f} s)"  # a traceback shows no word

    def on_session(self, clock: Clock) -> HeardWord:
        """The same word in seconds of the session, given the clock of its recording."""
        start_s, end_s = clock.to_session((self.start_s, self.end_s))
        return replace(self, start_s=float(start_s), end_s=float(end_s))


@dataclass(frozen=True)
class Heard:
    """The words of a piece, with the language that they are in and how probable it is."""

    words: tuple[HeardWord, ...]
    language: str
    probability: float
